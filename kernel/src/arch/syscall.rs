//! Tables of system calls.

/// Entries in a table.
pub const ENTRIES: usize = crossings::SYSCALLS;

/// A system call as the entry path calls it: six arguments in the first registers, the result or minus the error number in the
/// first.
pub type Syscall = extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

/// System calls by number.
pub type SyscallTable = [Syscall; ENTRIES];

extern "C" fn none(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    -(crate::errno::Errno::ENOSYS.0 as isize)
}

/// No system call at all: before the first program.
pub(super) static NONE: SyscallTable = [none; ENTRIES];
