//! Errata, by MIDR_EL1, for which programs are shown less than the ID registers say: the features
//! that Linux 6.12 hides from programs if any CPU is affected (`user_feature_fixup` in
//! `arch/arm64/kernel/cpufeature.c`, `arch/arm64/kernel/cpu_errata.c`).

use crate::register::{ID_AA64ISAR1_EL1, ID_AA64PFR1_EL1, Place, place};

/// A field that is hidden from programs if a CPU is affected.
struct Erratum {
    hidden: Place,
    affects: fn(Model) -> bool,
}

/// MIDR_EL1 and REVIDR_EL1 of a CPU.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    midr: u64,
    revision: u64,
}

/// The implementer Arm.
pub(crate) const ARM: u64 = 0x41;
const MICROSOFT: u64 = 0x6d;

/// An MSR to PSTATE.SSBS does not order later loads (Arm's erratum 3194386 and its kin). Programs
/// that do not see the HWCAP use prctl(2), which does not need the instruction.
const SSBS_NOT_ORDERED: &[(u64, u64)] = &[
    (ARM, 0xd0b),       // Cortex-A76
    (ARM, 0xd0c),       // Neoverse N1
    (ARM, 0xd0d),       // Cortex-A77
    (ARM, 0xd0e),       // Cortex-A76AE
    (ARM, 0xd40),       // Neoverse V1
    (ARM, 0xd41),       // Cortex-A78
    (ARM, 0xd42),       // Cortex-A78AE
    (ARM, 0xd44),       // Cortex-X1
    (ARM, 0xd47),       // Cortex-A710
    (ARM, 0xd48),       // Cortex-X2
    (ARM, 0xd49),       // Neoverse N2
    (ARM, 0xd4b),       // Cortex-A78C
    (ARM, 0xd4c),       // Cortex-X1C
    (ARM, 0xd4d),       // Cortex-A715
    (ARM, 0xd4e),       // Cortex-X3
    (ARM, 0xd4f),       // Neoverse V2
    (ARM, 0xd81),       // Cortex-A720
    (ARM, 0xd82),       // Cortex-X4
    (ARM, 0xd83),       // Neoverse V3AE
    (ARM, 0xd84),       // Neoverse V3
    (ARM, 0xd85),       // Cortex-X925
    (ARM, 0xd87),       // Cortex-A725
    (ARM, 0xd89),       // Cortex-A720AE
    (ARM, 0xd8e),       // Neoverse N3
    (MICROSOFT, 0xd49), // Azure Cobalt 100
];

const ERRATA: &[Erratum] = &[
    Erratum {
        hidden: place(ID_AA64PFR1_EL1, "SSBS"),
        affects: |model| SSBS_NOT_ORDERED.contains(&(model.implementer(), model.part())),
    },
    // BFMMLA may give wrong results (Cortex-A510's erratum 2658417, up to r1p1 unless REVIDR_EL1
    // shows the fix).
    Erratum {
        hidden: place(ID_AA64ISAR1_EL1, "BF16"),
        affects: |model| {
            let mended = model.variant_and_revision() == 0x11 && model.revision >> 25 & 1 != 0;
            (model.implementer(), model.part()) == (ARM, 0xd46)
                && model.variant_and_revision() <= 0x11
                && !mended
        },
    },
];

impl Model {
    /// The CPU with this MIDR_EL1 and REVIDR_EL1.
    pub(crate) const fn of(midr: u64, revision: u64) -> Model {
        Model { midr, revision }
    }

    pub(crate) const fn implementer(self) -> u64 {
        self.midr >> 24 & 0xff
    }

    pub(crate) const fn part(self) -> u64 {
        self.midr >> 4 & 0xfff
    }

    /// Variant and revision: r1p2 is 0x12.
    const fn variant_and_revision(self) -> u64 {
        self.midr >> 16 & 0xf0 | self.midr & 0xf
    }
}

/// The errata that affect any CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errata(u32);

impl Errata {
    /// No errata.
    pub(crate) const NONE: Errata = Errata(0);

    /// The errata of the CPU with this MIDR_EL1 and REVIDR_EL1.
    pub(crate) fn of(midr: u64, revision: u64) -> Errata {
        let model = Model::of(midr, revision);
        let affecting = ERRATA
            .iter()
            .enumerate()
            .filter(|(_, erratum)| (erratum.affects)(model));
        Errata(affecting.fold(0, |set, (at, _)| set | 1 << at))
    }

    /// The union of both.
    pub(crate) const fn with(self, other: Errata) -> Errata {
        Errata(self.0 | other.0)
    }

    /// The fields that are hidden from programs because of these errata.
    pub(crate) fn hidden(self) -> impl Iterator<Item = &'static Place> {
        ERRATA
            .iter()
            .enumerate()
            .filter(move |(at, _)| self.0 >> at & 1 != 0)
            .map(|(_, erratum)| &erratum.hidden)
    }

    /// The errata in `other` that are not in `self`.
    pub(crate) const fn missing(self, other: Errata) -> Errata {
        Errata(other.0 & !self.0)
    }
}
