//! mmap(2), and remap_file_pages(2).

use alloc::sync::Arc;

use linux_raw_sys::general::*;

use super::memory::{
    check_data, gave_up_executable, implied, is_never_executed, own_space, vmas_of, with_specific,
};
use super::mlock;
use super::path::opened;
use crate::arch;
use crate::arch::user_end;
use crate::errno::{Errno, Result};
use crate::fs::inode::Kind;
use crate::fs::{File, perm};
use crate::ipc::sysv_shm;
use crate::mm::active::NewLock;
use crate::mm::shared::SharedPages;
use crate::mm::vma::{Flags, Label, Rights, Source, Vma};
use crate::mm::{
    MapRequest, PAGE_SIZE, PageSource, Place, Removed, active, commit, page_down, page_up,
};
use crate::task;
use crate::task::limits::INFINITY;

/// The maximum offset of a file's end (MAX_LFS_FILESIZE).
const MAX_OFFSET: usize = i64::MAX as usize;

/// mmap(2).
pub fn mmap(
    addr: usize,
    len: usize,
    prot: u32,
    flags: u32,
    fd: i32,
    offset: usize,
) -> Result<usize> {
    map::<false>(addr, len, prot, flags, fd, offset)
}

/// mmap(2) with MAP_DROPPABLE, the last map type: memory that the kernel may drop, which is neither
/// a stack nor locked.
#[cold]
fn map_droppable(addr: usize, len: usize, prot: u32, flags: u32) -> Result<usize> {
    let is_it = flags & MAP_TYPE == MAP_DROPPABLE;
    if !is_it || flags & (MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED) != 0 {
        return error_of_range(addr, len, flags).and(Err(Errno::EINVAL));
    }
    task::droppable::announce();
    let flags = flags & !MAP_TYPE | MAP_PRIVATE;
    map::<true>(addr, len, prot, flags, -1, 0)
}

/// `rights`, plus those that the architecture's own bits of `prot` add.
///
/// # Errors
/// EINVAL: a file's pages have no tags.
#[cold]
#[inline(never)]
fn add_specific(rights: Rights, prot: u32, file: Option<&Arc<File>>) -> Result<Rights> {
    // As on Linux, mmap(2) ignores unknown bits.
    let rights = with_specific(rights, prot).unwrap_or(rights);
    if !arch::wants_tags(prot) {
        return Ok(rights);
    }
    if let Some(file) = file.filter(|file| file.flags().readable())
        && let Ok(mapping) = file.mapping()
        && !mapping.is_some_and(|mapping| mapping.may_have_tags())
    {
        return Err(Errno::EINVAL);
    }
    own_space()?.set_tagged();
    Ok(rights.union(Rights::TAGGED))
}

/// The maximum offset of the end of a file's mapping: what has no size has no limit.
fn last_offset(file: &File) -> usize {
    match file.dentry().kind() {
        Kind::Regular | Kind::Block | Kind::Socket | Kind::Anonymous => MAX_OFFSET,
        _ => usize::MAX,
    }
}

/// What mmap(2) would say of a range alone.
///
/// # Errors
/// ENOMEM, EINVAL, EEXIST, EPERM, EAGAIN.
#[cold]
#[inline(never)]
fn error_of_range(addr: usize, len: usize, flags: u32) -> Result<()> {
    let highest = user_end().checked_sub(len).map(page_down);
    let highest = highest.ok_or(Errno::ENOMEM)?;
    let space = own_space()?;
    if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
        if addr > highest {
            return Err(Errno::ENOMEM);
        }
        if !addr.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        let range = addr..addr + page_up(len);
        let mut taken = vmas_of(&space, &range);
        if flags & MAP_FIXED_NOREPLACE != 0 && taken.next().is_some() {
            return Err(Errno::EEXIST);
        }
    }
    let asked = flags & MAP_LOCKED != 0;
    if asked || space.locks_new().contains(Flags::LOCKED) {
        space.check_new_lock(page_up(len), asked, mlock::limit())?;
    }
    Ok(())
}

/// The flags older than MAP_SHARED_VALIDATE, which refuses any other (LEGACY_MAP_MASK).
const LEGACY: u32 = MAP_TYPE
    | MAP_FIXED
    | MAP_ANONYMOUS
    | MAP_DENYWRITE
    | MAP_EXECUTABLE
    | MAP_UNINITIALIZED
    | MAP_GROWSDOWN
    | MAP_LOCKED
    | MAP_NORESERVE
    | MAP_POPULATE
    | MAP_NONBLOCK
    | MAP_STACK
    | MAP_HUGETLB
    | MAP_HUGE_2MB
    | MAP_HUGE_1GB;

#[inline(always)]
fn map<const DROPPABLE: bool>(
    addr: usize,
    len: usize,
    prot: u32,
    flags: u32,
    fd: i32,
    offset: usize,
) -> Result<usize> {
    if !offset.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let file = if flags & MAP_ANONYMOUS == 0 {
        Some(opened(fd)?)
    } else {
        None
    };
    // There is no file system of huge pages.
    if flags & MAP_HUGETLB != 0 && file.is_some() {
        return Err(Errno::EINVAL);
    }
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    // As on Linux, what is wrong with the range is told before what is wrong with the file.
    let refuse = |error| {
        error_of_range(addr, len, flags)?;
        match &file {
            Some(file) if offset > last_offset(file).saturating_sub(len) => Err(Errno::EOVERFLOW),
            _ => Err(error),
        }
    };
    let mut rights = implied(Rights::from_prot(prot), file.as_deref());
    let specific = arch::specific_prot(prot);
    if specific != 0 {
        rights = add_specific(rights, specific, file.as_ref())?;
    }
    let shared = match flags & MAP_TYPE {
        MAP_PRIVATE => false,
        MAP_SHARED => true,
        MAP_SHARED_VALIDATE if file.is_none() => return refuse(Errno::EINVAL),
        MAP_SHARED_VALIDATE if flags & !LEGACY == 0 => true,
        MAP_SHARED_VALIDATE => return refuse(Errno::EOPNOTSUPP),
        _ if file.is_none() && !DROPPABLE => return map_droppable(addr, len, prot, flags),
        _ => return refuse(Errno::EINVAL),
    };
    // Nor are any reserved.
    if flags & MAP_HUGETLB != 0 {
        return refuse(Errno::ENOMEM);
    }
    let grows = flags & MAP_GROWSDOWN != 0;
    let mut behaviour = behaviour_of(flags, shared);
    if DROPPABLE {
        behaviour = behaviour.union(task::droppable::FLAGS);
    }
    let mapping = match &file {
        Some(file) => {
            if offset > MAX_OFFSET.saturating_sub(len)
                && offset > last_offset(file).saturating_sub(len)
            {
                return refuse(Errno::EOVERFLOW);
            }
            match file_mapping(file, rights, &mut behaviour) {
                Ok(mapping) => mapping,
                Err(error) => return refuse(error),
            }
        }
        None if shared && grows => return refuse(Errno::EINVAL),
        None => None,
    };
    let source = match mapping {
        Some(mapping) => {
            if shared && mapping.hears_of_writes() {
                rights = rights.notified();
            }
            Source::File { mapping, offset }
        }
        None if shared => {
            let reserve = !behaviour.contains(Flags::NO_RESERVE);
            let mapping = SharedPages::new(page_up(len.min(user_end())) / PAGE_SIZE, reserve)?;
            Source::File { mapping, offset: 0 }
        }
        None => Source::Anonymous,
    };
    let place = place_of(addr, flags);
    let thread = task::current();
    let limits = &thread.process().limits;
    let (limit, data) = (limits.soft(RLIMIT_AS), limits.soft(RLIMIT_DATA));
    let private = !shared && rights.contains(Rights::WRITE);
    if private && rights.contains(Rights::EXECUTE) && gave_up_executable() {
        return Err(Errno::EACCES);
    }
    if data != INFINITY && private {
        check_new_data(place, page_up(len.min(user_end())), data)?;
    }
    let mut request = MapRequest {
        place,
        len,
        rights,
        flags: behaviour,
        source,
        label: Label::None,
        limit,
    };
    let lock = NewLock {
        asked: flags & MAP_LOCKED != 0,
        limit: mlock::limit,
    };
    let (start, locked) = active::map(&mut request, lock, &mut Removed::new())?;
    let populated = flags & (MAP_POPULATE | MAP_NONBLOCK) == MAP_POPULATE;
    if (populated || locked.contains(Flags::LOCKED))
        && !locked.contains(Flags::LOCK_ON_FAULT)
        && !rights.is_none()
    {
        // Linux too keeps the mapping if some pages could not be made present.
        let _ = task::fault::populate(&*own_space()?, start..start + page_up(len), None);
    }
    Ok(start)
}

/// The flags of a new VMA for the flags of mmap(2).
#[inline(always)]
fn behaviour_of(flags: u32, shared: bool) -> Flags {
    let unreserved = flags & MAP_NORESERVE != 0 && !commit::is_strict();
    Flags::empty()
        .with(Flags::SHARED, shared)
        .with(Flags::GROWS_DOWN, flags & MAP_GROWSDOWN != 0)
        .with(Flags::NO_HUGE, flags & MAP_STACK != 0)
        .with(Flags::NO_RESERVE, unreserved)
}

/// The pages of a file to map with `rights`; adds the file's restrictions to `behaviour`.
///
/// # Errors
/// EACCES, EPERM: the file, its mount or its seals do not allow it. EINVAL: the mapping of a file
/// cannot grow, and a shared one of a read-only disk can never be writable. ENODEV.
#[inline(always)]
fn file_mapping(
    file: &Arc<File>,
    rights: Rights,
    behaviour: &mut Flags,
) -> Result<Option<Arc<dyn PageSource>>> {
    let shared = behaviour.contains(Flags::SHARED);
    let writable = file.flags().writable();
    if !file.flags().readable() || shared && rights.contains(Rights::WRITE) && !writable {
        return Err(Errno::EACCES);
    }
    let never_executes = is_never_executed(file);
    if rights.contains(Rights::EXECUTE) && never_executes {
        return Err(Errno::EPERM);
    }
    let mapping = file.mapping()?;
    if behaviour.contains(Flags::GROWS_DOWN) {
        return Err(Errno::EINVAL);
    }
    let may_write = shared && writable;
    if may_write && perm::check_flags(file.path(), file.dentry(), FS_APPEND_FL).is_err() {
        return Err(Errno::EACCES);
    }
    if may_write && file.ops().maps_read_only() {
        return Err(Errno::EINVAL);
    }
    let sealed = may_write && file.is_sealed();
    if sealed && rights.contains(Rights::WRITE) {
        return Err(Errno::EPERM);
    }
    *behaviour = behaviour
        .with(Flags::NEVER_EXECUTE, never_executes)
        .with(Flags::NEVER_WRITE, shared && (!writable || sealed));
    Ok(mapping)
}

/// The requested place of a mapping, according to `addr` and `flags`.
#[inline(always)]
fn place_of(addr: usize, flags: u32) -> Place {
    if flags & MAP_FIXED_NOREPLACE != 0 {
        Place::Free(addr)
    } else if flags & MAP_FIXED != 0 {
        Place::Fixed(addr)
    } else {
        Place::Hint(addr)
    }
}

/// [`check_data`] for a new mapping.
#[cold]
fn check_new_data(place: Place, len: usize, limit: usize) -> Result<()> {
    let space = own_space()?;
    let replaced = match place {
        Place::Fixed(at) => space.bytes_in(at..at.saturating_add(len)),
        _ => 0,
    };
    check_data(&space, len.saturating_sub(replaced), limit)
}

/// remap_file_pages(2): maps other pages of the file, from page `first` on, in a part of a shared
/// mapping. As on Linux, the part becomes a mapping of its own.
pub fn remap_file_pages(
    start: usize,
    len: usize,
    prot: u32,
    first: usize,
    _flags: u32,
) -> Result<usize> {
    let (start, len) = (page_down(start), page_down(len));
    let end = start.checked_add(len).filter(|&end| end > start);
    let end = end.filter(|_| prot == 0).ok_or(Errno::EINVAL)?;
    let offset = first.checked_mul(PAGE_SIZE).ok_or(Errno::EINVAL)?;
    let last = offset.checked_add(len).ok_or(Errno::EINVAL)?;
    if last > MAX_OFFSET {
        return Err(Errno::EOVERFLOW);
    }
    let space = own_space()?;
    let mut vmas = space.vmas_from(start);
    let vma = vmas.next().filter(|vma| vma.start <= start);
    let vma = vma.ok_or(Errno::EINVAL)?;
    let of_file = |vma: &Vma| match &vma.source {
        Source::File { mapping, .. } if vma.is_shared() => Some(mapping.clone()),
        _ => None,
    };
    let mapping = of_file(&vma).ok_or(Errno::EINVAL)?;
    let mut covered = vma.end;
    for next in vmas.take_while(|next| next.start < end) {
        let same = of_file(&next).is_some_and(|other| other.object() == mapping.object());
        if next.start != covered || !same {
            return Err(Errno::EINVAL);
        }
        covered = next.end;
    }
    if covered < end {
        return Err(Errno::EINVAL);
    }
    if sysv_shm::of(&mapping).is_some_and(|part| part.segment().is_removed()) {
        return Err(Errno::EIDRM);
    }
    let request = MapRequest {
        place: Place::Fixed(start),
        len,
        rights: vma.rights,
        flags: vma.flags,
        source: Source::File { mapping, offset },
        label: vma.label,
        limit: task::rlimit(RLIMIT_AS),
    };
    space.map(request, &mut Removed::new())?;
    Ok(0)
}
