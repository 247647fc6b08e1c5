//! Features that the kernel must turn on before programs may use them.

/// A feature that programs can use only if the kernel saves its state or enables it for EL0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Feature {
    /// Floating point and Advanced SIMD (CPACR_EL1.FPEN).
    FloatingPoint,
    /// SVE and SVE2 (CPACR_EL1.ZEN).
    Sve,
    /// SME (CPACR_EL1.SMEN).
    Sme,
    /// Memory tagging (SCTLR_EL1.ATA0, tagged memory types, tags kept with pages).
    Mte,
    /// Pointer authentication (keys per thread, SCTLR_EL1.EnIA and its siblings).
    PointerAuth,
    /// Branch target identification (the guarded-page bit of page-table entries).
    Bti,
    /// Memory copy and set instructions (SCTLR_EL1.MSCEn; the exceptions on migration).
    Mops,
    /// Permission overlays (CPACR_EL1.E0POE, POR_EL0).
    Poe,
    /// The floating-point mode register and FP8 (SCTLR_EL1.EnFPM).
    Fpmr,
}

/// A set of features that the kernel has turned on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enabled(u32);

impl Enabled {
    /// The empty set.
    pub const NONE: Enabled = Enabled(0);
    /// All features.
    pub const ALL: Enabled = Enabled((1 << (Feature::Fpmr as u32 + 1)) - 1);

    /// The set with `feature` added.
    pub const fn with(self, feature: Feature) -> Enabled {
        Enabled(self.0 | 1 << feature as u32)
    }

    /// The set without `feature`.
    pub const fn without(self, feature: Feature) -> Enabled {
        Enabled(self.0 & !(1 << feature as u32))
    }

    /// Whether `feature` is in the set.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & 1 << feature as u32 != 0
    }
}
