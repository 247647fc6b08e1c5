//! Errata and caches, whose values differ from those of a CPU's registers.

use idreg::register::{CTR_EL0, ID_AA64ISAR1_EL1, ID_AA64PFR1_EL1, MIDR_EL1, REVIDR_EL1};
use idreg::{
    El0View, Enabled, Hwcaps, Mrs, Raw, Register, StoreBypass, System, effective_cache_type,
};

const HWCAP_SSBS: u64 = 1 << 28;
const HWCAP2_BF16: u64 = 1 << 14;

fn cpu(values: &[(Register, u64)]) -> Raw {
    let mut cpu = Raw::new();
    values
        .iter()
        .for_each(|(register, value)| cpu.set(*register, *value));
    cpu
}

/// A CPU of this model that has SSBS and BF16.
fn model(midr: u64, revision: u64) -> Raw {
    cpu(&[
        (MIDR_EL1, midr),
        (REVIDR_EL1, revision),
        (ID_AA64PFR1_EL1, 2 << 4),
        (ID_AA64ISAR1_EL1, 1 << 44),
    ])
}

fn system(cpus: &[Raw]) -> System {
    let mut system = System::new();
    cpus.iter().for_each(|cpu| system.fold(cpu));
    system
}

/// Whether programs are told of SSBS and of BF16.
fn told(cpus: &[Raw]) -> (bool, bool) {
    let view = El0View::new(&system(cpus), Enabled::ALL, 0);
    let hwcaps = Hwcaps::new(&view);
    let (ssbs, bf16) = (
        hwcaps.hwcap & HWCAP_SSBS != 0,
        hwcaps.hwcap2 & HWCAP2_BF16 != 0,
    );
    assert_eq!(view.value(ID_AA64PFR1_EL1) != 0, ssbs);
    assert_eq!(view.value(ID_AA64ISAR1_EL1) != 0, bf16);
    (ssbs, bf16)
}

const CORTEX_A76: u64 = 0x414f_d0b1;
const CORTEX_A55: u64 = 0x412f_d050;
const CORTEX_A510_R1P1: u64 = 0x411f_d461;

#[test]
fn ssbs_is_hidden_if_any_cpu_orders_it_badly() {
    let (bad, good) = (model(CORTEX_A76, 0), model(CORTEX_A55, 0));
    assert_eq!(told(std::slice::from_ref(&good)), (true, true));
    assert_eq!(told(std::slice::from_ref(&bad)), (false, true));
    assert_eq!(told(&[good.clone(), bad.clone()]), (false, true));
    assert!(system(std::slice::from_ref(&good)).admit(&bad).is_err());
    assert!(system(&[bad]).admit(&good).is_ok());
    // The kernel itself and guests have it.
    assert!(system(&[model(CORTEX_A76, 0)]).ssbs());
    // The implementer counts too.
    assert_eq!(told(&[model(0x6d0f_d490, 0)]), (false, true));
    assert_eq!(told(&[model(0x6d0f_d0b0, 0)]), (true, true));
}

#[test]
fn of_store_bypass_the_worst_cpu_counts() {
    const CORTEX_A72: u64 = 0x410f_d083;
    let plain = |midr| cpu(&[(MIDR_EL1, midr)]);
    let (safe, open, closed) = (plain(CORTEX_A55), plain(CORTEX_A72), model(CORTEX_A72, 0));
    let of =
        |cpus: &[&Raw]| system(&cpus.iter().copied().cloned().collect::<Vec<_>>()).store_bypass();
    assert_eq!(of(&[&safe]), StoreBypass::Unaffected);
    assert_eq!(of(&[&safe, &closed]), StoreBypass::Mitigated);
    assert_eq!(of(&[&open, &safe, &closed]), StoreBypass::Vulnerable);
    assert!(system(&[closed]).admit(&safe).is_err(), "it lacks SSBS");
    let missing = system(&[safe]).admit(&open).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "ID_AA64PFR1_EL1.SSBS is 0, but 1 was promised"
    );
}

#[test]
fn bf16_is_hidden_on_the_first_cortex_a510() {
    assert_eq!(told(&[model(CORTEX_A510_R1P1, 0)]), (true, false));
    assert_eq!(told(&[model(CORTEX_A510_R1P1, 1 << 25)]), (true, true));
    assert_eq!(told(&[model(0x410f_d463, 1 << 25)]), (true, false));
    assert_eq!(told(&[model(0x411f_d462, 0)]), (true, true));
}

/// CLIDR_EL1 of a Neoverse N1, whose level of unification is the first; of a Cortex-A72.
const N1_LEVELS: u64 = 0x0200_0123;
const A72_LEVELS: u64 = 0x0a20_0023;
const IDC: u64 = 1 << 28;

#[test]
fn caches_without_levels_need_no_cleaning() {
    const N1: u64 = 0x8444_c004;
    assert_eq!(effective_cache_type(N1, N1_LEVELS), N1 | IDC);
    assert_eq!(effective_cache_type(0x8444_c004, A72_LEVELS), 0x8444_c004);
    assert_eq!(effective_cache_type(N1, 1 << 27 | 1 << 21), N1 | IDC);
    let system = system(&[cpu(&[(CTR_EL0, N1 | IDC)])]);
    assert!(system.clean_not_needed() && system.misreports_cache_type(N1));
    assert!(!system.misreports_cache_type(N1 | IDC));
    // Another policy is nothing that programs are told.
    assert!(!system.misreports_cache_type(N1 & !(3 << 14) | IDC));
    let read = Mrs {
        op0: 3,
        op1: 3,
        crn: 0,
        crm: 0,
        op2: 1,
        rt: 3,
    };
    assert_eq!(
        El0View::new(&system, Enabled::NONE, 0).emulate(read),
        Some(N1 | IDC)
    );
}
