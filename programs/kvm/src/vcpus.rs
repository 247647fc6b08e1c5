//! Settings of a vCPU, its reports, and requests of its guest: attributes, PSCI versions, signals,
//! statistics, calls, and the state of another vCPU's interrupts.

use std::arch::global_asm;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};

use crate::code;
use crate::host::{self, DEVICE, LEN, MEMORY, call, get, machine, pass, peek, poke, set};

const SET: u64 = 0x4018_aee1;
const GET: u64 = 0x4018_aee2;
const HAS: u64 = 0x4018_aee3;
const PSCI: u64 = 0x6030_0000_0014_0000;
const FINALIZE: u64 = 0x4004_aec2;
const SIGNAL_MASK: u64 = 0x4004_ae8b;
/// Entry points of the guest's code, and the offset of its words.
const SPINS: u64 = MEMORY + 0x400;
const OTHERS: u64 = MEMORY + 0x800;
const TURN: usize = 0x8000;

/// Runs this part and prints its results.
pub fn tell(kvm: &Kvm) {
    for capability in [98, 105, 127, 187, 203] {
        println!(
            "extension {capability}: {}",
            kvm.check_extension_raw(capability)
        );
    }
    let (vm, base) = machine(kvm, code!(vcpus_start, vcpus_end));
    let mut vcpu = vm.create_vcpu(0).expect("a vCPU");
    println!("finalize before init: {}", pass(&vcpu, FINALIZE, &mut 4u32));
    host::reset(&vm, &vcpu);
    println!("finalize: {}", pass(&vcpu, FINALIZE, &mut 4u32));
    println!("finalize nothing: {}", pass(&vcpu, FINALIZE, &mut 99u32));
    attributes(&vm, &vcpu);
    versions(&vcpu);
    calls(&mut vcpu);
    mask(&mut vcpu);
    statistics(&vcpu);
    turns(kvm);
    others(kvm);
    stolen(&mut vcpu, base);
}

fn attribute(
    file: &impl AsRawFd,
    request: u64,
    group: u64,
    number: u64,
    value: &mut u64,
) -> String {
    pass(
        file,
        request,
        &mut [group << 32, number, &raw mut *value as u64],
    )
}

fn attributes(vm: &VmFd, vcpu: &VcpuFd) {
    let mut value = 27;
    println!("has counters: {}", attribute(vcpu, HAS, 0, 0, &mut value));
    println!("counters: {}", attribute(vcpu, SET, 0, 0, &mut value));
    println!("has a timer: {}", attribute(vcpu, HAS, 1, 0, &mut value));
    println!(
        "has a third timer: {}",
        attribute(vcpu, HAS, 1, 9, &mut value)
    );
    println!("has nonsense: {}", attribute(vcpu, HAS, 99, 0, &mut value));
    println!("nonsense: {}", attribute(vcpu, SET, 99, 0, &mut value));
    println!(
        "timer without a controller: {}",
        attribute(vcpu, SET, 1, 0, &mut value)
    );
    println!(
        "virtual timer: {} {}",
        attribute(vcpu, GET, 1, 0, &mut value),
        value as u32
    );
    println!(
        "physical timer: {} {}",
        attribute(vcpu, GET, 1, 1, &mut value),
        value as u32
    );
    println!(
        "has stolen time: {}",
        attribute(vcpu, HAS, 2, 0, &mut value)
    );
    println!(
        "stolen time: {} {value:x}",
        attribute(vcpu, GET, 2, 0, &mut value)
    );
    value = MEMORY + 8;
    println!(
        "at an odd place: {}",
        attribute(vcpu, SET, 2, 0, &mut value)
    );
    value = 0x7000_0000;
    println!(
        "outside of memory: {}",
        attribute(vcpu, SET, 2, 0, &mut value)
    );
    value = MEMORY + 0x9000;
    println!("good: {}", attribute(vcpu, SET, 2, 0, &mut value));
    println!("again: {}", attribute(vcpu, SET, 2, 0, &mut value));
    println!(
        "stolen time: {} {value:x}",
        attribute(vcpu, GET, 2, 0, &mut value)
    );
    println!("of a VM: {}", attribute(vm, HAS, 1, 0, &mut value));
}

fn versions(vcpu: &VcpuFd) {
    for version in [0x1_0001, 1, 2, 0x1_0000, 0x1_0002, 0x1_0001] {
        println!(
            "psci {version:#x}: {:?} {:x?}",
            set(vcpu, PSCI, version),
            get(vcpu, PSCI)
        );
    }
}

/// Makes the guest call with up to three arguments; returns the four results that it writes.
fn ask(vcpu: &mut VcpuFd, function: u64, arguments: [u64; 3]) -> [u64; 4] {
    set(vcpu, host::PC, MEMORY).expect("pc");
    set(vcpu, host::X0, function).expect("x0");
    for (at, value) in (1..).zip(arguments) {
        set(vcpu, host::X0 | (at * 2), value).expect("an argument");
    }
    let mut answers = [0; 4];
    for answer in &mut answers {
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(_, data)) => *answer = host::number(data),
            other => println!("{other:?}"),
        }
    }
    // Completes the last write.
    vcpu.set_kvm_immediate_exit(1);
    assert!(vcpu.run().is_err());
    vcpu.set_kvm_immediate_exit(0);
    answers
}

fn calls(vcpu: &mut VcpuFd) {
    let mut tell = |what: &str, function: u64, arguments: [u64; 3], count: usize| {
        let answers = ask(vcpu, function, arguments);
        println!("{what}: {:x?}", &answers[..count]);
    };
    tell("version of calls", 0x8000_0000, [0; 3], 1);
    tell("maker", 0x8600_ff01, [0; 3], 4);
    tell("random version", 0x8400_0050, [0; 3], 1);
    tell("random features", 0x8400_0051, [0xc400_0053, 0, 0], 1);
    tell("random nonsense", 0x8400_0051, [0x8400_0054, 0, 0], 1);
    tell("random identity", 0x8400_0052, [0; 3], 4);
    tell("random of 193 bits", 0xc400_0053, [193, 0, 0], 1);
    tell("random of 97 bits", 0x8400_0053, [97, 0, 0], 1);
    tell("random of 64 bits", 0xc400_0053, [64, 9, 9], 3);
    tell("random of 1 bit", 0x8400_0053, [0, 9, 9], 4);
    tell("time", 0x8000_0001, [0xc500_0020, 0, 0], 1);
    tell("time features", 0xc500_0020, [0xc500_0021, 0, 0], 1);
    tell("time nonsense", 0xc500_0020, [0x9999, 0, 0], 1);
    tell("stolen time", 0xc500_0021, [0; 3], 1);
    tell("psci", 0x8400_0000, [0; 3], 1);
    tell("old psci", 0x95c1_ba60, [0; 3], 1);
    tell("reset 2", 0x8400_000a, [0xc400_0012, 0, 0], 1);
    tell("odd reset 2", 0xc400_0012, [7, 0, 0], 1);
    set(vcpu, PSCI, 2).expect("version");
    let mut tell = |what: &str, function: u64, arguments: [u64; 3]| {
        println!("{what}: {:x?}", ask(vcpu, function, arguments)[0]);
    };
    tell("psci 0.2", 0x8400_0000, [0; 3]);
    tell("features of 0.2", 0x8400_000a, [0x8400_0002, 0, 0]);
}

/// The time for which the calling thread waited for a CPU, in ns.
fn run_delay() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let field = text.split_whitespace().nth(1);
    field.and_then(|field| field.parse().ok()).expect("a delay")
}

/// Stolen time is the time for which the vCPU's thread waited to run, in its guest and outside.
fn stolen(vcpu: &mut VcpuFd, base: *mut u8) {
    const TOLD: usize = 0x9008;
    host::stay();
    let before = run_delay();
    ask(vcpu, 0xc500_0021, [0; 3]);
    let begun = run_delay();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                std::hint::spin_loop()
            }
        });
        while run_delay() < begun + 20_000_000 {}
        done.store(true, SeqCst);
    });
    let waited = run_delay();
    ask(vcpu, 0x8000_0000, [0; 3]);
    let told = peek(base, TOLD);
    let range = waited - begun..=run_delay() - before;
    println!("stolen is what it waited: {}", range.contains(&told));
    poke(base, TOLD, told + (1 << 40));
    ask(vcpu, 0x8000_0000, [0; 3]);
    println!("it is counted in memory: {}", peek(base, TOLD) >> 40);
}

/// A signal that the thread blocks except while its guest runs.
fn mask(vcpu: &mut VcpuFd) {
    // SAFETY: valid signal sets of this thread.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
    println!(
        "mask of odd length: {}",
        pass(vcpu, SIGNAL_MASK, &mut [7u32, 0, 0])
    );
    println!("mask nowhere: {}", call(vcpu, SIGNAL_MASK, 8));
    println!("mask: {}", pass(vcpu, SIGNAL_MASK, &mut [8u32, 0, 0]));
    // SAFETY: this thread exists.
    unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
    let spin = |vcpu: &mut VcpuFd| {
        set(vcpu, host::PC, SPINS).expect("pc");
        let ended = vcpu.run().map(|_| ()).map_err(|error| error.errno());
        format!("{ended:?}")
    };
    println!("spins: {}", spin(vcpu));
    // SAFETY: as above.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut set);
        println!("pending: {}", libc::sigismember(&set, libc::SIGUSR2));
    }
    println!("no mask: {}", call(vcpu, SIGNAL_MASK, 0));
}

/// Prints names, kinds and offsets of the statistics that both kernels have.
fn statistics(vcpu: &VcpuFd) {
    let fd = call(vcpu, 0xaece, 0).parse().expect("a descriptor");
    // SAFETY: the descriptor was just created.
    let file = unsafe { std::fs::File::from_raw_fd(fd) };
    let read = |offset: u64, len: usize| {
        let mut bytes = vec![0; len];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, offset).expect("statistics");
        bytes
    };
    let word = |bytes: &[u8], at: usize| host::number(&bytes[4 * at..4 * at + 4]);
    let header = read(0, 24);
    let (names, count) = (word(&header, 1) as usize, word(&header, 2));
    println!("flags {} names {names}", word(&header, 0));
    let identity = read(word(&header, 3), names);
    println!("of a vCPU: {}", identity.starts_with(b"kvm-"));
    let wanted = [
        "exits",
        "hvc_exit_stat",
        "mmio_exit_kernel",
        "mmio_exit_user",
        "signal_exits",
        "wfe_exit_stat",
        "wfi_exit_stat",
    ];
    let mut found = Vec::new();
    for at in 0..count {
        let description = read(word(&header, 4) + at * (16 + names as u64), 16 + names);
        let name = description[16..]
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or(&[]);
        let name = String::from_utf8_lossy(name).into_owned();
        if wanted.contains(&name.as_str()) {
            let value = read(word(&header, 5) + word(&description, 2), 8);
            let flags = word(&description, 0);
            let size = word(&description, 1) >> 16;
            let counted = if host::number(&value) > 0 {
                "some"
            } else {
                "none"
            };
            found.push(format!("{name}: flags {flags:#x} size {size} {counted}"));
        }
    }
    found.sort();
    found.iter().for_each(|line| println!("{line}"));
    println!("past the end: {:?}", {
        let mut bytes = [0; 8];
        std::os::unix::fs::FileExt::read_at(&file, &mut bytes, 1 << 20)
            .map_err(|error| error.raw_os_error())
    });
}

/// Two vCPUs that wait for each other by WFE, on one CPU: each takes its turns.
fn turns(kvm: &Kvm) {
    let (vm, base) = machine(kvm, code!(vcpus_start, vcpus_end));
    let vcpus: Vec<VcpuFd> = (0..2)
        .map(|id| vm.create_vcpu(id).expect("a vCPU"))
        .collect();
    poke(base, TURN, 0);
    thread::scope(|scope| {
        for (id, mut vcpu) in (0..).zip(vcpus) {
            let vm = &vm;
            scope.spawn(move || {
                host::stay();
                host::reset(vm, &vcpu);
                set(&vcpu, host::PC, MEMORY + 0x600).expect("pc");
                set(&vcpu, host::X0, id).expect("x0");
                while !matches!(vcpu.run(), Ok(VcpuExit::MmioWrite(..))) {}
            });
        }
    });
    println!("turns: {}", peek(base, TURN));
}

/// One vCPU sets and clears the pending and active state of another's interrupts while that runs.
fn others(kvm: &Kvm) {
    let (vm, _base) = machine(kvm, code!(vcpus_start, vcpus_end));
    const { assert!(LEN > 0x10000) };
    let mut first = vm.create_vcpu(0).expect("a vCPU");
    let mut second = vm.create_vcpu(1).expect("a vCPU");
    let _controller = host::controller(&vm, 2);
    host::reset(&vm, &first);
    host::reset(&vm, &second);
    set(&first, host::PC, OTHERS).expect("pc");
    set(&second, host::PC, OTHERS + 4).expect("pc");
    let (done, itself) = (AtomicBool::new(false), AtomicU64::new(0));
    extern "C" fn ignore(_: i32) {}
    // SAFETY: the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
    }
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            // SAFETY: returns this thread's id.
            itself.store(unsafe { libc::pthread_self() } as u64, SeqCst);
            while !done.load(SeqCst) {
                _ = second.run().is_ok();
            }
        });
        loop {
            match first.run() {
                Ok(VcpuExit::MmioWrite(address, data)) => {
                    println!(
                        "writes at {:#x}: {:#x}",
                        address - DEVICE,
                        host::number(data)
                    );
                }
                Ok(VcpuExit::SystemEvent(kind, _)) => break println!("event {kind}"),
                other => break println!("{other:?}"),
            }
        }
        done.store(true, SeqCst);
        while !other.is_finished() {
            // SAFETY: the thread is not joined yet.
            unsafe { libc::pthread_kill(itself.load(SeqCst) as _, libc::SIGUSR1) };
            thread::yield_now();
        }
    });
}

global_asm!(
    ".pushsection .rodata.vcpus, \"a\"",
    ".balign 2048",
    ".global vcpus_start, vcpus_end",
    "vcpus_start:",
    // A call, and its four results.
    "   hvc #0",
    "   mov x20, #0x0b000000",
    "   str x0, [x20]",
    "   str x1, [x20]",
    "   str x2, [x20]",
    "   str x3, [x20]",
    "   b .",
    ".balign 0x400",
    "   b .",
    // Takes turns by WFE: x0 is the number of this vCPU.
    ".balign 0x200",
    "   mov x1, #0x40000000",
    "   add x1, x1, #0x8000",
    "   mov x3, #100",
    "1: ldr x2, [x1]",
    "   and x4, x2, #1",
    "   cmp x4, x0",
    "   b.eq 2f",
    "   wfe",
    "   b 1b",
    "2: add x2, x2, #1",
    "   str x2, [x1]",
    "   dsb sy",
    "   sev",
    "   subs x3, x3, #1",
    "   b.ne 1b",
    "   mov x20, #0x0b000000",
    "   str x0, [x20]",
    "   b .",
    ".balign 0x800",
    "   b 3f",
    // The other vCPU: takes SGI 5, keeps it active until the first changes that, then spins.
    "   mov x20, #0x0b000000",
    "   mov x1, #0x40000000",
    "   add x1, x1, #0x8000",
    interface_on!(),
    "   isb",
    "   str x0, [x1, #16]",
    "4: mrs x2, s3_0_c12_c12_0",
    "   cmp x2, #5",
    "   b.ne 4b",
    // Writes a word that tells the first vCPU that the SGI is active.
    "   str x2, [x1, #24]",
    "5: ldr x2, [x1, #32]",
    "   cbz x2, 5b",
    "   b .",
    "3: mov x20, #0x0b000000",
    "   mov x21, #0x08000000",
    "   mov x22, #0x0a000000",
    "   add x22, x22, #0x30000",
    "   mov x1, #0x40000000",
    "   add x1, x1, #0x8000",
    "   mov w0, #0x12",
    "   str w0, [x21]",
    "6: ldr x0, [x1, #16]",
    "   cbz x0, 6b",
    // Sets the SGI pending by the register; the other takes it, which makes it active.
    "   mov w0, #0x20",
    "   str w0, [x22, #0x200]",
    "7: ldr x0, [x1, #24]",
    "   cbz x0, 7b",
    "   ldr w0, [x22, #0x300]",
    "   str x0, [x20, #0x10]",
    "   mov w0, #0x20",
    "   str w0, [x22, #0x380]",
    "   ldr w0, [x22, #0x300]",
    "   str x0, [x20, #0x18]",
    "   mov w0, #0x40",
    "   str w0, [x22, #0x300]",
    "   ldr w0, [x22, #0x300]",
    "   str x0, [x20, #0x20]",
    "   str w0, [x22, #0x380]",
    "   ldr w0, [x22, #0x300]",
    "   str x0, [x20, #0x28]",
    "   str x20, [x1, #32]",
    "   mov x0, #0x84000000",
    "   add x0, x0, #8",
    "   hvc #0",
    "   b .",
    "vcpus_end:",
    ".popsection",
);
