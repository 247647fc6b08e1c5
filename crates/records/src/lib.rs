//! A ring of numbered records: the newest lines of a log. A new record overwrites the oldest.
#![no_std]
#![forbid(unsafe_code)]

/// The header of a record, which precedes its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Facility and level, combined as in syslog(3).
    pub priority: u32,
    /// The time of the record.
    pub time: u64,
}

/// The size of a head and the text's length in the ring, in bytes.
const HEAD: usize = 4 + 8 + 4;

/// A reader's position: before the record with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the record, counted from the start of the log.
    pub number: u64,
    /// The number of bytes written before it since the start.
    at: u64,
}

/// The result of a look-up at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is no record yet.
    Nothing,
    /// Newer records have overwritten it.
    Gone,
    /// A record, whose text has `len` bytes.
    Record {
        /// Its header.
        head: Head,
        /// The length of its text.
        len: usize,
        /// The place after it.
        next: Place,
    },
}

/// The newest records that fit in `BYTES`, a power of two.
pub struct Records<const BYTES: usize> {
    bytes: [u8; BYTES],
    first: Place,
    end: Place,
}

impl<const BYTES: usize> Default for Records<BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const BYTES: usize> Records<BYTES> {
    /// The maximum length of a text, which leaves room for other records.
    pub const LONGEST: usize = BYTES / 4 - HEAD;

    /// An empty ring.
    pub const fn new() -> Self {
        assert!(BYTES.is_power_of_two());
        let start = Place { number: 0, at: 0 };
        Records {
            bytes: [0; BYTES],
            first: start,
            end: start,
        }
    }

    /// The place of the oldest record.
    pub fn first(&self) -> Place {
        self.first
    }

    /// The place of the next record to be added.
    pub fn end(&self) -> Place {
        self.end
    }

    /// Adds a record with `text`, which is cut if it is too long.
    pub fn push(&mut self, head: Head, text: &[u8]) {
        let text = &text[..text.len().min(Self::LONGEST)];
        let end = self.end.at + (HEAD + text.len()) as u64;
        while end - self.first.at > BYTES as u64 {
            let Found::Record { next, .. } = self.look(self.first) else {
                break;
            };
            self.first = next;
        }
        let mut at = self.end.at;
        for part in [
            &head.priority.to_le_bytes()[..],
            &head.time.to_le_bytes(),
            &(text.len() as u32).to_le_bytes(),
            text,
        ] {
            for byte in part {
                self.bytes[at as usize % BYTES] = *byte;
                at += 1;
            }
        }
        self.end = Place {
            number: self.end.number + 1,
            at: end,
        };
    }

    /// Looks up the record at a place.
    pub fn look(&self, place: Place) -> Found {
        if place < self.first {
            return Found::Gone;
        }
        if place >= self.end {
            return Found::Nothing;
        }
        let len = u32::from_le_bytes(self.array(place.at + 12)) as usize;
        Found::Record {
            head: Head {
                priority: u32::from_le_bytes(self.array(place.at)),
                time: u64::from_le_bytes(self.array(place.at + 4)),
            },
            len,
            next: Place {
                number: place.number + 1,
                at: place.at + (HEAD + len) as u64,
            },
        }
    }

    /// Copies the text of the record at `place`, which was just found, from byte `skip` on, until
    /// `to` is full.
    pub fn text(&self, place: Place, skip: usize, to: &mut [u8]) {
        let start = place.at + (HEAD + skip) as u64;
        for (byte, at) in to.iter_mut().zip(start..) {
            *byte = self.bytes[at as usize % BYTES];
        }
    }

    fn array<const LEN: usize>(&self, at: u64) -> [u8; LEN] {
        core::array::from_fn(|index| self.bytes[(at as usize + index) % BYTES])
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::VecDeque;
    use std::vec;
    use std::vec::Vec;

    fn head(time: u64) -> Head {
        Head { priority: 6, time }
    }

    fn all(ring: &Records<256>) -> Vec<(u64, Vec<u8>)> {
        let (mut place, mut found) = (ring.first(), Vec::new());
        while let Found::Record { head, len, next } = ring.look(place) {
            let mut text = vec![0; len];
            ring.text(place, 0, &mut text);
            assert_eq!(head.time, place.number);
            found.push((place.number, text));
            place = next;
        }
        assert_eq!(place, ring.end());
        found
    }

    #[test]
    fn the_newest_stay_whole() {
        let mut ring = Records::<256>::new();
        let mut model: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
        let mut state = 1u64;
        for number in 0..2000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let text: Vec<u8> = (0..(state >> 33) % 70)
                .map(|at| (number + at) as u8)
                .collect();
            ring.push(head(number), &text);
            let kept = text[..text.len().min(Records::<256>::LONGEST)].to_vec();
            model.push_back((number, kept));
            while model
                .iter()
                .map(|(_, text)| HEAD + text.len())
                .sum::<usize>()
                > 256
            {
                model.pop_front();
            }
            assert_eq!(all(&ring), Vec::from(model.clone()));
        }
    }

    #[test]
    fn a_reader_that_is_too_slow_is_told() {
        let mut ring = Records::<256>::new();
        let start = ring.first();
        assert_eq!(ring.look(start), Found::Nothing);
        for number in 0..20 {
            ring.push(head(number), b"some text");
        }
        assert_eq!(ring.look(start), Found::Gone);
        assert_eq!(ring.look(ring.end()), Found::Nothing);
        let mut part = [0; 4];
        ring.text(ring.first(), 5, &mut part);
        assert_eq!(&part, b"text");
    }
}
