//! An SGI reaches the vCPUs that the guest's write selects, and no others.

use kvm_bindings::kvm_device_attr;
use kvm_ioctls::{DeviceFd, Kvm, VcpuExit};

use crate::host::{self, set};

/// Register x0.
pub const X0: u64 = 0x6030_0000_0010_0000;
const REDISTRIBUTOR: u32 = 5;
/// GICR_IGROUPR0 and GICR_ISPENDR0.
pub const GROUP: u64 = 0x1_0080;
pub const PENDING: u64 = 0x1_0200;
const VCPUS: u64 = 3;
const ALL_BUT_SELF: u64 = 1 << 40;

/// Writes x0 to ICC_SGI1R_EL1, and then to a device, in a loop.
pub const GUEST: [u32; 4] = [0xd2a1_6014, 0xd518_cba0, 0xb900_0280, 0x17ff_fffe];

/// A word of the redistributor of the vCPU with this affinity, packed as Aff3 to Aff0.
pub fn word(controller: &DeviceFd, vcpu: u64, offset: u64) -> u32 {
    let mut value = 0;
    let mut attribute = kvm_device_attr {
        group: REDISTRIBUTOR,
        attr: vcpu << 32 | offset,
        addr: &raw mut value as u64,
        flags: 0,
    };
    // SAFETY: the value has the register's length.
    unsafe { controller.get_device_attr(&mut attribute) }.expect("a register");
    value
}

/// Sets a word of a redistributor.
pub fn set_word(controller: &DeviceFd, vcpu: u64, offset: u64, value: u32) {
    let attribute = kvm_device_attr {
        group: REDISTRIBUTOR,
        attr: vcpu << 32 | offset,
        addr: &raw const value as u64,
        flags: 0,
    };
    controller.set_device_attr(&attribute).expect("a register");
}

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    let (vm, _memory) = host::machine(kvm, &GUEST);
    let mut vcpus: Vec<_> = (0..VCPUS)
        .map(|id| vm.create_vcpu(id).expect("a vCPU"))
        .collect();
    let controller = host::controller(&vm, VCPUS);
    for (id, vcpu) in (0..).zip(&vcpus) {
        host::reset(&vm, vcpu);
        set_word(&controller, id, GROUP, u32::MAX);
    }
    for (what, value) in [
        ("all but the sender", ALL_BUT_SELF | 7 << 24),
        (
            "all but the sender, who is listed",
            ALL_BUT_SELF | 6 << 24 | 1,
        ),
        ("the two others", 5 << 24 | 0b110),
        ("the last", 4 << 24 | 0b100),
        ("the sender", 3 << 24 | 0b001),
        ("nobody", 2 << 24),
        ("nobody there", 1 << 24 | 0b1000),
        ("another cluster", 1 << 24 | 1 << 16 | 0b111),
    ] {
        set(&vcpus[0], X0, value).expect("x0");
        assert!(matches!(vcpus[0].run(), Ok(VcpuExit::MmioWrite(..))));
        print!("{what}:");
        for id in 0..VCPUS {
            print!(" {:#x}", word(&controller, id, PENDING) & 0xffff);
        }
        println!();
    }
}
