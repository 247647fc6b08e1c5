//! RACK (RFC 8985): a transmission is lost if one that was sent sufficiently later has arrived.

use crate::rtt::Rtt;
use crate::scoreboard::{NEVER, Scoreboard, Sent};
use crate::seq::Seq;

/// Recoveries for which a reordering window that D-SACK has widened stays so.
const PERSISTS: u32 = 16;
/// The widest, in quarters of the minimum round trip time.
const MOST_STEPS: u32 = 255;

pub(super) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: what was sent last of all that has arrived.
    newest: Option<(u64, Seq)>,
    rtt: u64,
    steps: u32,
    persists: u32,
    /// The round in which a D-SACK has widened the window already.
    round: Option<Seq>,
    /// RACK.fack: the highest number that has arrived.
    highest: Seq,
    /// Whether something arrived in another order than it was sent.
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

    /// `sent` has arrived. `is_certain`: it is no echo of an earlier transmission, as far as
    /// timestamps say.
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

    /// A D-SACK came: a retransmission was for nothing, so wait longer; once in a round.
    pub fn duplicate(&mut self, una: Seq, nxt: Seq) {
        if self.round.is_none_or(|round| una >= round) {
            self.round = Some(nxt);
            self.steps = (self.steps + 1).min(MOST_STEPS);
            self.persists = PERSISTS;
        }
    }

    /// A recovery is over.
    pub fn recovered(&mut self) {
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            self.steps = 1;
        }
    }

    /// RACK.reo_wnd. `is_sure`: there is a recovery, or three segments have arrived beyond.
    fn window(&self, rtt: &Rtt, is_sure: bool) -> u64 {
        if !self.reordering && is_sure {
            return 0;
        }
        let smoothed = rtt.smoothed().unwrap_or(0);
        let quarter = rtt.minimum().unwrap_or(smoothed) / 4;
        (quarter * u64::from(self.steps)).min(smoothed)
    }

    /// Marks what is lost by `now`; returns how many bytes, and when more will be.
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

    /// What a timeout takes as lost: the oldest, and what RACK would by now.
    pub fn time_out(&self, board: &mut Scoreboard, now: u64, rtt: &Rtt) {
        board.lose_head();
        let wait = self.rtt + self.window(rtt, false);
        if let Some(by) = now.checked_sub(wait) {
            board.lose_older(NEVER, by);
        }
    }
}
