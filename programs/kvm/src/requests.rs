//! Effects of requests and of a guest's accesses: the exit reason of a run that failed, the
//! thread's registers, locks that a killed process waits for, an exception from a 32-bit program.

use std::arch::{asm, global_asm};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use kvm_bindings::{KVM_EXIT_UNKNOWN, kvm_create_device, kvm_device_attr};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};

use crate::code;
use crate::controller;
use crate::host::{self, DEVICE, LEN, MEMORY, PC, call, get, machine, memory, pass, set, system};

const REGION_2: u64 = 0x40a0_ae49;
const IRQFD: u64 = 0x4020_ae76;
const STATISTICS: u64 = 0xaece;
const RUN: u64 = 0xae80;
const GET_MP_STATE: u64 = 0x8004_ae98;

/// ID_AA64PFR0_EL1 and OSLSR_EL1.
const FEATURES: u64 = system(3, 0, 0, 4, 0);
const LOCK: u64 = system(2, 0, 1, 1, 4);

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    regions(kvm);
    redistributors(kvm);
    controller::private_lines(kvm);
    statistics(kvm);
    level(kvm);
    run(kvm);
    killed(kvm);
}

/// Slots by KVM_SET_USER_MEMORY_REGION2.
fn regions(kvm: &Kvm) {
    println!("extension 231: {}", kvm.check_extension_raw(231));
    let (vm, base) = (kvm.create_vm().expect("a VM"), memory(LEN));
    let region = |flags: u64| {
        let mut words = [0u64; 20];
        words[..4].copy_from_slice(&[flags << 32, MEMORY, LEN as u64, base as u64]);
        words
    };
    println!("region: {}", pass(&vm, REGION_2, &mut region(0)));
    println!("logged: {}", pass(&vm, REGION_2, &mut region(1)));
    println!("of a file: {}", pass(&vm, REGION_2, &mut region(4)));
    println!("from nowhere: {}", call(&vm, REGION_2, 0));
}

/// Redistributors that end beyond the last address.
fn redistributors(kvm: &Kvm) {
    let vm = kvm.create_vm().expect("a VM");
    let _vcpu = vm.create_vcpu(0).expect("a vCPU");
    let mut device = kvm_create_device {
        type_: 7,
        ..Default::default()
    };
    let controller = vm.create_device(&mut device).expect("a controller");
    let end = 1u64 << 40;
    for (what, base) in [("half", end - 0x1_0000), ("one", end - 0x2_0000)] {
        let attribute = kvm_device_attr {
            group: 0,
            attr: 3,
            addr: &raw const base as u64,
            flags: 0,
        };
        let set = controller.set_device_attr(&attribute);
        let set = set.map_err(|error| error.errno());
        println!("room for {what} redistributor: {set:?}");
    }
}

/// A VM has statistics, as vCPUs have.
fn statistics(kvm: &Kvm) {
    let vm = kvm.create_vm().expect("a VM");
    println!("extension 203: {}", kvm.check_extension_raw(203));
    let Ok(fd) = call(&vm, STATISTICS, 0).parse::<i32>() else {
        return println!("no statistics");
    };
    let mut bytes = vec![0; 4096];
    // SAFETY: the buffer has this length.
    let len = unsafe { libc::pread(fd, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
    let (name, count, descriptions) = (word(4), word(8), word(16));
    for at in (0..count).map(|at| descriptions + at * (16 + name) + 16) {
        let text = bytes[at..at + name].split(|byte| *byte == 0).next();
        println!(
            "counts {}",
            String::from_utf8_lossy(text.unwrap_or_default())
        );
    }
    println!("all is there: {}", len as usize == word(20) + 8 * count);
}

/// An eventfd raises a level-sensitive interrupt, without resampling.
fn level(kvm: &Kvm) {
    let vm = kvm.create_vm().expect("a VM");
    let _vcpu = vm.create_vcpu(0).expect("a vCPU");
    let controller = host::controller(&vm, 1);
    let attribute = |group, attr, value: *mut u32| kvm_device_attr {
        group,
        attr,
        addr: value as u64,
        flags: 0,
    };
    let mut value = 0u32;
    // GICD_ICFGR2: level-sensitive.
    let set = controller.set_device_attr(&attribute(1, 0xc08, &raw mut value));
    println!("configured: {:?}", set.map_err(|error| error.errno()));
    let interrupt = host::eventfd();
    let mut request = [interrupt.as_raw_fd() as u32, 8, 0, 0, 0, 0, 0, 0];
    println!("interrupt: {}", pass(&vm, IRQFD, &mut request));
    host::signal(&interrupt);
    // SAFETY: the value has the length of the attribute, the lines of 32 interrupts.
    let got = unsafe { controller.get_device_attr(&mut attribute(7, 32, &raw mut value)) };
    println!(
        "lines: {:?}, {value:#x}",
        got.map_err(|error| error.errno())
    );
}

/// A guest that writes a thread register, makes a refused access, and takes an exception.
fn run(kvm: &Kvm) {
    let (vm, _) = machine(kvm, code!(requests_start, requests_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    let _controller = host::controller(&vm, 1);
    host::reset(&vm, &vcpu);
    println!(
        "controller: {:?}",
        get(&vcpu, FEATURES).map(|value| value >> 24 & 0xf)
    );
    println!("lock: {:?}", get(&vcpu, LOCK));
    println!("locked: {:?}", set(&vcpu, LOCK, 0xa));
    println!("another lock: {:?}", set(&vcpu, LOCK, 9));
    println!("open: {:?}", set(&vcpu, LOCK, 8));
    loop {
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(address, data)) => {
                println!(
                    "writes {:#x} at {:#x}",
                    host::number(data),
                    address - DEVICE
                );
            }
            Ok(VcpuExit::SystemEvent(kind, _)) => break println!("event {kind}"),
            Err(error) if error.errno() == libc::ENOSYS => {
                let unknown = vcpu.get_kvm_run().exit_reason == KVM_EXIT_UNKNOWN;
                println!("refused, reason unknown: {unknown}");
                let pc = get(&vcpu, PC).expect("pc");
                set(&vcpu, PC, pc + 4).expect("pc");
            }
            other => break println!("{other:?}"),
        }
        println!("the thread's register: {:#x}", thread_register());
    }
}

/// TPIDRRO_EL0.
fn thread_register() -> u64 {
    let value;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, tpidrro_el0", out(reg) value) };
    value
}

/// The vCPU that the processes below use.
static VCPU: AtomicI32 = AtomicI32::new(-1);

/// A process that makes a request to a vCPU which another process runs can be killed.
fn killed(kvm: &Kvm) {
    const FOREVER: [u32; 1] = [0x1400_0000];
    let (vm, _) = machine(kvm, &FOREVER);
    let vcpu: VcpuFd = vm.create_vcpu(0).expect("a vCPU");
    host::reset(&vm, &vcpu);
    VCPU.store(vcpu.as_raw_fd(), Relaxed);
    let (runner, asker) = (process(runs), process(asks));
    // SAFETY: children of this process.
    let dead = unsafe { libc::kill(asker, libc::SIGKILL) == 0 && ends(asker) };
    println!("who asked is dead: {dead}");
    // SAFETY: as above.
    unsafe { libc::kill(runner, libc::SIGKILL) };
    println!("who ran is dead: {}", ends(runner));
}

/// Starts a process that shares this one's memory and files, and waits for a while.
fn process(work: extern "C" fn(*mut libc::c_void) -> i32) -> i32 {
    const STACK: usize = 64 << 10;
    let stack = memory(STACK);
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::SIGCHLD;
    // SAFETY: the stack is new, and stays mapped.
    let child = unsafe { libc::clone(work, stack.add(STACK).cast(), flags, std::ptr::null_mut()) };
    assert!(child > 0);
    thread::sleep(Duration::from_millis(500));
    child
}

extern "C" fn runs(_: *mut libc::c_void) -> i32 {
    loop {
        // SAFETY: the request takes no argument.
        unsafe { libc::ioctl(VCPU.load(Relaxed), RUN as _, 0) };
    }
}

extern "C" fn asks(_: *mut libc::c_void) -> i32 {
    let mut state = 0u32;
    // SAFETY: the structure has room for the answer.
    unsafe { libc::ioctl(VCPU.load(Relaxed), GET_MP_STATE as _, &raw mut state) }
}

/// Whether a child ends soon.
fn ends(child: i32) -> bool {
    (0..300).any(|_| {
        thread::sleep(Duration::from_millis(100));
        // SAFETY: no status is wanted.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) == child }
    })
}

global_asm!(
    ".balign 2048",
    "requests_start:",
    "   mov x5, #{device}",
    "   mov x1, #0x1234",
    "   msr tpidrro_el0, x1",
    "   str x1, [x5]",
    // The OS lock is unlocked, locked, and unlocked again.
    "   mov x2, #1",
    "   mrs x1, oslsr_el1",
    "   str x1, [x5, #8]",
    "   msr oslar_el1, x2",
    "   mrs x1, oslsr_el1",
    "   str x1, [x5, #16]",
    "   msr oslar_el1, xzr",
    "   mrs x1, oslsr_el1",
    "   str x1, [x5, #24]",
    // An access without a valid syndrome (ESR_EL2.ISV is 0).
    "   ldp x1, x2, [x5]",
    // A 32-bit program at an address without memory.
    "   adr x1, 1f",
    "   msr vbar_el1, x1",
    "   mov x1, #0x1d0",
    "   msr spsr_el1, x1",
    "   mov x1, #0x0c000000",
    "   msr elr_el1, x1",
    "   isb",
    "   eret",
    ".balign 2048",
    "1:",
    ".rept 16",
    "   adr x1, .",
    "   and x1, x1, #0x7ff",
    "   str x1, [x5, #32]",
    "   mov w0, #0x0008",
    "   movk w0, #0x8400, lsl #16",
    "   hvc #0",
    "   .balign 128",
    ".endr",
    "requests_end:",
    device = const DEVICE,
);
