//! Tables of system calls.

/// Entries in a table.
pub const ENTRIES: usize = crossings::SYSCALLS;

/// A system call: six arguments in the first registers, the result or minus the error number in the
/// first.
pub type Syscall = extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

/// What the entry path calls for a system call, and nobody else: a stub does not return where it
/// was called from.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Entry(Stub);

type Stub = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;

impl Entry {
    /// For a handler that does without the thread's whole frame.
    pub const fn new(handler: Syscall) -> Self {
        Entry(handler)
    }

    /// For [`full_frame_stub!`](crate::full_frame_stub) and its like.
    ///
    /// # Safety
    /// The entry path may call the stub with the registers of any call.
    #[doc(hidden)]
    pub const unsafe fn of_stub(stub: Stub) -> Self {
        Entry(stub)
    }

    /// Calls it.
    ///
    /// # Safety
    /// This is the entry path.
    #[cfg(not(target_os = "none"))]
    pub(super) unsafe fn call(self, arguments: [usize; 6]) -> isize {
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: as the caller says.
        unsafe { (self.0)(a, b, c, d, e, f) }
    }
}

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

/// Entries of system calls by number.
pub type SyscallTable = [Entry; ENTRIES];

/// Handlers of system calls by number, for who has saved the whole frame.
pub type Handlers = [Syscall; ENTRIES];

extern "C" fn none(_: usize, _: usize, _: usize, _: usize, _: usize, _: usize) -> isize {
    -(crate::errno::Errno::ENOSYS.0 as isize)
}

/// No system call at all: before the first program.
pub(super) static NONE: SyscallTable = [Entry::new(none); ENTRIES];
