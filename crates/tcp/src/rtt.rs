//! The round trip time and the retransmission timeout (RFC 6298), with Linux's bounds.

/// One millisecond in ns, the unit of all times here.
pub const MS: u64 = 1_000_000;
/// One second.
pub const SECOND: u64 = 1_000_000_000;
/// The timeout before there is a sample (Linux's `TCP_TIMEOUT_INIT`).
pub const INITIAL_RTO: u64 = SECOND;
/// The maximum timeout, including backoff (`TCP_RTO_MAX`).
pub const MOST_RTO: u64 = 120 * SECOND;
/// The minimum variation (`TCP_RTO_MIN`): the timeout is at least this much above the round trip
/// time.
pub const LEAST_VARIATION: u64 = 200 * MS;
/// How long a minimum is valid (`net.ipv4.tcp_min_rtt_wlen`).
const MINIMUM_COUNTS: u64 = 300 * SECOND;

/// The estimates of the path's round trip time.
#[derive(Default)]
pub struct Rtt {
    smoothed: Option<u64>,
    variation: u64,
    minimum: Option<(u64, u64)>,
}

impl Rtt {
    /// Adds a sample, taken at `now`.
    pub fn sample(&mut self, now: u64, rtt: u64) {
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
            }
            Some(smoothed) => {
                let deviation = smoothed.abs_diff(rtt);
                self.variation = (3 * self.variation + deviation) / 4;
                self.smoothed = Some((7 * smoothed + rtt) / 8);
            }
        }
        self.sample_minimum(now, rtt);
    }

    /// Adds a sample only to the minimum: that of the last segment acknowledged, which the receiver
    /// has delayed least.
    pub fn sample_minimum(&mut self, now: u64, rtt: u64) {
        let counts = |(minimum, at): (u64, u64)| minimum < rtt && now < at + MINIMUM_COUNTS;
        if !self.minimum.is_some_and(counts) {
            self.minimum = Some((rtt, now));
        }
    }

    /// SRTT.
    pub fn smoothed(&self) -> Option<u64> {
        self.smoothed
    }

    /// RTTVAR.
    pub fn variation(&self) -> u64 {
        self.variation
    }

    /// The minimum of the samples of the last five minutes.
    pub fn minimum(&self) -> Option<u64> {
        self.minimum.map(|(minimum, _)| minimum)
    }

    /// The timeout after `backoff` expirations.
    pub fn rto(&self, backoff: u32) -> u64 {
        let first = match self.smoothed {
            None => INITIAL_RTO,
            Some(smoothed) => smoothed + (4 * self.variation).max(LEAST_VARIATION),
        };
        first
            .min(MOST_RTO)
            .saturating_mul(1 << backoff.min(20))
            .min(MOST_RTO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto(0), SECOND);
        assert_eq!(rtt.rto(2), 4 * SECOND);
        assert_eq!(rtt.rto(40), MOST_RTO);
        for now in 0..100 {
            rtt.sample(now, MS);
        }
        assert_eq!(rtt.rto(0), 201 * MS);
        rtt.sample(1000, 9 * MS);
        assert_eq!((rtt.smoothed(), rtt.minimum()), (Some(2 * MS), Some(MS)));
        rtt.sample(400 * SECOND, 9 * MS);
        assert_eq!(rtt.minimum(), Some(9 * MS));
    }
}
