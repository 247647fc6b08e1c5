//! The parts that differ between the architectures: entry, system calls, counter, markers, and code
//! that must not touch the stack.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
pub use riscv64::*;

/// How many different tags [`mark`] has.
pub const TAGS: usize = 1024;

/// The tag of what comes after the last row: how a machine goes down is not the same each time.
pub const OVER: usize = TAGS - 1;

/// A thread to be started: it calls `entry` with `argument` and then ends.
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
