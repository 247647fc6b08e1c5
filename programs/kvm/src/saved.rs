//! A GICv3's state as a VMM saves and restores it: existing registers, their values, and refused
//! accesses.

use kvm_bindings::{KVM_ARM_VCPU_PSCI_0_2, kvm_device_attr, kvm_vcpu_init as Init};
use kvm_ioctls::{DeviceFd, Kvm, VmFd};

use crate::host::reset;

/// Attribute groups.
const DISTRIBUTOR: u32 = 1;
const REDISTRIBUTOR: u32 = 5;
const INTERFACE: u32 = 6;
const LEVELS: u32 = 7;
const CONTROL: u32 = 4;
/// The offset of the redistributor's SGI_base frame.
const PRIVATE: u64 = 0x1_0000;
/// The affinity of vCPU 1, and of none.
const SECOND: u64 = 1 << 32;
const NOBODY: u64 = 9 << 32;
/// Registers of the CPU interface, by their encodings.
const REGISTERS: [(&str, u64); 17] = [
    ("PMR", 0xc230),
    ("BPR0", 0xc643),
    ("AP0R0", 0xc644),
    ("AP0R1", 0xc645),
    ("AP0R2", 0xc646),
    ("AP0R3", 0xc647),
    ("AP1R0", 0xc648),
    ("AP1R1", 0xc649),
    ("AP1R2", 0xc64a),
    ("AP1R3", 0xc64b),
    ("BPR1", 0xc663),
    ("CTLR", 0xc664),
    ("SRE", 0xc665),
    ("IGRPEN0", 0xc666),
    ("IGRPEN1", 0xc667),
    ("IAR1", 0xc660),
    ("none", 0),
];

/// The redistributors with GICR_TYPER.Last while regions are added: the third region begins where
/// the second would continue.
fn last(kvm: &Kvm) {
    const ADDRESS: u32 = 0;
    const REGION: u64 = 5;
    const TYPER: u64 = 8;
    let vm = kvm.create_vm().expect("a VM");
    let controller = Controller::new(&vm);
    let vcpus = [0, 3, 5, 4, 1, 2].map(|id| vm.create_vcpu(id).expect("a vCPU"));
    vcpus.iter().for_each(|vcpu| reset(&vm, vcpu));
    controller.set(CONTROL, 0, 0).expect("init");
    for (index, base) in (0..).zip([0x10_0000u64, 0x24_0000, 0x20_0000]) {
        let region = 2 << 52 | base | index;
        println!("region: {:?}", controller.set(ADDRESS, REGION, region));
        for affinity in 0..6 {
            let typer = controller.get(REDISTRIBUTOR, affinity << 32 | TYPER);
            println!("{affinity}: {typer:?}");
        }
    }
}

struct Controller(DeviceFd);

impl Controller {
    fn new(vm: &VmFd) -> Self {
        let mut device = kvm_bindings::kvm_create_device {
            type_: 7,
            ..Default::default()
        };
        Controller(vm.create_device(&mut device).expect("a controller"))
    }

    fn has(&self, group: u32, attr: u64) -> Result<(), i32> {
        let attribute = kvm_device_attr {
            group,
            attr,
            ..Default::default()
        };
        self.0
            .has_device_attr(&attribute)
            .map_err(|error| error.errno())
    }

    fn get(&self, group: u32, attr: u64) -> Result<String, i32> {
        let mut value = 0u64;
        let mut attribute = kvm_device_attr {
            group,
            attr,
            addr: &raw mut value as u64,
            flags: 0,
        };
        // SAFETY: no requested attribute is longer than the value.
        let result = unsafe { self.0.get_device_attr(&mut attribute) };
        result
            .map(|()| format!("{value:#x}"))
            .map_err(|error| error.errno())
    }

    fn set(&self, group: u32, attr: u64, value: u64) -> Result<(), i32> {
        self.set_at(group, attr, &raw const value as u64)
    }

    fn set_at(&self, group: u32, attr: u64, addr: u64) -> Result<(), i32> {
        let attribute = kvm_device_attr {
            group,
            attr,
            addr,
            flags: 0,
        };
        self.0
            .set_device_attr(&attribute)
            .map_err(|error| error.errno())
    }

    /// Sets a word, and prints its new value.
    fn tell(&self, what: &str, group: u32, attr: u64, value: u64) {
        let set = self.set(group, attr, value);
        println!(
            "{what} {attr:#x} = {value:#x}: {set:?} {:?}",
            self.get(group, attr)
        );
    }
}

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    last(kvm);
    let vm = kvm.create_vm().expect("a VM");
    let controller = Controller::new(&vm);
    println!("no CPU: {:?}", controller.has(DISTRIBUTOR, 0));
    println!("no CPU, set: {:?}", controller.set(DISTRIBUTOR, 0, 2));
    let vcpus = [0, 1].map(|id| vm.create_vcpu(id).expect("a vCPU"));
    for vcpu in &vcpus {
        let mut init = Init::default();
        vm.get_preferred_target(&mut init).expect("a target");
        init.features[0] = 1 << KVM_ARM_VCPU_PSCI_0_2;
        vcpu.vcpu_init(&init).expect("init");
        // SPSR_abt and the like, which QEMU restores on each vCPU.
        for word in [74, 76, 78, 80, 82] {
            let name = 0x6030_0000_0010_0000 | word;
            let set = vcpu.set_one_reg(name, &word.to_le_bytes());
            let mut value = [0; 8];
            let get = vcpu.get_one_reg(name, &mut value);
            println!(
                "word {word}: {:?} {:?} {}",
                set.map_err(|error| error.errno()),
                get.map_err(|error| error.errno()),
                u64::from_le_bytes(value)
            );
        }
    }
    println!("early: {:?}", controller.get(DISTRIBUTOR, 0));
    println!("early, nobody: {:?}", controller.get(REDISTRIBUTOR, NOBODY));
    println!(
        "early, bad memory: {:?}",
        controller.set_at(DISTRIBUTOR, 0, 8)
    );
    println!("early tables: {:?}", controller.set(CONTROL, 3, 0));
    controller.set(3, 0, 96).expect("interrupts");
    controller.set(CONTROL, 0, 0).expect("the end of set-up");
    println!("tables: {:?}", controller.set(CONTROL, 3, 0));
    there(&controller);
    distributor(&controller);
    redistributor(&controller);
    interface(&controller);
    levels(&controller);
}

/// Prints the offsets of existing words, as ranges.
fn there(controller: &Controller) {
    for (what, group, end) in [
        ("distributor", DISTRIBUTOR, 0x1_0000),
        ("redistributor", REDISTRIBUTOR, 0x2_0010),
    ] {
        let mut row = None;
        for offset in (0..=end).step_by(4) {
            let result = controller.has(group, offset);
            match (row, result) {
                (None, Ok(())) => row = Some(offset),
                (Some(first), Err(_)) => {
                    println!("{what} has {first:#x} to {offset:#x}");
                    row = None;
                }
                _ => {}
            }
        }
        for (which, at) in [("odd", 2), ("far", 1 << 20), ("nobody's", NOBODY)] {
            println!(
                "{what}, {which}: {:?} {:?}",
                controller.has(group, at),
                controller.get(group, at)
            );
        }
    }
}

fn distributor(controller: &Controller) {
    for offset in [0, 4, 8, 12, 0x10, 0xffe8, 0xfff0] {
        println!("{offset:#x}: {:?}", controller.get(DISTRIBUTOR, offset));
    }
    let tell = |offset, value| controller.tell("distributor", DISTRIBUTOR, offset, value);
    tell(0, 0xffff_ffff);
    tell(4, 1);
    for name in [
        0x4b00_243b,
        0x4b00_143b,
        0x4b00_443b,
        0x4b00_343a,
        0x4b00_343b,
    ] {
        tell(8, name);
    }
    tell(12, 1);
    for offset in [0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380] {
        tell(offset, 0xff);
        tell(offset + 4, 0xff);
        tell(offset + 4, 0xf);
    }
    for offset in [0x104, 0x184, 0x204, 0x284, 0x304, 0x384] {
        println!("{offset:#x}: {:?}", controller.get(DISTRIBUTOR, offset));
    }
    for offset in [
        0x400, 0x420, 0x820, 0xc00, 0xc08, 0xd04, 0x6000, 0x6100, 0x6104,
    ] {
        tell(offset, 0x1234_5678);
    }
    tell(0x6108, 1);
    tell(0x42, 1);
}

fn redistributor(controller: &Controller) {
    for of in [0, SECOND] {
        for offset in [
            0, 4, 8, 12, 0x10, 0x14, 0x70, 0x74, 0x78, 0x7c, 0xc0, 0xffe8,
        ] {
            println!(
                "{offset:#x}: {:?}",
                controller.get(REDISTRIBUTOR, of | offset)
            );
        }
    }
    let tell =
        |offset, value| controller.tell("redistributor", REDISTRIBUTOR, SECOND | offset, value);
    for offset in [0, 8, 0x14, 0x70, 0x74, 0x78, 0x7c, 0xa0, 0xb0] {
        tell(offset, 0xffff_ffff);
        tell(offset, 0x1234_5678);
    }
    for offset in [0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380] {
        tell(PRIVATE + offset, 0xff_00ff);
        tell(PRIVATE + offset, 0xf_000f);
    }
    for offset in [0x100, 0x200, 0x300] {
        println!(
            "{offset:#x}: {:?}",
            controller.get(REDISTRIBUTOR, SECOND | PRIVATE | offset)
        );
    }
    for offset in [0x400, 0x41c, 0xc00, 0xc04, 0xd00, 0xe00] {
        tell(PRIVATE + offset, 0xfedc_ba98);
    }
    println!(
        "the first's: {:?}",
        controller.get(REDISTRIBUTOR, PRIVATE | 0x400)
    );
}

fn interface(controller: &Controller) {
    for (name, register) in REGISTERS {
        let first = controller.get(INTERFACE, register);
        println!(
            "{name}: {:?} {first:?}",
            controller.has(INTERFACE, register)
        );
        let (same, what) = match first {
            Ok(value) => (
                u64::from_str_radix(&value[2..], 16).expect("a number"),
                "the same",
            ),
            Err(_) => (0, "zero"),
        };
        println!(
            "{name}, {what}: {:?}",
            controller.set(INTERFACE, SECOND | register, same)
        );
        // A value of CTLR that Linux refuses has changed a part of it.
        let values: &[u64] = if name == "CTLR" {
            &[]
        } else {
            &[3, u64::MAX, 0]
        };
        for &value in values {
            controller.tell(name, INTERFACE, SECOND | register, value);
        }
    }
    let set = |register, value| controller.set(INTERFACE, SECOND | register, value);
    let read = controller.get(INTERFACE, 0xc664).expect("CTLR");
    let kind = u64::from_str_radix(&read[2..], 16).expect("a number");
    println!(
        "both by one: {:?} {:?}",
        set(0xc643, 4),
        set(0xc664, kind | 1)
    );
    controller.tell("BPR1", INTERFACE, SECOND | 0xc663, 2);
    println!("less: {:?}", set(0xc664, kind - 0x100));
    println!("more again: {:?}", set(0xc664, kind));
    println!("nobody's: {:?}", set(NOBODY | 0xc664, kind));
    println!("bad memory: {:?}", controller.set_at(INTERFACE, 0xc230, 8));
}

fn levels(controller: &Controller) {
    for at in [0, SECOND, 32, SECOND | 64, 96, 1 << 9, 8, 1 << 10, NOBODY] {
        println!("has levels {at:#x}: {:?}", controller.has(LEVELS, at));
        controller.tell("levels", LEVELS, at, 0xffff_ffff);
    }
    // Level-sensitive.
    controller.tell("configuration", DISTRIBUTOR, 0xc08, 0);
    println!("levels: {:?}", controller.get(LEVELS, 32));
    println!("pending: {:?}", controller.get(DISTRIBUTOR, 0x204));
    controller.tell("levels", LEVELS, 32, 0x3);
}
