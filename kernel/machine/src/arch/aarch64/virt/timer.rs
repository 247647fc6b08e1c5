//! A guest's timers: the virtual one, and the physical timer of EL1, which a host at EL2 does not
//! use. Their interrupts come to the host, which forwards them as hardware interrupts: they stay
//! active, and so do not fire again, until the guest has handled them.

use super::super::sysreg::{isb, read, write};
use super::super::{gic, time};
use super::{Name, Registers, System, encoding};

/// Interrupts of the virtual and the physical timer (Arm BSA, B_PPI_00).
pub const VIRTUAL: u32 = 27;
pub const PHYSICAL: u32 = 30;
/// Both interrupts, as bits.
pub const INTERRUPTS: u32 = 1 << VIRTUAL | 1 << PHYSICAL;

/// CNTx_CTL_EL0: enabled, masked, and the condition is met.
const ENABLE: u64 = 1;
const MASKED: u64 = 1 << 1;
const DUE: u64 = 1 << 2;

/// CNTHCTL_EL2.EL1PCTEN and EL1PTEN with E2H: the physical counter, and the physical timer of EL1,
/// do not trap in a guest. The host is not affected.
const PHYSICAL_HERE: usize = 0b11 << 10;

/// CNTPCT_EL0, CNTPCTSS_EL0; CNTP_TVAL_EL0, CNTP_CTL_EL0 and CNTP_CVAL_EL0.
const COUNTER: u16 = encoding(3, 3, 14, 0, 1);
const COUNTER_ORDERED: u16 = encoding(3, 3, 14, 0, 5);
const VALUE: u16 = encoding(3, 3, 14, 2, 0);
const CONTROL: u16 = encoding(3, 3, 14, 2, 1);
const DEADLINE: u16 = encoding(3, 3, 14, 2, 2);
/// The significant bits of CNTP_TVAL_EL0.
const VALUE_BITS: u64 = u32::MAX as u64;

/// The difference between the host's counters and a guest's, in ticks.
#[derive(Clone, Copy, Default)]
pub struct Offsets {
    /// Offset of the virtual counter (CNTVOFF_EL2).
    pub virt: u64,
    /// Offset of the physical counter. Unless it is 0, accesses to the counter and its timer trap,
    /// since not all CPUs have CNTPOFF_EL2.
    pub phys: u64,
}

impl Offsets {
    /// Whether the virtual counter is ahead of the host's: then the hardware may miss its timer.
    /// QEMU's deadline is the sum of CNTV_CVAL_EL0 and CNTVOFF_EL2, which must not overflow.
    pub fn is_ahead(&self) -> bool {
        self.virt > u64::MAX / 2
    }
}

/// The value of CNTP_CVAL_EL0 for a guest's `deadline`. The plain sum of both would overflow if the
/// guest's counter is ahead.
pub(super) fn hosts_deadline(deadline: u64, offset: u64) -> u64 {
    let now = time::now_ticks();
    match deadline.checked_sub(now.wrapping_sub(offset)) {
        Some(left) => now.saturating_add(left),
        None => 0,
    }
}

/// Lets the guest in this CPU access the physical counter and timer, or makes them trap.
pub(super) fn give_physical(give: bool) {
    let others = read!("cnthctl_el2") & !PHYSICAL_HERE;
    let own = if give { PHYSICAL_HERE } else { 0 };
    // SAFETY: affects only guests.
    unsafe { write!("cnthctl_el2", others | own) };
}

/// Emulates a trapped access of the guest in this CPU to the physical counter or its timer: a write
/// of `written`, or a read, whose value is returned. None if it is another register.
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
        // SAFETY: the timer belongs to the guest.
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
    // SAFETY: the timer belongs to a guest.
    unsafe { write!("S3_5_C14_C2_2", hosts_deadline(deadline, offset)) };
}

/// The control register of a timer of a guest that does not run, if `register` names one. As on
/// Linux, a disabled timer also reports whether its condition is met.
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

/// The timer interrupts of a guest that does not run whose line is high now, as bits.
pub fn due(system: &System, offsets: Offsets) -> u32 {
    let now = time::now_ticks();
    let bit = |interrupt, deadline: Option<u64>| match deadline {
        Some(deadline) if deadline <= now => 1u32 << interrupt,
        _ => 0,
    };
    let [virt, phys] = deadlines_from(now, system, offsets);
    bit(VIRTUAL, virt) | bit(PHYSICAL, phys)
}

/// The times at which the virtual and the physical timer of a guest that does not run fire, or now
/// if they already have, in the host's ticks.
pub fn deadlines(system: &System, offsets: Offsets) -> [Option<u64>; 2] {
    deadlines_from(time::now_ticks(), system, offsets)
}

fn deadlines_from(now: u64, system: &System, offsets: Offsets) -> [Option<u64>; 2] {
    let one = |control, deadline, offset: u64| {
        let on = system.get(control) & (ENABLE | MASKED) == ENABLE;
        // A restored guest may have a counter ahead of the host's: its offset is negative then.
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

/// The timer interrupts of the guest in this CPU whose line is high now, as bits.
pub fn lines() -> u32 {
    let bit = |control: usize, interrupt| {
        let high = control as u64 & (ENABLE | MASKED | DUE) == ENABLE | DUE;
        u32::from(high) << interrupt
    };
    bit(read!("S3_5_C14_C3_1"), VIRTUAL) | bit(read!("S3_5_C14_C2_1"), PHYSICAL)
}

/// Stops this CPU's EL1 timers.
pub(super) fn stop() {
    // SAFETY: no guest that owns them is in this CPU.
    unsafe {
        write!("S3_5_C14_C3_1", 0usize);
        write!("S3_5_C14_C2_1", 0usize);
    }
}

/// Sets or clears the active state of this CPU's physical timer interrupts, as if they had been
/// taken.
pub fn set_active(interrupts: u32, active: bool) {
    gic::set_active(interrupts & INTERRUPTS, active);
}
