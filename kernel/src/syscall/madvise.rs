//! madvise(2) and process_madvise(2).

use core::ops::Range;

use abi::options;
use linux_raw_sys::general::*;

use super::layout::Layout;
use super::memory::{covered, own_space, pages, vmas_of, without_tag};
use super::path::check_flags;
use crate::arch::{uaccess, user_end};
use crate::errno::{Errno, Result};
use crate::mm::fault::Access;
use crate::mm::vma::{Flags, Rights, Source, Vma};
use crate::mm::{PAGE_SHIFT, PAGE_SIZE, active};
use crate::task::ptrace_access::{self, By};
use crate::task::sched::cond_resched_killable;
use crate::task::{self, pidfd};

/// madvise(2).
pub fn madvise(addr: usize, len: usize, advice: u32) -> Result<usize> {
    if !options::MADVISE.has(advice.into()) {
        return Err(Errno::EINVAL);
    }
    let whole = len.checked_next_multiple_of(PAGE_SIZE);
    let end = whole.and_then(|len| addr.checked_add(len));
    let end = end.ok_or(Errno::EINVAL)?;
    if end > user_end() && addr.is_multiple_of(PAGE_SIZE) {
        return without_tag(addr, Errno::ENOMEM, |addr| madvise(addr, len, advice));
    }
    let range = pages(addr, len)?;
    let refused: fn(&Vma) -> bool = match advice {
        MADV_COLD | MADV_PAGEOUT => |vma| vma.flags.contains(Flags::LOCKED),
        MADV_FREE => |vma| {
            vma.flags.contains(Flags::LOCKED)
                || vma.is_shared()
                || !matches!(vma.source, Source::Anonymous)
        },
        MADV_WIPEONFORK => |vma| vma.is_shared() || !matches!(vma.source, Source::Anonymous),
        MADV_KEEPONFORK | MADV_DODUMP => |vma| vma.flags.contains(Flags::DROPPABLE),
        _ => |_| false,
    };
    if range.is_empty() {
        return Ok(0);
    }
    match advice {
        MADV_DONTNEED => active::discard(range, Some(Flags::LOCKED))?,
        MADV_DONTNEED_LOCKED => active::discard(range, None)?,
        MADV_REMOVE => remove(range)?,
        MADV_POPULATE_READ => touch(range, Access::Read)?,
        MADV_POPULATE_WRITE => touch(range, Access::Write)?,
        _ => advise(range, advice, refused)?,
    }
    Ok(0)
}

/// Sets the flags of VMAs for advice, unless one of them is `refused`.
fn advise(range: Range<usize>, advice: u32, refused: fn(&Vma) -> bool) -> Result<()> {
    let space = own_space()?;
    let loses = matches!(advice, MADV_FREE | MADV_DONTFORK | MADV_WIPEONFORK);
    if loses && !space.all_vmas(range.clone(), |vma| !vma.keeps_content()) {
        return Err(Errno::EPERM);
    }
    if !space.all_vmas(range.clone(), |vma| !refused(vma)) {
        return Err(Errno::EINVAL);
    }
    // Another thread may seal some of them meanwhile.
    let may = |vma: &Vma| match loses && vma.keeps_content() {
        true => Err(Errno::EPERM),
        false if refused(vma) => Err(Errno::EINVAL),
        false => Ok(()),
    };
    let set = |flag| space.set_flags(range.clone(), flag, true, may);
    let clear = |flag| space.set_flags(range.clone(), flag, false, may);
    match advice {
        MADV_DONTFORK => set(Flags::DONT_FORK),
        MADV_DOFORK => clear(Flags::DONT_FORK),
        MADV_WIPEONFORK => set(Flags::WIPE_ON_FORK),
        MADV_KEEPONFORK => clear(Flags::WIPE_ON_FORK),
        MADV_HUGEPAGE => clear(Flags::NO_HUGE).and_then(|()| set(Flags::HUGE)),
        MADV_NOHUGEPAGE => clear(Flags::HUGE).and_then(|()| set(Flags::NO_HUGE)),
        MADV_DONTDUMP => set(Flags::DONT_DUMP),
        MADV_DODUMP => clear(Flags::DONT_DUMP),
        // Advice without an effect.
        _ => covered(&space, range),
    }
}

/// process_madvise(2): only advice without a visible effect, for memory of any process.
pub fn process_madvise<L: Layout>(
    fd: i32,
    pieces: usize,
    count: usize,
    advice: u32,
    flags: u32,
) -> Result<usize> {
    check_flags(flags, 0)?;
    let pieces = super::file::pieces::<L>(pieces, count)?;
    let process = pidfd::of(fd)?.0.process()?.clone();
    if !options::PROCESS_MADVISE.has(advice.into()) {
        return Err(Errno::EINVAL);
    }
    let other = process.find_thread(|_| true).ok_or(Errno::ESRCH)?;
    let other = ptrace_access::look(&other, By::File, |thread| Ok(thread.space()));
    // The error of Linux's mm_access().
    let other = other.map_err(|error| match error {
        Errno::EPERM => Errno::EACCES,
        other => other,
    });
    let other = other?.ok_or(Errno::ESRCH)?;
    if !task::can(CAP_SYS_NICE) {
        return Err(Errno::EPERM);
    }
    let refused = |vma: &Vma| advice != MADV_WILLNEED && vma.flags.contains(Flags::LOCKED);
    let advise = |range: Range<usize>| {
        if other.all_vmas(range.clone(), |vma| !refused(vma)) {
            covered(&other, range)
        } else {
            Err(Errno::EINVAL)
        }
    };
    let mut total = 0;
    for piece in pieces {
        let done = pages(uaccess::untagged(piece.base), piece.len).and_then(advise);
        match done {
            Ok(()) => total += piece.len,
            Err(error) if total == 0 => return Err(error),
            Err(_) => break,
        }
        cond_resched_killable()?;
    }
    Ok(total)
}

/// MADV_POPULATE_READ and MADV_POPULATE_WRITE, up to the first VMA that lacks the right.
fn touch(range: Range<usize>, access: Access) -> Result<()> {
    let (space, mut at) = (own_space()?, range.start);
    let right = match access {
        Access::Write => Rights::WRITE,
        _ => Rights::READ,
    };
    while at < range.end {
        let vma = vmas_of(&space, &(at..range.end)).next();
        let vma = vma.filter(|vma| vma.start <= at).ok_or(Errno::ENOMEM)?;
        if !vma.rights.asked().contains(right) {
            return Err(Errno::EINVAL);
        }
        let end = vma.end.min(range.end);
        task::fault::populate(&space, at..end, Some(access)).map_err(|error| match error {
            // The page is beyond the end of its file.
            Errno::ENXIO => Errno::EFAULT,
            error => error,
        })?;
        at = end;
    }
    Ok(())
}

/// MADV_REMOVE: punches holes in the files of shared mappings.
fn remove(range: Range<usize>) -> Result<()> {
    let (space, mut at) = (own_space()?, range.start);
    while at < range.end {
        let vma = vmas_of(&space, &(at..range.end)).next();
        let vma = vma.ok_or(Errno::ENOMEM)?;
        if vma.keeps_content() {
            return Err(Errno::EPERM);
        }
        let Source::File { mapping, offset } = &vma.source else {
            return Err(Errno::EINVAL);
        };
        if vma.flags.contains(Flags::LOCKED) {
            return Err(Errno::EINVAL);
        }
        if !vma.is_shared() || vma.never_writes() {
            return Err(Errno::EACCES);
        }
        if vma.start > at {
            return Err(Errno::ENOMEM);
        }
        let end = vma.end.min(range.end);
        let first = (offset + at - vma.start) >> PAGE_SHIFT;
        mapping.clear(first..first + ((end - at) >> PAGE_SHIFT))?;
        cond_resched_killable()?;
        at = end;
    }
    Ok(())
}
