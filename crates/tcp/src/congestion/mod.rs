//! Congestion control: slow start with HyStart++ (RFC 9406), then CUBIC (RFC 9438) or Reno (RFC
//! 5681). The window is in bytes.

mod cubic;
mod hystart;

use cubic::Cubic;
use hystart::HyStart;

use crate::seq::Seq;

/// The algorithm for growth and reduction (TCP_CONGESTION).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// "cubic".
    #[default]
    Cubic,
    /// "reno".
    Reno,
}

/// The number of segments in the initial window (RFC 6928).
pub const INITIAL_SEGMENTS: u64 = 10;

/// The facts about an acknowledgment that affect the congestion window.
pub struct Ack {
    /// The time of its arrival.
    pub now: u64,
    /// The number of bytes that it acknowledges.
    pub acked: u64,
    /// The round trip time that it has measured.
    pub rtt: Option<u64>,
    /// SRTT.
    pub smoothed: u64,
    /// The oldest unacknowledged byte.
    pub una: Seq,
    /// The next byte to send.
    pub nxt: Seq,
}

/// The congestion window and its growth.
pub struct Congestion {
    algorithm: Algorithm,
    mss: u64,
    window: u64,
    threshold: u64,
    cubic: Cubic,
    hystart: HyStart,
    /// The growth that is below one byte yet: bytes times the window.
    credit: u128,
    /// The window and threshold before the last reduction, which may be undone.
    before: Option<(u64, u64, Cubic)>,
}

impl Congestion {
    /// The state of a new connection.
    pub fn new(algorithm: Algorithm, mss: u32) -> Self {
        let mss = u64::from(mss);
        Congestion {
            algorithm,
            mss,
            window: INITIAL_SEGMENTS * mss,
            threshold: u64::MAX,
            cubic: Cubic::default(),
            hystart: HyStart::default(),
            credit: 0,
            before: None,
        }
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// TCP_CONGESTION: changes the algorithm; the window stays.
    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        if algorithm != self.algorithm {
            self.algorithm = algorithm;
            self.cubic = Cubic::default();
            self.credit = 0;
            self.before = None;
        }
    }

    /// cwnd, in bytes.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// ssthresh, in bytes; `u64::MAX` before the first loss.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Whether the window is below the threshold.
    pub fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Sets the window: by PRR within a recovery, and after timeouts.
    pub fn set_window(&mut self, window: u64) {
        self.window = window.max(self.mss);
    }

    /// Sets a new segment size.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss);
        self.window = self.window.max(self.mss);
    }

    /// Grows the window for an acknowledgment, if the window was the limit.
    pub fn on_ack(&mut self, ack: &Ack) {
        let mut acked = ack.acked;
        if self.in_slow_start() {
            let divisor = self.hystart.on_ack(ack);
            let growth = (acked / divisor).min(self.threshold - self.window);
            self.window += growth;
            if self.threshold == u64::MAX && self.hystart.is_over() {
                self.threshold = self.window;
            }
            acked = if self.in_slow_start() {
                0
            } else {
                acked - (growth * divisor).min(acked)
            };
        }
        if acked > 0 {
            self.avoid(ack, acked);
        }
    }

    fn avoid(&mut self, ack: &Ack, acked: u64) {
        let a_round = match self.algorithm {
            Algorithm::Reno => self.mss,
            Algorithm::Cubic => {
                let at = ack.now + ack.smoothed;
                let target = self.cubic.target(at, ack.now, self.window, self.mss, acked);
                target.min(self.window * 3 / 2) - self.window
            }
        };
        self.credit += u128::from(a_round) * u128::from(acked);
        let window = u128::from(self.window);
        self.window += (self.credit / window) as u64;
        self.credit %= window;
    }

    /// Lowers the threshold, but not the window, because losses show that the path is full.
    pub fn reduce(&mut self) {
        self.before = Some((self.window, self.threshold, self.cubic));
        let lowered = match self.algorithm {
            Algorithm::Reno => self.window / 2,
            Algorithm::Cubic => self.cubic.reduce(self.window),
        };
        self.threshold = lowered.max(2 * self.mss);
        self.hystart.leave();
        self.credit = 0;
    }

    /// Undoes the last reduction, which was unnecessary.
    pub fn undo(&mut self) {
        if let Some((window, threshold, cubic)) = self.before.take() {
            self.window = self.window.max(window);
            self.threshold = threshold;
            self.cubic = cubic;
        }
    }

    /// Handles `idle` ns without transmission: the window no longer reflects the path (RFC 5681,
    /// 4.1; `net.ipv4.tcp_slow_start_after_idle`). It is halved for each timeout, as in Linux.
    pub fn restart(&mut self, idle: u64, rto: u64) {
        let least = self.window.min(INITIAL_SEGMENTS * self.mss);
        if self.threshold != u64::MAX {
            self.threshold = self.threshold.max(self.window * 3 / 4);
        }
        let halvings = (idle / rto.max(1)).min(63);
        self.window = (self.window >> halvings).max(least);
    }

    /// Skips time without data in flight, which does not count as growth time.
    pub fn skip(&mut self, idle: u64) {
        self.cubic.skip(idle);
    }
}
