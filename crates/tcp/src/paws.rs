//! Old segments, detected by their timestamps (PAWS, RFC 7323, 5).

use crate::header::Header;
use crate::rtt::SECOND;
use crate::seq;

/// How long a timestamp is valid (5.5): after that, its clock may have wrapped around.
const COUNTS: u64 = 24 * 86_400 * SECOND;

/// The peer's latest timestamp (TS.Recent), and when it arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent {
    pub value: u32,
    pub at: u64,
}

impl Recent {
    /// Whether a segment's timestamp is older. Zero is never older, since some peers start with it.
    pub fn is_after(&self, now: u64, header: &Header) -> bool {
        let stamps = header.options.timestamps;
        let is_older = stamps.is_some_and(|stamps| seq::is_older(stamps.value, self.value));
        is_older && self.value != 0 && self.counts(now)
    }

    /// Whether a segment's timestamp is newer.
    pub fn is_before(&self, header: &Header) -> bool {
        let stamps = header.options.timestamps;
        stamps.is_some_and(|stamps| seq::is_older(self.value, stamps.value))
    }

    /// Whether `value` replaces it.
    pub fn yields_to(&self, now: u64, value: u32) -> bool {
        !seq::is_older(value, self.value) || !self.counts(now)
    }

    fn counts(&self, now: u64) -> bool {
        now < self.at + COUNTS
    }
}
