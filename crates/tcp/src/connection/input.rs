//! A segment arrives (RFC 9293, 3.10.7.4).

use super::{Connection, State};
use crate::event::{Error, Events};
use crate::header::{Flags, Header};
use crate::paws::Recent;
use crate::receiver::Placement;
use crate::sender::Arrival;
use crate::seq::{self, Seq};

/// What the user of a connection must do after a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Store these bytes of its payload.
    pub placement: Option<Placement>,
    /// It is a SYN that may replace this connection, which is in TIME_WAIT (RFC 6191): drop the
    /// connection, and pass the SYN with this initial sequence number to
    /// [`Listener::on_reopening`](crate::Listener::on_reopening). If nobody listens, continue as
    /// after any segment: it is answered as an old one.
    pub reopens: Option<u32>,
}

/// The sequence numbers of a segment's payload.
pub(super) struct Extent {
    /// The sequence number of the first byte of payload.
    pub start: Seq,
    /// The sequence number after the last byte.
    pub end: Seq,
    pub fin: bool,
}

impl Connection {
    /// Handles a segment of this connection with `payload` bytes.
    pub fn on_segment(&mut self, now: u64, header: &Header, payload: usize) -> Received {
        self.input(now, header, payload, true)
    }

    /// Handles a segment without memory for its payload: everything else counts. The peer gets an
    /// acknowledgment, so that it does not consider this end dead before it retransmits.
    pub fn on_segment_without_memory(&mut self, now: u64, header: &Header, payload: usize) {
        self.input(now, header, payload, false);
    }

    /// Whether a segment contains the next expected byte of the peer's stream.
    pub fn is_next(&self, header: &Header, payload: usize) -> bool {
        let extent = self.extent(header, payload);
        (extent.start..extent.end).contains(&self.receiver.nxt)
    }

    fn input(&mut self, now: u64, header: &Header, payload: usize, is_kept: bool) -> Received {
        let now = self.tick(now);
        self.counts.came(payload);
        match self.state {
            State::Closed => {
                self.reset = header.reset(payload);
                return Received::default();
            }
            State::SynSent => {
                if !self.input_syn_sent(now, header) {
                    return Received::default();
                }
            }
            State::TimeWait => return self.input_late(now, header, payload),
            _ => {
                if !self.is_valid(now, header, payload) || !self.input_ack(now, header, payload) {
                    return Received::default();
                }
            }
        }
        self.probes.heard(now);
        self.take_urgent(header);
        let placement = self.input_data(now, header, payload, is_kept);
        Received {
            placement,
            reopens: None,
        }
    }

    fn input_late(&mut self, now: u64, header: &Header, payload: usize) -> Received {
        let Some(waiting) = &mut self.late else {
            return Received::default();
        };
        let late = waiting.on_segment(now, header, payload);
        self.wait_due = Some(waiting.due());
        self.reset = self.reset.or(late.answer);
        if late.is_over {
            self.end(None);
        }
        Received {
            placement: None,
            reopens: late.reopens,
        }
    }

    pub(super) fn extent(&self, header: &Header, payload: usize) -> Extent {
        let syn = u64::from(header.flags.contains(Flags::SYN));
        let start = seq::extend(self.receiver.nxt, header.seq) + syn;
        let end = start + payload as u64;
        Extent {
            start,
            end,
            fin: header.flags.contains(Flags::FIN),
        }
    }

    pub(super) fn input_reset(&mut self) {
        let error = match self.state {
            State::SynReceived => Some(Error::ConnectionRefused),
            State::CloseWait => Some(Error::BrokenPipe),
            State::TimeWait => None,
            _ => Some(Error::ConnectionReset),
        };
        self.end(error.filter(|_| !self.orphan));
    }

    /// Handles the acknowledgment; returns whether the segment is to be processed further.
    fn input_ack(&mut self, now: u64, header: &Header, payload: usize) -> bool {
        if !header.flags.contains(Flags::ACK) {
            return false;
        }
        let ack = seq::extend(self.sender.una, header.ack);
        if self.state == State::SynReceived {
            if ack != self.iss + 1 {
                self.reset = header.reset(0);
                return false;
            }
            self.establish(now, header);
        } else if ack > self.sender.nxt || ack < self.least_ack() {
            self.challenge(now, false);
            return false;
        }
        let extent = self.extent(header, payload);
        self.take_stamp(now, header, extent.start);
        let moved = self.take_window(header, &extent, ack);
        if ack >= self.sender.una {
            let is_bare = payload == 0 && !extent.fin && !moved;
            self.take_ack(now, header, ack, is_bare);
        }
        true
    }

    /// The lowest valid acknowledgment: one window below, but not below the start of the stream
    /// (RFC 5961, 5.2).
    fn least_ack(&self) -> Seq {
        let before = self.sender.most_window.min(self.sender.totals.acked);
        self.sender.una - before
    }

    fn take_stamp(&mut self, now: u64, header: &Header, start: Seq) {
        let Some(stamps) = header.options.timestamps.filter(|_| self.stamps) else {
            return;
        };
        let recent = self.receiver.recent;
        let newer = recent.is_none_or(|recent| recent.yields_to(now, stamps.value));
        if newer && start <= self.receiver.acked {
            self.receiver.recent = Some(Recent {
                value: stamps.value,
                at: now,
            });
        }
    }

    /// Updates the peer's window, if the segment is not older than the last one that did so;
    /// returns whether the window changed.
    fn take_window(&mut self, header: &Header, extent: &Extent, ack: Seq) -> bool {
        let scale = if header.flags.contains(Flags::SYN) {
            0
        } else {
            self.scale
        };
        let window = u64::from(header.window) << scale;
        let before = self.sender.window;
        let is_newer = ack > self.sender.una
            || extent.start > self.window_seq
            || extent.start == self.window_seq && (window > before || window == 0);
        if is_newer && ack >= self.sender.una {
            self.window_seq = extent.start;
            self.set_window(window);
            if window > before {
                self.events |= Events::WRITABLE;
            }
        }
        self.sender.window != before
    }

    pub(super) fn set_window(&mut self, window: u64) {
        self.sender.window = window;
        if window > self.sender.most_window {
            self.sender.most_window = window;
            self.sender.bound_mss();
        }
    }

    fn take_ack(&mut self, now: u64, header: &Header, ack: Seq, is_bare: bool) {
        let mut blocks = [(0, 0); 4];
        let sack = header.options.sack.as_slice();
        for (block, &(start, end)) in blocks.iter_mut().zip(sack) {
            *block = (seq::extend(ack, start), seq::extend(ack, end));
        }
        let offset = self.identity.stamp_offset;
        let acked = self.sender.on_ack(&Arrival {
            now,
            ack,
            sack: &blocks[..sack.len()],
            echo: header
                .options
                .timestamps
                .filter(|_| self.stamps)
                .map(|stamps| stamps.echo)
                .filter(|echo| *echo != 0),
            is_bare,
            stamp: &|time| super::stamp(offset, time),
        });
        self.probes.answered();
        if acked > 0 {
            self.soft_error = None;
            self.events |= Events::WRITABLE;
        }
        if self.fin_number().is_some_and(|fin| ack > fin) {
            self.input_fin_acked(now);
        }
    }

    fn input_fin_acked(&mut self, now: u64) {
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                if self.orphan {
                    self.wait_for_fin(now);
                }
            }
            State::Closing => self.wait_for_late(now),
            State::LastAck => self.end(None),
            _ => {}
        }
    }

    /// Handles the urgent pointer, which names the byte after the urgent one, as in Linux unless
    /// `net.ipv4.tcp_stdurg` is set.
    fn take_urgent(&mut self, header: &Header) {
        if !header.flags.contains(Flags::URG) {
            return;
        }
        let ahead = u64::from(header.urgent).saturating_sub(1);
        let byte = seq::extend(self.receiver.nxt, header.seq) + ahead;
        let is_new = self.peer_urgent.is_none_or(|urgent| byte > urgent);
        // A byte that has already arrived is not new, and is not reported again.
        if byte >= self.receiver.nxt && is_new && byte < self.receiver.nxt + (1 << 16) {
            self.peer_urgent = Some(byte);
            self.events |= Events::URGENT;
        }
    }

    fn input_data(
        &mut self,
        now: u64,
        header: &Header,
        payload: usize,
        is_kept: bool,
    ) -> Option<Placement> {
        let extent = self.extent(header, payload);
        match self.state {
            State::Established | State::FinWait1 | State::FinWait2 => {}
            State::Closed | State::TimeWait => return None,
            _ => {
                if extent.fin || payload > 0 {
                    self.note_duplicate(&extent);
                    self.receiver.delay.now = true;
                }
                return None;
            }
        }
        if payload == 0 && !extent.fin {
            return None;
        }
        // Both directions have been shut down here: nobody would read it (RFC 1122, 4.2.2.13).
        let is_shut = self.state != State::Established;
        if self.deaf && is_shut && extent.end > self.receiver.nxt {
            self.reset = Some(self.reset_header());
            self.end(Some(Error::ConnectionReset).filter(|_| !self.orphan));
            return None;
        }
        if !is_kept {
            self.receiver.delay.now = true;
            return None;
        }
        // Filling a hole is acknowledged at once, as is everything while there is a hole (RFC 5681,
        // 4.2).
        self.receiver.delay.now |= self.receiver.has_holes();
        let taken = self.receiver.take(extent.start, extent.end, extent.fin);
        let is_early = taken.advanced == 0 && taken.placement.is_some();
        self.receiver.delay.now |= is_early;
        if !is_early {
            self.schedule_ack(now, header, payload as u64, taken.advanced > 0);
        }
        if taken.advanced > 0 {
            self.events |= Events::READABLE;
        }
        if taken.ended {
            self.input_fin(now);
        }
        taken.placement
    }

    fn schedule_ack(&mut self, now: u64, header: &Header, payload: u64, advanced: bool) {
        let receiver = &mut self.receiver;
        let window = receiver.window();
        if !advanced || receiver.has_duplicate() {
            receiver.delay.answer(window);
        }
        if !advanced {
            return;
        }
        let echo = header
            .options
            .timestamps
            .filter(|stamps| self.stamps && stamps.echo != 0);
        if let Some(stamps) = echo.filter(|_| payload >= receiver.delay.size) {
            let elapsed = super::stamp(self.identity.stamp_offset, now).wrapping_sub(stamps.echo);
            receiver.tuning.sample_echo(elapsed);
        }
        receiver.note_round(now, echo.is_some());
        let waiting = receiver.nxt - receiver.acked;
        let pushes = [Flags::PSH, Flags::URG, Flags::FIN];
        receiver.delay.on_data(&crate::receiver::Arrival {
            now,
            length: payload,
            is_pushed: pushes.iter().any(|flag| header.flags.contains(*flag)),
            waiting,
            window,
            rto: self.sender.rtt.rto(self.sender.backoff),
            smoothed: self.sender.rtt.smoothed(),
        });
    }

    /// Handles the peer's FIN, after everything before it has arrived.
    fn input_fin(&mut self, now: u64) {
        self.receiver.delay.now = true;
        self.events |= Events::ENDED | Events::READABLE;
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.wait_for_late(now),
            _ => {}
        }
    }
}
