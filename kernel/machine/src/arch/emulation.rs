//! Emulation of instructions that programs once had, as configured in `/proc/sys/abi`.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::EMULATIONS;

/// The instructions are undefined.
const UNDEFINED: usize = 0;
/// The kernel emulates them.
const EMULATED: usize = 1;
/// The CPU executes them.
const BY_CPU: usize = 2;

/// A group of such instructions.
pub struct Emulation {
    mode: AtomicUsize,
    /// Updates the hooks after a change of a mode.
    hook: fn(),
    /// Enables or disables the instructions on this CPU.
    allow: fn(bool),
}

impl Emulation {
    /// Creates a group that is emulated at first, or undefined if it is `obsolete`.
    pub const fn new(obsolete: bool, hook: fn(), allow: fn(bool)) -> Self {
        let mode = if obsolete { UNDEFINED } else { EMULATED };
        Self {
            mode: AtomicUsize::new(mode),
            hook,
            allow,
        }
    }

    /// 0: undefined, 1: emulated, 2: executed by the CPU.
    pub fn mode(&self) -> usize {
        self.mode.load(Relaxed)
    }

    /// Whether the kernel emulates them.
    pub fn is_on(&self) -> bool {
        self.mode() == EMULATED
    }

    /// Sets the mode; each CPU follows when it next calls [`apply_modes`].
    pub fn set_mode(&self, mode: usize) {
        self.mode.store(mode, Relaxed);
        (self.hook)();
    }
}

/// Enables on this CPU the instructions whose mode is `BY_CPU`, and disables the others.
pub fn apply_modes() {
    for emulation in EMULATIONS {
        (emulation.allow)(emulation.mode() == BY_CPU);
    }
}
