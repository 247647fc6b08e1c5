//! Deadlines: a heap whose members can be removed from any position. Insertion and removal take a
//! number of steps that is logarithmic in the number of members.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;

/// Members ordered by due time; those with the same time are ordered by insertion.
pub struct Deadlines<T> {
    /// No member is due before the one at half its index.
    heap: Vec<Member<T>>,
    /// By ticket: the index of its member in the heap; for a free ticket, the next free one.
    places: Vec<usize>,
    /// The first free ticket.
    free: usize,
    /// The number of members added so far.
    came: u64,
}

struct Member<T> {
    due: u64,
    number: u64,
    place: usize,
    what: T,
}

impl<T> Member<T> {
    fn key(&self) -> (u64, u64) {
        (self.due, self.number)
    }
}

/// A handle for removing a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    place: usize,
    number: u64,
}

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// No ticket.
const NONE: usize = usize::MAX;

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deadlines<T> {
    /// An empty heap.
    pub const fn new() -> Self {
        Deadlines {
            heap: Vec::new(),
            places: Vec::new(),
            free: NONE,
            came: 0,
        }
    }

    /// When the first member is due.
    pub fn first(&self) -> Option<u64> {
        self.heap.first().map(|first| first.due)
    }

    /// The member that is now at index `at`, and when it is due. The first is at 0; the others are
    /// in no particular order.
    pub fn get(&self, at: usize) -> Option<(u64, &T)> {
        self.heap.get(at).map(|member| (member.due, &member.what))
    }

    /// Adds a member that is due at `due`.
    ///
    /// # Errors
    /// [`Full`].
    pub fn add(&mut self, due: u64, what: T) -> Result<Ticket, Full> {
        self.heap.try_reserve(1).map_err(|_| Full)?;
        if self.free == NONE {
            self.places.try_reserve(1).map_err(|_| Full)?;
            self.free = self.places.len();
            self.places.push(NONE);
        }
        let (place, number) = (self.free, self.came);
        self.free = self.places[place];
        self.came += 1;
        self.heap.push(Member {
            due,
            number,
            place,
            what,
        });
        self.sift_up(self.heap.len() - 1);
        Ok(Ticket { place, number })
    }

    /// Takes out the first member if it is due by `now`.
    pub fn take_due(&mut self, now: u64) -> Option<T> {
        let is_due = self.first()? <= now;
        is_due.then(|| self.take_at(0)).flatten()
    }

    /// Takes out the member with this ticket, if it is still there.
    pub fn remove(&mut self, ticket: Ticket) -> Option<T> {
        let at = *self.places.get(ticket.place)?;
        let is_it =
            |member: &Member<T>| (member.place, member.number) == (ticket.place, ticket.number);
        self.heap
            .get(at)
            .is_some_and(is_it)
            .then(|| self.take_at(at))
            .flatten()
    }

    fn take_at(&mut self, at: usize) -> Option<T> {
        let last = self.heap.len().checked_sub(1)?;
        self.heap.swap(at, last);
        let gone = self.heap.pop()?;
        self.places[gone.place] = core::mem::replace(&mut self.free, gone.place);
        if at < last {
            let at = self.sink(at);
            self.sift_up(at);
        }
        Some(gone.what)
    }

    /// Moves the member at `at` before the members that are due later.
    fn sift_up(&mut self, mut at: usize) {
        while at > 0 {
            let above = (at - 1) / 2;
            if self.heap[above].key() < self.heap[at].key() {
                break;
            }
            self.exchange(above, at);
            at = above;
        }
        self.places[self.heap[at].place] = at;
    }

    /// Moves the member at `at` after the members that are due earlier; returns its new index.
    fn sink(&mut self, mut at: usize) -> usize {
        let len = self.heap.len();
        loop {
            let below = (2 * at + 1..len).take(2);
            let earliest = below.min_by_key(|&below| self.heap[below].key());
            match earliest.filter(|&below| self.heap[below].key() < self.heap[at].key()) {
                Some(below) => {
                    self.exchange(at, below);
                    at = below;
                }
                None => return at,
            }
        }
    }

    fn exchange(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for at in [one, other] {
            self.places[self.heap[at].place] = at;
        }
    }
}
