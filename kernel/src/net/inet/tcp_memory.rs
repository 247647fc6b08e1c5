//! The memory of all TCP connections on the machine, and its limits (`net.ipv4.tcp_mem`). A
//! connection has limits of its own, but without these, many connections whose peers do not read
//! could take all memory.

use super::memory_limits::MemoryLimits;
use crate::arch::MAX_CPUS;
use crate::mm::PAGE_SIZE;
use crate::sync::Counter;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The size of a buffer that is always available and not counted (the first value of `tcp_rmem` and
/// `tcp_wmem`), so that a connection always makes progress, if slowly.
pub const LEAST: usize = 4096;

/// The bytes that a CPU counts locally.
const BATCH: isize = 65536;

/// Above the second limit, charges beyond a fair share are denied until the sum falls below the
/// first again; above the last, all charges are denied.
pub static LIMITS: MemoryLimits = MemoryLimits::new(16);

/// The bytes of all charges, and the number of charges.
static HELD: Counter<BATCH> = Counter::new();
static CHARGES: Counter = Counter::new();
/// Whether the second limit was exceeded, and the sum has not fallen below the first since.
static PRESSED: AtomicBool = AtomicBool::new(false);

/// Charged bytes of memory, until this is dropped.
#[derive(Default)]
pub struct Charge(usize);

impl Charge {
    /// Sets the number of charged bytes.
    pub fn set(&mut self, bytes: usize) {
        let before = core::mem::replace(&mut self.0, bytes);
        if before != bytes {
            HELD.add(bytes as isize - before as isize);
        }
        if (before == 0) != (bytes == 0) {
            CHARGES.add(if bytes == 0 { -1 } else { 1 });
        }
    }

    /// Whether it may grow to `bytes`.
    pub fn may_be(&self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.0);
        let [first, middle, last] = LIMITS.get();
        // The approximate sum, which reads no other CPU's count, is usually far below.
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

/// The pages of all charges.
pub fn pages() -> usize {
    HELD.exactly().div_ceil(PAGE_SIZE)
}
