//! Object numbers: unlike an address, a number is never reused.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of an object, assigned on first use; 0 until then.
pub struct Number(AtomicUsize);

impl Number {
    /// No number yet.
    pub const fn new() -> Self {
        Number(AtomicUsize::new(0))
    }

    /// The number.
    pub fn get(&self) -> usize {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        match self.0.load(Relaxed) {
            0 => {
                let new = LAST.fetch_add(1, Relaxed) + 1;
                let given = self.0.compare_exchange(0, new, Relaxed, Relaxed);
                given.map_or_else(|other| other, |_| new)
            }
            number => number,
        }
    }
}
