//! The memory of all TCP connections on the machine, and its limits (`net.ipv4.tcp_mem`). A
//! connection has limits of its own, but without these, many connections whose peers do not read
//! could take all memory.

use super::memory_limits::MemoryLimits;
use crate::arch::MAX_CPUS;
use crate::mm::PAGE_SIZE;
use crate::sync::Counter;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes that a buffer has in any case, and that are not counted (the first of `tcp_rmem` and
/// `tcp_wmem`): a connection always goes on, if slowly.
pub const LEAST: usize = 4096;

/// Bytes that a CPU counts for itself.
const BATCH: isize = 65536;

/// Above the first limit nobody is denied anything who was not before, above the second everybody
/// who has more than a fair share, until the first is reached again; above the last everybody.
pub static LIMITS: MemoryLimits = MemoryLimits::new(16);

/// Bytes of all charges, and how many charges there are.
static HELD: Counter<BATCH> = Counter::new();
static CHARGES: Counter = Counter::new();
/// The second limit was reached, and the first was not again.
static PRESSED: AtomicBool = AtomicBool::new(false);

/// Bytes of memory that are counted, until this goes.
#[derive(Default)]
pub struct Charge(usize);

impl Charge {
    /// Counts so many bytes from now on.
    pub fn set(&mut self, bytes: usize) {
        let before = core::mem::replace(&mut self.0, bytes);
        if before != bytes {
            HELD.add(bytes as isize - before as isize);
        }
        if (before == 0) != (bytes == 0) {
            CHARGES.add(if bytes == 0 { -1 } else { 1 });
        }
    }

    /// Whether it may grow to so many bytes.
    pub fn may_be(&self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.0);
        let [first, middle, last] = LIMITS.get();
        // The sum that is had without a look at each CPU is mostly far below.
        let unseen = MAX_CPUS * BATCH as usize;
        let is_pressed = PRESSED.load(Relaxed);
        if !is_pressed && (HELD.approximate() + more + unseen).div_ceil(PAGE_SIZE) < first {
            return true;
        }
        let held = (HELD.exactly() + more).div_ceil(PAGE_SIZE);
        let presses = held > middle || is_pressed && held > first;
        if presses != is_pressed {
            PRESSED.store(presses, Relaxed);
        }
        let share = CHARGES.exactly() * bytes.div_ceil(PAGE_SIZE);
        more == 0 || held <= last && (!presses || share < last)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Pages of all charges.
pub fn pages() -> usize {
    HELD.exactly().div_ceil(PAGE_SIZE)
}
