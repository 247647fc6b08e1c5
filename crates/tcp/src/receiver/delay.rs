//! Delayed acknowledgments (RFC 9293, 3.8.6.3), with Linux's quick mode at the start and after a
//! pause, and its interactive ("pingpong") mode.

use crate::rtt::MS;

/// Linux's `TCP_ATO_MIN` and `TCP_DELACK_MIN`.
const LEAST: u64 = 40 * MS;
/// `TCP_DELACK_MAX`.
const MOST: u64 = 200 * MS;
/// `TCP_MAX_QUICKACKS`.
const MOST_QUICK: u64 = 16;
/// The minimum size assumed for a full segment (`TCP_MIN_MSS`).
const LEAST_SIZE: u64 = 88;
/// The maximum size assumed before one has arrived (`TCP_MSS_DEFAULT`).
const FIRST_SIZE: u64 = 536;

/// Data that has arrived in order.
pub(crate) struct Arrival {
    pub now: u64,
    /// The number of bytes in the segment.
    pub length: u64,
    /// Whether it has PSH, URG or FIN: it may be smaller than a full segment.
    pub is_pushed: bool,
    /// The total number of unacknowledged bytes.
    pub waiting: u64,
    /// The remaining part of the advertised window.
    pub window: u64,
    /// The time that counts as a pause.
    pub rto: u64,
    /// SRTT.
    pub smoothed: Option<u64>,
}

/// Whether a small segment has arrived since the last acknowledgment, after which no more may
/// follow.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Pushed {
    #[default]
    No,
    Once,
    Twice,
}

pub(crate) struct Delay {
    /// When the delayed acknowledgment is due.
    due: Option<u64>,
    /// An acknowledgment is due at once.
    pub now: bool,
    /// The number of acknowledgments that are still sent at once.
    quick: u64,
    /// The other side answers: acknowledgments wait for data to carry them.
    pingpong: bool,
    pushed: Pushed,
    timeout: u64,
    last: u64,
    /// The estimated size of the peer's full segments (`tcpi_rcv_mss`).
    pub size: u64,
    /// The size of the last smaller segment.
    smaller: u64,
    mss: u64,
}

impl Delay {
    /// The state before anything has arrived. The peer's segments have up to `mss` bytes.
    pub fn new(now: u64, mss: u64) -> Self {
        Delay {
            due: None,
            now: false,
            quick: 0,
            pingpong: false,
            pushed: Pushed::No,
            timeout: 0,
            last: now,
            size: mss.clamp(LEAST_SIZE, FIRST_SIZE),
            smaller: 0,
            mss,
        }
    }

    /// When a delayed acknowledgment is due.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// `tcpi_ato`, in ns.
    pub fn timeout(&self) -> u64 {
        self.timeout
    }

    /// When data last arrived.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Handles data that arrived in order.
    pub fn on_data(&mut self, arrival: &Arrival) {
        self.measure(arrival);
        self.follow(arrival);
        // Half a window of waiting data would stop a sender whose segments are that large.
        let much = self.is_overdue(arrival.waiting) || arrival.waiting >= arrival.window / 2;
        if much || self.quick > 0 && !self.pingpong {
            self.now = true;
        } else {
            self.delay(arrival.now, arrival.smoothed);
        }
    }

    /// Estimates the size of full segments (Linux's `tcp_measure_rcv_mss`): the largest one, or a
    /// size that comes twice in a row.
    fn measure(&mut self, arrival: &Arrival) {
        let smaller = core::mem::take(&mut self.smaller);
        let length = arrival.length;
        if length >= self.size {
            self.size = length.min(self.mss).max(LEAST_SIZE);
            if arrival.is_pushed {
                self.pushed = self.pushed.max(Pushed::Once);
            }
            return;
        }
        if length >= FIRST_SIZE || length >= LEAST_SIZE && !arrival.is_pushed {
            self.smaller = length;
            if length == smaller {
                self.size = length;
                return;
            }
        }
        self.pushed = match self.pushed {
            Pushed::No => Pushed::Once,
            _ => Pushed::Twice,
        };
    }

    /// Adapts the timeout to the gaps between segments.
    fn follow(&mut self, arrival: &Arrival) {
        let gap = arrival.now - self.last;
        self.last = arrival.now;
        if self.timeout == 0 {
            self.be_quick(arrival.window);
            self.timeout = LEAST;
        } else if gap <= LEAST / 2 {
            self.timeout = self.timeout / 2 + LEAST / 2;
        } else if gap < self.timeout {
            self.timeout = (self.timeout / 2 + gap).min(arrival.rto);
        } else if gap > arrival.rto {
            self.be_quick(arrival.window);
        }
    }

    /// Delays the acknowledgment: for the timeout, but not much longer than the round trip time, or
    /// else the peer would retransmit. One that is almost due is sent at once.
    pub fn delay(&mut self, now: u64, smoothed: Option<u64>) {
        let path = smoothed.map_or(MOST, |smoothed| smoothed.max(LEAST));
        let wait = self.timeout.min(path).min(MOST);
        match self.due {
            Some(due) if due <= now + wait / 4 => self.now = true,
            due => self.due = Some(due.map_or(now + wait, |due| due.min(now + wait))),
        }
    }

    /// Delays the acknowledgment of SYN, so that data can carry it (TCP_DEFER_ACCEPT of a
    /// connecting socket).
    pub fn ride(&mut self, now: u64, window: u64) {
        self.be_quick_again(window);
        self.due = Some(now + MOST);
    }

    fn be_quick(&mut self, window: u64) {
        let segments = (window / (2 * self.size)).clamp(2, MOST_QUICK);
        self.quick = self.quick.max(segments);
    }

    /// Whether more than a full segment waits.
    pub fn is_overdue(&self, waiting: u64) -> bool {
        waiting > self.size
    }

    /// Called when the program has read everything: whether waiting data is acknowledged, since the
    /// peer seems to wait for an answer, and this end has none.
    pub fn is_pushed(&self) -> bool {
        let least = if self.pingpong {
            Pushed::Twice
        } else {
            Pushed::Once
        };
        self.due.is_some() && self.pushed >= least
    }

    /// TCP_QUICKACK. `all_read`: the program has read everything, so that a waiting acknowledgment
    /// is sent.
    pub fn set_quick(&mut self, on: bool, all_read: bool) {
        self.pingpong = !on;
        self.now |= on && all_read && self.due.is_some();
    }

    /// Whether acknowledgments are sent at once (the value of TCP_QUICKACK).
    pub fn is_quick(&self) -> bool {
        !self.pingpong
    }

    /// Called after a segment that needs an answer at once; those that follow may need one, too.
    pub fn answer(&mut self, window: u64) {
        self.now = true;
        self.be_quick_again(window);
    }

    /// The following segments need answers at once.
    pub fn be_quick_again(&mut self, window: u64) {
        self.pingpong = false;
        self.timeout = LEAST;
        self.be_quick(window);
    }

    /// Records that data was sent, which is an answer if data arrived just before.
    pub fn on_sent_data(&mut self, now: u64) {
        self.pingpong |= now - self.last < self.timeout;
    }

    /// Records that a segment was sent, which acknowledges everything.
    pub fn sent(&mut self) {
        if (self.due.is_some() || self.now) && self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.timeout = LEAST;
            }
        }
        self.stop();
    }

    /// Nothing waits for an acknowledgment any more.
    pub fn stop(&mut self) {
        self.due = None;
        self.now = false;
        self.pushed = Pushed::No;
    }

    /// Handles that the delay has expired.
    pub fn on_timer(&mut self, now: u64, rto: u64) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        if self.pingpong {
            self.pingpong = false;
            self.timeout = LEAST;
        } else {
            self.timeout = (2 * self.timeout).min(rto);
        }
        self.due = None;
        self.now = true;
    }
}
