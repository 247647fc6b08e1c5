//! A vCPU whose file cannot be created, because the process has no free descriptor, is not part of
//! its VM: its number is free, and neither interrupts nor PSCI calls find it.

use kvm_bindings::{KVM_REG_ARM_CORE, KVM_REG_ARM64, KVM_REG_SIZE_U64};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

use crate::host::{self, get, set};
use crate::sgis::{GROUP, GUEST, PENDING, set_word, word};

/// Registers x0 and x1.
const X0: u64 = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE as u64;
const X1: u64 = X0 + 2;
/// PSCI's AFFINITY_INFO: whether a CPU is on.
const AFFINITY_INFO: u64 = 0xc400_0004;
/// Makes the call in the registers by HVC, and then writes to a device, in a loop.
const CALLER: [u32; 4] = [0xd2a1_6014, 0xd400_0002, 0xb900_0280, 0x17ff_fffe];

/// Creates a vCPU while no descriptor is free.
fn fail(vm: &VmFd, id: u64) -> String {
    let limit = |soft: Option<libc::rlim_t>| {
        // SAFETY: the structure is valid for both calls.
        unsafe {
            let mut limit: libc::rlimit = std::mem::zeroed();
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
            let before = limit.rlim_cur;
            limit.rlim_cur = soft.unwrap_or(before);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
            before
        }
    };
    let before = limit(Some(0));
    let made = vm.create_vcpu(id);
    limit(Some(before));
    match made {
        Ok(_) => "made".into(),
        Err(error) => format!("errno {}", error.errno()),
    }
}

/// With an interrupt controller, before the first run: SGIs reach the vCPU that exists.
fn interrupts(kvm: &Kvm) {
    let (vm, _memory) = host::machine(kvm, &GUEST);
    let mut first = vm.create_vcpu(0).expect("a vCPU");
    println!("without a descriptor: {}", fail(&vm, 1));
    let second = vm.create_vcpu(1).expect("the same number");
    println!("the same number again: made");
    let controller = host::controller(&vm, 2);
    for (id, vcpu) in (0..).zip([&first, &second]) {
        host::reset(&vm, vcpu);
        set_word(&controller, id, GROUP, u32::MAX);
    }
    set(&first, X0, 5 << 24 | 1 << 1).expect("x0");
    assert!(matches!(first.run(), Ok(VcpuExit::MmioWrite(..))));
    let pending = [0, 1].map(|id| word(&controller, id, PENDING) & 0xffff);
    println!("an SGI to it: {pending:x?}");
}

/// The answer to the guest of `vcpu` about the CPU with this affinity.
fn info(vcpu: &mut VcpuFd, affinity: u64) -> String {
    set(vcpu, X0, AFFINITY_INFO).expect("x0");
    set(vcpu, X1, affinity).expect("x1");
    set(vcpu, X1 + 2, 0).expect("x2");
    assert!(matches!(vcpu.run(), Ok(VcpuExit::MmioWrite(..))));
    get(vcpu, X0).map_or_else(
        |errno| format!("errno {errno}"),
        |x0| format!("{}", x0 as i64),
    )
}

/// Without a controller, after the first run: PSCI calls find the vCPU that exists.
fn calls(kvm: &Kvm) {
    let (vm, _memory) = host::machine(kvm, &CALLER);
    let mut first = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &first);
    println!("itself: {}", info(&mut first, 0));
    println!("nobody: {}", info(&mut first, 3));
    println!("without a descriptor: {}", fail(&vm, 3));
    println!("who was not made: {}", info(&mut first, 3));
    let second = vm.create_vcpu(3).expect("the same number");
    host::reset(&vm, &second);
    println!("who was made: {}", info(&mut first, 3));
}

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    interrupts(kvm);
    calls(kvm);
}
