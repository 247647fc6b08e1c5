//! The calls that wait for a set's semaphores.
//!
//! Each waits for one semaphore, that of the first operation that cannot be done, to reach a value
//! that allows it. So a change of a semaphore finds at once which call, if any, can proceed.

use alloc::sync::Arc;

use tree::{Member, NoMemory, Tree};

use super::Semaphore;
use super::operations::Call;
use crate::errno::{Errno, Result};
use crate::ipc::handover::Handover;
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

/// The condition that a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// At least this value.
    Least(i32),
    /// Exactly this value.
    Exactly(i32),
}

/// A call's turn among the calls that can proceed, in ascending order: calls that only wait for
/// zero come first, as on Linux, then those that have waited longest.
type Turn = u64;

/// The bit of a turn for calls that change values.
const CHANGES: Turn = 1 << 63;

/// The place where a call waits.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The index of the semaphore.
    pub at: usize,
    /// What its value must become.
    pub condition: Condition,
    /// Whether the waiting operation is one that waits for zero.
    pub zero: bool,
}

/// A waiting call.
pub struct Waiter {
    /// The call.
    pub call: Call,
    /// Through which its thread gets the outcome.
    pub handover: Handover<Result<()>>,
    turn: Turn,
    place: Mutex<Place>,
}

struct Entry {
    place: Place,
    waiter: Arc<Waiter>,
}

/// The semaphore, the exact value if one is needed, and the turn.
type Key = (usize, Option<i32>, Turn);

impl Place {
    fn key(&self, turn: Turn) -> Key {
        match self.condition {
            Condition::Least(_) => (self.at, None, turn),
            Condition::Exactly(value) => (self.at, Some(value), turn),
        }
    }
}

impl Member for Entry {
    type Key = Key;
    /// The lowest value that is sufficient for some call.
    type Sum = i32;

    fn key(&self) -> Key {
        self.place.key(self.waiter.turn)
    }

    fn sum(&self) -> i32 {
        match self.place.condition {
            Condition::Least(value) => value,
            Condition::Exactly(_) => i32::MAX,
        }
    }

    fn join(one: i32, other: i32) -> i32 {
        one.min(other)
    }
}

/// The first call that a semaphore allowed to proceed when it was last examined.
struct Ready {
    turn: Turn,
    at: usize,
}

impl Member for Ready {
    type Key = Turn;
    type Sum = ();

    fn key(&self) -> Turn {
        self.turn
    }

    fn sum(&self) {}

    fn join((): (), (): ()) {}
}

/// The waiting calls.
pub struct Pending {
    calls: Tree<Entry>,
    /// It has room for all calls.
    ready: Tree<Ready>,
    /// The number of calls that have begun to wait so far.
    count: u64,
}

impl Pending {
    /// No calls.
    pub const fn new() -> Self {
        Pending {
            calls: Tree::new(),
            ready: Tree::new(),
            count: 0,
        }
    }

    /// Adds a call of the current thread.
    pub fn add(&mut self, call: Call, place: Place) -> Result<Arc<Waiter>> {
        self.reserve().map_err(|_| Errno::ENOMEM)?;
        self.count += 1;
        let turn = self.count | if call.changes() { CHANGES } else { 0 };
        let waiter = try_arc(Waiter {
            call,
            handover: Handover::new(),
            turn,
            place: Mutex::new(place),
        })?;
        let entry = Entry {
            place,
            waiter: waiter.clone(),
        };
        let added = self.calls.insert(entry);
        added.map_err(|_| Errno::ENOMEM)?;
        Ok(waiter)
    }

    fn reserve(&mut self) -> core::result::Result<(), NoMemory> {
        self.calls.reserve(1)?;
        self.ready.reserve(self.calls.len() + 1)
    }

    /// Lets a call that was taken out wait at another place; there is room.
    pub fn put_back(
        &mut self,
        waiter: Arc<Waiter>,
        place: Place,
    ) -> core::result::Result<(), NoMemory> {
        *waiter.place.lock() = place;
        self.calls.insert(Entry { place, waiter })
    }

    /// Removes a call that no longer waits; returns its place.
    pub fn remove(&mut self, waiter: &Waiter) -> Option<Place> {
        let key = waiter.place.lock().key(waiter.turn);
        let gone = self.calls.remove(&key)?;
        self.rest();
        Some(gone.place)
    }

    /// Takes out any one call.
    pub fn take_any(&mut self) -> Option<Arc<Waiter>> {
        let key = self.calls.from(&(0, None, 0))?.key();
        self.calls.remove(&key).map(|entry| entry.waiter)
    }

    /// Frees room that is no longer needed.
    pub fn rest(&mut self) {
        if self.calls.is_empty() && self.ready.is_empty() {
            self.ready = Tree::new();
        }
    }

    /// Finds the first call that semaphore `at` allows to proceed, after its value changed or a
    /// call has left it.
    #[inline]
    pub fn look(&mut self, at: usize, semaphore: &Semaphore) {
        if semaphore.waiting != [0; 2] {
            self.look_at_waiting(at, semaphore);
        }
    }

    #[inline(never)]
    fn look_at_waiting(&mut self, at: usize, semaphore: &Semaphore) {
        if let Some((_, _, turn)) = self.first(at, semaphore.value)
            && self.ready.get(&turn).is_none()
        {
            // This cannot fail: there is room.
            _ = self.ready.insert(Ready { turn, at });
        }
    }

    /// The first call waiting for semaphore `at` that can proceed with this value.
    fn first(&self, at: usize, value: i32) -> Option<Key> {
        let exactly = self.calls.from(&(at, Some(value), 0));
        let exactly = exactly.filter(|entry| entry.place.condition == Condition::Exactly(value));
        let high = self
            .calls
            .first_from(&(at, None, 0), |least| *least <= value);
        let keys = [exactly, high].into_iter().flatten();
        let here = keys.filter(|entry| entry.place.at == at);
        here.map(Entry::key).min_by_key(|(_, _, turn)| *turn)
    }

    /// Whether some call may be able to proceed.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes out the next call in turn, if it can still proceed; otherwise finds the semaphore's
    /// next call instead.
    pub fn next(&mut self, semaphores: &[Semaphore]) -> Option<(Arc<Waiter>, Place)> {
        let turn = self.ready.from(&0)?.turn;
        let Ready { at, .. } = self.ready.take(&turn)?;
        let key = self.first(at, semaphores[at].value)?;
        if key.2 != turn {
            self.look(at, &semaphores[at]);
            return None;
        }
        let Entry { place, waiter } = self.calls.remove(&key)?;
        Some((waiter, place))
    }
}
