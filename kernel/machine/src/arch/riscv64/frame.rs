//! What a program's registers hold while the kernel runs on its behalf.

use super::cpu::Cpu;

/// The user's registers at the top of a thread's kernel stack.
///
/// The entry paths save what a call may clobber; `gp` and the saved registers are valid only after
/// a full save, which every `&mut Frame` that safe code sees has had.
#[repr(C, align(16))]
#[derive(Clone)]
pub struct Frame {
    /// `pc` in place of x0, then x1 to x31: the order of Linux's `user_regs_struct`.
    pub(super) x: [usize; 32],
    /// a0 as the system call got it.
    pub(super) orig_a0: usize,
    /// Number of the system call that the thread is in; -1 when it is in none.
    pub(super) syscall: isize,
}

/// What lies at the top of a kernel stack.
#[repr(C, align(16))]
pub struct StackTop {
    /// The user's registers.
    pub frame: Frame,
    /// The CPU that runs the thread, written when it is switched to.
    pub cpu: *const Cpu,
}

/// Register numbers (RISC-V ELF psABI, section 1.1).
pub(super) mod reg {
    pub const RA: usize = 1;
    pub const SP: usize = 2;
    pub const TP: usize = 4;
    pub const A0: usize = 10;
    pub const A1: usize = 11;
    pub const A2: usize = 12;
    pub const A7: usize = 17;
}

/// Bytes of an `ecall` instruction.
const ECALL: usize = 4;

impl Frame {
    /// A program's first registers: all zero but the address of its first instruction, the stack
    /// and the first argument.
    pub fn user(entry: usize, sp: usize, argument: usize) -> Self {
        let mut frame = Frame {
            x: [0; 32],
            orig_a0: 0,
            syscall: -1,
        };
        frame.set_pc(entry);
        frame.set_sp(sp);
        frame.x[reg::A0] = argument;
        frame
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> usize {
        self.x[0]
    }

    /// Sets the address of the next instruction.
    pub fn set_pc(&mut self, pc: usize) {
        self.x[0] = pc;
    }

    /// The stack pointer.
    pub fn sp(&self) -> usize {
        self.x[reg::SP]
    }

    /// Sets the stack pointer.
    pub fn set_sp(&mut self, sp: usize) {
        self.x[reg::SP] = sp;
    }

    /// Sets the thread pointer.
    pub(super) fn set_tls(&mut self, tls: usize) {
        self.x[reg::TP] = tls;
    }

    /// What the system call returns.
    pub fn result(&self) -> isize {
        self.x[reg::A0] as isize
    }

    /// Sets what the system call returns.
    pub fn set_result(&mut self, value: isize) {
        self.x[reg::A0] = value as usize;
    }

    /// The system call that the thread is in, if it is in one.
    pub fn syscall_nr(&self) -> Option<usize> {
        (self.syscall != -1).then_some(self.syscall as usize)
    }

    /// The thread is in no system call any more: nothing is to be restarted.
    pub fn forget_syscall(&mut self) {
        self.syscall = -1;
    }

    /// Goes back to the system call's instruction with its arguments restored.
    pub fn restart_syscall(&mut self) {
        self.x[reg::A0] = self.orig_a0;
        self.x[0] -= ECALL;
        self.forget_syscall();
    }

    /// Goes back as `restart_syscall`, but to call number `nr` (restart_syscall(2)).
    pub fn restart_as(&mut self, nr: usize) {
        self.restart_syscall();
        self.x[reg::A7] = nr;
    }
}

/// Names of what [`Frame`] holds, in order.
pub(super) const REGISTER_NAMES: [&str; 32] = [
    "pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
    "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5",
    "t6",
];
