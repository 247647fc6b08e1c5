//! The parts that differ by architecture: entry, system calls, counter, markers, and code that must
//! not touch the stack.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub use riscv64::*;

/// The number of tags of [`mark`].
pub const TAGS: usize = 1024;

/// The tag after the last row: a machine's power-off differs from run to run.
pub const OVER: usize = TAGS - 1;

/// A new thread: it calls `entry` with `argument` and then exits.
pub struct Thread {
    /// `CLONE_*`.
    pub flags: usize,
    /// The end of the thread's stack, a multiple of 16.
    pub stack: usize,
    /// The word that the kernel clears when the thread has ended.
    pub ended: usize,
    /// The thread's function.
    pub entry: extern "C" fn(usize),
    /// Its argument.
    pub argument: usize,
}
