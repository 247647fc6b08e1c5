//! The sending half: tracks acknowledged, lost and retransmitted data, and how much may be sent.

mod ack;
mod prr;
mod rack;
mod timer;

pub(crate) use ack::Arrival;
pub(crate) use timer::Timer;

use crate::congestion::{Algorithm, Congestion};
use crate::rtt::Rtt;
use crate::scoreboard::{Full, Scoreboard};
use crate::seq::Seq;
use prr::Prr;
use rack::Rack;

/// The minimum to which a peer's window can limit a segment.
const LEAST_BOUND: u32 = 28;

/// Linux's congestion states, as far as they differ in behaviour (`tcpi_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    Open,
    /// Losses are being repaired, up to this sequence number.
    Fast(Seq),
    /// A timeout has expired; everything up to this number was in doubt.
    Loss(Seq),
}

/// The evidence by which an unnecessary reduction is recognised.
#[derive(Clone, Copy)]
struct Undo {
    /// The timestamp of the first retransmission.
    stamp: Option<u32>,
    /// The acknowledged sequence number at the reduction: a D-SACK below it does not count.
    marker: Seq,
    /// The number of retransmissions that no D-SACK has reported yet.
    retransmissions: u64,
}

impl Undo {
    fn at(una: Seq) -> Self {
        Undo {
            stamp: None,
            marker: una,
            retransmissions: 0,
        }
    }
}

/// Totals for TCP_INFO.
#[derive(Clone, Copy, Default)]
pub(crate) struct Totals {
    pub acked: u64,
    pub delivered: u64,
    pub retransmitted: u64,
    pub retransmissions: u32,
    pub duplicates: u32,
    pub timeouts: u32,
}

pub(crate) struct Sender {
    /// SND.UNA.
    pub una: Seq,
    /// SND.NXT.
    pub nxt: Seq,
    /// SND.WND, in bytes.
    pub window: u64,
    /// The largest window that the peer has ever offered.
    pub most_window: u64,
    /// The payload of a full segment in bytes.
    pub mss: u32,
    /// The same before the limit by the peer's window.
    full_mss: u32,
    /// The same before the limit by the path.
    agreed_mss: u32,
    /// Whether the peer sends SACK.
    pub sack: bool,
    pub board: Scoreboard,
    pub rtt: Rtt,
    pub congestion: Congestion,
    pub recovery: Recovery,
    pub timer: Option<(u64, Timer)>,
    /// The number of timeouts since something was acknowledged.
    pub retransmits: u32,
    /// The number of timeouts since the last sample of the round trip time.
    pub backoff: u32,
    /// The time of the first timeout since something was acknowledged.
    pub stalled_since: Option<u64>,
    /// A tail loss probe is to be sent.
    pub probe: bool,
    pub totals: Totals,
    rack: Rack,
    prr: Prr,
    undo: Option<Undo>,
    /// The end of the tail loss probe, and whether it was a retransmission.
    probed: Option<(Seq, bool)>,
    /// Everything sent up to here was limited by the congestion window.
    limited: Seq,
    /// The maximum in flight in a round, and the end of that round.
    most_flight: u64,
    flight_end: Seq,
    /// The number of duplicate acknowledgments without SACK: segments that have left the path.
    duplicate_acks: u64,
    last_sent: u64,
}

impl Sender {
    pub fn new(iss: Seq, algorithm: Algorithm, mss: u32, now: u64) -> Self {
        Sender {
            una: iss,
            nxt: iss + 1,
            window: 0,
            most_window: 0,
            mss,
            full_mss: mss,
            agreed_mss: mss,
            sack: false,
            board: Scoreboard::default(),
            rtt: Rtt::default(),
            congestion: Congestion::new(algorithm, mss),
            recovery: Recovery::Open,
            timer: None,
            retransmits: 0,
            backoff: 0,
            stalled_since: None,
            probe: false,
            totals: Totals::default(),
            rack: Rack::new(),
            prr: Prr::default(),
            undo: None,
            probed: None,
            limited: iss,
            most_flight: 0,
            flight_end: iss,
            duplicate_acks: 0,
            last_sent: now,
        }
    }

    /// The number of bytes in flight, as far as is known.
    pub fn pipe(&self) -> u64 {
        let left = self.duplicate_acks * u64::from(self.mss);
        self.board.in_flight().saturating_sub(left)
    }

    /// When data was last sent.
    pub fn last_sent(&self) -> u64 {
        self.last_sent
    }

    pub fn has_reordering(&self) -> bool {
        self.rack.reordering
    }

    /// Sets the size of a full segment that the SYNs have negotiated, before anything was sent.
    pub fn set_full_mss(&mut self, mss: u32) {
        self.agreed_mss = mss;
        self.full_mss = mss;
        self.mss = mss;
        self.congestion = Congestion::new(self.congestion.algorithm(), mss);
    }

    /// The size of a full segment as far as the path allows.
    pub fn full_mss(&self) -> u32 {
        self.full_mss
    }

    /// Sets the segment size of the path. Larger segments are sent again (RFC 1191, 6.4), which is
    /// not a sign of congestion.
    pub fn set_path_mss(&mut self, mss: u32) {
        let before = self.full_mss;
        self.full_mss = mss.min(self.agreed_mss);
        self.bound_mss();
        if self.full_mss < before {
            self.board.lose_longer(u64::from(self.full_mss));
        }
    }

    /// Limits a segment to half of the largest window that the peer has ever offered, so that a
    /// small buffer does not stop the sender.
    pub fn bound_mss(&mut self) {
        let window = self.most_window.min(1 << 20) as u32;
        let most = if window > 536 { window / 2 } else { window };
        let bound = if most > 0 {
            most.max(LEAST_BOUND)
        } else {
            u32::MAX
        };
        self.mss = self.full_mss.min(bound);
        self.congestion.set_mss(self.mss);
    }

    /// The number of bytes that the congestion window allows now: none, or at least one segment.
    pub fn allowed(&self) -> u64 {
        let (window, pipe) = (self.congestion.window(), self.pipe());
        let mss = u64::from(self.mss);
        let room = window.saturating_sub(pipe);
        // A window need not be a multiple of the segment size here, unlike Linux's: a rest counts
        // if nothing else is in flight.
        if room < mss && pipe > 0 {
            0
        } else {
            room.max(mss)
        }
    }

    /// The number of bytes from `nxt` on that the peer's window allows.
    pub fn window_room(&self) -> u64 {
        (self.una + self.window).saturating_sub(self.nxt)
    }

    /// Whether the congestion window is used, so that it may grow: data acknowledged beyond `una`
    /// had to wait for it, or in slow start half of it was in flight (RFC 9293, 3.8.2; Linux's
    /// `tcp_is_cwnd_limited`).
    fn is_used(&self, una: Seq) -> bool {
        let is_half = self.congestion.window() < 2 * self.most_flight;
        una <= self.limited || self.congestion.in_slow_start() && is_half
    }

    /// Records that data waits for the congestion window.
    pub fn note_limited(&mut self) {
        self.limited = self.nxt;
    }

    /// Retransmits lost data, if the window allows it; returns its range.
    pub fn retransmission(&mut self, now: u64, stamp: u32, most: u64) -> Option<(Seq, Seq)> {
        let start = self.board.first_lost()?;
        let most = most.min(self.allowed());
        let mss = u64::from(self.mss);
        if most < mss {
            self.note_limited();
            return None;
        }
        let most = most / mss * mss;
        // A peer that has shrunk its window gets what the window still allows, or one segment as a
        // probe.
        let room = (self.una + self.window).saturating_sub(start);
        let most = match room {
            0 if start > self.una => return None,
            0 => mss,
            room if room < most => (room / mss * mss).max(room.min(mss)),
            _ => most,
        };
        let range = self.board.retransmit_lost(most, now)?;
        self.count_retransmission(now, stamp, range);
        Some(range)
    }

    /// Retransmits the end of the data in flight, as a probe.
    pub fn probe_tail(&mut self, now: u64, stamp: u32) -> Option<(Seq, Seq)> {
        let range = self.board.retransmit_last(u64::from(self.mss), now)?;
        self.probed = Some((self.nxt, true));
        self.count_retransmission(now, stamp, range);
        Some(range)
    }

    fn count_retransmission(&mut self, now: u64, stamp: u32, (start, end): (Seq, Seq)) {
        let segments = (end - start).div_ceil(u64::from(self.mss));
        self.totals.retransmissions = self.totals.retransmissions.saturating_add(segments as u32);
        self.totals.retransmitted += end - start;
        if let Some(undo) = &mut self.undo {
            undo.stamp.get_or_insert(stamp);
            undo.retransmissions += segments;
        }
        self.note_sent(now, end - start);
    }

    /// Records new data up to `end`.
    ///
    /// # Errors
    /// [`Full`]: there is no room for its record, and it must not be sent.
    pub fn send(&mut self, now: u64, end: Seq) -> Result<(), Full> {
        self.board.push(self.nxt, end, now)?;
        if self.probe {
            self.probe = false;
            self.probed = Some((end, false));
        }
        let bytes = end - self.nxt;
        self.nxt = end;
        let flight = self.nxt - self.una;
        if self.una >= self.flight_end || flight > self.most_flight {
            self.most_flight = flight;
            self.flight_end = self.nxt;
        }
        self.note_sent(now, bytes);
        Ok(())
    }

    fn note_sent(&mut self, now: u64, bytes: u64) {
        self.last_sent = now;
        self.prr.sent(bytes);
        self.arm_after_sending(now);
    }

    /// Called before new data is sent after a time without data in flight.
    pub fn wake_from_idle(&mut self, now: u64, restart: bool) {
        let idle = now - self.last_sent;
        if self.board.is_empty() && idle > 0 {
            self.congestion.skip(idle);
            let rto = self.rtt.rto(0);
            if restart && idle > rto {
                self.congestion.restart(idle, rto);
            }
        }
    }
}
