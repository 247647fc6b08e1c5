//! VMAs: what each range of a program's addresses is promised to hold.

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

/// Where the pages of a mapped file or shared object come from: memory-backed, never sleeps. Called
/// under the address space's lock.
pub trait PageSource: Any + Send + Sync {
    /// The frame of page `index`, made if it is a hole. `write`: a program is about to write it
    /// where others see that, and the file changes from now on.
    ///
    /// # Errors
    /// ENOMEM; ENXIO beyond the end (the program gets SIGBUS).
    fn page(&self, index: usize, write: bool) -> Result<FrameRef>;

    /// The same of a page that a program has had for reading.
    fn written(&self) {}

    /// Hands out the frames that are there already from page `first` on, without making any: for
    /// mapping ahead.
    fn present(&self, _first: usize, _frames: &mut [Option<FrameRef>]) {}

    /// The first page from `first` on that may be there already.
    fn next_present(&self, first: usize) -> Option<usize> {
        Some(first)
    }

    /// Length in pages, the last part of a page included.
    fn len_pages(&self) -> usize;

    /// Makes the pages of a range zeroes again (MADV_REMOVE). May sleep, under no lock.
    ///
    /// # Errors
    /// EOPNOTSUPP.
    fn clear(&self, _pages: Range<usize>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The spaces that map the file, if its pages can be lost.
    fn reverse_map(&self) -> Option<&ReverseMap> {
        None
    }

    /// Whether no shared mapping may write it from now on (F_SEAL_WRITE, F_SEAL_FUTURE_WRITE).
    fn is_sealed(&self) -> bool {
        false
    }

    /// Whether its pages may have tags (PROT_MTE): it is memory, whatever maps it.
    fn may_have_tags(&self) -> bool {
        false
    }

    /// A number that all who map the same memory share, by whatever open file, and nobody else
    /// ever. An address will do for what lives for ever.
    fn object(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Device and inode number, for `/proc/PID/maps`.
    fn id(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Writes the path or name that `/proc/PID/maps` shows.
    fn write_name(&self, _out: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
}

/// What a program may do with a VMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights(u8);

impl Rights {
    /// Nothing.
    pub const NONE: Rights = Rights(0);
    /// Read.
    pub const READ: Rights = Rights(1);
    /// Write.
    pub const WRITE: Rights = Rights(2);
    /// Execute.
    pub const EXECUTE: Rights = Rights(4);
    /// Execute, but enter by indirect branches at landing pads alone (PROT_BTI). Never by itself.
    pub const GUARDED: Rights = Rights(16);
    /// Not a right: memory has tags (PROT_MTE). mprotect does not take it back.
    pub const TAGGED: Rights = Rights(8);

    /// From PROT_READ | PROT_WRITE | PROT_EXEC, which have the same bits.
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

    /// Whether nothing is allowed, whether or not memory has tags.
    pub const fn is_none(self) -> bool {
        self.0 & 7 == 0
    }

    /// Those of them that `other` has too.
    pub const fn and(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }

    /// Both together.
    pub const fn with(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// What mprotect asks for.
#[derive(Clone, Copy)]
pub struct Protection {
    /// For all VMAs.
    pub rights: Rights,
    /// Also to execute those that may be executed (READ_IMPLIES_EXEC).
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
    /// The rights to a VMA.
    #[inline]
    pub(super) fn of(self, vma: &Vma) -> Rights {
        if self.implies_execute && !vma.flags.has(Flags::NEVER_EXECUTE) {
            self.rights.with(Rights::EXECUTE)
        } else {
            self.rights
        }
    }

    /// Whether a VMA can have them.
    #[inline]
    pub(super) fn is_allowed(self, vma: &Vma) -> bool {
        let writes = self.rights.has(Rights::WRITE);
        let executes = self.rights.has(Rights::EXECUTE);
        !(writes && vma.never_writes() || executes && vma.flags.has(Flags::NEVER_EXECUTE))
    }
}

/// How a VMA behaves, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u16);

impl Flags {
    /// Writes reach the file or the other processes.
    pub const SHARED: Flags = Flags(1);
    /// A stack: a fault just below extends it.
    pub const GROWS_DOWN: Flags = Flags(2);
    /// mlock: counted, as nothing is ever paged out.
    pub const LOCKED: Flags = Flags(4);
    /// MADV_DONTFORK.
    pub const DONT_FORK: Flags = Flags(8);
    /// MADV_WIPEONFORK.
    pub const WIPE_ON_FORK: Flags = Flags(16);
    /// The file was not opened for writing: PROT_WRITE is refused on a shared mapping.
    pub const NEVER_WRITE: Flags = Flags(32);
    /// MADV_HUGEPAGE: huge pages are welcome.
    pub const HUGE: Flags = Flags(64);
    /// MADV_NOHUGEPAGE, and what is mapped as a stack: pages only.
    pub const NO_HUGE: Flags = Flags(128);
    /// MADV_DONTDUMP.
    pub const DONT_DUMP: Flags = Flags(256);
    /// Its pages count as promised: it is, or was, private and writable.
    pub const ACCOUNT: Flags = Flags(512);
    /// MAP_NORESERVE: they never do.
    pub const NO_RESERVE: Flags = Flags(1024);

    /// It is being unmapped part by part: it joins no other, so that the rest needs no memory.
    pub const GOES: Flags = Flags(2048);

    /// MLOCK_ONFAULT, MCL_ONFAULT: locked, but not made present.
    pub const LOCK_ON_FAULT: Flags = Flags(4096);
    /// The flags that munlock clears.
    pub const UNLOCKED: Flags = Flags::LOCKED.with(Flags::LOCK_ON_FAULT);
    /// A file of a mount with MS_NOEXEC: PROT_EXEC is refused.
    pub const NEVER_EXECUTE: Flags = Flags(8192);
    /// mseal: it stays where it is, with the rights that it has.
    pub const SEALED: Flags = Flags(16384);
    /// MAP_DROPPABLE: its pages may be lost where memory is short.
    pub const DROPPABLE: Flags = Flags(32768);

    /// With [`Flags::ACCOUNT`] where pages that have these rights are promised, as Linux sees it.
    pub const fn accounted(self, rights: Rights) -> Flags {
        let never = self.has(Flags::SHARED) || self.has(Flags::NO_RESERVE);
        self.set(
            Flags::ACCOUNT,
            self.has(Flags::ACCOUNT) || rights.has(Rights::WRITE) && !never,
        )
    }

    /// As [`Flags::from_bits`] takes them.
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

    /// Both together.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// With `other` set or cleared.
    pub const fn set(self, other: Flags, on: bool) -> Flags {
        Flags(if on {
            self.0 | other.0
        } else {
            self.0 & !other.0
        })
    }
}

/// Where a VMA's pages come from.
#[derive(Clone)]
pub enum Source {
    /// Zeroes at first, private to the address space.
    Anonymous,
    /// A file or shared object, from a byte offset on (a multiple of the page size).
    File {
        /// The pages.
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

    /// The same source `bytes` further back, if there is so much.
    pub(super) fn receded(&self, bytes: usize) -> Option<Source> {
        Some(match self {
            Source::Anonymous => Source::Anonymous,
            Source::File { mapping, offset } => Source::File {
                mapping: mapping.clone(),
                offset: offset.checked_sub(bytes)?,
            },
        })
    }

    /// Whether `next`, which begins `bytes` after this, is its continuation.
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

/// Name of a VMA without a file in `/proc/PID/maps`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// None.
    None,
    /// `[heap]`
    Heap,
    /// `[stack]`
    Stack,
    /// `[vdso]`
    Vdso,
    /// `[vvar]`
    Vvar,
    /// `[vectors]`: what 32-bit Arm programs find at their end.
    Vectors,
    /// `[sigpage]`: where their signal handlers return to.
    Sigpage,
}

impl Label {
    /// As `/proc/PID/maps` shows it.
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

/// A range of addresses with one promise. Bounds are multiples of the page size.
#[derive(Clone)]
pub struct Vma {
    /// First address.
    pub start: usize,
    /// Address after the last.
    pub end: usize,
    /// What the program may do.
    pub rights: Rights,
    /// Name without a file.
    pub label: Label,
    /// Behaviour.
    pub flags: Flags,
    /// Where the pages come from.
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

    /// Whether writes reach others.
    pub fn is_shared(&self) -> bool {
        self.flags.has(Flags::SHARED)
    }

    /// Whether what it holds may not be lost: sealed, and of no file, it cannot be written.
    pub fn keeps_content(&self) -> bool {
        self.flags.has(Flags::SEALED)
            && !self.rights.has(Rights::WRITE)
            && !self.is_shared()
            && matches!(self.source, Source::Anonymous)
    }

    /// Whether its memory may have tags, as Linux sees it.
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

    /// Whether a child gets the private pages of it.
    pub(super) fn is_copied(&self) -> bool {
        let kept = self.flags.has(Flags::DONT_FORK) || self.flags.has(Flags::WIPE_ON_FORK);
        !kept && !self.is_shared()
    }

    /// Whether a child has it.
    pub(super) fn is_inherited(&self) -> bool {
        !self.flags.has(Flags::DONT_FORK)
    }

    /// As a child has it.
    #[inline]
    pub(super) fn inherited(&self) -> Vma {
        Vma {
            flags: self.flags.set(Flags::UNLOCKED.with(Flags::GOES), false),
            ..self.clone()
        }
    }

    /// Says to the file below, if there is one that asks, that `space` maps it. Returns whether it
    /// is losing pages ([`ReverseMap::add`]).
    #[inline]
    pub(super) fn add_to_file(&self, space: &Weak<AddressSpace>) -> Result<bool> {
        match &self.source {
            Source::File { mapping, .. } => add_to_file(&**mapping, space),
            Source::Anonymous => Ok(false),
        }
    }

    /// Whether it may write a file that was sealed against that since its rights were checked.
    pub(super) fn is_too_late(&self) -> bool {
        match &self.source {
            Source::File { mapping, .. } => {
                self.is_shared() && !self.flags.has(Flags::NEVER_WRITE) && mapping.is_sealed()
            }
            Source::Anonymous => false,
        }
    }

    /// The reverse map of the file below, if it has one.
    pub(super) fn reverse_map(&self) -> Option<&ReverseMap> {
        match &self.source {
            Source::File { mapping, .. } => mapping.reverse_map(),
            Source::Anonymous => None,
        }
    }

    /// The part of the VMA inside `range`, which it must touch.
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

    /// Takes away what is below `start`, which must lie in it.
    pub(super) fn begin_at(&mut self, start: usize) {
        if let Source::File { offset, .. } = &mut self.source {
            *offset += start - self.start;
        }
        self.start = start;
    }

    /// Bytes of `range` that count as promised.
    pub(super) fn accounted(&self, range: &Range<usize>) -> usize {
        match self.flags.has(Flags::ACCOUNT) {
            true => self.end.min(range.end) - self.start.max(range.start),
            false => 0,
        }
    }

    /// Whether its pages will be promised when they may be written, and are not yet.
    pub(super) fn needs_account(&self) -> bool {
        let written = self.flags.accounted(Rights::WRITE);
        !self.flags.has(Flags::ACCOUNT) && written.has(Flags::ACCOUNT)
    }

    /// Whether `next` begins where it ends, and is of the same kind.
    pub(super) fn joins(&self, next: &Vma) -> bool {
        self.end == next.start
            && self.rights == next.rights
            && self.flags == next.flags
            && !self.flags.has(Flags::GOES)
            && self.label == next.label
            && self.source.continues(self.end - self.start, &next.source)
    }
}
