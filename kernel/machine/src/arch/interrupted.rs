//! The context that an interrupt interrupts.

/// The context that an interrupt interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupted {
    /// A program, or a guest.
    Program,
    /// The kernel: where it polls for interrupts, or returns to a program.
    Kernel,
}

impl Interrupted {
    /// The context of an interrupt from a program; `returned`: it was taken immediately after a
    /// return to it.
    pub fn at(returned: bool) -> Self {
        if returned {
            Interrupted::Kernel
        } else {
            Interrupted::Program
        }
    }
}
