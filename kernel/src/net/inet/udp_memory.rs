//! The memory that waiting datagrams may take on the whole machine (`net.ipv4.udp_mem`).
//! A socket has a limit of its own; without this one many sockets would take all memory.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::mm::{PAGE_SIZE, frame};
use crate::sync::Counter;

/// Bytes that a socket may always have while the machine has not reached its last limit
/// (`net.ipv4.udp_rmem_min`).
const LEAST: usize = 4096;

/// Bytes of all waiting datagrams.
static HELD: Counter<65536> = Counter::new();

/// The three limits in pages; 0 until they are set.
static LIMITS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// The three limits in pages. Above the first a socket gets [`LEAST`] bytes, above the last
/// nothing; the second has no meaning for UDP.
pub fn limits() -> [usize; 3] {
    // Of the memory at boot as Linux takes it.
    let middle = (frame::total() / 8).max(128);
    let usual = [middle / 4 * 3, middle, middle / 4 * 3 * 2];
    let set = LIMITS.each_ref().map(|limit| limit.load(Relaxed));
    if set == [0; 3] { usual } else { set }
}

/// Sets one of the limits.
pub fn set_limit(place: usize, pages: usize) {
    let now = limits();
    for (at, limit) in LIMITS.iter().enumerate() {
        limit.store(if at == place { pages } else { now[at] }, Relaxed);
    }
}

/// Pages of all waiting datagrams.
pub fn pages() -> usize {
    HELD.approximate().div_ceil(PAGE_SIZE)
}

/// A socket's datagrams took `before` bytes, and take `after` now.
pub fn changed(before: usize, after: usize) {
    HELD.add(after as isize - before as isize);
}

/// Whether a socket whose datagrams take `used` bytes may have another.
pub fn is_free(used: usize) -> bool {
    let held = pages();
    let [first, _, last] = limits();
    held < first || held < last && used < LEAST
}
