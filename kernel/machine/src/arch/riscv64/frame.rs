//! The registers of a program while the kernel runs on its behalf.

use super::cpu::Cpu;

/// The user's registers at the top of a thread's kernel stack.
///
/// The entry paths save the registers that a call may clobber; `gp` and the callee-saved registers
/// are valid only after a full save, which has always happened when safe code gets a `&mut Frame`.
#[repr(C, align(16))]
#[derive(Clone)]
pub struct Frame {
    /// `pc` in place of x0, followed by x1 to x31: the order of Linux's `user_regs_struct`.
    pub(in crate::arch) x: [usize; reg::COUNT],
    /// The value of a0 on entry to the system call.
    pub(in crate::arch) orig_a0: usize,
    /// Number of the current system call; -1 outside of one.
    pub(in crate::arch) syscall: isize,
}

/// The data at the top of a kernel stack.
#[repr(C, align(16))]
pub struct StackTop {
    /// The user's registers.
    pub frame: Frame,
    /// The CPU that runs the thread; written by the context switch.
    pub cpu: *const Cpu,
}

/// Register numbers (RISC-V ELF psABI, section 1.1), except for PC.
pub(in crate::arch) mod reg {
    pub const PC: usize = 0;
    pub const RA: usize = 1;
    pub const SP: usize = 2;
    pub const TP: usize = 4;
    pub const A0: usize = 10;
    pub const A1: usize = 11;
    pub const A2: usize = 12;
    /// a7: the number of a system call.
    pub const NR: usize = 17;
    pub const COUNT: usize = 32;
}

/// Size of an `ecall` instruction in bytes.
pub(in crate::arch) const CALL: usize = 4;

/// Names of the registers in [`Frame`], in order.
pub(super) const REGISTER_NAMES: [&str; reg::COUNT] = [
    "pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
    "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5",
    "t6",
];
