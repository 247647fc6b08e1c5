//! Messages about damage, rate limited, since a program that keeps reading the damage must not fill
//! the log.

use crate::sync::Mutex;
use crate::task::clock;
use core::fmt;

/// So many in so many nanoseconds at most (Linux's DEFAULT_RATELIMIT_BURST and _INTERVAL).
const MOST: u32 = 10;
const INTERVAL: u64 = 5_000_000_000;

struct Told {
    /// When the interval began, in nanoseconds.
    since: u64,
    /// Messages in it, with those that were not told.
    count: u32,
}

static TOLD: Mutex<Told> = Mutex::new(Told { since: 0, count: 0 });

/// Logs a message, or counts it alone where there were many of late.
pub fn tell(message: fmt::Arguments) {
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
        crate::log!("ext4: {untold} messages were left out");
    }
    if count <= MOST {
        crate::log!("ext4: {message}");
    }
}
