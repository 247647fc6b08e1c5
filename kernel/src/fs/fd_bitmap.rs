//! The descriptors in use: a bit for each, and one for each full word of those bits (Linux's
//! open_fds and full_fds_bits), so that the lowest free descriptor is found in a few steps.

use crate::errno::{Errno, Result};
use alloc::vec::Vec;

const BITS: usize = u64::BITS as usize;

/// The set of descriptors in use.
#[derive(Default)]
pub struct FdBitmap {
    /// The first word of bits, which needs no allocation and is enough for most processes.
    low: u64,
    /// The words after it.
    high: Vec<u64>,
    /// A bit for each word of `high` that is full.
    full: Vec<u64>,
}

impl FdBitmap {
    /// Makes room for the descriptors below `end`.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline]
    pub fn reach(&mut self, end: usize) -> Result<()> {
        if end > self.room() {
            self.grow(end.div_ceil(BITS) - 1)?;
        }
        Ok(())
    }

    /// The number of descriptors that it has room for.
    pub fn room(&self) -> usize {
        (1 + self.high.len()) * BITS
    }

    #[cold]
    fn grow(&mut self, words: usize) -> Result<()> {
        for (bits, len) in [
            (&mut self.full, words.div_ceil(BITS)),
            (&mut self.high, words),
        ] {
            // The first may already be longer, if there was no memory for the second.
            let more = len.saturating_sub(bits.len());
            bits.try_reserve(more).map_err(|_| Errno::ENOMEM)?;
            bits.resize(bits.len() + more, 0);
        }
        Ok(())
    }

    /// Copies `other`; there is room for all of its descriptors.
    #[inline]
    pub fn copy_from(&mut self, other: &Self) {
        self.low = other.low;
        for (to, from) in self.high.iter_mut().zip(&other.high) {
            *to = *from;
        }
        for (to, from) in self.full.iter_mut().zip(&other.full) {
            *to = *from;
        }
    }

    /// Marks a descriptor, for which there is room, as used.
    #[inline]
    pub fn set(&mut self, fd: usize) {
        let bit = 1 << (fd % BITS);
        match fd / BITS {
            0 => self.low |= bit,
            word => {
                self.high[word - 1] |= bit;
                if self.high[word - 1] == u64::MAX {
                    self.full[(word - 1) / BITS] |= 1 << ((word - 1) % BITS);
                }
            }
        }
    }

    /// Marks a descriptor as free.
    #[inline]
    pub fn clear(&mut self, fd: usize) {
        let bit = 1 << (fd % BITS);
        match fd / BITS {
            0 => self.low &= !bit,
            word => {
                self.high[word - 1] &= !bit;
                self.full[(word - 1) / BITS] &= !(1 << ((word - 1) % BITS));
            }
        }
    }

    /// Whether a descriptor is in use.
    pub fn has(&self, fd: usize) -> bool {
        let word = match (fd / BITS).checked_sub(1) {
            None => Some(&self.low),
            Some(word) => self.high.get(word),
        };
        word.is_some_and(|word| word >> (fd % BITS) & 1 != 0)
    }

    /// The lowest free descriptor from `from` on.
    #[inline]
    pub fn next_free(&self, from: usize) -> usize {
        let used = self.low | below(from);
        if from < BITS && used != u64::MAX {
            return used.trailing_ones() as usize;
        }
        self.next_free_above(from.max(BITS) - BITS) + BITS
    }

    /// The lowest used descriptor from `from` on.
    pub fn next_used(&self, from: usize) -> Option<usize> {
        let low = self.low & !below(from);
        if from < BITS && low != 0 {
            return Some(low.trailing_zeros() as usize);
        }
        let from = from.max(BITS) - BITS;
        let mut mask = !below(from);
        for (at, word) in self.high.iter().enumerate().skip(from / BITS) {
            if word & mask != 0 {
                return Some((at + 1) * BITS + (word & mask).trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// The highest used descriptor plus one.
    pub fn end(&self) -> usize {
        let above = |word: &u64| BITS - word.leading_zeros() as usize;
        match self.high.iter().rposition(|word| *word != 0) {
            Some(at) => (at + 1) * BITS + above(&self.high[at]),
            None => above(&self.low),
        }
    }

    /// The number of used descriptors.
    pub fn count(&self) -> usize {
        let ones = self.high.iter().map(|word| word.count_ones() as usize);
        self.low.count_ones() as usize + ones.sum::<usize>()
    }

    #[cold]
    fn next_free_above(&self, from: usize) -> usize {
        let word = from / BITS;
        let Some(bits) = self.high.get(word) else {
            return from;
        };
        let used = bits | below(from % BITS);
        if used != u64::MAX {
            return word * BITS + used.trailing_ones() as usize;
        }
        let word = next_zero(&self.full, word + 1).min(self.high.len());
        let used = self.high.get(word).map_or(0, |bits| bits.trailing_ones());
        word * BITS + used as usize
    }
}

/// The bits below `bit`.
fn below(bit: usize) -> u64 {
    (1_u64 << (bit % BITS)) - 1
}

/// The lowest zero bit from `from` on, or the number of bits.
fn next_zero(words: &[u64], from: usize) -> usize {
    let mut mask = below(from);
    for (index, word) in words.iter().enumerate().skip(from / BITS) {
        if word | mask != u64::MAX {
            return index * BITS + (word | mask).trailing_ones() as usize;
        }
        mask = 0;
    }
    from.max(words.len() * BITS)
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn the_lowest_free_descriptor_is_found_as_by_a_walk() {
        const FDS: usize = 3 * BITS * BITS;
        let (mut bitmap, mut used) = (FdBitmap::default(), alloc::vec![false; FDS]);
        let mut random = 88_172_645_463_325_252_u64;
        for round in 0..6000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let fd = random as usize % FDS;
            // Long runs, so that words, and words of words, become full.
            let (end, set) = (FDS.min(fd + (1 << ((random >> 32) % 13))), round % 5 != 0);
            bitmap.reach(end).unwrap();
            for fd in fd..end {
                match set {
                    true => bitmap.set(fd),
                    false => bitmap.clear(fd),
                }
                used[fd] = set;
            }
            let from = (random >> 20) as usize % FDS;
            assert_eq!(bitmap.has(from), used[from]);
            let free = used[from..].iter().position(|used| !used);
            assert_eq!(bitmap.next_free(from), from + free.unwrap_or(FDS - from));
            let next = used[from..].iter().position(|used| *used);
            assert_eq!(bitmap.next_used(from), next.map(|next| from + next));
            let last = used.iter().rposition(|used| *used);
            assert_eq!(bitmap.end(), last.map_or(0, |last| last + 1));
            assert_eq!(bitmap.count(), used.iter().filter(|used| **used).count());
        }
    }
}
