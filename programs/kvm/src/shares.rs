//! The CPU time of vCPUs: none while their guest waits, and a fair share beside other programs.

use std::arch::global_asm;
use std::thread;
use std::time::Duration;

use kvm_bindings::kvm_device_attr;
use kvm_ioctls::{DeviceFd, Kvm, VcpuExit, VcpuFd};

use crate::code;
use crate::host::{self, MEMORY, PC, X0, controller, machine, peek, poke, set};

/// The address of the guest's code that waits, and the offset of the word that the other code
/// polls.
const WAITS: u64 = MEMORY + 0x100;
const FLAG: usize = 0x8000;
/// The time that the guest waits.
const WAIT: Duration = Duration::from_secs(2);
/// The CPU time of the program that computes.
const WORK: Duration = Duration::from_secs(1);
/// Attribute groups of a controller, and offsets of words for SGIs and PPIs.
const DISTRIBUTOR: u32 = 1;
const REDISTRIBUTOR: u32 = 5;
const GROUPS: u64 = 0x1_0080;
const ENABLED: u64 = 0x1_0100;
/// The virtual timer's interrupt.
const TIMER: u32 = 1 << 27;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    waits(kvm);
    shares(kvm);
}

fn waits(kvm: &Kvm) {
    let (vm, _) = machine(kvm, code!(shares_start, shares_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &vcpu);
    let controller = controller(&vm, 1);
    for (group, attr, value) in [
        (DISTRIBUTOR, 0, 0x12),
        (REDISTRIBUTOR, GROUPS, TIMER),
        (REDISTRIBUTOR, ENABLED, TIMER),
    ] {
        write(&controller, group, attr, value);
    }
    set(&vcpu, PC, WAITS).expect("pc");
    let (began, before) = (clock(libc::CLOCK_MONOTONIC), used());
    println!("waits: {}", run(&mut vcpu));
    let (took, used) = (clock(libc::CLOCK_MONOTONIC) - began, used() - before);
    println!("so long: {}", took >= WAIT);
    // The limit allows for the wake-up and the exits on a slow host.
    println!("for nothing: {}", 2 * used < WAIT);
}

fn write(controller: &DeviceFd, group: u32, attr: u64, value: u32) {
    let attribute = kvm_device_attr {
        group,
        attr,
        addr: &raw const value as u64,
        flags: 0,
    };
    controller.set_device_attr(&attribute).expect("a register");
}

/// A guest and a program compute on one CPU.
fn shares(kvm: &Kvm) {
    let (vm, base) = machine(kvm, code!(shares_start, shares_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &vcpu);
    set(&vcpu, X0, MEMORY + FLAG as u64).expect("x0");
    host::stay();
    let flag = base as usize + FLAG;
    let (guests, programs) = thread::scope(|scope| {
        let guest = scope.spawn(move || {
            let told = run(&mut vcpu);
            (told, used())
        });
        let before = used();
        while used() - before < WORK {}
        poke(flag as *mut u8, 0, 1);
        let programs = used() - before;
        (guest.join().expect("a thread"), programs)
    });
    println!("computes: {} {}", guests.0, peek(base, FLAG));
    let fair = guests.1 < 2 * programs && programs < 2 * guests.1;
    println!("as long as a program: {fair}");
}

fn run(vcpu: &mut VcpuFd) -> String {
    match vcpu.run() {
        Ok(VcpuExit::MmioWrite(address, _)) => {
            format!("writes at {:#x}", address - host::DEVICE)
        }
        other => format!("{other:?}"),
    }
}

/// The CPU time that this thread has used.
fn used() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(clock: libc::clockid_t) -> Duration {
    // SAFETY: the structure is valid for the call.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        assert_eq!(libc::clock_gettime(clock, &raw mut time), 0);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

global_asm!(
    ".pushsection .rodata.shares, \"a\"",
    ".balign 2048",
    ".global shares_start, shares_end",
    "shares_start:",
    "   mov x20, #0x0b000000",
    "1: ldr x1, [x0]",
    "   cbz x1, 1b",
    "   str x1, [x20]",
    "   b .",
    ".balign 0x100",
    "   mov x20, #0x0b000000",
    // ICC_PMR_EL1 and ICC_IGRPEN1_EL1: any interrupt wakes the guest.
    "   mov x1, #0xff",
    "   msr s3_0_c4_c6_0, x1",
    "   mov x1, #1",
    "   msr s3_0_c12_c12_7, x1",
    "   mrs x1, cntfrq_el0",
    "   lsl x1, x1, #1",
    "   msr cntv_tval_el0, x1",
    "   mov x1, #1",
    "   msr cntv_ctl_el0, x1",
    "   isb",
    "2: wfi",
    "   mrs x1, cntv_ctl_el0",
    "   tbz x1, #2, 2b",
    "   str x1, [x20, #8]",
    "   b .",
    "shares_end:",
    ".popsection",
);
