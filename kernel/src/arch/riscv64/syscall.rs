//! Tables of system calls.

/// Entries in a table.
pub const ENTRIES: usize = crossings::SYSCALLS;

/// A system call as the entry path calls it: arguments in a0 to a5, the result or minus the error number in a0.
pub type Syscall = extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

/// System calls by number.
pub type SyscallTable = [Syscall; ENTRIES];

extern "C" fn none(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    -(crate::errno::Errno::ENOSYS.0 as isize)
}

/// No system call at all: before the first program.
pub(super) static NONE: SyscallTable = [none; ENTRIES];

/// An entry of a [`SyscallTable`] for a handler that needs the thread's whole `Frame` (fork, execve, sigreturn): saves the
/// registers that ordinary calls leave alone, marks the frame as in a system call, and returns by the whole frame. The
/// handler is a `Syscall`; its result is stored in the frame.
#[macro_export]
macro_rules! full_frame_stub {
    ($handler:path) => {{
        #[unsafe(naked)]
        extern "C" fn stub(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
            core::arch::naked_asm!(
                "lla t0, {handler}",
                "tail {full}",
                handler = sym $handler,
                full = sym $crate::arch::call_with_full_frame,
            )
        }
        stub as $crate::arch::Syscall
    }};
}
