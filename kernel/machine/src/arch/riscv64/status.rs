//! The supervisor's status register (privileged manual, section 12.1.1).

use core::arch::asm;

/// Previous interrupt enable: whether interrupts are enabled after `sret`.
pub const SPIE: usize = 1 << 5;
/// Previous mode: `sret` returns to S-mode.
pub const SPP: usize = 1 << 8;
/// Supervisor access to user pages.
pub const SUM: usize = 1 << 18;
/// The state of some unit is dirty.
const SD: usize = 1 << (usize::BITS - 1);

/// Units that may be off, by the position of their state (section 3.1.6.6).
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Unit {
    /// f0 to f31 and `fcsr`.
    Float = 13,
    /// v0 to v31 and the vector CSRs.
    Vector = 9,
}

/// The state of a unit's registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum UnitState {
    /// Instructions that use them trap.
    Off = 0,
    /// Unchanged since the kernel loaded them.
    Clean = 2,
    /// Changed.
    Dirty = 3,
}

/// The bits of both units.
const UNITS: usize = 3 << Unit::Float as usize | 3 << Unit::Vector as usize;

#[inline(always)]
fn read() -> usize {
    let value: usize;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, sstatus", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

#[inline(always)]
fn clear(bits: usize) {
    // SAFETY: the kernel uses the registers of a unit only in `units`, which sets the states that
    // it needs.
    unsafe { asm!("csrc sstatus, {}", in(reg) bits, options(nostack, preserves_flags)) };
}

/// Whether the registers of any unit were changed.
#[inline(always)]
pub fn any_dirty() -> bool {
    read() & SD != 0
}

/// The state of a unit on this hart.
#[inline]
pub fn get(unit: Unit) -> UnitState {
    match read() >> unit as usize & 3 {
        0 => UnitState::Off,
        3 => UnitState::Dirty,
        _ => UnitState::Clean,
    }
}

/// Sets the state of a unit on this hart.
#[inline]
pub fn set(unit: Unit, state: UnitState) {
    clear(3 << unit as usize);
    // SAFETY: as in `clear`.
    unsafe {
        asm!("csrs sstatus, {}", in(reg) (state as usize) << unit as usize, options(nostack, preserves_flags))
    };
}

/// Turns all units off.
#[inline(always)]
pub fn set_all_off() {
    clear(UNITS);
}

/// Sets the kernel's state on each hart: program memory inaccessible, floating point and vectors
/// off, and `sret` returns to a program with interrupts enabled.
pub(super) fn init() {
    // SAFETY: nothing on this hart relies on the bits that are cleared.
    unsafe {
        asm!("csrc sstatus, {}", in(reg) SPP | SUM | UNITS, options(nostack));
        asm!("csrs sstatus, {}", in(reg) SPIE, options(nostack));
    }
}
