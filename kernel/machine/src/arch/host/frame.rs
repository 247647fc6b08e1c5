//! What a program's registers hold while the kernel runs on its behalf.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The user's registers.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable)]
pub struct Frame {
    pub(super) x: [usize; reg::COUNT],
    /// The first argument as the system call got it.
    pub(super) orig_a0: usize,
    /// Number of the system call that the thread is in; -1 when it is in none.
    pub(super) syscall: isize,
}

/// Places of the registers.
pub(super) mod reg {
    pub const PC: usize = 0;
    pub const SP: usize = 1;
    /// Where a signal's handler returns to; 0 in who has nowhere to return to.
    pub const RA: usize = 2;
    pub const TP: usize = 3;
    /// The first of six arguments, and the result.
    pub const A0: usize = 4;
    /// The number of a system call.
    pub const NR: usize = 10;
    pub const COUNT: usize = 11;
}

/// Bytes of the instruction that makes a system call, if there were one.
pub(super) const CALL: usize = 4;

impl Frame {
    /// A program's first registers: all zero but the address of its first instruction, the stack
    /// and the first argument.
    pub fn user(entry: usize, sp: usize, argument: usize) -> Self {
        let mut frame = Frame {
            x: [0; reg::COUNT],
            orig_a0: 0,
            syscall: -1,
        };
        frame.x[reg::PC] = entry;
        frame.x[reg::SP] = sp;
        frame.x[reg::A0] = argument;
        frame
    }

    /// The address of the next instruction.
    pub fn pc(&self) -> usize {
        self.x[reg::PC]
    }

    /// Sets the address of the next instruction.
    pub fn set_pc(&mut self, pc: usize) {
        self.x[reg::PC] = pc;
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
        self.x[reg::PC] -= CALL;
        self.forget_syscall();
    }

    /// Goes back as `restart_syscall`, but to call number `nr` (restart_syscall(2)).
    pub fn restart_as(&mut self, nr: usize) {
        self.restart_syscall();
        self.x[reg::NR] = nr;
    }

    /// Makes a system call from the next instruction on.
    pub(super) fn prepare(&mut self, number: usize, arguments: [usize; 6]) {
        self.x[reg::NR] = number;
        self.x[reg::A0..][..6].copy_from_slice(&arguments);
    }

    /// The thread has made the system call that the registers say.
    pub(super) fn enter_syscall(&mut self) {
        self.orig_a0 = self.x[reg::A0];
        self.syscall = self.x[reg::NR] as i32 as isize;
    }
}
