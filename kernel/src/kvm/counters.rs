//! The offsets of a machine's counters from the host's, which all its virtual CPUs share.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::uapi::CounterOffset;
use super::vm::Machine;
use crate::arch::time;
use crate::arch::virt::timer::Offsets;
use crate::errno::{Errno, Result};

/// The offsets, in ticks. A virtual CPU reads them when it enters its guest.
pub struct Counters {
    virt: AtomicU64,
    phys: AtomicU64,
    /// Whether KVM_ARM_SET_COUNTER_OFFSET set them; then nothing else changes them.
    fixed: AtomicBool,
}

impl Counters {
    /// Counters equal to the host's.
    pub fn new() -> Self {
        Counters {
            virt: AtomicU64::new(0),
            phys: AtomicU64::new(0),
            fixed: AtomicBool::new(false),
        }
    }

    /// The current offsets.
    pub fn offsets(&self) -> Offsets {
        Offsets {
            virt: self.virt.load(Relaxed),
            phys: self.phys.load(Relaxed),
        }
    }

    /// Called when a virtual CPU was created: the virtual counter of all of them starts at 0, and
    /// the physical counter is the host's, as in Linux.
    pub fn begin(&self) {
        if !self.fixed.load(Relaxed) {
            self.virt.store(time::now_ticks(), Relaxed);
            self.phys.store(0, Relaxed);
        }
    }

    /// Sets the virtual counter (KVM_REG_ARM_TIMER_CNT).
    pub fn set_virtual(&self, value: u64) {
        self.set(&self.virt, value);
    }

    /// Sets the physical counter (KVM_REG_ARM_PTIMER_CNT).
    pub fn set_physical(&self, value: u64) {
        self.set(&self.phys, value);
    }

    fn set(&self, offset: &AtomicU64, value: u64) {
        if !self.fixed.load(Relaxed) {
            offset.store(time::now_ticks().wrapping_sub(value), Relaxed);
        }
    }
}

impl Machine {
    /// Sets both counters this far behind the host's, and later writes of the registers do not
    /// change that (KVM_ARM_SET_COUNTER_OFFSET).
    ///
    /// # Errors
    /// EINVAL, EBUSY (a virtual CPU runs).
    pub fn fix_counters(&self, wanted: &CounterOffset) -> Result<usize> {
        if wanted.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        self.check_rest()?;
        self.counters.fixed.store(true, Relaxed);
        self.counters.virt.store(wanted.offset, Relaxed);
        self.counters.phys.store(wanted.offset, Relaxed);
        Ok(0)
    }
}
