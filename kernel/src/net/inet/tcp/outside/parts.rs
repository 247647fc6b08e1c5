//! The received parts of the peer's stream that are not in the channel yet.

use alloc::vec::Vec;

/// The number of parts from which adjacent ones are joined: then there are no more than the state
/// machine has ranges.
const MOST: usize = 2 * tcp::ranges::MOST;

/// The capacity that is kept without parts: data that arrives in order needs no more.
const FEW: usize = 8;

type Part = (u64, Vec<u8>);

/// Reserves room for more bytes; false without memory.
type Reserve = fn(&mut Vec<u8>, usize) -> bool;

/// Parts of the stream, by position.
#[derive(Default)]
pub struct Parts(Vec<Part>);

/// Adds bytes at a position to a part that reaches it; false if it does not, or `reserve` finds no
/// memory.
fn join((at, part): &mut Part, next: u64, bytes: &[u8], reserve: Reserve) -> bool {
    let Some(known) = (*at + part.len() as u64).checked_sub(next) else {
        return false;
    };
    let fresh = bytes.get(known as usize..).unwrap_or_default();
    let has_room = reserve(part, fresh.len());
    if has_room {
        part.extend_from_slice(fresh);
    }
    has_room
}

impl Parts {
    /// No parts.
    pub const fn new() -> Self {
        Parts(Vec::new())
    }

    /// Reserves room for another part.
    pub fn reserve(&mut self) -> bool {
        self.0.try_reserve(1).is_ok()
    }

    /// The approximate memory in bytes.
    pub fn held(&self) -> usize {
        let bytes = self.0.iter().map(|part| part.1.capacity());
        bytes.sum::<usize>() + self.0.capacity() * size_of::<Part>()
    }

    /// Adds bytes at a position of the stream; there is room for one more part. False if there are
    /// too many parts that are not adjacent, or that cannot be joined for lack of memory.
    pub fn add(&mut self, at: u64, bytes: Vec<u8>) -> bool {
        self.add_by(at, bytes, |part, count| part.try_reserve(count).is_ok())
    }

    fn add_by(&mut self, at: u64, mut bytes: Vec<u8>, reserve: Reserve) -> bool {
        let place = self.0.partition_point(|part| part.0 <= at);
        let mut known = 0;
        if let Some(before) = place.checked_sub(1).and_then(|index| self.0.get_mut(index))
            && let Some(overlap) = (before.0 + before.1.len() as u64).checked_sub(at)
        {
            if join(before, at, &bytes, reserve) {
                return true;
            }
            // They become a part of their own.
            known = overlap;
        }
        if self.0.len() >= MOST {
            self.0
                .dedup_by(|(at, bytes), before| join(before, *at, bytes, reserve));
            if self.0.len() >= MOST {
                return false;
            }
            // The position has changed.
            return self.add_by(at, bytes, reserve);
        }
        bytes.drain(..bytes.len().min(known as usize));
        if !bytes.is_empty() {
            // Other parts may begin within the known ones.
            let at = at + known;
            let place = self.0.partition_point(|part| part.0 <= at);
            self.0.insert(place, (at, bytes));
        }
        true
    }

    /// Passes the bytes from `from` on to `put`, with their position, until it takes none, and
    /// removes the bytes that it took. Returns the position reached.
    pub fn take(&mut self, mut from: u64, mut put: impl FnMut(u64, &[u8]) -> usize) -> u64 {
        while let Some(bytes) = self.next(from) {
            let count = put(from, bytes);
            if count == 0 {
                break;
            }
            from += count as u64;
            self.release(from);
        }
        from
    }

    /// The bytes from `from` on, if they are present.
    pub fn next(&self, from: u64) -> Option<&[u8]> {
        let (at, part) = self.0.first()?;
        let skip = usize::try_from(from.checked_sub(*at)?).ok()?;
        part.get(skip..).filter(|rest| !rest.is_empty())
    }

    /// Removes the bytes before `until`.
    fn release(&mut self, until: u64) {
        let gone = |part: &(u64, Vec<u8>)| part.0 + part.1.len() as u64 <= until;
        let count = self.0.iter().take_while(|part| gone(part)).count();
        self.0.drain(..count);
        // A reader that is always behind never reaches the end of a part that keeps growing.
        let is_due = |(at, part): &(u64, Vec<u8>)| until > *at + part.len() as u64 / 2;
        if self.0.first().is_some_and(is_due) {
            for (at, part) in self.0.iter_mut().take_while(|part| part.0 < until) {
                part.drain(..part.len().min((until - *at) as usize));
                *at = until;
            }
        }
        self.shrink();
    }

    /// Removes the bytes from `from` on.
    pub fn prune(&mut self, from: u64) {
        self.0.retain(|part| part.0 < from);
        for (at, part) in &mut self.0 {
            part.truncate((from - *at) as usize);
        }
        self.shrink();
    }

    /// Frees the memory of a list that was long.
    fn shrink(&mut self) {
        if self.0.is_empty() && self.0.capacity() > FEW {
            self.0 = Vec::new();
        }
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn parts_of_a_stream_join() {
        let mut parts = Parts::new();
        let stream: Vec<u8> = (0..40).collect();
        // Out of order, duplicated, overlapping before and after.
        for (from, to) in [(10, 20), (30, 40), (10, 20), (15, 25), (5, 12), (28, 40), (0, 6)] {
            assert!(parts.reserve() && parts.add(from as u64, stream[from..to].to_vec()));
        }
        assert_eq!(parts.next(3), Some(&stream[3..6]));
        let at = parts.take(0, |at, bytes| {
            assert_eq!(bytes, &stream[at as usize..][..bytes.len()]);
            bytes.len()
        });
        assert_eq!(at, 25);
        assert!(parts.add(25, stream[25..30].to_vec()));
        assert_eq!(parts.take(25, |at, bytes| bytes.len().min((29 - at) as usize)), 29);
        assert_eq!(parts.next(29), Some(&stream[29..30]));
        assert_eq!(parts.0[0], (29, stream[29..30].to_vec()));
        assert!(parts.0.is_sorted_by_key(|part| part.0));
        parts.prune(25);
        assert!(parts.add(25, stream[25..30].to_vec()));
        assert_eq!(parts.next(25), Some(&stream[25..30]));
        parts.prune(27);
        assert_eq!(parts.next(25), Some(&stream[25..27]));
        assert_eq!(parts.next(27), None);
    }

    fn parts_that_cannot_be_joined_stay() {
        let mut parts = Parts::new();
        let stream: Vec<u8> = (0..30).collect();
        for (from, to) in [(0, 10), (5, 20), (20, 30)] {
            let bytes = stream[from..to].to_vec();
            assert!(parts.reserve() && parts.add_by(from as u64, bytes, |_, _| false));
        }
        let at = parts.take(0, |at, bytes| {
            assert_eq!(bytes, &stream[at as usize..][..bytes.len()]);
            bytes.len()
        });
        assert_eq!((at, parts.0.len()), (30, 0));
        // A part that has grown past the beginning of another does not change their order.
        for (from, to, grows) in [(0, 3, true), (5, 7, true), (2, 10, true), (4, 12, false)] {
            let reserve: Reserve = if grows { |_, _| true } else { |_, _| false };
            assert!(parts.reserve() && parts.add_by(from, stream[from as usize..to].to_vec(), reserve));
        }
        assert!(parts.0.is_sorted_by_key(|part| part.0));
        assert_eq!(parts.take(0, |_, bytes| bytes.len()), 12);
    }

    fn touching_parts_are_no_more_than_so_many() {
        let stream: Vec<u8> = (0..5000).map(|at| (at % 251) as u8).collect();
        let mut parts = Parts::new();
        for at in (0..stream.len()).rev() {
            assert!(parts.reserve() && parts.add(at as u64, stream[at..=at].to_vec()));
            assert!(parts.0.len() <= MOST);
        }
        let at = parts.take(0, |at, bytes| {
            assert_eq!(bytes, &stream[at as usize..][..bytes.len()]);
            bytes.len()
        });
        assert_eq!((at, parts.0.len(), parts.held()), (5000, 0, 0));
        // Parts with gaps are limited, but not those that join another.
        for at in 0..MOST as u64 {
            assert!(parts.add(2 * at + 2, stream[..1].to_vec()));
        }
        assert!(!parts.add(2 * MOST as u64 + 2, stream[..1].to_vec()));
        assert!(parts.add(3, stream[..1].to_vec()));
    }
}
