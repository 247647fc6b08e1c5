//! ID registers as programs see them: the fields that Linux documents, the safe values of all
//! others, HWCAPs.

use std::collections::BTreeSet;

use idreg::register::{self, *};
use idreg::{El0View, Enabled, Feature, Field, Hwcaps, MPIDR_AT_EL0, Mrs, Raw, System, Visibility};
use proptest::prelude::*;

/// The visible fields of Linux's `Documentation/arch/arm64/cpu-feature-registers.rst`, as
/// (register, field, lowest bit). Names as in the table of this crate where the document spells
/// them otherwise (TS, ATOMICS, SVEVer, WFXT).
const DOCUMENTED: &str = "
    ID_AA64ISAR0_EL1 RNDR 60 TS 52 FHM 48 DP 44 SM4 40 SM3 36 SHA3 32 RDM 28 ATOMIC 20 CRC32 16 SHA2 12 SHA1 8 AES 4
    ID_AA64PFR0_EL1 DIT 48 SVE 32 AdvSIMD 20 FP 16
    ID_AA64PFR1_EL1 SME 24 MTE 8 SSBS 4 BT 0
    ID_AA64ISAR1_EL1 I8MM 52 DGH 48 BF16 44 SB 36 FRINTTS 32 GPI 28 GPA 24 LRCPC 20 FCMA 16 JSCVT 12 API 8 APA 4 DPB 0
    ID_AA64MMFR0_EL1 ECV 60
    ID_AA64MMFR2_EL1 AT 32
    ID_AA64ZFR0_EL1 F64MM 56 F32MM 52 I8MM 44 SM4 40 SHA3 32 BF16 20 BitPerm 16 AES 4 SVEver 0
    ID_AA64MMFR1_EL1 AFP 44
    ID_AA64ISAR2_EL1 MOPS 16 RPRES 4 WFxT 0
    MVFR0_EL1 FPDP 8
    MVFR1_EL1 SIMDFMAC 28 SIMDSP 16 SIMDInt 12 SIMDLS 8
    ID_ISAR5_EL1 CRC32 16 SHA2 12 SHA1 8 AES 4";

/// Fields that Linux 6.12 shows although that document does not list them (each has a HWCAP in
/// `elf_hwcaps.rst`, but for the algorithm of pointer authentication).
const UNDOCUMENTED: &str = "
    ID_AA64PFR2_EL1 FPMR 32
    ID_AA64ZFR0_EL1 B16B16 24
    ID_AA64SMFR0_EL1 FA64 63 LUTv2 60 SMEver 56 I16I64 52 F64F64 48 I16I32 44 B16B16 43 F16F16 42 F8F16 41 F8F32 40 I8I32 36
    ID_AA64SMFR0_EL1 F16F32 35 B16F32 34 BI32I32 33 F32F32 32 SF8FMA 30 SF8DP4 29 SF8DP2 28
    ID_AA64FPFR0_EL1 F8CVT 31 F8FMA 30 F8DP4 29 F8DP2 28 F8E4M3 1 F8E5M2 0
    ID_AA64ISAR2_EL1 LUT 56 CSSC 52 RPRFM 48 BC 20 APA3 12 GPA3 8
    ID_AA64ISAR3_EL1 FAMINMAX 4
    ID_AA64MMFR3_EL1 S1POE 16
    MVFR1_EL1 FPHP 24 SIMDHP 20
    ID_PFR2_EL1 SSBS 4
    ID_ISAR6_EL1 I8MM 24 BF16 20 SB 12 FHM 8 DP 4";

fn parse(list: &str) -> BTreeSet<(String, String, u8)> {
    let mut fields = BTreeSet::new();
    for line in list.trim().lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        for pair in words[1..].chunks(2) {
            fields.insert((
                words[0].to_string(),
                pair[0].to_string(),
                pair[1].parse().unwrap(),
            ));
        }
    }
    fields
}

fn read(view: &El0View, crm: u8, op2: u8) -> Option<u64> {
    view.emulate(Mrs {
        op0: 3,
        op1: 0,
        crn: 0,
        crm,
        op2,
        rt: 0,
    })
}

/// A CPU that has everything: the highest value in every field, AArch32 included.
fn everything() -> System {
    let mut cpu = Raw::new();
    for description in register::all() {
        let value = description
            .fields
            .iter()
            .fold(0, |bits, field| field.set(bits, highest(field)));
        cpu.set(description.register, value);
    }
    let mut system = System::new();
    system.fold(&cpu);
    system
}

fn highest(field: &Field) -> u64 {
    if field.signed { 7 } else { !0 }
}

fn bits(bits: impl IntoIterator<Item = u32>) -> u64 {
    bits.into_iter().fold(0, |word, bit| word | 1 << bit)
}

#[test]
fn programs_see_the_fields_that_linux_shows_and_no_others() {
    let expected: BTreeSet<_> = parse(DOCUMENTED)
        .union(&parse(UNDOCUMENTED))
        .cloned()
        .collect();
    let shown = register::all()
        .filter(|description| description.register.index() < register::ID_SPACE)
        .flat_map(|description| {
            let visible = description
                .fields
                .iter()
                .filter(|field| field.el0 != Visibility::Never);
            visible.map(|field| {
                (
                    description.name.to_string(),
                    field.name.to_string(),
                    field.shift,
                )
            })
        });
    assert_eq!(shown.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn hidden_fields_read_as_absent_and_unknown_registers_as_zero() {
    let view = El0View::new(&everything(), Enabled::ALL, 0);
    for crm in 2..8 {
        for op2 in 0..8 {
            let value = read(&view, crm, op2).unwrap();
            let description = register::all()
                .find(|description| description.register == register::Register::id(crm, op2));
            let expected = description
                .into_iter()
                .flat_map(|description| description.fields)
                .fold(0, |bits, field| {
                    let hidden = field.el0 == Visibility::Never;
                    field.set(bits, if hidden { field.absent } else { highest(field) })
                });
            assert_eq!(value, expected, "CRm={crm} Op2={op2}");
        }
    }
    assert_eq!(view.value(ID_AA64PFR0_EL1) & 0xff, 0x11); // EL1 and EL0: AArch64 only
    assert_eq!(view.value(ID_AA64MMFR0_EL1) >> 24 & 0xff, 0xff); // no granule is promised
}

#[test]
fn identification_is_the_cpus_own_the_place_nobodys() {
    let view = El0View::new(&everything(), Enabled::NONE, 0x410f_d083);
    assert_eq!(
        [0, 5, 6].map(|op2| read(&view, 0, op2)),
        [Some(0x410f_d083), Some(MPIDR_AT_EL0), Some(0)]
    );
    assert_eq!([1, 2, 3, 4, 7].map(|op2| read(&view, 0, op2)), [None; 5]);
    assert_eq!(read(&view, 1, 0), None);
}

#[test]
fn what_the_kernel_has_not_enabled_is_absent_everywhere() {
    let system = everything();
    let all = Hwcaps::new(&El0View::new(&system, Enabled::ALL, 0));
    assert_eq!(all.hwcap, 0xffff_fffb, "all but EVTSTRM");
    assert_eq!(all.hwcap2, !0);
    let gone = |feature| {
        let some = Hwcaps::new(&El0View::new(&system, Enabled::ALL.without(feature), 0));
        assert_eq!(some.hwcap & !all.hwcap | some.hwcap2 & !all.hwcap2, 0);
        (all.hwcap & !some.hwcap, all.hwcap2 & !some.hwcap2)
    };
    assert_eq!(gone(Feature::FloatingPoint), (bits([0, 1, 9, 10]), 0));
    assert_eq!(
        gone(Feature::Sve),
        (bits([22]), bits((1..7).chain(9..13).chain([33, 36, 45])))
    );
    assert_eq!(
        gone(Feature::Sme),
        (0, bits((23..31).chain(37..43).chain(57..63)))
    );
    assert_eq!(gone(Feature::Mte), (0, bits([18, 22])));
    assert_eq!(gone(Feature::PointerAuth), (bits([30, 31]), 0));
    assert_eq!(gone(Feature::Bti), (0, bits([17])));
    assert_eq!(gone(Feature::Mops), (0, bits([43])));
    assert_eq!(gone(Feature::Poe), (0, bits([63])));
    assert_eq!(
        gone(Feature::Fpmr),
        (0, bits([48].into_iter().chain(51..57)))
    );
}

#[test]
fn an_empty_cpu_has_fp_and_cpuid_and_nothing_else() {
    let mut system = System::new();
    system.fold(&Raw::new());
    let view = El0View::new(&system, Enabled::ALL, 0);
    let hwcaps = Hwcaps::new(&view);
    assert_eq!(
        hwcaps,
        Hwcaps {
            hwcap: bits([0, 1, 11]),
            hwcap2: 0
        }
    );
    assert_eq!(hwcaps.names().collect::<Vec<_>>(), ["fp", "asimd", "cpuid"]);
    assert_eq!(Hwcaps::compat(&system, &view), Hwcaps::default());
}

#[test]
fn names_are_as_many_as_bits_and_all_different() {
    let hwcaps = Hwcaps::new(&El0View::new(&everything(), Enabled::ALL, 0));
    let names: Vec<_> = hwcaps.names().collect();
    assert_eq!(
        names.len() as u32,
        hwcaps.hwcap.count_ones() + hwcaps.hwcap2.count_ones()
    );
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert_eq!(names[10..13], ["cpuid", "asimdrdm", "jscvt"]);
}

/// Cortex-A72: what Linux gives a 32-bit program (half thumb fastmult vfp edsp neon vfpv3 tls vfpv4
/// idiva idivt lpae, and aes pmull sha1 sha2 crc32).
#[test]
fn the_hwcaps_of_32_bit_programs() {
    let mut cpu = Raw::new();
    let values = [
        (ID_AA64PFR0_EL1, 0x2222),
        (MVFR0_EL1, 0x1011_0222),
        (MVFR1_EL1, 0x1211_1111),
        (ID_ISAR5_EL1, 0x1_1121),
    ];
    values
        .into_iter()
        .for_each(|(register, value)| cpu.set(register, value));
    let mut system = System::new();
    system.fold(&cpu);
    let view = El0View::new(&system, Enabled::NONE.with(Feature::FloatingPoint), 0);
    let expected = bits([1, 2, 4, 6, 7, 12, 13, 15, 16, 17, 18, 20]);
    assert_eq!(
        Hwcaps::compat(&system, &view),
        Hwcaps {
            hwcap: expected,
            hwcap2: 0x1f
        }
    );
    let soft = El0View::new(&system, Enabled::NONE, 0);
    assert_eq!(
        Hwcaps::compat(&system, &soft).hwcap,
        expected & !bits([6, 12, 13, 16])
    );
}

#[test]
fn a_guest_sees_what_concerns_el2_but_no_monitors_nor_counters() {
    let system = everything();
    let guest = |register| system.guest_value(register, Enabled::NONE);
    assert_eq!(guest(ID_AA64PFR0_EL1), 0xff0f_00f0_ff77_ffff);
    assert_eq!(guest(ID_AA64MMFR1_EL1) & 0xff0, 0xff0); // VH, VMIDBits
    assert_eq!(guest(ID_AA64DFR0_EL1) & 0xf0f, 0xf); // PMUVer, DebugVer
    assert_eq!(guest(register::Register::id(5, 5)), 0);
}

#[test]
fn a_guest_sees_vectors_and_pointer_authentication_if_it_is_given_them() {
    let system = everything();
    let seen = |register| {
        let with = |feature| system.guest_value(register, Enabled::NONE.with(feature));
        let none = system.guest_value(register, Enabled::NONE);
        (with(Feature::Sve) ^ none, with(Feature::PointerAuth) ^ none)
    };
    assert_eq!(seen(ID_AA64PFR0_EL1), (0xf << 32, 0));
    assert_eq!(seen(ID_AA64ZFR0_EL1), (system.value(ID_AA64ZFR0_EL1), 0));
    assert_eq!(seen(ID_AA64ISAR1_EL1), (0, 0xff00_0ff0));
    assert_eq!(seen(ID_AA64ISAR2_EL1), (0, 0xff00));
}

proptest! {
    /// Whatever the CPUs are, the view shows nothing that is not safe on each, and enabling more
    /// never hides anything.
    #[test]
    fn the_view_is_the_sanitised_value_or_absent(values in proptest::collection::vec(any::<u64>(), 64), enabled: u16) {
        let mut cpu = Raw::new();
        register::all().filter(|description| description.register.index() < 64)
            .for_each(|description| cpu.set(description.register, values[description.register.index()]));
        let mut system = System::new();
        system.fold(&cpu);
        let features = [
            Feature::FloatingPoint, Feature::Sve, Feature::Sme, Feature::Mte, Feature::PointerAuth, Feature::Bti, Feature::Mops,
            Feature::Poe, Feature::Fpmr,
        ];
        let chosen = features.into_iter().enumerate().filter(|(at, _)| enabled >> at & 1 == 1);
        let enabled = chosen.fold(Enabled::NONE, |enabled, (_, feature)| enabled.with(feature));
        let view = El0View::new(&system, enabled, 0);
        for description in register::all().filter(|description| (2..8).contains(&description.register.crm())) {
            let dark = description.register.is_aarch32() && !system.aarch32_el0();
            for field in description.fields {
                let (seen, safe) = (view.value(description.register), system.value(description.register));
                let absent = field.set(0, field.absent);
                let on = |feature| enabled.has(feature) && system.has(feature);
                let shown = match field.el0 {
                    Visibility::Never => false,
                    Visibility::Always => true,
                    Visibility::With(feature) => on(feature),
                    Visibility::Beyond(most, feature) => on(feature) || field.get(safe) <= most,
                };
                let most = match field.el0 {
                    Visibility::Beyond(most, _) => field.set(0, most as u64),
                    _ => absent,
                };
                let expected = if dark { 0 } else if shown { safe & field.mask() } else { most };
                prop_assert_eq!(seen & field.mask(), expected, "{}.{}", description.name, field.name);
            }
        }
        let (some, all) = (Hwcaps::new(&view), Hwcaps::new(&El0View::new(&system, Enabled::ALL, 0)));
        prop_assert_eq!((some.hwcap & !all.hwcap, some.hwcap2 & !all.hwcap2), (0, 0));
    }
}
