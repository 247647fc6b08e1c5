//! Signals that were sent and not delivered yet.

extern crate alloc;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

use super::Info;
use super::mask::{SYNCHRONOUS, Set};
use crate::errno::{Errno, Result};
use crate::task::user::User;

/// The first real-time signal: from here on, each instance of a signal is queued.
pub(super) const REAL_TIME: u32 = 32;
/// The maximum length of a queue.
const MOST: usize = 16384;

/// The charge of a pending real-time signal to its receiver's user.
pub struct Charge(Arc<User>);

impl Charge {
    /// The charge of a signal to a user who may have at most `most` pending; `None` if there is no
    /// room.
    pub fn new(user: Arc<User>, most: usize) -> Option<Self> {
        let charge = Charge(user);
        // If it is dropped on failure, it gives the count back.
        let before = charge.0.pending_signals.fetch_add(1, Relaxed);
        (before < most).then_some(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.0.pending_signals.fetch_sub(1, Relaxed);
    }
}

/// Whether a signal may be queued.
pub enum Room {
    /// It may not.
    None,
    /// It may: there is never more than one of it.
    Own,
    /// It may: it is a timer's, which continues once the signal is taken, so each timer has at most
    /// one.
    Timer,
    /// It may, charged to the user.
    Charged(Charge),
}

/// A pending signal with its `siginfo_t`.
struct Queued {
    info: Info,
    /// Whether the signal is a timer's own (Linux's SIGQUEUE_PREALLOC); the timer continues once it
    /// is taken.
    of_timer: bool,
    /// Released when the signal is removed.
    _charge: Option<Charge>,
}

/// Pending signals of a thread or of a process.
pub struct Pending {
    set: u64,
    queue: VecDeque<Queued>,
}

impl Pending {
    /// No signals.
    pub const fn new() -> Self {
        Pending {
            set: 0,
            queue: VecDeque::new(),
        }
    }

    /// The set of pending signals.
    #[inline]
    pub fn set(&self) -> u64 {
        self.set
    }

    /// Adds a signal. One that is already pending is not added again, unless each instance is
    /// queued.
    ///
    /// # Errors
    /// EAGAIN: there is no room for a timer's signal, or for a real-time signal sent with a value.
    pub fn add(&mut self, info: &Info, room: Room) -> Result<()> {
        let bit = Set::bit(info.number());
        let queued = info.number() >= REAL_TIME || matches!(room, Room::Timer);
        if !queued && self.set & bit != 0 {
            return Ok(());
        }
        let fits = self.queue.len() < MOST && self.queue.try_reserve(1).is_ok();
        let of_timer = matches!(room, Room::Timer);
        let charge = match room {
            Room::None => None,
            Room::Own | Room::Timer => Some(None),
            Room::Charged(charge) => Some(Some(charge)),
        };
        if let Some(_charge) = charge.filter(|_| fits) {
            self.queue.push_back(Queued {
                info: *info,
                of_timer,
                _charge,
            });
        } else if queued && info.code != 0 {
            return Err(Errno::EAGAIN);
        }
        self.set |= bit;
        Ok(())
    }

    /// Takes the signal to deliver first of those not `blocked`: those for the thread's own faults
    /// first, then by number. Returns whether it is a timer's own, which continues now, and not one
    /// made up by a program. It is written to `info`, as it is too large to be returned.
    pub fn take(&mut self, blocked: u64, info: &mut Info) -> Option<bool> {
        let ready = self.set & !blocked;
        if ready == 0 {
            return None;
        }
        let first = if ready & SYNCHRONOUS != 0 {
            ready & SYNCHRONOUS
        } else {
            ready
        };
        let number = first.trailing_zeros() + 1;
        let is_it = |queued: &Queued| queued.info.number() == number;
        let Some(at) = self.queue.iter().position(is_it) else {
            // Only its number was recorded.
            self.set &= !Set::bit(number);
            *info = Info::number_only(number);
            return Some(false);
        };
        let of_timer = self.queue[at].of_timer;
        *info = self.queue[at].info;
        // Usually it is the only one.
        drop(match at {
            0 => self.queue.pop_front(),
            _ => self.queue.remove(at),
        });
        if !self.queue.range(at..).any(is_it) {
            self.set &= !Set::bit(number);
        }
        Some(of_timer)
    }

    /// The signal at this index of the queue.
    pub fn at(&self, place: usize) -> Option<Info> {
        self.queue.get(place).map(|queued| queued.info)
    }

    /// Adds signals of which only the numbers are known.
    pub fn add_numbers(&mut self, set: u64) {
        self.set |= set;
    }

    /// Discards the signals in `set`.
    pub fn discard(&mut self, set: u64) {
        if self.set & set != 0 {
            self.set &= !set;
            self.queue
                .retain(|queued| Set::bit(queued.info.number()) & set == 0);
        }
    }
}
