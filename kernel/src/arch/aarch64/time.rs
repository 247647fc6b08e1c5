//! The generic timer (Arm ARM D12). The counter is the virtual one, whose offset is zero unless a hypervisor hides time. A
//! kernel at EL1 uses the virtual timer; a host at EL2 the EL2 physical timer, by EL1's names.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::sysreg::{at_el2, isb, read, write};
use super::{gic, irq};
use crate::drivers::fdt;

static FREQUENCY: AtomicU64 = AtomicU64::new(1);
/// Nanoseconds in a tick, and ticks in a nanosecond, in units of 2^-32.
static NS_BY_TICK: AtomicU64 = AtomicU64::new(0);
static TICKS_BY_NS: AtomicU64 = AtomicU64::new(0);
static INTERRUPT: AtomicU32 = AtomicU32::new(u32::MAX);
static PHYSICAL: AtomicBool = AtomicBool::new(false);

/// CNTx_CTL_EL0.ENABLE.
const ENABLE: usize = 1;
const NS_PER_S: u64 = 1_000_000_000;

/// Learns the frequency and which timer is ours.
pub(super) fn init() {
    let node = fdt::find(fdt::tree(), &["arm,armv8-timer"])
        .next()
        .expect("a generic timer in the device tree");
    let told = fdt::number(&node, "clock-frequency").map(|frequency| frequency as u64);
    let frequency = told.unwrap_or(read!("cntfrq_el0") as u64);
    assert!(frequency > 0, "the timer has a frequency");
    FREQUENCY.store(frequency, Relaxed);
    NS_BY_TICK.store(
        (u128::from(NS_PER_S) << 32).div_ceil(u128::from(frequency)) as u64,
        Relaxed,
    );
    TICKS_BY_NS.store(
        ((u128::from(frequency) << 32) / u128::from(NS_PER_S)) as u64,
        Relaxed,
    );
    // The binding's order: secure physical, physical, virtual, EL2 physical.
    let which = if at_el2() { 3 } else { 2 };
    PHYSICAL.store(at_el2(), Relaxed);
    INTERRUPT.store(
        irq::nth_of_node(&node, which).expect("the timer's interrupt"),
        Relaxed,
    );
}

/// Readies this CPU's timer.
pub(super) fn start_cpu() {
    quiet();
    gic::enable(interrupt());
}

/// The timer's interrupt.
#[inline]
pub(super) fn interrupt() -> u32 {
    INTERRUPT.load(Relaxed)
}

/// The counter now.
#[inline]
pub fn now_ticks() -> u64 {
    // The read must not come before what precedes it (D12.2.2).
    isb();
    read!("cntvct_el0") as u64
}

/// Ticks in a second.
#[inline]
pub fn frequency() -> u64 {
    FREQUENCY.load(Relaxed)
}

/// Nanoseconds in a tick, in units of 2^-32: what `ticks_to_ns` multiplies by.
pub fn ns_by_tick() -> u64 {
    NS_BY_TICK.load(Relaxed)
}

/// A duration in nanoseconds.
#[inline]
pub fn ticks_to_ns(ticks: u64) -> u64 {
    (u128::from(ticks) * u128::from(NS_BY_TICK.load(Relaxed)) >> 32) as u64
}

/// A duration in ticks, rounded up.
#[inline]
pub fn ns_to_ticks(ns: u64) -> u64 {
    let exact = u128::from(ns) * u128::from(frequency());
    exact
        .div_ceil(u128::from(NS_PER_S))
        .min(u128::from(u64::MAX)) as u64
}

/// Asks for an interrupt of this CPU when the counter reaches `deadline`; for none with `None`.
pub fn set_deadline(deadline: Option<u64>) {
    let Some(deadline) = deadline else {
        return quiet();
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

/// Stops this CPU's timer, whose interrupt stays pending otherwise.
pub(super) fn quiet() {
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
