//! Inspection of threads that are asleep.

use super::sched::{self, state};
use super::{Thread, current};
use crate::arch::Call;
use core::sync::atomic::Ordering::Relaxed;

/// The system call in which a thread sleeps, with number −1 if it is in none, and its stack
/// pointer.
pub struct Sleep {
    pub call: Call,
    pub sp: usize,
}

impl Thread {
    /// Calls `f` while the thread stays asleep and no other CPU inspects it; `None` if it does not
    /// sleep.
    fn while_asleep<T>(&self, f: impl FnOnce() -> T) -> Option<T> {
        let mut found = None;
        self.when_not_looked_at(|| found = sched::while_asleep(self, f));
        found
    }

    /// The call in which the thread sleeps; the current thread counts as asleep. `None` for a
    /// thread that runs or may continue at any time.
    pub fn sleep(&self) -> Option<Sleep> {
        if core::ptr::eq(self, &*current()) {
            return Some(self.call_of_sleeper(state::INTERRUPTIBLE));
        }
        if self.starves.load(Relaxed) {
            return None;
        }
        self.while_asleep(|| self.call_of_sleeper(self.sched.state()))
    }

    fn call_of_sleeper(&self, how: u8) -> Sleep {
        // A stopped thread has recorded its entry into the kernel and its call, as has one that
        // ends.
        let is_noted = how & (state::STOPPED | state::TRACED) != 0 || self.must_die();
        let watched = self.is_watched() || self.process().is_traced();
        let frame = self.arch.saved_frame();
        let call = match is_noted {
            true => frame.stopped_call(),
            false => frame.sleeping_call(watched),
        };
        Sleep {
            call,
            sp: frame.sp(),
        }
    }

    /// Fills `room` with the return addresses on the stack of the sleeping thread, the innermost
    /// first; some may be left over from calls that have returned. Returns their number.
    pub fn callers(&self, room: &mut [usize]) -> usize {
        let found = self.while_asleep(|| self.arch.callers(room));
        found.unwrap_or(0)
    }
}
