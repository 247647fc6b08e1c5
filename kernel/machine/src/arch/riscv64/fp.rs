//! The floating-point registers.

use core::arch::naked_asm;
use core::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// f0 to f31 and `fcsr`.
#[repr(C)]
#[derive(Clone, FromBytes, IntoBytes, Immutable)]
pub(super) struct Registers {
    /// f0 to f31.
    pub f: [u64; 32],
    /// Rounding mode and flags.
    pub fcsr: u32,
    unused: u32,
}

impl Registers {
    /// A program's initial values.
    pub const ZERO: Registers = Registers {
        f: [0; 32],
        fcsr: 0,
        unused: 0,
    };

    /// Creates registers with these values.
    pub fn new(f: [u64; 32], fcsr: u32) -> Self {
        Registers { f, fcsr, unused: 0 }
    }

    /// Whether they have a program's initial values.
    pub fn is_zero(&self) -> bool {
        self.f.iter().fold(u64::from(self.fcsr), |all, f| all | f) == 0
    }

    /// Saves this hart's registers, which must be enabled.
    pub fn save(&mut self) {
        // SAFETY: the caller has enabled the registers; otherwise this traps.
        unsafe { store(self) };
    }

    /// Loads them into this hart, whose registers must be enabled.
    pub fn load(&self) {
        // SAFETY: as in `save`.
        unsafe { load(self) };
    }
}

macro_rules! each_register {
    ($op:literal) => {
        each_register!($op: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
    ($op:literal: $($n:literal)*) => {
        concat!($($op, " f", $n, ", {f} + 8 * ", $n, "(a0)\n"),*)
    };
}

/// # Safety
/// The registers are enabled.
#[unsafe(naked)]
unsafe extern "C" fn store(to: &mut Registers) {
    naked_asm!(
        ".option push",
        ".option arch, +d",
        each_register!("fsd"),
        "frcsr t0",
        "sw t0, {fcsr}(a0)",
        "ret",
        ".option pop",
        f = const offset_of!(Registers, f),
        fcsr = const offset_of!(Registers, fcsr),
    )
}

/// # Safety
/// The registers are enabled.
#[unsafe(naked)]
unsafe extern "C" fn load(from: &Registers) {
    naked_asm!(
        ".option push",
        ".option arch, +d",
        each_register!("fld"),
        "lw t0, {fcsr}(a0)",
        "fscsr t0",
        "ret",
        ".option pop",
        f = const offset_of!(Registers, f),
        fcsr = const offset_of!(Registers, fcsr),
    )
}
