//! A hash table that never moves many members at once: a full table is replaced by a larger one,
//! and each insertion moves some members over. Until all have moved, a look-up that finds nothing
//! in the new table also searches the old one.
//!
//! The table grows only by [`HashMap::try_reserve`].
#![no_std]
#![forbid(unsafe_code)]

use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::mem::replace;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// There was not enough memory to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// The number of old buckets that an insertion visits. The new table has room for twice as many
/// members, so all have moved long before it is full.
const STEP: usize = 32;

/// The table.
pub struct HashMap<K, V, S> {
    /// Has room for all members that are still in `old`.
    table: HashTable<(K, V)>,
    /// Members that have not moved yet, in the buckets below `left`.
    old: HashTable<(K, V)>,
    left: usize,
    hasher: S,
}

impl<K, V, S> HashMap<K, V, S> {
    /// An empty table.
    pub const fn with_hasher(hasher: S) -> Self {
        HashMap {
            table: HashTable::new(),
            old: HashTable::new(),
            left: 0,
            hasher,
        }
    }

    /// The hasher for keys.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.table.len() + self.old.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All members, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let all = self.table.iter().chain(self.old.iter());
        all.map(|(key, value)| (key, value))
    }

    /// All members, with mutable values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let all = self.table.iter_mut().chain(self.old.iter_mut());
        all.map(|(key, value)| (&*key, value))
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// All values, mutably.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// All values, one by one, so that the caller may pause in between.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        let all = self.table.into_iter().chain(self.old);
        all.map(|(_, value)| value)
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> HashMap<K, V, S> {
    /// The value of `key`.
    #[inline]
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        if self.table.is_empty() && self.old.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let found = self.table.find(hash, |(known, _)| known.borrow() == key);
        match found {
            None if !self.old.is_empty() => get_in(&self.old, hash, key),
            found => found.map(|(_, value)| value),
        }
    }

    /// The value of `key`, mutably.
    #[inline]
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if self.table.is_empty() && self.old.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let found = self
            .table
            .find_mut(hash, |(known, _)| known.borrow() == key);
        match found {
            None if !self.old.is_empty() => get_mut_in(&mut self.old, hash, key),
            found => found.map(|(_, value)| value),
        }
    }

    /// Whether `key` has a value.
    #[inline]
    pub fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Makes room for `more` members.
    ///
    /// # Errors
    /// [`NoMemory`].
    #[inline]
    pub fn try_reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        if self.table.capacity() - self.len() < more {
            self.grow(more)?;
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize) -> Result<(), NoMemory> {
        let len = self.len();
        let wanted = len.saturating_add(more).max(2 * len);
        let mut larger = HashTable::new();
        // The table is empty, so nothing is hashed.
        larger.try_reserve(wanted, |_| 0).map_err(|_| NoMemory)?;
        // Nothing is left, unless room for many members was reserved at once.
        while self.left > 0 {
            self.step();
        }
        self.old = replace(&mut self.table, larger);
        self.left = self.old.num_buckets();
        self.step();
        Ok(())
    }

    /// Moves the members of some buckets.
    #[cold]
    #[inline(never)]
    fn step(&mut self) {
        let rest = self.left.saturating_sub(STEP);
        for bucket in (rest..self.left).rev() {
            if let Ok(entry) = self.old.get_bucket_entry(bucket) {
                let (member, _) = entry.remove();
                put(&mut self.table, &self.hasher, member);
            }
        }
        self.left = rest;
        if rest == 0 {
            self.old = HashTable::new();
        }
    }

    /// Adds a member, for which there must be room; returns the old value of the key.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.left > 0 {
            self.step();
        }
        let hash = self.hasher.hash_one(&key);
        if !self.old.is_empty()
            && let Some(known) = get_mut_in(&mut self.old, hash, &key)
        {
            return Some(replace(known, value));
        }
        let (table, hasher) = (&mut self.table, &self.hasher);
        match table.entry(hash, |(known, _)| *known == key, rehash(hasher)) {
            Entry::Occupied(known) => Some(replace(&mut known.into_mut().1, value)),
            Entry::Vacant(place) => {
                place.insert((key, value));
                None
            }
        }
    }

    /// The value of `key`; if it had none, a new one, for which there must be room.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.left > 0 {
            self.step();
        }
        let hash = self.hasher.hash_one(&key);
        let (table, hasher) = (&mut self.table, &self.hasher);
        if !self.old.is_empty()
            && let Ok(entry) = self.old.find_entry(hash, |(known, _)| *known == key)
        {
            // The member moves at once, since it is used now.
            let (member, _) = entry.remove();
            put(table, hasher, member);
        }
        let entry = table.entry(hash, |(known, _)| *known == key, rehash(hasher));
        &mut entry.or_insert_with(|| (key, make())).into_mut().1
    }

    /// Removes a member.
    #[inline]
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        let found = self
            .table
            .find_entry(hash, |(known, _)| known.borrow() == key);
        match found {
            Ok(entry) => Some(entry.remove().0.1),
            Err(_) if !self.old.is_empty() => remove_from(&mut self.old, hash, key),
            Err(_) => None,
        }
    }

    /// Removes the members that `keep` rejects from some buckets, starting at `from`. Returns the
    /// bucket to continue with: repeated calls reach all.
    pub fn retain_from(&mut self, from: usize, keep: impl Fn(&K, &V) -> bool) -> usize {
        let buckets = self.table.num_buckets();
        let from = if from < buckets { from } else { 0 };
        let to = buckets.min(from + STEP);
        for bucket in from..to {
            if let Ok(entry) = self.table.get_bucket_entry(bucket)
                && !keep(&entry.get().0, &entry.get().1)
            {
                entry.remove();
            }
        }
        to
    }
}

/// The value of `key` in an old table, which usually does not exist.
#[cold]
#[inline(never)]
fn get_in<'t, K: Borrow<Q>, V, Q: Eq + ?Sized>(
    old: &'t HashTable<(K, V)>,
    hash: u64,
    key: &Q,
) -> Option<&'t V> {
    let found = old.find(hash, |(known, _)| known.borrow() == key);
    found.map(|(_, value)| value)
}

#[cold]
#[inline(never)]
fn get_mut_in<'t, K: Borrow<Q>, V, Q: Eq + ?Sized>(
    old: &'t mut HashTable<(K, V)>,
    hash: u64,
    key: &Q,
) -> Option<&'t mut V> {
    let found = old.find_mut(hash, |(known, _)| known.borrow() == key);
    found.map(|(_, value)| value)
}

#[cold]
#[inline(never)]
fn remove_from<K: Borrow<Q>, V, Q: Eq + ?Sized>(
    old: &mut HashTable<(K, V)>,
    hash: u64,
    key: &Q,
) -> Option<V> {
    let found = old.find_entry(hash, |(known, _)| known.borrow() == key);
    Some(found.ok()?.remove().0.1)
}

/// Adds a member that is in no table and for which there is room.
fn put<K: Hash, V>(table: &mut HashTable<(K, V)>, hasher: &impl BuildHasher, member: (K, V)) {
    table.insert_unique(hasher.hash_one(&member.0), member, rehash(hasher));
}

fn rehash<K: Hash, V>(hasher: &impl BuildHasher) -> impl Fn(&(K, V)) -> u64 {
    |(key, _)| hasher.hash_one(key)
}

impl<K, V, S: Default> Default for HashMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K, V, S> IntoIterator for HashMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = core::iter::Chain<
        hashbrown::hash_table::IntoIter<(K, V)>,
        hashbrown::hash_table::IntoIter<(K, V)>,
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.table.into_iter().chain(self.old)
    }
}
