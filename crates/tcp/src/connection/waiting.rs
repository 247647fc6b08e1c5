//! TIME_WAIT (RFC 9293, 3.10.7.4): late segments, and SYNs that open a connection anew (RFC 6191).

use super::checks::has_data;
use super::{Connection, State};
use crate::event::Events;
use crate::header::{Flags, Header};
use crate::rtt::SECOND;
use crate::seq;

/// How long it takes (Linux's `TCP_TIMEWAIT_LEN`).
const TIME_WAIT: u64 = 60 * SECOND;
/// How far the numbers of the next connection are from those of this one at least: more than a
/// window that is not scaled.
const APART: u32 = 65535 + 2;

impl Connection {
    /// Enters TIME_WAIT.
    pub(super) fn wait_for_late(&mut self, now: u64) {
        let ack_due = self.receiver.delay.now;
        self.release();
        self.receiver.delay.now = ack_due;
        self.state = State::TimeWait;
        self.wait_due = Some(now + TIME_WAIT);
        self.events |= Events::WRITABLE;
    }

    /// A segment in TIME_WAIT; returns the initial sequence number of the connection that it may
    /// open.
    pub(super) fn input_late(&mut self, now: u64, header: &Header, payload: usize) -> Option<u32> {
        let flags = header.flags;
        let (is_reset, has_ack) = (flags.has(Flags::RST), flags.has(Flags::ACK));
        let nxt = self.receiver.nxt;
        let begin = seq::extend(nxt, header.seq);
        let is_old = self.is_old(now, header);
        let is_bare = payload == 0 && !flags.has(Flags::SYN) && !flags.has(Flags::FIN);
        if !is_old && begin == nxt && (is_bare || is_reset) {
            if is_reset {
                self.end(None);
            } else {
                self.wait_due = Some(now + TIME_WAIT);
            }
            return None;
        }
        if is_reset {
            return None;
        }
        if is_old || has_ack {
            self.wait_due = Some(now + TIME_WAIT);
        }
        self.challenge(now, has_data(header, payload));
        let opens = flags.has(Flags::SYN) && !has_ack && !is_old;
        (opens && (begin > nxt || self.is_stamped_later(header))).then(|| self.next_isn())
    }

    /// Whether the timestamp is later than what came before.
    fn is_stamped_later(&self, header: &Header) -> bool {
        let recent = self.receiver.stamp;
        recent
            .zip(header.options.timestamps)
            .is_some_and(|((recent, _), stamps)| seq::is_older(recent, stamps.value))
    }

    /// The initial sequence number of a connection that takes the place of this one in TIME_WAIT,
    /// beyond all that this one has sent (RFC 6191; Linux has the same for `connect` with
    /// `net.ipv4.tcp_tw_reuse`).
    pub fn next_isn(&self) -> u32 {
        seq::wire(self.sender.nxt).wrapping_add(APART).max(1)
    }

    /// Whether `connect` may take the place of this connection at `now`: it waits in TIME_WAIT, and
    /// timestamps tell the segments of both apart (`net.ipv4.tcp_tw_reuse`). The new one has
    /// [`next_isn`](Self::next_isn).
    pub fn may_be_reused(&self, now: u64) -> bool {
        let stamped = self.receiver.stamp.filter(|_| self.stamps);
        self.state == State::TimeWait && stamped.is_some_and(|(_, at)| now > at + SECOND)
    }
}
