//! Chooses the segments to send now.

use super::{Connection, State};
use crate::header::{Flags, Header};
use crate::options::Options;
use crate::seq::{self, Seq};
use core::ops::Range;

/// A segment to send, or several: the device or the kernel cuts them at multiples of
/// [`mss`](Self::mss).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its header.
    pub header: Header,
    /// The range of this end's stream that is its payload.
    pub payload: Range<u64>,
    /// The payload of a full segment.
    pub mss: u32,
}

impl Connection {
    /// The next segment to send at `now`. Call this after each event until it returns None.
    ///
    /// If it cannot be sent, it counts as lost on the path.
    pub fn transmit(&mut self, now: u64) -> Option<Transmit> {
        let now = self.tick(now);
        let transmit = self.next_transmit(now);
        if let Some(transmit) = &transmit {
            self.counts.went(transmit);
        }
        transmit
    }

    fn next_transmit(&mut self, now: u64) -> Option<Transmit> {
        if let Some(header) = self.reset.take() {
            return Some(self.bare(header));
        }
        if self.syn || self.syn_ack {
            let header = self.syn_header(now);
            return Some(self.bare(header));
        }
        if !self.is_synchronised() {
            return None;
        }
        // SACK blocks are sent in separate segments, so that they take no room from data.
        let has_blocks = self.receiver.has_holes() || self.receiver.has_duplicate();
        if self.receiver.delay.now && has_blocks {
            return Some(self.acknowledgment(now));
        }
        if let Some(transmit) = self.transmit_data(now) {
            return Some(transmit);
        }
        self.check_persist(now);
        if self.probes.take_urgent() {
            return Some(self.probe(now, self.sender.una));
        }
        if self.probes.take() {
            return Some(self.probe(now, self.sender.una - 1));
        }
        self.receiver.delay.now.then(|| self.acknowledgment(now))
    }

    /// The maximum payload of one transmission. While there is urgent data, each segment needs an
    /// urgent pointer of its own.
    fn most_payload(&self) -> u64 {
        let cuts = self.config.most_payload > u32::from(self.config.mss) && !self.is_urgent();
        let most = if cuts { self.config.most_payload } else { 0 };
        u64::from(most.max(self.sender.mss))
    }

    fn bare(&self, header: Header) -> Transmit {
        Transmit {
            header,
            payload: 0..0,
            mss: self.sender.mss,
        }
    }

    fn transmit_data(&mut self, now: u64) -> Option<Transmit> {
        if matches!(self.state, State::FinWait2 | State::TimeWait) {
            return None;
        }
        let stamp = self.stamp(now);
        let most = self.most_payload();
        if let Some(range) = self.sender.retransmission(now, stamp, most) {
            return Some(self.data(now, range));
        }
        self.sender
            .wake_from_idle(now, self.config.slow_start_after_idle);
        if let Some(end) = self.next_end() {
            // Without memory for the record nothing is sent, and the persist timer retries.
            let start = self.sender.nxt;
            self.sender.send(now, end).ok()?;
            if !(end - start).is_multiple_of(u64::from(self.sender.mss)) {
                self.small = end;
            }
            self.probes.stop_persist();
            self.force &= end < self.queued;
            self.receiver.delay.on_sent_data(now);
            return Some(self.data(now, (start, end)));
        }
        if self.sender.probe {
            self.sender.probe = false;
            let range = self.sender.probe_tail(now, stamp)?;
            return Some(self.data(now, range));
        }
        None
    }

    /// The end of the new data for the next transmission: as much as both windows allow, in whole
    /// segments except at the end of the queue.
    fn next_end(&mut self) -> Option<Seq> {
        let nxt = self.sender.nxt;
        let waiting = self.queued.saturating_sub(nxt);
        let fin = self.fin && nxt <= self.queued;
        if waiting == 0 && !fin {
            return None;
        }
        let mss = u64::from(self.sender.mss);
        let allowed = if self.sender.probe {
            mss
        } else {
            self.sender.allowed()
        };
        if allowed == 0 {
            self.sender.note_limited();
            return None;
        }
        let window = self.sender.window_room();
        let room = window.min(allowed).min(self.most_payload());
        if waiting > room {
            let whole = room / mss * mss;
            if allowed <= window && allowed < waiting {
                self.sender.note_limited();
            }
            // A small piece is sent only when the persist timer requires it.
            let piece = if self.force && self.sender.board.is_empty() {
                room
            } else {
                0
            };
            let length = if whole > 0 { whole } else { piece };
            return (length > 0).then_some(nxt + length);
        }
        let tail = waiting % mss;
        if fin && waiting < window {
            return Some(self.queued + 1);
        }
        if tail == 0 || self.may_send_small() {
            return (waiting > 0).then_some(self.queued);
        }
        (waiting > tail).then_some(nxt + waiting - tail)
    }

    /// Whether less than a full segment may be sent (RFC 9293, 3.7.4, in Minshall's variant;
    /// tcp(7): TCP_CORK, TCP_NODELAY).
    fn may_send_small(&self) -> bool {
        if self.force || self.fin || self.sender.probe || self.is_urgent() {
            return true;
        }
        if self.cork || self.more {
            return false;
        }
        self.config.nodelay || self.small <= self.sender.una
    }

    /// Whether there is unacknowledged urgent data (Linux's `tcp_urg_mode`).
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent.is_some_and(|urgent| urgent > self.sender.una)
    }

    /// A segment with the data in the range, which may include FIN.
    fn data(&mut self, now: u64, (start, end): (Seq, Seq)) -> Transmit {
        let fin = self.fin_number().is_some_and(|fin| end > fin);
        let payload_end = end - u64::from(fin);
        let mut flags = Flags::ACK;
        if payload_end == self.queued && payload_end > start {
            flags |= Flags::PSH;
        }
        if fin {
            flags |= Flags::FIN;
        }
        let mut header = self.header(now, start, flags);
        self.set_urgent(&mut header, start);
        let first = self.iss + 1;
        Transmit {
            header,
            payload: start - first..payload_end - first,
            mss: self.sender.mss,
        }
    }

    fn set_urgent(&self, header: &mut Header, start: Seq) {
        let ahead = self.urgent.and_then(|urgent| urgent.checked_sub(start));
        if let Some(ahead) = ahead.filter(|ahead| *ahead > 0) {
            header.flags |= Flags::URG;
            header.urgent = ahead.min(u64::from(u16::MAX)) as u16;
        }
    }

    /// A header with the fields of every segment: the window, the acknowledgment, timestamps.
    fn header(&mut self, now: u64, start: Seq, flags: Flags) -> Header {
        let window = self.receiver.advertise();
        self.receiver.delay.sent();
        Header {
            source: self.identity.local,
            destination: self.identity.peer,
            seq: seq::wire(start),
            ack: seq::wire(self.receiver.nxt),
            flags,
            window,
            urgent: 0,
            options: Options {
                timestamps: self.timestamps(now),
                ..Options::default()
            },
        }
    }

    fn acknowledgment(&mut self, now: u64) -> Transmit {
        let mut header = self.header(now, self.acceptable(), Flags::ACK);
        if self.sender.sack {
            let most = if self.stamps { 3 } else { 4 };
            header.options.sack = self.receiver.take_blocks(most);
        } else {
            self.receiver.take_blocks(0);
        }
        self.bare(header)
    }

    /// A probe of a closed window, or a keepalive: its sequence number is below the one that the
    /// peer expects, so that the peer answers. One at that number is not answered, but its urgent
    /// pointer counts (RFC 9293, 3.8.5).
    fn probe(&mut self, now: u64, seq: Seq) -> Transmit {
        let mut header = self.header(now, seq, Flags::ACK);
        self.set_urgent(&mut header, seq);
        self.bare(header)
    }

    /// The RST with which this end ends the connection.
    pub(super) fn reset_header(&self) -> Header {
        Header {
            source: self.identity.local,
            destination: self.identity.peer,
            seq: seq::wire(self.acceptable()),
            ack: seq::wire(self.receiver.nxt),
            flags: Flags::RST | Flags::ACK,
            ..Header::default()
        }
    }

    /// The sequence number of a segment without payload: the next one, unless the peer has shrunk
    /// its window and would not accept it (Linux's `tcp_acceptable_seq`). A difference below one
    /// scaling unit is rounding.
    fn acceptable(&self) -> Seq {
        let end = self.sender.una + self.sender.window;
        if self.is_synchronised() && self.sender.nxt >= end + (1 << self.scale) {
            end
        } else {
            self.sender.nxt
        }
    }
}
