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

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// So high a value.
    Least(i32),
    /// This value.
    Exactly(i32),
}

/// A call's turn among those that can be done, in ascending order: calls that only wait for zeros
/// come first, as on Linux, and then those that waited longest.
type Turn = u64;

/// The bit of a turn that says that the call changes values.
const CHANGES: Turn = 1 << 63;

/// Where a call waits.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The semaphore.
    pub at: usize,
    /// What it must become.
    pub condition: Condition,
    /// Whether the operation that waits is one for a zero.
    pub zero: bool,
}

/// A call that waits.
pub struct Waiter {
    /// What it is to do.
    pub call: Call,
    /// By which its thread is told that it is done.
    pub handover: Handover<Result<()>>,
    turn: Turn,
    place: Mutex<Place>,
}

struct Entry {
    place: Place,
    waiter: Arc<Waiter>,
}

/// The semaphore, the value that it must have exactly if there is one, and the turn.
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
    /// The lowest value that is high enough for one.
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

/// The first call that a semaphore lets go on, when that was looked at last.
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

/// The calls that wait.
pub struct Pending {
    calls: Tree<Entry>,
    /// It has room for all calls.
    ready: Tree<Ready>,
    /// How many have begun to wait.
    count: u64,
}

impl Pending {
    /// None.
    pub const fn new() -> Self {
        Pending {
            calls: Tree::new(),
            ready: Tree::new(),
            count: 0,
        }
    }

    /// Lets a call of the current thread wait.
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

    /// Lets a call that was taken out wait elsewhere; there is room.
    pub fn put_back(
        &mut self,
        waiter: Arc<Waiter>,
        place: Place,
    ) -> core::result::Result<(), NoMemory> {
        *waiter.place.lock() = place;
        self.calls.insert(Entry { place, waiter })
    }

    /// A call waits no longer; returns where it did.
    pub fn remove(&mut self, waiter: &Waiter) -> Option<Place> {
        let key = waiter.place.lock().key(waiter.turn);
        let gone = self.calls.remove(&key)?;
        self.rest();
        Some(gone.place)
    }

    /// Any of them, taken out.
    pub fn take_any(&mut self) -> Option<Arc<Waiter>> {
        let key = self.calls.from(&(0, None, 0))?.key();
        self.calls.remove(&key).map(|entry| entry.waiter)
    }

    /// Gives back the room that only those who waited needed.
    pub fn rest(&mut self) {
        if self.calls.is_empty() && self.ready.is_empty() {
            self.ready = Tree::new();
        }
    }

    /// Looks which call semaphore `at`, which changed or which one has left, lets go on first.
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
            // There is room.
            _ = self.ready.insert(Ready { turn, at });
        }
    }

    /// The first of those that wait for semaphore `at` and go on with that value.
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

    /// Whether some call may be done.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes out the call whose turn it is, if that is still so; else the next of the same
    /// semaphore is looked for.
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
