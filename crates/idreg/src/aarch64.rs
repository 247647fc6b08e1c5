//! The AArch64 ID registers (Arm ARM, "General system control registers"; field names as in Linux's
//! `arch/arm64/tools/sysreg`).
//!
//! A guest sees the features that need nothing of the hypervisor but the ordinary switch of EL1 and
//! EL0 state, including features that concern only EL2, as on Linux; and SVE and pointer
//! authentication if its VMM asks for them.

use crate::Feature::{Bti, FloatingPoint, Fpmr, Mops, Mte, Poe, PointerAuth, Sme, Sve};
use crate::field::{Field, Rule::*, lower};
use crate::register::*;

/// A one-bit field of SME or FP8; it is only set if all CPUs have it.
const fn flag(name: &'static str, shift: u8) -> Field {
    lower(name, shift).width(1).rule(Exact)
}

pub(crate) const REGISTERS: &[Description] = &[
    Description {
        register: ID_AA64PFR0_EL1,
        name: "ID_AA64PFR0_EL1",
        fields: &[
            lower("CSV3", 60).guest(),
            lower("CSV2", 56).guest(),
            lower("DIT", 48).el0().guest(),
            lower("AMU", 44),
            lower("MPAM", 40),
            lower("SEL2", 36).guest(),
            lower("SVE", 32).with(Sve),
            lower("RAS", 28).guest(),
            lower("GIC", 24).guest(),
            lower("AdvSIMD", 20)
                .signed()
                .absent(0xf)
                .el0_with(FloatingPoint)
                .guest(),
            lower("FP", 16)
                .signed()
                .absent(0xf)
                .el0_with(FloatingPoint)
                .guest(),
            lower("EL3", 12).guest(),
            lower("EL2", 8).guest(),
            lower("EL1", 4).absent(1).guest(),
            lower("EL0", 0).absent(1).guest(),
        ],
    },
    Description {
        register: ID_AA64PFR1_EL1,
        name: "ID_AA64PFR1_EL1",
        fields: &[
            lower("SME", 24).el0_with(Sme),
            lower("MPAM_frac", 16),
            lower("RAS_frac", 12).guest(),
            // Instructions that operate on address tags need no support; tags in memory do.
            lower("MTE", 8).el0_beyond(1, Mte),
            lower("SSBS", 4).el0().guest(),
            lower("BT", 0).el0_with(Bti).guest(),
        ],
    },
    Description {
        register: ID_AA64PFR2_EL1,
        name: "ID_AA64PFR2_EL1",
        fields: &[lower("FPMR", 32).el0_with(Fpmr)],
    },
    Description {
        register: ID_AA64ZFR0_EL1,
        name: "ID_AA64ZFR0_EL1",
        fields: &[
            lower("F64MM", 56).with(Sve),
            lower("F32MM", 52).with(Sve),
            lower("I8MM", 44).with(Sve),
            lower("SM4", 40).with(Sve),
            lower("SHA3", 32).with(Sve),
            lower("B16B16", 24).with(Sve),
            lower("BF16", 20).with(Sve),
            lower("BitPerm", 16).with(Sve),
            lower("AES", 4).with(Sve),
            lower("SVEver", 0).with(Sve),
        ],
    },
    Description {
        register: ID_AA64SMFR0_EL1,
        name: "ID_AA64SMFR0_EL1",
        fields: &[
            flag("FA64", 63).el0_with(Sme),
            flag("LUTv2", 60).el0_with(Sme),
            flag("SMEver", 56).width(4).el0_with(Sme),
            flag("I16I64", 52).width(4).el0_with(Sme),
            flag("F64F64", 48).el0_with(Sme),
            flag("I16I32", 44).width(4).el0_with(Sme),
            flag("B16B16", 43).el0_with(Sme),
            flag("F16F16", 42).el0_with(Sme),
            flag("F8F16", 41).el0_with(Sme),
            flag("F8F32", 40).el0_with(Sme),
            flag("I8I32", 36).width(4).el0_with(Sme),
            flag("F16F32", 35).el0_with(Sme),
            flag("B16F32", 34).el0_with(Sme),
            flag("BI32I32", 33).el0_with(Sme),
            flag("F32F32", 32).el0_with(Sme),
            flag("SF8FMA", 30).el0_with(Sme),
            flag("SF8DP4", 29).el0_with(Sme),
            flag("SF8DP2", 28).el0_with(Sme),
        ],
    },
    Description {
        register: ID_AA64FPFR0_EL1,
        name: "ID_AA64FPFR0_EL1",
        fields: &[
            flag("F8CVT", 31).el0_with(Fpmr),
            flag("F8FMA", 30).el0_with(Fpmr),
            flag("F8DP4", 29).el0_with(Fpmr),
            flag("F8DP2", 28).el0_with(Fpmr),
            flag("F8E4M3", 1).el0_with(Fpmr),
            flag("F8E5M2", 0).el0_with(Fpmr),
        ],
    },
    Description {
        register: ID_AA64DFR0_EL1,
        name: "ID_AA64DFR0_EL1",
        fields: &[
            lower("DoubleLock", 36).signed().guest(),
            lower("PMSVer", 32),
            lower("CTX_CMPs", 28).guest(),
            lower("WRPs", 20).guest(),
            lower("BRPs", 12).guest(),
            lower("PMUVer", 8).signed().rule(Exact),
            lower("DebugVer", 0).rule(Exact).absent(6).guest(),
        ],
    },
    Description {
        register: ID_AA64ISAR0_EL1,
        name: "ID_AA64ISAR0_EL1",
        fields: &[
            lower("RNDR", 60).el0().guest(),
            lower("TLB", 56).guest(),
            lower("TS", 52).el0().guest(),
            lower("FHM", 48).el0().guest(),
            lower("DP", 44).el0().guest(),
            lower("SM4", 40).el0().guest(),
            lower("SM3", 36).el0().guest(),
            lower("SHA3", 32).el0().guest(),
            lower("RDM", 28).el0().guest(),
            lower("ATOMIC", 20).el0().guest(),
            lower("CRC32", 16).el0().guest(),
            lower("SHA2", 12).el0().guest(),
            lower("SHA1", 8).el0().guest(),
            lower("AES", 4).el0().guest(),
        ],
    },
    Description {
        register: ID_AA64ISAR1_EL1,
        name: "ID_AA64ISAR1_EL1",
        fields: &[
            lower("XS", 56).guest(),
            lower("I8MM", 52).el0().guest(),
            lower("DGH", 48).el0().guest(),
            lower("BF16", 44).el0().guest(),
            lower("SPECRES", 40).guest(),
            lower("SB", 36).el0().guest(),
            lower("FRINTTS", 32).el0().guest(),
            lower("GPI", 28).with(PointerAuth),
            lower("GPA", 24).with(PointerAuth),
            lower("LRCPC", 20).el0().guest(),
            lower("FCMA", 16).el0().guest(),
            lower("JSCVT", 12).el0().guest(),
            lower("API", 8).rule(Exact).with(PointerAuth),
            lower("APA", 4).rule(Exact).with(PointerAuth),
            lower("DPB", 0).el0().guest(),
        ],
    },
    Description {
        register: ID_AA64ISAR2_EL1,
        name: "ID_AA64ISAR2_EL1",
        fields: &[
            lower("LUT", 56).el0().guest(),
            lower("CSSC", 52).el0().guest(),
            lower("RPRFM", 48).el0().guest(),
            lower("CLRBHB", 28).guest(),
            lower("BC", 20).el0().guest(),
            lower("MOPS", 16).el0_with(Mops).guest(),
            lower("APA3", 12).rule(Exact).with(PointerAuth),
            lower("GPA3", 8).with(PointerAuth),
            lower("RPRES", 4).el0().guest(),
            lower("WFxT", 0).el0().guest(),
        ],
    },
    Description {
        register: ID_AA64ISAR3_EL1,
        name: "ID_AA64ISAR3_EL1",
        fields: &[lower("FAMINMAX", 4).el0().guest()],
    },
    Description {
        register: ID_AA64MMFR0_EL1,
        name: "ID_AA64MMFR0_EL1",
        fields: &[
            lower("ECV", 60).el0().guest(),
            lower("FGT", 56).guest(),
            lower("EXS", 44).guest(),
            lower("TGRAN4_2", 40).rule(Exact).absent(1).guest(),
            lower("TGRAN64_2", 36).rule(Exact).absent(1).guest(),
            lower("TGRAN16_2", 32).rule(Exact).absent(1).guest(),
            lower("TGRAN4", 28).signed().absent(0xf).guest(),
            lower("TGRAN64", 24).signed().absent(0xf).guest(),
            lower("TGRAN16", 20).guest(),
            lower("BIGENDEL0", 16).guest(),
            lower("SNSMEM", 12).guest(),
            lower("BIGEND", 8).guest(),
            lower("ASIDBITS", 4).guest(),
            lower("PARANGE", 0).guest(),
        ],
    },
    Description {
        register: ID_AA64MMFR1_EL1,
        name: "ID_AA64MMFR1_EL1",
        fields: &[
            lower("TIDCP1", 52).guest(),
            lower("AFP", 44).el0().guest(),
            lower("HCX", 40).guest(),
            lower("ETS", 36).guest(),
            lower("TWED", 32).guest(),
            lower("XNX", 28).guest(),
            lower("SpecSEI", 24).rule(Higher).guest(),
            lower("PAN", 20).guest(),
            lower("LO", 16).guest(),
            lower("HPDS", 12).guest(),
            lower("VH", 8).guest(),
            lower("VMIDBits", 4).guest(),
            lower("HAFDBS", 0).guest(),
        ],
    },
    Description {
        register: ID_AA64MMFR2_EL1,
        name: "ID_AA64MMFR2_EL1",
        fields: &[
            lower("E0PD", 60).guest(),
            lower("EVT", 56).guest(),
            lower("BBM", 52).guest(),
            lower("TTL", 48).guest(),
            lower("FWB", 40).guest(),
            lower("IDS", 36).guest(),
            lower("AT", 32).el0().guest(),
            lower("ST", 28).guest(),
            lower("NV", 24).guest(),
            lower("CCIDX", 20),
            lower("VARange", 16).guest(),
            lower("IESB", 12).guest(),
            lower("LSM", 8).guest(),
            lower("UAO", 4).guest(),
            lower("CnP", 0).guest(),
        ],
    },
    Description {
        register: ID_AA64MMFR3_EL1,
        name: "ID_AA64MMFR3_EL1",
        fields: &[
            lower("S1POE", 16).el0_with(Poe),
            lower("S1PIE", 8),
            lower("SCTLRX", 4),
            lower("TCRX", 0),
        ],
    },
    Description {
        register: ID_AA64MMFR4_EL1,
        name: "ID_AA64MMFR4_EL1",
        fields: &[lower("E2H0", 24).signed().guest()],
    },
    Description {
        register: CTR_EL0,
        name: "CTR_EL0",
        fields: &[
            lower("RES1", 31)
                .width(1)
                .rule(Exact)
                .absent(1)
                .el0()
                .guest(),
            lower("DIC", 29).width(1).el0().guest(),
            lower("IDC", 28).width(1).el0().guest(),
            lower("CWG", 24).rule(HigherOrZero).el0().guest(),
            lower("ERG", 20).rule(HigherOrZero).el0().guest(),
            lower("DminLine", 16).el0().guest(),
            // If CPUs differ, report VIPT, the policy with the most work for software.
            lower("L1Ip", 14)
                .width(2)
                .rule(Exact)
                .absent(2)
                .el0()
                .guest(),
            lower("IminLine", 0).el0().guest(),
        ],
    },
    Description {
        register: DCZID_EL0,
        name: "DCZID_EL0",
        // If CPUs differ on whether DC ZVA is prohibited, report that it is.
        fields: &[
            lower("DZP", 4).width(1).rule(Exact).absent(1).el0().guest(),
            lower("BS", 0).rule(Exact).el0().guest(),
        ],
    },
];
