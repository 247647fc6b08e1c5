//! A VM's counters, which its VMM sets for all vCPUs, and the physical timer.

use std::arch::global_asm;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

use crate::code;
use crate::host::{self, PC, X0, call, get, machine, number, pass, set, system};

/// KVM_REG_ARM_TIMER_CNT, KVM_REG_ARM_PTIMER_CNT, CVAL and CTL.
const VIRTUAL: u64 = system(3, 3, 14, 3, 2);
const PHYSICAL: u64 = system(3, 3, 14, 0, 1);
const DEADLINE: u64 = system(3, 3, 14, 2, 2);
const CONTROL: u64 = system(3, 3, 14, 2, 1);
const SET_COUNTER_OFFSET: u64 = 0x4010_aeb5;
/// The length of the guest's wait, in ticks.
const WAIT: u64 = 1 << 20;
/// More ticks than pass in any test.
const LONG: u64 = 1 << 40;

/// Prints what is read after each setting.
pub fn tell(kvm: &Kvm) {
    println!("extension 227: {}", kvm.check_extension_raw(227));
    let (vm, base) = machine(kvm, code!(counters_start, counters_end));
    let mut vcpus = [0, 1].map(|id| vm.create_vcpu(id).expect("a vCPU"));
    let _controller = host::controller(&vm, 2);
    for (vcpu, frame) in vcpus.iter().zip([0x0a01_0000, 0x0a03_0000]) {
        host::reset(&vm, vcpu);
        set(vcpu, X0 | (2 * 10), WAIT).expect("x10");
        set(vcpu, X0 | (2 * 22), frame).expect("x22");
    }
    all("at first", &mut vcpus, 0, None);
    // Ahead of the host's counter, just before the counter's end, and behind the host's.
    for value in [1 << 50, 1 << 63, u64::MAX - LONG, 0] {
        println!("set: {:?}", set(&vcpus[0], VIRTUAL, value));
        all("virtual", &mut vcpus, value, None);
    }
    for value in [1 << 50, 1 << 63, u64::MAX - LONG, 0] {
        println!("set: {:?}", set(&vcpus[1], PHYSICAL, value));
        all("physical", &mut vcpus, 0, Some(value));
    }
    timers(&vcpus[0]);
    let _third = vm.create_vcpu(2);
    fixed(&vm, &mut vcpus, base);
    begun(kvm);
}

/// Prints whether the registers and the guests of both vCPUs have these counter values.
fn all(what: &str, vcpus: &mut [VcpuFd; 2], virt: u64, phys: Option<u64>) {
    let near = |is: u64, wanted: u64| is.wrapping_sub(wanted) < LONG;
    for vcpu in vcpus {
        let registers = [VIRTUAL, PHYSICAL].map(|id| get(vcpu, id).expect("a counter"));
        let guest = [told(vcpu), told(vcpu)];
        for counters in [registers, guest] {
            let phys = phys.is_none_or(|wanted| near(counters[1], wanted));
            println!("{what}: {} {phys}", near(counters[0], virt));
        }
        // The guest's next five writes are about its physical timer.
        println!("timer: {:?}", [(); 5].map(|()| told(vcpu)));
    }
}

/// Returns the value that the guest writes next.
fn told(vcpu: &mut VcpuFd) -> u64 {
    match vcpu.run() {
        Ok(VcpuExit::MmioWrite(_, data)) => number(data),
        other => panic!("{other:?}"),
    }
}

/// Prints the timer's registers while the guest's counter differs from the host's.
fn timers(vcpu: &VcpuFd) {
    println!("{:?} {:?}", set(vcpu, DEADLINE, 77), get(vcpu, DEADLINE));
    println!("{:?} {:?}", set(vcpu, CONTROL, 2), get(vcpu, CONTROL));
    println!("{:?}", set(vcpu, DEADLINE, u64::MAX));
    println!("{:?} {:?}", set(vcpu, CONTROL, 2), get(vcpu, CONTROL));
}

/// Sets both counters at once by an offset; single settings have no effect afterwards.
fn fixed(vm: &VmFd, vcpus: &mut [VcpuFd; 2], base: *mut u8) {
    let fix = |offset: u64, reserved: u64| pass(vm, SET_COUNTER_OFFSET, &mut [offset, reserved]);
    println!("nowhere: {}", call(vm, SET_COUNTER_OFFSET, 0));
    println!("reserved: {}", fix(0, 1));
    println!("ahead: {}", fix(LONG.wrapping_neg() << 5, 0));
    all("ahead", vcpus, LONG << 5, Some(LONG << 5));
    println!("set: {:?}", set(&vcpus[0], VIRTUAL, 0));
    println!("set: {:?}", set(&vcpus[0], PHYSICAL, 0));
    all("ahead still", vcpus, LONG << 5, Some(LONG << 5));
    let [runs, _] = vcpus;
    let done = AtomicBool::new(false);
    // A loop until a word of its memory is not 0.
    host::write(base, &[0xd2a8_0000, 0xf948_0001, 0xb4ff_ffe1, 0xf900_0281]);
    // Completes the write.
    runs.set_kvm_immediate_exit(1);
    assert!(runs.run().is_err());
    runs.set_kvm_immediate_exit(0);
    set(runs, PC, host::MEMORY).expect("pc");
    thread::scope(|scope| {
        scope.spawn(|| {
            println!("runs: {}", told(runs));
            done.store(true, Relaxed);
        });
        while fix(0, 0) == "0" && !done.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        println!("while it runs: {}", fix(0, 0));
        host::poke(base, host::PAGE, 1);
    });
    println!("afterwards: {}", fix(0, 0));
}

/// A new vCPU restarts the counters of all, unless an offset is set.
fn begun(kvm: &Kvm) {
    let vm = kvm.create_vm().expect("a VM");
    let first = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &first);
    set(&first, VIRTUAL, 1 << 60).expect("a counter");
    set(&first, PHYSICAL, 1 << 60).expect("a counter");
    let is_ahead = || [VIRTUAL, PHYSICAL].map(|id| get(&first, id).expect("a counter") >= 1 << 60);
    println!("set: {:?}", is_ahead());
    let _second = vm.create_vcpu(1).expect("a vCPU");
    println!("with another: {:?}", is_ahead());
    let mut fixed = [(1u64 << 61).wrapping_neg(), 0];
    println!("{}", pass(&vm, SET_COUNTER_OFFSET, &mut fixed));
    let _third = vm.create_vcpu(2).expect("a vCPU");
    println!("fixed, with another: {:?}", is_ahead());
}

// Writes both counters, then results for the physical timer: whether CVAL is as set, whether TVAL
// is the rest, which interrupt ended its wait of x10 ticks, CTL then, and whether the deadline had
// passed.
global_asm!(
    ".pushsection .rodata.counters, \"a\"",
    ".global counters_start, counters_end",
    "counters_start:",
    "   ldr x20, =0x0b000000",
    "   ldr x21, =0x08000000",
    "   mov w0, #0x12",
    "   str w0, [x21]",
    "   mov w0, #0x40000000",
    "   str w0, [x22, #0x100]",
    interface_on!(),
    "1: isb",
    "   mrs x0, cntvct_el0",
    "   str x0, [x20]",
    "   isb",
    "   mrs x0, cntpct_el0",
    "   str x0, [x20]",
    "   isb",
    "   mrs x1, cntpct_el0",
    "   add x1, x1, x10, lsl #12",
    "   msr cntp_cval_el0, x1",
    "   isb",
    "   mrs x2, cntp_cval_el0",
    "   sub x0, x2, x1",
    "   str x0, [x20]",
    "   msr cntp_tval_el0, x10",
    "   isb",
    "   mrs x2, cntp_tval_el0",
    "   cmp x2, x10",
    "   cset x0, ls",
    "   str x0, [x20]",
    "   isb",
    "   mrs x1, cntpct_el0",
    "   add x1, x1, x10",
    "   msr cntp_cval_el0, x1",
    "   mov x0, #1",
    "   msr cntp_ctl_el0, x0",
    "   isb",
    "2: mrs x0, isr_el1",
    "   cbz x0, 2b",
    "   mrs x0, s3_0_c12_c12_0",
    "   mrs x3, cntp_ctl_el0",
    "   isb",
    "   mrs x4, cntpct_el0",
    "   msr cntp_ctl_el0, xzr",
    "   isb",
    "   msr s3_0_c12_c12_1, x0",
    "   str x0, [x20]",
    "   str x3, [x20]",
    "   sub x4, x4, x1",
    "   lsr x4, x4, #63",
    "   str x4, [x20]",
    "   b 1b",
    ".ltorg",
    "counters_end:",
    ".popsection",
);
