//! Memory that rows fault in, unmap and protect, page by page.

use crate::sys::{self, Result};

/// The size of a small page on every kernel measured, in bytes.
pub const PAGE: usize = 4096;
/// The number of bytes that one last-level table maps; also the size of a huge page.
pub const LARGE: usize = 2 << 20;

/// A mapping that starts at a multiple of [`LARGE`] and is unmapped when dropped.
pub struct Region {
    base: usize,
    pages: usize,
}

impl Region {
    /// Maps anonymous private memory of `pages` small pages, readable and writable.
    pub fn anonymous(pages: usize) -> Result<Self> {
        let region = Self::reserve(pages)?;
        region.refresh()?;
        Ok(region)
    }

    /// Maps `pages` small pages of the file `fd`, shared or private.
    pub fn file(pages: usize, fd: usize, shared: bool) -> Result<Self> {
        let region = Self::reserve(pages)?;
        let kind = if shared {
            sys::MAP_SHARED
        } else {
            sys::MAP_PRIVATE
        };
        region.map(kind, fd as isize)?;
        Ok(region)
    }

    /// Finds an aligned address: maps more than needed and unmaps the rest.
    fn reserve(pages: usize) -> Result<Self> {
        let length = pages * PAGE;
        let whole = length.next_multiple_of(LARGE) + LARGE;
        let kind = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        let start = sys::mmap(0, whole, sys::PROT_NONE, kind, -1)?;
        let base = start.next_multiple_of(LARGE);
        if base > start {
            sys::munmap(start, base - start)?;
        }
        sys::munmap(base + length, start + whole - base - length)?;
        Ok(Self { base, pages })
    }

    fn map(&self, kind: usize, fd: isize) -> Result<()> {
        let prot = sys::PROT_READ | sys::PROT_WRITE;
        sys::mmap(self.base, self.length(), prot, kind | sys::MAP_FIXED, fd)?;
        Ok(())
    }

    fn length(&self) -> usize {
        self.pages * PAGE
    }

    /// The address after the last byte.
    pub fn end(&self) -> usize {
        self.base + self.length()
    }

    /// Maps the region again, as small pages, none of them present, and without a table of its own.
    pub fn refresh(&self) -> Result<()> {
        self.map(sys::MAP_PRIVATE | sys::MAP_ANONYMOUS, -1)?;
        // A kernel without huge pages refuses this advice, and does not need it.
        let _ = sys::madvise(self.base, self.length(), sys::MADV_NOHUGEPAGE);
        Ok(())
    }

    /// Asks for huge pages.
    pub fn ask_large(&self) {
        // A kernel without them is measured with small pages.
        let _ = sys::madvise(self.base, self.length(), sys::MADV_HUGEPAGE);
    }

    /// Makes all pages absent; their tables remain.
    pub fn forget(&self) -> Result<()> {
        sys::madvise(self.base, self.length(), sys::MADV_DONTNEED)
    }

    /// Unmaps the region; [`Region::refresh`] maps it again.
    pub fn unmap(&self) -> Result<()> {
        sys::munmap(self.base, self.length())
    }

    /// Sets the access rights of user programs.
    pub fn protect(&self, prot: usize) -> Result<()> {
        sys::mprotect(self.base, self.length(), prot)
    }

    /// Writes one byte in every `step` bytes.
    #[inline(always)]
    pub fn write_each(&self, step: usize) {
        for at in (self.base..self.end()).step_by(step) {
            // SAFETY: the address lies in this mapping, which nothing else uses.
            unsafe { (at as *mut u8).write_volatile(1) };
        }
    }

    /// Writes one byte in every small page.
    #[inline(always)]
    pub fn write(&self) {
        self.write_each(PAGE);
    }

    /// Reads one byte in every small page.
    #[inline(always)]
    pub fn read(&self) {
        for at in (self.base..self.end()).step_by(PAGE) {
            // SAFETY: as in `write_each`.
            unsafe { (at as *const u8).read_volatile() };
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // It does not matter if a row has unmapped the region already.
        let _ = self.unmap();
    }
}
