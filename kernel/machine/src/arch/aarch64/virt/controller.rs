//! The hardware interface of a guest's interrupt controller: list registers and control registers
//! (Arm IHI 0069, 12.4).

use vgic::{CpuInterface, Limits};

use super::super::sysreg::{read, write};

/// ICH_HCR_EL2: enables the interface; or traps all its registers, for a guest without a
/// controller.
const ON: usize = 1;
const TRAP_ALL: usize = 0b111 << 10;
/// ICH_HCR_EL2: maintenance interrupt while too few list registers are in use, or after the end of
/// an interrupt that is in no list register.
const UNDERFLOW: usize = 1 << 1;
const NOT_PRESENT: usize = 1 << 2;
/// ICH_HCR_EL2.EOIcount.
const ENDED: u32 = 27;

/// The state of a guest's interface apart from list registers.
#[derive(Clone)]
pub struct Controller {
    /// Whether the guest has a controller.
    pub present: bool,
    /// Number of active priority registers per group.
    priorities: usize,
    /// The guest's control registers and active priorities.
    pub interface: CpuInterface,
}

family! {
    /// Reads a list register.
    list,
    /// Writes a list register.
    set_list:
    0 "S3_4_C12_C12_0" 1 "S3_4_C12_C12_1" 2 "S3_4_C12_C12_2" 3 "S3_4_C12_C12_3"
    4 "S3_4_C12_C12_4" 5 "S3_4_C12_C12_5" 6 "S3_4_C12_C12_6" 7 "S3_4_C12_C12_7"
    8 "S3_4_C12_C13_0" 9 "S3_4_C12_C13_1" 10 "S3_4_C12_C13_2" 11 "S3_4_C12_C13_3"
    12 "S3_4_C12_C13_4" 13 "S3_4_C12_C13_5" 14 "S3_4_C12_C13_6" 15 "S3_4_C12_C13_7"
}

mod priorities {
    use super::super::super::sysreg::{read, write};

    family! {
        group0, set_group0:
        0 "S3_4_C12_C8_0" 1 "S3_4_C12_C8_1" 2 "S3_4_C12_C8_2" 3 "S3_4_C12_C8_3"
    }
    family! {
        group1, set_group1:
        0 "S3_4_C12_C9_0" 1 "S3_4_C12_C9_1" 2 "S3_4_C12_C9_2" 3 "S3_4_C12_C9_3"
    }
}

/// Number of list registers (ICH_VTR_EL2.ListRegs).
pub fn list_registers() -> usize {
    (read!("S3_4_C12_C11_1") & 0x1f) + 1
}

/// Number of active priority registers per group: one for 32 levels (ICH_VTR_EL2.PREbits).
fn priority_registers() -> usize {
    1 << ((read!("S3_4_C12_C11_1") >> 26 & 7).saturating_sub(4)).min(2)
}

/// The capabilities of the hardware interface (ICH_VTR_EL2: PRIbits, IDbits, SEIS and A3V).
fn limits() -> Limits {
    let kind = read!("S3_4_C12_C11_1") as u64;
    Limits {
        priority_bits: (kind >> 29 & 7) + 1,
        number_bits: kind >> 23 & 7,
        others: (kind >> 22 & 1) << 14 | (kind >> 21 & 1) << 15,
    }
}

/// Selects the maintenance interrupts: while fewer than two list registers are in use, and when the
/// guest ends an interrupt that is in none.
pub fn set_reports(underflow: bool, not_present: bool) {
    let bit = |on, bit| if on { bit } else { 0 };
    let value = ON | bit(underflow, UNDERFLOW) | bit(not_present, NOT_PRESENT);
    // SAFETY: affects only a guest.
    unsafe { write!("S3_4_C12_C11_0", value) };
}

/// Number of interrupts that the guest ended and that were in no list register.
pub fn ended_elsewhere() -> u32 {
    (read!("S3_4_C12_C11_0") >> ENDED & 0x1f) as u32
}

impl Default for Controller {
    fn default() -> Self {
        Controller {
            present: false,
            priorities: priority_registers(),
            interface: CpuInterface::new(limits()),
        }
    }
}

impl Controller {
    /// Loads the state into this CPU; the caller loads list registers.
    pub(super) fn load(&self) {
        if !self.present {
            // SAFETY: affects only a guest.
            unsafe { write!("S3_4_C12_C11_0", TRAP_ALL) };
            return;
        }
        self.load_priorities(0);
        for number in 1..self.priorities {
            self.load_priorities(number);
        }
        // SAFETY: affects only a guest.
        unsafe { write!("S3_4_C12_C11_7", self.interface.control) };
    }

    #[inline(always)]
    fn load_priorities(&self, number: usize) {
        priorities::set_group0(number, self.interface.active[0][number]);
        priorities::set_group1(number, self.interface.active[1][number]);
    }

    #[inline(always)]
    fn save_priorities(&mut self, number: usize) {
        self.interface.active[0][number] = priorities::group0(number);
        self.interface.active[1][number] = priorities::group1(number);
    }

    /// Saves the state from this CPU, and disables the interface.
    pub(super) fn save(&mut self) {
        if self.present {
            self.interface.control = read!("S3_4_C12_C11_7") as u64;
            self.save_priorities(0);
            for number in 1..self.priorities {
                self.save_priorities(number);
            }
        }
        // SAFETY: affects only a guest.
        unsafe { write!("S3_4_C12_C11_0", 0usize) };
    }
}
