//! Predicates for the kernel. Each is a load, a shift and a compare; no register is read.

use crate::register::*;
use crate::{Feature, System};

/// The sanitised value of a field, which is located at compile time.
macro_rules! field {
    ($system:expr, $register:ident, $name:literal) => {
        $system.field(const { place($register, $name) })
    };
}

impl System {
    /// Whether all CPUs have `feature`; whether programs may use it is the kernel's choice
    /// ([`Enabled`](crate::Enabled)).
    pub const fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::FloatingPoint => self.fp() && field!(self, ID_AA64PFR0_EL1, "AdvSIMD") >= 0,
            Feature::Sve => field!(self, ID_AA64PFR0_EL1, "SVE") >= 1,
            Feature::Sme => field!(self, ID_AA64PFR1_EL1, "SME") >= 1,
            Feature::Mte => field!(self, ID_AA64PFR1_EL1, "MTE") >= 2,
            Feature::PointerAuth => self.address_auth(),
            Feature::Bti => field!(self, ID_AA64PFR1_EL1, "BT") >= 1,
            Feature::Mops => field!(self, ID_AA64ISAR2_EL1, "MOPS") >= 1,
            Feature::Poe => field!(self, ID_AA64MMFR3_EL1, "S1POE") >= 1,
            Feature::Fpmr => field!(self, ID_AA64PFR2_EL1, "FPMR") >= 1,
        }
    }

    /// FEAT_HAFDBS: the hardware sets the Access flag (TCR_EL1.HA).
    #[inline]
    pub const fn hw_access_flag(&self) -> bool {
        field!(self, ID_AA64MMFR1_EL1, "HAFDBS") >= 1
    }

    /// FEAT_HAFDBS: the hardware also keeps the dirty state (TCR_EL1.HD).
    #[inline]
    pub const fn hw_dirty(&self) -> bool {
        field!(self, ID_AA64MMFR1_EL1, "HAFDBS") >= 2
    }

    /// FEAT_PAN: the kernel can be denied access to user pages (PSTATE.PAN).
    pub const fn pan(&self) -> bool {
        field!(self, ID_AA64MMFR1_EL1, "PAN") >= 1
    }

    /// FEAT_PAN3: PAN also applies to pages that EL0 may only execute (SCTLR_EL1.EPAN).
    pub const fn epan(&self) -> bool {
        field!(self, ID_AA64MMFR1_EL1, "PAN") >= 3
    }

    /// FEAT_LSE: atomic memory operations.
    pub const fn lse_atomics(&self) -> bool {
        field!(self, ID_AA64ISAR0_EL1, "ATOMIC") >= 2
    }

    /// FEAT_IDST: reads of ID registers at EL0 trap as class 0x18, not as undefined.
    pub const fn idst(&self) -> bool {
        field!(self, ID_AA64MMFR2_EL1, "IDS") >= 1
    }

    /// AArch32 programs can run on every CPU.
    pub const fn aarch32_el0(&self) -> bool {
        field!(self, ID_AA64PFR0_EL1, "EL0") >= 2
    }

    /// AArch32 guest kernels can run on every CPU.
    pub const fn aarch32_el1(&self) -> bool {
        field!(self, ID_AA64PFR0_EL1, "EL1") >= 2
    }

    /// Programs can use big-endian data on every CPU: at all exception levels, or at EL0 only.
    pub const fn mixed_endian_el0(&self) -> bool {
        field!(self, ID_AA64MMFR0_EL1, "BIGEND") >= 1
            || field!(self, ID_AA64MMFR0_EL1, "BIGENDEL0") >= 1
    }

    /// The number of bits in an ASID: 8 or 16.
    pub const fn asid_bits(&self) -> u32 {
        if field!(self, ID_AA64MMFR0_EL1, "ASIDBITS") >= 2 {
            16
        } else {
            8
        }
    }

    /// The number of bits in a VMID: 8 or 16.
    pub const fn vmid_bits(&self) -> u32 {
        if field!(self, ID_AA64MMFR1_EL1, "VMIDBits") >= 2 {
            16
        } else {
            8
        }
    }

    /// The encoded size of physical addresses, in the encoding of TCR_EL1.IPS and VTCR_EL2.PS.
    pub const fn pa_range(&self) -> u64 {
        field!(self, ID_AA64MMFR0_EL1, "PARANGE") as u64
    }

    /// The number of bits in a physical address, 32 to 56. Reserved values count as the highest
    /// defined one.
    pub const fn pa_bits(&self) -> u32 {
        match self.pa_range() {
            0 => 32,
            1 => 36,
            2 => 40,
            3 => 42,
            4 => 44,
            5 => 48,
            6 => 52,
            _ => 56,
        }
    }

    /// The 4 KiB granule at stage 1.
    pub const fn granule_4k(&self) -> bool {
        field!(self, ID_AA64MMFR0_EL1, "TGRAN4") >= 0
    }

    /// The 4 KiB granule at stage 2. 0 means "as at stage 1".
    pub const fn granule_4k_stage2(&self) -> bool {
        match field!(self, ID_AA64MMFR0_EL1, "TGRAN4_2") {
            0 => self.granule_4k(),
            granule => granule >= 2,
        }
    }

    /// EL2 exists.
    pub const fn el2(&self) -> bool {
        field!(self, ID_AA64PFR0_EL1, "EL2") >= 1
    }

    /// FEAT_VHE: a kernel can run at EL2.
    pub const fn vhe(&self) -> bool {
        field!(self, ID_AA64MMFR1_EL1, "VH") >= 1
    }

    /// FEAT_E2H0: HCR_EL2.E2H can be 0, so that a kernel at EL2 need not use VHE.
    pub const fn e2h0(&self) -> bool {
        field!(self, ID_AA64MMFR4_EL1, "E2H0") >= 0
    }

    /// Floating point.
    pub const fn fp(&self) -> bool {
        field!(self, ID_AA64PFR0_EL1, "FP") >= 0
    }

    /// FEAT_SVE.
    pub const fn sve(&self) -> bool {
        self.has(Feature::Sve)
    }

    /// FEAT_SME.
    pub const fn sme(&self) -> bool {
        self.has(Feature::Sme)
    }

    /// FEAT_MTE2: tags in memory.
    pub const fn mte(&self) -> bool {
        self.has(Feature::Mte)
    }

    /// FEAT_MTE3: tags can be checked synchronously for loads only.
    pub const fn mte_asymmetric(&self) -> bool {
        field!(self, ID_AA64PFR1_EL1, "MTE") >= 3
    }

    /// FEAT_PAuth: addresses can be signed, with the same algorithm on all CPUs.
    pub const fn address_auth(&self) -> bool {
        field!(self, ID_AA64ISAR1_EL1, "APA") >= 1
            || field!(self, ID_AA64ISAR1_EL1, "API") >= 1
            || field!(self, ID_AA64ISAR2_EL1, "APA3") >= 1
    }

    /// FEAT_PAuth: other data can be signed (PACGA), with the same algorithm on all CPUs.
    pub const fn generic_auth(&self) -> bool {
        field!(self, ID_AA64ISAR1_EL1, "GPA") >= 1
            || field!(self, ID_AA64ISAR1_EL1, "GPI") >= 1
            || field!(self, ID_AA64ISAR2_EL1, "GPA3") >= 1
    }

    /// The GIC's CPU interface is accessed through system registers.
    pub const fn gic_registers(&self) -> bool {
        field!(self, ID_AA64PFR0_EL1, "GIC") >= 1
    }

    /// FEAT_E0PD: EL0 can be denied access to half of the address space at once.
    pub const fn e0pd(&self) -> bool {
        field!(self, ID_AA64MMFR2_EL1, "E0PD") >= 1
    }

    /// FEAT_TTCNP: translations can be shared among CPUs.
    pub const fn common_not_private(&self) -> bool {
        field!(self, ID_AA64MMFR2_EL1, "CnP") >= 1
    }

    /// FEAT_TLBIRANGE: one TLBI can cover a range.
    pub const fn tlbi_range(&self) -> bool {
        field!(self, ID_AA64ISAR0_EL1, "TLB") >= 2
    }

    /// FEAT_TTL: a TLBI can name the level of the entry.
    pub const fn tlbi_level(&self) -> bool {
        field!(self, ID_AA64MMFR2_EL1, "TTL") >= 1
    }

    /// FEAT_BBM: 0 to 2, how far block sizes can change without break-before-make.
    pub const fn bbm_level(&self) -> u32 {
        field!(self, ID_AA64MMFR2_EL1, "BBM") as u32
    }

    /// FEAT_S2FWB: stage 2 can force write-back memory.
    pub const fn stage2_write_back(&self) -> bool {
        field!(self, ID_AA64MMFR2_EL1, "FWB") >= 1
    }

    /// FEAT_HCX: HCRX_EL2 exists.
    pub const fn hcrx(&self) -> bool {
        field!(self, ID_AA64MMFR1_EL1, "HCX") >= 1
    }

    /// FEAT_FGT: fine-grained traps.
    pub const fn fine_grained_traps(&self) -> bool {
        field!(self, ID_AA64MMFR0_EL1, "FGT") >= 1
    }

    /// FEAT_ECV: self-synchronised counter reads.
    pub const fn enhanced_counter(&self) -> bool {
        field!(self, ID_AA64MMFR0_EL1, "ECV") >= 1
    }

    /// FEAT_RNG: RNDR.
    pub const fn rndr(&self) -> bool {
        field!(self, ID_AA64ISAR0_EL1, "RNDR") >= 1
    }

    /// FEAT_SSBS2: MSR and MRS of PSTATE.SSBS.
    pub const fn ssbs(&self) -> bool {
        field!(self, ID_AA64PFR1_EL1, "SSBS") >= 2
    }

    /// The size of the smallest data cache line in bytes.
    pub const fn data_line(&self) -> usize {
        4 << field!(self, CTR_EL0, "DminLine")
    }

    /// The size of the smallest instruction cache line in bytes.
    pub const fn instruction_line(&self) -> usize {
        4 << field!(self, CTR_EL0, "IminLine")
    }

    /// Data need not be cleaned for instruction fetches to see it (CTR_EL0.IDC).
    pub const fn clean_not_needed(&self) -> bool {
        field!(self, CTR_EL0, "IDC") == 1
    }

    /// Instruction caches are indexed by physical address, so that invalidating one virtual address
    /// of a frame is enough (CTR_EL0.L1Ip).
    pub const fn instructions_by_phys(&self) -> bool {
        field!(self, CTR_EL0, "L1Ip") == 3
    }

    /// Instruction caches need not be invalidated for fetches to see new data (CTR_EL0.DIC).
    pub const fn invalidate_not_needed(&self) -> bool {
        field!(self, CTR_EL0, "DIC") == 1
    }

    /// The block size of DC ZVA in bytes, if it may be used and has the same size on all CPUs.
    pub const fn zeroed_block(&self) -> Option<usize> {
        match (
            field!(self, DCZID_EL0, "DZP"),
            field!(self, DCZID_EL0, "BS"),
        ) {
            (0, size @ 1..) => Some(4 << size),
            _ => None,
        }
    }
}
