//! An ITS as a VMM sets it up, and the effects of MSIs: the VMM writes tables and commands in place
//! of the guest, and no guest runs.

use kvm_bindings::{
    KVM_ARM_VCPU_PSCI_0_2, kvm_device_attr, kvm_userspace_memory_region as Region,
    kvm_vcpu_init as Init,
};
use kvm_ioctls::{DeviceFd, Kvm, VmFd};

use crate::call;

const SIGNAL_MSI: u64 = 0x4020_aea5;
const CREATE_DEVICE: u64 = 0xc00c_aee0;
/// Attribute groups, and their attributes.
const ADDRESS: u32 = 0;
const CONTROL: u32 = 4;
const REDISTRIBUTOR: u32 = 5;
const REGISTERS: u32 = 8;
const SAVE: u64 = 1;
const RESTORE: u64 = 2;
const PENDING: u64 = 3;
const RESET: u64 = 4;
/// The addresses of the ITS, and of the guest's memory with its tables.
const FRAME: u64 = 0x0808_0000;
const DOORBELL: u64 = FRAME + 0x1_0040;
const MEMORY: u64 = 0x4000_0000;
const LEN: usize = 1 << 20;
const QUEUE: u64 = 0;
const DEVICES: u64 = 0x1_0000;
const COLLECTIONS: u64 = 0x2_0000;
const PROPERTIES: u64 = 0x3_0000;
const PENDINGS: u64 = 0x4_0000;
const EVENTS: u64 = 0x8_0000;
const VALID: u64 = 1 << 63;

struct Bench {
    vm: VmFd,
    controller: DeviceFd,
    its: DeviceFd,
    memory: *mut u8,
    next: u64,
}

fn set(device: &DeviceFd, group: u32, attr: u64, value: u64) -> Result<(), i32> {
    let attribute = kvm_device_attr {
        group,
        attr,
        addr: &raw const value as u64,
        flags: 0,
    };
    device
        .set_device_attr(&attribute)
        .map_err(|error| error.errno())
}

fn get(device: &DeviceFd, group: u32, attr: u64) -> Result<String, i32> {
    let mut value = 0u64;
    let mut attribute = kvm_device_attr {
        group,
        attr,
        addr: &raw mut value as u64,
        flags: 0,
    };
    // SAFETY: no requested attribute is longer than the value.
    let result = unsafe { device.get_device_attr(&mut attribute) };
    result
        .map(|()| format!("{value:#x}"))
        .map_err(|error| error.errno())
}

fn has(device: &DeviceFd, group: u32, attr: u64) -> Result<(), i32> {
    let attribute = kvm_device_attr {
        group,
        attr,
        ..Default::default()
    };
    device
        .has_device_attr(&attribute)
        .map_err(|error| error.errno())
}

fn device(vm: &VmFd, type_: u32) -> DeviceFd {
    let mut device = kvm_bindings::kvm_create_device {
        type_,
        ..Default::default()
    };
    vm.create_device(&mut device).expect("a device")
}

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    let vm = kvm.create_vm().expect("a VM");
    println!(
        "extensions: {} {}",
        kvm.check_extension_raw(77),
        vm.check_extension_raw(131)
    );
    println!(
        "message to no controller: {}",
        signal(&vm, DOORBELL, 1, 0, 0)
    );
    for id in 0..2 {
        let vcpu = vm.create_vcpu(id).expect("a vCPU");
        let mut init = Init::default();
        vm.get_preferred_target(&mut init).expect("a target");
        init.features[0] = 1 << KVM_ARM_VCPU_PSCI_0_2;
        vcpu.vcpu_init(&init).expect("init");
        // The vCPUs stay until the process ends.
        std::mem::forget(vcpu);
    }
    let controller = device(&vm, 7);
    set(&controller, CONTROL, 0, 0).expect("the end of set-up");
    println!("message to no ITS: {}", signal(&vm, DOORBELL, 1, 0, 0));
    let kinds = |what: &str| {
        for (group, at) in [
            (1, 4),
            (REDISTRIBUTOR, 8),
            (REDISTRIBUTOR, 0x70),
            (REDISTRIBUTOR, 0),
        ] {
            println!("{what} {group} {at:#x}: {:?}", get(&controller, group, at));
        }
    };
    kinds("before");
    let mut request = [8u32, 0, 1];
    println!(
        "would an ITS: {}",
        call(&vm, CREATE_DEVICE, request.as_mut_ptr() as usize)
    );
    let its = device(&vm, 8);
    kinds("behind");
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), LEN, 3, flags, -1, 0) };
    let region = Region {
        slot: 0,
        flags: 0,
        guest_phys_addr: MEMORY,
        memory_size: LEN as u64,
        userspace_addr: memory as u64,
    };
    // SAFETY: the memory stays mapped until the process ends.
    unsafe { vm.set_user_memory_region(region) }.expect("memory");
    let mut bench = Bench {
        vm,
        controller,
        its,
        memory: memory.cast(),
        next: 0,
    };
    bench.attributes();
    bench.registers();
    bench.messages();
    bench.tables();
}

/// The interrupt that an MSI causes.
fn signal(vm: &VmFd, doorbell: u64, flags: u32, device: u32, event: u32) -> String {
    let message = [
        doorbell as u32,
        (doorbell >> 32) as u32,
        event,
        flags,
        device,
        0,
        0,
        0,
    ];
    call(vm, SIGNAL_MSI, message.as_ptr() as usize)
}

impl Bench {
    fn attributes(&self) {
        let its = &self.its;
        for (group, at) in [
            (ADDRESS, 4),
            (ADDRESS, 2),
            (CONTROL, 0),
            (CONTROL, SAVE),
            (CONTROL, RESTORE),
            (CONTROL, PENDING),
            (CONTROL, RESET),
            (CONTROL, 9),
            (REGISTERS, 0),
            (REGISTERS, 2),
            (REGISTERS, 0x84),
            (REGISTERS, 0x98),
            (REGISTERS, 0x138),
            (REGISTERS, 0x140),
            (REGISTERS, 0xffe8),
            (REGISTERS, 0x1_0040),
            (99, 0),
        ] {
            println!("has {group} {at:#x}: {:?}", has(its, group, at));
        }
        println!(
            "no place yet: {:?} {:?}",
            get(its, REGISTERS, 0),
            get(its, ADDRESS, 4)
        );
        println!("another kind of place: {:?}", set(its, ADDRESS, 2, FRAME));
        println!("odd: {:?}", set(its, ADDRESS, 4, FRAME + 0x1000));
        println!("too far: {:?}", set(its, ADDRESS, 4, 1 << 50));
        println!("a place: {:?}", set(its, ADDRESS, 4, FRAME));
        println!("another: {:?}", set(its, ADDRESS, 4, FRAME + 0x10_0000));
        println!("where: {:?}", get(its, ADDRESS, 4));
        println!("the end: {:?}", set(its, CONTROL, 0, 0));
        println!(
            "nonsense: {:?} {:?}",
            set(its, CONTROL, 9, 0),
            set(its, 99, 0, 0)
        );
    }

    /// Sets a register, and prints its new value.
    fn register(&self, at: u64, value: u64) {
        let set = set(&self.its, REGISTERS, at, value);
        println!(
            "{at:#x} = {value:#x}: {set:?} {:?}",
            get(&self.its, REGISTERS, at)
        );
    }

    fn registers(&self) {
        for at in [
            0, 4, 8, 0x80, 0x88, 0x90, 0x100, 0x108, 0x110, 0xffd0, 0xffe0, 0xffe4, 0xffe8, 0xfff0,
        ] {
            println!("{at:#x}: {:?}", get(&self.its, REGISTERS, at));
        }
        self.register(0, 1);
        self.register(4, 0x4b00_143b);
        self.register(4, 0x4b00_043b);
        self.register(8, 0);
        for at in [0x80, 0x100, 0x108, 0x110] {
            self.register(at, u64::MAX);
            self.register(at, 0x7fff_ffff_ffff_ffff);
            self.register(at, 0);
        }
        self.register(0x80, VALID | (MEMORY + QUEUE) | 15);
        self.register(0x100, VALID | (MEMORY + DEVICES));
        self.register(0x108, VALID | (MEMORY + COLLECTIONS));
        self.register(0x88, 0x10_0000);
        self.register(0x90, 0x40);
        self.register(0x90, 0);
        self.register(0x90, 0x1_0000);
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        // SAFETY: all offsets written are in the mapping.
        unsafe {
            self.memory
                .add(at as usize)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
    }

    fn word(&self, at: u64) -> u64 {
        // SAFETY: as above, and aligned.
        unsafe { self.memory.add(at as usize).cast::<u64>().read_volatile() }
    }

    fn run(&mut self, what: &str, command: [u64; 4]) {
        for (at, word) in (0..).step_by(8).zip(command) {
            self.put(QUEUE + self.next + at, &word.to_le_bytes());
        }
        self.next += 32;
        let done = set(&self.its, REGISTERS, 0x88, self.next);
        println!("{what}: {done:?} {:?}", get(&self.its, REGISTERS, 0x90));
    }

    fn send(&self, device: u32, event: u32) {
        println!(
            "message {device} {event}: {}",
            signal(&self.vm, DOORBELL, 1, device, event)
        );
    }

    fn messages(&mut self) {
        for (at, value) in [
            (0x70, (MEMORY + PROPERTIES) | 15),
            (0x78, MEMORY + PENDINGS),
        ] {
            for cpu in [0, 1 << 32] {
                let shift = if at == 0x78 { cpu >> 16 } else { 0 };
                let done = set(&self.controller, REDISTRIBUTOR, cpu | at, value + shift);
                println!(
                    "tables: {done:?} {:?}",
                    get(&self.controller, REDISTRIBUTOR, cpu | at)
                );
            }
        }
        self.put(PROPERTIES, &[0xa1; 64]);
        self.send(3, 1);
        self.register(0, 1);
        println!(
            "elsewhere: {}",
            signal(&self.vm, DOORBELL + 0x100_0000, 1, 3, 1)
        );
        println!("without a device: {}", signal(&self.vm, DOORBELL, 0, 3, 1));
        println!("another flag: {}", signal(&self.vm, DOORBELL, 3, 3, 1));
        self.send(3, 1);
        self.run("a device", [3 << 32 | 8, 3, VALID | (MEMORY + EVENTS), 0]);
        self.run("an event", [3 << 32 | 0xa, 8193 << 32 | 1, 5, 0]);
        self.run("an event too far", [3 << 32 | 0xa, 8194 << 32 | 16, 5, 0]);
        self.run("an LPI too low", [3 << 32 | 0xa, 8191 << 32 | 2, 5, 0]);
        self.run("an LPI too high", [3 << 32 | 0xa, 65536 << 32 | 3, 5, 0]);
        self.run(
            "an event of no device",
            [4 << 32 | 0xa, 8195 << 32 | 1, 5, 0],
        );
        self.send(3, 1);
        self.run("a collection of nobody", [9, 0, VALID | 7 << 16 | 5, 0]);
        self.send(3, 1);
        self.run("a collection", [9, 0, VALID | 1 << 16 | 5, 0]);
        self.send(3, 1);
        for cpu in [0, 1 << 32] {
            let done = set(&self.controller, REDISTRIBUTOR, cpu, 1);
            println!(
                "LPIs on: {done:?} {:?}",
                get(&self.controller, REDISTRIBUTOR, cpu)
            );
        }
        self.send(3, 1);
        self.send(3, 2);
        self.send(3, 16);
        self.send(4, 1);
        self.send(1 << 20, 1);
        self.pending("one");
        self.run("clear", [3 << 32 | 4, 1, 0, 0]);
        self.pending("cleared");
        self.run("interrupt", [3 << 32 | 3, 1, 0, 0]);
        self.pending("interrupted");
        self.run("another collection", [9, 0, VALID | 6, 0]);
        self.run("moved", [3 << 32 | 1, 1, 6, 0]);
        self.pending("moved");
        self.run("moved to none", [3 << 32 | 1, 1, 9, 0]);
        self.run("all moved", [0xe, 0, 0, 1 << 16]);
        self.pending("all moved");
        self.run("a nonsense", [0x77, u64::MAX, u64::MAX, u64::MAX]);
        self.run(
            "a device too far",
            [0x2_0000 << 32 | 8, 3, VALID | (MEMORY + EVENTS), 0],
        );
    }

    /// Saves the pending state of LPIs, and prints which are pending by the tables.
    fn pending(&self, what: &str) {
        println!(
            "pending, {what}: {:?}",
            set(&self.controller, CONTROL, PENDING, 0)
        );
        for table in [PENDINGS, PENDINGS + 0x1_0000] {
            println!("  {:#x}", self.word(table + 1024));
        }
    }

    fn tables(&mut self) {
        self.run("a second event", [3 << 32 | 0xa, 8200 << 32 | 9, 6, 0]);
        self.run(
            "a second device",
            [70 << 32 | 8, 0, VALID | (MEMORY + EVENTS + 0x1000), 0],
        );
        self.run("an event of it", [70 << 32 | 0xb, 0, 5, 0]);
        self.run("one of it", [70 << 32 | 0xa, 8201 << 32, 5, 0]);
        println!("save: {:?}", set(&self.its, CONTROL, SAVE, 0));
        self.tell_tables();
        let registers = [0x80, 0x100, 0x108, 0x88, 0x90].map(|at| {
            let value = get(&self.its, REGISTERS, at).expect("a register");
            (at, u64::from_str_radix(&value[2..], 16).expect("a number"))
        });
        println!("reset: {:?}", set(&self.its, CONTROL, RESET, 0));
        for at in [0, 4, 0x80, 0x88, 0x90, 0x100, 0x108] {
            println!("{at:#x}: {:?}", get(&self.its, REGISTERS, at));
        }
        self.send(3, 1);
        for (at, value) in registers.into_iter().filter(|(at, _)| *at != 0x88) {
            self.register(at, value);
        }
        self.register(0x88, registers[3].1);
        println!("restore: {:?}", set(&self.its, CONTROL, RESTORE, 0));
        self.register(0, 1);
        self.send(3, 1);
        self.send(3, 9);
        self.send(70, 0);
        self.pending("restored");
        self.run("discarded", [3 << 32 | 0xf, 1, 0, 0]);
        self.send(3, 1);
        self.run("unmapped", [3 << 32 | 8, 0, 0, 0]);
        self.send(3, 9);
        self.run("no collection", [9, 0, 5, 0]);
        self.send(70, 0);
        self.register(0, 0);
        // An invalid table.
        self.put(COLLECTIONS, &(VALID | 9 << 16).to_le_bytes());
        println!(
            "restore nonsense: {:?}",
            set(&self.its, CONTROL, RESTORE, 0)
        );
    }

    fn tell_tables(&self) {
        for (what, table) in [("devices", DEVICES), ("collections", COLLECTIONS)] {
            for at in [0, 3, 4, 70]
                .map(|at| table + 8 * at)
                .into_iter()
                .chain([table + 8, table + 16])
            {
                println!("{what} {at:#x}: {:#x}", self.word(at));
            }
        }
        for at in [0, 8, 72, 0x1000] {
            println!("events {at:#x}: {:#x}", self.word(EVENTS + at));
        }
    }
}
