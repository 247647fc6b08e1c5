//! A guest's timers: the virtual one, and the physical one of EL1, which the host at EL2 leaves
//! alone. Their interrupts come to the host, which passes them on as interrupts of the hardware:
//! they stay active, and so quiet, until the guest has dealt with them.

use super::super::sysreg::{read, write};
use super::super::{gic, time};
use super::{Name, System};

/// Interrupts of the virtual and the physical timer (Arm BSA, B_PPI_00).
pub const VIRTUAL: u32 = 27;
pub const PHYSICAL: u32 = 30;
/// Both, as bits.
pub const INTERRUPTS: u32 = 1 << VIRTUAL | 1 << PHYSICAL;

/// CNTx_CTL_EL0: enabled, masked, and whether its time has come (Arm ARM D24.8).
const ENABLE: u64 = 1;
const MASKED: u64 = 1 << 1;
const DUE: u64 = 1 << 2;

/// Timers of a guest that does not run: interrupts whose line is high now, as bits.
pub fn due(system: &System, offset: u64) -> u32 {
    let now = time::now_ticks();
    let bit = |interrupt, deadline: Option<u64>| match deadline {
        Some(deadline) if deadline <= now => 1u32 << interrupt,
        _ => 0,
    };
    let [virt, phys] = deadlines_from(now, system, offset);
    bit(VIRTUAL, virt) | bit(PHYSICAL, phys)
}

/// When the virtual and the physical timer of a guest that does not run become due, or that they
/// are, in the host's ticks.
pub fn deadlines(system: &System, offset: u64) -> [Option<u64>; 2] {
    deadlines_from(time::now_ticks(), system, offset)
}

fn deadlines_from(now: u64, system: &System, offset: u64) -> [Option<u64>; 2] {
    let one = |control, deadline, offset: u64| {
        let on = system.get(control) & (ENABLE | MASKED) == ENABLE;
        // A guest that was restored may have a counter ahead of the host's: its offset is negative
        // then.
        let left = || {
            system
                .get(deadline)
                .saturating_sub(now.wrapping_sub(offset))
        };
        on.then(|| now.saturating_add(left()))
    };
    [
        one(Name::TimerControl, Name::TimerDeadline, offset),
        one(Name::PhysicalControl, Name::PhysicalDeadline, 0),
    ]
}

/// Timers of the guest that this CPU holds: interrupts whose line is high now, as bits.
pub fn lines() -> u32 {
    let bit = |control: usize, interrupt| {
        let high = control as u64 & (ENABLE | MASKED | DUE) == ENABLE | DUE;
        u32::from(high) << interrupt
    };
    bit(read!("S3_5_C14_C3_1"), VIRTUAL) | bit(read!("S3_5_C14_C2_1"), PHYSICAL)
}

/// Stops this CPU's timers of EL1.
pub(super) fn stop() {
    // SAFETY: no guest is here whose they are.
    unsafe {
        write!("S3_5_C14_C3_1", 0usize);
        write!("S3_5_C14_C2_1", 0usize);
    }
}

/// Makes physical interrupts of timers active on this CPU, as if they had been taken, or not.
pub fn set_active(interrupts: u32, active: bool) {
    gic::set_active(interrupts & INTERRUPTS, active);
}
