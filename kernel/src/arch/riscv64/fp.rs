//! The floating-point registers of threads: off until a thread first uses them, then switched with it.

use core::arch::naked_asm;
use core::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::status::{self, Fp};

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
    /// As a program finds them first.
    pub const ZERO: Registers = Registers {
        f: [0; 32],
        fcsr: 0,
        unused: 0,
    };

    /// Whether they are as a program finds them first.
    fn is_zero(&self) -> bool {
        self.f.iter().fold(u64::from(self.fcsr), |all, f| all | f) == 0
    }
}

/// What is kept of a thread.
pub(super) struct State {
    registers: Registers,
    used: bool,
}

impl State {
    /// Of a thread that never used them.
    pub const fn new() -> Self {
        State {
            registers: Registers::ZERO,
            used: false,
        }
    }

    /// Takes the hart's registers out when their thread goes.
    #[inline]
    pub fn leave(&mut self) {
        if status::fp() == Fp::Dirty {
            // SAFETY: the registers are on, as they are dirty.
            unsafe { store(&mut self.registers) };
        }
    }

    /// Puts them into the hart when their thread comes.
    #[inline]
    pub fn enter(&mut self) {
        if self.used {
            status::set_fp(Fp::Dirty);
            // SAFETY: the registers are on.
            unsafe { load(&self.registers) };
            status::set_fp(Fp::Clean);
        } else {
            status::set_fp(Fp::Off);
        }
    }

    /// The first use by the thread that runs now; false if it was not the first.
    pub fn begin(&mut self) -> bool {
        let first = !core::mem::replace(&mut self.used, true);
        if first {
            self.enter();
        }
        first
    }

    /// What the thread that runs now has in them, if it ever used them.
    pub fn current(&mut self) -> Option<Registers> {
        self.leave();
        self.used.then(|| self.registers.clone())
    }

    /// Gives the thread that runs now back what a signal's frame held, unless it never used any.
    pub fn restore(&mut self, registers: &Registers) {
        if self.used || !registers.is_zero() {
            self.registers.clone_from(registers);
            self.used = true;
            self.enter();
        }
    }

    /// What a stopped thread has in them.
    pub fn stopped(&self) -> &Registers {
        &self.registers
    }

    /// Changes what a stopped thread has in them.
    pub fn set_stopped(&mut self, f: [u64; 32], fcsr: u32) {
        self.registers = Registers { f, fcsr, unused: 0 };
        self.used = true;
    }

    /// As after exec, for the thread that runs now.
    pub fn reset(&mut self) {
        *self = State::new();
        self.enter();
    }

    /// A copy for a child of the thread that runs now.
    pub fn fork(&mut self) -> Self {
        self.leave();
        State {
            registers: self.registers.clone(),
            used: self.used,
        }
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
/// The registers are on.
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
/// The registers are on.
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
