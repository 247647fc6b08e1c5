//! VMAs: the mappings in a program's address space.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::fmt;
use core::ops::Range;

use super::fault::Access;
use super::frame::FrameRef;
use super::rmap::ReverseMap;
use super::space::AddressSpace;
use crate::errno::{Errno, Result};

/// The source of the pages of a mapped file or shared object. Called under the address space's
/// lock, and does not sleep except where it says so.
pub trait PageSource: Any + Send + Sync {
    /// Returns the frame of page `index`, allocating it if it is a hole. `write`: a program is
    /// about to write it through a shared mapping, and the file counts as modified from now on.
    ///
    /// # Errors
    /// ENOMEM; ENXIO beyond the end (the program gets SIGBUS); EAGAIN if it must be loaded first.
    fn page(&self, index: usize, write: bool) -> Result<FrameRef>;

    /// Waits until page `index` is there, for which `page` returned EAGAIN; with `write` until it
    /// may be written, for which `write_mapped` did. Sleeps: called without locks.
    ///
    /// # Errors
    /// EIO, ENOMEM, ENOSPC; ENXIO beyond the end.
    fn load(&self, _index: usize, _write: bool) -> Result<()> {
        Err(Errno::ENXIO)
    }

    /// Whether it must hear of the first write to each page ([`PageSource::write_mapped`]): its
    /// shared mappings have [`Rights::NOTIFY`] in place of [`Rights::WRITE`].
    fn hears_of_writes(&self) -> bool {
        false
    }

    /// Counts page `index` as modified, and calls `allow` with its frame while it cannot become
    /// unmodified again: `allow` lets a program write it.
    ///
    /// # Errors
    /// EAGAIN if it is not there, or the file is not ready for that; ENOMEM, EIO.
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

/// The rights of a program to a VMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights(u8);

impl Rights {
    /// No access.
    pub const NONE: Rights = Rights(0);
    /// Read.
    pub const READ: Rights = Rights(1);
    /// Write.
    pub const WRITE: Rights = Rights(2);
    /// Execute.
    pub const EXECUTE: Rights = Rights(4);
    /// Execute, with indirect branches restricted to landing pads (PROT_BTI). Never set alone.
    pub const GUARDED: Rights = Rights(16);
    /// Write, where the file hears of it first: a write fails in the usual way of a fault, and
    /// [`AddressSpace::fault_paged`] allows it for one page.
    pub const NOTIFY: Rights = Rights(32);
    /// Not a right: the memory has tags (PROT_MTE). mprotect does not remove it.
    pub const TAGGED: Rights = Rights(8);

    /// Converts PROT_READ | PROT_WRITE | PROT_EXEC, which have the same bits.
    pub const fn from_prot(prot: u32) -> Rights {
        Rights(prot as u8 & 7)
    }

    /// Whether all of `other` is allowed.
    pub const fn has(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether `access` is allowed.
    pub const fn allow(self, access: Access) -> bool {
        self.0 & access as u8 != 0
    }

    /// Whether no access is allowed, with or without tags.
    pub const fn is_none(self) -> bool {
        self.0 & 7 == 0
    }

    /// The rights as the program asked for them.
    pub const fn asked(self) -> Rights {
        match self.has(Rights::NOTIFY) {
            true => Rights(self.0 & !Rights::NOTIFY.0 | Rights::WRITE.0),
            false => self,
        }
    }

    /// The rights of a shared mapping whose file hears of writes. Every architecture can read what
    /// it can write.
    pub const fn notified(self) -> Rights {
        match self.has(Rights::WRITE) {
            true => Rights(self.0 & !Rights::WRITE.0 | Rights::NOTIFY.0 | Rights::READ.0),
            false => self,
        }
    }

    /// The intersection.
    pub const fn and(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }

    /// The union.
    pub const fn with(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
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
        if self.implies_execute && !vma.flags.has(Flags::NEVER_EXECUTE) {
            self.rights.with(Rights::EXECUTE)
        } else {
            self.rights
        }
    }

    /// Whether a VMA may have these rights.
    #[inline]
    pub(super) fn is_allowed(self, vma: &Vma) -> bool {
        let writes = self.rights.has(Rights::WRITE);
        let executes = self.rights.has(Rights::EXECUTE);
        !(writes && vma.never_writes() || executes && vma.flags.has(Flags::NEVER_EXECUTE))
    }
}

/// The flags of a VMA other than its rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u16);

impl Flags {
    /// Writes are visible in the file or to the other processes.
    pub const SHARED: Flags = Flags(1);
    /// A stack: a fault just below it extends it.
    pub const GROWS_DOWN: Flags = Flags(2);
    /// mlock: only counted, as nothing is ever paged out.
    pub const LOCKED: Flags = Flags(4);
    /// MADV_DONTFORK.
    pub const DONT_FORK: Flags = Flags(8);
    /// MADV_WIPEONFORK.
    pub const WIPE_ON_FORK: Flags = Flags(16);
    /// The file was not opened for writing: PROT_WRITE is refused on a shared mapping.
    pub const NEVER_WRITE: Flags = Flags(32);
    /// MADV_HUGEPAGE: huge pages are preferred.
    pub const HUGE: Flags = Flags(64);
    /// MADV_NOHUGEPAGE and MAP_STACK: no huge pages.
    pub const NO_HUGE: Flags = Flags(128);
    /// MADV_DONTDUMP.
    pub const DONT_DUMP: Flags = Flags(256);
    /// Its pages are committed: it is, or was, private and writable.
    pub const ACCOUNT: Flags = Flags(512);
    /// MAP_NORESERVE: its pages are never committed.
    pub const NO_RESERVE: Flags = Flags(1024);

    /// It is being unmapped in parts: it is not merged, so that unmapping the rest needs no memory.
    pub const GOES: Flags = Flags(2048);

    /// MLOCK_ONFAULT, MCL_ONFAULT: locked, but not faulted in.
    pub const LOCK_ON_FAULT: Flags = Flags(4096);
    /// The flags that munlock clears.
    pub const UNLOCKED: Flags = Flags::LOCKED.with(Flags::LOCK_ON_FAULT);
    /// A file of a mount with MS_NOEXEC: PROT_EXEC is refused.
    pub const NEVER_EXECUTE: Flags = Flags(8192);
    /// mseal: it keeps its address and its rights.
    pub const SEALED: Flags = Flags(16384);
    /// MAP_DROPPABLE: its pages may be freed under memory pressure.
    pub const DROPPABLE: Flags = Flags(32768);

    /// Adds [`Flags::ACCOUNT`] if pages with these rights are committed, by Linux's rules.
    pub const fn accounted(self, rights: Rights) -> Flags {
        let never = self.has(Flags::SHARED) || self.has(Flags::NO_RESERVE);
        self.set(
            Flags::ACCOUNT,
            self.has(Flags::ACCOUNT) || rights.has(Rights::WRITE) && !never,
        )
    }

    /// The bits for [`Flags::from_bits`].
    pub(super) const fn bits(self) -> u16 {
        self.0
    }

    pub(super) const fn from_bits(bits: u16) -> Flags {
        Flags(bits)
    }

    /// Whether all of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Sets or clears `other`.
    pub const fn set(self, other: Flags, on: bool) -> Flags {
        Flags(if on {
            self.0 | other.0
        } else {
            self.0 & !other.0
        })
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
    /// The same source `bytes` further on.
    fn advanced(&self, bytes: usize) -> Source {
        match self {
            Source::Anonymous => Source::Anonymous,
            Source::File { mapping, offset } => Source::File {
                mapping: mapping.clone(),
                offset: offset + bytes,
            },
        }
    }

    /// The same source `bytes` further back, if its offset is large enough.
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

    /// Whether writes are visible to others.
    pub fn is_shared(&self) -> bool {
        self.flags.has(Flags::SHARED)
    }

    /// Whether its content must not be discarded: it is sealed and anonymous, and cannot be
    /// written.
    pub fn keeps_content(&self) -> bool {
        self.flags.has(Flags::SEALED)
            && !self.rights.has(Rights::WRITE)
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
        self.flags.has(Flags::SHARED.with(Flags::NEVER_WRITE))
    }

    /// Whether a child gets copies of its private pages.
    pub(super) fn is_copied(&self) -> bool {
        let kept = self.flags.has(Flags::DONT_FORK) || self.flags.has(Flags::WIPE_ON_FORK);
        !kept && !self.is_shared()
    }

    /// Whether a child inherits it.
    pub(super) fn is_inherited(&self) -> bool {
        !self.flags.has(Flags::DONT_FORK)
    }

    /// The VMA that a child inherits.
    #[inline]
    pub(super) fn inherited(&self) -> Vma {
        Vma {
            flags: self.flags.set(Flags::UNLOCKED.with(Flags::GOES), false),
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

    /// Whether it may write a file that was sealed against writing after the check of its rights.
    pub(super) fn is_too_late(&self) -> bool {
        match &self.source {
            Source::File { mapping, .. } => {
                self.is_shared() && !self.flags.has(Flags::NEVER_WRITE) && mapping.is_sealed()
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
        match self.flags.has(Flags::ACCOUNT) {
            true => self.end.min(range.end) - self.start.max(range.start),
            false => 0,
        }
    }

    /// Whether its pages must be committed when it becomes writable, and are not yet.
    pub(super) fn needs_account(&self) -> bool {
        let written = self.flags.accounted(Rights::WRITE);
        !self.flags.has(Flags::ACCOUNT) && written.has(Flags::ACCOUNT)
    }

    /// Whether `next` begins at its end, and can be merged with it.
    pub(super) fn joins(&self, next: &Vma) -> bool {
        self.end == next.start
            && self.rights == next.rights
            && self.flags == next.flags
            && !self.flags.has(Flags::GOES)
            && self.label == next.label
            && self.source.continues(self.end - self.start, &next.source)
    }
}
