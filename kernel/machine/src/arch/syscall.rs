//! Tables of system calls.

/// Number of entries in a table.
pub const ENTRIES: usize = crossings::SYSCALLS;

/// A system call: six arguments in the first registers; the result, or the negated error number, in
/// the first register.
pub type Syscall = extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

/// A function that only the entry path calls, for a system call: a stub does not return to its
/// caller.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Entry(Stub);

type Stub = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

impl Entry {
    /// Creates an entry for a handler that does not need the thread's whole frame.
    pub const fn new(handler: Syscall) -> Self {
        Entry(handler)
    }

    /// Creates an entry for [`full_frame_stub!`](crate::full_frame_stub) and similar stubs.
    ///
    /// # Safety
    /// The entry path may call the stub with the registers of any call.
    #[doc(hidden)]
    pub const unsafe fn of_stub(stub: Stub) -> Self {
        Entry(stub)
    }

    /// Calls the entry.
    ///
    /// # Safety
    /// Only the entry path may call it.
    #[cfg(not(target_os = "none"))]
    pub(super) unsafe fn call(self, arguments: [usize; 6]) -> isize {
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: guaranteed by the caller.
        unsafe { (self.0)(a, b, c, d, e, f) }
    }
}

/// The table index for numbers beyond the table; no call has this number.
pub const UNKNOWN: usize = 511;

/// A system call in the view of filters and tracers.
#[derive(Clone, Copy)]
pub struct Call {
    /// AUDIT_ARCH_*: the architecture of the number.
    pub architecture: u32,
    /// Its number; -1 if a tracer cancelled it.
    pub number: i32,
    /// Its table index; [`UNKNOWN`] if it has none.
    pub place: usize,
    /// The address of the next instruction.
    pub pc: usize,
    /// Its arguments.
    pub arguments: [usize; 6],
}

/// Entries of system calls by number.
pub type SyscallTable = [Entry; ENTRIES];

/// Handlers of system calls by number, for callers that have saved the whole frame.
pub type Handlers = [Syscall; ENTRIES];

extern "C" fn none(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    -(crate::errno::Errno::ENOSYS.0 as isize)
}

/// A table without system calls: before the first program.
pub(super) static NONE: SyscallTable = [Entry::new(none); ENTRIES];
