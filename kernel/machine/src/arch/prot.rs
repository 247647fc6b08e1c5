//! The permissions of a mapping.

/// The accesses that a mapping permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prot {
    /// Loads.
    pub read: bool,
    /// Stores.
    pub write: bool,
    /// Instruction fetches.
    pub execute: bool,
    /// Whether a program's indirect branches into it must target landing pads, if it is executable
    /// and the CPU supports that.
    pub guarded: bool,
    /// By programs, and by the kernel only through `uaccess`.
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
