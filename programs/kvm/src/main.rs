//! Edge cases of KVM as a VMM sees them: errors, registers and exits. The output is the same on
//! every kernel with KVM.

/// Guest instructions that enable the CPU interface of the interrupt controller, for group 1 and
/// all priorities above the lowest.
macro_rules! interface_on {
    () => {
        concat!(
            "mov x0, #7\n",
            "msr s3_0_c12_c12_5, x0\n",
            "isb\n",
            "mov x0, #0xf0\n",
            "msr s3_0_c4_c6_0, x0\n",
            "mov x0, #1\n",
            "msr s3_0_c12_c12_7, x0",
        )
    };
}

mod caches;
mod calls;
mod coalesced;
mod controller;
mod copies;
mod counters;
mod debug;
mod descriptors;
mod eventfds;
mod guest;
mod host;
mod idregs;
mod its;
mod left;
mod modes;
mod mpidrs;
mod own;
mod pages;
mod requests;
mod saved;
mod sgis;
mod shares;
mod sizes;
mod timers;
mod vcpus;
mod vectors;
mod vmids;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use host::{PC, call, get, number, set};
use kvm_bindings::{
    KVM_ARM_VCPU_POWER_OFF, KVM_ARM_VCPU_PSCI_0_2, kvm_userspace_memory_region as Region,
    kvm_vcpu_init as Init,
};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

const MEMORY: usize = 2 << 20;
const CORE: u64 = 0x6030_0000_0010_0000;
const PSTATE: u64 = CORE | 66;
const MPIDR: u64 = 0x6030_0000_0013_c005;
/// ID_AA64MMFR0_EL1, the virtual timer's compare value, and the PSCI version.
const IDENTITY: u64 = 0x6030_0000_0013_c038;
const DEADLINE: u64 = 0x6030_0000_0013_df02;
const PSCI: u64 = 0x6030_0000_0014_0000;

fn main() {
    let kvm = Kvm::new().expect("/dev/kvm");
    match std::env::args().nth(1).as_deref() {
        None => all(&kvm),
        Some("caches") => caches::tell(&kvm),
        Some("calls") => calls::tell(&kvm),
        Some("coalesced") => coalesced::tell(&kvm),
        Some("copies") => copies::tell(&kvm),
        Some("counters") => counters::tell(&kvm),
        Some("debug") => debug::tell(&kvm),
        Some("descriptors") => descriptors::tell(&kvm),
        Some("eventfds") => eventfds::tell(&kvm),
        Some("idregs") => idregs::tell(&kvm),
        Some("its") => its::tell(&kvm),
        Some("left") => left::tell(&kvm, number_of_times()),
        Some("modes") => modes::tell(&kvm),
        Some("mpidrs") => mpidrs::tell(&kvm),
        Some("pages") => pages::tell(&kvm),
        Some("requests") => requests::tell(&kvm),
        Some("saved") => saved::tell(&kvm),
        Some("sgis") => sgis::tell(&kvm),
        Some("shares") => shares::tell(&kvm),
        Some("sizes") => sizes::tell(&kvm),
        Some("timers") => timers::tell(&kvm),
        Some("vcpus") => vcpus::tell(&kvm),
        Some("vectors") => vectors::tell(&kvm),
        Some("vmids") => vmids::tell(&kvm),
        Some(other) => panic!("{other} is not told"),
    }
}

/// The number of repetitions, from the command line.
fn number_of_times() -> u64 {
    let number = std::env::args().nth(2);
    number.map_or(2000, |number| number.parse().expect("a number"))
}

/// Tests requests in general.
fn all(kvm: &Kvm) {
    println!("version {}", kvm.get_api_version());
    for capability in [3, 10, 14, 70, 81, 87, 102, 136, 9999] {
        println!(
            "extension {capability}: {}",
            kvm.check_extension_raw(capability)
        );
    }
    println!("unknown request: {}", call(kvm, 0xaeff, 0));
    println!("31 bits: {}", call(kvm, 0xae01, 31));
    controller::tell(kvm);
    let vm = kvm.create_vm().expect("a VM");
    memory(&vm);
    cpus(&vm);
}

fn memory(vm: &VmFd) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), MEMORY, 3, flags, -1, 0) };
    let code = guest::code();
    // SAFETY: the mapping is new, and larger than the code.
    unsafe {
        base.cast::<u8>()
            .copy_from_nonoverlapping(code.as_ptr(), code.len())
    };
    let good = Region {
        slot: 0,
        flags: 0,
        guest_phys_addr: guest::CODE,
        memory_size: MEMORY as u64,
        userspace_addr: base as u64,
    };
    let set = |what: &str, region: Region| {
        // SAFETY: the memory lives as long as the process, or the region is invalid.
        let result = unsafe { vm.set_user_memory_region(region) };
        println!(
            "region {what}: {}",
            result.map_or_else(|error| format!("errno {}", error.errno()), |()| "ok".into())
        );
    };
    set(
        "odd length",
        Region {
            memory_size: 100,
            ..good
        },
    );
    set(
        "odd guest address",
        Region {
            guest_phys_addr: 8,
            ..good
        },
    );
    set(
        "odd address",
        Region {
            userspace_addr: good.userspace_addr + 8,
            ..good
        },
    );
    set(
        "unknown flag",
        Region {
            flags: 1 << 9,
            ..good
        },
    );
    set(
        "second address space",
        Region {
            slot: 1 << 16,
            ..good
        },
    );
    set(
        "number too large",
        Region {
            slot: 40_000,
            ..good
        },
    );
    set(
        "of the kernel",
        Region {
            userspace_addr: 1 << 63,
            ..good
        },
    );
    set(
        "removed before it was there",
        Region {
            memory_size: 0,
            ..good
        },
    );
    set(
        "beyond the address space",
        Region {
            guest_phys_addr: 1 << 40,
            ..good
        },
    );
    set("good", good);
    set("another on top", Region { slot: 1, ..good });
    set(
        "shrunk",
        Region {
            memory_size: 4096,
            ..good
        },
    );
    set(
        "moved",
        Region {
            guest_phys_addr: guest::CODE + (64 << 20),
            ..good
        },
    );
    set(
        "removed",
        Region {
            memory_size: 0,
            ..good
        },
    );
    set("again", good);
}

fn cpus(vm: &VmFd) {
    println!("number 100000: {}", call(vm, 0xae41, 100_000));
    let mut first = vm.create_vcpu(0).expect("a vCPU");
    println!("the same again: {}", call(vm, 0xae41, 0));
    println!("run before init: {}", call(&first, 0xae80, 0));
    println!("register before init: {:?}", get(&first, PC));
    let mut init = Init::default();
    vm.get_preferred_target(&mut init).expect("a target");
    let attempt = |what: &str, init: Init| {
        let result = first.vcpu_init(&init).map_err(|error| error.errno());
        println!("init {what}: {result:?}");
    };
    attempt(
        "another target",
        Init {
            target: 999,
            ..init
        },
    );
    attempt(
        "unknown feature",
        Init {
            features: [1 << 30, 0, 0, 0, 0, 0, 0],
            ..init
        },
    );
    init.features[0] = 1 << KVM_ARM_VCPU_PSCI_0_2;
    attempt("good", init);
    attempt("again", init);
    let mut second = vm.create_vcpu(1).expect("a vCPU");
    init.features[0] |= 1 << KVM_ARM_VCPU_POWER_OFF;
    second.vcpu_init(&init).expect("init");
    println!(
        "states {} {}",
        first.get_mp_state().unwrap().mp_state,
        second.get_mp_state().unwrap().mp_state
    );
    println!(
        "affinities {:x?} {:x?}",
        get(&first, MPIDR),
        get(&second, MPIDR)
    );
    println!("pstate {:x?}", get(&first, PSTATE));
    println!("pstate of EL2: {:?}", set(&first, PSTATE, 0x3c9));
    println!("pstate of EL3: {:?}", set(&first, PSTATE, 0x3cd));
    println!("unknown register: {:?}", get(&first, CORE | 0xfff0));
    println!(
        "x7: {:?} {:x?}",
        set(&first, CORE | 14, 0x1234_5678_9abc),
        get(&first, CORE | 14)
    );
    println!(
        "deadline: {:?} {:x?}",
        set(&first, DEADLINE, 0x1234_5678),
        get(&first, DEADLINE)
    );
    println!("psci: {:x?} {:?}", get(&first, PSCI), set(&first, PSCI, 99));
    let identity = get(&first, IDENTITY).expect("an ID register");
    println!(
        "identity: {:?} {:?}",
        set(&first, IDENTITY, identity),
        set(&first, IDENTITY, !identity)
    );
    println!("pc: {:?}", set(&first, PC, guest::CODE));
    first.set_kvm_immediate_exit(1);
    println!(
        "immediate: {:?}",
        first.run().map(|_| ()).map_err(|error| error.errno())
    );
    first.set_kvm_immediate_exit(0);
    let (off, lines) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        scope.spawn(|| {
            run(&mut second, &off, |line| lines.lock().unwrap().push(line));
        });
        run(&mut first, &off, |line| println!("first {line}"));
        lines
            .lock()
            .unwrap()
            .iter()
            .for_each(|line| println!("second {line}"));
        println!("first is off; x7 {:x?}", get(&first, CORE | 14));
        std::process::exit(0);
    });
}

/// Runs the vCPU and reports its exits, until the VM is off.
fn run(vcpu: &mut VcpuFd, off: &AtomicBool, mut tell: impl FnMut(String)) {
    while !off.load(Ordering::Relaxed) {
        match vcpu.run() {
            Ok(VcpuExit::MmioRead(address, data)) => {
                let answer = 0x8182_8384_8586_8788_u64.to_le_bytes();
                let len = data.len();
                data.copy_from_slice(&answer[..len]);
                tell(format!("reads {len} at {:#x}", address - guest::DEVICE));
            }
            Ok(VcpuExit::MmioWrite(address, data)) => {
                tell(format!(
                    "writes {} at {:#x}: {:#x}",
                    data.len(),
                    address - guest::DEVICE,
                    number(data)
                ));
            }
            Ok(VcpuExit::SystemEvent(kind, _)) => {
                tell(format!("event {kind}"));
                off.store(true, Ordering::Relaxed);
            }
            Ok(exit) => tell(format!("{exit:?}")),
            Err(error) if error.errno() == libc::EINTR || error.errno() == libc::EAGAIN => {}
            Err(error) => {
                tell(format!("errno {}", error.errno()));
                off.store(true, Ordering::Relaxed);
            }
        }
    }
}
