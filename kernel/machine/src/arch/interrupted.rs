//! What an interrupt interrupts.

/// What an interrupt found the CPU at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupted {
    /// A program, or a guest.
    Program,
    /// The kernel: where it asks for interrupts, and where it returns to a program.
    Kernel,
}

impl Interrupted {
    /// An interrupt from a program, that came when it was just returned to, or later.
    pub fn at(returned: bool) -> Self {
        if returned {
            Interrupted::Kernel
        } else {
            Interrupted::Program
        }
    }
}
