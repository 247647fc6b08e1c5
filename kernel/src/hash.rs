//! Hash tables. Their hash is keyed: programs choose names and numbers, and shall not choose who
//! shares a bucket.

use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::errno::{Errno, Result};
use crate::random;

/// A table of the kernel's; it grows by `try_reserve` alone, and never moves many members at once.
pub type HashMap<K, V> = hash_table::HashMap<K, V, BuildHasherDefault<Keyed>>;

/// An empty table.
pub const fn new<K, V>() -> HashMap<K, V> {
    HashMap::with_hasher(BuildHasherDefault::new())
}

/// Lists by key; a key whose list is empty is forgotten.
pub struct Lists<K, T>(HashMap<K, Vec<T>>);

impl<K: Eq + Hash, T> Lists<K, T> {
    /// None.
    pub const fn new() -> Self {
        Lists(new())
    }

    /// How many keys have a list.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The list of `key`.
    pub fn of(&self, key: &K) -> &[T] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, key: &K) -> &mut [T] {
        self.0.get_mut(key).map_or(&mut [], Vec::as_mut_slice)
    }

    /// All members of all lists.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values().flatten()
    }

    /// Adds one at the end of a list.
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

    /// Takes out of a list the first for which `is_it`.
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

/// Where a hash starts, and what each of its words is multiplied by.
static KEYS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(1)];

/// Draws the keys. Called once, before the first table has a member.
pub fn init() {
    KEYS[0].store(random::u64(), Relaxed);
    KEYS[1].store(random::u64() | 1, Relaxed);
}

/// The two halves of a product with a secret factor, folded: eight bytes cost two multiplications.
pub struct Keyed {
    state: u64,
    factor: u64,
}

impl Default for Keyed {
    fn default() -> Self {
        let [state, factor] = [&KEYS[0], &KEYS[1]].map(|key| key.load(Relaxed));
        Keyed { state, factor }
    }
}

impl Hasher for Keyed {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let word = rest.iter().rev();
            self.write_u64(word.fold(0, |word, &byte| word << 8 | u64::from(byte)));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        self.state = product as u64 ^ (product >> 64) as u64;
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.state
    }
}
