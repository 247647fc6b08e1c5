//! mlock(2) and its kin. Nothing is ever paged out: pages are locked by being made present, and are
//! counted.

use core::ops::Range;

use linux_raw_sys::general::*;

use super::memory::{own_space, pages_or_enomem, space};
use super::path::check_flags;
use crate::arch::user_end;
use crate::errno::{Errno, Result};
use crate::mm::vma::Flags;
use crate::mm::{AddressSpace, PAGE_SIZE};
use crate::task;

/// Refuses to lock `more` bytes of a space, in `range` or at a new place, beyond RLIMIT_MEMLOCK.
/// What is locked in `range` already is not counted twice.
///
/// # Errors
/// EPERM (nothing may be locked), ENOMEM.
fn check(space: &AddressSpace, more: usize, range: Range<usize>) -> Result<()> {
    if task::can(CAP_IPC_LOCK) {
        return Ok(());
    }
    let limit = task::rlimit(RLIMIT_MEMLOCK);
    if limit == 0 {
        return Err(Errno::EPERM);
    }
    let beside = |start: usize, end: usize| {
        let inside = end.min(range.end).saturating_sub(start.max(range.start));
        end - start - inside
    };
    let locked = space.sum_vmas(0..usize::MAX, |vma| {
        let locked = vma.flags.has(Flags::LOCKED);
        usize::from(locked) * beside(vma.start, vma.end)
    });
    if locked.saturating_add(more) > limit {
        return Err(Errno::ENOMEM);
    }
    Ok(())
}

/// The same for a mapping that is about to be made.
///
/// # Errors
/// EPERM, EAGAIN.
pub(super) fn check_new(space: &AddressSpace, len: usize) -> Result<()> {
    check(space, len, 0..0).map_err(|error| match error {
        Errno::ENOMEM => Errno::EAGAIN,
        error => error,
    })
}

/// The pages of `addr` and `len` bytes, of which the first and the last may be covered in part.
fn around(addr: usize, len: usize) -> Result<Range<usize>> {
    let start = addr / PAGE_SIZE * PAGE_SIZE;
    pages_or_enomem(start, len.saturating_add(addr - start))
}

/// mlock(2)
pub fn mlock(addr: usize, len: usize) -> Result<usize> {
    mlock2(addr, len, 0)
}

/// mlock2(2)
pub fn mlock2(addr: usize, len: usize, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::MLOCK.mask() as u32)?;
    let range = around(addr, len)?;
    space(|space| {
        check(space, range.len(), range.clone())?;
        space.set_flags(range.clone(), Flags::LOCKED, true)
    })?;
    if flags & MLOCK_ONFAULT == 0 {
        task::fault::populate(&*own_space()?, range, false)?;
    }
    Ok(0)
}

/// munlock(2)
pub fn munlock(addr: usize, len: usize) -> Result<usize> {
    let range = around(addr, len)?;
    space(|space| space.set_flags(range, Flags::LOCKED, false))?;
    Ok(0)
}

/// mlockall(2)
pub fn mlockall(flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::MLOCKALL.mask() as u32)?;
    if flags & (MCL_CURRENT | MCL_FUTURE) == 0 {
        return Err(Errno::EINVAL);
    }
    space(|space| {
        let all = if flags & MCL_CURRENT != 0 {
            space.sum_vmas(0..usize::MAX, |vma| vma.range().len())
        } else {
            0
        };
        check(space, all, 0..user_end())?;
        space.set_locks_new(flags & MCL_FUTURE != 0);
        Ok(())
    })?;
    if flags & MCL_CURRENT != 0 {
        let space = own_space()?;
        for vma in space.vmas() {
            space.set_flags(vma.range(), Flags::LOCKED, true)?;
            if flags & MCL_ONFAULT == 0 && !vma.rights.is_none() {
                // As on Linux, it is no error when not all could be made present.
                let _ = task::fault::populate(&space, vma.range(), false);
            }
        }
    }
    Ok(0)
}

/// munlockall(2)
pub fn munlockall() -> Result<usize> {
    let space = own_space()?;
    space.set_locks_new(false);
    for vma in space.vmas() {
        space.set_flags(vma.range(), Flags::LOCKED, false)?;
    }
    Ok(0)
}
