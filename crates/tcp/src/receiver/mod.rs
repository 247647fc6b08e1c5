//! The receiving half: what has arrived, the window, and which acknowledgments are due.

mod delay;
mod sack;
mod tuning;

pub(crate) use delay::{Arrival, Delay};

use crate::paws;
use crate::ranges::Ranges;
use crate::seq::Seq;
use sack::Recent;
use tuning::Tuning;

/// The largest buffer: more than a window can tell of (RFC 7323, 2.3).
pub(crate) const MOST_BUFFER: u64 = 1 << 30;

/// Which bytes of a segment's payload are to be kept, and where.
///
/// The place may hold bytes already that came out of order. They are the same by right; either
/// may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where in the payload they begin.
    pub skip: usize,
    /// How many they are.
    pub length: usize,
    /// Which byte of the peer's stream the first is; the stream's first is 0.
    pub at: u64,
}

/// What became of a segment.
#[derive(Default)]
pub(crate) struct Taken {
    pub placement: Option<Placement>,
    /// How far the numbers in order moved by data.
    pub advanced: u64,
    /// The peer's FIN has been reached by it.
    pub ended: bool,
}

pub(crate) struct Receiver {
    /// The number of the stream's first byte.
    start: Seq,
    /// RCV.NXT.
    pub nxt: Seq,
    /// What the program has read up to.
    pub read: Seq,
    /// The right edge of the window, as far as ever told.
    edge: Seq,
    /// Segments that came out of order.
    pub came_early: u32,
    /// What may be kept that is not read (payload of SO_RCVBUF).
    pub buffer: u64,
    /// The largest window that is told.
    pub clamp: u64,
    scale: u8,
    mss: u64,
    ranges: Ranges,
    told: Recent,
    /// The number of the peer's FIN.
    fin: Option<Seq>,
    /// TS.Recent.
    pub recent: Option<paws::Recent>,
    /// Last.ACK.sent.
    pub acked: Seq,
    pub delay: Delay,
    pub tuning: Tuning,
}

impl Receiver {
    /// A half whose stream begins at `start`, with a window of `window` bytes told already.
    pub fn new(start: Seq, buffer: u64, window: u64, scale: u8, mss: u32, now: u64) -> Self {
        Receiver {
            start,
            nxt: start,
            read: start,
            edge: start + window,
            came_early: 0,
            buffer: buffer.min(MOST_BUFFER),
            clamp: u64::MAX,
            scale,
            mss: u64::from(mss),
            ranges: Ranges::new(),
            told: Recent::default(),
            fin: None,
            recent: None,
            acked: start,
            delay: Delay::new(now, u64::from(mss)),
            tuning: Tuning::new(start, mss, now),
        }
    }

    /// The window that the peer knows of, in bytes.
    pub fn window(&self) -> u64 {
        self.edge.saturating_sub(self.nxt)
    }

    /// Bytes that can be read now.
    pub fn readable(&self) -> u64 {
        let data = self.nxt - u64::from(self.is_ended());
        data - self.read
    }

    /// Whether everything up to the peer's FIN has arrived.
    pub fn is_ended(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt > fin)
    }

    /// Bytes that have arrived out of order.
    pub fn out_of_order(&self) -> u64 {
        self.ranges
            .as_slice()
            .iter()
            .map(|range| range.1 - range.0)
            .sum()
    }

    /// The number after the highest that has arrived out of order.
    pub fn highest(&self) -> Option<Seq> {
        self.ranges.as_slice().last().map(|range| range.1)
    }

    /// Whether something is missing before what has arrived.
    pub fn has_holes(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The shift of the windows that are told.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// Bytes of the stream that have arrived in order.
    pub fn received(&self) -> u64 {
        self.nxt - self.start - u64::from(self.is_ended())
    }

    /// `[start, end)` came again.
    pub fn note_duplicate(&mut self, start: Seq, end: Seq) {
        self.told.duplicate(start, end);
    }

    /// Data came in order; `has_echo`: its timestamp measures the round trip.
    pub fn note_round(&mut self, now: u64, has_echo: bool) {
        self.tuning.on_data(now, self.nxt, self.edge, has_echo);
    }

    /// Which byte of the stream a number is.
    pub fn place_of(&self, seq: Seq) -> u64 {
        seq - self.start
    }

    /// Forgets at least `bytes` of what came early, the last first, if there are so many; returns
    /// the number from which on nothing is kept.
    pub fn prune(&mut self, bytes: u64) -> Option<Seq> {
        let mut left = bytes;
        let mut from = None;
        for &(start, end) in self.ranges.as_slice().iter().rev() {
            if left == 0 {
                break;
            }
            from = Some(end - left.min(end - start));
            left = left.saturating_sub(end - start);
        }
        self.ranges.cut(from?);
        from
    }

    /// Gives back memory that only missing data needs.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Whether a segment `[start, end)` touches the window (RFC 9293, 3.10.7.4): Linux takes the
    /// window from what it acknowledged last, so that what crosses an acknowledgment counts.
    pub fn is_acceptable(&self, start: Seq, end: Seq) -> bool {
        end >= self.acked.min(self.nxt) && start <= self.edge.max(self.nxt)
    }

    /// Takes a segment's payload `[start, end)`, and its FIN.
    pub fn take(&mut self, start: Seq, end: Seq, fin: bool) -> Taken {
        let mut taken = Taken::default();
        let limit = self.edge.min(self.fin.unwrap_or(Seq::MAX));
        if fin && self.fin.is_none() && end <= self.edge.max(self.nxt) && end >= self.nxt {
            self.fin = Some(end);
            // What came early from beyond the end belongs to no stream.
            self.ranges.cut(end);
        }
        if end > start && end <= self.nxt || start < self.nxt && end > self.nxt {
            self.told.duplicate(start, end.min(self.nxt));
        }
        let (from, to) = (start.max(self.nxt), end.min(limit));
        if from < to {
            self.place(&mut taken, start, from, to);
        }
        if self.fin == Some(self.nxt) {
            self.nxt += 1;
            self.ranges.clear();
            taken.ended = true;
        }
        taken
    }

    fn place(&mut self, taken: &mut Taken, start: Seq, from: Seq, to: Seq) {
        if let Some((_, end)) = self.ranges.containing(from).filter(|_| from > self.nxt)
            && end >= to
        {
            self.told.duplicate(from, to);
            self.told.touch(from);
            return;
        }
        if from > self.nxt {
            // Without room it is as if the path had lost it.
            if self.ranges.insert(from, to).is_err() {
                return;
            }
            self.told.touch(from);
            self.came_early = self.came_early.saturating_add(1);
        } else {
            self.nxt = to;
            while let Some(end) = self.ranges.take_reached(self.nxt) {
                self.nxt = self.nxt.max(end);
            }
            taken.advanced = self.nxt - from;
        }
        taken.placement = Some(Placement {
            skip: (from - start) as usize,
            length: (to - from) as usize,
            at: from - self.start,
        });
    }

    /// The blocks of the next acknowledgment, the most recent first, a D-SACK before them.
    pub fn take_blocks(&mut self, most: usize) -> crate::options::Blocks {
        self.told.take_blocks(&self.ranges, self.nxt, most)
    }

    /// Whether there is a D-SACK to tell of.
    pub fn has_duplicate(&self) -> bool {
        self.told.has_duplicate()
    }

    /// Up to where the buffer has room.
    fn open(&self) -> Seq {
        let free = self.buffer.saturating_sub(self.nxt - self.read);
        self.nxt + free.min(self.clamp)
    }

    /// Up to where the window may reach now, without what would make it silly: it opens by a
    /// segment or half the buffer at least (RFC 9293, 3.8.6.2.2).
    fn next_edge(&self) -> Seq {
        let open = self.open();
        let least = self.mss.min(self.buffer.min(self.clamp) / 2).max(1);
        if open >= self.edge + least {
            open
        } else {
            self.edge.max(self.nxt)
        }
    }

    /// The field of the next header; the window moves to it.
    pub fn advertise(&mut self) -> u16 {
        let room = self.next_edge() - self.nxt;
        let unit = 1 << self.scale;
        // Rounding takes back nothing that was told while the buffer has room. Without, it must, or
        // segments that are smaller than a unit would move the edge for ever (RFC 7323, 2.4).
        let up = room.div_ceil(unit);
        let units = if self.nxt + up * unit <= self.open() {
            up
        } else {
            room / unit
        };
        let field = units.min(u64::from(u16::MAX));
        self.edge = self.edge.max(self.nxt + field * unit);
        self.acked = self.nxt;
        field as u16
    }

    /// The program has read `length` bytes more; returns whether the peer is to be told of the
    /// window, which at least doubles, or of data that it has waited for (Linux's
    /// `tcp_cleanup_rbuf`).
    pub fn consume(&mut self, now: u64, length: u64) -> bool {
        self.read += length.min(self.readable());
        if let Some(buffer) = self.tuning.on_read(now, self.read, self.buffer) {
            self.buffer = buffer;
        }
        let window = self.window();
        let next = self.next_edge() - self.nxt;
        let opens = next > window && next >= 2 * window && !self.is_ended();
        let is_due = length > 0 && self.readable() == 0 && self.delay.is_pushed();
        opens || is_due || self.delay.is_overdue(self.nxt - self.acked)
    }
}
