//! VMAs: the mappings in a program's address space.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use bitflags::bitflags;
use core::any::Any;
use core::fmt;
use core::ops::Range;

use super::fault::Access;
use super::frame::FrameRef;
use super::rmap::ReverseMap;
use super::space::AddressSpace;
use crate::errno::{Errno, Result};

/// The source of the pages of a mapped file or shared object. Called under the address space's
/// lock; methods do not sleep unless their description says so.
pub trait PageSource: Any + Send + Sync {
    /// Returns the frame of page `index`, allocating it if it is a hole. `write`: a program is
    /// about to write it through a shared mapping, and the file counts as modified from now on.
    ///
    /// # Errors
    /// ENOMEM; ENXIO beyond the end (the program gets SIGBUS); EAGAIN if it must be loaded first.
    fn page(&self, index: usize, write: bool) -> Result<FrameRef>;

    /// Waits until page `index`, for which `page` returned EAGAIN, is in memory; with `write`,
    /// until it may be written after `write_mapped` returned EAGAIN. Sleeps: called without locks.
    ///
    /// # Errors
    /// EIO, ENOMEM, ENOSPC; ENXIO beyond the end.
    fn load(&self, _index: usize, _write: bool) -> Result<()> {
        Err(Errno::ENXIO)
    }

    /// Whether it must be notified before each page is first written
    /// ([`PageSource::write_mapped`]): its shared mappings have [`Rights::NOTIFY`] instead of
    /// [`Rights::WRITE`].
    fn hears_of_writes(&self) -> bool {
        false
    }

    /// Counts page `index` as modified, and calls `allow` with its frame, which lets a program
    /// write it, while the page cannot become unmodified again.
    ///
    /// # Errors
    /// EAGAIN if the page is not in memory, or the file is not ready for the write; ENOMEM, EIO.
    fn write_mapped(&self, _index: usize, _allow: &mut dyn FnMut(&FrameRef)) -> Result<()> {
        Err(Errno::EIO)
    }

    /// Returns when the pages of a range are on the medium (msync). May sleep: called without
    /// locks.
    ///
    /// # Errors
    /// EIO, ENOSPC.
    fn sync(&self, _pages: Range<usize>) -> Result<()> {
        Ok(())
    }

    /// As `page` with `write`, for a page that is already mapped read-only.
    fn written(&self) {}

    /// Returns the existing frames from page `first` on, without allocating any: for mapping ahead.
    fn present(&self, _first: usize, _frames: &mut [Option<FrameRef>]) {}

    /// Returns the first page from `first` on that may exist.
    fn next_present(&self, first: usize) -> Option<usize> {
        Some(first)
    }

    /// Whether the calling thread may learn which of the pages are in memory, which tells what
    /// others use: only who may write them (Linux's can_do_mincore).
    fn tells_presence(&self) -> bool {
        true
    }

    /// Length in pages, including a partial last page.
    fn len_pages(&self) -> usize;

    /// Zeroes the pages of a range (MADV_REMOVE). May sleep: called without locks.
    ///
    /// # Errors
    /// EOPNOTSUPP.
    fn clear(&self, _pages: Range<usize>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The address spaces that map the file, if it can be truncated.
    fn reverse_map(&self) -> Option<&ReverseMap> {
        None
    }

    /// Whether the file may no longer be written through shared mappings (F_SEAL_WRITE,
    /// F_SEAL_FUTURE_WRITE).
    fn is_sealed(&self) -> bool {
        false
    }

    /// Whether its pages may have tags (PROT_MTE), because they are memory.
    fn may_have_tags(&self) -> bool {
        false
    }

    /// The object's unique number: the same for all mappings of this memory, through any open file,
    /// and never reused. For objects that live forever, an address suffices.
    fn object(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Device and inode number, for `/proc/PID/maps`.
    fn id(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Writes the path or name for `/proc/PID/maps`.
    fn write_name(&self, _out: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
}

bitflags! {
    /// The rights of a program to a VMA.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Rights: u8 {
        /// Read.
        const READ = 1;
        /// Write.
        const WRITE = 1 << 1;
        /// Execute.
        const EXECUTE = 1 << 2;
        /// Not a right: the memory has tags (PROT_MTE). mprotect does not remove it.
        const TAGGED = 1 << 3;
        /// Execute, with indirect branches restricted to landing pads (PROT_BTI). Never set alone.
        const GUARDED = 1 << 4;
        /// Write, after the file was notified: a write first fails as a fault, and
        /// [`AddressSpace::fault_paged`] allows it for one page.
        const NOTIFY = 1 << 5;
    }
}

impl Rights {
    /// The rights of mprotect and mmap.
    const PROT: Rights = Rights::READ.union(Rights::WRITE).union(Rights::EXECUTE);

    /// Converts PROT_READ | PROT_WRITE | PROT_EXEC, which have the same bits.
    pub const fn from_prot(prot: u32) -> Rights {
        Rights::from_bits_retain(prot as u8).intersection(Rights::PROT)
    }

    /// Whether `access` is allowed.
    pub const fn allow(self, access: Access) -> bool {
        self.bits() & access as u8 != 0
    }

    /// Whether no access is allowed, with or without tags.
    pub const fn is_none(self) -> bool {
        !self.intersects(Rights::PROT)
    }

    /// The rights as the program asked for them.
    pub const fn asked(self) -> Rights {
        match self.contains(Rights::NOTIFY) {
            true => self.difference(Rights::NOTIFY).union(Rights::WRITE),
            false => self,
        }
    }

    /// The rights of a shared mapping whose file is notified of writes. Every architecture can read
    /// what it can write.
    pub const fn notified(self) -> Rights {
        match self.contains(Rights::WRITE) {
            true => self
                .difference(Rights::WRITE)
                .union(Rights::NOTIFY)
                .union(Rights::READ),
            false => self,
        }
    }
}

/// The rights that mprotect requests.
#[derive(Clone, Copy)]
pub struct Protection {
    /// The rights for all VMAs.
    pub rights: Rights,
    /// Whether VMAs that may be executable get execute permission, too (READ_IMPLIES_EXEC).
    pub implies_execute: bool,
}

impl From<Rights> for Protection {
    fn from(rights: Rights) -> Self {
        Protection {
            rights,
            implies_execute: false,
        }
    }
}

impl Protection {
    /// The resulting rights to a VMA.
    #[inline]
    pub(super) fn of(self, vma: &Vma) -> Rights {
        let rights = self.granted(vma);
        match &vma.source {
            Source::File { mapping, .. } if vma.is_shared() && mapping.hears_of_writes() => {
                rights.notified()
            }
            _ => rights,
        }
    }

    #[inline]
    fn granted(self, vma: &Vma) -> Rights {
        if self.implies_execute && !vma.flags.contains(Flags::NEVER_EXECUTE) {
            self.rights.union(Rights::EXECUTE)
        } else {
            self.rights
        }
    }

    /// Whether a VMA may have these rights.
    #[inline]
    pub(super) fn is_allowed(self, vma: &Vma) -> bool {
        let writes = self.rights.contains(Rights::WRITE);
        let executes = self.rights.contains(Rights::EXECUTE);
        !(writes && vma.never_writes() || executes && vma.flags.contains(Flags::NEVER_EXECUTE))
    }
}

bitflags! {
    /// The flags of a VMA other than its rights.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Flags: u16 {
        /// Writes are visible in the file or to the other processes.
        const SHARED = 1;
        /// A stack: a fault just below it extends it.
        const GROWS_DOWN = 1 << 1;
        /// mlock: only counted, as nothing is ever paged out.
        const LOCKED = 1 << 2;
        /// MADV_DONTFORK.
        const DONT_FORK = 1 << 3;
        /// MADV_WIPEONFORK.
        const WIPE_ON_FORK = 1 << 4;
        /// The file was not opened for writing: PROT_WRITE is refused on a shared mapping.
        const NEVER_WRITE = 1 << 5;
        /// MADV_HUGEPAGE: huge pages are preferred.
        const HUGE = 1 << 6;
        /// MADV_NOHUGEPAGE and MAP_STACK: no huge pages.
        const NO_HUGE = 1 << 7;
        /// MADV_DONTDUMP.
        const DONT_DUMP = 1 << 8;
        /// Its pages are committed: it is, or was, private and writable.
        const ACCOUNT = 1 << 9;
        /// MAP_NORESERVE: its pages are never committed.
        const NO_RESERVE = 1 << 10;
        /// It is being unmapped in parts: it is not merged, so that unmapping the rest needs no
        /// memory.
        const GOES = 1 << 11;
        /// MLOCK_ONFAULT, MCL_ONFAULT: locked, but not faulted in.
        const LOCK_ON_FAULT = 1 << 12;
        /// A file of a mount with MS_NOEXEC: PROT_EXEC is refused.
        const NEVER_EXECUTE = 1 << 13;
        /// mseal: it keeps its address and its rights.
        const SEALED = 1 << 14;
        /// MAP_DROPPABLE: its pages may be freed under memory pressure.
        const DROPPABLE = 1 << 15;
    }
}

impl Flags {
    /// The flags that munlock clears.
    pub const UNLOCKED: Flags = Flags::LOCKED.union(Flags::LOCK_ON_FAULT);

    /// Adds [`Flags::ACCOUNT`] if pages with these rights are committed, by Linux's rules.
    pub const fn accounted(self, rights: Rights) -> Flags {
        let never = self.contains(Flags::SHARED) || self.contains(Flags::NO_RESERVE);
        self.with(
            Flags::ACCOUNT,
            self.contains(Flags::ACCOUNT) || rights.contains(Rights::WRITE) && !never,
        )
    }

    /// The flags with `other` set or cleared.
    pub const fn with(self, other: Flags, on: bool) -> Flags {
        match on {
            true => self.union(other),
            false => self.difference(other),
        }
    }
}

/// The source of a VMA's pages.
#[derive(Clone)]
pub enum Source {
    /// Zeroed memory, private to the address space.
    Anonymous,
    /// A file or shared object, from a byte offset (a multiple of the page size).
    File {
        /// The page source.
        mapping: Arc<dyn PageSource>,
        /// Offset of the VMA's start in bytes.
        offset: usize,
    },
}

impl Source {
    /// The same source, starting `bytes` later.
    fn advanced(&self, bytes: usize) -> Source {
        match self {
            Source::Anonymous => Source::Anonymous,
            Source::File { mapping, offset } => Source::File {
                mapping: mapping.clone(),
                offset: offset + bytes,
            },
        }
    }

    /// The same source, starting `bytes` earlier, if its offset is large enough.
    pub(super) fn receded(&self, bytes: usize) -> Option<Source> {
        Some(match self {
            Source::Anonymous => Source::Anonymous,
            Source::File { mapping, offset } => Source::File {
                mapping: mapping.clone(),
                offset: offset.checked_sub(bytes)?,
            },
        })
    }

    /// Whether `next`, which begins `bytes` after this, continues it.
    fn continues(&self, bytes: usize, next: &Source) -> bool {
        match (self, next) {
            (Source::Anonymous, Source::Anonymous) => true,
            (
                Source::File {
                    mapping: a,
                    offset: x,
                },
                Source::File {
                    mapping: b,
                    offset: y,
                },
            ) => Arc::ptr_eq(a, b) && x + bytes == *y,
            _ => false,
        }
    }
}

/// Name in `/proc/PID/maps` of a VMA without a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// No name.
    None,
    /// `[heap]`
    Heap,
    /// `[stack]`
    Stack,
    /// `[vdso]`
    Vdso,
    /// `[vvar]`
    Vvar,
    /// `[vectors]`: the vectors page of 32-bit Arm programs, at their highest addresses.
    Vectors,
    /// `[sigpage]`: the code to which their signal handlers return.
    Sigpage,
}

impl Label {
    /// The text in `/proc/PID/maps`.
    pub fn as_str(self) -> &'static str {
        match self {
            Label::None => "",
            Label::Heap => "[heap]",
            Label::Stack => "[stack]",
            Label::Vdso => "[vdso]",
            Label::Vvar => "[vvar]",
            Label::Vectors => "[vectors]",
            Label::Sigpage => "[sigpage]",
        }
    }
}

/// A virtual memory area: addresses with the same attributes. Bounds are multiples of the page
/// size.
#[derive(Clone)]
pub struct Vma {
    /// First address.
    pub start: usize,
    /// The end address (exclusive).
    pub end: usize,
    /// The program's rights.
    pub rights: Rights,
    /// Name if there is no file.
    pub label: Label,
    /// Other flags.
    pub flags: Flags,
    /// The source of the pages.
    pub source: Source,
}

#[cold]
fn add_to_file(mapping: &dyn PageSource, space: &Weak<AddressSpace>) -> Result<bool> {
    let reverse_map = mapping.reverse_map();
    reverse_map.map_or(Ok(false), |reverse_map| reverse_map.add(space))
}

impl Vma {
    /// The VMA's addresses.
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Whether both have the same page at an address that both contain.
    pub(super) fn agrees(&self, other: &Vma, address: usize) -> bool {
        let at = |vma: &Vma| vma.source.advanced(address - vma.start);
        at(self).continues(0, &at(other))
    }

    /// Whether writes are visible to others.
    pub fn is_shared(&self) -> bool {
        self.flags.contains(Flags::SHARED)
    }

    /// Whether its content must not be discarded: it is sealed and anonymous, and cannot be
    /// written.
    pub fn keeps_content(&self) -> bool {
        self.flags.contains(Flags::SEALED)
            && !self.rights.contains(Rights::WRITE)
            && !self.is_shared()
            && matches!(self.source, Source::Anonymous)
    }

    /// Whether its memory may have tags, by Linux's rules.
    pub fn may_have_tags(&self) -> bool {
        match &self.source {
            Source::File { mapping, .. } => mapping.may_have_tags(),
            Source::Anonymous => true,
        }
    }

    /// Whether PROT_WRITE is refused.
    pub fn never_writes(&self) -> bool {
        self.flags.contains(Flags::SHARED.union(Flags::NEVER_WRITE))
    }

    /// Whether a child gets copies of its private pages.
    pub(super) fn is_copied(&self) -> bool {
        let kept =
            self.flags.contains(Flags::DONT_FORK) || self.flags.contains(Flags::WIPE_ON_FORK);
        !kept && !self.is_shared()
    }

    /// Whether a child inherits it.
    pub(super) fn is_inherited(&self) -> bool {
        !self.flags.contains(Flags::DONT_FORK)
    }

    /// The VMA that a child inherits.
    #[inline]
    pub(super) fn inherited(&self) -> Vma {
        Vma {
            flags: self.flags.with(Flags::UNLOCKED.union(Flags::GOES), false),
            ..self.clone()
        }
    }

    /// Registers `space` in the file's reverse map, if there is one. Returns whether the file is
    /// losing pages ([`ReverseMap::add`]).
    #[inline]
    pub(super) fn add_to_file(&self, space: &Weak<AddressSpace>) -> Result<bool> {
        match &self.source {
            Source::File { mapping, .. } => add_to_file(&**mapping, space),
            Source::Anonymous => Ok(false),
        }
    }

    /// Whether it may write to a file that was sealed against writing after its rights were
    /// checked.
    pub(super) fn is_too_late(&self) -> bool {
        match &self.source {
            Source::File { mapping, .. } => {
                self.is_shared() && !self.flags.contains(Flags::NEVER_WRITE) && mapping.is_sealed()
            }
            Source::Anonymous => false,
        }
    }

    /// The reverse map of its file, if there is one.
    pub(super) fn reverse_map(&self) -> Option<&ReverseMap> {
        match &self.source {
            Source::File { mapping, .. } => mapping.reverse_map(),
            Source::Anonymous => None,
        }
    }

    /// The part of the VMA inside `range`, which must overlap it.
    pub fn part(&self, range: Range<usize>) -> Vma {
        let start = self.start.max(range.start);
        let source = self.source.advanced(start - self.start);
        Vma {
            start,
            end: self.end.min(range.end),
            source,
            ..*self
        }
    }

    /// Removes the part below `start`, which must lie in the VMA.
    pub(super) fn begin_at(&mut self, start: usize) {
        if let Source::File { offset, .. } = &mut self.source {
            *offset += start - self.start;
        }
        self.start = start;
    }

    /// Number of committed bytes in `range`.
    pub(super) fn accounted(&self, range: &Range<usize>) -> usize {
        match self.flags.contains(Flags::ACCOUNT) {
            true => self.end.min(range.end) - self.start.max(range.start),
            false => 0,
        }
    }

    /// Whether its pages must be committed when it becomes writable, and are not yet.
    pub(super) fn needs_account(&self) -> bool {
        let written = self.flags.accounted(Rights::WRITE);
        !self.flags.contains(Flags::ACCOUNT) && written.contains(Flags::ACCOUNT)
    }

    /// Whether `next` begins at its end, and can be merged with it.
    pub(super) fn joins(&self, next: &Vma) -> bool {
        self.end == next.start
            && self.rights == next.rights
            && self.flags == next.flags
            && !self.flags.contains(Flags::GOES)
            && self.label == next.label
            && self.source.continues(self.end - self.start, &next.source)
    }
}
