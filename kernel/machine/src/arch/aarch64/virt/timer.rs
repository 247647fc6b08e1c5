//! A guest's timers: the virtual one, and the physical one of EL1, which the host at EL2 leaves
//! alone. Their interrupts come to the host, which passes them on as interrupts of the hardware:
//! they stay active, and so quiet, until the guest has dealt with them.

use super::super::sysreg::{isb, read, write};
use super::super::{gic, time};
use super::{Name, Registers, System, encoding};

/// Interrupts of the virtual and the physical timer (Arm BSA, B_PPI_00).
pub const VIRTUAL: u32 = 27;
pub const PHYSICAL: u32 = 30;
/// Both, as bits.
pub const INTERRUPTS: u32 = 1 << VIRTUAL | 1 << PHYSICAL;

/// CNTx_CTL_EL0: enabled, masked, and whether its time has come (Arm ARM D24.8).
const ENABLE: u64 = 1;
const MASKED: u64 = 1 << 1;
const DUE: u64 = 1 << 2;

/// CNTHCTL_EL2.EL1PCTEN and EL1PTEN with E2H: a guest has the physical counter, and the physical
/// timer of EL1 (D24.2.31). The host is not concerned.
const PHYSICAL_HERE: usize = 0b11 << 10;

/// CNTPCT_EL0, CNTPCTSS_EL0; CNTP_TVAL_EL0, CNTP_CTL_EL0 and CNTP_CVAL_EL0.
const COUNTER: u16 = encoding(3, 3, 14, 0, 1);
const COUNTER_ORDERED: u16 = encoding(3, 3, 14, 0, 5);
const VALUE: u16 = encoding(3, 3, 14, 2, 0);
const CONTROL: u16 = encoding(3, 3, 14, 2, 1);
const DEADLINE: u16 = encoding(3, 3, 14, 2, 2);
/// Of CNTP_TVAL_EL0.
const VALUE_BITS: u64 = u32::MAX as u64;

/// What a guest's counters are behind the host's, in ticks.
#[derive(Clone, Copy, Default)]
pub struct Offsets {
    /// That of the virtual one (CNTVOFF_EL2).
    pub virt: u64,
    /// That of the physical one. Where there is any, accesses to the counter and its timer trap:
    /// not all CPUs have CNTPOFF_EL2.
    pub phys: u64,
}

impl Offsets {
    /// Whether the virtual counter is ahead of the host's: then the hardware may miss its timer.
    /// QEMU's deadline is a sum of CNTV_CVAL_EL0 and CNTVOFF_EL2 that must not overflow.
    pub fn is_ahead(&self) -> bool {
        self.virt > u64::MAX / 2
    }
}

/// What CNTP_CVAL_EL0 holds in place of a guest's `deadline`. A sum of both would overflow where
/// the guest's counter is ahead.
pub(super) fn hosts_deadline(deadline: u64, offset: u64) -> u64 {
    let now = time::now_ticks();
    match deadline.checked_sub(now.wrapping_sub(offset)) {
        Some(left) => now.saturating_add(left),
        None => 0,
    }
}

/// Lets the guest that this CPU holds have the physical counter and timer, or lets them trap.
pub(super) fn give_physical(give: bool) {
    let others = read!("cnthctl_el2") & !PHYSICAL_HERE;
    let own = if give { PHYSICAL_HERE } else { 0 };
    // SAFETY: concerns guests alone.
    unsafe { write!("cnthctl_el2", others | own) };
}

/// Does the access to the physical counter or its timer for which the guest that this CPU holds was
/// left: a write of `written`, or a read, of which the value comes back. None if it is something
/// else.
pub fn access_physical(
    registers: &mut Registers,
    register: u16,
    written: Option<u64>,
    offset: u64,
) -> Option<u64> {
    let count = || time::now_ticks().wrapping_sub(offset);
    match (register, written) {
        (COUNTER | COUNTER_ORDERED, None) => return Some(count()),
        (VALUE, None) => return Some(registers.deadline.wrapping_sub(count()) & VALUE_BITS),
        (CONTROL, None) => return Some(read!("S3_5_C14_C2_1") as u64),
        (DEADLINE, None) => return Some(registers.deadline),
        // SAFETY: the timer is the guest's.
        (CONTROL, Some(value)) => unsafe { write!("S3_5_C14_C2_1", value) },
        (VALUE, Some(value)) => {
            registers.deadline = count().wrapping_add(value as i32 as u64);
            set_deadline(registers.deadline, offset);
        }
        (DEADLINE, Some(value)) => {
            registers.deadline = value;
            set_deadline(value, offset);
        }
        _ => return None,
    }
    isb();
    Some(0)
}

fn set_deadline(deadline: u64, offset: u64) {
    // SAFETY: the timer is a guest's.
    unsafe { write!("S3_5_C14_C2_2", hosts_deadline(deadline, offset)) };
}

/// A timer's control register of a guest that does not run, if that is what `register` names. As in
/// Linux, a timer that is off says as well whether its time has come.
pub fn control(system: &System, offsets: Offsets, register: u16) -> Option<u64> {
    let timers = [
        (Name::TimerControl, Name::TimerDeadline, offsets.virt),
        (Name::PhysicalControl, Name::PhysicalDeadline, offsets.phys),
    ];
    let named = |name: Name| System::ENCODINGS[name as usize] == register;
    let (control, deadline, offset) = timers.into_iter().find(|timer| named(timer.0))?;
    let is_due = time::now_ticks().wrapping_sub(offset) >= system.get(deadline);
    Some(system.get(control) & !DUE | if is_due { DUE } else { 0 })
}

/// Timers of a guest that does not run: interrupts whose line is high now, as bits.
pub fn due(system: &System, offsets: Offsets) -> u32 {
    let now = time::now_ticks();
    let bit = |interrupt, deadline: Option<u64>| match deadline {
        Some(deadline) if deadline <= now => 1u32 << interrupt,
        _ => 0,
    };
    let [virt, phys] = deadlines_from(now, system, offsets);
    bit(VIRTUAL, virt) | bit(PHYSICAL, phys)
}

/// When the virtual and the physical timer of a guest that does not run become due, or that they
/// are, in the host's ticks.
pub fn deadlines(system: &System, offsets: Offsets) -> [Option<u64>; 2] {
    deadlines_from(time::now_ticks(), system, offsets)
}

fn deadlines_from(now: u64, system: &System, offsets: Offsets) -> [Option<u64>; 2] {
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
        one(Name::TimerControl, Name::TimerDeadline, offsets.virt),
        one(Name::PhysicalControl, Name::PhysicalDeadline, offsets.phys),
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
