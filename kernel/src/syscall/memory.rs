//! System calls on memory, except those with files of their own: `mmap`, `mremap`, `madvise` and
//! `mlock`.

use alloc::sync::Arc;
use core::ops::Range;

use linux_raw_sys::general::*;

use super::path::{check_flags, opened};
use crate::arch::{self, uaccess, user_end};
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::mm::user::{UserPtr, UserSlice, access_ok};
use crate::mm::vma::{Flags, PageSource, Protection, Rights, Source, Vma};
use crate::mm::{AddressSpace, PAGE_SIZE, Removed, active, page_up};
use crate::task::limits::INFINITY;
use crate::task::process::Mode;
use crate::task::{self, personality};

/// Pages for which `mincore` answers at a time.
const CHUNK: usize = 256;

/// The pages of `len` bytes at `start`, which must be a multiple of the page size.
pub(super) fn pages(start: usize, len: usize) -> Result<Range<usize>> {
    let end = start.checked_add(len).filter(|&end| end <= user_end());
    match end {
        Some(end) if start.is_multiple_of(PAGE_SIZE) => Ok(start..page_up(end)),
        _ => Err(Errno::EINVAL),
    }
}

/// Calls `call` with `address` without its tag, or fails with `error` if the tag is invalid. Most
/// calls on memory ignore a tag, even if others do not accept it (PR_SET_TAGGED_ADDR_CTRL).
#[cold]
pub(super) fn without_tag(
    address: usize,
    error: Errno,
    call: impl FnOnce(usize) -> Result<usize>,
) -> Result<usize> {
    match uaccess::untagged(address) {
        plain if plain != address => call(plain),
        _ => Err(error),
    }
}

/// Like `pages`, but ENOMEM for addresses above the user range.
pub(super) fn pages_or_enomem(start: usize, len: usize) -> Result<Range<usize>> {
    if !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    pages(start, len).map_err(|_| Errno::ENOMEM)
}

/// ENOMEM unless the whole range is mapped.
pub(super) fn covered(space: &AddressSpace, range: Range<usize>) -> Result<()> {
    if space.covers(range) {
        Ok(())
    } else {
        Err(Errno::ENOMEM)
    }
}

/// The VMAs of a space that intersect a range.
pub(super) fn vmas_of(space: &AddressSpace, range: &Range<usize>) -> impl Iterator<Item = Vma> {
    let end = range.end;
    space
        .vmas_from(range.start)
        .take_while(move |vma| vma.start < end)
}

/// The address space of the caller, for calls that may wait or are rare. Frequent calls use
/// [`active`].
pub(super) fn own_space() -> Result<Arc<AddressSpace>> {
    task::current().space().ok_or(Errno::ENOMEM)
}

/// Whether `rights` imply the right to execute, for the current program (READ_IMPLIES_EXEC).
#[inline]
fn implies_execute(rights: Rights) -> bool {
    rights.contains(Rights::READ) && personality::has(personality::READ_IMPLIES_EXEC)
}

/// Whether the file's mount is MS_NOEXEC.
pub(super) fn is_never_executed(file: &File) -> bool {
    file.path().mount_flags() & MS_NOEXEC != 0
}

/// `rights`, plus execution if new memory, of `file` if any, implies it.
#[inline]
pub(super) fn implied(rights: Rights, file: Option<&File>) -> Rights {
    if implies_execute(rights) && !file.is_some_and(is_never_executed) {
        rights.union(Rights::EXECUTE)
    } else {
        rights
    }
}

/// `rights`, plus those that the architecture's own bits of `prot` add; `None` if it does not have
/// all of these bits. They add nothing to PROT_NONE.
#[cold]
pub(super) fn with_specific(rights: Rights, prot: u32) -> Option<Rights> {
    let more = arch::specific_rights(prot)?;
    Some(if rights.is_none() {
        rights
    } else {
        rights.union(more)
    })
}

/// ENOMEM if private writable memory would exceed `limit` (RLIMIT_DATA) with `more` bytes.
#[cold]
pub(super) fn check_data(space: &AddressSpace, more: usize, limit: usize) -> Result<()> {
    let all = space.totals().data().checked_add(more);
    if all.is_some_and(|all| all <= limit) {
        Ok(())
    } else {
        Err(Errno::ENOMEM)
    }
}

fn is_data(vma: &Vma) -> bool {
    vma.rights.contains(Rights::WRITE) && !vma.is_shared() && !vma.flags.contains(Flags::GROWS_DOWN)
}

/// Whether the process renounced memory that it can both write and execute, or make executable
/// later (PR_SET_MDWE).
pub(super) fn gave_up_executable() -> bool {
    task::current().process().mode(Mode::NO_WRITE_EXECUTE)
}

/// munmap(2).
pub fn munmap(addr: usize, len: usize) -> Result<usize> {
    let range = match pages(addr, len) {
        Ok(range) => range,
        Err(error) => return without_tag(addr, error, |addr| munmap(addr, len)),
    };
    if range.is_empty() {
        return Err(Errno::EINVAL);
    }
    active::unmap(range, &mut Removed::new())?;
    Ok(0)
}

/// mprotect(2).
pub fn mprotect(addr: usize, len: usize, prot: u32) -> Result<usize> {
    let grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP);
    if grows == PROT_GROWSDOWN | PROT_GROWSUP {
        return Err(Errno::EINVAL);
    }
    let range = match pages_or_enomem(addr, len) {
        Ok(range) => range,
        Err(error) => return without_tag(addr, error, |addr| mprotect(addr, len, prot)),
    };
    if range.is_empty() {
        return Ok(0);
    }
    let mut asked = Rights::from_prot(prot);
    let specific = prot & !(PROT_READ | PROT_WRITE | PROT_EXEC | PROT_SEM | grows);
    if specific != 0 {
        asked = with_specific(asked, specific).ok_or(Errno::EINVAL)?;
        if arch::wants_tags(specific) {
            return protect_with_tags(range, asked, grows);
        }
    }
    protect(range, asked, grows, active::protect)
}

/// mprotect(2) with PROT_MTE, which gives the memory tags.
#[cold]
#[inline(never)]
fn protect_with_tags(range: Range<usize>, asked: Rights, grows: u32) -> Result<usize> {
    protect(range, asked, grows, |range, wanted| {
        own_space()?.protect_with_tags(range, wanted)
    })
}

/// Applies `change` to give a range the rights `asked`, if that is allowed.
#[inline(always)]
fn protect(
    mut range: Range<usize>,
    asked: Rights,
    grows: u32,
    change: impl FnOnce(Range<usize>, Protection) -> Result<()>,
) -> Result<usize> {
    if grows != 0 {
        range.start = start_of_growing(&range, grows)?;
    }
    let wanted = Protection {
        rights: asked,
        implies_execute: implies_execute(asked),
    };
    let rights = implied(asked, None);
    if rights.contains(Rights::EXECUTE) && gave_up_executable() {
        check_executable(&range, rights)?;
    }
    if rights.contains(Rights::WRITE) {
        let limit = task::rlimit(RLIMIT_DATA);
        if limit != INFINITY {
            check_more_data(&range, limit)?;
        }
    }
    change(range, wanted)?;
    Ok(0)
}

/// EACCES unless the whole range is executable already and does not become writable (PR_SET_MDWE).
#[cold]
fn check_executable(range: &Range<usize>, rights: Rights) -> Result<()> {
    let executable = |vma: &Vma| vma.rights.contains(Rights::EXECUTE);
    if !rights.contains(Rights::WRITE) && own_space()?.all_vmas(range.clone(), executable) {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// [`check_data`] for a range that becomes writable.
#[cold]
fn check_more_data(range: &Range<usize>, limit: usize) -> Result<()> {
    let space = own_space()?;
    let more = space.sum_vmas(range.clone(), |vma| {
        let more = !vma.is_shared() && !is_data(vma);
        let part = vma.end.min(range.end) - vma.start.max(range.start);
        usize::from(more) * part
    });
    check_data(&space, more, limit)
}

/// The start of the stack that `range` touches, for PROT_GROWSDOWN. No mapping here grows upwards.
#[cold]
fn start_of_growing(range: &Range<usize>, grows: u32) -> Result<usize> {
    let vma = vmas_of(&*own_space()?, range).next().ok_or(Errno::ENOMEM)?;
    if grows == PROT_GROWSUP && vma.start > range.start {
        Err(Errno::ENOMEM)
    } else if grows == PROT_GROWSUP || !vma.flags.contains(Flags::GROWS_DOWN) {
        Err(Errno::EINVAL)
    } else {
        Ok(vma.start)
    }
}

/// mseal(2): the VMAs of a range can no longer be unmapped or change their rights.
pub fn mseal(addr: usize, len: usize, flags: usize) -> Result<usize> {
    let addr = uaccess::untagged(addr);
    let end = len.checked_next_multiple_of(PAGE_SIZE);
    let end = end.and_then(|len| addr.checked_add(len));
    let end = end.filter(|_| flags == 0 && addr.is_multiple_of(PAGE_SIZE));
    own_space()?.seal(addr..end.ok_or(Errno::EINVAL)?)?;
    Ok(0)
}

/// cachestat(2): every page of a file in memory is in the cache, and none is dirty.
pub fn cachestat(fd: i32, range: usize, to: usize, flags: u32) -> Result<usize> {
    const CHUNK: usize = 64;
    let file = opened(fd)?;
    let [offset, len] = UserPtr::<[u64; 2]>::new(range).read()?;
    if !file.flags().writable() && !file.tells_presence() {
        return Err(Errno::EPERM);
    }
    check_flags(flags, 0)?;
    let mut cached = 0;
    if let Ok(Some(pages)) = file.mapping() {
        let end = match len {
            0 => usize::MAX,
            len => offset.saturating_add(len).div_ceil(PAGE_SIZE as u64) as usize,
        };
        let (mut at, end) = (offset as usize / PAGE_SIZE, end.min(pages.len_pages()));
        while let Some(first) = pages.next_present(at).filter(|&first| first < end) {
            let mut frames = [const { None }; CHUNK];
            let count = CHUNK.min(end - first);
            pages.present(first, &mut frames[..count]);
            cached += frames.iter().flatten().count() as u64;
            at = first + count;
            task::sched::cond_resched_killable()?;
        }
    }
    UserPtr::new(to).write(&[cached, 0, 0, 0, 0])?;
    Ok(0)
}

/// mincore(2).
pub fn mincore(addr: usize, len: usize, vector: usize) -> Result<usize> {
    let range = pages_or_enomem(uaccess::untagged(addr), len)?;
    let count = range.len() / PAGE_SIZE;
    if !access_ok(vector, count) {
        return Err(Errno::EFAULT);
    }
    let space = own_space()?;
    let mut answer = [0; CHUNK];
    let mut out = UserSlice::new(vector, count);
    let mut at = range.start;
    while at < range.end {
        task::sched::cond_resched_killable()?;
        let vma = vmas_of(&space, &(at..range.end)).next();
        let vma = vma.filter(|vma| vma.start <= at).ok_or(Errno::ENOMEM)?;
        let part = at..vma.end.min(range.end).min(at + CHUNK * PAGE_SIZE);
        let answer = &mut answer[..part.len() / PAGE_SIZE];
        if !tells_presence(&vma) {
            answer.fill(1);
        } else if !space.present(&vma, part.clone(), answer) {
            // Something else was mapped there meanwhile.
            continue;
        }
        out.copy_out(answer)?;
        out = out.skip(answer.len());
        at = part.end;
    }
    Ok(0)
}

fn tells_presence(vma: &Vma) -> bool {
    match &vma.source {
        Source::Anonymous => true,
        Source::File { mapping, .. } => mapping.tells_presence(),
    }
}

/// msync(2)
pub fn msync(addr: usize, len: usize, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::MSYNC.mask() as u32)?;
    if flags & MS_ASYNC != 0 && flags & MS_SYNC != 0 {
        return Err(Errno::EINVAL);
    }
    // As on Linux, a length that wraps is 0.
    let len = if len > usize::MAX - PAGE_SIZE + 1 {
        0
    } else {
        len
    };
    let range = pages_or_enomem(uaccess::untagged(addr), len)?;
    let space = own_space()?;
    let free = |vma: &Vma| !vma.flags.contains(Flags::LOCKED);
    if flags & MS_INVALIDATE != 0 && !space.all_vmas(range.clone(), free) {
        return Err(Errno::EBUSY);
    }
    covered(&space, range.clone())?;
    if flags & MS_SYNC != 0 {
        for vma in vmas_of(&space, &range) {
            if let Source::File { mapping, offset } = &vma.source
                && vma.is_shared()
            {
                let start = vma.start.max(range.start);
                let end = vma.end.min(range.end);
                let first = (offset + start - vma.start) / PAGE_SIZE;
                mapping.sync(first..first + (end - start) / PAGE_SIZE)?;
            }
            task::sched::cond_resched_killable()?;
        }
    }
    Ok(0)
}
