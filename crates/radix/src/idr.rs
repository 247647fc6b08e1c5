//! Items by number, where numbers are given in ascending order, as Linux's IDR is used for
//! processes.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::{iter, mem};

/// Numbers of a chunk: with items of 64 bytes it is a page.
const CHUNK: usize = u64::BITS as usize;

/// The items of neighbouring numbers.
struct Chunk<T> {
    /// [`CHUNK`] items, or none: then it has no memory.
    items: Vec<Option<T>>,
    /// A bit for each number that has an item.
    used: u64,
}

impl<T> Chunk<T> {
    const EMPTY: Self = Chunk {
        items: Vec::new(),
        used: 0,
    };
}

/// The items, in chunks, so that a look-up is two steps. An insertion needs memory for one number
/// in [`CHUNK`] only: the chunk of the last insertion stays, even if it is empty.
pub struct Idr<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunk of the last insertion; one that never exists before the first.
    last: usize,
}

impl<T> Default for Idr<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Idr<T> {
    /// No items.
    pub const fn new() -> Self {
        Idr {
            chunks: Vec::new(),
            last: usize::MAX,
        }
    }

    /// The item of a number.
    #[inline(always)]
    pub fn get(&self, number: usize) -> Option<&T> {
        let chunk = self.chunks.get(number / CHUNK)?;
        chunk.items.get(number % CHUNK)?.as_ref()
    }

    /// The item of a number, mutably.
    #[inline(always)]
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(number / CHUNK)?;
        chunk.items.get_mut(number % CHUNK)?.as_mut()
    }

    /// Stores the item of a number, in place of an old one.
    ///
    /// # Errors
    /// There is no memory; nothing has changed.
    #[inline(always)]
    pub fn insert(&mut self, number: usize, item: T) -> Result<(), TryReserveError> {
        let index = number / CHUNK;
        if index != self.last {
            self.enter(index)?;
        }
        let chunk = &mut self.chunks[index];
        chunk.used |= 1 << (number % CHUNK);
        chunk.items[number % CHUNK] = Some(item);
        Ok(())
    }

    /// Makes a chunk the last one, and frees the one before if it is empty.
    #[cold]
    #[inline(never)]
    fn enter(&mut self, index: usize) -> Result<(), TryReserveError> {
        if self.chunks.len() <= index {
            self.chunks.try_reserve(index + 1 - self.chunks.len())?;
            self.chunks.resize_with(index + 1, || Chunk::EMPTY);
        }
        let items = &mut self.chunks[index].items;
        if items.is_empty() {
            items.try_reserve_exact(CHUNK)?;
            items.resize_with(CHUNK, || None);
        }
        let before = mem::replace(&mut self.last, index);
        if let Some(empty) = self.chunks.get_mut(before).filter(|chunk| chunk.used == 0) {
            *empty = Chunk::EMPTY;
        }
        Ok(())
    }

    /// Removes the item of a number, if there is one.
    #[inline(always)]
    pub fn remove(&mut self, number: usize) {
        let index = number / CHUNK;
        let Some(chunk) = self.chunks.get_mut(index) else {
            return;
        };
        if let Some(place @ Some(_)) = chunk.items.get_mut(number % CHUNK) {
            *place = None;
            chunk.used &= !(1 << (number % CHUNK));
            if chunk.used == 0 && index != self.last {
                self.free(index);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn free(&mut self, index: usize) {
        self.chunks[index] = Chunk::EMPTY;
    }

    /// The items from a number on, in order, with their numbers.
    pub fn range_from(&self, number: usize) -> impl Iterator<Item = (usize, &T)> {
        let first = (number / CHUNK).min(self.chunks.len());
        let chunks = (first..).zip(&self.chunks[first..]);
        chunks.flat_map(move |(index, chunk)| {
            let start = index * CHUNK;
            let mut left = chunk.used & (!0 << number.saturating_sub(start));
            iter::from_fn(move || {
                let place = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                Some((start + place, chunk.items.get(place)?.as_ref()?))
            })
        })
    }

    /// All items, in the order of their numbers.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.range_from(0).map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_like_a_map() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = |limit: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % limit
        };
        for limit in [3, 65, 140, 5000, 1 << 22] {
            let (mut idr, mut map) = (Idr::new(), BTreeMap::new());
            for step in 0..4000 {
                let number = random(limit);
                if random(3) == 0 {
                    idr.remove(number);
                    map.remove(&number);
                } else {
                    idr.insert(number, step).unwrap();
                    map.insert(number, step);
                }
                let probe = random(limit);
                assert_eq!(idr.get(probe), map.get(&probe));
                assert_eq!(idr.get_mut(probe), map.get_mut(&probe));
                let next = map.range(probe..).map(|(k, v)| (*k, v)).take(3);
                assert!(idr.range_from(probe).take(3).eq(next));
            }
            assert!(idr.values().eq(map.values()));
            assert!(idr.range_from(usize::MAX).next().is_none());
            // Empty chunks have no memory, but for the last.
            for (index, chunk) in idr.chunks.iter().enumerate() {
                let items = chunk.items.iter().enumerate();
                let used = items.filter_map(|(place, item)| item.map(|_| 1 << place));
                assert_eq!(chunk.used, used.sum::<u64>());
                assert!(index == idr.last || (chunk.used == 0) == (chunk.items.capacity() == 0));
            }
        }
    }

    #[test]
    fn one_number_that_comes_and_goes_keeps_its_chunk() {
        let mut idr = Idr::new();
        idr.insert(5, ()).unwrap();
        for number in CHUNK..2 * CHUNK {
            idr.insert(number, ()).unwrap();
            idr.remove(number);
            assert_eq!(idr.chunks[1].items.len(), CHUNK);
        }
        idr.insert(2 * CHUNK, ()).unwrap();
        assert_eq!(idr.chunks[1].items.len(), 0);
        assert_eq!(idr.get(5), Some(&()));
    }
}
