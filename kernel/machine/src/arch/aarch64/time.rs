//! The generic timer (Arm ARM, "The Generic Timer in AArch64 state"). The counter is the virtual
//! one, whose offset is zero unless a hypervisor hides time. A kernel at EL1 uses the virtual
//! timer; a host at EL2 uses the EL2 physical timer, through the EL1 register names.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use super::sysreg::{at_el2, isb, read, write};
use super::{gic, irq};
use crate::arch::ticks;
pub use crate::arch::ticks::{frequency, ns_by_tick, ns_to_ticks, ticks_to_ns};
use crate::fdt;

static INTERRUPT: AtomicU32 = AtomicU32::new(u32::MAX);
static PHYSICAL: AtomicBool = AtomicBool::new(false);

/// CNTx_CTL_EL0.ENABLE.
const ENABLE: usize = 1;

/// Determines the frequency and the timer to use.
pub(super) fn init() {
    let node = fdt::find(fdt::tree(), &["arm,armv8-timer"])
        .next()
        .expect("a generic timer in the device tree");
    let given = fdt::number(&node, "clock-frequency").map(|frequency| frequency as u64);
    ticks::set_frequency(given.unwrap_or(read!("cntfrq_el0") as u64));
    // The binding's order: secure physical, physical, virtual, EL2 physical.
    let which = if at_el2() { 3 } else { 2 };
    PHYSICAL.store(at_el2(), Relaxed);
    INTERRUPT.store(
        irq::nth_of_node(&node, which).expect("the timer's interrupt"),
        Relaxed,
    );
}

/// Initializes this CPU's timer.
pub(super) fn start_cpu() {
    stop();
    gic::enable(interrupt());
}

/// The timer's interrupt.
#[inline]
pub(super) fn interrupt() -> u32 {
    INTERRUPT.load(Relaxed)
}

/// The current counter value.
#[inline]
pub fn now_ticks() -> u64 {
    // The read must not be executed before preceding instructions.
    isb();
    read!("cntvct_el0") as u64
}

/// The counter value for a time stamp: the read may be reordered with its surroundings.
#[inline]
pub fn stamp() -> u64 {
    read!("cntvct_el0") as u64
}

/// Requests an interrupt of this CPU when the counter reaches `deadline`; `None` cancels it.
pub fn set_deadline(deadline: Option<u64>) {
    let Some(deadline) = deadline else {
        return stop();
    };
    // SAFETY: this CPU's own timer.
    unsafe {
        if PHYSICAL.load(Relaxed) {
            write!("cntp_cval_el0", deadline);
            write!("cntp_ctl_el0", ENABLE);
        } else {
            write!("cntv_cval_el0", deadline);
            write!("cntv_ctl_el0", ENABLE);
        }
    }
    isb();
}

/// Stops this CPU's timer, whose interrupt would otherwise stay pending.
pub(super) fn stop() {
    // SAFETY: this CPU's own timer.
    unsafe {
        if PHYSICAL.load(Relaxed) {
            write!("cntp_ctl_el0", 0usize);
        } else {
            write!("cntv_ctl_el0", 0usize);
        }
    }
    isb();
}
