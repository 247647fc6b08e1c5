//! All that programs learn of a CPU's instructions: each register that could be one of its
//! description, read, and the auxiliary vector. The lines differ from CPU to CPU, not from kernel
//! to kernel.

use std::arch::asm;
use std::mem;
use std::ptr;

use libc::{PROT_EXEC, PROT_READ, PROT_WRITE, c_int, c_void, siginfo_t};

/// What is read where the instruction is undefined.
const UNDEFINED: u64 = 0x0bad_0bad_0bad_0bad;

extern "C" fn on_undefined(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a whole context.
    let machine = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    machine.pc += 4;
    machine.regs[0] = UNDEFINED;
}

/// Executes `instruction`, which may change x0, between others of a page; returns x0.
fn execute(page: *mut u32, instruction: u32) -> u64 {
    let x0: u64;
    // SAFETY: the page is the code's own; the instruction is a read of a register, or undefined.
    unsafe {
        page.write_volatile(instruction);
        page.add(1).write_volatile(0xd65f_03c0); // RET
        asm!(
            "dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb",
            "blr {0}",
            in(reg) page, inout("x0") 1u64 => x0, out("x30") _,
        );
    }
    x0
}

/// `MRS X0, S<op0>_<op1>_C<crn>_C<crm>_<op2>`
fn mrs([op0, op1, crn, crm, op2]: [u32; 5]) -> u32 {
    0xd530_0000 | (op0 & 1) << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5
}

/// Registers that are of no use to a test where they are defined: they count.
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
    match execute(page, mrs(register)) {
        UNDEFINED => println!("{name}: undefined"),
        _ if COUNTING.contains(&register) => println!("{name}: something"),
        value => println!("{name}: {value:#x}"),
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: the handler is of the kind that SA_SIGINFO asks for; the page is new.
    let page = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_undefined as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGILL, &action, ptr::null_mut());
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
        // Caches, and what zeroes them.
        [3, 3, 0, 0, 1],
        [3, 3, 0, 0, 7],
        [3, 1, 0, 0, 0],
        [3, 1, 0, 0, 1],
        [3, 2, 0, 0, 0],
        [3, 1, 0, 0, 4],
        [3, 1, 0, 0, 7],
        // Of EL1.
        [3, 0, 1, 0, 0],
        [3, 0, 2, 0, 0],
        [3, 0, 2, 1, 0],
        [3, 0, 4, 2, 2],
        [3, 0, 4, 2, 3],
        [3, 0, 13, 0, 4],
        [3, 4, 1, 1, 0],
        [3, 7, 15, 15, 7],
        // The state of the program.
        [3, 3, 4, 2, 0],
        [3, 3, 4, 4, 1],
        // Counters and timers.
        [3, 3, 14, 0, 0],
        [3, 3, 14, 0, 1],
        [3, 3, 14, 0, 2],
        [3, 3, 14, 2, 1],
        [3, 3, 14, 3, 1],
        // Performance.
        [3, 3, 9, 12, 0],
        [3, 3, 9, 13, 0],
        [3, 3, 13, 2, 2],
        // Debugging.
        [2, 3, 0, 1, 0],
        [2, 3, 0, 5, 0],
        [2, 0, 0, 2, 2],
    ];
    for register in others {
        tell(page, register);
    }
    // SAFETY: reads the vector. The bit of the event stream (HWCAP_EVTSTRM) is the timer's.
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
}
