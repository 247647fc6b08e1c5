//! Blocks that no file can own: superblocks, descriptors, bitmaps and inode tables of the groups,
//! and the journal. A map that points there is damaged; writes through it would change metadata
//! that was checked before. Linux calls this `block_validity`.

use alloc::vec::Vec;

use crate::bytes::push;
use crate::{Error, Result};

/// Ranges of blocks: the first block, and the first one after the range.
#[derive(Default)]
pub struct Zones {
    ranges: Vec<(u64, u64)>,
}

impl Zones {
    /// Adds a range. [`Zones::finish`] is called after the last.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn add(&mut self, start: u64, count: u64) -> Result<()> {
        let end = start.saturating_add(count);
        match self.ranges.last_mut() {
            _ if count == 0 => {}
            Some(last) if last.1 == start => last.1 = end,
            _ => push(&mut self.ranges, (start, end))?,
        }
        Ok(())
    }

    /// Sorts the ranges.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if two contain the same block.
    pub fn finish(&mut self) -> Result<()> {
        heapsort::sort(&mut self.ranges);
        let overlap = |pair: &[(u64, u64)]| pair[0].1 > pair[1].0;
        if self.ranges.windows(2).any(overlap) {
            return Err(Error::Corrupt("metadata in the place of other metadata"));
        }
        self.ranges.dedup_by(|next, last| {
            let adjacent = last.1 == next.0;
            if adjacent {
                last.1 = next.1;
            }
            adjacent
        });
        self.ranges.shrink_to_fit();
        Ok(())
    }

    /// Whether one of these blocks is in a range.
    pub fn overlap(&self, start: u64, count: u64) -> bool {
        let before = self
            .ranges
            .partition_point(|range| range.0 < start.saturating_add(count));
        before > 0 && self.ranges[before - 1].1 > start
    }
}

#[cfg(test)]
mod tests {
    use super::Zones;

    #[test]
    fn ranges_are_joined_and_found() {
        let mut zones = Zones::default();
        for (start, count) in [(10, 2), (12, 3), (5, 5), (100, 1), (50, 0)] {
            zones.add(start, count).unwrap();
        }
        zones.finish().unwrap();
        assert_eq!(zones.ranges, [(5, 15), (100, 101)]);
        for (start, count, inside) in [
            (0, 5, false),
            (0, 6, true),
            (14, 1, true),
            (15, 85, false),
            (15, 86, true),
            (101, u64::MAX, false),
        ] {
            assert_eq!(zones.overlap(start, count), inside, "{start} {count}");
        }
        zones.add(14, 1).unwrap();
        assert!(zones.finish().is_err());
    }
}
