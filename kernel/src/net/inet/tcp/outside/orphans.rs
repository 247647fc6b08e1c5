//! Connections whose sockets are closed but which still send data. A peer that does not read keeps
//! each alive for minutes, so their number is limited.

use crate::mm::{PAGE_SIZE, frame};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The maximum number of orphans (`net.ipv4.tcp_max_orphans`, Linux's value for 1 GiB).
pub static MOST: AtomicUsize = AtomicUsize::new(4096);
/// The fraction of memory that they may have together, roughly the last value of
/// `net.ipv4.tcp_mem`.
const PART: usize = 16;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// A counted orphan, with its bytes, until this is dropped.
pub struct Orphan(usize);

impl Orphan {
    /// Counts another orphan with `bytes` bytes; `None` if there are too many.
    pub fn new(bytes: usize) -> Option<Self> {
        let orphan = Orphan(bytes);
        let count = COUNT.fetch_add(1, Relaxed);
        let held = BYTES.fetch_add(bytes, Relaxed) + bytes;
        (count < MOST.load(Relaxed) && held <= frame::total() / PART * PAGE_SIZE).then_some(orphan)
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Relaxed);
        BYTES.fetch_sub(self.0, Relaxed);
    }
}

/// The number of orphans.
pub fn count() -> usize {
    COUNT.load(Relaxed)
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn orphans_are_limited() {
        let (before, most) = (count(), MOST.load(Relaxed));
        let many: alloc::vec::Vec<_> = (before..most).map(|_| Orphan::new(1)).collect();
        assert!(many.iter().all(Option::is_some) && Orphan::new(1).is_none());
        assert_eq!(count(), most);
        drop(many);
        assert_eq!(count(), before);
        assert!(Orphan::new(frame::total() * PAGE_SIZE / 8).is_none());
        assert!(Orphan::new(PAGE_SIZE).is_some());
        assert_eq!(count(), before);
    }
}
