//! Tuning of the receive buffer to the amount read per round trip time: Linux's dynamic
//! right-sizing (`net.ipv4.tcp_moderate_rcvbuf`).

use crate::rtt::MS;
use crate::seq::Seq;

pub(crate) struct Tuning {
    /// The maximum size of the buffer; zero if SO_RCVBUF has fixed it.
    pub most: u64,
    mss: u64,
    /// The round trip time that the receiver has measured.
    rtt: Option<u64>,
    /// The end of a window, and when it began: for the measurement without timestamps.
    window: (Seq, u64),
    /// The amount that was read in the last round.
    space: u64,
    /// The sequence number and the time at which the round began.
    round: (Seq, u64),
}

impl Tuning {
    pub fn new(start: Seq, mss: u32, now: u64) -> Self {
        let mss = u64::from(mss);
        Tuning {
            most: 0,
            mss,
            rtt: None,
            window: (start, now),
            space: 10 * mss,
            round: (start, now),
        }
    }

    /// `tcpi_rcv_rtt`, in ns.
    pub fn rtt(&self) -> u64 {
        self.rtt.unwrap_or(0)
    }

    /// `tcpi_rcv_space`.
    pub fn space(&self) -> u64 {
        self.space
    }

    /// Adds a sample: a segment with the echo of a timestamp took this long, in ms.
    pub fn sample_echo(&mut self, elapsed: u32) {
        if elapsed < 1 << 30 {
            self.sample(u64::from(elapsed.max(1)) * MS);
        }
    }

    /// Handles data up to `nxt`, in a window up to `edge`.
    pub fn on_data(&mut self, now: u64, nxt: Seq, edge: Seq, has_echo: bool) {
        let (end, began) = self.window;
        if nxt >= end {
            if !has_echo && now > began {
                // It takes at least one round trip: the minimum is the best estimate.
                let took = now - began;
                self.rtt = Some(self.rtt.map_or(took, |least| least.min(took)));
            }
            self.window = (edge, now);
        }
    }

    fn sample(&mut self, rtt: u64) {
        self.rtt = Some(self.rtt.map_or(rtt, |before| (7 * before + rtt) / 8));
    }

    /// Handles that the program has read up to `read`; returns a larger buffer size, if one is
    /// needed.
    pub fn on_read(&mut self, now: u64, read: Seq, buffer: u64) -> Option<u64> {
        let (start, began) = self.round;
        let rtt = self.rtt?;
        if now - began < rtt {
            return None;
        }
        self.round = (read, now);
        let copied = read - start;
        if copied <= self.space {
            return None;
        }
        let grown = copied - self.space;
        // Room for what slow start sends in the next round, and for its growth.
        let wanted = 2 * copied + 16 * self.mss;
        let more = u128::from(wanted) * u128::from(grown) / u128::from(self.space.max(1));
        let wanted = u128::from(wanted) + 2 * more;
        self.space = copied;
        let wanted = wanted.min(u128::from(self.most)) as u64;
        (wanted > buffer).then_some(wanted)
    }
}
