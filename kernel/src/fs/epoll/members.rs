//! The members of a set, and the queue of those that may be ready. A member enters and leaves the
//! queue without a search, wherever it is: one change of a file may make ten thousand ready.

use super::{Item, Key};
use crate::errno::{Errno, Result};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::take;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The place of an item among the members of its set. It is read and changed under the lock of the
/// set's members.
pub(super) struct Standing(AtomicU32);

/// No place: that of an item that is no member, before the first of the queue, and after the last.
const NOWHERE: u32 = u32::MAX;
/// In place of the neighbour before a member: that is not in the queue.
const IDLE: u32 = u32::MAX - 1;

impl Standing {
    /// The standing of an item that is not a member yet.
    pub const fn new() -> Self {
        Standing(AtomicU32::new(NOWHERE))
    }

    fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    fn set(&self, standing: u32) {
        self.0.store(standing, Relaxed);
    }
}

/// A member, and its neighbours in the queue.
struct Place {
    item: Arc<Item>,
    before: u32,
    after: u32,
}

/// See the module.
pub(super) struct Members {
    /// The places of members.
    by_key: BTreeMap<Key, u32>,
    /// In no order, without gaps.
    places: Vec<Place>,
    queued: usize,
    first: u32,
    last: u32,
    /// Where the next look at members with the same descriptor begins.
    looked: Key,
}

impl Default for Members {
    fn default() -> Self {
        Members {
            by_key: BTreeMap::new(),
            places: Vec::new(),
            queued: 0,
            first: NOWHERE,
            last: NOWHERE,
            looked: (0, 0),
        }
    }
}

impl Members {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// How many are in the queue.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Takes all of them out, one by one. The set ends: none enters the queue any more.
    pub fn take_all(&mut self) -> impl Iterator<Item = Arc<Item>> + use<> {
        let Members { by_key, places, .. } = take(self);
        // The tree of keys goes with them, node by node.
        places.into_iter().zip(by_key).map(|(place, _)| place.item)
    }

    /// The member with this key.
    pub fn get(&self, key: &Key) -> Option<&Arc<Item>> {
        self.at(*self.by_key.get(key)?)
    }

    fn at(&self, place: u32) -> Option<&Arc<Item>> {
        self.places.get(place as usize).map(|place| &place.item)
    }

    /// The members whose keys are `from` or higher.
    pub fn from(&self, from: Key) -> impl Iterator<Item = &Arc<Item>> {
        let places = self.by_key.range(from..).map(|(_, place)| *place);
        places.filter_map(|place| self.at(place))
    }

    /// The members that were added as the descriptor of `from`, from that one on.
    pub fn of(&self, from: Key) -> impl Iterator<Item = &Arc<Item>> {
        let same = move |item: &&Arc<Item>| item.key.0 == from.0;
        self.from(from).take_while(same)
    }

    /// Takes out one that was added as descriptor `fd`, if `is_it` holds for one of the next two:
    /// called for each that is added, it soon finds all.
    pub fn take_next(&mut self, fd: i32, is_it: impl Fn(&Item) -> bool) -> Option<Arc<Item>> {
        for _ in 0..2 {
            let next = Some(self.looked).filter(|looked| looked.0 == fd);
            let next = next.and_then(|next| self.of(next).next());
            let item = next.or_else(|| self.of((fd, 0)).next())?;
            let (key, is_it) = (item.key, is_it(item));
            self.looked = (fd, key.1 + 1);
            if is_it {
                return self.remove(&key);
            }
        }
        None
    }

    /// Adds a member, whose key no other has.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn insert(&mut self, item: Arc<Item>) -> Result<()> {
        self.places.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let place = self.places.len() as u32;
        item.standing.set(place);
        self.by_key.insert(item.key, place);
        self.places.push(Place {
            item,
            before: IDLE,
            after: NOWHERE,
        });
        Ok(())
    }

    /// Takes a member out, of the queue too.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Item>> {
        let place = self.by_key.remove(key)?;
        self.unlink(place);
        let item = self.places.swap_remove(place as usize).item;
        item.standing.set(NOWHERE);
        // Where it stood, the last of the places stands now.
        if let Some(moved) = self.places.get(place as usize) {
            moved.item.standing.set(place);
            if let Some(known) = self.by_key.get_mut(&moved.item.key) {
                *known = place;
            }
            if moved.before != IDLE {
                self.link(place);
            }
        }
        self.shrink();
        Some(item)
    }

    /// Gives room back that many have left, if there is memory for what stays.
    fn shrink(&mut self) {
        let room = 2 * self.places.len().max(16);
        let mut places = Vec::new();
        if self.places.capacity() > 2 * room && places.try_reserve_exact(room).is_ok() {
            places.append(&mut self.places);
            self.places = places;
        }
    }

    /// The first of the queue.
    pub fn front(&self) -> Option<&Arc<Item>> {
        self.at(self.first)
    }

    /// Puts a member at the end of the queue; false if it is in it, or no member.
    pub fn push_back(&mut self, item: &Item) -> bool {
        let (at, last) = (item.standing.get(), self.last);
        // A set that has ended has no places.
        match self.places.get_mut(at as usize) {
            Some(place) if place.before == IDLE => (place.before, place.after) = (last, NOWHERE),
            _ => return false,
        }
        self.link(at);
        self.queued += 1;
        true
    }

    /// Takes a member out of the queue; false if it was not in it.
    pub fn unqueue(&mut self, item: &Item) -> bool {
        self.unlink(item.standing.get())
    }

    fn unlink(&mut self, at: u32) -> bool {
        let Some(place) = self.places.get_mut(at as usize) else {
            return false;
        };
        let (before, after) = (place.before, place.after);
        if before == IDLE {
            return false;
        }
        place.before = IDLE;
        *self.after(before) = after;
        *self.before(after) = before;
        self.queued -= 1;
        true
    }

    /// Makes the neighbours of a place know it.
    fn link(&mut self, place: u32) {
        let Place { before, after, .. } = self.places[place as usize];
        *self.after(before) = place;
        *self.before(after) = place;
    }

    /// The item after a place; the first after none.
    fn after(&mut self, place: u32) -> &mut u32 {
        match self.places.get_mut(place as usize) {
            Some(place) => &mut place.after,
            None => &mut self.first,
        }
    }

    /// The item before a place; the last before none.
    fn before(&mut self, place: u32) -> &mut u32 {
        match self.places.get_mut(place as usize) {
            Some(place) => &mut place.before,
            None => &mut self.last,
        }
    }
}
