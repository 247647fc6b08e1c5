//! The supervisor's status register (privileged manual, section 12.1.1).

use core::arch::asm;

/// Previous interrupt enable: what interrupts are after `sret`.
pub const SPIE: usize = 1 << 5;
/// Previous mode: `sret` leads to the supervisor.
pub const SPP: usize = 1 << 8;
/// Supervisor access to pages of programs.
pub const SUM: usize = 1 << 18;
/// Some registers are dirty.
const SD: usize = 1 << (usize::BITS - 1);

/// Registers that may be off, by where their state stands (section 3.1.6.6).
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Unit {
    /// f0 to f31 and `fcsr`.
    Float = 13,
    /// v0 to v31 and what controls them.
    Vector = 9,
}

/// The state of a unit's registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum UnitState {
    /// An instruction that uses them traps.
    Off = 0,
    /// As the kernel set them.
    Clean = 2,
    /// Changed since.
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
    // SAFETY: the kernel uses no register of a unit but in `units`, which sets what it needs.
    unsafe { asm!("csrc sstatus, {}", in(reg) bits, options(nostack, preserves_flags)) };
}

/// Whether registers of any unit changed.
#[inline(always)]
pub fn any_dirty() -> bool {
    read() & SD != 0
}

/// What a unit's registers are on this hart.
#[inline]
pub fn get(unit: Unit) -> UnitState {
    match read() >> unit as usize & 3 {
        0 => UnitState::Off,
        3 => UnitState::Dirty,
        _ => UnitState::Clean,
    }
}

/// Sets what a unit's registers are on this hart.
#[inline]
pub fn set(unit: Unit, state: UnitState) {
    clear(3 << unit as usize);
    // SAFETY: as in `clear`.
    unsafe {
        asm!("csrs sstatus, {}", in(reg) (state as usize) << unit as usize, options(nostack, preserves_flags))
    };
}

/// Switches all units off.
#[inline(always)]
pub fn set_all_off() {
    clear(UNITS);
}

/// As the kernel wants it on each hart: programs' memory closed, floating point and vectors off,
/// and `sret` leads to a program with interrupts on.
pub(super) fn init() {
    // SAFETY: nothing of this hart relies on what is switched off.
    unsafe {
        asm!("csrc sstatus, {}", in(reg) SPP | SUM | UNITS, options(nostack));
        asm!("csrs sstatus, {}", in(reg) SPIE, options(nostack));
    }
}
