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

pub(crate) struct Delay {
    /// When the acknowledgment is due that waits.
    due: Option<u64>,
    /// One is due at once.
    pub now: bool,
    /// Acknowledgments that are still sent at once.
    quick: u64,
    /// The other side answers: acknowledgments wait for data to ride on.
    pingpong: bool,
    timeout: u64,
    last: u64,
    /// How large the peer's full segments seem to be (`tcpi_rcv_mss`).
    pub size: u64,
}

impl Delay {
    pub fn new(now: u64) -> Self {
        Delay {
            due: None,
            now: false,
            quick: 0,
            pingpong: false,
            timeout: 0,
            last: now,
            size: LEAST_SIZE,
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

    /// Data came: `length` bytes in a segment, `waiting` in all that are not acknowledged, with a
    /// window of `window`; `rto` bounds what counts as a pause.
    pub fn on_data(
        &mut self,
        now: u64,
        length: u64,
        waiting: u64,
        window: u64,
        rto: u64,
        mss: u64,
    ) {
        self.size = self.size.max(length.min(mss));
        let gap = now - self.last;
        self.last = now;
        if self.timeout == 0 {
            self.be_quick(window);
            self.timeout = LEAST;
        } else if gap <= LEAST / 2 {
            self.timeout = self.timeout / 2 + LEAST / 2;
        } else if gap < self.timeout {
            self.timeout = (self.timeout / 2 + gap).min(rto);
        } else if gap > rto {
            self.be_quick(window);
        }
        // Half a window that waits would stop a sender whose segments are as large.
        let much = self.is_overdue(waiting) || waiting >= window / 2;
        if much || self.quick > 0 && !self.pingpong {
            self.now = true;
        } else if self.due.is_none() {
            self.due = Some(now + self.timeout.clamp(LEAST, MOST));
        }
    }

    fn be_quick(&mut self, window: u64) {
        let segments = (window / (2 * self.size)).clamp(2, MOST_QUICK);
        self.quick = self.quick.max(segments);
    }

    /// More than a full segment waits.
    pub fn is_overdue(&self, waiting: u64) -> bool {
        waiting > self.size
    }

    /// TCP_QUICKACK.
    pub fn set_quick(&mut self, on: bool, window: u64) {
        self.pingpong = !on;
        if on {
            self.be_quick(window);
            self.now |= self.due.is_some();
        }
    }

    /// Something came that wants an answer at once, and so may what follows.
    pub fn answer(&mut self, window: u64) {
        self.now = true;
        self.be_quick_again(window);
    }

    /// What follows wants answers at once.
    pub fn be_quick_again(&mut self, window: u64) {
        self.pingpong = false;
        self.be_quick(window);
    }

    /// Data was sent: an answer, if data came just before.
    pub fn on_sent_data(&mut self, now: u64) {
        if self.due.is_some() && now - self.last < self.timeout {
            self.pingpong = true;
        }
    }

    /// A segment was sent, and it acknowledges everything.
    pub fn sent(&mut self) {
        if self.due.take().is_some() || self.now {
            self.quick = self.quick.saturating_sub(1);
        }
        self.now = false;
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
