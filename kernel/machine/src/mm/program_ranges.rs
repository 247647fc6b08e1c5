//! Where the parts of a space's program are.

use core::ops::Range;

use super::AddressSpace;

/// The addresses of the program that a space was made for, as in Linux's `mm_struct`. They are kept
/// with the memory that they are about: whoever looks at a process while it executes another
/// program gets both of the same program.
#[derive(Clone, Default)]
pub struct ProgramRanges {
    /// Its arguments.
    pub arguments: Range<usize>,
    /// Its environment.
    pub environment: Range<usize>,
    /// Its auxiliary vector.
    pub auxiliary: Range<usize>,
    /// The address of its stack's first argument.
    pub stack: usize,
    /// Its code: from the first executable byte to the last that comes from the file.
    pub code: Range<usize>,
    /// From the start of its last segment to the end of the part that comes from the file.
    pub data: Range<usize>,
}

impl AddressSpace {
    /// Where the parts of the program are.
    pub fn program(&self) -> ProgramRanges {
        self.program.lock().clone()
    }

    /// Says where the parts of the program are, before others see the space.
    pub fn set_program(&self, program: ProgramRanges) {
        *self.program.lock() = program;
    }
}
