//! Reassembly of datagrams from fragments (RFC 791, RFC 8200, 4.5). Overlapping fragments end their
//! datagram (RFC 5722), as on Linux over IPv4 too.

use crate::{NoMemory, SECOND};
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::IpAddr;
use deadlines::{Deadlines, Ticket};
use hash_table::HashMap;

/// The limit on bytes in incomplete datagrams, roughly (`net.ipv4.ipfrag_high_thresh`). Beyond it,
/// the oldest datagrams are dropped.
pub const MOST_BYTES: usize = 4 << 20;
/// The most fragments of a datagram: 64 KiB in packets of 576 bytes need fewer.
pub const MOST_PIECES: usize = 128;
/// The most bytes of a datagram's payload.
const MOST_PAYLOAD: usize = 65535;
/// How long a datagram waits (`net.ipv4.ipfrag_time`), also over IPv6 (`net.ipv6.ip6frag_time`).
const PATIENCE: u64 = 30 * SECOND;
const PATIENCE_V6: u64 = 60 * SECOND;
/// The overhead of a datagram, and of a piece, beyond their bytes.
const COST: usize = 320;
const PIECE_COST: usize = 64;

/// What the fragments of a datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The source.
    pub source: IpAddr,
    /// The destination.
    pub destination: IpAddr,
    /// The identification that the sender gave the datagram.
    pub number: u32,
    /// The protocol for IPv4, 0 for IPv6.
    pub protocol: u8,
    /// The interface on which the fragments arrived.
    pub interface: u32,
}

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The headers before the payload; those of the first fragment are kept.
    pub header: &'a [u8],
    /// The offset of this payload in the datagram's.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
    /// The payload.
    pub payload: &'a [u8],
}

/// The result of taking a fragment.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// The datagram is incomplete.
    Waits,
    /// The datagram is complete: the header of its first fragment, then the payload, which begins
    /// at this place.
    Whole(Vec<u8>, usize),
    /// The fragment was dropped, and perhaps the rest of its datagram.
    Lost,
}

struct Datagram {
    header: Vec<u8>,
    /// Sorted by offset, without overlap.
    pieces: Vec<(usize, Vec<u8>)>,
    /// The bytes received so far, and the total once the last fragment has arrived.
    have: usize,
    total: Option<usize>,
    cost: usize,
    ticket: Ticket,
}

/// The incomplete datagrams.
pub struct Fragments<S> {
    all: HashMap<Key, Datagram, S>,
    due: Deadlines<Key>,
    bytes: usize,
}

/// A datagram that was not completed in time.
#[derive(Debug)]
pub struct Expired {
    /// What its fragments had in common.
    pub key: Key,
    /// The first fragment, if it arrived: its sender is notified (Time Exceeded, code 1).
    pub first: Option<Vec<u8>>,
}

impl<S: BuildHasher> Fragments<S> {
    /// An empty table.
    pub const fn new(hasher: S) -> Self {
        Fragments {
            all: HashMap::with_hasher(hasher),
            due: Deadlines::new(),
            bytes: 0,
        }
    }

    /// The bytes in incomplete datagrams, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// When [`Self::expire`] must be called.
    pub fn next_timer(&self) -> Option<u64> {
        self.due.first()
    }

    /// Takes a fragment.
    pub fn take(&mut self, now: u64, key: Key, piece: Piece) -> Taken {
        match self.try_take(now, key, piece) {
            Ok(taken) => taken,
            Err(NoMemory) => Taken::Lost,
        }
    }

    fn try_take(&mut self, now: u64, key: Key, piece: Piece) -> Result<Taken, NoMemory> {
        let end = piece.offset + piece.payload.len();
        let is_odd = piece.more && !piece.payload.len().is_multiple_of(8);
        if piece.payload.is_empty() || is_odd || end > MOST_PAYLOAD {
            return Ok(Taken::Lost);
        }
        let cost = piece.payload.len() + piece.header.len() + PIECE_COST;
        while self.bytes + cost + COST > MOST_BYTES && self.drop_oldest() {}
        let bytes = crate::copy(&[piece.payload])?;
        if !self.all.contains_key(&key) {
            self.begin(now, key)?;
        }
        let Some(datagram) = self.all.get_mut(&key) else {
            return Ok(Taken::Lost);
        };
        match datagram.fit(&piece, end) {
            Fit::Twice => return Ok(Taken::Waits),
            Fit::Never => {
                self.remove(&key);
                return Ok(Taken::Lost);
            }
            Fit::At(at) => {
                datagram.pieces.try_reserve(1).map_err(|_| NoMemory)?;
                if piece.offset == 0 {
                    datagram.header = crate::copy(&[piece.header])?;
                }
                datagram.pieces.insert(at, (piece.offset, bytes));
            }
        }
        datagram.have += piece.payload.len();
        datagram.cost += cost;
        self.bytes += cost;
        if !piece.more {
            datagram.total = Some(end);
        }
        if datagram.total != Some(datagram.have) {
            return Ok(Taken::Waits);
        }
        let Some(whole) = self.remove(&key) else {
            return Ok(Taken::Lost);
        };
        let start = whole.header.len();
        let mut bytes = whole.header;
        bytes.try_reserve_exact(whole.have).map_err(|_| NoMemory)?;
        whole
            .pieces
            .iter()
            .for_each(|piece| bytes.extend_from_slice(&piece.1));
        Ok(Taken::Whole(bytes, start))
    }

    fn begin(&mut self, now: u64, key: Key) -> Result<(), NoMemory> {
        self.all.try_reserve(1).map_err(|_| NoMemory)?;
        let patience = match key.source {
            IpAddr::V4(_) => PATIENCE,
            IpAddr::V6(_) => PATIENCE_V6,
        };
        let ticket = self.due.add(now + patience, key).map_err(|_| NoMemory)?;
        let fresh = Datagram {
            header: Vec::new(),
            pieces: Vec::new(),
            have: 0,
            total: None,
            cost: COST,
            ticket,
        };
        self.all.insert(key, fresh);
        self.bytes += COST;
        Ok(())
    }

    fn remove(&mut self, key: &Key) -> Option<Datagram> {
        let gone = self.all.remove(key)?;
        self.due.remove(gone.ticket);
        self.bytes -= gone.cost;
        Some(gone)
    }

    fn drop_oldest(&mut self) -> bool {
        let oldest = self.due.get(0).map(|(_, &key)| key);
        oldest.is_some_and(|key| self.remove(&key).is_some())
    }

    /// Drops a datagram that has waited for too long.
    pub fn expire(&mut self, now: u64) -> Option<Expired> {
        let key = self.due.take_due(now)?;
        let gone = self.remove(&key)?;
        let first = gone.pieces.first().filter(|piece| piece.0 == 0);
        let first = first.and_then(|piece| crate::copy(&[&gone.header, &piece.1]).ok());
        Some(Expired { key, first })
    }
}

enum Fit {
    /// The same bytes are there already.
    Twice,
    /// It contradicts the bytes that are there.
    Never,
    /// Its place among the pieces.
    At(usize),
}

impl Datagram {
    fn fit(&self, piece: &Piece, end: usize) -> Fit {
        let last = self
            .pieces
            .last()
            .map_or(0, |piece| piece.0 + piece.1.len());
        let beyond = match self.total {
            Some(total) => end > total || !piece.more && end != total,
            None => !piece.more && end < last,
        };
        let at = self.pieces.partition_point(|other| other.0 < piece.offset);
        if let Some(same) = self.pieces.get(at)
            && same.0 == piece.offset
            && same.1.len() == piece.payload.len()
            && !beyond
        {
            return Fit::Twice;
        }
        let before = at.checked_sub(1).map(|before| &self.pieces[before]);
        let overlaps = before.is_some_and(|other| other.0 + other.1.len() > piece.offset)
            || self.pieces.get(at).is_some_and(|other| other.0 < end);
        match beyond || overlaps || self.pieces.len() >= MOST_PIECES {
            true => Fit::Never,
            false => Fit::At(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::BuildHasherDefault;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    extern crate std;
    type Hasher = BuildHasherDefault<std::hash::DefaultHasher>;

    fn fragments() -> Fragments<Hasher> {
        Fragments::new(Hasher::default())
    }

    fn key(number: u32) -> Key {
        Key {
            source: Ipv4Addr::new(10, 0, 2, 2).into(),
            destination: Ipv4Addr::new(10, 0, 2, 15).into(),
            number,
            protocol: 17,
            interface: 2,
        }
    }

    fn piece(offset: usize, more: bool, payload: &[u8]) -> Piece<'_> {
        Piece {
            header: b"head",
            offset,
            more,
            payload,
        }
    }

    #[test]
    fn in_any_order() {
        let mut all = fragments();
        assert_eq!(all.take(0, key(1), piece(8, true, &[2; 8])), Taken::Waits);
        assert_eq!(all.take(0, key(1), piece(16, false, &[3; 3])), Taken::Waits);
        assert_eq!(all.take(0, key(1), piece(8, true, &[2; 8])), Taken::Waits);
        assert_eq!(all.take(0, key(2), piece(0, true, &[9; 8])), Taken::Waits);
        let whole = [&b"head"[..], &[1; 8], &[2; 8], &[3; 3]].concat();
        assert_eq!(
            all.take(0, key(1), piece(0, true, &[1; 8])),
            Taken::Whole(whole, 4)
        );
        assert_eq!(all.next_timer(), Some(PATIENCE));
        all.remove(&key(2));
        assert_eq!((all.bytes(), all.next_timer()), (0, None));
    }

    /// Each of these ends the datagram: later fragments do not complete it.
    #[test]
    fn contradictions() {
        for bad in [
            piece(8, true, &[0; 16]),
            piece(16, true, &[0; 8]),
            piece(24, true, &[0; 8]),
            piece(32, false, &[0; 1]),
            piece(8, false, &[0; 8]),
        ] {
            let mut all = fragments();
            all.take(0, key(1), piece(16, true, &[2; 16]));
            if bad.offset >= 24 {
                all.take(0, key(1), piece(32, false, &[2; 8]));
            }
            let twice = bad.offset == 16;
            if twice {
                all.take(0, key(1), piece(8, true, &[2; 8]));
            }
            assert_eq!(all.take(0, key(1), bad), Taken::Lost, "{bad:?}");
            assert_eq!(all.bytes(), 0);
        }
    }

    #[test]
    fn no_fragments() {
        let mut all = fragments();
        assert_eq!(all.take(0, key(1), piece(0, true, &[])), Taken::Lost);
        assert_eq!(all.take(0, key(1), piece(0, true, &[1; 7])), Taken::Lost);
        assert_eq!(
            all.take(0, key(1), piece(65528, false, &[1; 8])),
            Taken::Lost
        );
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn expiry() {
        let mut all = fragments();
        all.take(5, key(1), piece(0, true, &[1; 8]));
        all.take(6, key(2), piece(8, true, &[1; 8]));
        assert!(all.expire(PATIENCE + 4).is_none());
        let one = all.expire(PATIENCE + 6).unwrap();
        assert_eq!(
            (one.key, one.first.unwrap()),
            (key(1), [&b"head"[..], &[1; 8]].concat())
        );
        assert!(all.expire(PATIENCE + 6).unwrap().first.is_none());
        assert!(all.expire(u64::MAX).is_none());
        assert_eq!(all.bytes(), 0);
    }

    /// A flood of first fragments, and one of the smallest pieces.
    #[test]
    fn floods() {
        let mut all = fragments();
        for number in 0..100_000 {
            all.take(number.into(), key(number), piece(0, true, &[0; 1480]));
            assert!(all.bytes() <= MOST_BYTES);
        }
        assert!(all.all.len() > 2000);
        assert!(all.all.get(&key(99_999)).is_some() && all.all.get(&key(0)).is_none());
        let mut all = fragments();
        for number in 0..MOST_PIECES {
            let taken = all.take(0, key(1), piece(number * 16, true, &[0; 8]));
            assert_eq!(taken, Taken::Waits);
        }
        assert_eq!(
            all.take(0, key(1), piece(60_000, true, &[0; 8])),
            Taken::Lost
        );
        assert_eq!(all.bytes(), 0);
    }

    proptest! {
        /// For any pieces: a completed datagram is the sender's if it sends no other, and the
        /// counters match the contents.
        #[test]
        fn any_pieces(pieces in proptest::collection::vec((0usize..12, 1usize..4, any::<bool>()), 0..60)) {
            let mut all = fragments();
            for (place, groups, more) in pieces {
                let payload: Vec<u8> = (place * 8..(place + groups) * 8).map(|at| at as u8).collect();
                if let Taken::Whole(bytes, start) = all.take(0, key(1), piece(place * 8, more, &payload)) {
                    let right: Vec<u8> = (0..bytes.len() - start).map(|at| at as u8).collect();
                    prop_assert_eq!(&bytes[start..], &right[..]);
                }
                let counted: usize = all.all.values().map(|one| one.cost).sum();
                prop_assert_eq!(all.bytes(), counted);
            }
        }
    }
}
