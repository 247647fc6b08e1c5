//! RACK (RFC 8985): a transmission is lost if one that was sent sufficiently later has arrived.

use crate::rtt::Rtt;
use crate::scoreboard::{NEVER, Scoreboard, Sent};
use crate::seq::Seq;

/// The number of recoveries for which a reordering window that a D-SACK has widened stays wide.
const PERSISTS: u32 = 16;
/// The maximum width, in quarters of the minimum round trip time.
const MOST_STEPS: u32 = 255;

pub(super) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: the latest transmission that has arrived.
    newest: Option<(u64, Seq)>,
    rtt: u64,
    steps: u32,
    persists: u32,
    /// The round in which a D-SACK has already widened the window.
    round: Option<Seq>,
    /// RACK.fack: the highest sequence number that has arrived.
    highest: Seq,
    /// Whether something has arrived out of order.
    pub reordering: bool,
}

impl Rack {
    pub fn new() -> Self {
        Rack {
            newest: None,
            rtt: 0,
            steps: 1,
            persists: 0,
            round: None,
            highest: 0,
            reordering: false,
        }
    }

    /// Records that `sent` has arrived. `is_certain`: as far as timestamps tell, it was not an
    /// earlier transmission.
    pub fn arrived(&mut self, sent: &Sent, now: u64, rtt: &Rtt, is_certain: bool) {
        if sent.end > self.highest {
            self.highest = sent.end;
        } else if !sent.retransmitted {
            self.reordering = true;
        }
        let took = now - sent.sent_at;
        let too_soon = rtt.minimum().is_some_and(|minimum| took < minimum);
        if sent.retransmitted && (!is_certain || too_soon) {
            return;
        }
        let this = (sent.sent_at, sent.end);
        if self.newest.is_none_or(|newest| newest < this) {
            self.newest = Some(this);
            self.rtt = took;
        }
    }

    /// Records a D-SACK: a retransmission was unnecessary, so wait longer; once per round.
    pub fn duplicate(&mut self, una: Seq, nxt: Seq) {
        if self.round.is_none_or(|round| una >= round) {
            self.round = Some(nxt);
            self.steps = (self.steps + 1).min(MOST_STEPS);
            self.persists = PERSISTS;
        }
    }

    /// Records the end of a recovery.
    pub fn recovered(&mut self) {
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            self.steps = 1;
        }
    }

    /// RACK.reo_wnd. `is_sure`: there is a recovery, or three later segments have arrived.
    fn window(&self, rtt: &Rtt, is_sure: bool) -> u64 {
        if !self.reordering && is_sure {
            return 0;
        }
        let smoothed = rtt.smoothed().unwrap_or(0);
        let quarter = rtt.minimum().unwrap_or(smoothed) / 4;
        (quarter * u64::from(self.steps)).min(smoothed)
    }

    /// Marks what is lost by `now`; returns the number of bytes, and when there may be more.
    pub fn detect(
        &self,
        board: &mut Scoreboard,
        now: u64,
        rtt: &Rtt,
        is_sure: bool,
    ) -> (u64, Option<u64>) {
        let Some(newest) = self.newest else {
            return (0, None);
        };
        let wait = self.rtt + self.window(rtt, is_sure);
        let by = now.checked_sub(wait);
        let lost = by.map_or(0, |by| board.lose_older(newest, by));
        let oldest = board.oldest();
        (lost, (oldest < newest).then(|| oldest.0 + wait))
    }

    /// Marks what a timeout considers lost: the oldest record, and what RACK would mark now.
    pub fn time_out(&self, board: &mut Scoreboard, now: u64, rtt: &Rtt) {
        board.lose_head();
        let wait = self.rtt + self.window(rtt, false);
        if let Some(by) = now.checked_sub(wait) {
            board.lose_older(NEVER, by);
        }
    }
}
