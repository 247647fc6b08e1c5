//! A guest's breakpoints and watchpoints (Arm ARM D24.3). They trap until it first touches one: few guests ever do.

use super::super::sysreg::{read, write};

/// MDCR_EL2.TDA: debug registers trap.
const TRAP: usize = 1 << 9;
/// The most of each that there can be.
const MOST: usize = 16;
/// ID_AA64DFR0_EL1: how many of each there are, less one.
const BREAKPOINTS: usize = 12;
const WATCHPOINTS: usize = 20;

/// Debug registers of a guest.
#[derive(Default)]
pub struct Debug {
    /// Whether the guest has them.
    used: bool,
    /// MDSCR_EL1.
    control: u64,
    /// DBGBVR<n>_EL1 and DBGBCR<n>_EL1.
    breakpoints: [(u64, u64); MOST],
    /// DBGWVR<n>_EL1 and DBGWCR<n>_EL1.
    watchpoints: [(u64, u64); MOST],
}

mod registers {
    use super::super::super::sysreg::{read, write};

    family! {
        break_value, set_break_value:
        0 "S2_0_C0_C0_4" 1 "S2_0_C0_C1_4" 2 "S2_0_C0_C2_4" 3 "S2_0_C0_C3_4"
        4 "S2_0_C0_C4_4" 5 "S2_0_C0_C5_4" 6 "S2_0_C0_C6_4" 7 "S2_0_C0_C7_4"
        8 "S2_0_C0_C8_4" 9 "S2_0_C0_C9_4" 10 "S2_0_C0_C10_4" 11 "S2_0_C0_C11_4"
        12 "S2_0_C0_C12_4" 13 "S2_0_C0_C13_4" 14 "S2_0_C0_C14_4" 15 "S2_0_C0_C15_4"
    }
    family! {
        break_control, set_break_control:
        0 "S2_0_C0_C0_5" 1 "S2_0_C0_C1_5" 2 "S2_0_C0_C2_5" 3 "S2_0_C0_C3_5"
        4 "S2_0_C0_C4_5" 5 "S2_0_C0_C5_5" 6 "S2_0_C0_C6_5" 7 "S2_0_C0_C7_5"
        8 "S2_0_C0_C8_5" 9 "S2_0_C0_C9_5" 10 "S2_0_C0_C10_5" 11 "S2_0_C0_C11_5"
        12 "S2_0_C0_C12_5" 13 "S2_0_C0_C13_5" 14 "S2_0_C0_C14_5" 15 "S2_0_C0_C15_5"
    }
    family! {
        watch_value, set_watch_value:
        0 "S2_0_C0_C0_6" 1 "S2_0_C0_C1_6" 2 "S2_0_C0_C2_6" 3 "S2_0_C0_C3_6"
        4 "S2_0_C0_C4_6" 5 "S2_0_C0_C5_6" 6 "S2_0_C0_C6_6" 7 "S2_0_C0_C7_6"
        8 "S2_0_C0_C8_6" 9 "S2_0_C0_C9_6" 10 "S2_0_C0_C10_6" 11 "S2_0_C0_C11_6"
        12 "S2_0_C0_C12_6" 13 "S2_0_C0_C13_6" 14 "S2_0_C0_C14_6" 15 "S2_0_C0_C15_6"
    }
    family! {
        watch_control, set_watch_control:
        0 "S2_0_C0_C0_7" 1 "S2_0_C0_C1_7" 2 "S2_0_C0_C2_7" 3 "S2_0_C0_C3_7"
        4 "S2_0_C0_C4_7" 5 "S2_0_C0_C5_7" 6 "S2_0_C0_C6_7" 7 "S2_0_C0_C7_7"
        8 "S2_0_C0_C8_7" 9 "S2_0_C0_C9_7" 10 "S2_0_C0_C10_7" 11 "S2_0_C0_C11_7"
        12 "S2_0_C0_C12_7" 13 "S2_0_C0_C13_7" 14 "S2_0_C0_C14_7" 15 "S2_0_C0_C15_7"
    }
}

fn count(field: usize) -> usize {
    (read!("id_aa64dfr0_el1") >> field & 0xf) + 1
}

impl Debug {
    /// The guest has them from its next entry on.
    pub fn give(&mut self) {
        self.used = true;
    }

    /// Bits of MDCR_EL2 that are not to be set for it.
    pub(super) fn let_through(&self) -> usize {
        if self.used { TRAP } else { 0 }
    }

    /// Puts them into this CPU.
    pub(super) fn load(&self) {
        if !self.used {
            return;
        }
        for (number, (value, control)) in (0..count(BREAKPOINTS)).zip(self.breakpoints) {
            registers::set_break_value(number, value);
            registers::set_break_control(number, control);
        }
        for (number, (value, control)) in (0..count(WATCHPOINTS)).zip(self.watchpoints) {
            registers::set_watch_value(number, value);
            registers::set_watch_control(number, control);
        }
        // SAFETY: debug exceptions are EL1's own.
        unsafe { write!("mdscr_el1", self.control) };
    }

    /// Takes them from this CPU, which then has no debug exceptions.
    pub(super) fn save(&mut self) {
        if !self.used {
            return;
        }
        self.control = read!("mdscr_el1") as u64;
        // SAFETY: as the kernel has it.
        unsafe { write!("mdscr_el1", 0usize) };
        for (number, place) in (0..count(BREAKPOINTS)).zip(&mut self.breakpoints) {
            *place = (
                registers::break_value(number),
                registers::break_control(number),
            );
            registers::set_break_control(number, 0);
        }
        for (number, place) in (0..count(WATCHPOINTS)).zip(&mut self.watchpoints) {
            *place = (
                registers::watch_value(number),
                registers::watch_control(number),
            );
            registers::set_watch_control(number, 0);
        }
    }
}
