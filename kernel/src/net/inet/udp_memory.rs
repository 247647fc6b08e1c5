//! The memory of all waiting datagrams on the machine, and its limits (`net.ipv4.udp_mem`). A
//! socket has a limit of its own, but without these, many sockets could take all memory.

use super::memory_limits::MemoryLimits;
use crate::arch::MAX_CPUS;
use crate::mm::PAGE_SIZE;
use crate::sync::Counter;

/// The bytes that a socket may always have unless the machine has reached its last limit
/// (`net.ipv4.udp_rmem_min`).
const LEAST: usize = 4096;

/// The bytes that a CPU counts locally.
const BATCH: isize = 65536;

/// Bytes of all waiting datagrams.
static HELD: Counter<BATCH> = Counter::new();

/// Above the first limit a socket gets [`LEAST`] bytes, above the last none; the second has no
/// effect for UDP.
pub static LIMITS: MemoryLimits = MemoryLimits::new(8);

/// Pages of all waiting datagrams.
pub fn pages() -> usize {
    HELD.exactly().div_ceil(PAGE_SIZE)
}

/// Changes the bytes charged for a socket's datagrams from `before` to `after`.
pub fn changed(before: usize, after: usize) {
    HELD.add(after as isize - before as isize);
}

/// Whether a socket's datagrams may take `wanted` bytes including the next one.
pub fn is_free(wanted: usize) -> bool {
    let [first, _, last] = LIMITS.get();
    // The approximate sum, which reads no other CPU's count, is usually far below.
    let quick = HELD.approximate().div_ceil(PAGE_SIZE);
    if quick + MAX_CPUS * (BATCH as usize).div_ceil(PAGE_SIZE) < first {
        return true;
    }
    let held = pages();
    held < first || held < last && wanted < LEAST
}
