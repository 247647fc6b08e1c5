//! Rate limit of answers to segments that make no progress, which may be part of a loop (Linux's
//! `tcp_oow_rate_limited`).

use crate::header::{Flags, Header};
use crate::rtt::MS;

/// The minimum time between two answers (`net.ipv4.tcp_invalid_ratelimit`).
const INTERVAL: u64 = 500 * MS;

/// The time of the last answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limiter(Option<u64>);

impl Limiter {
    /// Whether a segment may be answered at `now`. One with data always may, since its sender
    /// waits.
    pub fn allows(&mut self, now: u64, has_data: bool) -> bool {
        let recent = self.0.is_some_and(|last| now < last + INTERVAL);
        if !has_data && !recent {
            self.0 = Some(now);
        }
        has_data || !recent
    }
}

/// Whether a segment has data, so that it is not part of a loop. A SYN does not count, as its data
/// may be a pretence.
pub(crate) fn has_data(header: &Header, payload: usize) -> bool {
    let is_long = payload > 0 || header.flags.contains(Flags::FIN);
    is_long && !header.flags.contains(Flags::SYN)
}
