//! Decides when to look for garbage while sockets are sent.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The pace of collections. Each one visits all sockets in flight, although they may not be
/// garbage. The next one is due when their number has grown by a fraction, so that the cost per
/// socket sent stays the same, however many there are.
pub struct Pace {
    least: usize,
    most: AtomicUsize,
}

impl Pace {
    /// Never collects while no more than `least` are in flight.
    pub const fn new(least: usize) -> Self {
        Pace {
            least,
            most: AtomicUsize::new(least),
        }
    }

    /// Whether `count` in flight are too many.
    pub fn is_due(&self, count: usize) -> bool {
        count > self.most.load(Relaxed)
    }

    /// Records that a collection has left `count` in flight.
    pub fn looked(&self, count: usize) {
        self.most.store(self.least.max(count + count / 4), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_find_nothing_cost_each_sender_the_same() {
        let pace = Pace::new(16_000);
        let (mut steps, sent) = (0, 1_000_000);
        for count in 0..sent {
            if pace.is_due(count) {
                steps += count;
                pace.looked(count);
            }
        }
        assert!(0 < steps && steps <= 5 * sent, "{steps}");
        // After they are gone, the pace is as before.
        pace.looked(10);
        assert!(!pace.is_due(16_000) && pace.is_due(16_001));
    }
}
