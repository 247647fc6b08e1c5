//! Hash tables with a keyed hash: programs choose names and numbers, and must not be able to choose
//! which of them share a bucket.

use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use spin::Once;

use crate::errno::{Errno, Result};
use crate::random;

/// A hash table of the kernel. It grows only through `try_reserve`, and never moves many members at
/// once.
pub type HashMap<K, V> = hash_table::HashMap<K, V, Keyed>;

/// An empty table.
pub const fn new<K, V>() -> HashMap<K, V> {
    HashMap::with_hasher(Keyed)
}

/// Lists by key; a key with an empty list is removed.
pub struct Lists<K, T>(HashMap<K, Vec<T>>);

impl<K: Eq + Hash, T> Lists<K, T> {
    /// No lists.
    pub const fn new() -> Self {
        Lists(new())
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The list of `key`.
    pub fn of(&self, key: &K) -> &[T] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// The list of `key`, mutably.
    pub fn of_mut(&mut self, key: &K) -> &mut [T] {
        self.0.get_mut(key).map_or(&mut [], Vec::as_mut_slice)
    }

    /// Adds a value at the end of a list.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn push(&mut self, key: K, value: T) -> Result<()> {
        if let Some(list) = self.0.get_mut(&key) {
            list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
            list.push(value);
            return Ok(());
        }
        let mut list = Vec::new();
        list.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.0.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        list.push(value);
        self.0.insert(key, list);
        Ok(())
    }

    /// Takes the first value for which `is_it` holds out of a list.
    pub fn take(&mut self, key: &K, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let list = self.0.get_mut(key)?;
        let at = list.iter().position(is_it)?;
        let gone = list.remove(at);
        if list.is_empty() {
            self.0.remove(key);
        }
        Some(gone)
    }
}

/// The keys of all hashes.
static SEEDS: Once<(u64, SharedSeed)> = Once::new();

/// Draws the keys at random. Called once, before the first table has a member.
pub fn init() {
    SEEDS.call_once(|| (random::u64(), SharedSeed::from_u64(random::u64())));
}

/// Builds hashers with the keys drawn at boot.
#[derive(Clone, Copy, Default)]
pub struct Keyed;

impl BuildHasher for Keyed {
    type Hasher = FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> FoldHasher<'static> {
        let (own, shared) = SEEDS.get().expect("drawn by `init`");
        FoldHasher::with_seed(*own, shared)
    }
}
