//! The SACK blocks of an acknowledgment: RFC 2018, 4 and RFC 2883.

use crate::options::Blocks;
use crate::ranges::Ranges;
use crate::seq::{Seq, wire};

/// Sequence numbers in the ranges that changed last, the latest first.
#[derive(Default)]
pub(super) struct Recent {
    numbers: [Seq; 4],
    /// A range that arrived twice.
    duplicate: Option<(Seq, Seq)>,
}

impl Recent {
    pub fn touch(&mut self, seq: Seq) {
        let last = self.numbers.len() - 1;
        let at = self
            .numbers
            .iter()
            .position(|number| *number == seq)
            .unwrap_or(last);
        self.numbers[..=at].rotate_right(1);
        self.numbers[0] = seq;
    }

    pub fn duplicate(&mut self, start: Seq, end: Seq) {
        self.duplicate = Some((start, end));
    }

    pub fn has_duplicate(&self) -> bool {
        self.duplicate.is_some()
    }

    pub fn take_blocks(&mut self, ranges: &Ranges, nxt: Seq, most: usize) -> Blocks {
        let mut blocks = Blocks::default();
        let mut put = |start, end| blocks.push(wire(start), wire(end));
        let mut room = most;
        if let Some((start, end)) = self.duplicate.take().filter(|_| room > 0) {
            put(start, end);
            room -= 1;
        }
        let mut told = [0; 4];
        for at in 0..self.numbers.len() {
            let number = self.numbers[at];
            let range = ranges
                .containing(number)
                .filter(|_| number > nxt && room > 0);
            let Some((start, end)) = range else { continue };
            if !told.contains(&start) {
                told[at] = start;
                put(start, end);
                room -= 1;
            }
        }
        blocks
    }
}
