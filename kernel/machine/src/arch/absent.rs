//! What arm64 has, on architectures that have none of it.

use crate::arch::{Frame, StoreBypass};
use crate::errno::{Errno, Result};
use crate::mm::vma::Rights;

/// Whether tables of system calls hold those of 32-bit programs.
pub const COMPAT_CALLS: bool = false;
/// Instructions that the kernel may execute for programs.
pub static EMULATIONS: &[super::emulation::Emulation] = &[];

/// Those of mmap(2)'s bits of protection that only this architecture has: none.
#[inline(always)]
pub const fn specific_prot(_prot: u32) -> u32 {
    0
}

/// What `prot`, bits besides those that all architectures have, adds to rights; none if it has a
/// bit that this machine has no use for.
pub fn specific_rights(prot: u32) -> Option<Rights> {
    (prot == 0).then_some(Rights::NONE)
}

/// Whether `prot`, such bits, asks for memory with tags: there is none.
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
/// None is needed where there are none.
pub unsafe fn clear_page_tags(_page: usize) {}

/// Copies the tags of a page, if there are any.
///
/// # Safety
/// As of [`clear_page_tags`].
pub unsafe fn copy_page_tags(_to: usize, _from: usize) {}

/// The tags from an address on, if there are any.
///
/// # Safety
/// As of [`clear_page_tags`].
pub unsafe fn page_tags(_from: usize, _tags: &mut [u8]) {}

/// Sets the tags from an address on, if there are any.
///
/// # Safety
/// As of [`clear_page_tags`].
pub unsafe fn set_page_tags(_to: usize, _tags: &[u8]) {}

/// How a thread checks tags, as bits of PR_GET_TAGGED_ADDR_CTRL: not at all.
pub fn tag_checks(_state: &super::ThreadState) -> usize {
    0
}

/// Changes that.
///
/// # Errors
/// EINVAL: `mode` is not 0.
pub fn set_tag_checks(_state: &super::ThreadState, mode: usize) -> Result<()> {
    if mode == 0 {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// Whether accesses of the program had other tags than memory: there are none.
pub fn take_tag_fault(_work: &core::sync::atomic::AtomicU32) -> bool {
    false
}

/// How a CPU checks tags where a program leaves it the choice.
pub fn preferred_checks(_cpu: usize) -> &'static str {
    ""
}

/// Changes that.
///
/// # Errors
/// EINVAL
pub fn set_preferred_checks(_cpu: usize, _name: &[u8]) -> Result<()> {
    Err(Errno::EINVAL)
}

/// Whether pages of programs can be guarded.
#[inline(always)]
pub fn has_guarded_pages() -> bool {
    false
}

/// Type and bit of the ELF property of a program whose pages are to be guarded: none.
pub const GUARD_PROPERTY: Option<(u32, u32)> = None;

/// Which keys of pointer authentication are on (PR_PAC_SET_ENABLED_KEYS).
///
/// # Errors
/// EINVAL: there is none.
pub fn set_enabled_keys(_which: usize, _enabled: usize) -> Result<usize> {
    Err(Errno::EINVAL)
}

/// What programs can do about speculative store bypass: there is no asking.
pub fn store_bypass() -> Option<StoreBypass> {
    None
}

/// Lets a program's loads bypass its stores speculatively, or not.
pub fn set_store_bypass(_frame: &mut Frame, _allowed: bool) {}

/// Whether the heap of `brk` may be executed where all that can be read may (READ_IMPLIES_EXEC).
pub const HEAP_MAY_EXECUTE: bool = false;
/// Whether a program's addresses have a byte that the CPU passes over.
pub const ADDRESS_TAGS: bool = false;
/// The bits of a personality that no program begins with.
pub const LOST_PERSONALITY: u32 = 0;

/// Bytes of the vectors that a program finds, where it may ask for others: it may not.
pub fn default_vector_length() -> Option<usize> {
    None
}

/// Sets that.
///
/// # Errors
/// EINVAL.
pub fn set_default_vector_length(_length: i32) -> Result<()> {
    Err(Errno::EINVAL)
}
