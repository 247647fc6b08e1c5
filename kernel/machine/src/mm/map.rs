//! New mappings: where they go, and what is there at once.

use super::asid::Context;
use super::fault::{Access, Failure};
use super::large::is_large;
use super::space::{AddressSpace, Space};
use super::vma::{Flags, Label, Rights, Source, Vma};
use super::vmas::{Removed, Vmas};
use super::{PAGE_SIZE, huge_page, page_down, page_up};
use crate::arch::user_end;
use crate::errno::{Errno, Result};
use crate::upcall::capable;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use linux_raw_sys::general::CAP_SYS_RAWIO;

/// The lowest address that may be mapped without CAP_SYS_RAWIO (/proc/sys/vm/mmap_min_addr).
pub static LEAST: AtomicUsize = AtomicUsize::new(PAGE_SIZE);

/// Nothing lies lower that was not mapped there (Linux's CONFIG_LSM_MMAP_MIN_ADDR).
const LEAST_CHOSEN: usize = 1 << 15;

/// From where on the kernel chooses addresses, and stacks grow.
pub(super) fn bottom() -> usize {
    LEAST.load(Relaxed).max(LEAST_CHOSEN)
}

/// Where a mapping goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the address if it is free, else anywhere.
    Hint(usize),
    /// At the address, in place of what is there.
    Fixed(usize),
    /// At the address if it is free, else EEXIST.
    Free(usize),
}

/// What `mmap` asks for.
pub struct MapRequest {
    /// Where.
    pub place: Place,
    /// Bytes, rounded up to pages.
    pub len: usize,
    /// What the program may do.
    pub rights: Rights,
    /// Behaviour.
    pub flags: Flags,
    /// Where the pages come from.
    pub source: Source,
    /// Name without a file.
    pub label: Label,
    /// Bytes that all VMAs together may have.
    pub limit: usize,
}

impl MapRequest {
    /// Anonymous private memory of `len` bytes that may be read and written.
    pub fn anonymous(place: Place, len: usize) -> Self {
        MapRequest {
            place,
            len,
            rights: Rights::READ.with(Rights::WRITE),
            flags: Flags::default(),
            source: Source::Anonymous,
            label: Label::None,
            limit: usize::MAX,
        }
    }

    /// The request, whose source is taken.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Self {
        MapRequest {
            source: core::mem::replace(&mut self.source, Source::Anonymous),
            ..*self
        }
    }
}

impl AddressSpace {
    /// Maps what is asked for; returns where. Files that were there go to `gone`. Waits if it takes
    /// the place of a large range.
    ///
    /// # Errors
    /// EINVAL (bounds), ENOMEM, EEXIST; EPERM: the file was sealed meanwhile.
    pub fn map(&self, request: MapRequest, gone: &mut Removed) -> Result<usize> {
        let len = checked_len(request.len)?;
        let flags = request
            .flags
            .set(Flags::ACCOUNT, false)
            .accounted(request.rights);
        // Declared before the lock, so that one that is not mapped is dropped after it is released:
        // its file may end with it, and sleep.
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
        // A seal that is added from now on sees this mapping.
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

    /// Refuses to lock `len` bytes of a new mapping, because the caller `asked` for that or wants
    /// all new ones locked, beyond its `limit`.
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

    /// Makes one page present; or says that there is no memory for it, or that it has waited and is
    /// to be asked again.
    pub fn populate_page(
        &self,
        page: usize,
        write: bool,
    ) -> Result<core::result::Result<(), Failure>> {
        let space = self.read_lock();
        let vma = space
            .vmas
            .find_near(page, &space.slot().data.hint)
            .ok_or(Errno::ENOMEM)?;
        let write = write || vma.rights.has(Rights::WRITE) && !vma.is_shared();
        let access = if write { Access::Write } else { Access::Read };
        if space.must_wait(&(page..page + 1), access) {
            drop(space);
            self.wait_for_access(page, access)?;
            return Ok(Err(Failure::Paused));
        }
        let made = if space.is_tagged() {
            space.resolve_tagged(&self.context, space.slot(), page, access)
        } else {
            space.resolve::<false>(&self.context, space.slot(), page, access)
        };
        match made {
            Err(failure) if failure != Failure::NoMemory => Err(failure.errno()),
            made => Ok(made),
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
    /// Where a mapping of `len` bytes goes that is within the limits, and whether something is
    /// there that is to go.
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
        if flags.has(Flags::ACCOUNT) {
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

    /// Finds a place for `len` bytes; whether something is there that is to go.
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

    /// Empties the place of a VMA that is put there by [`Vmas::replace`]; what is there stays if
    /// that fails.
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
        // As Linux does: what could be huge pages begins like one.
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
