//! mremap(2) and brk(2).

use abi::options;
use linux_raw_sys::general::*;

use super::memory::{implied, own_space, pages, vmas_of, without_tag};
use super::mlock;
use crate::arch::{self, user_end};
use crate::errno::{Errno, Result};
use crate::mm::totals::Limits;
use crate::mm::vma::{Flags, Rights, Source};
use crate::mm::{MapRequest, Move, Place, RemapRequest, Removed, active, page_down, page_up};
use crate::task;

/// mremap(2).
pub fn mremap(
    addr: usize,
    old_len: usize,
    new_len: usize,
    flags: u32,
    target: usize,
) -> Result<usize> {
    let keep = flags & MREMAP_DONTUNMAP != 0;
    if u64::from(flags) & !options::MREMAP.mask() != 0 || new_len == 0 || new_len > user_end() {
        return Err(Errno::EINVAL);
    }
    let place = match (flags & MREMAP_MAYMOVE != 0, flags & MREMAP_FIXED != 0) {
        (true, true) => Move::To(target),
        (true, false) => Move::Anywhere,
        (false, false) => Move::Never,
        (false, true) => return Err(Errno::EINVAL),
    };
    let old = match pages(addr, old_len) {
        Ok(old) => old,
        Err(error) => {
            let again = |addr| mremap(addr, old_len, new_len, flags, target);
            return without_tag(addr, error, again);
        }
    };
    if old_len == 0 && place != Move::Never && !keep {
        return duplicate(addr, new_len, place);
    }
    if old.is_empty() || keep && (place == Move::Never || new_len != old_len) {
        return Err(Errno::EINVAL);
    }
    let mut gone = Removed::new();
    let (had, len) = (old.len(), page_up(new_len));
    let request = RemapRequest {
        old,
        len,
        place,
        keep,
    };
    let (start, flags) = active::remap(request, &limits(), &mut gone)?;
    if flags.contains(Flags::LOCKED) && !flags.contains(Flags::LOCK_ON_FAULT) && len > had {
        let _ = task::fault::populate(&*own_space()?, start + had..start + len, None);
    }
    Ok(start)
}

/// The limits of the caller's memory.
fn limits() -> Limits {
    Limits {
        all: task::rlimit(RLIMIT_AS),
        data: task::rlimit(RLIMIT_DATA),
        locked: mlock::limit,
    }
}

/// mremap(2) with length 0: a second mapping of a shared mapping's pages from `addr` on.
fn duplicate(addr: usize, len: usize, place: Move) -> Result<usize> {
    let space = own_space()?;
    let vma = vmas_of(&space, &(addr..addr + 1))
        .next()
        .ok_or(Errno::EFAULT)?;
    if vma.flags.contains(Flags::SEALED) {
        return Err(Errno::EPERM);
    }
    let Source::File { mapping, offset } = &vma.source else {
        return Err(Errno::EINVAL);
    };
    if !vma.is_shared() {
        return Err(Errno::EINVAL);
    }
    let flags = vma.flags.with(Flags::GOES, false);
    let is_locked = flags.contains(Flags::LOCKED);
    if is_locked {
        space.check_new_lock(page_up(len), false, mlock::limit())?;
    }
    let request = MapRequest {
        place: match place {
            Move::To(target) => Place::Fixed(target),
            _ => Place::Hint(0),
        },
        len,
        rights: vma.rights,
        flags,
        source: Source::File {
            mapping: mapping.clone(),
            offset: offset + addr - vma.start,
        },
        label: vma.label,
        limit: task::rlimit(RLIMIT_AS),
    };
    let start = space.map(request, &mut Removed::new())?;
    if is_locked && !flags.contains(Flags::LOCK_ON_FAULT) {
        let _ = task::fault::populate(&space, start..start + page_up(len), None);
    }
    Ok(start)
}

/// brk(2): never fails; returns the end of the heap.
pub fn brk(end: usize) -> Result<usize> {
    let (limits, mut gone) = (limits(), Removed::new());
    let mut rights = Rights::READ.union(Rights::WRITE);
    if arch::HEAP_MAY_EXECUTE {
        rights = implied(rights, None);
    }
    let moved = active::set_heap_end(end, rights, &limits, &mut gone)?;
    if let (Ok(end), Some(old)) = moved
        && end > old
    {
        let _ = task::fault::populate(&*own_space()?, page_down(old)..page_up(end), None);
    }
    moved.0.or_else(|large| {
        let space = own_space()?;
        let unmapped = space.unmap(large, &mut gone);
        // 0 is below the heap, and changes nothing.
        let end = if unmapped.is_ok() { end } else { 0 };
        let moved = space.set_heap_end(end, rights, &limits, &mut gone);
        moved.map_err(|_| Errno::ENOMEM)
    })
}
