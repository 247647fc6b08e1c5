//! Checks whether a segment belongs to this connection (RFC 5961, RFC 7323), and chooses the answer
//! to one that does not.

use super::input::Extent;
use super::{Connection, State};
use crate::header::{Flags, Header};
use crate::limiter::has_data;
use crate::rtt::MS;
use crate::seq::{self, Seq};

impl Connection {
    /// Checks timestamps (PAWS), sequence numbers, RST and SYN.
    pub(super) fn is_valid(&mut self, now: u64, header: &Header, payload: usize) -> bool {
        let flags = header.flags;
        let is_reset = flags.contains(Flags::RST);
        let extent = self.extent(header, payload);
        let begin = extent.start - u64::from(flags.contains(Flags::SYN));
        let end = extent.end + u64::from(extent.fin);
        let is_old = self.is_old(now, header) && !self.is_late_duplicate(now, header, begin, end);
        let is_acceptable = self.receiver.is_acceptable(begin, end);
        if !is_reset && (is_old || !is_acceptable) {
            self.note_duplicate(&extent);
            self.challenge(now, has_data(header, payload));
            return false;
        }
        if is_reset {
            if self.is_reset_by_peer(begin) {
                self.input_reset();
            } else if is_acceptable {
                self.challenge(now, false);
            }
            return false;
        }
        if flags.contains(Flags::SYN) && !self.is_syn_of_both(header, &extent) {
            self.challenge(now, false);
            return false;
        }
        true
    }

    /// Whether the timestamp is older than the latest one.
    fn is_old(&self, now: u64, header: &Header) -> bool {
        let recent = self.receiver.recent.filter(|_| self.stamps);
        recent.is_some_and(|recent| recent.is_after(now, header))
    }

    /// Whether this is a bare duplicate acknowledgment that another one has overtaken: its SACK
    /// blocks are valid, and nothing in it can be replayed (Linux's `tcp_disordered_ack`).
    fn is_late_duplicate(&self, now: u64, header: &Header, begin: Seq, end: Seq) -> bool {
        let (Some(recent), Some(stamps)) = (self.receiver.recent, header.options.timestamps) else {
            return false;
        };
        let is_bare =
            header.flags.contains(Flags::ACK) && begin == end && begin == self.receiver.nxt;
        let ack = seq::extend(self.sender.una, header.ack);
        let behind = u64::from(recent.value.wrapping_sub(stamps.value)) * MS;
        let window = u64::from(header.window) << self.scale;
        is_bare
            && ack == self.sender.una
            && window == self.sender.window
            && behind <= self.sender.rtt.rto(self.sender.backoff)
            && now >= behind
    }

    /// Whether the peer's RST has a valid sequence number (RFC 5961, 3.2): the next expected one,
    /// that of the FIN that was already acknowledged, or the one after the highest that was
    /// reported by SACK.
    fn is_reset_by_peer(&self, begin: Seq) -> bool {
        let nxt = self.receiver.nxt;
        let after_fin = matches!(
            self.state,
            State::CloseWait | State::LastAck | State::Closing
        );
        let highest = self.receiver.highest().filter(|_| self.sender.sack);
        begin == nxt || after_fin && begin == nxt - 1 || highest == Some(begin)
    }

    /// Whether this is the SYN-ACK that completes a simultaneous open, whose SYN is already known.
    fn is_syn_of_both(&self, header: &Header, extent: &Extent) -> bool {
        self.state == State::SynReceived
            && header.flags.contains(Flags::ACK)
            && extent.start == self.receiver.nxt
            && seq::extend(self.iss, header.ack) == self.sender.nxt
    }

    /// Records that known data came again: the peer may lack acknowledgments.
    pub(super) fn note_duplicate(&mut self, extent: &Extent) {
        let nxt = self.receiver.nxt;
        if extent.end > extent.start && extent.start < nxt {
            if self.sender.sack {
                let end = extent.end.min(nxt);
                self.receiver.note_duplicate(extent.start, end);
            }
            self.receiver.delay.be_quick_again(self.receiver.window());
        }
    }

    /// Sends an acknowledgment of the expected sequence number (RFC 5961: a challenge ACK). A
    /// segment with data is always answered, since its sender waits for an acknowledgment.
    pub(super) fn challenge(&mut self, now: u64, always: bool) {
        if self.limiter.allows(now, always) {
            if self.state == State::SynReceived {
                self.syn_ack = true;
            } else {
                self.receiver.delay.now = true;
            }
        }
    }
}
