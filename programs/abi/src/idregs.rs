//! All that programs can learn about a CPU's instructions: registers that could describe it, the
//! auxiliary vector, and results of instructions that a program may not execute, or only with the
//! kernel's permission. The output depends on the CPU, not on the kernel.

use std::arch::asm;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use libc::{PROT_EXEC, PROT_READ, PROT_WRITE, c_int, c_void, siginfo_t};

/// The value read if the instruction is undefined.
const UNDEFINED: u64 = 0x0bad_0bad_0bad_0bad;

/// The last signal that an instruction raised, its code, and its address.
static SIGNAL: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

extern "C" fn on_signal(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a complete context, and an address with these signals.
    let (machine, info, address) = unsafe {
        let machine = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        (machine, &*info, (*info).si_addr())
    };
    for (place, value) in SIGNAL
        .iter()
        .zip([number as u64, info.si_code as u64, address as u64])
    {
        place.store(value, SeqCst);
    }
    machine.pc += 4;
    machine.regs[0] = UNDEFINED;
}

/// Executes `instruction` in a page of its own, with `x0`, which it may change; returns x0.
fn execute(page: *mut u32, instruction: u32, x0: u64) -> u64 {
    let mut x0 = x0;
    // SAFETY: the page is only for this code; the instruction raises a signal, or changes nothing
    // but x0 that this code relies on.
    unsafe {
        page.write_volatile(instruction);
        page.add(1).write_volatile(0xd65f_03c0); // RET
        asm!(
            "dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb",
            "blr {0}",
            in(reg) page, inout("x0") x0, out("x16") _, out("x17") _, out("x30") _,
        );
    }
    x0
}

/// Encodes `MRS X0, S<op0>_<op1>_C<crn>_C<crm>_<op2>`.
fn mrs([op0, op1, crn, crm, op2]: [u32; 5]) -> u32 {
    0xd530_0000 | (op0 & 1) << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5
}

/// Registers whose values are of no use to a test, since they count.
const COUNTING: [[u32; 5]; 5] = [
    [3, 3, 14, 0, 1],
    [3, 3, 14, 0, 2],
    [3, 3, 14, 0, 5],
    [3, 3, 14, 0, 6],
    [3, 3, 2, 4, 0],
];

fn tell(page: *mut u32, register: [u32; 5]) {
    let [op0, op1, crn, crm, op2] = register;
    let name = format!("S{op0}_{op1}_C{crn}_C{crm}_{op2}");
    match execute(page, mrs(register), 1) {
        UNDEFINED => println!("{name}: undefined"),
        _ if COUNTING.contains(&register) => println!("{name}: something"),
        value => println!("{name}: {value:#x}"),
    }
}

/// Executes an instruction with an address in x0, and prints the signal that it raised.
fn attempt(page: *mut u32, name: &str, instruction: u32, x0: u64) {
    SIGNAL[0].store(0, SeqCst);
    execute(page, instruction, x0);
    let [number, code, address] = [0, 1, 2].map(|at: usize| SIGNAL[at].load(SeqCst));
    match number {
        0 => println!("{name}: executed"),
        _ if address == page as u64 => println!("{name}: signal {number} code {code}, here"),
        _ if address == x0 => println!("{name}: signal {number} code {code}, of the address"),
        _ => println!("{name}: signal {number} code {code}, {address:#x}"),
    }
}

/// Encodes `SYS`, `MSR` and the like by `op0`, with x0.
fn system([op0, op1, crn, crm, op2]: [u32; 5]) -> u32 {
    0xd500_0000 | op0 << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5
}

/// Registers that are written, besides those of the ID space.
const WRITTEN: [[u32; 5]; 46] = [
    // EL1: control, translation, exceptions, memory, identities, timer, interrupts.
    [3, 0, 1, 0, 0],
    [3, 0, 1, 0, 1],
    [3, 0, 1, 0, 2],
    [3, 0, 2, 0, 0],
    [3, 0, 2, 0, 1],
    [3, 0, 2, 0, 2],
    [3, 0, 2, 1, 0],
    [3, 0, 2, 3, 1],
    [3, 0, 4, 0, 0],
    [3, 0, 4, 0, 1],
    [3, 0, 4, 1, 0],
    [3, 0, 4, 2, 0],
    [3, 0, 4, 2, 3],
    [3, 0, 4, 6, 0],
    [3, 0, 5, 1, 0],
    [3, 0, 5, 2, 0],
    [3, 0, 6, 0, 0],
    [3, 0, 7, 4, 0],
    [3, 0, 10, 2, 0],
    [3, 0, 12, 0, 0],
    [3, 0, 12, 11, 5],
    [3, 0, 12, 12, 1],
    [3, 0, 13, 0, 1],
    [3, 0, 13, 0, 4],
    [3, 0, 14, 1, 0],
    [3, 2, 0, 0, 0],
    // Registers of EL0 that a program may not write, and those that it may.
    [3, 3, 0, 0, 1],
    [3, 3, 0, 0, 7],
    [3, 3, 2, 4, 0],
    [3, 3, 4, 2, 0],
    [3, 3, 4, 2, 1],
    [3, 3, 4, 4, 0],
    [3, 3, 4, 4, 1],
    [3, 3, 9, 12, 0],
    [3, 3, 9, 14, 0],
    [3, 3, 13, 0, 3],
    [3, 3, 14, 0, 0],
    [3, 3, 14, 2, 1],
    [3, 3, 14, 3, 1],
    // EL2, EL3, the VHE names, and IMPLEMENTATION DEFINED registers.
    [3, 4, 1, 1, 0],
    [3, 4, 2, 1, 0],
    [3, 6, 1, 1, 0],
    [3, 5, 1, 0, 0],
    [3, 3, 15, 0, 0],
    // Debug registers.
    [2, 0, 0, 2, 2],
    [2, 3, 0, 4, 0],
];

/// Immediate writes of PSTATE fields: name, op1, value, op2.
const FIELDS: [(&str, u32, u32, u32); 9] = [
    ("SPSel", 0, 0, 5),
    ("DAIFSet", 3, 0, 6),
    ("DAIFClr", 3, 0, 7),
    ("PAN", 0, 0, 4),
    ("UAO", 0, 0, 3),
    ("SSBS", 3, 0, 1),
    ("DIT", 3, 0, 2),
    ("TCO", 3, 0, 4),
    ("ALLINT", 1, 0, 0),
];

/// Operations on caches, translations and predictions, with a mapped and an unmapped address.
const OPERATIONS: [(&str, [u32; 4]); 28] = [
    ("ic ialluis", [0, 7, 1, 0]),
    ("ic iallu", [0, 7, 5, 0]),
    ("ic ivau", [3, 7, 5, 1]),
    ("dc ivac", [0, 7, 6, 1]),
    ("dc isw", [0, 7, 6, 2]),
    ("dc csw", [0, 7, 10, 2]),
    ("dc cisw", [0, 7, 14, 2]),
    ("dc zva", [3, 7, 4, 1]),
    ("dc cvac", [3, 7, 10, 1]),
    ("dc cvau", [3, 7, 11, 1]),
    ("dc cvap", [3, 7, 12, 1]),
    ("dc cvadp", [3, 7, 13, 1]),
    ("dc civac", [3, 7, 14, 1]),
    ("dc igvac", [0, 7, 6, 3]),
    ("at s1e1r", [0, 7, 8, 0]),
    ("at s1e0r", [0, 7, 8, 2]),
    ("at s12e0r", [4, 7, 8, 6]),
    ("tlbi vmalle1is", [0, 8, 3, 0]),
    ("tlbi vae1is", [0, 8, 3, 1]),
    ("tlbi vmalle1", [0, 8, 7, 0]),
    ("tlbi aside1", [0, 8, 7, 2]),
    ("tlbi rvae1is", [0, 8, 2, 1]),
    ("tlbi alle1", [4, 8, 7, 4]),
    ("tlbi alle3", [6, 8, 7, 0]),
    ("cfp rctx", [3, 7, 3, 4]),
    ("dvp rctx", [3, 7, 3, 5]),
    ("cosp rctx", [3, 7, 3, 6]),
    ("cpp rctx", [3, 7, 3, 7]),
];

/// Other instructions, by their encodings.
const OTHERS: [(&str, u32); 35] = [
    ("udf #0", 0),
    ("udf #0xffff", 0xffff),
    ("unallocated", 0x0001_0000),
    ("hvc #0", 0xd400_0002),
    ("smc #0", 0xd400_0003),
    ("brk #0", 0xd420_0000),
    ("brk #0x800", 0xd421_0000),
    ("brk #0xf000", 0xd43e_0000),
    ("hlt #0", 0xd440_0000),
    ("hlt #0xf000", 0xd45e_0000),
    ("dcps1", 0xd4a0_0001),
    ("dcps2", 0xd4a0_0002),
    ("dcps3", 0xd4a0_0003),
    ("eret", 0xd69f_03e0),
    ("eretaa", 0xd69f_0bff),
    ("drps", 0xd6bf_03e0),
    ("tstart", 0xd523_3060),
    ("tcommit", 0xd503_307f),
    ("tcancel #0", 0xd460_0000),
    ("ttest", 0xd523_3160),
    ("st64bv x1, x1, [x0]", 0xf821_b001),
    ("yield", 0xd503_203f),
    ("wfe", 0xd503_205f),
    ("wfi", 0xd503_207f),
    ("wfet x0", 0xd503_1000),
    ("wfit x0", 0xd503_1020),
    ("dgh", 0xd503_20df),
    ("esb", 0xd503_221f),
    ("psb csync", 0xd503_223f),
    ("hint #127", 0xd503_2fff),
    ("clrex", 0xd503_3f5f),
    ("ssbb", 0xd503_309f),
    ("dsb oshnxs", 0xd503_323f),
    ("isb", 0xd503_3fdf),
    ("sb", 0xd503_30ff),
];

/// The effect of instructions that programs may not use, and of some that they may.
fn attempts(page: *mut u32) {
    for crm in 0..16 {
        for op2 in [0, 5] {
            let name = format!("msr S3_0_C0_C{crm}_{op2}");
            attempt(page, &name, system([3, 0, 0, crm, op2]), 0);
        }
    }
    for register in WRITTEN {
        let [op0, op1, crn, crm, op2] = register;
        let name = format!("msr S{op0}_{op1}_C{crn}_C{crm}_{op2}");
        attempt(page, &name, system(register), 0);
    }
    for (name, op1, value, op2) in FIELDS {
        let instruction = system([0, op1, 4, value, op2]) | 0x1f;
        attempt(page, &format!("msr {name}, #{value}"), instruction, 0);
    }
    let data = Box::new([0u64; 1024]);
    let mapped = (data.as_ptr() as u64 + 4096) & !4095;
    for (name, [op1, crn, crm, op2]) in OPERATIONS {
        for (of, address) in [("mapped", mapped), ("not mapped", 4096)] {
            let name = format!("{name}, {of}");
            attempt(page, &name, system([1, op1, crn, crm, op2]), address);
        }
    }
    drop(data);
    for (name, instruction) in OTHERS {
        // An interrupt ends WFI.
        strike(20_000);
        attempt(page, name, instruction, 0);
        strike(0);
    }
}

/// Sends a signal without effect each time that so many µs have passed. Zero stops that.
fn strike(microseconds: i32) {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: the handler does nothing, and the timer is valid for the call.
    unsafe {
        libc::signal(libc::SIGALRM, nothing as *const () as usize);
        let mut timer: libc::itimerval = mem::zeroed();
        timer.it_value.tv_usec = microseconds.into();
        timer.it_interval = timer.it_value;
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, ptr::null_mut());
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: the handler has the signature that SA_SIGINFO requires; the page is new.
    let page = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        for signal in [libc::SIGILL, libc::SIGTRAP, libc::SIGSEGV, libc::SIGBUS] {
            libc::sigaction(signal, &action, ptr::null_mut());
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let rights = PROT_READ | PROT_WRITE | PROT_EXEC;
        libc::mmap(ptr::null_mut(), 4096, rights, flags, -1, 0).cast::<u32>()
    };
    for crm in 0..16 {
        for op2 in 0..8 {
            tell(page, [3, 0, 0, crm, op2]);
        }
    }
    let others = [
        // Caches, and the zeroing of blocks.
        [3, 3, 0, 0, 1],
        [3, 3, 0, 0, 7],
        [3, 1, 0, 0, 0],
        [3, 1, 0, 0, 1],
        [3, 2, 0, 0, 0],
        [3, 1, 0, 0, 4],
        [3, 1, 0, 0, 7],
        // Registers of EL1 and above.
        [3, 0, 1, 0, 0],
        [3, 0, 2, 0, 0],
        [3, 0, 2, 1, 0],
        [3, 0, 4, 2, 2],
        [3, 0, 4, 2, 3],
        [3, 0, 13, 0, 4],
        [3, 4, 1, 1, 0],
        [3, 7, 15, 15, 7],
        // The program's state.
        [3, 3, 4, 2, 0],
        [3, 3, 4, 4, 1],
        // Counters and timers.
        [3, 3, 14, 0, 0],
        [3, 3, 14, 0, 1],
        [3, 3, 14, 0, 2],
        [3, 3, 14, 2, 1],
        [3, 3, 14, 3, 1],
        // Performance monitors.
        [3, 3, 9, 12, 0],
        [3, 3, 9, 13, 0],
        [3, 3, 13, 2, 2],
        // Debug registers.
        [2, 3, 0, 1, 0],
        [2, 3, 0, 5, 0],
        [2, 0, 0, 2, 2],
    ];
    for register in others {
        tell(page, register);
    }
    // SAFETY: reads the auxiliary vector. HWCAP_EVTSTRM (the event stream) depends on the timer.
    let (hwcap, hwcap2) = unsafe {
        let hwcap = libc::getauxval(libc::AT_HWCAP) & !(1 << 2);
        (hwcap, libc::getauxval(libc::AT_HWCAP2))
    };
    println!("AT_HWCAP {hwcap:#x} AT_HWCAP2 {hwcap2:#x}");
    let shown = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = shown.lines().find_map(|line| line.strip_prefix("Features"));
    let names = line.unwrap_or_default().split_whitespace();
    let names: Vec<_> = names
        .filter(|name| *name != "evtstrm" && *name != ":")
        .collect();
    println!("{}", names.join(" "));
    attempts(page);
}
