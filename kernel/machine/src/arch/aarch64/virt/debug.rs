//! A guest's breakpoints and watchpoints (Arm ARM, DBGBCR<n>_EL1, DBGWCR<n>_EL1). They trap until
//! it first uses one, which few guests do. While a VMM debugs its guest, it has the hardware's for
//! itself (KVM_SET_GUEST_DEBUG).

use alloc::sync::Arc;

use super::super::points::UNDEBUGGED;
use super::super::sysreg::{read, write};
use super::encoding;

/// MDSCR_EL1, MDCCINT_EL1, and DBGBVR0_EL1, DBGBCR0_EL1, DBGWVR0_EL1 and DBGWCR0_EL1; the CRm
/// fields of the others hold their numbers.
const CONTROL: u16 = encoding(2, 0, 0, 2, 2);
const CHANNEL: u16 = encoding(2, 0, 0, 2, 0);
const BREAK_VALUE: u16 = encoding(2, 0, 0, 0, 4);
const BREAK_CONTROL: u16 = encoding(2, 0, 0, 0, 5);
const WATCH_VALUE: u16 = encoding(2, 0, 0, 0, 6);
const WATCH_CONTROL: u16 = encoding(2, 0, 0, 0, 7);

/// OSLSR_EL1: the OS lock is implemented; it is locked.
const LOCK_THERE: u64 = 1 << 3;
const LOCKED: u64 = 1 << 1;

/// MDCR_EL2.TDA: accesses to debug registers trap.
const TRAP: usize = 1 << 9;
/// The maximum number of each kind.
const MOST: usize = 16;
/// ID_AA64DFR0_EL1: the positions of the number of each kind, minus one.
const BREAKPOINTS: usize = 12;
const WATCHPOINTS: usize = 20;

/// MDCR_EL2.TDE: debug exceptions are routed to EL2.
const TAKE: usize = 1 << 8;
/// MDSCR_EL1: enables single steps; enables breakpoints and watchpoints.
const STEPS: u64 = 1;
const POINTS: u64 = 1 << 15;

/// Breakpoints or watchpoints: the value and the control register of each.
pub type Points = [(u64, u64); MOST];

/// The debug registers of a guest.
#[derive(Clone, Default)]
pub struct Debug {
    /// Whether the guest uses them.
    used: bool,
    /// Whether its OS lock is locked, which disables debug exceptions.
    locked: bool,
    /// MDSCR_EL1.
    control: u64,
    /// MDCCINT_EL1, which is only stored.
    channel: u64,
    /// DBGBVR<n>_EL1 and DBGBCR<n>_EL1.
    breakpoints: Points,
    /// DBGWVR<n>_EL1 and DBGWCR<n>_EL1.
    watchpoints: Points,
    /// Debugging of the guest by the VMM.
    guest_debug: Option<GuestDebug>,
}

/// The debug exceptions that a VMM requests.
#[derive(Clone)]
struct GuestDebug {
    steps: bool,
    /// Breakpoints and watchpoints that replace the guest's own.
    points: Option<Arc<(Points, Points)>>,
}

pub(in crate::arch::aarch64) mod registers {
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

/// The numbers of breakpoints and watchpoints.
pub fn points() -> (usize, usize) {
    (count(BREAKPOINTS), count(WATCHPOINTS))
}

impl Debug {
    /// The state after a reset of the guest: the VMM's debugging continues.
    pub fn at_reset(&self) -> Self {
        Debug {
            guest_debug: self.guest_debug.clone(),
            ..Debug::default()
        }
    }

    /// Gives the registers to the guest from its next entry on.
    pub fn give(&mut self) {
        self.used = true;
    }

    /// As [`Debug::give`], if the value that the VMM has set enables exceptions.
    pub fn give_if_on(&mut self) {
        self.used |= self.control != 0;
    }

    /// OSLSR_EL1: the state of the guest's OS lock.
    pub fn lock_status(&self) -> u64 {
        LOCK_THERE | (u64::from(self.locked) * LOCKED)
    }

    /// Sets the OS lock from a value of OSLSR_EL1; returns false, without a change, if any other
    /// field differs.
    pub fn set_lock_status(&mut self, status: u64) -> bool {
        let known = status & !LOCKED == LOCK_THERE;
        if known {
            self.set_lock(status & LOCKED != 0);
        }
        known
    }

    /// Locks or unlocks the OS lock, as a write to OSLAR_EL1 does.
    pub fn set_lock(&mut self, locked: bool) {
        self.locked = locked;
        self.give_if_on();
    }

    /// Starts debugging by the VMM, which gets all debug exceptions; `points` replace the guest's
    /// own, if given.
    pub fn take_for_vmm(&mut self, steps: bool, points: Option<Arc<(Points, Points)>>) {
        self.guest_debug = Some(GuestDebug { steps, points });
    }

    /// Ends debugging by the VMM.
    pub fn leave_to_guest(&mut self) {
        self.guest_debug = None;
    }

    /// Whether the guest's own accesses trap, because the VMM debugs it or its OS lock is locked.
    pub fn is_kept(&self) -> bool {
        self.guest_debug.is_some() || self.locked
    }

    /// Whether the VMM single-steps the guest.
    pub fn steps(&self) -> bool {
        self.guest_debug
            .as_ref()
            .is_some_and(|guest_debug| guest_debug.steps)
    }

    /// The guest's register with this encoding, while no CPU holds it.
    pub fn by_encoding(&mut self, number: u16) -> Option<&mut u64> {
        let at = usize::from(number >> 3 & 0xf);
        let point = |first: u16| number & !(0xf << 3) == first;
        match number {
            CONTROL => Some(&mut self.control),
            CHANNEL => Some(&mut self.channel),
            _ if point(BREAK_VALUE) => Some(&mut self.breakpoints[at].0),
            _ if point(BREAK_CONTROL) => Some(&mut self.breakpoints[at].1),
            _ if point(WATCH_VALUE) => Some(&mut self.watchpoints[at].0),
            _ if point(WATCH_CONTROL) => Some(&mut self.watchpoints[at].1),
            _ => None,
        }
    }

    /// The encodings of all registers.
    pub fn encodings() -> impl Iterator<Item = u16> {
        let points = [BREAK_VALUE, BREAK_CONTROL, WATCH_VALUE, WATCH_CONTROL];
        let numbered = points
            .into_iter()
            .flat_map(|first| (0..MOST as u16).map(move |at| first | at << 3));
        [CONTROL, CHANNEL].into_iter().chain(numbered)
    }

    /// The bits of MDCR_EL2 that depend on this state.
    pub(super) fn traps(&self) -> usize {
        match self.guest_debug {
            _ if !self.is_loaded() => TRAP,
            Some(_) => TRAP | TAKE,
            None => 0,
        }
    }

    /// Whether the hardware holds debug registers while the guest runs, its own or the VMM's, which
    /// is rare.
    pub(super) fn is_loaded(&self) -> bool {
        self.guest_debug.is_some() || self.used && !self.locked
    }

    /// Loads the registers into this CPU.
    #[cold]
    pub(super) fn load(&self) {
        let (mut control, mut points) = (self.control, (&self.breakpoints, &self.watchpoints));
        if let Some(guest_debug) = &self.guest_debug {
            control &= !STEPS;
            control |= u64::from(guest_debug.steps) * STEPS;
            if let Some(own) = &guest_debug.points {
                control |= POINTS;
                points = (&own.0, &own.1);
            }
        }
        for (number, (value, control)) in (0..count(BREAKPOINTS)).zip(points.0) {
            registers::set_break_value(number, *value);
            registers::set_break_control(number, *control);
        }
        for (number, (value, control)) in (0..count(WATCHPOINTS)).zip(points.1) {
            registers::set_watch_value(number, *value);
            registers::set_watch_control(number, *control);
        }
        // SAFETY: debug exceptions are taken at EL1, or through the vectors that leave a guest.
        unsafe { write!("mdscr_el1", control) };
    }

    /// Saves the registers from this CPU, and disables debug exceptions.
    #[cold]
    pub(super) fn save(&mut self) {
        // While the VMM debugs, the guest cannot have changed its own registers, and the hardware
        // may hold others.
        let own = self.guest_debug.is_none();
        if own {
            self.control = read!("mdscr_el1") as u64;
        }
        // SAFETY: the kernel's value.
        unsafe { write!("mdscr_el1", UNDEBUGGED) };
        for (number, place) in (0..count(BREAKPOINTS)).zip(&mut self.breakpoints) {
            if own {
                let value = registers::break_value(number);
                *place = (value, registers::break_control(number));
            }
            registers::set_break_control(number, 0);
        }
        for (number, place) in (0..count(WATCHPOINTS)).zip(&mut self.watchpoints) {
            if own {
                let value = registers::watch_value(number);
                *place = (value, registers::watch_control(number));
            }
            registers::set_watch_control(number, 0);
        }
    }
}
