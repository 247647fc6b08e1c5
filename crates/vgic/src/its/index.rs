//! The translations from a device's event to an LPI: a hash table that injection reads without a
//! lock, while the guest's commands change it.
//!
//! A translation is one word, so that a reader sees all of it or nothing. A removed one leaves a
//! tombstone, since otherwise the look-up of another that was inserted behind it would end early;
//! tombstones at the end of a run are removed too. A table that is half full is replaced by one of
//! twice the size: the old one stays, as readers may be in it, and all tables together are at most
//! twice the size of the last.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use spin::Once;

use crate::NoMemory;
use crate::lpi::NUMBERS;

/// The base-2 logarithm of the first table's size, which has room for half as many translations;
/// the last table has 2^17 words.
const LEAST: u32 = 7;
const TABLES: usize = 11;
/// The maximum number of translations: the number of LPIs.
const MOST: usize = (NUMBERS.end - NUMBERS.start) as usize;

/// No translation, and one that was removed; both have LPI 0.
const EMPTY: u64 = 0;
const REMOVED: u64 = 1 << 16;

/// The translation of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The device.
    pub device: u16,
    /// The device's event.
    pub event: u16,
    /// The LPI, which is never 0.
    pub lpi: u16,
    /// The collection, which determines where the LPI is routed.
    pub collection: u16,
}

/// All translations of an ITS. Only one thread at a time changes them.
#[derive(Debug)]
pub struct Index {
    tables: [Once<Box<[AtomicU64]>>; TABLES],
    current: AtomicUsize,
    len: AtomicUsize,
    seed: u64,
}

impl Translation {
    fn to_word(self) -> u64 {
        let half = |high: u16, low: u16| u64::from(high) << 16 | u64::from(low);
        half(self.device, self.event) << 32 | half(self.collection, self.lpi)
    }

    fn from_word(word: u64) -> Option<Self> {
        let part = |at: u32| (word >> at) as u16;
        (part(0) != 0).then(|| Translation {
            device: part(48),
            event: part(32),
            collection: part(16),
            lpi: part(0),
        })
    }
}

impl Index {
    /// An empty index. A guest that does not know the seed cannot construct events that collide.
    pub fn new(seed: u64) -> Self {
        Index {
            tables: [const { Once::new() }; TABLES],
            current: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            seed: seed | 1,
        }
    }

    fn table(&self) -> &[AtomicU64] {
        let table = self.tables.get(self.current.load(Acquire));
        table.and_then(Once::get).map_or(&[], |table| table)
    }

    /// The indices of a table from an event's first one on, once around.
    fn row(
        &self,
        table: &[AtomicU64],
        device: u16,
        event: u16,
    ) -> impl Iterator<Item = usize> + use<> {
        let mask = table.len().wrapping_sub(1);
        let key = u64::from(device) << 16 | u64::from(event);
        // Two multiplications, so that every bit of the key affects the bits that are used.
        let mixed = (key ^ self.seed >> 32).wrapping_mul(self.seed);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let start = (mixed >> 40) as usize;
        (0..table.len()).map(move |at| (start + at) & mask)
    }

    /// The index of an event in a table.
    fn find(&self, table: &[AtomicU64], device: u16, event: u16) -> Option<(usize, Translation)> {
        for at in self.row(table, device, event) {
            let word = table[at].load(Relaxed);
            if word == EMPTY {
                return None;
            }
            if let Some(found) = Translation::from_word(word)
                && (found.device, found.event) == (device, event)
            {
                return Some((at, found));
            }
        }
        None
    }

    /// The translation of a device's event.
    #[inline]
    pub fn get(&self, device: u16, event: u16) -> Option<Translation> {
        Some(self.find(self.table(), device, event)?.1)
    }

    /// The number of translations.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All translations, in no particular order.
    pub fn all(&self) -> impl Iterator<Item = Translation> {
        self.table()
            .iter()
            .filter_map(|word| Translation::from_word(word.load(Relaxed)))
    }

    /// Adds a translation, which replaces an older one of the same event.
    pub fn set(&self, new: Translation) -> Result<(), NoMemory> {
        if let Some((at, _)) = self.find(self.table(), new.device, new.event) {
            self.table()[at].store(new.to_word(), Relaxed);
            return Ok(());
        }
        if self.len() >= MOST {
            return Err(NoMemory);
        }
        if 2 * (self.len() + 1) > self.table().len() {
            self.grow()?;
        }
        self.put(self.table(), new);
        self.len.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Stores a translation for an event that has none into a table with room.
    fn put(&self, table: &[AtomicU64], new: Translation) {
        let free = self
            .row(table, new.device, new.event)
            .find(|at| Translation::from_word(table[*at].load(Relaxed)).is_none());
        if let Some(at) = free {
            table[at].store(new.to_word(), Relaxed);
        }
    }

    fn grow(&self) -> Result<(), NoMemory> {
        let old = self.table();
        let next = match old.len() {
            0 => 0,
            _ => self.current.load(Relaxed) + 1,
        };
        let table = self.tables.get(next).ok_or(NoMemory)?;
        let table = table.try_call_once(|| {
            let len = 1 << (LEAST as usize + next);
            let mut words = Vec::new();
            words.try_reserve_exact(len).map_err(|_| NoMemory)?;
            words.resize_with(len, || AtomicU64::new(EMPTY));
            Ok(words.into_boxed_slice())
        })?;
        self.all()
            .for_each(|translation| self.put(table, translation));
        self.current.store(next, Release);
        Ok(())
    }

    /// Removes a translation.
    pub fn remove(&self, device: u16, event: u16) -> Option<Translation> {
        let table = self.table();
        let (at, found) = self.find(table, device, event)?;
        self.clear(table, at);
        Some(found)
    }

    /// Removes the translations that `which` does not select.
    pub fn retain(&self, mut which: impl FnMut(Translation) -> bool) {
        let table = self.table();
        for (at, word) in table.iter().enumerate() {
            if Translation::from_word(word.load(Relaxed)).is_some_and(|found| !which(found)) {
                self.clear(table, at);
            }
        }
    }

    fn clear(&self, table: &[AtomicU64], mut at: usize) {
        let mask = table.len() - 1;
        self.len.fetch_sub(1, Relaxed);
        table[at].store(REMOVED, Relaxed);
        if table[(at + 1) & mask].load(Relaxed) != EMPTY {
            return;
        }
        while table[at].load(Relaxed) == REMOVED {
            table[at].store(EMPTY, Relaxed);
            at = at.wrapping_sub(1) & mask;
        }
    }
}
