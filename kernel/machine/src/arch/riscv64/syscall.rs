//! Entries in the tables of system calls.

/// An entry of a [`SyscallTable`](crate::arch::SyscallTable) for a handler that needs the thread's
/// whole `Frame` (fork, execve, sigreturn): saves the registers that ordinary calls leave alone,
/// marks the frame as in a system call, and returns through the whole frame. The result of the
/// handler, a `Syscall`, is stored in the frame.
#[macro_export]
macro_rules! full_frame_stub {
    ($handler:path) => {{
        const _: $crate::arch::Syscall = $handler;
        #[unsafe(naked)]
        unsafe extern "C" fn stub(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
            core::arch::naked_asm!(
                "lla t0, {handler}",
                "tail {full}",
                handler = sym $handler,
                full = sym $crate::arch::call_with_full_frame,
            )
        }
        // SAFETY: the whole frame is saved, then a `Syscall` is called.
        unsafe { $crate::arch::Entry::of_stub(stub) }
    }};
}
