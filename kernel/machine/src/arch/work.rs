//! Bits of a thread's work word: why it must not return to its program yet.

/// Another thread should run first.
pub const NEED_RESCHED: u32 = 1 << 0;
/// A signal may be due.
pub const SIGNAL: u32 = 1 << 1;
/// A tracer is to be notified, or something else that `task::exit_work` knows.
pub const TRACE: u32 = 1 << 2;
/// The program is to learn its CPU, or to leave a restartable sequence.
pub const RSEQ: u32 = 1 << 3;
/// The thread waits for memory first.
pub const MEMORY: u32 = 1 << 4;
/// With [`TRACE`]: accesses of the program had other tags than memory (arm64).
pub const TAG_FAULT: u32 = 1 << 5;
/// With [`TRACE`]: what the kernel's accesses for the program recorded of that is to be forgotten
/// (arm64).
pub const TAG_EXIT: u32 = 1 << 6;
