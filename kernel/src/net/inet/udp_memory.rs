//! The memory that waiting datagrams may take on the whole machine (`net.ipv4.udp_mem`).
//! A socket has a limit of its own; without this one many sockets would take all memory.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::arch::MAX_CPUS;
use crate::mm::{PAGE_SIZE, frame};
use crate::sync::Counter;

/// Bytes that a socket may always have while the machine has not reached its last limit
/// (`net.ipv4.udp_rmem_min`).
const LEAST: usize = 4096;

/// Bytes that a CPU counts for itself.
const BATCH: isize = 65536;

/// Bytes of all waiting datagrams.
static HELD: Counter<BATCH> = Counter::new();

/// The three limits in pages, plus one; 0 until they are set.
static LIMITS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// The three limits in pages. Above the first a socket gets [`LEAST`] bytes, above the last
/// nothing; the second has no meaning for UDP.
pub fn limits() -> [usize; 3] {
    // Of the memory at boot as Linux takes it.
    let middle = (frame::total() / 8).max(128);
    let usual = [middle / 4 * 3, middle, middle / 4 * 3 * 2];
    core::array::from_fn(|at| LIMITS[at].load(Relaxed).checked_sub(1).unwrap_or(usual[at]))
}

/// Sets one of the limits.
pub fn set_limit(place: usize, pages: usize) {
    LIMITS[place].store(pages.saturating_add(1), Relaxed);
}

/// Pages of all waiting datagrams.
pub fn pages() -> usize {
    HELD.exactly().div_ceil(PAGE_SIZE)
}

/// A socket's datagrams took `before` bytes, and take `after` now.
pub fn changed(before: usize, after: usize) {
    HELD.add(after as isize - before as isize);
}

/// Whether a socket's datagrams may take `wanted` bytes with the next one.
pub fn is_free(wanted: usize) -> bool {
    let [first, _, last] = limits();
    // The sum that is had without a look at each CPU is mostly far below.
    let quick = HELD.approximate().div_ceil(PAGE_SIZE);
    if quick + MAX_CPUS * (BATCH as usize).div_ceil(PAGE_SIZE) < first {
        return true;
    }
    let held = pages();
    held < first || held < last && wanted < LEAST
}
