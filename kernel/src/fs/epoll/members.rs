//! The members of a set, and the queue of those that may be ready. A member enters and leaves the
//! queue without a search, wherever it is: one change of a file may make ten thousand ready.

use super::{Item, Key};
use crate::errno::{Errno, Result};
use crate::mm::heap::check_room;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::take;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The index of an item among the members of its set, which is only accessed under the lock of the
/// set's members.
pub(super) struct Standing(AtomicU32);

/// No index: for an item that is no member, before the first in the queue, and after the last.
const NOWHERE: u32 = u32::MAX;
/// In place of the previous neighbour of a member that is not in the queue.
const IDLE: u32 = u32::MAX - 1;

impl Standing {
    /// The index of an item that is not a member yet.
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

/// The members; see the module.
pub(super) struct Members {
    /// The indices of members by key.
    by_key: BTreeMap<Key, u32>,
    /// The members in no particular order, without gaps.
    places: Vec<Place>,
    queued: usize,
    first: u32,
    last: u32,
    /// Where the next search among members with the same descriptor begins.
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
    /// The number of members.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The length of the queue.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Removes all members, one by one, at the end of the set: none can enter the queue any more.
    pub fn take_all(&mut self) -> impl Iterator<Item = Arc<Item>> + use<> {
        let Members { by_key, places, .. } = take(self);
        // The tree of keys is consumed along with them, node by node.
        places.into_iter().zip(by_key).map(|(place, _)| place.item)
    }

    /// The member with this key.
    pub fn get(&self, key: &Key) -> Option<&Arc<Item>> {
        self.at(*self.by_key.get(key)?)
    }

    fn at(&self, place: u32) -> Option<&Arc<Item>> {
        self.places.get(place as usize).map(|place| &place.item)
    }

    /// The members with keys from `from` on.
    pub fn from(&self, from: Key) -> impl Iterator<Item = &Arc<Item>> {
        let places = self.by_key.range(from..).map(|(_, place)| *place);
        places.filter_map(|place| self.at(place))
    }

    /// The members with the descriptor of `from`, from that key on.
    pub fn of(&self, from: Key) -> impl Iterator<Item = &Arc<Item>> {
        let same = move |item: &&Arc<Item>| item.key.0 == from.0;
        self.from(from).take_while(same)
    }

    /// Removes one of the members added as descriptor `fd` if `is_it` holds for one of the next
    /// two. Since it is called for each added member, it soon finds all.
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

    /// Adds a member, whose key is unique.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn insert(&mut self, item: Arc<Item>) -> Result<()> {
        self.places.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let _room = check_room()?;
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

    /// Removes a member, also from the queue.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Item>> {
        let place = self.by_key.remove(key)?;
        self.unlink(place);
        let item = self.places.swap_remove(place as usize).item;
        item.standing.set(NOWHERE);
        // The last of the places has moved to its index.
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

    /// Frees room after many have left, if there is memory for a smaller copy.
    fn shrink(&mut self) {
        let room = 2 * self.places.len().max(16);
        let mut places = Vec::new();
        if self.places.capacity() > 2 * room && places.try_reserve_exact(room).is_ok() {
            places.append(&mut self.places);
            self.places = places;
        }
    }

    /// The first member in the queue.
    pub fn front(&self) -> Option<&Arc<Item>> {
        self.at(self.first)
    }

    /// Appends a member to the queue; false if it is already there, or is no member.
    pub fn push_back(&mut self, item: &Item) -> bool {
        let (at, last) = (item.standing.get(), self.last);
        // A set that has ended has no members.
        match self.places.get_mut(at as usize) {
            Some(place) if place.before == IDLE => (place.before, place.after) = (last, NOWHERE),
            _ => return false,
        }
        self.link(at);
        self.queued += 1;
        true
    }

    /// Removes a member from the queue; false if it was not there.
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

    /// Sets the links of an entry's neighbours.
    fn link(&mut self, place: u32) {
        let Place { before, after, .. } = self.places[place as usize];
        *self.after(before) = place;
        *self.before(after) = place;
    }

    /// The link to the item after a place, or to the first.
    fn after(&mut self, place: u32) -> &mut u32 {
        match self.places.get_mut(place as usize) {
            Some(place) => &mut place.after,
            None => &mut self.first,
        }
    }

    /// The link to the item before a place, or to the last.
    fn before(&mut self, place: u32) -> &mut u32 {
        match self.places.get_mut(place as usize) {
            Some(place) => &mut place.before,
            None => &mut self.last,
        }
    }
}
