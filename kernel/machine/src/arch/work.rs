//! Bits of a thread's work word: the reasons why it must not return to its program yet.

/// The thread should be rescheduled.
pub const NEED_RESCHED: u32 = 1 << 0;
/// A signal may be pending.
pub const SIGNAL: u32 = 1 << 1;
/// A tracer must be notified, or something else that `task::exit_work` handles.
pub const TRACE: u32 = 1 << 2;
/// The program's CPU number must be updated, or a restartable sequence aborted.
pub const RSEQ: u32 = 1 << 3;
/// The thread must wait for memory first.
pub const MEMORY: u32 = 1 << 4;
/// With [`TRACE`]: an access of the program failed a tag check (arm64).
pub const TAG_FAULT: u32 = 1 << 5;
/// With [`TRACE`]: tag faults of the kernel's accesses for the program must be discarded (arm64).
pub const TAG_EXIT: u32 = 1 << 6;
/// CPU time timers, which were not checked while the process rested, are active again.
pub const CPU_TIMERS: u32 = 1 << 7;
