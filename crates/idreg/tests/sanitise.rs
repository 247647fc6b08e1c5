//! Sanitising: made-up CPUs, equal and unequal.

use idreg::register::{self, *};
use idreg::{Raw, Register, Rule, System};
use proptest::prelude::*;

fn any_cpu() -> impl Strategy<Value = Raw> {
    // Few distinct values, so that CPUs agree often enough for the rules about agreement to matter.
    proptest::collection::vec(
        prop_oneof![Just(0), Just(0x1111_1111_1111_1122), any::<u64>()],
        register::COUNT,
    )
    .prop_map(|values| {
        let mut cpu = Raw::new();
        let registers = register::all().map(|description| description.register);
        registers.for_each(|register| cpu.set(register, values[register.index()]));
        cpu
    })
}

fn system(cpus: &[Raw]) -> System {
    let mut system = System::new();
    cpus.iter().for_each(|cpu| system.fold(cpu));
    system
}

fn cpu(values: &[(Register, u64)]) -> Raw {
    let mut cpu = Raw::new();
    values
        .iter()
        .for_each(|(register, value)| cpu.set(*register, *value));
    cpu
}

proptest! {
    #[test]
    fn neither_order_nor_repetition_matters(
        cpus in proptest::collection::vec(any_cpu(), 1..5).prop_shuffle(), again in any::<prop::sample::Index>(),
    ) {
        let once = system(&cpus);
        let mut reversed = cpus.clone();
        reversed.reverse();
        reversed.push(again.get(&cpus).clone());
        prop_assert_eq!(system(&reversed), once);
    }

    #[test]
    fn whoever_was_folded_in_is_admitted_and_whoever_is_admitted_changes_nothing(
        cpus in proptest::collection::vec(any_cpu(), 1..4), late in any_cpu(),
    ) {
        let before = system(&cpus);
        if cpus.len() == 1 {
            prop_assert_eq!(before.admit(&cpus[0]), Ok(()));
        }
        let mut after = before.clone();
        after.fold(&late);
        prop_assert_eq!(before.admit(&late).is_ok(), after == before);
    }

    #[test]
    fn a_field_is_never_better_than_on_the_worst_cpu(a in any_cpu(), b in any_cpu()) {
        let both = system(&[a.clone(), b.clone()]);
        let alone = [system(&[a]), system(&[b])];
        for description in register::all() {
            for field in description.fields {
                let [x, y] = alone.each_ref().map(|system| field.get(system.value(description.register)));
                let expected = match field.rule {
                    Rule::Lower => x.min(y),
                    Rule::Higher => x.max(y),
                    Rule::HigherOrZero => if x == 0 || y == 0 { 0 } else { x.max(y) },
                    Rule::Exact => if x == y { x } else { field.get(field.set(0, field.absent)) },
                };
                prop_assert_eq!(field.get(both.value(description.register)), expected, "{}", field.name);
            }
        }
    }

    #[test]
    fn set_and_get_are_inverse(shift in 0..61u8, signed: bool, register: u64, value: u64) {
        let field = idreg::Field { shift, signed, ..register::all().next().unwrap().fields[0] };
        let set = field.set(register, value);
        prop_assert_eq!(set & !field.mask(), register & !field.mask());
        prop_assert_eq!(field.get(set) as u64 & 15, value & 15);
        prop_assert!(signed || field.get(set) >= 0);
    }
}

/// The RFC that hwaf comes from kept the first CPU's answer for all: that is wrong where CPUs
/// differ.
#[test]
fn the_access_flag_is_the_weakest_cpus_not_the_first_ones() {
    let [full, flag, none] = [2, 1, 0].map(|hafdbs| cpu(&[(ID_AA64MMFR1_EL1, hafdbs)]));
    let answers = |cpus: &[Raw]| (system(cpus).hw_access_flag(), system(cpus).hw_dirty());
    assert_eq!(answers(&[full.clone(), full.clone()]), (true, true));
    assert_eq!(answers(&[full.clone(), flag.clone()]), (true, false));
    assert_eq!(answers(&[full.clone(), none.clone()]), (false, false));
    assert_eq!(answers(&[none, full]), (false, false));
    assert_eq!(answers(&[flag]), (true, false));
}

#[test]
fn a_late_cpu_that_lacks_what_was_promised_is_refused_by_name() {
    let settled = system(&[cpu(&[(ID_AA64MMFR1_EL1, 2), (ID_AA64ISAR0_EL1, 2 << 20)])]);
    let late = cpu(&[(ID_AA64MMFR1_EL1, 1), (ID_AA64ISAR0_EL1, 2 << 20)]);
    let missing = settled.admit(&late).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "ID_AA64MMFR1_EL1.HAFDBS is 1, but 2 was promised"
    );
    let better = cpu(&[(ID_AA64MMFR1_EL1, 3), (ID_AA64ISAR0_EL1, 3 << 20)]);
    assert_eq!(settled.admit(&better), Ok(()));
}

#[test]
fn floating_point_is_signed_and_exact_fields_need_agreement() {
    let fp = |value: u64| cpu(&[(ID_AA64PFR0_EL1, value << 16), (ID_AA64ISAR1_EL1, 5 << 8)]);
    assert!(system(&[fp(0), fp(1)]).fp());
    assert!(!system(&[fp(0), fp(15)]).fp());
    assert!(system(&[fp(0)]).address_auth());
    let other_algorithm = cpu(&[(ID_AA64ISAR1_EL1, 3 << 8)]);
    assert!(!system(&[fp(0), other_algorithm]).address_auth());
}

/// Reads of AArch32 registers on a CPU without AArch32 are UNKNOWN: they must not count.
#[test]
fn aarch32_registers_count_only_with_aarch32() {
    let with = cpu(&[(ID_AA64PFR0_EL1, 0x22), (MVFR0_EL1, 0x1011_0222)]);
    let without = cpu(&[(ID_AA64PFR0_EL1, 0x11), (MVFR0_EL1, 0xdead_beef)]);
    assert_eq!(
        system(std::slice::from_ref(&with)).value(MVFR0_EL1),
        0x1011_0222
    );
    assert_eq!(system(std::slice::from_ref(&without)).value(MVFR0_EL1), 0);
    assert!(!system(&[with, without]).aarch32_el0());
}

/// A Cortex-A72 as QEMU has it.
#[test]
fn a_cortex_a72() {
    let a72 = cpu(&[
        (ID_AA64PFR0_EL1, 0x0100_2222),
        (ID_AA64ISAR0_EL1, 0x1_1120),
        (ID_AA64MMFR0_EL1, 0x1124),
        (CTR_EL0, 0x8444_c004),
        (DCZID_EL0, 4),
    ]);
    let system = system(&[a72.clone(), a72]);
    assert!(
        system.aarch32_el0()
            && system.aarch32_el1()
            && system.el2()
            && system.fp()
            && system.gic_registers()
    );
    assert!(
        !system.hw_access_flag()
            && !system.pan()
            && !system.lse_atomics()
            && !system.idst()
            && !system.vhe()
    );
    assert!(system.e2h0() && system.granule_4k() && system.granule_4k_stage2());
    assert_eq!(
        (system.asid_bits(), system.vmid_bits(), system.pa_bits()),
        (16, 8, 44)
    );
    assert_eq!(system.pa_range(), 4);
    assert_eq!(
        (
            system.data_line(),
            system.instruction_line(),
            system.zeroed_block()
        ),
        (64, 64, Some(64))
    );
}

/// What one CPU does not reach, a table that all CPUs walk must not promise.
#[test]
fn the_least_range_of_physical_addresses_counts() {
    let cpus = [0x1125, 0x1122, 0x1126].map(|value| cpu(&[(ID_AA64MMFR0_EL1, value)]));
    let system = system(&cpus);
    assert_eq!((system.pa_range(), system.pa_bits()), (2, 40));
}

#[test]
fn fields_lie_inside_their_registers_and_do_not_overlap() {
    for description in register::all() {
        let mut seen = 0u64;
        for field in description.fields {
            assert!(
                (1..=4).contains(&field.width) && field.shift + field.width <= 64,
                "{}",
                field.name
            );
            assert_eq!(
                seen & field.mask(),
                0,
                "{}.{} overlaps",
                description.name,
                field.name
            );
            assert!(field.absent < 1 << field.width);
            seen |= field.mask();
        }
    }
}

#[test]
fn programs_are_big_endian_where_every_cpu_lets_them() {
    let all_levels = cpu(&[(ID_AA64MMFR0_EL1, 1 << 8)]);
    let theirs = cpu(&[(ID_AA64MMFR0_EL1, 1 << 16)]);
    let none = cpu(&[]);
    for (cpus, mixed) in [
        (vec![all_levels.clone()], true),
        (vec![theirs.clone(), theirs.clone()], true),
        (vec![all_levels.clone(), none.clone()], false),
        (vec![none, theirs], false),
    ] {
        assert_eq!(system(&cpus).mixed_endian_el0(), mixed);
    }
}
