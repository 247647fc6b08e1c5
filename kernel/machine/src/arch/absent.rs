//! Stubs for features of arm64, for architectures that have none of them.

use crate::arch::{Frame, StoreBypass};
use crate::errno::{Errno, Result};
use crate::mm::vma::Rights;

/// Whether the tables of system calls include those of 32-bit programs.
pub const COMPAT_CALLS: bool = false;
/// Instructions that the kernel may emulate for programs.
pub static EMULATIONS: &[super::emulation::Emulation] = &[];

/// The bits of mmap(2)'s protection that are specific to this architecture: none.
#[inline(always)]
pub const fn specific_prot(_prot: u32) -> u32 {
    0
}

/// The rights for the bits `prot` that are not common to all architectures; none if this machine
/// does not support one of them.
pub fn specific_rights(prot: u32) -> Option<Rights> {
    (prot == 0).then_some(Rights::empty())
}

/// Whether the specific bits `prot` request tagged memory: there is none.
pub fn wants_tags(_prot: u32) -> bool {
    false
}

/// Whether memory has tags.
#[inline(always)]
pub fn has_tags() -> bool {
    false
}

/// Clears the tags of the page at an address of the linear map, if there are any.
///
/// # Safety
/// No requirements, as there are no tags.
pub unsafe fn clear_page_tags(_page: usize) {}

/// Copies the tags of a page, if there are any.
///
/// # Safety
/// Those of [`clear_page_tags`].
pub unsafe fn copy_page_tags(_to: usize, _from: usize) {}

/// Reads the tags from an address on, if there are any.
///
/// # Safety
/// Those of [`clear_page_tags`].
pub unsafe fn page_tags(_from: usize, _tags: &mut [u8]) {}

/// Sets the tags from an address on, if there are any.
///
/// # Safety
/// Those of [`clear_page_tags`].
pub unsafe fn set_page_tags(_to: usize, _tags: &[u8]) {}

/// The tag check mode of a thread, as bits of PR_GET_TAGGED_ADDR_CTRL: none.
pub fn tag_checks(_state: &super::ThreadState) -> usize {
    0
}

/// Changes the tag check mode of a thread.
///
/// # Errors
/// EINVAL unless `mode` is 0.
pub fn set_tag_checks(_state: &super::ThreadState, mode: usize) -> Result<()> {
    if mode == 0 {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// Returns whether a tag check of the program has failed: there are none.
pub fn take_tag_fault(_work: &core::sync::atomic::AtomicU32) -> bool {
    false
}

/// The check mode that a CPU prefers among those that a program permits.
pub fn preferred_checks(_cpu: usize) -> &'static str {
    ""
}

/// Sets the preferred mode of a CPU.
///
/// # Errors
/// EINVAL
pub fn set_preferred_checks(_cpu: usize, _name: &[u8]) -> Result<()> {
    Err(Errno::EINVAL)
}

/// Whether guarded pages are supported.
#[inline(always)]
pub fn has_guarded_pages() -> bool {
    false
}

/// Type and bit of the ELF property of a program whose pages shall be guarded: none.
pub const GUARD_PROPERTY: Option<(u32, u32)> = None;

/// Sets the enabled keys of pointer authentication (PR_PAC_SET_ENABLED_KEYS).
///
/// # Errors
/// EINVAL: it is not supported.
pub fn set_enabled_keys(_which: usize, _enabled: usize) -> Result<usize> {
    Err(Errno::EINVAL)
}

/// The controls that programs have over speculative store bypass: unknown.
pub fn store_bypass() -> Option<StoreBypass> {
    None
}

/// Allows or disables speculative store bypass for a program.
pub fn set_store_bypass(_frame: &mut Frame, _allowed: bool) {}

/// Whether READ_IMPLIES_EXEC makes the heap of `brk` executable.
pub const HEAP_MAY_EXECUTE: bool = false;
/// Whether there is a system call renameat(2) beside renameat2(2).
pub const HAS_RENAMEAT: bool = false;
/// Whether the CPU ignores the top byte of a program's addresses.
pub const ADDRESS_TAGS: bool = false;
/// The personality bits that no program starts with.
pub const LOST_PERSONALITY: u32 = 0;

/// The default vector length in bytes, if it is configurable: it is not.
pub fn default_vector_length() -> Option<usize> {
    None
}

/// Sets the default vector length.
///
/// # Errors
/// EINVAL.
pub fn set_default_vector_length(_length: i32) -> Result<()> {
    Err(Errno::EINVAL)
}
