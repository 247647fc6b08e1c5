//! System calls on memory.

use alloc::sync::Arc;
use core::ops::Range;

use abi::options;
use linux_raw_sys::general::*;

use super::layout::Layout;
use super::mlock;
use super::path::{check_flags, opened};
use crate::arch::{self, uaccess, user_end};
use crate::errno::{Errno, Result};
use crate::fs::{File, tmpfs};
use crate::ipc::sysv_shm;
use crate::mm::active::NewLock;
use crate::mm::shared::SharedPages;
use crate::mm::totals::Limits;
use crate::mm::user::{UserPtr, UserSlice};
use crate::mm::vma::{Flags, Label, Protection, Rights, Source, Vma};
use crate::mm::{
    AddressSpace, MapRequest, Move, PAGE_SHIFT, PAGE_SIZE, Place, RemapRequest, Removed, active,
    commit, page_down, page_up,
};
use crate::task::limits::INFINITY;
use crate::task::process::Mode;
use crate::task::ptrace_access::{self, By};
use crate::task::{self, personality, pidfd};

/// Where a file's bytes end at the latest (MAX_LFS_FILESIZE).
const MAX_OFFSET: usize = i64::MAX as usize;

/// Pages that `mincore` answers for at a time.
const CHUNK: usize = 256;

/// The pages of `start`, a multiple of the page size, and `len` bytes.
fn pages(start: usize, len: usize) -> Result<Range<usize>> {
    let end = start.checked_add(len).filter(|&end| end <= user_end());
    match end {
        Some(end) if start.is_multiple_of(PAGE_SIZE) => Ok(start..page_up(end)),
        _ => Err(Errno::EINVAL),
    }
}

/// What `call` does at an address without its tag, where one fails with `error` that has one: most
/// calls on memory pass over it, whatever else takes tags (PR_SET_TAGGED_ADDR_CTRL).
#[cold]
fn without_tag(
    address: usize,
    error: Errno,
    call: impl FnOnce(usize) -> Result<usize>,
) -> Result<usize> {
    match uaccess::untagged(address) {
        plain if plain != address => call(plain),
        _ => Err(error),
    }
}

/// As `pages`, but what is no program's address is ENOMEM.
pub(super) fn pages_or_enomem(start: usize, len: usize) -> Result<Range<usize>> {
    if !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    pages(start, len).map_err(|_| Errno::ENOMEM)
}

/// ENOMEM unless all of the range is mapped.
fn covered(space: &AddressSpace, range: Range<usize>) -> Result<()> {
    if space.covers(range) {
        Ok(())
    } else {
        Err(Errno::ENOMEM)
    }
}

/// The VMAs of a space that a range touches.
fn vmas_of(space: &AddressSpace, range: &Range<usize>) -> impl Iterator<Item = Vma> {
    let end = range.end;
    space
        .vmas_from(range.start)
        .take_while(move |vma| vma.start < end)
}

/// The address space of the caller, for what may wait, or stands in no program's way. Frequent
/// calls go by [`active`].
pub(super) fn own_space() -> Result<Arc<AddressSpace>> {
    task::current().space().ok_or(Errno::ENOMEM)
}

/// Whether `rights` imply the right to execute, where that can be had
/// (READ_IMPLIES_EXEC).
#[inline]
fn implies_execute(rights: Rights) -> bool {
    rights.has(Rights::READ) && personality::has(personality::READ_IMPLIES_EXEC)
}

/// Whether a file's mount says that nothing there is executed.
fn is_never_executed(file: &File) -> bool {
    file.path().mount_flags() & MS_NOEXEC != 0
}

/// The rights to new memory, of `file` where it is a file's, for a mapping with `rights`.
#[inline]
fn implied(rights: Rights, file: Option<&File>) -> Rights {
    if implies_execute(rights) && !file.is_some_and(is_never_executed) {
        rights.with(Rights::EXECUTE)
    } else {
        rights
    }
}

/// `rights` with what bits of protection add that only this architecture has; none if it has not
/// all of them. Where nothing is allowed there is nothing to add.
#[cold]
fn with_specific(rights: Rights, prot: u32) -> Option<Rights> {
    let more = arch::specific_rights(prot)?;
    Some(if rights.is_none() {
        rights
    } else {
        rights.with(more)
    })
}

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

/// mmap(2) without a file of the kind that is left: memory that may be lost, which is neither a
/// stack nor locked.
#[cold]
fn map_droppable(addr: usize, len: usize, prot: u32, flags: u32) -> Result<usize> {
    let is_it = flags & MAP_TYPE == MAP_DROPPABLE;
    if !is_it || flags & (MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED) != 0 {
        return Err(Errno::EINVAL);
    }
    task::droppable::announce();
    let flags = flags & !MAP_TYPE | MAP_PRIVATE;
    map::<true>(addr, len, prot, flags, -1, 0)
}

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
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    let mut rights = implied(Rights::from_prot(prot), file.as_deref());
    let specific = arch::specific_prot(prot);
    if specific != 0 {
        // As on Linux, bits that nobody knows are of no meaning here.
        rights = with_specific(rights, specific).unwrap_or(rights);
    }
    let shared = match flags & MAP_TYPE {
        MAP_PRIVATE => false,
        MAP_SHARED => true,
        MAP_SHARED_VALIDATE if file.is_none() => return Err(Errno::EINVAL),
        MAP_SHARED_VALIDATE if u64::from(flags) & !options::MMAP.mask() == 0 => true,
        MAP_SHARED_VALIDATE => return Err(Errno::EOPNOTSUPP),
        _ if file.is_none() && !DROPPABLE => return map_droppable(addr, len, prot, flags),
        _ => return Err(Errno::EINVAL),
    };
    if flags & MAP_HUGETLB != 0 {
        // No pages are set aside, and no file is made of them.
        return Err(if file.is_none() {
            Errno::ENOMEM
        } else {
            Errno::EINVAL
        });
    }
    let mut behaviour = Flags::default().set(Flags::SHARED, shared);
    let grows = flags & MAP_GROWSDOWN != 0;
    behaviour = behaviour.set(Flags::GROWS_DOWN, grows);
    behaviour = behaviour.set(Flags::NO_HUGE, flags & MAP_STACK != 0);
    let unreserved = flags & MAP_NORESERVE != 0 && !commit::is_strict();
    behaviour = behaviour.set(Flags::NO_RESERVE, unreserved);
    if DROPPABLE {
        behaviour = behaviour.with(task::droppable::FLAGS);
    }
    let mapping = if let Some(file) = &file {
        if offset > MAX_OFFSET.saturating_sub(len) {
            return Err(Errno::EOVERFLOW);
        }
        let writable = file.flags().writable();
        if !file.flags().readable() || shared && rights.has(Rights::WRITE) && !writable {
            return Err(Errno::EACCES);
        }
        let never_executes = is_never_executed(file);
        if rights.has(Rights::EXECUTE) && never_executes {
            return Err(Errno::EPERM);
        }
        behaviour = behaviour.set(Flags::NEVER_EXECUTE, never_executes);
        let mapping = file.mapping()?;
        if grows {
            return Err(Errno::EINVAL);
        }
        let sealed = shared && writable && tmpfs::is_sealed(file);
        if sealed && rights.has(Rights::WRITE) {
            return Err(Errno::EPERM);
        }
        behaviour = behaviour.set(Flags::NEVER_WRITE, shared && (!writable || sealed));
        mapping
    } else if shared && grows {
        return Err(Errno::EINVAL);
    } else {
        None
    };
    let source = match mapping {
        Some(mapping) => Source::File { mapping, offset },
        None if shared => {
            let reserve = !behaviour.has(Flags::NO_RESERVE);
            let mapping = SharedPages::new(page_up(len.min(user_end())) / PAGE_SIZE, reserve)?;
            Source::File { mapping, offset: 0 }
        }
        None => Source::Anonymous,
    };
    let place = if flags & MAP_FIXED_NOREPLACE != 0 {
        Place::Free(addr)
    } else if flags & MAP_FIXED != 0 {
        Place::Fixed(addr)
    } else {
        Place::Hint(addr)
    };
    let thread = task::current();
    let limits = &thread.process().limits;
    let (limit, data) = (limits.soft(RLIMIT_AS), limits.soft(RLIMIT_DATA));
    let private = !shared && rights.has(Rights::WRITE);
    if private && rights.has(Rights::EXECUTE) && gave_up_executable() {
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
    if (populated || locked.has(Flags::LOCKED))
        && !locked.has(Flags::LOCK_ON_FAULT)
        && !rights.is_none()
    {
        // Linux too keeps the mapping when not all of it could be made present.
        let _ = task::fault::populate(&*own_space()?, start..start + page_up(len), false);
    }
    Ok(start)
}

/// [`check_data`] of a new mapping.
#[cold]
fn check_new_data(place: Place, len: usize, limit: usize) -> Result<()> {
    let space = own_space()?;
    let replaced = match place {
        Place::Fixed(at) => space.bytes_in(at..at.saturating_add(len)),
        _ => 0,
    };
    check_data(&space, len.saturating_sub(replaced), limit)
}

/// ENOMEM where private memory that is written to would be more than `limit` (RLIMIT_DATA) with
/// `more` bytes.
#[cold]
fn check_data(space: &AddressSpace, more: usize, limit: usize) -> Result<()> {
    let all = space.totals().data().checked_add(more);
    if all.is_some_and(|all| all <= limit) {
        Ok(())
    } else {
        Err(Errno::ENOMEM)
    }
}

fn is_data(vma: &Vma) -> bool {
    vma.rights.has(Rights::WRITE) && !vma.is_shared() && !vma.flags.has(Flags::GROWS_DOWN)
}

/// Whether the process gave up memory that it can both write and execute, or make executable later
/// (PR_SET_MDWE).
fn gave_up_executable() -> bool {
    task::current().process().mode(Mode::NO_WRITE_EXECUTE)
}

/// remap_file_pages(2): other pages of the file, from page `first` on, in a part of a shared
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
    let mut range = match pages_or_enomem(addr, len) {
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
    }
    if grows != 0 {
        range.start = start_of_growing(&range, grows)?;
    }
    let wanted = Protection {
        rights: asked,
        implies_execute: implies_execute(asked),
    };
    let rights = implied(asked, None);
    if rights.has(Rights::EXECUTE) && gave_up_executable() {
        check_executable(&range, rights)?;
    }
    if rights.has(Rights::WRITE) {
        let limit = task::rlimit(RLIMIT_DATA);
        if limit != INFINITY {
            check_more_data(&range, limit)?;
        }
    }
    active::protect(range, wanted)?;
    Ok(0)
}

/// EACCES unless all of a range may be executed already and will not be written (PR_SET_MDWE).
#[cold]
fn check_executable(range: &Range<usize>, rights: Rights) -> Result<()> {
    let executable = |vma: &Vma| vma.rights.has(Rights::EXECUTE);
    if !rights.has(Rights::WRITE) && own_space()?.all_vmas(range.clone(), executable) {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// [`check_data`] of a range that is to be written.
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

/// Where the stack begins that `range` touches, for PROT_GROWSDOWN. Nothing grows upwards here.
#[cold]
fn start_of_growing(range: &Range<usize>, grows: u32) -> Result<usize> {
    let vma = vmas_of(&*own_space()?, range).next().ok_or(Errno::ENOMEM)?;
    if grows == PROT_GROWSUP && vma.start > range.start {
        Err(Errno::ENOMEM)
    } else if grows == PROT_GROWSUP || !vma.flags.has(Flags::GROWS_DOWN) {
        Err(Errno::EINVAL)
    } else {
        Ok(vma.start)
    }
}

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
    if old.is_empty() || keep && (place == Move::Never || page_up(new_len) != old.len()) {
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
    if flags.has(Flags::LOCKED) && !flags.has(Flags::LOCK_ON_FAULT) && len > had {
        let _ = task::fault::populate(&*own_space()?, start + had..start + len, false);
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

/// mremap(2) of no length: a second mapping of what a shared one maps from `addr` on.
fn duplicate(addr: usize, len: usize, place: Move) -> Result<usize> {
    let space = own_space()?;
    let vma = vmas_of(&space, &(addr..addr + 1))
        .next()
        .ok_or(Errno::EFAULT)?;
    if vma.flags.has(Flags::SEALED) {
        return Err(Errno::EPERM);
    }
    let Source::File { mapping, offset } = &vma.source else {
        return Err(Errno::EINVAL);
    };
    if !vma.is_shared() {
        return Err(Errno::EINVAL);
    }
    let flags = vma.flags.set(Flags::GOES, false);
    let is_locked = flags.has(Flags::LOCKED);
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
    if is_locked && !flags.has(Flags::LOCK_ON_FAULT) {
        let _ = task::fault::populate(&space, start..start + page_up(len), false);
    }
    Ok(start)
}

/// brk(2): never fails, returns where the heap ends.
pub fn brk(end: usize) -> Result<usize> {
    let (limits, mut gone) = (limits(), Removed::new());
    let mut rights = Rights::READ.with(Rights::WRITE);
    if arch::HEAP_MAY_EXECUTE {
        rights = implied(rights, None);
    }
    let moved = active::set_heap_end(end, rights, &limits, &mut gone)?;
    if let (Ok(end), Some(old)) = moved
        && end > old
    {
        let _ = task::fault::populate(&*own_space()?, page_down(old)..page_up(end), false);
    }
    moved.0.or_else(|large| {
        let space = own_space()?;
        let unmapped = space.unmap(large, &mut gone);
        // 0 is below the heap, and moves nothing.
        let end = if unmapped.is_ok() { end } else { 0 };
        let moved = space.set_heap_end(end, rights, &limits, &mut gone);
        moved.map_err(|_| Errno::ENOMEM)
    })
}

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
        MADV_COLD | MADV_PAGEOUT => |vma| vma.flags.has(Flags::LOCKED),
        MADV_FREE => |vma| {
            vma.flags.has(Flags::LOCKED)
                || vma.is_shared()
                || !matches!(vma.source, Source::Anonymous)
        },
        MADV_WIPEONFORK => |vma| vma.is_shared() || !matches!(vma.source, Source::Anonymous),
        MADV_KEEPONFORK | MADV_DODUMP => |vma| vma.flags.has(Flags::DROPPABLE),
        _ => |_| false,
    };
    if range.is_empty() {
        return Ok(0);
    }
    match advice {
        MADV_DONTNEED => active::discard(range, Some(Flags::LOCKED))?,
        MADV_DONTNEED_LOCKED => active::discard(range, None)?,
        MADV_REMOVE => remove(range)?,
        MADV_POPULATE_READ => touch(range, Rights::READ)?,
        MADV_POPULATE_WRITE => touch(range, Rights::WRITE)?,
        _ => advise(range, advice, refused)?,
    }
    Ok(0)
}

/// Advice that changes how VMAs behave, or nothing, unless one of them is `refused`.
fn advise(range: Range<usize>, advice: u32, refused: fn(&Vma) -> bool) -> Result<()> {
    let space = own_space()?;
    let loses = matches!(advice, MADV_FREE | MADV_DONTFORK | MADV_WIPEONFORK);
    if loses && !space.all_vmas(range.clone(), |vma| !vma.keeps_content()) {
        return Err(Errno::EPERM);
    }
    if !space.all_vmas(range.clone(), |vma| !refused(vma)) {
        return Err(Errno::EINVAL);
    }
    // Another thread may seal some meanwhile.
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
        // Advice that asks for nothing.
        _ => covered(&space, range),
    }
}

/// mseal(2): the VMAs of a range stay, with their rights.
pub fn mseal(addr: usize, len: usize, flags: usize) -> Result<usize> {
    let addr = uaccess::untagged(addr);
    let end = len.checked_next_multiple_of(PAGE_SIZE);
    let end = end.and_then(|len| addr.checked_add(len));
    let end = end.filter(|_| flags == 0 && addr.is_multiple_of(PAGE_SIZE));
    own_space()?.seal(addr..end.ok_or(Errno::EINVAL)?)?;
    Ok(0)
}

/// process_madvise(2): advice that changes nothing a program sees, for memory of any process.
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
    let other =
        ptrace_access::look(&other, By::File, |thread| Ok(thread.space()))?.ok_or(Errno::ESRCH)?;
    if !task::can(CAP_SYS_NICE) {
        return Err(Errno::EPERM);
    }
    let refused = |vma: &Vma| advice != MADV_WILLNEED && vma.flags.has(Flags::LOCKED);
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
    }
    Ok(total)
}

/// cachestat(2): every page of a file in memory is in the cache, and none waits to be written back.
pub fn cachestat(fd: i32, range: usize, to: usize, flags: u32) -> Result<usize> {
    const CHUNK: usize = 64;
    let file = opened(fd)?;
    let [offset, len] = UserPtr::<[u64; 2]>::new(range).read()?;
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

/// MADV_POPULATE_READ and MADV_POPULATE_WRITE, where all VMAs have the right.
fn touch(range: Range<usize>, right: Rights) -> Result<()> {
    let space = own_space()?;
    if vmas_of(&space, &range).any(|vma| !vma.rights.has(right)) {
        return Err(Errno::EINVAL);
    }
    match task::fault::populate(&space, range, right == Rights::WRITE) {
        // A page beyond the end of a file.
        Err(Errno::ENXIO) => Err(Errno::EFAULT),
        result => result,
    }
}

/// MADV_REMOVE: holes in the files of shared mappings.
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
        if vma.flags.has(Flags::LOCKED) {
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
        at = end;
    }
    Ok(())
}

/// mincore(2).
pub fn mincore(addr: usize, len: usize, vector: usize) -> Result<usize> {
    let range = pages_or_enomem(uaccess::untagged(addr), len)?;
    let space = own_space()?;
    covered(&space, range.clone())?;
    let mut answer = [0; CHUNK];
    let mut out = UserSlice::new(vector, range.len() / PAGE_SIZE);
    for start in range.clone().step_by(CHUNK * PAGE_SIZE) {
        let part = start..range.end.min(start + CHUNK * PAGE_SIZE);
        let answer = &mut answer[..part.len() / PAGE_SIZE];
        space.present(part, answer);
        out.copy_out(answer)?;
        out = out.skip(answer.len());
        task::sched::cond_resched_killable()?;
    }
    Ok(0)
}

/// msync(2): files are memory, so there is nothing to write back.
pub fn msync(addr: usize, len: usize, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::MSYNC.mask() as u32)?;
    if flags & MS_ASYNC != 0 && flags & MS_SYNC != 0 {
        return Err(Errno::EINVAL);
    }
    let range = pages_or_enomem(uaccess::untagged(addr), len)?;
    let space = own_space()?;
    let free = |vma: &Vma| !vma.flags.has(Flags::LOCKED);
    if flags & MS_INVALIDATE != 0 && !space.all_vmas(range.clone(), free) {
        return Err(Errno::EBUSY);
    }
    covered(&space, range)?;
    Ok(0)
}
