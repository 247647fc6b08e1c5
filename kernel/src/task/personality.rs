//! The effects of personality(2) on a program (include/uapi/linux/personality.h).

use super::current;

/// uname(2) reports a Linux 2.6.
pub const UNAME26: u32 = 0x002_0000;
/// Addresses are not randomised.
pub const ADDR_NO_RANDOMIZE: u32 = 0x004_0000;
/// A program starts with a page at address 0.
pub const MMAP_PAGE_ZERO: u32 = 0x010_0000;
/// Readable memory is executable.
pub const READ_IMPLIES_EXEC: u32 = 0x040_0000;
/// Mappings are placed upward from below the stack's traditional address.
pub const ADDR_COMPAT_LAYOUT: u32 = 0x020_0000;
/// select(2) and its kin do not write the remaining time.
pub const STICKY_TIMEOUTS: u32 = 0x400_0000;
/// The part that is a number: the system for which a program was made.
pub const KIND: u32 = 0xff;
/// A 32-bit Linux.
pub const LINUX32: u32 = 8;

const _: () = assert!(
    abi::options::PERSONALITY.is_handled_by(&[
        LINUX32 as u64,
        UNAME26 as u64,
        ADDR_NO_RANDOMIZE as u64,
        MMAP_PAGE_ZERO as u64,
        ADDR_COMPAT_LAYOUT as u64,
        READ_IMPLIES_EXEC as u64,
        STICKY_TIMEOUTS as u64,
    ]),
    "abi and personality disagree"
);

/// Whether the current thread has the bit `which`.
pub fn has(which: u32) -> bool {
    current().personality() & which != 0
}
