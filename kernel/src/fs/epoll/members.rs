//! The members of a set, and the queue of those that may be ready: it is linked through them, so
//! that nothing fails when one enters it, and that one leaves it wherever it stands.

use super::{Item, Key};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::mem::take;

/// A member, and its place in the queue.
struct Member {
    item: Arc<Item>,
    place: Option<Place>,
}

/// The neighbours in the queue.
struct Place {
    before: Option<Key>,
    after: Option<Key>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Members {
    members: BTreeMap<Key, Member>,
    first: Option<Key>,
    last: Option<Key>,
    queued: usize,
}

impl Members {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// How many are in the queue.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Takes all of them out, one by one.
    pub fn take_all(&mut self) -> impl Iterator<Item = Arc<Item>> {
        let all = take(self).members;
        all.into_values().map(|member| member.item)
    }

    /// The member with this key.
    pub fn get(&self, key: &Key) -> Option<&Arc<Item>> {
        self.members.get(key).map(|member| &member.item)
    }

    /// Those whose keys are `from` or higher.
    pub fn from(&self, from: Key) -> impl Iterator<Item = &Arc<Item>> {
        self.members.range(from..).map(|(_, member)| &member.item)
    }

    /// Those that were added as descriptor `fd`.
    pub fn of(&self, fd: i32) -> impl Iterator<Item = &Arc<Item>> {
        self.from((fd, 0)).take_while(move |item| item.key.0 == fd)
    }

    /// Adds a member, whose key no other has.
    pub fn insert(&mut self, item: Arc<Item>) {
        self.members.insert(item.key, Member { item, place: None });
    }

    /// Takes a member out, of the queue too.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Item>> {
        self.unqueue(key);
        self.members.remove(key).map(|member| member.item)
    }

    /// The first of the queue.
    pub fn front(&self) -> Option<&Arc<Item>> {
        self.get(self.first.as_ref()?)
    }

    /// Puts a member at the end of the queue, unless it is in it.
    pub fn push_back(&mut self, key: Key) {
        let Some(member) = self.members.get_mut(&key) else {
            return;
        };
        if member.place.is_some() {
            return;
        }
        let (before, after) = (self.last, None);
        member.place = Some(Place { before, after });
        *self.after(before) = Some(key);
        self.last = Some(key);
        self.queued += 1;
    }

    /// Takes a member out of the queue, if it is in it.
    pub fn unqueue(&mut self, key: &Key) -> Option<Arc<Item>> {
        let member = self.members.get_mut(key)?;
        let (place, item) = (member.place.take()?, member.item.clone());
        *self.after(place.before) = place.after;
        *self.before(place.after) = place.before;
        self.queued -= 1;
        Some(item)
    }

    /// The successor in the queue; the first one's predecessor is nobody.
    fn after(&mut self, key: Option<Key>) -> &mut Option<Key> {
        let place = key.and_then(|key| self.members.get_mut(&key)?.place.as_mut());
        place.map_or(&mut self.first, |place| &mut place.after)
    }

    /// The predecessor in the queue; the last one's successor is nobody.
    fn before(&mut self, key: Option<Key>) -> &mut Option<Key> {
        let place = key.and_then(|key| self.members.get_mut(&key)?.place.as_mut());
        place.map_or(&mut self.last, |place| &mut place.before)
    }
}
