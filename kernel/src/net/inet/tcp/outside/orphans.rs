//! Connections whose sockets are closed but which still send data. A peer that does not read keeps
//! each alive for minutes, so their number is limited.

use crate::mm::{PAGE_SIZE, frame};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most of them (`net.ipv4.tcp_max_orphans`), as Linux has it for 1 GiB.
pub static MOST: AtomicUsize = AtomicUsize::new(4096);
/// The part of memory that they may have together, about `net.ipv4.tcp_mem`'s last.
const PART: usize = 16;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// One that is counted, with its bytes, until this goes.
pub struct Orphan(usize);

impl Orphan {
    /// One more, of so many bytes; none where there are too many.
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

/// How many there are.
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
