//! New mappings: choosing their address, and mapping their pages at once.

use super::asid::Context;
use super::fault::{Access, Failure};
use super::large::is_large;
use super::space::{AddressSpace, Space};
use super::vma::{Flags, Label, Rights, Source, Vma};
use super::vmas::{Removed, Vmas};
use super::{PAGE_SIZE, contpte, huge_page, page_down, page_up};
use crate::arch::user_end;
use crate::errno::{Errno, Result};
use crate::upcall::capable;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use linux_raw_sys::general::CAP_SYS_RAWIO;

/// The lowest address that may be mapped without CAP_SYS_RAWIO (/proc/sys/vm/mmap_min_addr).
pub static LEAST: AtomicUsize = AtomicUsize::new(PAGE_SIZE);

/// The lowest address that the kernel chooses itself (Linux's CONFIG_LSM_MMAP_MIN_ADDR).
const LEAST_CHOSEN: usize = 1 << 15;

/// The lowest address that the kernel chooses for mappings, and to which stacks grow.
pub(super) fn bottom() -> usize {
    LEAST.load(Relaxed).max(LEAST_CHOSEN)
}

/// The placement of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the address if it is free, otherwise anywhere.
    Hint(usize),
    /// At the address, replacing existing mappings.
    Fixed(usize),
    /// At the address if it is free, otherwise EEXIST.
    Free(usize),
}

/// The arguments of `mmap`.
pub struct MapRequest {
    /// Placement.
    pub place: Place,
    /// Bytes, rounded up to pages.
    pub len: usize,
    /// The program's rights.
    pub rights: Rights,
    /// Other VMA flags.
    pub flags: Flags,
    /// The source of the pages.
    pub source: Source,
    /// The name if there is no file.
    pub label: Label,
    /// Limit on the bytes of all VMAs together.
    pub limit: usize,
}

impl MapRequest {
    /// Requests `len` bytes of anonymous private memory, readable and writable.
    pub fn anonymous(place: Place, len: usize) -> Self {
        MapRequest {
            place,
            len,
            rights: Rights::READ.union(Rights::WRITE),
            flags: Flags::empty(),
            source: Source::Anonymous,
            label: Label::None,
            limit: usize::MAX,
        }
    }

    /// Returns the request and takes its source.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Self {
        MapRequest {
            source: core::mem::replace(&mut self.source, Source::Anonymous),
            ..*self
        }
    }
}

impl AddressSpace {
    /// Creates a mapping; returns its address. Files that were mapped there go to `gone`. May sleep
    /// if it replaces a large range.
    ///
    /// # Errors
    /// EINVAL (bounds), ENOMEM, EEXIST; EPERM if the file was sealed meanwhile.
    pub fn map(&self, request: MapRequest, gone: &mut Removed) -> Result<usize> {
        let len = checked_len(request.len)?;
        let flags = request
            .flags
            .with(Flags::ACCOUNT, false)
            .accounted(request.rights);
        // Declared before the guard, so that a VMA that is not mapped is dropped after the lock is
        // released: this may drop the last reference to its file, which may sleep.
        let vma;
        let _leaving;
        let mut space = self.lock_to_change()?;
        let (mut start, mut taken) = space.admit(&request, flags, len)?;
        if taken && is_large(&(start..start + len)) {
            drop(space);
            _leaving = self.empty_first(start..start + len, gone)?;
            space = self.lock_to_change()?;
            (start, taken) = space.admit_again(&request, flags, len)?;
        }
        vma = Vma {
            start,
            end: start + len,
            rights: request.rights,
            label: request.label,
            flags,
            source: request.source,
        };
        vma.add_to_file(&self.me)?;
        // Seals added from now on see this mapping.
        if vma.is_too_late() {
            return Err(Errno::EPERM);
        }
        if taken {
            space.clear_place(&self.context, vma.range(), gone)?;
            space.vmas.replace(vma, gone);
        } else {
            space.vmas.reserve(start)?;
            space.vmas.insert_reserved(vma);
        }
        Ok(start)
    }

    /// Checks whether the caller, who `asked` for a lock or wants all new mappings locked, may lock
    /// `len` bytes of a new mapping within its `limit`.
    ///
    /// # Errors
    /// EPERM (asked for, and nothing may be locked), EAGAIN.
    pub fn check_new_lock(&self, len: usize, asked: bool, limit: usize) -> Result<()> {
        if asked && limit == 0 {
            return Err(Errno::EPERM);
        }
        if self.totals().locked.saturating_add(len) > limit {
            return Err(Errno::EAGAIN);
        }
        Ok(())
    }

    /// Faults in the first page of a range all of which is wanted, and others with it; returns how
    /// many there are now from the first one on. Without an `access` it is what mlock(2) needs: a
    /// write where memory is private and writable. The inner error is [`Failure::NoMemory`],
    /// [`Failure::Paused`] if this has waited and must be called again, or [`Failure::Absent`] and
    /// [`Failure::Denied`], with which [`AddressSpace::fault_paged`] may help.
    pub fn populate_first(
        &self,
        range: &Range<usize>,
        access: Option<Access>,
    ) -> Result<core::result::Result<usize, Failure>> {
        let (space, page) = (self.read_lock(), range.start);
        let vma = space
            .vmas
            .find_near(page, &space.slot().data.hint)
            .ok_or(Errno::ENOMEM)?;
        let access = access.unwrap_or_else(|| {
            match vma.rights.contains(Rights::WRITE) && !vma.is_shared() {
                true => Access::Write,
                false => Access::Read,
            }
        });
        if space.must_wait(&(page..page + 1), access) {
            drop(space);
            self.wait_for_access(page, access)?;
            return Ok(Err(Failure::Paused));
        }
        let made = if space.is_tagged() {
            space.resolve_tagged(&self.context, space.slot(), page, access)
        } else if access == Access::Write
            && contpte::may_populate(vma, range)
            && space.populate_run(vma, &self.context, space.slot(), page)
        {
            return Ok(Ok(contpte::PAGES));
        } else {
            space.resolve::<false>(&self.context, space.slot(), page, access)
        };
        match made {
            Err(failure @ (Failure::Unmapped | Failure::BeyondEnd)) => Err(failure.errno()),
            made => Ok(made.map(|()| 1)),
        }
    }
}

/// Rounds a length up to pages.
fn checked_len(len: usize) -> Result<usize> {
    match len {
        0 => Err(Errno::EINVAL),
        _ if len > user_end() => Err(Errno::ENOMEM),
        _ => Ok(page_up(len)),
    }
}

impl Space {
    /// Finds an address for a mapping of `len` bytes within the limits, and reports whether
    /// existing mappings there must be removed.
    #[inline(always)]
    fn admit(&mut self, request: &MapRequest, flags: Flags, len: usize) -> Result<(usize, bool)> {
        let (mut replaced, mut accounted) = (0, 0);
        if let Place::Fixed(at) = request.place {
            let range = at..at.saturating_add(len);
            replaced = self.vmas.bytes_in(range.clone());
            accounted = self.vmas.accounted(range);
        }
        let bytes = self.vmas.totals().all.checked_add(len - replaced);
        if bytes.is_none_or(|bytes| bytes > request.limit) || self.vmas.is_full() {
            return Err(Errno::ENOMEM);
        }
        if flags.contains(Flags::ACCOUNT) {
            self.vmas.commit(len - accounted)?;
        }
        self.place(request.place, len)
    }

    #[cold]
    #[inline(never)]
    fn admit_again(
        &mut self,
        request: &MapRequest,
        flags: Flags,
        len: usize,
    ) -> Result<(usize, bool)> {
        self.admit(request, flags, len)
    }

    /// Finds an address for `len` bytes, and reports whether existing mappings there must be
    /// removed.
    #[inline(always)]
    pub(super) fn place(&mut self, place: Place, len: usize) -> Result<(usize, bool)> {
        let whole = self.end;
        let fits = |start: usize| start.checked_add(len).is_some_and(|end| end <= whole);
        let is_free =
            |vmas: &Vmas, start: usize| vmas.touching(start..start + len).next().is_none();
        let start = match place {
            Place::Fixed(start) | Place::Free(start) => start,
            Place::Hint(hint) => {
                if page_down(hint) > 0 {
                    let hint = page_down(hint).max(bottom());
                    if fits(hint) && self.vmas.is_room(hint..hint + len) {
                        return Ok((hint, false));
                    }
                }
                return Ok((self.find_free(len)?, false));
            }
        };
        if start % PAGE_SIZE != 0 {
            return Err(Errno::EINVAL);
        }
        if !fits(start) {
            return Err(Errno::ENOMEM);
        }
        if start < LEAST.load(Relaxed) && !capable(CAP_SYS_RAWIO) {
            return Err(Errno::EPERM);
        }
        let taken = !is_free(&self.vmas, start);
        if taken && matches!(place, Place::Free(_)) {
            return Err(Errno::EEXIST);
        }
        Ok((start, taken))
    }

    /// Clears the range for a VMA that [`Vmas::replace`] will insert; on failure the existing
    /// mappings stay.
    #[cold]
    #[inline(never)]
    fn clear_place(
        &mut self,
        context: &Context,
        range: Range<usize>,
        gone: &mut Removed,
    ) -> Result<()> {
        self.vmas.cut_out(&range, gone)?;
        self.empty(context, range, true);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn find_free(&mut self, len: usize) -> Result<usize> {
        let usual = self.mmap_bottom.is_none() && !len.is_multiple_of(huge_page::SIZE);
        let window = bottom()..self.mmap_top;
        if usual && let Some(start) = self.vmas.find_free(window, len, PAGE_SIZE) {
            return Ok(start);
        }
        self.find_anywhere(len)
    }

    #[cold]
    #[inline(never)]
    fn find_anywhere(&mut self, len: usize) -> Result<usize> {
        // As on Linux, a mapping that could use huge pages is aligned to one.
        let aligned = match len % huge_page::SIZE {
            0 => self.find_aligned(len, huge_page::SIZE),
            _ => None,
        };
        aligned
            .or_else(|| self.find_aligned(len, PAGE_SIZE))
            .ok_or(Errno::ENOMEM)
    }

    #[inline(never)]
    fn find_aligned(&mut self, len: usize, align: usize) -> Option<usize> {
        if let Some(bottom) = self.mmap_bottom {
            return self.vmas.find_free_above(bottom..self.end, len, align);
        }
        [self.mmap_top, self.end]
            .into_iter()
            .find_map(|top| self.vmas.find_free(bottom()..top, len, align))
    }
}
