//! When to acknowledge: the delayed acknowledgment (RFC 9293, 3.8.6.3) with Linux's quick mode at
//! the beginning and after a pause, and its interactive ("pingpong") mode.

use crate::rtt::MS;

/// Linux's `TCP_ATO_MIN` and `TCP_DELACK_MIN`.
const LEAST: u64 = 40 * MS;
/// `TCP_DELACK_MAX`.
const MOST: u64 = 200 * MS;
/// `TCP_MAX_QUICKACKS`.
const MOST_QUICK: u64 = 16;
/// The least size that a full segment is taken to have (`TCP_MIN_MSS`).
const LEAST_SIZE: u64 = 88;
/// The most that it is taken to have before one has come (`TCP_MSS_DEFAULT`).
const FIRST_SIZE: u64 = 536;

/// Data that has come in order.
pub(crate) struct Arrival {
    pub now: u64,
    /// Bytes of the segment.
    pub length: u64,
    /// It has PSH, URG or FIN: it may be smaller than a full one.
    pub is_pushed: bool,
    /// Bytes in all that are not acknowledged.
    pub waiting: u64,
    /// The window that is left of what was told.
    pub window: u64,
    /// What counts as a pause.
    pub rto: u64,
    /// SRTT.
    pub smoothed: Option<u64>,
}

/// Whether something small has come since the last acknowledgment, so that no more may follow.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Pushed {
    #[default]
    No,
    Once,
    Twice,
}

pub(crate) struct Delay {
    /// When the acknowledgment is due that waits.
    due: Option<u64>,
    /// One is due at once.
    pub now: bool,
    /// Acknowledgments that are still sent at once.
    quick: u64,
    /// The other side answers: acknowledgments wait for data to ride on.
    pingpong: bool,
    pushed: Pushed,
    timeout: u64,
    last: u64,
    /// How large the peer's full segments seem to be (`tcpi_rcv_mss`).
    pub size: u64,
    /// The size of the last segment that was smaller.
    smaller: u64,
    mss: u64,
}

impl Delay {
    /// Nothing has come. The peer's segments have up to `mss` bytes.
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

    /// When an acknowledgment is due, other than at once.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// `tcpi_ato`, in ns.
    pub fn timeout(&self) -> u64 {
        self.timeout
    }

    /// When data came last.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Data came in order.
    pub fn on_data(&mut self, arrival: &Arrival) {
        self.measure(arrival);
        self.follow(arrival);
        // Half a window that waits would stop a sender whose segments are as large.
        let much = self.is_overdue(arrival.waiting) || arrival.waiting >= arrival.window / 2;
        if much || self.quick > 0 && !self.pingpong {
            self.now = true;
        } else {
            self.delay(arrival.now, arrival.smoothed);
        }
    }

    /// Learns the size of full segments (Linux's `tcp_measure_rcv_mss`): the largest, or what comes
    /// twice in a row.
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

    /// The timeout follows the gaps between segments.
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

    /// Lets the acknowledgment wait: for the timeout, but not much longer than the path takes, as
    /// the peer would send again. One that is nearly due is sent.
    pub fn delay(&mut self, now: u64, smoothed: Option<u64>) {
        let path = smoothed.map_or(MOST, |smoothed| smoothed.max(LEAST));
        let wait = self.timeout.min(path).min(MOST);
        match self.due {
            Some(due) if due <= now + wait / 4 => self.now = true,
            due => self.due = Some(due.map_or(now + wait, |due| due.min(now + wait))),
        }
    }

    /// Lets the acknowledgment of SYN wait for data to ride on (TCP_DEFER_ACCEPT of who connects).
    pub fn ride(&mut self, now: u64, window: u64) {
        self.be_quick_again(window);
        self.due = Some(now + MOST);
    }

    fn be_quick(&mut self, window: u64) {
        let segments = (window / (2 * self.size)).clamp(2, MOST_QUICK);
        self.quick = self.quick.max(segments);
    }

    /// More than a full segment waits.
    pub fn is_overdue(&self, waiting: u64) -> bool {
        waiting > self.size
    }

    /// The program has read everything: whether what waits is acknowledged, as the peer seems to
    /// send no more before it gets an answer, and this end has none.
    pub fn is_pushed(&self) -> bool {
        let least = if self.pingpong {
            Pushed::Twice
        } else {
            Pushed::Once
        };
        self.due.is_some() && self.pushed >= least
    }

    /// TCP_QUICKACK. `all_read`: the program has read everything, so that what waits is sent.
    pub fn set_quick(&mut self, on: bool, all_read: bool) {
        self.pingpong = !on;
        self.now |= on && all_read && self.due.is_some();
    }

    /// Whether acknowledgments are sent at once (TCP_QUICKACK as it is read).
    pub fn is_quick(&self) -> bool {
        !self.pingpong
    }

    /// Something came that wants an answer at once, and so may what follows.
    pub fn answer(&mut self, window: u64) {
        self.now = true;
        self.be_quick_again(window);
    }

    /// What follows wants answers at once.
    pub fn be_quick_again(&mut self, window: u64) {
        self.pingpong = false;
        self.timeout = LEAST;
        self.be_quick(window);
    }

    /// Data was sent: an answer, if data came just before.
    pub fn on_sent_data(&mut self, now: u64) {
        self.pingpong |= now - self.last < self.timeout;
    }

    /// A segment was sent, and it acknowledges everything.
    pub fn sent(&mut self) {
        if (self.due.is_some() || self.now) && self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.timeout = LEAST;
            }
        }
        self.stop();
    }

    /// Nothing waits to be acknowledged any more.
    pub fn stop(&mut self) {
        self.due = None;
        self.now = false;
        self.pushed = Pushed::No;
    }

    /// What waits has waited long enough.
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
