//! The rights of a mapping.

/// What a mapping allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prot {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Instruction fetches.
    pub execute: bool,
    /// Where instructions are fetched: a program's indirect branches must find landing pads. Only
    /// where there are any.
    pub guarded: bool,
    /// From programs, and from the kernel only through `uaccess`.
    pub user: bool,
}

impl Prot {
    /// The kernel's data: stacks, devices.
    pub const KERNEL_DATA: Prot = Prot {
        read: true,
        write: true,
        execute: false,
        guarded: false,
        user: false,
    };
    /// The kernel's constants.
    pub const KERNEL_CONST: Prot = Prot {
        write: false,
        ..Prot::KERNEL_DATA
    };
    /// The kernel's code.
    pub const KERNEL_CODE: Prot = Prot {
        execute: true,
        ..Prot::KERNEL_CONST
    };
}
