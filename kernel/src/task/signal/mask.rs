//! Sets of signals, and the set that a thread blocks.

use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general::*;

use super::{Info, send};
use crate::arch::work::SIGNAL;
use crate::task::{Thread, current};

/// Sets of signals as bits: signal N is bit N - 1.
pub struct Set;

impl Set {
    /// The set of one signal, 1 to 64.
    #[inline]
    pub const fn bit(number: u32) -> u64 {
        1 << (number - 1)
    }

    const fn of(numbers: &[u32]) -> u64 {
        let (mut set, mut at) = (0, 0);
        while at < numbers.len() {
            set |= Self::bit(numbers[at]);
            at += 1;
        }
        set
    }
}

/// Signals that cannot be blocked, caught or ignored.
pub const UNBLOCKABLE: u64 = Set::of(&[SIGKILL, SIGSTOP]);
/// Signals for a thread's own faults.
pub const SYNCHRONOUS: u64 = Set::of(&[SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGSYS]);
/// Signals whose default action is to stop.
pub const STOPS: u64 = Set::of(&[SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU]);

impl Thread {
    /// Signals that the thread blocks.
    #[inline]
    pub fn blocked(&self) -> u64 {
        self.signals.blocked.load(Relaxed)
    }

    /// Whether a signal of `set` would stay pending for the thread, which blocks it or waits for it
    /// right now.
    pub fn keeps(&self, set: u64) -> bool {
        self.blocked() & set != 0 || self.awaits(set)
    }

    /// Whether the thread waits for a signal of `set` (sigtimedwait(2)).
    pub fn awaits(&self, set: u64) -> bool {
        self.signals.awaited.load(Relaxed) & set != 0
    }

    /// Signals that are pending for the thread or its process, blocked or not.
    pub fn pending(&self) -> u64 {
        // The locks are taken one after the other, since both have the same class.
        let own = self.signals.pending.lock().set();
        own | self.process().signals.pending.lock().set()
    }

    /// The signal at index `place` in the queue of the thread, or of its process.
    pub fn queued(&self, shared: bool, place: usize) -> Option<Info> {
        if shared {
            self.process().signals.pending.lock().at(place)
        } else {
            self.signals.pending.lock().at(place)
        }
    }

    /// Whether a signal must be handled before the program continues.
    #[inline]
    pub fn signal_due(&self) -> bool {
        self.arch.work.load(Relaxed) & SIGNAL != 0
    }
}

/// Sets the signals that the current thread blocks.
pub fn set_blocked(set: u64) {
    let thread = current();
    let new = set & !UNBLOCKABLE;
    let old = thread.signals.blocked.swap(new, Relaxed);
    let pending = thread.pending();
    if pending & !new != 0 {
        thread.arch.work.fetch_or(SIGNAL, Relaxed);
    }
    if new & !old & pending != 0 {
        // This thread may have been chosen for a signal that it now blocks.
        send::retarget_shared(thread.process(), new & !old);
    }
}

/// Unblocks the signals `wanted` for the current thread while `wait` waits for them.
pub fn await_signals<T>(wanted: u64, wait: impl FnOnce() -> T) -> T {
    let thread = current();
    let old = thread.blocked();
    thread.signals.awaited.store(old, Relaxed);
    set_blocked(old & !wanted);
    let result = wait();
    set_blocked(old);
    thread.signals.awaited.store(0, Relaxed);
    result
}

/// Sets the signals that a stopped thread blocks.
pub fn set_blocked_of(thread: &Thread, set: u64) {
    thread.signals.blocked.store(set & !UNBLOCKABLE, Relaxed);
    thread.arch.work.fetch_or(SIGNAL, Relaxed);
}

/// Whether signal `number` would not be delivered to the current thread.
pub fn is_ignored_or_blocked(number: u32) -> bool {
    let ignored = current()
        .process()
        .signals
        .with_actions(|actions| actions.ignored());
    (ignored | current().blocked()) & Set::bit(number) != 0
}
