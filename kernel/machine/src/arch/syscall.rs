//! Tables of system calls.

/// Entries in a table.
pub const ENTRIES: usize = crossings::SYSCALLS;

/// A system call as the entry path calls it: six arguments in the first registers, the result or
/// minus the error number in the first.
pub type Syscall = extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

/// The place in a table for numbers beyond it, which no call has.
pub const UNKNOWN: usize = 511;

/// A system call as filters and tracers see it.
#[derive(Clone, Copy)]
pub struct Call {
    /// AUDIT_ARCH_*: whose numbers they are.
    pub architecture: u32,
    /// Its number; -1 where a tracer took it away.
    pub number: i32,
    /// Its place in the tables, [`UNKNOWN`]'s if they have none.
    pub place: usize,
    /// The address of the next instruction.
    pub pc: usize,
    /// Its arguments.
    pub arguments: [usize; 6],
}

/// System calls by number.
pub type SyscallTable = [Syscall; ENTRIES];

extern "C" fn none(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    -(crate::errno::Errno::ENOSYS.0 as isize)
}

/// No system call at all: before the first program.
pub(super) static NONE: SyscallTable = [none; ENTRIES];
