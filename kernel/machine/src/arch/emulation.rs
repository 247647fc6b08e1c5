//! Instructions that programs once had and that the kernel may execute in their stead, as
//! `/proc/sys/abi` says.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::EMULATIONS;

/// The instructions are undefined.
const UNDEFINED: usize = 0;
/// The kernel executes them.
const EMULATED: usize = 1;
/// The CPU executes them.
const BY_CPU: usize = 2;

/// Some such instructions.
pub struct Emulation {
    mode: AtomicUsize,
    /// Sees to it that hooks are there as modes ask for them.
    hook: fn(),
    /// Lets this CPU execute the instructions, or not.
    allow: fn(bool),
}

impl Emulation {
    /// Instructions that the kernel executes, if they are not `obsolete`.
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

    /// Whether the kernel executes them.
    pub fn is_on(&self) -> bool {
        self.mode() == EMULATED
    }

    /// Sets the mode; each CPU follows when it next calls [`apply_modes`].
    pub fn set_mode(&self, mode: usize) {
        self.mode.store(mode, Relaxed);
        (self.hook)();
    }
}

/// Lets this CPU execute the instructions whose mode says so, and no others.
pub fn apply_modes() {
    for emulation in EMULATIONS {
        (emulation.allow)(emulation.mode() == BY_CPU);
    }
}
