//! What a program's registers hold while the kernel runs on its behalf.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The user's registers.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable)]
pub struct Frame {
    pub(in crate::arch) x: [usize; reg::COUNT],
    /// The first argument as the system call got it.
    pub(in crate::arch) orig_a0: usize,
    /// Number of the system call that the thread is in; -1 when it is in none.
    pub(in crate::arch) syscall: isize,
}

/// Places of the registers.
pub(in crate::arch) mod reg {
    pub const PC: usize = 0;
    pub const SP: usize = 1;
    /// Where a signal's handler returns to; 0 if it has nowhere to return to.
    pub const RA: usize = 2;
    pub const TP: usize = 3;
    /// The first of six arguments, and the result.
    pub const A0: usize = 4;
    /// The number of a system call.
    pub const NR: usize = 10;
    pub const COUNT: usize = 11;
}

/// Bytes of the instruction that makes a system call, if there were one.
pub(in crate::arch) const CALL: usize = 4;

impl Frame {
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
