//! Messages of damage on disks, which a program that reads it again and again must not fill the log
//! with.

use crate::sync::Mutex;
use crate::task::clock;
use core::fmt;

/// The maximum number of messages in an interval of nanoseconds (Linux's DEFAULT_RATELIMIT_BURST
/// and _INTERVAL).
const MOST: u32 = 10;
const INTERVAL: u64 = 5_000_000_000;

struct Told {
    /// The start of the interval, in nanoseconds.
    since: u64,
    /// The number of messages in it, including suppressed ones.
    count: u32,
}

static TOLD: Mutex<Told> = Mutex::new(Told { since: 0, count: 0 });

/// Logs a message of a file system of this kind, or counts it alone where there were many of late.
pub fn tell(kind: &str, message: fmt::Arguments) {
    let now = clock::monotonic_ns();
    let (count, untold) = {
        let mut told = TOLD.lock();
        let mut untold = 0;
        if now.saturating_sub(told.since) >= INTERVAL {
            untold = told.count.saturating_sub(MOST);
            *told = Told {
                since: now,
                count: 0,
            };
        }
        told.count = told.count.saturating_add(1);
        (told.count, untold)
    };
    if untold > 0 {
        crate::log!("{kind}: {untold} messages were left out");
    }
    if count <= MOST {
        crate::log!("{kind}: {message}");
    }
}
