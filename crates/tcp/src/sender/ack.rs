//! What an acknowledgment does to the sending half.

use super::{Prr, Recovery, Sender, Undo};
use crate::congestion;
use crate::scoreboard::Sent;
use crate::seq::{self, Seq};

/// What a segment says of what has arrived.
pub(crate) struct Arrival<'a> {
    pub now: u64,
    /// The acknowledgment number, in `una..=nxt`.
    pub ack: Seq,
    /// SACK blocks.
    pub sack: &'a [(Seq, Seq)],
    /// TSecr.
    pub echo: Option<u32>,
    /// It has no payload, SYN or FIN and moves no window: a duplicate, if it moves nothing else.
    pub is_bare: bool,
    /// Which timestamp a segment carried that was sent then.
    pub stamp: &'a dyn Fn(u64) -> u32,
}

/// What was newly seen to have arrived.
#[derive(Default)]
struct News {
    delivered: u64,
    first: Option<u64>,
    last: Option<u64>,
    /// Something that was sent twice is among it.
    retransmitted: bool,
}

impl News {
    fn see(&mut self, sent: &Sent) {
        self.delivered += sent.end - sent.start;
        if sent.retransmitted {
            self.retransmitted = true;
            return;
        }
        self.first = Some(
            self.first
                .map_or(sent.sent_at, |first| first.min(sent.sent_at)),
        );
        self.last = self.last.max(Some(sent.sent_at));
    }
}

impl Sender {
    /// Takes an acknowledgment; returns how many numbers it acknowledges.
    pub fn on_ack(&mut self, arrival: &Arrival) -> u64 {
        let (now, ack) = (arrival.now, arrival.ack);
        let una = self.una;
        let duplicate = self.take_duplicate(arrival);
        let mut news = News::default();
        let (rack, rtt) = (&mut self.rack, &self.rtt);
        let mut see = |sent: &Sent, is_certain: bool| {
            rack.arrived(sent, now, rtt, is_certain);
            news.see(sent);
        };
        self.board.acknowledge(ack, |sent| {
            let stamp = (arrival.stamp)(sent.sent_at);
            see(
                sent,
                arrival.echo.is_none_or(|echo| !seq::is_older(echo, stamp)),
            );
        });
        if self.sack {
            for &(start, end) in arrival.sack {
                if start < end && start >= ack && end <= self.nxt {
                    // What comes out of order does not move the echo, which says nothing here.
                    self.board
                        .sack(start, end, self.mss, |sent| see(sent, true));
                }
            }
        }
        self.una = ack;
        let acked = ack - una;
        self.totals.acked += acked;
        let rtt = self.sample(arrival, &news, acked > 0);
        if acked > 0 {
            self.backoff = 0;
            self.stalled_since = None;
        }
        self.try_undo(arrival, &news, acked > 0);
        self.take_probe_answer(arrival, acked > 0, duplicate);
        let (lost, reorder) = self.find_lost(arrival, acked > 0);
        self.move_on(arrival, &mut news, acked, lost, rtt);
        let changed = news.delivered > 0 || acked > 0;
        self.arm_after_ack(now, changed, reorder);
        acked
    }

    /// Whether the first block is a D-SACK (RFC 2883): below the acknowledgment, or within the
    /// second.
    fn take_duplicate(&mut self, arrival: &Arrival) -> bool {
        let Some(&(start, end)) = arrival.sack.first().filter(|_| self.sack) else {
            return false;
        };
        let within = |&(outer, outer_end): &(Seq, Seq)| outer <= start && end <= outer_end;
        let is_duplicate = start < end
            && (end <= arrival.ack || arrival.sack.get(1).is_some_and(within))
            // Older than anything that can be in flight twice: no news.
            && start + self.most_window.max(1 << 16) >= arrival.ack;
        if is_duplicate {
            self.totals.duplicates = self.totals.duplicates.saturating_add(1);
            self.rack.duplicate(self.una, self.nxt);
            if let Some(undo) = &mut self.undo {
                let segments = (end - start).div_ceil(u64::from(self.mss));
                undo.retransmissions = undo.retransmissions.saturating_sub(segments);
            }
        }
        is_duplicate
    }

    fn sample(&mut self, arrival: &Arrival, news: &News, moved: bool) -> Option<u64> {
        let now = arrival.now;
        if let (Some(first), Some(last)) = (news.first, news.last) {
            if !news.retransmitted {
                self.rtt.sample(now, now - first);
                self.rtt.sample_minimum(now, now - last);
            }
            return Some(now - last);
        }
        // What was sent twice is measured by its timestamp, which is as coarse as its clock.
        let echo = arrival.echo.filter(|_| moved && news.delivered > 0)?;
        let elapsed = (arrival.stamp)(now).wrapping_sub(echo);
        let taken = u64::from(elapsed.max(1)) * crate::rtt::MS;
        (elapsed < 1 << 30).then(|| self.rtt.sample(now, taken));
        None
    }

    /// Undoes the last reduction where the original, not its retransmission, was acknowledged
    /// (Eifel, RFC 3522), or where all retransmissions arrived twice (RFC 3708).
    fn try_undo(&mut self, arrival: &Arrival, news: &News, moved: bool) {
        let Some(undo) = self.undo else { return };
        let Some(stamp) = undo.stamp else { return };
        let original = moved
            && news.retransmitted
            && arrival.echo.is_some_and(|echo| seq::is_older(echo, stamp));
        if original || undo.retransmissions == 0 {
            self.undo = None;
            self.board.unmark_lost();
            self.congestion.undo();
            self.recovery = Recovery::Open;
        }
    }

    fn take_probe_answer(&mut self, arrival: &Arrival, moved: bool, duplicate: bool) {
        let Some((end, again)) = self.probed.filter(|(end, _)| arrival.ack >= *end) else {
            return;
        };
        let answered = !moved && arrival.sack.is_empty() && arrival.is_bare;
        if !again || duplicate || answered {
            self.probed = None;
        } else if arrival.ack > end {
            // The probe repaired a loss that nothing else tells of.
            self.probed = None;
            if self.recovery == Recovery::Open {
                self.congestion.reduce();
                self.congestion.set_window(self.congestion.threshold());
            }
        }
    }

    /// Losses by RACK, or without SACK by duplicate acknowledgments (RFC 6582).
    fn find_lost(&mut self, arrival: &Arrival, moved: bool) -> (u64, Option<u64>) {
        if self.sack {
            let three = self.board.sacked() >= 3 * u64::from(self.mss);
            let is_sure = three || self.recovery != Recovery::Open;
            return self
                .rack
                .detect(&mut self.board, arrival.now, &self.rtt, is_sure);
        }
        if moved {
            self.duplicate_acks = 0;
            let repairs = matches!(self.recovery, Recovery::Fast(point) if arrival.ack < point);
            return (
                if repairs {
                    self.board.lose_first(self.mss)
                } else {
                    0
                },
                None,
            );
        }
        if arrival.is_bare && !self.board.is_empty() {
            self.duplicate_acks += 1;
            if self.duplicate_acks == 3 && self.recovery == Recovery::Open {
                return (self.board.lose_first(self.mss), None);
            }
        }
        (0, None)
    }

    /// Enters, continues or ends a recovery, and moves the congestion window.
    fn move_on(
        &mut self,
        arrival: &Arrival,
        news: &mut News,
        acked: u64,
        lost: u64,
        rtt: Option<u64>,
    ) {
        let was_limited = arrival.ack - acked <= self.limited;
        if !self.sack && acked == 0 && arrival.is_bare {
            news.delivered += u64::from(self.mss).min(self.board.in_flight());
        }
        match self.recovery {
            Recovery::Fast(point) if self.una >= point => {
                self.congestion.set_window(self.congestion.threshold());
                self.end_recovery();
            }
            Recovery::Loss(point) if self.una >= point => self.end_recovery(),
            Recovery::Open if lost > 0 => self.enter_fast(),
            _ => {}
        }
        match self.recovery {
            Recovery::Fast(_) => {
                let threshold = self.congestion.threshold();
                let is_safe = acked > 0 && lost == 0;
                let (pipe, mss) = (self.pipe(), u64::from(self.mss));
                let window = self
                    .prr
                    .window(news.delivered, pipe, threshold, mss, is_safe);
                self.congestion.set_window(window);
            }
            _ if acked > 0 && was_limited => self.congestion.on_ack(&congestion::Ack {
                now: arrival.now,
                acked,
                rtt,
                smoothed: self.rtt.smoothed().unwrap_or(0),
                una: self.una,
                nxt: self.nxt,
            }),
            _ => {}
        }
    }

    fn end_recovery(&mut self) {
        self.recovery = Recovery::Open;
        self.rack.recovered();
        // Late evidence may still show that it was for nothing.
        if self.undo.is_some_and(|undo| undo.stamp.is_none()) {
            self.undo = None;
        }
    }

    pub(super) fn enter_fast(&mut self) {
        self.prr = Prr::start(self.nxt - self.una);
        self.congestion.reduce();
        self.undo = Some(Undo {
            stamp: None,
            retransmissions: 0,
        });
        self.recovery = Recovery::Fast(self.nxt);
    }

    pub(super) fn enter_loss(&mut self) {
        let again = matches!(self.recovery, Recovery::Loss(_)) && self.backoff > 0;
        let reduced = matches!(self.recovery, Recovery::Fast(point) if self.una < point);
        if !again && !reduced {
            self.congestion.reduce();
            self.undo = Some(Undo {
                stamp: None,
                retransmissions: 0,
            });
        }
        self.recovery = Recovery::Loss(self.nxt);
        self.duplicate_acks = 0;
        self.probed = None;
        self.probe = false;
    }
}
