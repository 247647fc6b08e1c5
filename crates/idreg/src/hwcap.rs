//! HWCAPs: the features in the auxiliary vector and in `/proc/cpuinfo`.

use crate::register::*;
use crate::{El0View, System};

/// Bit 11 of AT_HWCAP: reads of ID registers are emulated.
const CPUID: u64 = 1 << 11;

/// The words of the auxiliary vector that describe CPU features.
///
/// They are derived from the ID registers that EL0 sees, so that the two never disagree: features
/// that the kernel has not enabled are in neither. HWCAP_EVTSTRM is not included: it describes the
/// kernel's timer, not the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hwcaps {
    /// AT_HWCAP.
    pub hwcap: u64,
    /// AT_HWCAP2.
    pub hwcap2: u64,
}

/// A bit that is set if a field has at least some value.
struct Capability {
    bit: u32,
    name: &'static str,
    place: Place,
    least: i64,
}

const fn capability(bit: u32, name: &'static str, place: Place, least: i64) -> Capability {
    Capability {
        bit,
        name,
        place,
        least,
    }
}

impl Hwcaps {
    /// The HWCAPs of AArch64 programs.
    pub fn new(view: &El0View) -> Hwcaps {
        Hwcaps {
            hwcap: CPUID | bits(HWCAP, view),
            hwcap2: bits(HWCAP2, view),
        }
    }

    /// The HWCAPs of AArch32 programs, which are defined separately; empty if EL0 has no AArch32.
    pub fn compat(system: &System, view: &El0View) -> Hwcaps {
        if !system.aarch32_el0() {
            return Hwcaps::default();
        }
        const SIMD: [Place; 3] = [
            place(MVFR1_EL1, "SIMDSP"),
            place(MVFR1_EL1, "SIMDInt"),
            place(MVFR1_EL1, "SIMDLS"),
        ];
        let neon = SIMD
            .iter()
            .all(|place| place.field.get(view.value(place.register)) >= 1);
        let hwcap = COMPAT_BASE | (neon as u64) << COMPAT_NEON | bits(COMPAT, view);
        Hwcaps {
            hwcap,
            hwcap2: bits(COMPAT2, view),
        }
    }

    /// The names of the set bits in bit order, as `/proc/cpuinfo` lists them for AArch64.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let cpuid = (self.hwcap & CPUID != 0).then_some("cpuid");
        let (low, high) =
            HWCAP.split_at(HWCAP.partition_point(|capability| capability.bit < CPUID.ilog2()));
        let (low, high) = (names(low, self.hwcap), names(high, self.hwcap));
        low.chain(cpuid)
            .chain(high)
            .chain(names(HWCAP2, self.hwcap2))
    }
}

fn bits(table: &[Capability], view: &El0View) -> u64 {
    let present = table.iter().filter(|capability| {
        capability
            .place
            .field
            .get(view.value(capability.place.register))
            >= capability.least
    });
    present.fold(0, |word, capability| word | 1 << capability.bit)
}

/// The names of the bits set in `word`; a bit that can be set for several reasons is named once.
fn names(table: &'static [Capability], word: u64) -> impl Iterator<Item = &'static str> {
    let first = |at: usize| at == 0 || table[at - 1].bit != table[at].bit;
    let set = table
        .iter()
        .enumerate()
        .filter(move |(at, capability)| first(*at) && word >> capability.bit & 1 == 1);
    set.map(|(_, capability)| capability.name)
}

/// AT_HWCAP, in bit order (Linux: `arch/arm64/include/uapi/asm/hwcap.h`).
const HWCAP: &[Capability] = &[
    capability(0, "fp", place(ID_AA64PFR0_EL1, "FP"), 0),
    capability(1, "asimd", place(ID_AA64PFR0_EL1, "AdvSIMD"), 0),
    capability(3, "aes", place(ID_AA64ISAR0_EL1, "AES"), 1),
    capability(4, "pmull", place(ID_AA64ISAR0_EL1, "AES"), 2),
    capability(5, "sha1", place(ID_AA64ISAR0_EL1, "SHA1"), 1),
    capability(6, "sha2", place(ID_AA64ISAR0_EL1, "SHA2"), 1),
    capability(7, "crc32", place(ID_AA64ISAR0_EL1, "CRC32"), 1),
    capability(8, "atomics", place(ID_AA64ISAR0_EL1, "ATOMIC"), 2),
    capability(9, "fphp", place(ID_AA64PFR0_EL1, "FP"), 1),
    capability(10, "asimdhp", place(ID_AA64PFR0_EL1, "AdvSIMD"), 1),
    capability(12, "asimdrdm", place(ID_AA64ISAR0_EL1, "RDM"), 1),
    capability(13, "jscvt", place(ID_AA64ISAR1_EL1, "JSCVT"), 1),
    capability(14, "fcma", place(ID_AA64ISAR1_EL1, "FCMA"), 1),
    capability(15, "lrcpc", place(ID_AA64ISAR1_EL1, "LRCPC"), 1),
    capability(16, "dcpop", place(ID_AA64ISAR1_EL1, "DPB"), 1),
    capability(17, "sha3", place(ID_AA64ISAR0_EL1, "SHA3"), 1),
    capability(18, "sm3", place(ID_AA64ISAR0_EL1, "SM3"), 1),
    capability(19, "sm4", place(ID_AA64ISAR0_EL1, "SM4"), 1),
    capability(20, "asimddp", place(ID_AA64ISAR0_EL1, "DP"), 1),
    capability(21, "sha512", place(ID_AA64ISAR0_EL1, "SHA2"), 2),
    capability(22, "sve", place(ID_AA64PFR0_EL1, "SVE"), 1),
    capability(23, "asimdfhm", place(ID_AA64ISAR0_EL1, "FHM"), 1),
    capability(24, "dit", place(ID_AA64PFR0_EL1, "DIT"), 1),
    capability(25, "uscat", place(ID_AA64MMFR2_EL1, "AT"), 1),
    capability(26, "ilrcpc", place(ID_AA64ISAR1_EL1, "LRCPC"), 2),
    capability(27, "flagm", place(ID_AA64ISAR0_EL1, "TS"), 1),
    capability(28, "ssbs", place(ID_AA64PFR1_EL1, "SSBS"), 2),
    capability(29, "sb", place(ID_AA64ISAR1_EL1, "SB"), 1),
    capability(30, "paca", place(ID_AA64ISAR1_EL1, "APA"), 1),
    capability(30, "paca", place(ID_AA64ISAR1_EL1, "API"), 1),
    capability(30, "paca", place(ID_AA64ISAR2_EL1, "APA3"), 1),
    capability(31, "pacg", place(ID_AA64ISAR1_EL1, "GPA"), 1),
    capability(31, "pacg", place(ID_AA64ISAR1_EL1, "GPI"), 1),
    capability(31, "pacg", place(ID_AA64ISAR2_EL1, "GPA3"), 1),
];

/// AT_HWCAP2, in the same way.
const HWCAP2: &[Capability] = &[
    capability(0, "dcpodp", place(ID_AA64ISAR1_EL1, "DPB"), 2),
    capability(1, "sve2", place(ID_AA64ZFR0_EL1, "SVEver"), 1),
    capability(2, "sveaes", place(ID_AA64ZFR0_EL1, "AES"), 1),
    capability(3, "svepmull", place(ID_AA64ZFR0_EL1, "AES"), 2),
    capability(4, "svebitperm", place(ID_AA64ZFR0_EL1, "BitPerm"), 1),
    capability(5, "svesha3", place(ID_AA64ZFR0_EL1, "SHA3"), 1),
    capability(6, "svesm4", place(ID_AA64ZFR0_EL1, "SM4"), 1),
    capability(7, "flagm2", place(ID_AA64ISAR0_EL1, "TS"), 2),
    capability(8, "frint", place(ID_AA64ISAR1_EL1, "FRINTTS"), 1),
    capability(9, "svei8mm", place(ID_AA64ZFR0_EL1, "I8MM"), 1),
    capability(10, "svef32mm", place(ID_AA64ZFR0_EL1, "F32MM"), 1),
    capability(11, "svef64mm", place(ID_AA64ZFR0_EL1, "F64MM"), 1),
    capability(12, "svebf16", place(ID_AA64ZFR0_EL1, "BF16"), 1),
    capability(13, "i8mm", place(ID_AA64ISAR1_EL1, "I8MM"), 1),
    capability(14, "bf16", place(ID_AA64ISAR1_EL1, "BF16"), 1),
    capability(15, "dgh", place(ID_AA64ISAR1_EL1, "DGH"), 1),
    capability(16, "rng", place(ID_AA64ISAR0_EL1, "RNDR"), 1),
    capability(17, "bti", place(ID_AA64PFR1_EL1, "BT"), 1),
    capability(18, "mte", place(ID_AA64PFR1_EL1, "MTE"), 2),
    capability(19, "ecv", place(ID_AA64MMFR0_EL1, "ECV"), 1),
    capability(20, "afp", place(ID_AA64MMFR1_EL1, "AFP"), 1),
    capability(21, "rpres", place(ID_AA64ISAR2_EL1, "RPRES"), 1),
    capability(22, "mte3", place(ID_AA64PFR1_EL1, "MTE"), 3),
    capability(23, "sme", place(ID_AA64PFR1_EL1, "SME"), 1),
    capability(24, "smei16i64", place(ID_AA64SMFR0_EL1, "I16I64"), 15),
    capability(25, "smef64f64", place(ID_AA64SMFR0_EL1, "F64F64"), 1),
    capability(26, "smei8i32", place(ID_AA64SMFR0_EL1, "I8I32"), 15),
    capability(27, "smef16f32", place(ID_AA64SMFR0_EL1, "F16F32"), 1),
    capability(28, "smeb16f32", place(ID_AA64SMFR0_EL1, "B16F32"), 1),
    capability(29, "smef32f32", place(ID_AA64SMFR0_EL1, "F32F32"), 1),
    capability(30, "smefa64", place(ID_AA64SMFR0_EL1, "FA64"), 1),
    capability(31, "wfxt", place(ID_AA64ISAR2_EL1, "WFxT"), 2),
    capability(32, "ebf16", place(ID_AA64ISAR1_EL1, "BF16"), 2),
    capability(33, "sveebf16", place(ID_AA64ZFR0_EL1, "BF16"), 2),
    capability(34, "cssc", place(ID_AA64ISAR2_EL1, "CSSC"), 1),
    capability(35, "rprfm", place(ID_AA64ISAR2_EL1, "RPRFM"), 1),
    capability(36, "sve2p1", place(ID_AA64ZFR0_EL1, "SVEver"), 2),
    capability(37, "sme2", place(ID_AA64SMFR0_EL1, "SMEver"), 1),
    capability(38, "sme2p1", place(ID_AA64SMFR0_EL1, "SMEver"), 2),
    capability(39, "smei16i32", place(ID_AA64SMFR0_EL1, "I16I32"), 5),
    capability(40, "smebi32i32", place(ID_AA64SMFR0_EL1, "BI32I32"), 1),
    capability(41, "smeb16b16", place(ID_AA64SMFR0_EL1, "B16B16"), 1),
    capability(42, "smef16f16", place(ID_AA64SMFR0_EL1, "F16F16"), 1),
    capability(43, "mops", place(ID_AA64ISAR2_EL1, "MOPS"), 1),
    capability(44, "hbc", place(ID_AA64ISAR2_EL1, "BC"), 1),
    capability(45, "sveb16b16", place(ID_AA64ZFR0_EL1, "B16B16"), 1),
    capability(46, "lrcpc3", place(ID_AA64ISAR1_EL1, "LRCPC"), 3),
    capability(47, "lse128", place(ID_AA64ISAR0_EL1, "ATOMIC"), 3),
    capability(48, "fpmr", place(ID_AA64PFR2_EL1, "FPMR"), 1),
    capability(49, "lut", place(ID_AA64ISAR2_EL1, "LUT"), 1),
    capability(50, "faminmax", place(ID_AA64ISAR3_EL1, "FAMINMAX"), 1),
    capability(51, "f8cvt", place(ID_AA64FPFR0_EL1, "F8CVT"), 1),
    capability(52, "f8fma", place(ID_AA64FPFR0_EL1, "F8FMA"), 1),
    capability(53, "f8dp4", place(ID_AA64FPFR0_EL1, "F8DP4"), 1),
    capability(54, "f8dp2", place(ID_AA64FPFR0_EL1, "F8DP2"), 1),
    capability(55, "f8e4m3", place(ID_AA64FPFR0_EL1, "F8E4M3"), 1),
    capability(56, "f8e5m2", place(ID_AA64FPFR0_EL1, "F8E5M2"), 1),
    capability(57, "smelutv2", place(ID_AA64SMFR0_EL1, "LUTv2"), 1),
    capability(58, "smef8f16", place(ID_AA64SMFR0_EL1, "F8F16"), 1),
    capability(59, "smef8f32", place(ID_AA64SMFR0_EL1, "F8F32"), 1),
    capability(60, "smesf8fma", place(ID_AA64SMFR0_EL1, "SF8FMA"), 1),
    capability(61, "smesf8dp4", place(ID_AA64SMFR0_EL1, "SF8DP4"), 1),
    capability(62, "smesf8dp2", place(ID_AA64SMFR0_EL1, "SF8DP2"), 1),
    capability(63, "poe", place(ID_AA64MMFR3_EL1, "S1POE"), 1),
];

/// Capabilities of AArch32 programs on every ARMv8: half-word loads, Thumb, fast multiply, E-DSP,
/// TLS, division in both instruction sets and LPAE's atomic double-word loads (bits 1, 2, 4, 7, 15,
/// 17, 18, 20).
const COMPAT_BASE: u64 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 7 | 1 << 15 | 1 << 17 | 1 << 18 | 1 << 20;
/// The bit of Advanced SIMD, which depends on three fields.
const COMPAT_NEON: u32 = 12;

/// AT_HWCAP of AArch32 programs (`COMPAT_HWCAP_*`).
const COMPAT: &[Capability] = &[
    capability(6, "vfp", place(MVFR0_EL1, "FPDP"), 2),
    capability(13, "vfpv3", place(MVFR0_EL1, "FPDP"), 2),
    capability(16, "vfpv4", place(MVFR1_EL1, "SIMDFMAC"), 1),
    capability(22, "fphp", place(MVFR1_EL1, "FPHP"), 3),
    capability(23, "asimdhp", place(MVFR1_EL1, "SIMDHP"), 2),
    capability(24, "asimddp", place(ID_ISAR6_EL1, "DP"), 1),
    capability(25, "asimdfhm", place(ID_ISAR6_EL1, "FHM"), 1),
    capability(26, "asimdbf16", place(ID_ISAR6_EL1, "BF16"), 1),
    capability(27, "i8mm", place(ID_ISAR6_EL1, "I8MM"), 1),
];

/// AT_HWCAP2 of AArch32 programs (`COMPAT_HWCAP2_*`).
const COMPAT2: &[Capability] = &[
    capability(0, "aes", place(ID_ISAR5_EL1, "AES"), 1),
    capability(1, "pmull", place(ID_ISAR5_EL1, "AES"), 2),
    capability(2, "sha1", place(ID_ISAR5_EL1, "SHA1"), 1),
    capability(3, "sha2", place(ID_ISAR5_EL1, "SHA2"), 1),
    capability(4, "crc32", place(ID_ISAR5_EL1, "CRC32"), 1),
    capability(5, "sb", place(ID_ISAR6_EL1, "SB"), 1),
    capability(6, "ssbs", place(ID_PFR2_EL1, "SSBS"), 1),
];
