//! A guest's ID registers on the present CPU model.

use kvm_bindings::{KVM_ARM_VCPU_PTRAUTH_ADDRESS, KVM_ARM_VCPU_PTRAUTH_GENERIC, KVM_ARM_VCPU_SVE};
use kvm_ioctls::Kvm;

use crate::host::{get, pass, system};

const FINALIZE: u64 = 0x4004_aec2;
/// KVM_CAP_ARM_SVE, KVM_CAP_ARM_PTRAUTH_ADDRESS.
const HAS_SVE: u64 = 170;
const HAS_AUTHENTICATION: u64 = 171;

/// Prints all registers that are not zero: without optional features, and with all available ones.
pub fn tell(kvm: &Kvm) {
    registers(kvm, "plain", 0);
    let mut features = 0;
    if kvm.check_extension_raw(HAS_SVE) > 0 {
        features |= 1 << KVM_ARM_VCPU_SVE;
    }
    if kvm.check_extension_raw(HAS_AUTHENTICATION) > 0 {
        features |= 1 << KVM_ARM_VCPU_PTRAUTH_ADDRESS | 1 << KVM_ARM_VCPU_PTRAUTH_GENERIC;
    }
    if features != 0 {
        registers(kvm, "with features", features);
    }
}

fn registers(kvm: &Kvm, what: &str, features: u32) {
    println!("{what}");
    let vm = kvm.create_vm().expect("a VM");
    let _controller = crate::host::unset_controller(&vm);
    let vcpu = vm.create_vcpu(0).expect("a vCPU");
    let mut init = kvm_bindings::kvm_vcpu_init::default();
    vm.get_preferred_target(&mut init).expect("a target");
    init.features[0] = features;
    vcpu.vcpu_init(&init).expect("init");
    if features & 1 << KVM_ARM_VCPU_SVE != 0 {
        assert_eq!(pass(&vcpu, FINALIZE, &mut { KVM_ARM_VCPU_SVE }), "0");
    }
    for (m, op2) in (1..8).flat_map(|m| (0..8).map(move |op2| (m, op2))) {
        match get(&vcpu, system(3, 0, 0, m, op2)) {
            Ok(0) => {}
            Ok(value) => println!("  {m} {op2}: {value:016x}"),
            Err(error) => println!("  {m} {op2}: errno {error}"),
        }
    }
}
