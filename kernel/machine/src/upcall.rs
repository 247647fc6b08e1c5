//! The machine layer's calls to the upper kernel. The functions are symbols that
//! [`kernel!`](crate::kernel) defines for the only type that implements [`Kernel`]: they are
//! resolved when the kernel is linked, and no call is dynamic.

use crate::arch::SyscallTable;
use crate::arch::cpu::Cpu;
use crate::arch::irq::Interrupted;
use crate::arch::task::{Previous, Task};
use crate::errno::Result;
use crate::mm::fault::{Access, Signal};
use crate::mm::{AddressSpace, Archive};

/// The upper kernel.
pub trait Kernel: Functions {
    /// Its type of threads.
    type Thread: Task;
    /// Its per-CPU data.
    type Cpu: Sync + 'static;
    /// The initial per-CPU data.
    const CPU: Self::Cpu;
    /// System calls by number.
    const SYSCALLS: SyscallTable;
}

unsafe extern "Rust" {
    /// [`Kernel::SYSCALLS`]
    pub safe static SYSCALLS: SyscallTable;
    /// The same as a function: Miri resolves only functions of another crate by their symbols.
    pub safe fn syscalls() -> &'static SyscallTable;
    /// Size of a [`Kernel::Thread`] in bytes.
    pub safe fn thread_size() -> usize;
    /// Initializes the upper kernel's data for a CPU in `room`.
    ///
    /// # Safety
    /// `room` has the size and alignment that [`assert_fits`](crate::arch::cpu::assert_fits)
    /// asserts, and nobody else uses it yet.
    pub unsafe fn init_cpu(room: *mut ());
}

/// Declares the functions: in the trait, as symbols, and in the macro that defines the symbols.
/// `$d` is a dollar sign.
macro_rules! functions {
    ($d:tt $($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The functions of the upper kernel.
        pub trait Functions {
            $($(#[$doc])* fn $name($($argument: $type),*) -> $result;)*
        }

        unsafe extern "Rust" {
            $($(#[$doc])* pub safe fn $name($($argument: $type),*) -> $result;)*
        }

        /// Declares a type that implements the trait [`Kernel`](crate::upcall::Kernel) as the upper
        /// kernel. Once in a program, since its symbols can exist only once.
        #[macro_export]
        macro_rules! kernel {
            ($d kernel:ty) => {
                const _: () = {
                    use $d crate::upcall::reexport::*;
                    type Above = $d kernel;
                    $(
                        #[unsafe(no_mangle)]
                        fn $name($($argument: $type),*) -> $result {
                            <Above as Functions>::$name($($argument),*)
                        }
                    )*
                    #[unsafe(no_mangle)]
                    static SYSCALLS: SyscallTable = <Above as Kernel>::SYSCALLS;
                    #[unsafe(no_mangle)]
                    fn syscalls() -> &'static SyscallTable {
                        &SYSCALLS
                    }
                    #[unsafe(no_mangle)]
                    fn thread_size() -> usize {
                        size_of::<<Above as Kernel>::Thread>()
                    }
                    // SAFETY: this is the only kernel; a second one would define the symbols again.
                    unsafe impl $d crate::arch::cpu::Above for <Above as Kernel>::Cpu {}
                    #[unsafe(no_mangle)]
                    unsafe fn init_cpu(room: *mut ()) {
                        // SAFETY: it fits, as asserted below, and the caller has the memory
                        // exclusively.
                        unsafe { room.cast::<<Above as Kernel>::Cpu>().write(<Above as Kernel>::CPU) }
                    }
                    $d crate::arch::cpu::assert_fits::<<Above as Kernel>::Cpu>();
                };
            };
        }
    };
}

/// The names that the macro uses.
#[doc(hidden)]
pub mod reexport {
    pub use super::{Functions, Kernel};
    pub use crate::arch::SyscallTable;
    pub use crate::arch::cpu::Cpu;
    pub use crate::arch::irq::Interrupted;
    pub use crate::arch::task::Previous;
    pub use crate::errno::Result;
    pub use crate::mm::fault::{Access, Signal};
    pub use crate::mm::{AddressSpace, Archive};
}

functions! { $
    /// Starts the upper kernel on the boot CPU, with the initial `archive`.
    fn start_kernel(archive: Option<Archive>) -> !;
    /// Called on a secondary CPU when it starts: gives it its idle thread.
    fn start_cpu() -> ();
    /// Runs the idle loop, forever.
    fn idle() -> !;
    /// Called first in a new thread, where in others
    /// [`arch::task::switch`](crate::arch::task::switch) returns `previous`.
    fn switched(previous: Previous) -> ();
    /// Called before the current thread returns to its program while its work word is not 0. The
    /// program's registers are available through
    /// [`with_frame`](crate::arch::ThreadState::with_frame), but must not be kept across a sleep,
    /// in which a tracer may change them.
    fn exit_work() -> ();
    /// Handles a fault of the current program's `access` to `address`; returns a signal if it
    /// cannot be resolved.
    fn page_fault(address: usize, access: Access) -> core::result::Result<(), Signal>;
    /// Sends the current thread a signal that it cannot ignore, with `code` (`si_code`) and
    /// `address` (`si_addr`).
    fn force_signal(number: u32, code: u32, address: usize) -> ();
    /// Handles an IPI: another CPU wants this one to look for work.
    fn ipi() -> ();
    /// Whether a CPU runs a program, or keeps its address space.
    fn runs_program(cpu: &Cpu) -> bool;
    /// Handles the timer interrupt of this CPU.
    fn timer_interrupt(from: Interrupted) -> ();
    /// Called when the table of system calls of the current thread has changed.
    fn syscalls_changed() -> ();
    /// Lets other threads run if necessary.
    fn cond_resched() -> ();
    /// As `cond_resched`; EINTR if the current thread must die.
    fn cond_resched_killable() -> Result<()>;
    /// Whether the current thread must die.
    fn must_die() -> bool;
    /// Sleeps until `ready` holds, which is checked again whenever the VMAs of `space` may be
    /// changed again; EINTR if the current thread must die.
    fn wait_for_space(space: &AddressSpace, ready: &dyn Fn() -> bool) -> Result<()>;
    /// Wakes the threads that wait for a space, which then check again.
    fn space_changed(space: &AddressSpace) -> ();
    /// Whether the current thread has the effective `capability` (CAP_*).
    fn capable(capability: u32) -> bool;
    /// Whether the current thread's system calls accept tagged addresses.
    fn tags_addresses() -> bool;
    /// The soft limit `kind` (RLIMIT_*) of the current process.
    fn rlimit(kind: u32) -> usize;
    /// Called when a space with contexts of asynchronous I/O ends. May sleep.
    fn exit_aio(space: &AddressSpace) -> ();
    /// Whether the current process may use huge pages.
    fn may_have_huge_pages() -> bool;
    /// Called after a line was added to the log.
    fn logged() -> ();
    /// Name and ID of the current thread, for the log; `None` before the first.
    fn describe_current() -> Option<([u8; 16], i32)>;
    /// pc and sp of the current thread's program, for the log; `None` if it has none.
    fn program_registers() -> Option<[usize; 2]>;
}
