//! The members of a set, and the queue of those that may be ready. A member enters the queue and
//! leaves it, wherever it stands, without a search: ten thousand may by one change of a file.

use super::{Item, Key};
use crate::errno::{Errno, Result};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::take;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Where an item stands in the queue of its set: a place, or one of the following. It is read and
/// changed under the lock of the set's members.
pub(super) struct Standing(AtomicU32);

/// The item is no member.
const OUT: u32 = u32::MAX;
/// The item is a member, but not in the queue.
const IDLE: u32 = u32::MAX - 1;
/// No place: before the first, and after the last.
const NOWHERE: u32 = u32::MAX;

impl Standing {
    /// The standing of an item that is not a member yet.
    pub const fn new() -> Self {
        Standing(AtomicU32::new(OUT))
    }

    fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    fn set(&self, standing: u32) {
        self.0.store(standing, Relaxed);
    }
}

/// A place in the queue, and its neighbours.
struct Place {
    item: Key,
    before: u32,
    after: u32,
}

/// See the module.
pub(super) struct Members {
    members: BTreeMap<Key, Arc<Item>>,
    /// In no order, without gaps, with room for all members.
    places: Vec<Place>,
    first: u32,
    last: u32,
    /// Where the next look at members with the same descriptor begins.
    looked: Key,
}

impl Default for Members {
    fn default() -> Self {
        Members {
            members: BTreeMap::new(),
            places: Vec::new(),
            first: NOWHERE,
            last: NOWHERE,
            looked: (0, 0),
        }
    }
}

impl Members {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// How many are in the queue.
    pub fn queued(&self) -> usize {
        self.places.len()
    }

    /// Takes all of them out, one by one. The set ends: none enters the queue any more.
    pub fn take_all(&mut self) -> impl Iterator<Item = Arc<Item>> + use<> {
        take(self).members.into_values()
    }

    /// The member with this key.
    pub fn get(&self, key: &Key) -> Option<&Arc<Item>> {
        self.members.get(key)
    }

    /// The members whose keys are `from` or higher.
    pub fn from(&self, from: Key) -> impl Iterator<Item = &Arc<Item>> {
        self.members.range(from..).map(|(_, item)| item)
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
        let more = self.members.len() + 1 - self.places.len();
        self.places.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
        item.standing.set(IDLE);
        self.members.insert(item.key, item);
        Ok(())
    }

    /// Takes a member out, of the queue too.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Item>> {
        let item = self.members.remove(key)?;
        self.unqueue(&item);
        item.standing.set(OUT);
        self.shrink();
        Some(item)
    }

    /// Gives room back that many have left, if there is memory for what stays.
    fn shrink(&mut self) {
        let room = 2 * self.members.len().max(16);
        let mut places = Vec::new();
        if self.places.capacity() > 2 * room && places.try_reserve_exact(room).is_ok() {
            places.append(&mut self.places);
            self.places = places;
        }
    }

    /// The first of the queue.
    pub fn front(&self) -> Option<&Arc<Item>> {
        self.get(&self.places.get(self.first as usize)?.item)
    }

    /// Puts a member at the end of the queue; false if it is in it, or no member.
    pub fn push_back(&mut self, item: &Item) -> bool {
        // There is room for members alone, of which a set that has ended has none.
        if item.standing.get() != IDLE || self.places.len() == self.members.len() {
            return false;
        }
        let (place, before) = (self.places.len() as u32, self.last);
        self.places.push(Place {
            item: item.key,
            before,
            after: NOWHERE,
        });
        self.link(place);
        item.standing.set(place);
        true
    }

    /// Takes a member out of the queue; false if it was not in it.
    pub fn unqueue(&mut self, item: &Item) -> bool {
        let at = item.standing.get();
        let Some(&Place { before, after, .. }) = self.places.get(at as usize) else {
            return false;
        };
        item.standing.set(IDLE);
        *self.after(before) = after;
        *self.before(after) = before;
        self.places.swap_remove(at as usize);
        // Where it stood, the last of the places stands now.
        if let Some(moved) = self.places.get(at as usize) {
            if let Some(item) = self.members.get(&moved.item) {
                item.standing.set(at);
            }
            self.link(at);
        }
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
