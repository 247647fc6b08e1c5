//! The data that was sent but not acknowledged: the scoreboard of RFC 6675, with the times that RFC
//! 8985 needs. A record is one transmission, of one segment or of several that the device splits.
//!
//! The records are a tree, so that an acknowledgment costs at most a logarithm of their number for
//! each record whose state it changes, although a peer chooses both.

use crate::seq::Seq;
use tree::{Member, Tree};

/// The maximum number of records for new data, which take about 600 KiB. At the maximum, no new
/// data is sent until something is acknowledged, and a SACK block counts only as far as it cuts no
/// record.
pub const MOST: usize = 8192;
/// The maximum when lost data is cut for its retransmission, which must not be stopped.
const MOST_CUT: usize = 2 * MOST;

/// The fate of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In flight, as far as is known.
    InFlight,
    /// Considered lost, and not retransmitted yet.
    Lost,
    /// Arrived out of order.
    Sacked,
}

/// One record: `[start, end)` of the sequence space.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The first sequence number.
    pub start: Seq,
    /// The sequence number after the last.
    pub end: Seq,
    /// When it was last sent, in ns.
    pub sent_at: u64,
    /// Its fate.
    pub state: State,
    /// Whether it was sent more than once.
    pub retransmitted: bool,
}

impl Sent {
    fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// The sums by which records are found.
#[derive(Clone, Copy, PartialEq)]
pub struct Sum {
    any_lost: bool,
    /// The earliest transmission in flight: its time and its end.
    oldest: (u64, Seq),
}

impl Member for Sent {
    type Key = Seq;
    type Sum = Sum;

    /// The end, since acknowledgments move the start.
    fn key(&self) -> Seq {
        self.end
    }

    fn sum(&self) -> Sum {
        let is_underway = self.state == State::InFlight;
        Sum {
            any_lost: self.state == State::Lost,
            oldest: if is_underway {
                (self.sent_at, self.end)
            } else {
                NEVER
            },
        }
    }

    fn join(one: Sum, other: Sum) -> Sum {
        Sum {
            any_lost: one.any_lost || other.any_lost,
            oldest: one.oldest.min(other.oldest),
        }
    }
}

/// Later than any transmission.
pub const NEVER: (u64, Seq) = (u64::MAX, Seq::MAX);

/// There is no memory, or there are [`MOST`] records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// All records in the order of their sequence numbers, without gaps.
#[derive(Default)]
pub struct Scoreboard {
    records: Tree<Sent>,
    /// The end of the last record.
    end: Seq,
    in_flight: u64,
    lost: u64,
    sacked: u64,
}

impl Scoreboard {
    /// The records in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &Sent> {
        core::iter::successors(self.head(), |sent| self.containing(sent.end))
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether everything is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The oldest record.
    pub fn head(&self) -> Option<&Sent> {
        self.containing(0)
    }

    /// The record that contains a sequence number; the first record for numbers below all.
    fn containing(&self, seq: Seq) -> Option<&Sent> {
        self.records.from(&(seq + 1))
    }

    /// The number of bytes in flight: "pipe" in RFC 6675.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The number of bytes considered lost and not retransmitted.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The number of bytes that have arrived out of order.
    pub fn sacked(&self) -> u64 {
        self.sacked
    }

    /// The earliest transmission in flight: its time and its end. [`NEVER`] if nothing is in
    /// flight.
    pub fn oldest(&self) -> (u64, Seq) {
        self.records.sum().map_or(NEVER, |sum| sum.oldest)
    }

    /// Removes all records and frees the memory.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Makes room for one more record, if there are fewer than `most`.
    fn reserve(&mut self, most: usize) -> Result<(), Full> {
        if self.records.len() >= most {
            return Err(Full);
        }
        self.records.reserve(1).map_err(|_| Full)
    }

    /// Adds data that is sent for the first time.
    ///
    /// # Errors
    /// [`Full`].
    pub fn push(&mut self, start: Seq, end: Seq, now: u64) -> Result<(), Full> {
        self.reserve(MOST)?;
        self.insert(Sent {
            start,
            end,
            sent_at: now,
            state: State::InFlight,
            retransmitted: false,
        })?;
        self.end = end;
        Ok(())
    }

    fn insert(&mut self, sent: Sent) -> Result<(), Full> {
        self.records.insert(sent).map_err(|_| Full)?;
        *self.count(sent.state) += sent.len();
        Ok(())
    }

    fn remove(&mut self, sent: &Sent) {
        if self.records.remove(&sent.end).is_some() {
            *self.count(sent.state) -= sent.len();
        }
    }

    /// Replaces a record by another one with the same end.
    fn replace(&mut self, before: &Sent, after: Sent) {
        if self.records.change(&before.end, |sent| *sent = after) {
            *self.count(before.state) -= before.len();
            *self.count(after.state) += after.len();
        }
    }

    fn set(&mut self, sent: &Sent, state: State) {
        self.replace(sent, Sent { state, ..*sent });
    }

    fn count(&mut self, state: State) -> &mut u64 {
        match state {
            State::InFlight => &mut self.in_flight,
            State::Lost => &mut self.lost,
            State::Sacked => &mut self.sacked,
        }
    }

    /// Removes everything below `una`; `each` is called for what was not known to have arrived.
    pub fn acknowledge(&mut self, una: Seq, mut each: impl FnMut(&Sent)) {
        while let Some(&head) = self.head().filter(|head| head.start < una) {
            let end = head.end.min(una);
            if head.end == end {
                self.remove(&head);
            } else {
                self.replace(&head, Sent { start: una, ..head });
            }
            if head.state != State::Sacked {
                each(&Sent { end, ..head });
            }
        }
    }

    /// Marks `[start, end)` as arrived; `each` is called for what was not known to have arrived.
    /// Within a record only whole segments of `mss` bytes count, so that no peer can split records
    /// arbitrarily.
    pub fn sack(&mut self, start: Seq, end: Seq, mss: u32, mut each: impl FnMut(&Sent)) {
        let mss = u64::from(mss.max(1));
        let mut at = start;
        while let Some(&sent) = self.containing(at).filter(|sent| sent.start < end) {
            at = sent.end;
            let before = start.saturating_sub(sent.start).next_multiple_of(mss);
            let first = sent.start + before;
            let last = if sent.end <= end {
                sent.end
            } else {
                first + end.saturating_sub(first) / mss * mss
            };
            if sent.state == State::Sacked || first >= last {
                continue;
            }
            if let Ok(part) = self.part(&sent, first, last, MOST) {
                each(&part);
                self.set(&part, State::Sacked);
                self.merge(&part);
            }
        }
    }

    /// Merges a part with neighbours that have arrived, too: their times are no longer needed.
    fn merge(&mut self, part: &Sent) {
        let Some(mut whole) = self.records.get(&part.end).copied() else {
            return;
        };
        let is_sacked = |sent: &&Sent| sent.state == State::Sacked;
        if let Some(&next) = self.containing(whole.end).filter(is_sacked) {
            self.remove(&whole);
            let start = whole.start;
            whole = Sent { start, ..next };
            self.replace(&next, whole);
        }
        if let Some(&previous) = self.records.get(&whole.start).filter(is_sacked) {
            self.remove(&previous);
            let start = previous.start;
            self.replace(&whole, Sent { start, ..whole });
        }
    }

    /// Makes `[first, last)`, which lies in `sent`, a record of its own, if there are fewer than
    /// `most`.
    fn part(&mut self, sent: &Sent, first: Seq, last: Seq, most: usize) -> Result<Sent, Full> {
        let mut rest = *sent;
        if first > rest.start {
            rest = self.split(&rest, first, most)?;
        }
        if last < rest.end {
            self.split(&rest, last, most)?;
            rest.end = last;
        }
        Ok(rest)
    }

    /// Splits a record at `middle`; returns the second one.
    fn split(&mut self, sent: &Sent, middle: Seq, most: usize) -> Result<Sent, Full> {
        self.reserve(most)?;
        let rest = Sent {
            start: middle,
            ..*sent
        };
        self.replace(sent, rest);
        self.insert(Sent {
            end: middle,
            ..*sent
        })?;
        Ok(rest)
    }

    /// Marks those records in flight as lost that were sent before `newest` (time and end) and no
    /// later than `by`; returns the number of bytes.
    pub fn lose_older(&mut self, newest: (u64, Seq), by: u64) -> u64 {
        let before = self.lost;
        let is_lost = |sum: &Sum| sum.oldest < newest && sum.oldest.0 <= by;
        while let Some(&sent) = self.records.first(is_lost) {
            self.set(&sent, State::Lost);
        }
        self.lost - before
    }

    /// Marks the oldest record as lost, if it is in flight.
    pub fn lose_head(&mut self) {
        if let Some(&head) = self.head().filter(|head| head.state == State::InFlight) {
            self.set(&head, State::Lost);
        }
    }

    /// Marks the first `length` bytes as lost, if they are in flight; returns the number of bytes.
    pub fn lose_first(&mut self, length: u32) -> u64 {
        let before = self.lost;
        let underway = self.head().filter(|head| head.state == State::InFlight);
        if let Some(&head) = underway {
            let end = head.end.min(head.start + u64::from(length));
            // A record that cannot be split is lost as a whole.
            let part = self.part(&head, head.start, end, MOST_CUT).unwrap_or(head);
            self.set(&part, State::Lost);
        }
        self.lost - before
    }

    /// Marks the records in flight that are longer than `most` as lost.
    pub fn lose_longer(&mut self, most: u64) {
        let mut at = 0;
        while let Some(&sent) = self.containing(at) {
            at = sent.end;
            if sent.state == State::InFlight && sent.len() > most {
                self.set(&sent, State::Lost);
            }
        }
    }

    /// Marks nothing as lost any more.
    pub fn unmark_lost(&mut self) {
        while let Some(&sent) = self.records.first(|sum| sum.any_lost) {
            self.set(&sent, State::InFlight);
        }
    }

    /// Marks nothing as arrived any more: the receiver has discarded it.
    pub fn forget_sacks(&mut self) {
        let mut at = 0;
        while let Some(&sent) = self.containing(at) {
            at = sent.end;
            if sent.state == State::Sacked {
                self.set(&sent, State::Lost);
            }
        }
    }

    /// The start of the first lost record.
    pub fn first_lost(&self) -> Option<Seq> {
        let lost = self.records.first(|sum| sum.any_lost)?;
        Some(lost.start)
    }

    /// Retransmits the first lost record, at most `most` bytes of it; returns its range.
    pub fn retransmit_lost(&mut self, most: u64, now: u64) -> Option<(Seq, Seq)> {
        let lost = *self.records.first(|sum| sum.any_lost)?;
        let end = lost.end.min(lost.start + most);
        // A record that cannot be split counts as sent as a whole: the rest is detected as lost
        // later.
        let part = self.part(&lost, lost.start, end, MOST_CUT).unwrap_or(lost);
        self.stamp(&part, now);
        Some((part.start, end))
    }

    /// Retransmits the last record, if it has not arrived, at most `most` bytes at its end: a tail
    /// loss probe.
    pub fn retransmit_last(&mut self, most: u64, now: u64) -> Option<(Seq, Seq)> {
        let last = self.records.get(&self.end);
        let last = *last.filter(|last| last.state == State::InFlight)?;
        let start = last.start.max(last.end.saturating_sub(most));
        let part = self.part(&last, start, last.end, MOST_CUT).ok()?;
        self.stamp(&part, now);
        Some((part.start, part.end))
    }

    fn stamp(&mut self, sent: &Sent, now: u64) {
        let again = Sent {
            sent_at: now,
            retransmitted: true,
            state: State::InFlight,
            ..*sent
        };
        self.replace(sent, again);
    }
}
