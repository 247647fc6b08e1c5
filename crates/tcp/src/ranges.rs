//! A bounded set of disjoint ranges of sequence numbers: what has arrived out of order.

use crate::seq::Seq;
use alloc::vec::Vec;

/// The maximum number of ranges, which take 4 KiB. If a peer makes more holes, the segments that
/// would create them are dropped.
pub const MOST: usize = 256;

/// Ranges in ascending order, with a gap between any two.
#[derive(Default)]
pub struct Ranges {
    ranges: Vec<(Seq, Seq)>,
}

/// There is no room for another range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Ranges {
    /// An empty set.
    pub const fn new() -> Self {
        Ranges { ranges: Vec::new() }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges `(start, end)` in ascending order.
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.ranges
    }

    /// Removes all ranges and frees the memory.
    pub fn clear(&mut self) {
        self.ranges = Vec::new();
    }

    /// The range that contains `seq`.
    pub fn containing(&self, seq: Seq) -> Option<(Seq, Seq)> {
        let after = self.ranges.partition_point(|range| range.0 <= seq);
        let range = *self.ranges.get(after.checked_sub(1)?)?;
        (seq < range.1).then_some(range)
    }

    /// Adds `[start, end)`; returns the range that contains it now.
    ///
    /// # Errors
    /// [`Full`]: there are [`MOST`] ranges, or no memory. Nothing has changed then.
    pub fn insert(&mut self, start: Seq, end: Seq) -> Result<(Seq, Seq), Full> {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let after = self.ranges.partition_point(|range| range.0 <= end);
        if first < after {
            let whole = (
                start.min(self.ranges[first].0),
                end.max(self.ranges[after - 1].1),
            );
            self.ranges[first] = whole;
            self.ranges.drain(first + 1..after);
            return Ok(whole);
        }
        if self.ranges.len() >= MOST {
            return Err(Full);
        }
        self.ranges.try_reserve(1).map_err(|_| Full)?;
        self.ranges.insert(first, (start, end));
        Ok((start, end))
    }

    /// Removes everything at or above `seq`.
    pub fn cut(&mut self, seq: Seq) {
        let after = self.ranges.partition_point(|range| range.0 < seq);
        self.ranges.truncate(after);
        if let Some(last) = self.ranges.last_mut() {
            last.1 = last.1.min(seq);
        }
    }

    /// Takes out the first range if it begins at or before `seq`; returns its end.
    pub fn take_reached(&mut self, seq: Seq) -> Option<Seq> {
        let (start, end) = *self.ranges.first()?;
        (start <= seq).then(|| {
            self.ranges.remove(0);
            end
        })
    }
}
