//! Kernel accesses to program memory: through the program's tables, with the faults that hardware
//! would take.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crossings::Kind;

use super::{PAGE_SIZE, USER_END, cpu, mmu};
use crate::mm::fault::Access;
use crate::upcall;

/// An invalid access to program memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// The address without a tag: there are no tags here.
pub const fn untagged(address: usize) -> usize {
    address
}

/// Whether a tagged range is accepted: there are no tags.
#[inline(always)]
pub fn takes_tagged(_address: usize, _len: usize, _end: usize) -> bool {
    false
}

/// The host's address of the program's byte at `address`.
fn find(address: usize, access: Access) -> Result<*mut u8, Fault> {
    if address >= USER_END {
        return Err(Fault);
    }
    loop {
        if let Some(found) = mmu::translate(address, access) {
            return Ok(found);
        }
        cpu::this().crossings().add(Kind::FaultUaccess);
        upcall::page_fault(address, access).map_err(|_| Fault)?;
    }
}

/// As [`find`], if the page is present.
fn find_present(address: usize, access: Access) -> Result<*mut u8, Fault> {
    let found = mmu::translate(address, access).filter(|_| address < USER_END);
    found.ok_or(Fault)
}

/// Calls `each` for the parts of a range of the program, with the host's address of the part, its
/// offset and its length; returns the number of bytes before the first that `find` does not find.
fn parts(
    start: usize,
    len: usize,
    access: Access,
    find: fn(usize, Access) -> Result<*mut u8, Fault>,
    mut each: impl FnMut(*mut u8, usize, usize),
) -> usize {
    let mut done = 0;
    while done < len {
        let address = start.wrapping_add(done);
        let part = (PAGE_SIZE - address % PAGE_SIZE).min(len - done);
        let Ok(found) = find(address, access) else {
            break;
        };
        each(found, done, part);
        done += part;
    }
    done
}

/// Copies from program memory at `from`; returns the number of bytes before the first that could
/// not be read.
///
/// # Safety
/// `to` is valid for writes of `len` bytes, and nothing else accesses them meanwhile.
pub unsafe fn copy_in(to: *mut u8, from: usize, len: usize) -> usize {
    // SAFETY: as the caller guarantees.
    unsafe { copy_in_by(find, to, from, len) }
}

/// As [`copy_in`], without resolving faults.
///
/// # Safety
/// As for [`copy_in`].
pub unsafe fn copy_in_present(to: *mut u8, from: usize, len: usize) -> usize {
    // SAFETY: as the caller guarantees.
    unsafe { copy_in_by(find_present, to, from, len) }
}

unsafe fn copy_in_by(
    find: fn(usize, Access) -> Result<*mut u8, Fault>,
    to: *mut u8,
    from: usize,
    len: usize,
) -> usize {
    parts(from, len, Access::Read, find, |found, done, part| {
        // SAFETY: a part of a page of the program, and memory that the caller guarantees. They may
        // overlap, since a pipe's frame may be the program's page, too.
        unsafe { core::ptr::copy(found, to.wrapping_add(done), part) }
    })
}

/// Copies to program memory at `to`; returns the number of bytes before the first that could not be
/// written.
///
/// # Safety
/// `from` is valid for reads of `len` bytes.
pub unsafe fn copy_out(to: usize, from: *const u8, len: usize) -> usize {
    // SAFETY: as the caller guarantees.
    unsafe { copy_out_by(find, to, from, len) }
}

/// As [`copy_out`], without resolving faults.
///
/// # Safety
/// As for [`copy_out`].
pub unsafe fn copy_out_present(to: usize, from: *const u8, len: usize) -> usize {
    // SAFETY: as the caller guarantees.
    unsafe { copy_out_by(find_present, to, from, len) }
}

unsafe fn copy_out_by(
    find: fn(usize, Access) -> Result<*mut u8, Fault>,
    to: usize,
    from: *const u8,
    len: usize,
) -> usize {
    parts(to, len, Access::Write, find, |found, done, part| {
        // SAFETY: as in `copy_in_by`.
        unsafe { core::ptr::copy(from.wrapping_add(done), found, part) }
    })
}

/// Writes zeroes to program memory; returns the number of bytes before the first that could not be
/// written.
pub fn clear(to: usize, len: usize) -> usize {
    parts(to, len, Access::Write, find, |found, _, part| {
        // SAFETY: a part of a page of the program.
        unsafe { found.write_bytes(0, part) }
    })
}

/// Returns a word of the program.
fn word(address: usize, access: Access) -> Result<&'static AtomicU32, Fault> {
    if !address.is_multiple_of(size_of::<u32>()) {
        return Err(Fault);
    }
    let found = find(address, access)?;
    // SAFETY: an aligned word of a page of the program, which is used at once.
    Ok(unsafe { AtomicU32::from_ptr(found.cast()) })
}

/// Reads a word of the program in a single access.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn load_u32(address: usize) -> Result<u32, Fault> {
    Ok(word(address, Access::Read)?.load(SeqCst))
}

/// Reads a word of the program in a single access, if its page is present.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn load_present_u32(address: usize) -> Result<u32, Fault> {
    Ok(present_word(address, Access::Read)?.load(SeqCst))
}

/// Returns a word of the program, if its page is present.
fn present_word(address: usize, access: Access) -> Result<&'static AtomicU32, Fault> {
    if !address.is_multiple_of(size_of::<u32>()) {
        return Err(Fault);
    }
    let found = find_present(address, access)?;
    // SAFETY: an aligned word of a page of the program, which is used at once.
    Ok(unsafe { AtomicU32::from_ptr(found.cast()) })
}

/// Writes a word of the program in a single access.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn store_u32(address: usize, value: u32) -> Result<(), Fault> {
    word(address, Access::Write)?.store(value, SeqCst);
    Ok(())
}

/// Atomically writes `new` if a word of the program is `old`; returns the previous value.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn cmpxchg_u32(address: usize, old: u32, new: u32) -> Result<u32, Fault> {
    Ok(exchange(word(address, Access::Write)?, old, new))
}

/// As [`cmpxchg_u32`], if the page is present and writable.
///
/// # Errors
/// A fault, or an `address` that is not a multiple of 4.
pub fn cmpxchg_present_u32(address: usize, old: u32, new: u32) -> Result<u32, Fault> {
    Ok(exchange(present_word(address, Access::Write)?, old, new))
}

fn exchange(word: &AtomicU32, old: u32, new: u32) -> u32 {
    let (Ok(was) | Err(was)) = word.compare_exchange(old, new, SeqCst, SeqCst);
    was
}
