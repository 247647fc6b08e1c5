//! The receiving half: the data that has arrived, the window, and acknowledgments that are due.

mod delay;
mod sack;
mod tuning;

pub(crate) use delay::{Arrival, Delay};

use crate::paws;
use crate::ranges::Ranges;
use crate::seq::Seq;
use sack::Recent;
use tuning::Tuning;

/// The maximum size of the buffer: more than a window can express (RFC 7323, 2.3).
pub(crate) const MOST_BUFFER: u64 = 1 << 30;

/// The bytes of a segment's payload to store, and their place.
///
/// The place may already contain bytes that arrived out of order. They should be equal; either may
/// be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Their offset in the payload.
    pub skip: usize,
    /// Their number.
    pub length: usize,
    /// The offset of the first one in the peer's stream, which starts at 0.
    pub at: u64,
}

/// The effect of a segment.
#[derive(Default)]
pub(crate) struct Taken {
    pub placement: Option<Placement>,
    /// By how much data has advanced the in-order sequence number.
    pub advanced: u64,
    /// Whether it has reached the peer's FIN.
    pub ended: bool,
}

pub(crate) struct Receiver {
    /// The sequence number of the stream's first byte.
    start: Seq,
    /// RCV.NXT.
    pub nxt: Seq,
    /// The sequence number up to which the program has read.
    pub read: Seq,
    /// The rightmost edge of the window that was ever advertised.
    edge: Seq,
    /// The number of segments that arrived out of order.
    pub came_early: u32,
    /// The maximum amount of unread data (the payload part of SO_RCVBUF).
    pub buffer: u64,
    /// The maximum window to advertise.
    pub clamp: u64,
    scale: u8,
    mss: u64,
    ranges: Ranges,
    told: Recent,
    /// The sequence number of the peer's FIN.
    fin: Option<Seq>,
    /// TS.Recent.
    pub recent: Option<paws::Recent>,
    /// Last.ACK.sent.
    pub acked: Seq,
    pub delay: Delay,
    pub tuning: Tuning,
}

impl Receiver {
    /// A half whose stream begins at `start`, after a window of `window` bytes was advertised.
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

    /// The window that the peer knows, in bytes.
    pub fn window(&self) -> u64 {
        self.edge.saturating_sub(self.nxt)
    }

    /// The number of bytes that can be read now.
    pub fn readable(&self) -> u64 {
        let data = self.nxt - u64::from(self.is_ended());
        data - self.read
    }

    /// Whether everything up to the peer's FIN has arrived.
    pub fn is_ended(&self) -> bool {
        self.fin.is_some_and(|fin| self.nxt > fin)
    }

    /// The number of bytes that have arrived out of order.
    pub fn out_of_order(&self) -> u64 {
        self.ranges
            .as_slice()
            .iter()
            .map(|range| range.1 - range.0)
            .sum()
    }

    /// The sequence number after the highest one that has arrived out of order.
    pub fn highest(&self) -> Option<Seq> {
        self.ranges.as_slice().last().map(|range| range.1)
    }

    /// Whether something is missing before data that has arrived.
    pub fn has_holes(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The scale of the advertised windows.
    pub fn scale(&self) -> u8 {
        self.scale
    }

    /// The number of bytes of the stream that have arrived in order.
    pub fn received(&self) -> u64 {
        self.nxt - self.start - u64::from(self.is_ended())
    }

    /// Records that `[start, end)` arrived again.
    pub fn note_duplicate(&mut self, start: Seq, end: Seq) {
        self.told.duplicate(start, end);
    }

    /// Handles data that arrived in order; `has_echo`: its timestamp measures the round trip time.
    pub fn note_round(&mut self, now: u64, has_echo: bool) {
        self.tuning.on_data(now, self.nxt, self.edge, has_echo);
    }

    /// The offset in the stream of a sequence number.
    pub fn place_of(&self, seq: Seq) -> u64 {
        seq - self.start
    }

    /// Drops at least `bytes` of the data that arrived out of order, the last first, if there is so
    /// much; returns the sequence number from which on nothing is kept.
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

    /// Frees memory that is only needed for missing data.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Whether a segment `[start, end)` overlaps the window (RFC 9293, 3.10.7.4). As in Linux, the
    /// window starts at what was acknowledged last, so that a segment that crosses an
    /// acknowledgment counts.
    pub fn is_acceptable(&self, start: Seq, end: Seq) -> bool {
        end >= self.acked.min(self.nxt) && start <= self.edge.max(self.nxt)
    }

    /// Handles a segment's payload `[start, end)`, and its FIN.
    pub fn take(&mut self, start: Seq, end: Seq, fin: bool) -> Taken {
        let mut taken = Taken::default();
        let limit = self.edge.min(self.fin.unwrap_or(Seq::MAX));
        if fin && self.fin.is_none() && end <= self.edge.max(self.nxt) && end >= self.nxt {
            self.fin = Some(end);
            // Data beyond the end that arrived early belongs to no stream.
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
            // Without room, the data counts as lost on the path.
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

    /// The blocks for the next acknowledgment, the most recent first, after a D-SACK if there is
    /// one.
    pub fn take_blocks(&mut self, most: usize) -> crate::options::Blocks {
        self.told.take_blocks(&self.ranges, self.nxt, most)
    }

    /// Whether there is a D-SACK to report.
    pub fn has_duplicate(&self) -> bool {
        self.told.has_duplicate()
    }

    /// The end of the room in the buffer.
    fn open(&self) -> Seq {
        let free = self.buffer.saturating_sub(self.nxt - self.read);
        self.nxt + free.min(self.clamp)
    }

    /// The edge that the window may have now, without silly windows: it opens by at least a segment
    /// or half the buffer (RFC 9293, 3.8.6.2.2).
    fn next_edge(&self) -> Seq {
        let open = self.open();
        let least = self.mss.min(self.buffer.min(self.clamp) / 2).max(1);
        if open >= self.edge + least {
            open
        } else {
            self.edge.max(self.nxt)
        }
    }

    /// The window field of the next header; advances the edge to it.
    pub fn advertise(&mut self) -> u16 {
        let room = self.next_edge() - self.nxt;
        let unit = 1 << self.scale;
        // Rounding takes back nothing that was advertised while the buffer has room. Without room
        // it must, or else segments below the scaling unit would move the edge forever (RFC 7323,
        // 2.4).
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

    /// Records that the program has read `length` more bytes; returns whether the peer is to be
    /// told of the window, which at least doubles, or of data for whose acknowledgment it has
    /// waited (Linux's `tcp_cleanup_rbuf`).
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
