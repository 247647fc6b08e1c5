//! The registers that are off until a thread first uses them, and then switched with it: floating
//! point and vectors.

use super::fp::Registers;
use super::status::{self, Unit, UnitState};
use super::vector::{Image, Policy};
use crate::errno::Result;

/// What is kept of a thread.
pub(super) struct State {
    /// Whether it ever used any of them.
    used: bool,
    used_float: bool,
    float: Registers,
    vector: Image,
    /// Whether it may use vectors.
    pub policy: Policy,
}

impl State {
    /// The state of a thread that never used them.
    pub const fn new() -> Self {
        State {
            used: false,
            used_float: false,
            float: Registers::ZERO,
            vector: Image::NONE,
            policy: Policy::ON,
        }
    }

    /// Takes the hart's registers out when their thread goes.
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

    /// Puts them into the hart when their thread comes.
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

    /// Whether the thread ever used vectors.
    #[inline]
    pub fn uses_vector(&self) -> bool {
        !self.vector.is_none()
    }

    /// The first use of floating point by the thread that runs now; false if it was not the first.
    pub fn begin_float(&mut self) -> bool {
        let first = !self.used_float;
        if first {
            (self.used, self.used_float) = (true, true);
            self.load_float();
        }
        first
    }

    /// The first use of vectors by the thread that runs now, which begins with `image`; false if it
    /// was not the first, or may not be.
    pub fn begin_vector(&mut self, image: Image) -> bool {
        let first = !self.uses_vector() && self.policy.allows();
        if first {
            self.restore_vector(image);
        }
        first
    }

    /// Copies what the thread that runs now has in its floating-point registers to `to`, if it ever
    /// used them.
    pub fn copy_float(&mut self, to: &mut Registers) {
        self.leave();
        if self.used_float {
            to.clone_from(&self.float);
        }
    }

    /// A copy of what the thread that runs now has in its vectors; none if it never used them.
    ///
    /// # Errors
    /// ENOMEM
    pub fn copy_vector(&mut self) -> Result<Image> {
        self.leave();
        self.vector.copy()
    }

    /// Gives the thread that runs now back what a signal's frame held of floating point, unless it
    /// never used any.
    pub fn restore_float(&mut self, registers: &Registers) {
        if self.used_float || !registers.is_zero() {
            self.float.clone_from(registers);
            (self.used, self.used_float) = (true, true);
            self.load_float();
        }
    }

    /// Gives the thread that runs now these vectors.
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

    /// As after exec, for the thread that runs now.
    pub fn reset(&mut self) {
        *self = State {
            policy: self.policy.after_exec(),
            ..State::new()
        };
        self.enter();
    }

    /// Gives a child of the thread that runs now a copy, but of the vectors, which no system call
    /// is promised to keep.
    pub fn fork(&mut self, child: &mut Self) {
        if self.used_float {
            self.leave();
            child.set_float(&self.float);
        }
        child.policy = self.policy;
    }
}

/// The first use of vectors by the thread that runs now; false if it was not the first, or there
/// are none for it.
///
/// # Errors
/// ENOMEM
pub(super) fn begin_vector(state: &super::ThreadState) -> Result<bool> {
    let image = Image::zero()?;
    Ok(!image.is_none() && state.own_units(|units| units.begin_vector(image)))
}
