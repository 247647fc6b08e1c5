//! The thread that a CPU runs, of the type that the kernel above gives it.

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

/// Makes a type the kernel's thread: `$field` is its [`ThreadState`], with which it begins. Once in
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
            // SAFETY: the assertion and the type of `state` say the first, the symbol, which exists
            // once, the second.
            unsafe impl $crate::arch::task::Task for $thread {}
        };
    };
}

/// The hardware's part of the thread that runs here, if one does yet.
#[inline(always)]
pub(crate) fn try_state() -> Option<&'static ThreadState> {
    // SAFETY: `switch` and `adopt` store threads only, and a thread lives at least as long as it
    // runs.
    unsafe { cpu::this().current.get().as_ref() }
}

/// The hardware's part of the thread that runs here.
///
/// # Panics
/// Before the first thread.
#[inline(always)]
pub(crate) fn state() -> &'static ThreadState {
    try_state().expect("no thread yet")
}

/// The thread that runs here. It lives as long as it runs, hence as long as this, which stays on
/// its stack: not for other threads, and never leaked (`kernel/clippy.toml`).
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

/// The thread that runs here.
///
/// # Panics
/// Before the first thread.
#[inline(always)]
pub fn current<T: Task>() -> Current<T> {
    try_current().expect("no thread yet")
}

/// The thread that runs here, if one does yet.
#[inline(always)]
pub fn try_current<T: Task>() -> Option<Current<T>> {
    let state = cpu::this().current.get();
    NonNull::new(state.cast_mut().cast::<T>()).map(Current)
}

/// The thread that runs here, counted: for callers that keep it longer than it runs.
///
/// # Panics
/// Before the first thread.
#[inline]
pub fn current_arc<T: Task>() -> Arc<T> {
    // What `Arc::into_raw` left there, and no reference's pointer, which would reach no count.
    let thread = cpu::this().current.get().cast::<T>();
    assert!(!thread.is_null(), "no thread yet");
    // SAFETY: the CPU owns a count of the thread that it runs.
    unsafe {
        Arc::increment_strong_count(thread);
        Arc::from_raw(thread)
    }
}

/// Makes `thread`, whose state came from [`ThreadState::adopt_cpu`], the current one of this CPU.
pub fn adopt<T: Task>(thread: Arc<T>) {
    assert!(cpu::this().current.get().is_null());
    let state = Arc::into_raw(thread).cast::<ThreadState>();
    // SAFETY: the CPU owns the count from now on.
    unsafe { thread::adopt(state) };
}

/// Switches from the current thread to `next`, another one, which the scheduler gives to this CPU
/// alone: while another CPU runs it, this waits. Returns when something switches back, maybe on
/// another CPU, with the thread that this CPU ran before. The CPU owns one count of the thread that
/// it runs.
#[inline(always)]
pub fn switch<T: Task>(next: Arc<T>) -> Arc<T> {
    let next = Arc::into_raw(next).cast::<ThreadState>();
    // SAFETY: the CPU owned a count of the one, and owns one of the other from now on.
    unsafe { thread::switch(next) };
    take_previous().into_thread()
}

/// The thread that a CPU has just switched from, with the count that the CPU owned.
pub struct Previous(NonNull<ThreadState>);

impl Previous {
    /// The thread.
    #[inline(always)]
    pub fn into_thread<T: Task>(self) -> Arc<T> {
        // SAFETY: `take_previous` took the CPU's count of a thread, whose first field the state is.
        unsafe { Arc::from_raw(self.0.as_ptr().cast::<T>()) }
    }
}

/// The thread that this CPU has just switched from.
#[inline(always)]
pub(super) fn take_previous() -> Previous {
    let previous = cpu::this().previous.replace(core::ptr::null());
    Previous(NonNull::new(previous.cast_mut()).expect("a switch before this"))
}
