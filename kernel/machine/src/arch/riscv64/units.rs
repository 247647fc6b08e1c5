//! Lazily enabled registers: off until a thread first uses them, and then switched with it:
//! floating point and vectors.

use super::fp::Registers;
use super::status::{self, Unit, UnitState};
use super::vector::{Image, Policy};
use crate::errno::Result;

/// The saved state of a thread's units.
pub(super) struct State {
    /// Whether the thread has ever used any of them.
    used: bool,
    used_float: bool,
    float: Registers,
    vector: Image,
    /// Whether the thread may use vectors.
    pub policy: Policy,
}

impl State {
    /// The state of a thread that has never used them.
    pub const fn new() -> Self {
        State {
            used: false,
            used_float: false,
            float: Registers::ZERO,
            vector: Image::NONE,
            policy: Policy::ON,
        }
    }

    /// Saves the hart's registers when their thread is switched out.
    #[inline]
    pub fn leave(&mut self) {
        if status::any_dirty() {
            self.save();
        }
    }

    fn save(&mut self) {
        if status::get(Unit::Float) == UnitState::Dirty {
            self.float.save();
        }
        if status::get(Unit::Vector) == UnitState::Dirty {
            self.vector.save();
        }
    }

    /// Loads the registers into the hart when their thread is switched in.
    #[inline]
    pub fn enter(&mut self) {
        status::set_all_off();
        if self.used {
            self.load();
        }
    }

    fn load(&self) {
        if self.used_float {
            self.load_float();
        }
        if self.uses_vector() {
            self.load_vector();
        }
    }

    fn load_float(&self) {
        status::set(Unit::Float, UnitState::Dirty);
        self.float.load();
        status::set(Unit::Float, UnitState::Clean);
    }

    fn load_vector(&self) {
        status::set(Unit::Vector, UnitState::Dirty);
        self.vector.load();
        status::set(Unit::Vector, UnitState::Clean);
    }

    /// Whether the thread has ever used vectors.
    #[inline]
    pub fn uses_vector(&self) -> bool {
        !self.vector.is_none()
    }

    /// Begins the current thread's use of floating point; false if it already uses it.
    pub fn begin_float(&mut self) -> bool {
        let first = !self.used_float;
        if first {
            (self.used, self.used_float) = (true, true);
            self.load_float();
        }
        first
    }

    /// Begins the current thread's use of vectors, with `image`; false if it already uses them, or
    /// may not.
    pub fn begin_vector(&mut self, image: Image) -> bool {
        let first = !self.uses_vector() && self.policy.allows();
        if first {
            self.restore_vector(image);
        }
        first
    }

    /// Copies the current thread's floating-point registers to `to`, if it has ever used them.
    pub fn copy_float(&mut self, to: &mut Registers) {
        self.leave();
        if self.used_float {
            to.clone_from(&self.float);
        }
    }

    /// Copies the current thread's vectors; empty if it has never used them.
    ///
    /// # Errors
    /// ENOMEM
    pub fn copy_vector(&mut self) -> Result<Image> {
        self.leave();
        self.vector.copy()
    }

    /// Restores the current thread's floating-point registers from a signal frame, unless it has
    /// never used any.
    pub fn restore_float(&mut self, registers: &Registers) {
        if self.used_float || !registers.is_zero() {
            self.float.clone_from(registers);
            (self.used, self.used_float) = (true, true);
            self.load_float();
        }
    }

    /// Sets the current thread's vectors.
    pub fn restore_vector(&mut self, image: Image) {
        (self.used, self.vector) = (true, image);
        self.load_vector();
    }

    /// The floating-point registers of a stopped thread.
    pub fn float(&self) -> &Registers {
        &self.float
    }

    /// Changes the floating-point registers of a stopped thread.
    pub fn set_float(&mut self, registers: &Registers) {
        self.float.clone_from(registers);
        (self.used, self.used_float) = (true, true);
    }

    /// The vectors of a stopped thread.
    pub fn vector(&mut self) -> &mut Image {
        &mut self.vector
    }

    /// Resets the current thread's state for exec.
    pub fn reset(&mut self) {
        *self = State {
            policy: self.policy.after_exec(),
            ..State::new()
        };
        self.enter();
    }

    /// Copies the current thread's state to a child, except for the vectors, which system calls
    /// need not preserve.
    pub fn fork(&mut self, child: &mut Self) {
        if self.used_float {
            self.leave();
            child.set_float(&self.float);
        }
        child.policy = self.policy;
    }
}

/// Begins the current thread's use of vectors; false if it already uses them, or cannot.
///
/// # Errors
/// ENOMEM
pub(super) fn begin_vector(state: &super::ThreadState) -> Result<bool> {
    let image = Image::zero()?;
    Ok(!image.is_none() && state.own_units(|units| units.begin_vector(image)))
}
