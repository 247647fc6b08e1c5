//! The only timer of the sending half: Linux's `icsk_retransmit_timer`, which is used for several
//! purposes.

use super::{Recovery, Sender};
use crate::rtt::{MS, SECOND};
use crate::scoreboard::{NEVER, State};
use crate::seq::Seq;

/// The purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The retransmission timeout (RFC 6298).
    Retransmit,
    /// The tail loss probe (RFC 8985, 7).
    Tail,
    /// RACK's reordering window ends.
    Reorder,
}

/// How long a receiver may delay the acknowledgment of a single segment.
const DELAYED_ACK: u64 = 200 * MS;

/// The minimum time that RACK waits, so that segments sent in a row are lost together.
const LEAST_REORDER: u64 = MS;

impl Sender {
    pub(super) fn arm_after_sending(&mut self, now: u64) {
        match self.timer {
            // Each transmission of new data postpones the probe, and the first starts the timeout.
            Some((_, Timer::Retransmit | Timer::Reorder)) if self.probed.is_some() => {}
            Some((_, Timer::Reorder)) => {}
            Some((due, Timer::Retransmit)) if due > now => self.arm_probe(now, due),
            Some((_, Timer::Retransmit)) => {}
            Some((_, Timer::Tail)) | None => self.arm_timeout(now),
        }
    }

    pub(super) fn arm_after_ack(&mut self, now: u64, changed: bool, reorder: Option<u64>) {
        if self.board.is_empty() {
            self.timer = None;
        } else if let Some(due) = reorder {
            self.timer = Some((due.max(now + LEAST_REORDER), Timer::Reorder));
        } else if changed || !matches!(self.timer, Some((_, Timer::Retransmit | Timer::Tail))) {
            self.arm_timeout(now);
        }
    }

    fn arm_timeout(&mut self, now: u64) {
        let due = now + self.rtt.rto(self.backoff);
        self.timer = Some((due, Timer::Retransmit));
        self.arm_probe(now, due);
    }

    /// Replaces the timeout by the probe if one is allowed: no recovery is in progress, and no
    /// other probe is in flight.
    fn arm_probe(&mut self, now: u64, timeout: u64) {
        let quiet = self.recovery == Recovery::Open && self.board.sacked() == 0;
        let may = self.sack && quiet && self.probed.is_none() && self.board.lost() == 0;
        if !may || self.board.is_empty() {
            return;
        }
        let wait = match self.rtt.smoothed() {
            None => SECOND,
            Some(smoothed) => {
                let single = self.nxt - self.una <= u64::from(self.mss);
                2 * smoothed + if single { DELAYED_ACK } else { 2 * MS }
            }
        };
        self.timer = Some(((now + wait).min(timeout), Timer::Tail));
    }

    /// Handles the timer; returns whether it was a timeout.
    pub fn on_timer(&mut self, now: u64) -> bool {
        match self.timer.take() {
            None => false,
            Some((_, Timer::Tail)) => {
                self.probe = true;
                self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Retransmit));
                false
            }
            Some((_, Timer::Reorder)) => {
                let (lost, next) = self.rack.detect(&mut self.board, now, &self.rtt, true);
                if lost > 0 && self.recovery == Recovery::Open {
                    self.enter_fast();
                }
                if lost > 0 && matches!(self.recovery, Recovery::Fast(_)) {
                    let (pipe, mss) = (self.pipe(), u64::from(self.mss));
                    let threshold = self.congestion.threshold();
                    let window = self.prr.window(0, pipe, threshold, mss, false);
                    self.congestion.set_window(window);
                }
                self.arm_after_ack(now, true, next);
                false
            }
            Some((_, Timer::Retransmit)) => {
                self.time_out(now);
                true
            }
        }
    }

    /// Handles an ICMP error about a segment that waits for its timeout: it did not get through,
    /// but this is not congestion, so the last doubling of the timeout is undone (RFC 6069).
    pub fn revert_backoff(&mut self, now: u64, seq: Seq) {
        let Some((_, Timer::Retransmit)) = self.timer else {
            return;
        };
        let Some(head) = self.board.head() else {
            return;
        };
        if seq == self.una && self.retransmits > 0 && self.backoff > 0 {
            self.backoff -= 1;
            let due = head.sent_at + self.rtt.rto(self.backoff);
            self.timer = Some((due.max(now), Timer::Retransmit));
        }
    }

    fn time_out(&mut self, now: u64) {
        if self
            .board
            .head()
            .is_some_and(|head| head.state == State::Sacked)
        {
            self.board.forget_sacks();
        }
        self.enter_loss();
        if self.sack {
            self.rack.time_out(&mut self.board, now, &self.rtt);
        } else {
            self.board.lose_older(NEVER, now);
        }
        let window = self.pipe() + u64::from(self.mss);
        self.congestion.set_window(window);
        self.backoff += 1;
        self.retransmits += 1;
        self.totals.timeouts = self.totals.timeouts.saturating_add(1);
        self.stalled_since.get_or_insert(now);
        self.timer = Some((now + self.rtt.rto(self.backoff), Timer::Retransmit));
    }
}
