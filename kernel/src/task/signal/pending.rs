//! Signals that were sent and not delivered yet.

extern crate alloc;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use linux_raw_sys::general::SI_TIMER;

use super::Info;
use super::mask::{SYNCHRONOUS, Set};
use crate::errno::{Errno, Result};
use crate::task::user::{self, User};

/// The first real-time signal: from here on, each instance of a signal is queued.
pub(super) const REAL_TIME: u32 = 32;
/// The maximum length of a queue.
const MOST: usize = 16384;
/// The capacity that a queue keeps however few signals are in it.
const KEPT: usize = 64;

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

/// The place of a POSIX timer's signal in a queue, which has room for one (Linux's preallocated
/// `sigqueue`). The charge to the user remains until both the timer and the signal are gone. The
/// lock of the queue guards the count.
pub struct Slot {
    _charge: user::Charge,
    /// The number of expiries since the signal is pending; 0 if it is not.
    expiries: AtomicU32,
}

impl Slot {
    /// A free place.
    pub fn new(charge: user::Charge) -> Self {
        Slot {
            _charge: charge,
            expiries: AtomicU32::new(0),
        }
    }

    /// Counts one more expiry if the signal is pending already; returns whether it is.
    fn expire_again(&self) -> bool {
        let before = self.expiries.load(Relaxed);
        let is_pending = before > 0;
        if is_pending {
            self.expiries.store(before.saturating_add(1), Relaxed);
        }
        is_pending
    }

    /// The number of expiries after the first.
    fn overrun(&self) -> i32 {
        let more = self.expiries.load(Relaxed).saturating_sub(1);
        more.min(i32::MAX as u32) as i32
    }
}

/// Whether a signal may be queued.
pub enum Room {
    /// It may not.
    None,
    /// It may: there is never more than one of it.
    Own,
    /// It may, in the place of a timer, which continues once the signal is taken.
    Timer(Arc<Slot>),
    /// It may, charged to the user.
    Charged { _charge: Charge },
}

/// A pending signal with its `siginfo_t`.
struct Queued {
    info: Info,
    /// Released when the signal is removed.
    room: Room,
}

impl Queued {
    /// Writes the signal as it is now to `info`; returns whether it is a timer's.
    #[inline]
    fn write(&self, info: &mut Info) -> bool {
        *info = self.info;
        let Room::Timer(slot) = &self.room else {
            return false;
        };
        info.set_overrun(slot.overrun());
        true
    }
}

impl Drop for Queued {
    #[inline]
    fn drop(&mut self) {
        if let Room::Timer(slot) = &self.room {
            slot.expiries.store(0, Relaxed);
        }
    }
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
        let queued = info.number() >= REAL_TIME || matches!(room, Room::Timer(_));
        if !queued && self.set & bit != 0 {
            return Ok(());
        }
        if let Room::Timer(slot) = &room
            && slot.expire_again()
        {
            return Ok(());
        }
        let fits = self.queue.len() < MOST && self.queue.try_reserve(1).is_ok();
        if fits && !matches!(room, Room::None) {
            if let Room::Timer(slot) = &room {
                slot.expiries.store(1, Relaxed);
            }
            self.queue.push_back(Queued { info: *info, room });
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
        let of_timer = self.queue[at].write(info);
        // Usually it is the only one.
        drop(match at {
            0 => self.queue.pop_front(),
            _ => self.queue.remove(at),
        });
        if !self.queue.range(at..).any(is_it) {
            self.set &= !Set::bit(number);
        }
        self.shrink();
        Some(of_timer)
    }

    /// The signal at this index of the queue.
    pub fn at(&self, place: usize) -> Option<Info> {
        let mut info = Info::NONE;
        self.queue.get(place)?.write(&mut info);
        Some(info)
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
            self.shrink();
        }
    }

    /// Discards the signals of timers (Linux's `flush_itimer_signals`).
    pub fn discard_timers(&mut self) {
        let (mut gone, mut left) = (0, 0);
        self.queue.retain(|queued| {
            let is_timer = queued.info.code == SI_TIMER;
            *if is_timer { &mut gone } else { &mut left } |= Set::bit(queued.info.number());
            !is_timer
        });
        self.set &= !gone | left;
        self.shrink();
    }

    /// Gives back most of the room of signals that are gone.
    #[inline]
    fn shrink(&mut self) {
        if self.queue.capacity() > KEPT && self.queue.len() < self.queue.capacity() / 4 {
            self.halve();
        }
    }

    #[cold]
    fn halve(&mut self) {
        let mut smaller = VecDeque::new();
        // Without memory it remains as it is.
        if smaller.try_reserve(self.queue.capacity() / 2).is_ok() {
            smaller.append(&mut self.queue);
            self.queue = smaller;
        }
    }

    /// The bytes of the queue.
    pub fn held(&self) -> usize {
        self.queue.capacity() * size_of::<Queued>()
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_timer_has_one_signal_and_a_queue_gives_its_room_back() {
        let charge = user::Charge::new(|user| &user.pending_signals, 1, usize::MAX).unwrap();
        let slot = crate::mm::heap::try_arc(Slot::new(charge)).unwrap();
        let mut pending = Pending::new();
        let timer = Info::timer(REAL_TIME, SI_TIMER, 1, 0);
        for _ in 0..3 {
            pending.add(&timer, Room::Timer(slot.clone())).unwrap();
        }
        assert!(pending.queue.len() == 1 && pending.at(0).unwrap().overrun() == 2);
        for _ in 0..1000 {
            pending.add(&Info::kernel(REAL_TIME), Room::Own).unwrap();
        }
        assert!(pending.held() >= 1000 * size_of::<Info>());
        let mut info = Info::NONE;
        assert!(pending.take(0, &mut info) == Some(true) && info.overrun() == 2);
        while pending.take(0, &mut info).is_some() {}
        assert!(pending.held() <= 2 * KEPT * size_of::<Queued>());
        pending.add(&timer, Room::Timer(slot.clone())).unwrap();
        pending.discard(Set::bit(REAL_TIME));
        pending.add(&timer, Room::Timer(slot.clone())).unwrap();
        assert!(pending.at(0).unwrap().overrun() == 0);
        pending.discard_timers();
        assert!(pending.set() == 0 && Arc::strong_count(&slot) == 1);
    }
}
