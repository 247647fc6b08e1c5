//! The waiters of a bucket: a list while they are few, indexed by word when they are many.
//!
//! A program can have thousands of threads, each waiting on 128 words, and all of these may fall
//! into one bucket. Then each waiter is found by its word or by its slot without a walk through the
//! others.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::cmp::Reverse;
use core::mem;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tree::{Member, Tree};

use super::pi_state::{Owned, Owner, PiState};
use super::{Key, Waiter};
use crate::errno::{Errno, Result};

/// The maximum size of the list, in which a search takes less time than in a tree.
pub const ROW: usize = 64;

/// The waiters of a bucket.
pub struct Queue {
    /// In the order in which they are woken. Empty and without capacity while there are many.
    pub row: VecDeque<Waiter>,
    /// Empty unless there are many.
    pub many: Many,
    /// The locks that some of them wait for, with room for a lock of each waiter that there is room
    /// for.
    locks: Tree<Owned>,
}

impl Queue {
    /// No waiters.
    pub const fn new() -> Self {
        Queue {
            row: VecDeque::new(),
            many: Many {
                by_key: Tree::new(),
                by_slot: Tree::new(),
                next: 0,
            },
            locks: Tree::new(),
        }
    }

    /// The number of waiters.
    pub fn len(&self) -> usize {
        self.row.len() + self.many.by_key.len()
    }

    /// Whether the list has no room, or there are many waiters.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.row.len() == self.row.capacity()
    }

    /// Appends a waiter for a lock; there is room for it and for the lock.
    pub fn push_for_lock(&mut self, waiter: Waiter) -> Result<()> {
        if let Some(lock) = waiter.lock()
            && lock.waiters.fetch_add(1, Relaxed) == 0
        {
            self.locks
                .insert(Owned::new(lock))
                .map_err(|_| Errno::ENOMEM)?;
        }
        self.push(waiter)
    }

    /// Makes room for a lock. ENOMEM.
    pub fn reserve_lock(&mut self) -> Result<()> {
        self.locks.reserve(1).map_err(|_| Errno::ENOMEM)
    }

    /// Changes the owner of a lock that others wait for.
    pub fn give_lock(&mut self, lock: &Arc<PiState>, owner: Owner, died: bool) {
        let was_there = self.locks.take(&Owned::new(lock).key()).is_some();
        lock.set_owner(owner, died);
        if was_there {
            // It fits where it was.
            _ = self.locks.insert(Owned::new(lock));
        }
    }

    /// The first waiter for a lock of an owner, if there is one.
    pub fn top_of(&self, owner: Owner) -> Option<&Waiter> {
        let owned = Owned::first_of(&self.locks, owner)?;
        let awaits = |waiter: &&Waiter| waiter.lock().is_some_and(|lock| owned.is(lock));
        let top = self.top(owned.key).filter(awaits);
        // The waiter may be hidden behind others, which wait for no lock.
        top.or_else(|| self.at(owned.key).find(awaits))
    }

    /// Appends a waiter. ENOMEM.
    pub fn push(&mut self, waiter: Waiter) -> Result<()> {
        if self.is_full() {
            return self.push_among(|| waiter);
        }
        self.row.push_back(waiter);
        Ok(())
    }

    /// The same if the list is full.
    #[cold]
    #[inline(never)]
    pub fn push_among(&mut self, waiter: impl FnOnce() -> Waiter) -> Result<()> {
        self.reserve(1)?;
        if self.many.is_empty() {
            self.row.push_back(waiter());
            Ok(())
        } else {
            self.many.add(waiter())
        }
    }

    /// Makes room for `more` waiters, so that none of them fails to be pushed. ENOMEM.
    #[inline(never)]
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        if self.many.is_empty() && self.row.len() + more <= ROW {
            return self.row.try_reserve(more).map_err(|_| Errno::ENOMEM);
        }
        self.many.reserve(self.row.len() + more)?;
        for waiter in mem::take(&mut self.row) {
            self.many.add(waiter)?;
        }
        Ok(())
    }

    /// Moves the last waiter to its position: real-time threads are woken first, by priority.
    #[cold]
    #[inline(never)]
    pub fn bring_forward(&mut self) {
        let row = &mut self.row;
        let own = row.back().map_or(0, Waiter::priority);
        if own > 0
            && let Some(at) = row.iter().position(|other| other.priority() < own)
            && let Some(last) = row.pop_back()
        {
            row.insert(at, last);
        }
    }

    /// Removes a waiter with that slot.
    #[inline]
    pub fn remove(&mut self, slot: &Arc<AtomicU32>) -> Option<Waiter> {
        let is_it = |waiter: &Waiter| Arc::ptr_eq(&waiter.slot, slot);
        let waiter = match self.row.iter().position(is_it) {
            Some(at) => self.row.remove(at),
            None => self.many.remove(slot),
        }?;
        if let Some(lock) = waiter.lock()
            && lock.waiters.fetch_sub(1, Relaxed) == 1
        {
            self.locks.remove(&Owned::new(lock).key());
        }
        Some(waiter)
    }

    /// A waiter with that slot.
    pub fn get(&self, slot: &Arc<AtomicU32>) -> Option<&Waiter> {
        let is_it = |waiter: &&Waiter| Arc::ptr_eq(&waiter.slot, slot);
        let in_row = self.row.iter().find(is_it);
        in_row.or_else(|| {
            self.many
                .by_key
                .get(&self.many.order_of(slot)?)
                .map(Entry::waiter)
        })
    }

    /// The waiters at a word, in the order in which they are woken.
    pub fn at(&self, key: Key) -> impl Iterator<Item = &Waiter> {
        let row = self.row.iter().filter(move |waiter| waiter.key == key);
        let mut from = first_of(key);
        let many = core::iter::from_fn(move || {
            let (order, waiter) = self.many.from(from)?;
            from = after(order);
            Some(waiter)
        });
        row.chain(many)
    }

    /// The present waiters at a word, to be visited over several calls.
    pub fn those_at(&self, key: Key) -> Those {
        Those {
            key,
            in_row: self.many.is_empty(),
            at: 0,
            from: first_of(key),
            end: self.many.next,
        }
    }

    /// The first waiter for the lock at a word: the first to arrive of those with the highest
    /// priority.
    pub fn top(&self, key: Key) -> Option<&Waiter> {
        let awaits = |waiter: &&Waiter| waiter.key == key && waiter.lock().is_some();
        let row = self.row.iter().filter(awaits);
        let top = row.reduce(|top, next| match next.priority() > top.priority() {
            true => next,
            false => top,
        });
        // Waiters for anything but the lock are there by mistake.
        let mut first = self.at(key).take(ROW);
        top.or_else(|| first.find(awaits))
    }

    /// Moves a waiter with that slot to its position after its priority has changed. A list is
    /// searched.
    pub fn reposition(&mut self, slot: &Arc<AtomicU32>) {
        self.many.reposition(slot);
    }

    /// Removes the first waiter at a word.
    pub fn take_first(&mut self, key: Key) -> Option<Waiter> {
        match self.row.iter().position(|waiter| waiter.key == key) {
            Some(at) => self.row.remove(at),
            None => {
                let (order, _) = self.many.from(first_of(key))?;
                self.many.take(order)
            }
        }
    }
}

/// The waiters at a word at the time of creation, in the order in which they are woken. Those of a
/// list are visited under one lock.
#[derive(Clone)]
pub struct Those {
    key: Key,
    /// Whether they are in the list.
    pub in_row: bool,
    /// Where to look for the next: in the list, or among many.
    at: usize,
    from: Order,
    /// The number of the first waiter that arrived later.
    end: u64,
}

impl Those {
    /// The next waiter.
    pub fn next<'a>(&mut self, queue: &'a Queue) -> Option<&'a Waiter> {
        if self.in_row {
            let at = self.find_in(&queue.row)?;
            self.at = at + 1;
            return queue.row.get(at);
        }
        self.next_of(&queue.many).map(|(_, waiter)| waiter)
    }

    /// Removes the next waiter.
    pub fn take(&mut self, queue: &mut Queue) -> Option<Waiter> {
        if self.in_row {
            self.at = self.find_in(&queue.row)?;
            return queue.row.remove(self.at);
        }
        let (order, _) = self.next_of(&queue.many)?;
        queue.many.take(order)
    }

    fn find_in(&self, row: &VecDeque<Waiter>) -> Option<usize> {
        let mut rest = row.iter().skip(self.at);
        let further = rest.position(|waiter| waiter.key == self.key)?;
        Some(self.at + further)
    }

    fn next_of<'a>(&mut self, many: &'a Many) -> Option<(Order, &'a Waiter)> {
        loop {
            let (order, waiter) = many.from(self.from)?;
            let (key, rank, number) = order;
            if number < self.end {
                self.from = after(order);
                return Some((order, waiter));
            }
            // All later ones of its priority arrived after it, too.
            self.from = (key, rank, u64::MAX);
        }
    }
}

/// The position of a waiter among many: by word, then the highest priority first, then by order of
/// arrival.
pub type Order = (Key, Reverse<u32>, u64);

/// The position before all waiters of a word.
pub fn first_of(key: Key) -> Order {
    (key, Reverse(u32::MAX), 0)
}

/// The position before all that follow that one.
pub fn after((key, rank, number): Order) -> Order {
    (key, rank, number + 1)
}

/// Many waiters.
pub struct Many {
    by_key: Tree<Entry>,
    by_slot: Tree<Place>,
    /// The number of the next waiter to arrive.
    next: u64,
}

struct Entry {
    rank: u32,
    number: u64,
    waiter: Waiter,
}

impl Entry {
    fn waiter(&self) -> &Waiter {
        &self.waiter
    }
}

impl Member for Entry {
    type Key = Order;
    type Sum = ();

    fn key(&self) -> Order {
        (self.waiter.key, Reverse(self.rank), self.number)
    }

    fn sum(&self) {}

    fn join((): (), (): ()) {}
}

/// The place of a waiter by its slot; a thread that waits for several words has several.
struct Place {
    /// The slot's address.
    slot: usize,
    order: Order,
}

impl Member for Place {
    type Key = (usize, Order);
    type Sum = ();

    fn key(&self) -> Self::Key {
        (self.slot, self.order)
    }

    fn sum(&self) {}

    fn join((): (), (): ()) {}
}

fn address(slot: &Arc<AtomicU32>) -> usize {
    Arc::as_ptr(slot).addr()
}

impl Many {
    /// Whether there are none: then all waiters are in the list.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The number of the next waiter to arrive.
    pub fn next(&self) -> u64 {
        self.next
    }

    fn reserve(&mut self, more: usize) -> Result<()> {
        let room = self.by_key.reserve(more);
        let room = room.and_then(|()| self.by_slot.reserve(more));
        room.map_err(|_| Errno::ENOMEM)
    }

    /// Adds a waiter, for which there is room.
    fn add(&mut self, waiter: Waiter) -> Result<()> {
        let number = self.next;
        self.next += 1;
        self.add_as(number, waiter)
    }

    fn add_as(&mut self, number: u64, waiter: Waiter) -> Result<()> {
        let entry = Entry {
            rank: waiter.priority(),
            number,
            waiter,
        };
        let place = Place {
            slot: address(&entry.waiter.slot),
            order: entry.key(),
        };
        let added = self.by_slot.insert(place);
        let added = added.and_then(|()| self.by_key.insert(entry));
        added.map_err(|_| Errno::ENOMEM)
    }

    /// The first waiter of the same word at a position or after it.
    pub fn from(&self, from: Order) -> Option<(Order, &Waiter)> {
        let entry = self.by_key.from(&from)?;
        (entry.waiter.key == from.0).then(|| (entry.key(), &entry.waiter))
    }

    /// Removes the waiter at a position.
    pub fn take(&mut self, order: Order) -> Option<Waiter> {
        let waiter = self.by_key.remove(&order)?.waiter;
        self.by_slot.remove(&(address(&waiter.slot), order));
        Some(waiter)
    }

    fn reposition(&mut self, slot: &Arc<AtomicU32>) {
        let Some(order) = self.order_of(slot) else {
            return;
        };
        let (_, _, number) = order;
        if let Some(waiter) = self.take(order) {
            // It fits where it was.
            _ = self.add_as(number, waiter);
        }
    }

    fn order_of(&self, slot: &Arc<AtomicU32>) -> Option<Order> {
        let least = (Key { of: 0, at: 0 }, Reverse(u32::MAX), 0);
        let place = self.by_slot.from(&(address(slot), least))?;
        (place.slot == address(slot)).then_some(place.order)
    }

    #[inline(never)]
    fn remove(&mut self, slot: &Arc<AtomicU32>) -> Option<Waiter> {
        self.take(self.order_of(slot)?)
    }
}
