//! The thread that a CPU runs, in the upper kernel's type.

use alloc::sync::Arc;
use core::ops::Deref;
use core::ptr::NonNull;

use super::cpu;
use super::thread::{self, ThreadState};

/// The kernel's threads.
///
/// # Safety
/// Its first field is a [`ThreadState`], and no other type implements this.
pub unsafe trait Task: Send + Sync + 'static {}

/// Declares a type as the kernel's thread: `$field` is its [`ThreadState`] and first field. Once in
/// a program.
#[macro_export]
macro_rules! task {
    ($thread:ty, $field:ident) => {
        const _: () = {
            #[unsafe(no_mangle)]
            static ONLY_TASK: () = ();
            assert!(core::mem::offset_of!($thread, $field) == 0);
            fn state(thread: &$thread) -> &$crate::arch::ThreadState {
                &thread.$field
            }
            // SAFETY: the assertion and the type of `state` ensure the first requirement, the
            // symbol, which can exist only once, the second.
            unsafe impl $crate::arch::task::Task for $thread {}
        };
    };
}

/// The hardware's part of the current thread, if there is one yet.
#[inline(always)]
pub(crate) fn try_state() -> Option<&'static ThreadState> {
    // SAFETY: `switch` and `adopt` store only threads, and a thread lives at least as long as it
    // runs.
    unsafe { cpu::this().current.get().as_ref() }
}

/// The hardware's part of the current thread.
///
/// # Panics
/// Before the first thread.
#[inline(always)]
pub(crate) fn state() -> &'static ThreadState {
    try_state().expect("no thread yet")
}

/// A reference to the current thread, which lives as long as it runs, and so as long as this, which
/// stays on its stack: it must not be passed to other threads, nor leaked (`kernel/clippy.toml`).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Current<T>(NonNull<T>);

impl<T: Task> Deref for Current<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: a thread lives at least as long as it runs, and this is on its stack or owned
        // from there.
        unsafe { self.0.as_ref() }
    }
}

/// The current thread.
///
/// # Panics
/// Before the first thread.
#[inline(always)]
pub fn current<T: Task>() -> Current<T> {
    try_current().expect("no thread yet")
}

/// The current thread, if there is one yet.
#[inline(always)]
pub fn try_current<T: Task>() -> Option<Current<T>> {
    let state = cpu::this().current.get();
    NonNull::new(state.cast_mut().cast::<T>()).map(Current)
}

/// A counted reference to the current thread, for callers that keep it longer than the thread runs.
///
/// # Panics
/// Before the first thread.
#[inline]
pub fn current_arc<T: Task>() -> Arc<T> {
    // The pointer from `Arc::into_raw`: one derived from a reference could not reach the reference
    // count.
    let thread = cpu::this().current.get().cast::<T>();
    assert!(!thread.is_null(), "no thread yet");
    // SAFETY: the CPU owns a reference to the thread that it runs.
    unsafe {
        Arc::increment_strong_count(thread);
        Arc::from_raw(thread)
    }
}

/// Makes `thread`, whose state came from [`ThreadState::adopt_cpu`], the current one of this CPU.
pub fn adopt<T: Task>(thread: Arc<T>) {
    assert!(cpu::this().current.get().is_null());
    let state = Arc::into_raw(thread).cast::<ThreadState>();
    // SAFETY: the CPU owns the reference from now on.
    unsafe { thread::adopt(state) };
}

/// Switches from the current thread to `next`, a different one, which the scheduler has assigned
/// only to this CPU: while another CPU still runs it, this waits. Returns when something switches
/// back, possibly on another CPU, with the thread that this CPU ran before. The CPU owns one
/// reference to the thread that it runs.
#[inline(always)]
pub fn switch<T: Task>(next: Arc<T>) -> Arc<T> {
    let next = Arc::into_raw(next).cast::<ThreadState>();
    // SAFETY: the CPU owned a reference to the former, and owns one to the latter from now on.
    unsafe { thread::switch(next) };
    take_previous().into_thread()
}

/// The thread from which a CPU has just switched, with the reference that the CPU owned.
pub struct Previous(NonNull<ThreadState>);

impl Previous {
    /// The thread.
    #[inline(always)]
    pub fn into_thread<T: Task>(self) -> Arc<T> {
        // SAFETY: `take_previous` took the CPU's reference to a thread, of which the state is the
        // first field.
        unsafe { Arc::from_raw(self.0.as_ptr().cast::<T>()) }
    }
}

/// Takes the thread from which this CPU has just switched.
#[inline(always)]
pub(super) fn take_previous() -> Previous {
    let previous = cpu::this().previous.replace(core::ptr::null());
    Previous(NonNull::new(previous.cast_mut()).expect("a switch before this"))
}
