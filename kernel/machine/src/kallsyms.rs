//! Addresses in the kernel's code, printed with the function that contains them.

use core::fmt;

use symbols::Symbol;

use crate::arch::text;

/// An address of the kernel's code.
pub struct Code(pub usize);

/// A return address: the address after a call. It belongs to the function that contains the call,
/// even if the call is that function's last instruction.
pub struct Return(pub usize);

/// A return address in the kernel's code, in the format of Linux's `%pB`.
pub struct Frame(Symbol);

impl Frame {
    /// The frame of a return address, if it is in a function.
    pub fn of(address: usize) -> Option<Self> {
        let inside = address.checked_sub(text::start() + 1)?;
        symbols::find(text::symbols(), inside).map(Frame)
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        self.0.name()
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Symbol { offset, size, .. } = self.0;
        write!(f, "{}+{:#x}/{size:#x}", self.name(), offset + 1)
    }
}

fn show(address: usize, inside: usize, f: &mut fmt::Formatter) -> fmt::Result {
    write!(f, "{address:#x}")?;
    match inside
        .checked_sub(text::start())
        .and_then(|inside| symbols::find(text::symbols(), inside))
    {
        Some(symbol) => write!(
            f,
            " {}+{:#x}",
            symbol.name(),
            symbol.offset + (address - inside)
        ),
        None => Ok(()),
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        show(self.0, self.0, f)
    }
}

impl fmt::Display for Return {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        show(self.0, self.0.wrapping_sub(1), f)
    }
}
