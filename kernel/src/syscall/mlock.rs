//! mlock(2) and its kin. Nothing is ever paged out: pages are locked by being made present, and are
//! counted.

use core::ops::Range;

use linux_raw_sys::general::*;

use super::memory::{own_space, pages_or_enomem};
use super::path::check_flags;
use crate::arch::{uaccess, user_end};
use crate::errno::{Errno, Result};
use crate::mm::vma::{Flags, Vma};
use crate::mm::{AddressSpace, PAGE_SIZE, page_down};
use crate::task;

/// Checks that locking `more` bytes of a space, in `range` or at a new address, does not exceed
/// RLIMIT_MEMLOCK. Bytes of `range` that are locked already are not counted twice.
///
/// # Errors
/// EPERM (locking is not permitted), ENOMEM.
fn check(space: &AddressSpace, more: usize, range: Range<usize>) -> Result<()> {
    if task::can(CAP_IPC_LOCK) {
        return Ok(());
    }
    let limit = task::rlimit(RLIMIT_MEMLOCK);
    if limit == 0 {
        return Err(Errno::EPERM);
    }
    let all = space.totals().locked.saturating_add(more);
    if all <= limit {
        return Ok(());
    }
    let part = |vma: &Vma| vma.end.min(range.end) - vma.start.max(range.start);
    let already = space.sum_vmas(range.clone(), |vma| {
        usize::from(vma.flags.contains(Flags::LOCKED)) * part(vma)
    });
    if all - already > limit {
        return Err(Errno::ENOMEM);
    }
    Ok(())
}

/// The number of bytes that the caller may lock.
pub(super) fn limit() -> usize {
    if task::can(CAP_IPC_LOCK) {
        usize::MAX
    } else {
        task::rlimit(RLIMIT_MEMLOCK)
    }
}

/// Makes the pages of a new `locked` mapping present, unless they are locked on first access. As on
/// Linux, it is no error if some could not be made present.
pub(super) fn populate_new(range: Range<usize>, locked: Flags) {
    if locked.contains(Flags::LOCKED)
        && !locked.contains(Flags::LOCK_ON_FAULT)
        && let Ok(space) = own_space()
    {
        _ = task::fault::populate(&space, range, None);
    }
}

/// The flags for locking: present at once, or locked on first access.
fn kind(on_fault: bool) -> Flags {
    Flags::LOCKED.with(Flags::LOCK_ON_FAULT, on_fault)
}

/// The first page that contains any of `len` bytes at `addr`, and the length of all, which may have
/// wrapped, as on Linux.
fn around(addr: usize, len: usize) -> (usize, usize) {
    let addr = uaccess::untagged(addr);
    let start = page_down(addr);
    let len = len.wrapping_add(addr - start).wrapping_add(PAGE_SIZE - 1);
    (start, page_down(len))
}

/// EINVAL for a range that wraps, and ENOMEM for one that goes beyond the user range.
fn checked((start, len): (usize, usize)) -> Result<Range<usize>> {
    if start.checked_add(len).is_none() {
        return Err(Errno::EINVAL);
    }
    pages_or_enomem(start, len)
}

/// mlock(2)
pub fn mlock(addr: usize, len: usize) -> Result<usize> {
    mlock2(addr, len, 0)
}

/// mlock2(2)
pub fn mlock2(addr: usize, len: usize, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::MLOCK.mask() as u32)?;
    let (start, len) = around(addr, len);
    let space = own_space()?;
    check(&space, len, start..start.saturating_add(len))?;
    let range = checked((start, len))?;
    space.lock_pages(range.clone(), kind(flags & MLOCK_ONFAULT != 0))?;
    if flags & MLOCK_ONFAULT == 0 {
        task::fault::populate(&space, range, None).map_err(|error| match error {
            // As POSIX wants it: not all of the range can be accessed, or locked.
            Errno::EFAULT | Errno::ENXIO => Errno::ENOMEM,
            Errno::ENOMEM => Errno::EAGAIN,
            error => error,
        })?;
    }
    Ok(0)
}

/// munlock(2)
pub fn munlock(addr: usize, len: usize) -> Result<usize> {
    let range = checked(around(addr, len))?;
    own_space()?.lock_pages(range, Flags::empty())?;
    Ok(0)
}

/// mlockall(2)
pub fn mlockall(flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::MLOCKALL.mask() as u32)?;
    if flags & (MCL_CURRENT | MCL_FUTURE) == 0 {
        return Err(Errno::EINVAL);
    }
    let space = own_space()?;
    let all = if flags & MCL_CURRENT != 0 {
        space.totals().all
    } else {
        0
    };
    check(&space, all, 0..user_end())?;
    let new = kind(flags & MCL_ONFAULT != 0);
    space.set_locks_new(if flags & MCL_FUTURE != 0 {
        new
    } else {
        Flags::empty()
    });
    if flags & MCL_CURRENT != 0 {
        for vma in space.vmas() {
            lock_vma(&space, &vma, kind(flags & MCL_ONFAULT != 0))?;
            if flags & MCL_ONFAULT == 0 && !vma.rights.is_none() {
                // As on Linux, it is no error if some pages could not be made present.
                let _ = task::fault::populate(&space, vma.range(), None);
            }
        }
    }
    Ok(0)
}

/// munlockall(2)
pub fn munlockall() -> Result<usize> {
    let space = own_space()?;
    space.set_locks_new(Flags::empty());
    for vma in space.vmas() {
        lock_vma(&space, &vma, Flags::empty())?;
    }
    Ok(0)
}

/// Locks or unlocks one VMA of all. If that fails, the others are still handled, as on Linux; here
/// it may also fail because another thread just moved the VMA.
///
/// # Errors
/// EINTR: the current thread must die.
fn lock_vma(space: &AddressSpace, vma: &Vma, flags: Flags) -> Result<()> {
    match space.lock_pages(vma.range(), flags) {
        Err(Errno::EINTR) => Err(Errno::EINTR),
        _ => Ok(()),
    }
}
