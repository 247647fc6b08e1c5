//! When to look for garbage while sockets are sent.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The pace of collections. Each goes over all sockets in flight, which may be no garbage: the next
/// is due when a fraction of as many more are in flight, so that the cost for each socket sent is
/// the same, however many there are.
pub struct Pace {
    least: usize,
    most: AtomicUsize,
}

impl Pace {
    /// Never with no more than `least` on their way.
    pub const fn new(least: usize) -> Self {
        Pace {
            least,
            most: AtomicUsize::new(least),
        }
    }

    /// Whether `count` on their way are too many.
    pub fn is_due(&self, count: usize) -> bool {
        count > self.most.load(Relaxed)
    }

    /// A look has left `count` on their way.
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
        // After they are gone it is as before.
        pace.looked(10);
        assert!(!pace.is_due(16_000) && pace.is_due(16_001));
    }
}
