//! What the machine asks of the kernel above it. The functions are symbols that
//! [`kernel!`](crate::kernel) defines for the one type that implements [`Kernel`]: they are
//! resolved when the kernel is linked, and no call is dynamic.

use crate::arch::SyscallTable;
use crate::arch::cpu::Cpu;
use crate::arch::irq::Interrupted;
use crate::arch::task::{Previous, Task};
use crate::errno::Result;
use crate::mm::fault::{Access, Signal};
use crate::mm::{AddressSpace, Archive};

/// The kernel above.
pub trait Kernel: Functions {
    /// Its threads.
    type Thread: Task;
    /// What it keeps for each CPU.
    type Cpu: Sync + 'static;
    /// What it keeps for a CPU that starts.
    const CPU: Self::Cpu;
    /// System calls by number.
    const SYSCALLS: SyscallTable;
}

unsafe extern "Rust" {
    /// [`Kernel::SYSCALLS`]
    pub safe static SYSCALLS: SyscallTable;
    /// The same. Functions of another crate are all that Miri knows by their symbols.
    pub safe fn syscalls() -> &'static SyscallTable;
    /// Bytes of a [`Kernel::Thread`].
    pub safe fn thread_size() -> usize;
    /// Puts what the kernel above keeps for a CPU into its room.
    ///
    /// # Safety
    /// `room` has the size and alignment that [`assert_fits`](crate::arch::cpu::assert_fits)
    /// asserts, and nobody else uses it yet.
    pub unsafe fn init_cpu(room: *mut ());
}

/// Declares the functions: in the trait, as symbols, and in the macro that defines these. `$d` is a
/// dollar sign.
macro_rules! functions {
    ($d:tt $($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The functions of the kernel above.
        pub trait Functions {
            $($(#[$doc])* fn $name($($argument: $type),*) -> $result;)*
        }

        unsafe extern "Rust" {
            $($(#[$doc])* pub safe fn $name($($argument: $type),*) -> $result;)*
        }

        /// Makes a type the kernel above, whose trait [`Kernel`](crate::upcall::Kernel) it
        /// implements. Once in a program: its symbols exist once.
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
                    // SAFETY: this is the only kernel, or its symbols would exist twice.
                    unsafe impl $d crate::arch::cpu::Above for <Above as Kernel>::Cpu {}
                    #[unsafe(no_mangle)]
                    unsafe fn init_cpu(room: *mut ()) {
                        // SAFETY: it fits, as is asserted below, and the caller has it alone.
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
    /// Everything that is not the machine's, on the boot CPU. `archive` is the initial one.
    fn start_kernel(archive: Option<Archive>) -> !;
    /// This CPU starts, and is not the first: it gets its idle thread.
    fn start_cpu() -> ();
    /// Looks for threads to run, for ever.
    fn idle() -> !;
    /// A thread begins where [`arch::task::switch`](crate::arch::task::switch) would have returned
    /// `previous`.
    fn switched(previous: Previous) -> ();
    /// The current thread's work word is not 0 on its way to its program, whose registers
    /// [`with_frame`](crate::arch::ThreadState::with_frame) lends: not for longer than a wait, in
    /// which a tracer may change them.
    fn exit_work() -> ();
    /// The current program's `access` to `address` faults. The signal that it earns, if it does.
    fn page_fault(address: usize, access: Access) -> core::result::Result<(), Signal>;
    /// The current thread gets a signal that it cannot ignore, with `code` (`si_code`) and
    /// `address` (`si_addr`).
    fn force_signal(number: u32, code: u32, address: usize) -> ();
    /// Another CPU wants this one to look for work.
    fn ipi() -> ();
    /// Whether a CPU runs a program, or keeps its address space.
    fn runs_program(cpu: &Cpu) -> bool;
    /// The timer of this CPU has struck.
    fn timer_interrupt(from: Interrupted) -> ();
    /// The table of system calls of the current thread has changed.
    fn syscalls_changed() -> ();
    /// Lets other threads run if they should.
    fn cond_resched() -> ();
    /// The same; EINTR if the current thread is to die.
    fn cond_resched_killable() -> Result<()>;
    /// Whether the current thread is to die.
    fn must_die() -> bool;
    /// Waits until `ready` holds, which is asked anew whenever the VMAs of `space` may be changed
    /// again; EINTR if the current thread is to die.
    fn wait_for_space(space: &AddressSpace, ready: &dyn Fn() -> bool) -> Result<()>;
    /// Has those that wait for a space ask again.
    fn space_changed(space: &AddressSpace) -> ();
    /// Whether the current thread has `capability` (CAP_*) in force.
    fn capable(capability: u32) -> bool;
    /// Whether the current thread's system calls take addresses with a tag.
    fn tags_addresses() -> bool;
    /// The soft limit `kind` (RLIMIT_*) of the current process.
    fn rlimit(kind: u32) -> usize;
    /// A space that asynchronous I/O has contexts of ends. May wait.
    fn exit_aio(space: &AddressSpace) -> ();
    /// Whether the current process may have huge pages.
    fn may_have_huge_pages() -> bool;
    /// A line was kept in the log.
    fn logged() -> ();
    /// Name and number of the current thread, for the log; `None` before the first.
    fn describe_current() -> Option<([u8; 16], i32)>;
}
