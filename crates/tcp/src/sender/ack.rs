//! Handles acknowledgments in the sending half.

use super::{Prr, Recovery, Sender, Undo};
use crate::congestion;
use crate::scoreboard::Sent;
use crate::seq::{self, Seq};

/// What a segment reports about arrived data.
pub(crate) struct Arrival<'a> {
    pub now: u64,
    /// The acknowledgment number, in `una..=nxt`.
    pub ack: Seq,
    /// SACK blocks.
    pub sack: &'a [(Seq, Seq)],
    /// TSecr.
    pub echo: Option<u32>,
    /// It has no payload, SYN or FIN, and does not change the window: it is a duplicate if it
    /// changes nothing else.
    pub is_bare: bool,
    /// The timestamp that a segment sent at a time carried.
    pub stamp: &'a dyn Fn(u64) -> u32,
}

/// Data that is newly known to have arrived.
#[derive(Default)]
struct News {
    delivered: u64,
    first: Option<u64>,
    last: Option<u64>,
    /// It includes something that was sent twice.
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
    /// Handles an acknowledgment; returns by how much it advances.
    pub fn on_ack(&mut self, arrival: &Arrival) -> u64 {
        let (now, ack) = (arrival.now, arrival.ack);
        let una = self.una;
        let duplicate = self.sack && self.take_duplicate(arrival);
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
                    // Data that arrives out of order does not change the echo, which tells nothing
                    // here.
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
            self.retransmits = 0;
            self.stalled_since = None;
        }
        self.try_undo(arrival, &news, acked > 0);
        self.take_probe_answer(arrival, acked > 0, duplicate);
        let (lost, reorder) = if self.sack {
            self.find_lost(arrival)
        } else {
            (self.count_duplicates(arrival, &mut news, acked), None)
        };
        self.totals.delivered += news.delivered;
        self.move_on(arrival, &news, acked, lost, rtt);
        let changed = news.delivered > 0 || acked > 0;
        self.arm_after_ack(now, changed, reorder);
        acked
    }

    /// Handles a D-SACK (RFC 2883), which is the first block: below the acknowledgment, or inside
    /// the second one. Returns whether it reports the tail loss probe.
    fn take_duplicate(&mut self, arrival: &Arrival) -> bool {
        let Some(&(start, end)) = arrival.sack.first() else {
            return false;
        };
        let within = |&(outer, outer_end): &(Seq, Seq)| outer <= start && end <= outer_end;
        let is_duplicate = start < end
            && (end <= arrival.ack || arrival.sack.get(1).is_some_and(within))
            // Not older than anything that can be in flight twice: otherwise it is not news.
            && start + self.most_window.max(1 << 16) >= arrival.ack
            && end - start <= self.most_window;
        if !is_duplicate {
            return false;
        }
        let segments = (end - start).div_ceil(u64::from(self.mss));
        let totals = &mut self.totals;
        totals.duplicates = totals.duplicates.saturating_add(segments as u32);
        // It is forged: not so many segments were retransmitted.
        if totals.duplicates > totals.retransmissions {
            return false;
        }
        let is_probe = self.probed.is_some_and(|(probed, _)| probed == end);
        // The tail loss probe is sent by time, so it says nothing about reordering.
        if self.rack.reordering && !is_probe {
            self.rack.duplicate(self.una, self.nxt);
        }
        if let Some(undo) = &mut self.undo
            && end > undo.marker
            && end <= self.una
        {
            undo.retransmissions = undo.retransmissions.saturating_sub(segments);
        }
        is_probe
    }

    /// Samples the round trip time with data that was sent once (Karn's algorithm), otherwise with
    /// the echo. Only a sample ends the backoff (RFC 6298, 5.7). Returns the round trip time of the
    /// data sent last.
    fn sample(&mut self, arrival: &Arrival, news: &News, moved: bool) -> Option<u64> {
        let now = arrival.now;
        let rtt = news.last.map(|last| now - last);
        let is_sample = match (news.first, rtt) {
            (Some(first), Some(rtt)) if !news.retransmitted => {
                self.rtt.sample(now, now - first);
                self.rtt.sample_minimum(now, rtt);
                true
            }
            _ => {
                let echo = arrival.echo.unwrap_or(0);
                let elapsed = (arrival.stamp)(now).wrapping_sub(echo);
                moved && self.sample_echo(now, echo, elapsed)
            }
        };
        if is_sample {
            self.backoff = 0;
        }
        rtt
    }

    /// Samples the round trip time with the echo of a timestamp from `elapsed` ms ago; returns
    /// whether it is valid. Zero is not, and neither is half an hour.
    pub fn sample_echo(&mut self, now: u64, echo: u32, elapsed: u32) -> bool {
        let counts = echo != 0 && elapsed < 1 << 21;
        if counts {
            // It is as coarse as the timestamp clock.
            let taken = u64::from(elapsed.max(1)) * crate::rtt::MS;
            self.rtt.sample(now, taken);
        }
        counts
    }

    /// Undoes the last reduction if the original was acknowledged, and not its retransmission
    /// (Eifel, RFC 3522), or if all retransmissions arrived twice (RFC 3708).
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
            // The probe has repaired a loss that nothing else reports.
            self.probed = None;
            if self.recovery == Recovery::Open {
                self.congestion.reduce();
                self.congestion.set_window(self.congestion.threshold());
            }
        }
    }

    /// Detects losses by RACK; also returns when there may be more.
    fn find_lost(&mut self, arrival: &Arrival) -> (u64, Option<u64>) {
        let three = self.board.sacked() >= 3 * u64::from(self.mss);
        let is_sure = three || self.recovery != Recovery::Open;
        self.rack
            .detect(&mut self.board, arrival.now, &self.rtt, is_sure)
    }

    /// Detects losses by duplicate acknowledgments if there is no SACK (RFC 6582). Each one shows
    /// that a segment has left the path.
    fn count_duplicates(&mut self, arrival: &Arrival, news: &mut News, acked: u64) -> u64 {
        if acked > 0 {
            let segments = acked.div_ceil(u64::from(self.mss));
            return match self.recovery {
                Recovery::Fast(point) if arrival.ack < point => {
                    // One segment filled the hole, and duplicates reported the others.
                    self.duplicate_acks = self.duplicate_acks.saturating_sub(segments - 1);
                    self.board.lose_first(self.mss)
                }
                _ => {
                    self.duplicate_acks = 0;
                    0
                }
            };
        }
        // After a timeout, they may be answers to what was sent before it.
        let counts = !matches!(self.recovery, Recovery::Loss(point) if self.nxt <= point);
        if arrival.is_bare && counts && self.duplicate_acks < self.most_duplicates() {
            self.duplicate_acks += 1;
            news.delivered += u64::from(self.mss).min(self.board.in_flight());
            if self.duplicate_acks == 3 && self.recovery == Recovery::Open {
                return self.board.lose_first(self.mss);
            }
        }
        0
    }

    /// The maximum number of segments that can have left the path: all but the lost ones, at least
    /// one. A peer may send more duplicates than that.
    fn most_duplicates(&self) -> u64 {
        let mss = u64::from(self.mss);
        let sent = (self.nxt - self.una).div_ceil(mss);
        let sent = sent.max(self.board.len() as u64);
        sent.saturating_sub(self.board.lost().div_ceil(mss).max(1))
    }

    /// Enters, continues or ends a recovery, and updates the congestion window.
    fn move_on(&mut self, arrival: &Arrival, news: &News, acked: u64, lost: u64, rtt: Option<u64>) {
        let was_used = self.is_used(arrival.ack - acked);
        // Without SACK, earlier duplicates may still arrive, and do not show another loss.
        let beyond = u64::from(!self.sack);
        match self.recovery {
            Recovery::Fast(point) if self.una >= point + beyond => {
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
            _ if acked > 0 && was_used => self.congestion.on_ack(&congestion::Ack {
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
        self.duplicate_acks = 0;
        self.rack.recovered();
        // Late evidence may still show that the reduction was unnecessary.
        if self.undo.is_some_and(|undo| undo.stamp.is_none()) {
            self.undo = None;
        }
    }

    pub(super) fn enter_fast(&mut self) {
        self.prr = Prr::start(self.nxt - self.una);
        self.congestion.reduce();
        self.undo = Some(Undo::at(self.una));
        self.recovery = Recovery::Fast(self.nxt);
    }

    pub(super) fn enter_loss(&mut self) {
        let again = matches!(self.recovery, Recovery::Loss(_)) && self.retransmits > 0;
        let reduced = matches!(self.recovery, Recovery::Fast(point) if self.una < point);
        if !again && !reduced {
            self.congestion.reduce();
            self.undo = Some(Undo::at(self.una));
        }
        self.recovery = Recovery::Loss(self.nxt);
        self.duplicate_acks = 0;
        self.probed = None;
        self.probe = false;
    }
}
