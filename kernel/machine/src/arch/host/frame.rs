//! The registers of a program while the kernel runs on its behalf.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The user's registers.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable)]
pub struct Frame {
    pub(in crate::arch) x: [usize; reg::COUNT],
    /// The value of the first argument on entry to the system call.
    pub(in crate::arch) orig_a0: usize,
    /// Number of the current system call; -1 outside of one.
    pub(in crate::arch) syscall: isize,
}

/// Indices of the registers.
pub(in crate::arch) mod reg {
    pub const PC: usize = 0;
    pub const SP: usize = 1;
    /// The address to which a signal handler returns; 0 if there is none.
    pub const RA: usize = 2;
    pub const TP: usize = 3;
    /// The first of six arguments, and the result.
    pub const A0: usize = 4;
    /// The number of a system call.
    pub const NR: usize = 10;
    pub const COUNT: usize = 11;
}

/// Size in bytes of an assumed system call instruction.
pub(in crate::arch) const CALL: usize = 4;

impl Frame {
    /// Sets up the registers for a system call.
    pub(super) fn prepare(&mut self, number: usize, arguments: [usize; 6]) {
        self.x[reg::NR] = number;
        self.x[reg::A0..][..6].copy_from_slice(&arguments);
    }

    /// Enters the system call in the registers.
    pub(super) fn enter_syscall(&mut self) {
        self.orig_a0 = self.x[reg::A0];
        self.syscall = self.x[reg::NR] as i32 as isize;
    }
}
