//! RISC-V, 64-bit.

use super::{TAGS, Thread};
use crate::sys::{self, number};
use core::arch::{asm, global_asm};

/// The architecture's name in uname(2).
pub const NAME: &str = "riscv64";

/// `struct sigaction` of the kernel's interface: without a restorer, since the kernel has its own.
#[repr(C)]
pub struct SignalAction {
    handler: extern "C" fn(i32),
    flags: usize,
    mask: u64,
}

impl SignalAction {
    /// A handler with no flags and an empty mask.
    pub fn new(handler: extern "C" fn(i32)) -> Self {
        Self {
            handler,
            flags: 0,
            mask: 0,
        }
    }
}

global_asm!(
    ".option push",
    ".option norvc",
    ".globl _start",
    "_start:",
    ".option push",
    ".option norelax",
    "lla gp, __global_pointer$",
    ".option pop",
    "mv a0, sp",
    "mv ra, zero",
    "tail {begin}",
    // One marker for each tag: SLTI with rd=x0 is a HINT without effect (unprivileged ISA, 2.9).
    "markers:",
    ".set tag, 0",
    ".rept {tags}",
    "slti x0, x0, tag",
    "ret",
    ".set tag, tag + 1",
    ".endr",
    ".option pop",
    begin = sym crate::begin,
    tags = const TAGS,
);

unsafe extern "C" {
    safe static markers: [u64; TAGS];
}

/// Executes the marker with this tag, which has no effect but which QEMU's plugin sees.
pub fn mark(tag: usize) {
    let marker = &markers[tag];
    // SAFETY: each entry is a marker and a return, and clobbers nothing but the return address.
    unsafe { asm!("jalr ra, {}", in(reg) marker, out("ra") _, options(nostack)) };
}

/// The counter that user programs can read, in ticks.
#[inline(always)]
pub fn counter() -> u64 {
    let ticks;
    // SAFETY: reads a register.
    unsafe { asm!("rdtime {}", out(reg) ticks, options(nostack)) };
    ticks
}

/// The counter's frequency in Hz. No register has it, so it is measured against the kernel's clock
/// for 20 milliseconds and rounded to three digits; 10 MHz if there is no clock.
pub fn frequency() -> u64 {
    let read = || Some((sys::monotonic().ok()?, counter()));
    let measured = || {
        read()?;
        let (start, first) = read()?;
        loop {
            let (now, last) = read()?;
            if now.checked_sub(start)? > 20_000_000 {
                return Some(u128::from(last - first) * 1_000_000_000 / u128::from(now - start));
            }
        }
    };
    let hertz = measured().filter(|hertz| *hertz > 0).unwrap_or(10_000_000) as u64;
    let step = 10u64.pow(hertz.ilog10().saturating_sub(2));
    (hertz + step / 2) / step * step
}

/// Makes a system call.
///
/// # Safety
/// The arguments are valid for the system call, and the caller allows for its effects on memory.
#[inline(always)]
pub unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let [a0, a1, a2, a3, a4, a5] = arguments;
    let result;
    // SAFETY: the kernel changes only a0.
    unsafe {
        asm!("ecall", in("a7") number, inlateout("a0") a0 => result, in("a1") a1, in("a2") a2,
            in("a3") a3, in("a4") a4, in("a5") a5, options(nostack));
    }
    result
}

/// Calls getppid `times` times: four instructions each, the call itself included.
pub fn null_calls(times: usize) {
    // SAFETY: getppid changes only a0.
    unsafe {
        asm!("2:", "li a7, {call}", "ecall", "addi {times}, {times}, -1", "bnez {times}, 2b",
            times = inout(reg) times => _, call = const number::GETPPID,
            out("a0") _, out("a7") _, options(nostack));
    }
}

/// User programs have no ID registers to read on RISC-V.
pub fn id_reads(_hwcap: usize) -> Option<fn(usize)> {
    None
}

/// Starts a thread; returns what clone returns.
///
/// # Safety
/// The stack is unused, and is not used otherwise until the word at `ended` is cleared; `entry`
/// accepts the argument.
pub unsafe fn start(thread: &Thread) -> isize {
    let result;
    // SAFETY: the child does not return from here: on its own stack it calls its entry and exits.
    unsafe {
        asm!("ecall", "bnez a0, 2f", "mv a0, {argument}", "jalr ra, {entry}", "li a7, {exit}", "li a0, 0", "ecall", "2:",
            in("a7") number::CLONE, inlateout("a0") thread.flags => result, in("a1") thread.stack,
            in("a2") 0, in("a3") 0, in("a4") thread.ended,
            argument = in(reg) thread.argument, entry = in(reg) thread.entry, exit = const number::EXIT);
    }
    result
}

/// Forks with the memory shared and the parent waiting; the child executes `path`, or exits if that
/// is null or fails. Returns what clone returns. The child touches no memory.
///
/// # Safety
/// The pointers are valid for execve.
#[inline(always)]
pub unsafe fn vfork_exec(path: *const u8, argv: *const *const u8, envp: *const *const u8) -> isize {
    let result;
    // SAFETY: the child uses only registers, and leaves by execve or exit.
    unsafe {
        asm!("ecall", "bnez a0, 2f", "mv a0, {path}", "beqz a0, 3f", "mv a1, {argv}", "mv a2, {envp}",
            "li a7, {execve}", "ecall", "3:", "li a7, {exit}", "ecall", "2:",
            in("a7") number::CLONE, inlateout("a0") sys::CLONE_VM | sys::CLONE_VFORK | sys::SIGCHLD => result,
            in("a1") 0, in("a2") 0, in("a3") 0, in("a4") 0,
            path = in(reg) path, argv = in(reg) argv, envp = in(reg) envp,
            execve = const number::EXECVE, exit = const number::EXIT, options(nostack));
    }
    result
}
