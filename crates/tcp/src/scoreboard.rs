//! What is sent and not acknowledged: the scoreboard of RFC 6675, with the times that RFC 8985
//! needs. A record is one transmission, of one segment or of several that the device cuts.

use crate::seq::Seq;
use alloc::collections::VecDeque;

/// The most records: 512 KiB. Beyond them nothing new is sent until something is acknowledged.
pub const MOST: usize = 16384;

/// What became of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Underway, as far as is known.
    InFlight,
    /// Taken as lost and not sent again yet.
    Lost,
    /// Arrived out of order.
    Sacked,
}

/// One record: `[start, end)` of the sequence space.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its first number.
    pub start: Seq,
    /// The number after its last.
    pub end: Seq,
    /// When it was sent last, in ns.
    pub sent_at: u64,
    /// What became of it.
    pub state: State,
    /// Whether it was sent more than once.
    pub retransmitted: bool,
}

impl Sent {
    fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// There is no memory, or there are [`MOST`] records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// All records, by sequence number, without gaps.
#[derive(Default)]
pub struct Scoreboard {
    records: VecDeque<Sent>,
    in_flight: u64,
    lost: u64,
    sacked: u64,
}

impl Scoreboard {
    /// The records, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Sent> {
        self.records.iter()
    }

    /// Whether everything is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The oldest record.
    pub fn head(&self) -> Option<&Sent> {
        self.records.front()
    }

    /// Bytes in flight: "pipe" of RFC 6675.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Bytes that are taken as lost and not sent again.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes that have arrived out of order.
    pub fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Forgets everything and gives the memory back.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Makes room for one record more.
    ///
    /// # Errors
    /// [`Full`].
    pub fn reserve(&mut self) -> Result<(), Full> {
        if self.records.len() >= MOST {
            return Err(Full);
        }
        self.records.try_reserve(1).map_err(|_| Full)
    }

    /// Adds what is sent for the first time, in the room that [`reserve`](Self::reserve) made.
    pub fn push(&mut self, start: Seq, end: Seq, now: u64) {
        self.records.push_back(Sent {
            start,
            end,
            sent_at: now,
            state: State::InFlight,
            retransmitted: false,
        });
        self.in_flight += end - start;
    }

    fn count(&mut self, state: State) -> &mut u64 {
        match state {
            State::InFlight => &mut self.in_flight,
            State::Lost => &mut self.lost,
            State::Sacked => &mut self.sacked,
        }
    }

    fn set(&mut self, at: usize, state: State) {
        let (before, len) = (self.records[at].state, self.records[at].len());
        *self.count(before) -= len;
        *self.count(state) += len;
        self.records[at].state = state;
    }

    /// Takes out all that lies below `una`; `each` sees what was not known to have arrived.
    pub fn acknowledge(&mut self, una: Seq, mut each: impl FnMut(&Sent)) {
        while let Some(&head) = self.records.front().filter(|head| head.start < una) {
            let part = Sent {
                end: head.end.min(una),
                ..head
            };
            *self.count(part.state) -= part.len();
            if head.end <= una {
                self.records.pop_front();
            } else {
                self.records[0].start = una;
            }
            if part.state != State::Sacked {
                each(&part);
            }
        }
        if self.records.is_empty() && self.records.capacity() > 256 {
            self.records = VecDeque::new();
        }
    }

    /// Marks `[start, end)` as arrived; `each` sees what was not known to be. Within a record only
    /// whole segments of `mss` bytes count, so that no peer splits records at will.
    pub fn sack(&mut self, start: Seq, end: Seq, mss: u32, mut each: impl FnMut(&Sent)) {
        let mut at = self.records.partition_point(|record| record.end <= start);
        while let Some(&record) = self.records.get(at).filter(|record| record.start < end) {
            if record.state == State::Sacked {
                at += 1;
                continue;
            }
            let mss = u64::from(mss.max(1));
            let before = start.saturating_sub(record.start).next_multiple_of(mss);
            if before >= record.len() {
                at += 1;
                continue;
            }
            if before > 0 {
                if self.split(at, record.start + before).is_err() {
                    return;
                }
                at += 1;
                continue;
            }
            if record.end > end {
                let whole = (end - record.start) / mss * mss;
                if whole == 0 || self.split(at, record.start + whole).is_err() {
                    return;
                }
            }
            each(&self.records[at]);
            self.set(at, State::Sacked);
            at = self.merge(at) + 1;
        }
    }

    /// Makes one record of what has arrived on both sides: its times are of no use any more.
    fn merge(&mut self, mut at: usize) -> usize {
        let is_sacked = |record: Option<&Sent>| record.is_some_and(|r| r.state == State::Sacked);
        if is_sacked(self.records.get(at + 1)) {
            self.records[at].end = self.records[at + 1].end;
            self.records.remove(at + 1);
        }
        if at > 0 && is_sacked(self.records.get(at - 1)) {
            self.records[at - 1].end = self.records[at].end;
            self.records.remove(at);
            at -= 1;
        }
        at
    }

    fn split(&mut self, at: usize, middle: Seq) -> Result<(), Full> {
        self.reserve()?;
        let rest = Sent {
            start: middle,
            ..self.records[at]
        };
        self.records[at].end = middle;
        self.records.insert(at + 1, rest);
        Ok(())
    }

    /// Takes those in flight as lost that `is_lost` says, up to where it says `None`; returns how
    /// many bytes.
    pub fn mark_lost(&mut self, mut is_lost: impl FnMut(&Sent) -> Option<bool>) -> u64 {
        let before = self.lost;
        for at in 0..self.records.len() {
            match is_lost(&self.records[at]) {
                None => break,
                Some(true) if self.records[at].state == State::InFlight => {
                    self.set(at, State::Lost);
                }
                Some(_) => {}
            }
        }
        self.lost - before
    }

    /// Takes the first `length` bytes as lost, if they are in flight; returns how many are.
    pub fn mark_head_lost(&mut self, length: u32) -> u64 {
        let Some(&head) = self.records.front() else {
            return 0;
        };
        if head.state != State::InFlight {
            return 0;
        }
        let length = u64::from(length);
        if head.len() > length && self.split(0, head.start + length).is_err() {
            return 0;
        }
        self.set(0, State::Lost);
        self.records[0].len()
    }

    /// Nothing counts as lost any more.
    pub fn unmark_lost(&mut self) {
        for at in 0..self.records.len() {
            if self.records[at].state == State::Lost {
                self.set(at, State::InFlight);
            }
        }
    }

    /// Nothing counts as arrived any more: the receiver has thrown it away.
    pub fn forget_sacks(&mut self) {
        for at in 0..self.records.len() {
            if self.records[at].state == State::Sacked {
                self.set(at, State::Lost);
            }
        }
    }

    /// Sends the first that is lost again, at most `most` bytes of it; returns its range.
    pub fn retransmit_lost(&mut self, most: u64, now: u64) -> Option<(Seq, Seq)> {
        if self.lost == 0 {
            return None;
        }
        let at = self
            .records
            .iter()
            .position(|record| record.state == State::Lost)?;
        if self.records[at].len() > most {
            self.split(at, self.records[at].start + most).ok()?;
        }
        self.set(at, State::InFlight);
        self.stamp(at, now)
    }

    /// Sends the last that has not arrived again, at most `most` bytes of its end: a probe of the
    /// tail.
    pub fn retransmit_last(&mut self, most: u64, now: u64) -> Option<(Seq, Seq)> {
        let mut at = self
            .records
            .iter()
            .rposition(|record| record.state == State::InFlight)?;
        if self.records[at].len() > most {
            self.split(at, self.records[at].end - most).ok()?;
            at += 1;
        }
        self.stamp(at, now)
    }

    fn stamp(&mut self, at: usize, now: u64) -> Option<(Seq, Seq)> {
        let record = &mut self.records[at];
        record.sent_at = now;
        record.retransmitted = true;
        Some((record.start, record.end))
    }
}
