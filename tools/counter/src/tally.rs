//! One counter.
//!
//! On a machine with one CPU, QEMU counts inline. With more CPUs in one thread, as with `-icount`,
//! QEMU 10.0 cannot: `gen_cpu_index` takes the CPU's number as a constant of the translation, and
//! `gen_plugin_u64_ptr` then multiplies that constant in place, which changes other constants of
//! the block too if the number is not 0 (seen: `arm_mmu_idx_el: code should not be reached`). So
//! there each count calls out. For the same reason a callback's CPU number is that of the CPU that
//! translated, and is not used.

use crate::qemu::{self, Counter, Insn};
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter of the executions of some instructions.
pub enum Tally {
    Inline(Counter),
    Called(AtomicU64),
}

impl Tally {
    /// A counter at zero, on a machine with this many CPUs. QEMU knows it until it ends.
    pub fn new(cpus: usize) -> Self {
        if cpus == 1 {
            Self::Inline(counter())
        } else {
            Self::Called(AtomicU64::new(0))
        }
    }

    /// Counts each execution of `insn`, which is being translated.
    pub fn count(&'static self, insn: *mut Insn) {
        // SAFETY: the handle is valid during the translation; counters live as long as QEMU.
        unsafe {
            match self {
                Self::Inline(counter) => {
                    qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
                        insn,
                        qemu::ADD,
                        *counter,
                        1,
                    );
                }
                Self::Called(count) => {
                    let data = count.as_ptr().cast();
                    qemu::qemu_plugin_register_vcpu_insn_exec_cb(
                        insn,
                        add,
                        qemu::NO_REGISTERS,
                        data,
                    );
                }
            }
        }
    }

    /// The count so far.
    pub fn total(&self) -> u64 {
        match self {
            // SAFETY: the counter is ours and lives.
            Self::Inline(counter) => unsafe { qemu::qemu_plugin_u64_sum(*counter) },
            Self::Called(count) => count.load(Ordering::Relaxed),
        }
    }
}

/// A new counter for each CPU, zero.
pub fn counter() -> Counter {
    // SAFETY: called while the plugin is installed; scoreboards live until QEMU ends.
    Counter {
        score: unsafe { qemu::qemu_plugin_scoreboard_new(size_of::<u64>()) },
        offset: 0,
    }
}

extern "C" fn add(_cpu: c_uint, count: *mut c_void) {
    // SAFETY: this is what was registered, a counter that lives as long as QEMU.
    unsafe { AtomicU64::from_ptr(count.cast()) }.fetch_add(1, Ordering::Relaxed);
}
