//! TIME_WAIT (RFC 9293, 3.10.7.4): handles late segments, and SYNs that reopen a connection (RFC
//! 6191).

use crate::header::{Flags, Header};
use crate::limiter::{Limiter, has_data};
use crate::options::{Options, Timestamps};
use crate::paws::Recent;
use crate::rtt::{MS, SECOND};
use crate::seq::{self, Seq};

/// The duration of TIME_WAIT (Linux's `TCP_TIMEWAIT_LEN`).
const TIME_WAIT: u64 = 60 * SECOND;
/// The minimum distance of the next connection's sequence numbers from this one's: more than an
/// unscaled window.
const APART: u32 = 65535 + 2;

/// A connection in TIME_WAIT: the state needed for late segments. When no socket holds the
/// connection any more, and [`Connection::transmit`](crate::Connection::transmit) returns nothing,
/// this can be kept instead of it, as in Linux.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub(crate) local: u16,
    pub(crate) peer: u16,
    /// SND.NXT.
    pub(crate) sent: u32,
    /// RCV.NXT.
    pub(crate) expected: Seq,
    /// The window field of its headers.
    pub(crate) window: u16,
    /// The offset that is added to the clock of this end's timestamps.
    pub(crate) stamp_offset: u32,
    pub(crate) recent: Option<Recent>,
    pub(crate) due: u64,
    pub(crate) limiter: Limiter,
}

/// How a late segment is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// Send this; if the segment [`reopens`](Self::reopens) the connection, only if nobody listens.
    pub answer: Option<Header>,
    /// It is a SYN that may reopen the connection ([`Received::reopens`](crate::Received)).
    pub reopens: Option<u32>,
    /// A RST has ended TIME_WAIT.
    pub is_over: bool,
}

impl Waiting {
    pub(crate) fn new(now: u64, local: u16, peer: u16) -> Self {
        Waiting {
            local,
            peer,
            sent: 0,
            expected: 0,
            window: 0,
            stamp_offset: 0,
            recent: None,
            due: now + TIME_WAIT,
            limiter: Limiter::default(),
        }
    }

    /// When TIME_WAIT ends and this can be dropped, in ns.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Handles a late segment with `payload` bytes.
    pub fn on_segment(&mut self, now: u64, header: &Header, payload: usize) -> Late {
        let flags = header.flags;
        let (is_reset, has_ack) = (flags.contains(Flags::RST), flags.contains(Flags::ACK));
        let begin = seq::extend(self.expected, header.seq);
        let is_old = self
            .recent
            .is_some_and(|recent| recent.is_after(now, header));
        let is_bare = payload == 0 && !flags.contains(Flags::SYN) && !flags.contains(Flags::FIN);
        if !is_old && begin == self.expected && (is_bare || is_reset) {
            if !is_reset {
                self.due = now + TIME_WAIT;
            }
            return Late {
                is_over: is_reset,
                ..Late::default()
            };
        }
        if is_reset {
            return Late::default();
        }
        if is_old || has_ack {
            self.due = now + TIME_WAIT;
        }
        let answers = self.limiter.allows(now, has_data(header, payload));
        let opens = flags.contains(Flags::SYN) && !has_ack && !is_old;
        let is_later = self.recent.is_some_and(|recent| recent.is_before(header));
        Late {
            answer: answers.then(|| self.acknowledgment(now)),
            reopens: (opens && (begin > self.expected || is_later)).then(|| self.next_isn()),
            is_over: false,
        }
    }

    fn acknowledgment(&self, now: u64) -> Header {
        let value = ((now / MS) as u32).wrapping_add(self.stamp_offset);
        let timestamps = self.recent.map(|recent| Timestamps {
            value,
            echo: recent.value,
        });
        Header {
            source: self.local,
            destination: self.peer,
            seq: self.sent,
            ack: seq::wire(self.expected),
            flags: Flags::ACK,
            window: self.window,
            urgent: 0,
            options: Options {
                timestamps,
                ..Options::default()
            },
        }
    }

    /// The initial sequence number of a connection that replaces this one, above everything that it
    /// has sent (RFC 6191).
    pub fn next_isn(&self) -> u32 {
        self.sent.wrapping_add(APART).max(1)
    }

    /// Whether `connect` may reuse its ports at `now`, with [`next_isn`](Self::next_isn):
    /// timestamps distinguish the segments of both (`net.ipv4.tcp_tw_reuse`).
    pub fn may_be_reused(&self, now: u64) -> bool {
        self.recent.is_some_and(|recent| now > recent.at + SECOND)
    }
}
