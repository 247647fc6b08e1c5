//! arm64.

use super::{TAGS, Thread};
use crate::sys::{self, number};
use core::arch::{asm, global_asm};

/// Linux's name for this architecture's machine.
pub const NAME: &str = "aarch64";

/// `HWCAP_CPUID`, from `asm/hwcap.h`: the kernel emulates reads of the ID registers.
const HWCAP_CPUID: usize = 1 << 11;

/// `SA_RESTORER`, from `asm/signal.h`.
const SA_RESTORER: usize = 0x0400_0000;

/// `struct sigaction` of the kernel's interface.
#[repr(C)]
pub struct SignalAction {
    handler: extern "C" fn(i32),
    flags: usize,
    restorer: unsafe extern "C" fn(),
    mask: u64,
}

impl SignalAction {
    /// A handler with no flags and an empty mask.
    pub fn new(handler: extern "C" fn(i32)) -> Self {
        Self {
            handler,
            flags: SA_RESTORER,
            restorer: signal_return,
            mask: 0,
        }
    }
}

global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, sp",
    "b {begin}",
    // Returns from a signal handler: rt_sigreturn is system call 139.
    "signal_return:",
    "mov x8, #139",
    "svc #0",
    // One marker for each tag: MOVZ to XZR has no effect (Arm ARM, MOV (wide immediate)).
    "markers:",
    ".set tag, 0",
    ".rept {tags}",
    "movz xzr, #tag",
    "ret",
    ".set tag, tag + 1",
    ".endr",
    begin = sym crate::begin,
    tags = const TAGS,
);

unsafe extern "C" {
    fn signal_return();
    safe static markers: [u64; TAGS];
}

/// Executes the marker with this tag, which has no effect but which QEMU's plugin sees.
pub fn mark(tag: usize) {
    let marker = &markers[tag];
    // SAFETY: each entry is a marker and a return, and clobbers nothing but the link register.
    unsafe { asm!("blr {}", in(reg) marker, out("x30") _, options(nostack, preserves_flags)) };
}

/// The counter that user programs can read, in ticks.
#[inline(always)]
pub fn counter() -> u64 {
    let ticks;
    // SAFETY: reads a register; the barrier orders the read.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// The counter's frequency in Hz.
pub fn frequency() -> u64 {
    let hertz;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nostack, preserves_flags)) };
    hertz
}

/// Makes a system call.
///
/// # Safety
/// The arguments are valid for the system call, and the caller allows for its effects on memory.
#[inline(always)]
pub unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let [a0, a1, a2, a3, a4, a5] = arguments;
    let result;
    // SAFETY: the kernel changes only x0.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") a0 => result, in("x1") a1, in("x2") a2,
            in("x3") a3, in("x4") a4, in("x5") a5, options(nostack));
    }
    result
}

/// Calls getppid `times` times: four instructions each, the call itself included.
pub fn null_calls(times: usize) {
    // SAFETY: getppid changes only x0.
    unsafe {
        asm!("2:", "mov x8, {call}", "svc #0", "subs {times}, {times}, #1", "b.ne 2b",
            times = inout(reg) times => _, call = const number::GETPPID,
            out("x0") _, out("x8") _, options(nostack));
    }
}

/// A function that reads ID_AA64ISAR0_EL1 `times` times, three instructions each; none if the
/// kernel does not emulate such reads.
pub fn id_reads(hwcap: usize) -> Option<fn(usize)> {
    (hwcap & HWCAP_CPUID != 0).then_some(|times| {
        // SAFETY: the kernel emulates the trapped read, as HWCAP_CPUID promises.
        unsafe {
            asm!("2:", "mrs {value}, ID_AA64ISAR0_EL1", "subs {times}, {times}, #1", "b.ne 2b",
                times = inout(reg) times => _, value = out(reg) _, options(nostack));
        }
    })
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
        asm!("svc #0", "cbnz x0, 2f", "mov x0, {argument}", "blr {entry}", "mov x8, {exit}", "mov x0, xzr", "svc #0", "2:",
            in("x8") number::CLONE, inlateout("x0") thread.flags => result, in("x1") thread.stack,
            in("x2") 0, in("x3") 0, in("x4") thread.ended,
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
        asm!("svc #0", "cbnz x0, 2f", "mov x0, {path}", "cbz x0, 3f", "mov x1, {argv}", "mov x2, {envp}",
            "mov x8, {execve}", "svc #0", "3:", "mov x8, {exit}", "svc #0", "2:",
            in("x8") number::CLONE, inlateout("x0") sys::CLONE_VM | sys::CLONE_VFORK | sys::SIGCHLD => result,
            in("x1") 0, in("x2") 0, in("x3") 0, in("x4") 0,
            path = in(reg) path, argv = in(reg) argv, envp = in(reg) envp,
            execve = const number::EXECVE, exit = const number::EXIT, options(nostack));
    }
    result
}
