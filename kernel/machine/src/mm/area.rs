//! Areas: what each range of a program's addresses is promised to hold.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::iter::Rev;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::{fmt, slice};

use super::commit::Commitment;
use super::fault::Access;
use super::frame::FrameRef;
use super::reverse::Mappers;
use super::space::{AddressSpace, USER_START};
use super::{PAGE_SIZE, page_down};
use crate::errno::{Errno, Result};

/// Where the pages of a mapped file or shared object come from: memory-backed, never sleeps. Called under the address
/// space's lock.
pub trait PageSource: Send + Sync {
    /// The frame of page `index`, made if it is a hole. `write`: a program is about to write it where others see that, and the
    /// file changes from now on.
    ///
    /// # Errors
    /// ENOMEM; ENXIO beyond the end (the program gets SIGBUS).
    fn page(&self, index: usize, write: bool) -> Result<FrameRef>;

    /// The same of a page that a program has had for reading.
    fn written(&self) {}

    /// Hands out the frames that are there already from page `first` on, without making any: for mapping ahead.
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

    /// Who maps the file, if its pages can be lost.
    fn mappers(&self) -> Option<&Mappers> {
        None
    }

    /// A number that all who map the same memory share, by whatever open file, and nobody else ever. An address will do for what lives for
    /// ever.
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

/// What a program may do with an area.
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

    /// Whether nothing is allowed.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Both together.
    pub const fn with(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

/// How an area behaves, as bits.
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
    /// MADV_HUGEPAGE: blocks are welcome.
    pub const HUGE: Flags = Flags(64);
    /// MADV_NOHUGEPAGE, and what is mapped as a stack: pages only.
    pub const NO_HUGE: Flags = Flags(128);
    /// MADV_DONTDUMP.
    pub const DONT_DUMP: Flags = Flags(256);
    /// Its pages count as promised: it is, or was, private and writable.
    pub const ACCOUNT: Flags = Flags(512);
    /// MAP_NORESERVE: they never do.
    pub const NO_RESERVE: Flags = Flags(1024);

    /// With [`Flags::ACCOUNT`] where pages that have these rights are promised, as Linux sees it.
    pub const fn accounted(self, rights: Rights) -> Flags {
        let never = self.has(Flags::SHARED) || self.has(Flags::NO_RESERVE);
        self.set(
            Flags::ACCOUNT,
            self.has(Flags::ACCOUNT) || rights.has(Rights::WRITE) && !never,
        )
    }

    /// Whether all of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
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

/// Where an area's pages come from.
#[derive(Clone)]
pub enum Source {
    /// Zeroes at first, private to the address space.
    Anonymous,
    /// A file or shared object, from a byte offset on (a multiple of the page size).
    File {
        /// The pages.
        mapping: Arc<dyn PageSource>,
        /// Offset of the area's start in bytes.
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
    fn receded(&self, bytes: usize) -> Option<Source> {
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

/// Name of an area without a file in `/proc/PID/maps`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "the last two are of 32-bit Arm programs")]
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
pub struct Area {
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

impl Area {
    /// The area's addresses.
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Whether writes reach others.
    pub fn is_shared(&self) -> bool {
        self.flags.has(Flags::SHARED)
    }

    /// Says to the file below, if there is one that asks, that `space` maps it.
    pub(super) fn announce(&self, space: &Weak<AddressSpace>) -> Result<()> {
        match &self.source {
            Source::File { mapping, .. } => mapping
                .mappers()
                .map_or(Ok(()), |mappers| mappers.add(space)),
            Source::Anonymous => Ok(()),
        }
    }

    /// The part of the area inside `range`, which it must touch.
    pub fn part(&self, range: Range<usize>) -> Area {
        let start = self.start.max(range.start);
        let source = self.source.advanced(start - self.start);
        Area {
            start,
            end: self.end.min(range.end),
            source,
            ..*self
        }
    }

    /// Down to where other areas may lie below it.
    fn floor(&self) -> usize {
        if self.flags.has(Flags::GROWS_DOWN) {
            self.start.saturating_sub(STACK_GAP)
        } else {
            self.start
        }
    }

    /// Bytes of `range` that count as promised.
    fn accounted(&self, range: &Range<usize>) -> usize {
        match self.flags.has(Flags::ACCOUNT) {
            true => self.end.min(range.end) - self.start.max(range.start),
            false => 0,
        }
    }

    fn joins(&self, next: &Area) -> bool {
        self.end == next.start
            && self.rights == next.rights
            && self.flags == next.flags
            && self.label == next.label
            && self.source.continues(self.end - self.start, &next.source)
    }
}

/// Pages that stay free below a stack.
const STACK_GAP: usize = 256 * PAGE_SIZE;

/// How many areas a program may map (/proc/sys/vm/max_map_count).
pub static MOST_AREAS: AtomicUsize = AtomicUsize::new(65530);

/// The areas of an address space, disjoint, the highest first: most new ones come below the others, where little has to move.
pub struct Areas {
    list: Vec<Area>,
    bytes: usize,
    /// Bytes that count as promised.
    accounted: usize,
    commitment: Commitment,
    searched: Searched,
    /// Where in the list there was a change or room for one: probably there is the next.
    near: usize,
}

/// What a search for room has found: between `from` and `top` no gap has `len` bytes or more.
struct Searched {
    from: usize,
    top: usize,
    len: usize,
}

impl Areas {
    /// None.
    pub const fn new() -> Self {
        Areas {
            list: Vec::new(),
            bytes: 0,
            accounted: 0,
            commitment: Commitment::new(),
            near: 0,
            searched: Searched {
                from: usize::MAX,
                top: 0,
                len: 0,
            },
        }
    }

    /// All, in order.
    pub fn iter(&self) -> Rev<slice::Iter<'_, Area>> {
        self.list.iter().rev()
    }

    /// Whether there are as many as a program may map, or more.
    #[inline]
    pub fn is_full(&self) -> bool {
        !self.has_room(1)
    }

    /// Whether a program may map `count` more.
    #[inline]
    pub fn has_room(&self, count: usize) -> bool {
        self.list.len() + count <= MOST_AREAS.load(Relaxed)
    }

    /// Refuses to cut the areas at the bounds of `range` that `changes` says are about to change, where that would be more areas
    /// than a program may map.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn check_cuts(&self, range: &Range<usize>, changes: impl Fn(&Area) -> bool) -> Result<()> {
        // A range has two bounds: mostly there is room for both cuts, wherever they are.
        if self.has_room(2) {
            Ok(())
        } else {
            self.count_cuts(range, changes)
        }
    }

    #[cold]
    #[inline(never)]
    fn count_cuts(&self, range: &Range<usize>, changes: impl Fn(&Area) -> bool) -> Result<()> {
        let cuts = |at| {
            let area = self.find(at);
            area.is_some_and(|area| area.start < at && changes(area))
        };
        let more = usize::from(cuts(range.start)) + usize::from(cuts(range.end));
        if more == 0 || self.has_room(more) {
            Ok(())
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// Bytes in all areas.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Has `bytes` more promised, which the caller maps before it lets go of the lock, else [`Areas::settle`] gives them back.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline]
    pub fn commit(&mut self, bytes: usize) -> Result<()> {
        let (pages, mapped) = ((self.accounted + bytes) / PAGE_SIZE, self.bytes / PAGE_SIZE);
        self.commitment.raise(pages, bytes / PAGE_SIZE, mapped)
    }

    /// Has promised what the areas in `range` need more when they may be written.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn commit_writable(&mut self, range: &Range<usize>) -> Result<()> {
        let all = |area: &Area| area.end.min(range.end) - area.start.max(range.start);
        let needs = |area: &&Area| {
            let flags = area.flags;
            !flags.has(Flags::ACCOUNT) && flags.accounted(Rights::WRITE).has(Flags::ACCOUNT)
        };
        let more = self.touching(range.clone()).filter(needs).map(all).sum();
        if more > 0 { self.commit(more) } else { Ok(()) }
    }

    /// What is promised is what the areas need.
    #[inline]
    pub fn settle(&mut self) {
        self.commitment.set(self.accounted / PAGE_SIZE);
    }

    /// Bytes in `range` that count as promised.
    pub fn accounted(&self, range: Range<usize>) -> usize {
        let touching = self.touching(range.clone());
        touching.map(|area| area.accounted(&range)).sum()
    }

    /// The area that holds `address`.
    pub fn find(&self, address: usize) -> Option<&Area> {
        self.first_after(address)
            .filter(|area| area.start <= address)
    }

    /// The area that holds `address`, tried first at the place that `hint` keeps.
    #[inline]
    pub fn find_near(&self, address: usize, hint: &AtomicUsize) -> Option<&Area> {
        let near = self.list.get(hint.load(Relaxed));
        if let Some(area) = near.filter(|area| area.start <= address && address < area.end) {
            return Some(area);
        }
        let at = self.index_after(address);
        hint.store(at, Relaxed);
        self.list.get(at).filter(|area| area.start <= address)
    }

    /// How many areas there are for which `is_above` holds, which are the first ones: up to `near`, with that, or searched for.
    #[inline(always)]
    fn count(&self, is_above: impl Fn(&Area) -> bool) -> usize {
        let above = |at: usize| self.list.get(at).map(&is_above);
        let near = self.near;
        match above(near) {
            Some(true) if above(near + 1) != Some(true) => near + 1,
            Some(false) if above(near.wrapping_sub(1)) != Some(false) => near,
            _ => self.list.partition_point(is_above),
        }
    }

    /// How many areas begin at or above `address`: the index of the highest below it.
    fn index_below(&self, address: usize) -> usize {
        self.count(|area| area.start >= address)
    }

    /// How many areas end above `address`.
    fn count_after(&self, address: usize) -> usize {
        self.count(|area| area.end > address)
    }

    /// Index of the first area that ends above `address`; no index if there is none.
    fn index_after(&self, address: usize) -> usize {
        self.count_after(address).wrapping_sub(1)
    }

    /// The first area that ends above `address`.
    pub fn first_after(&self, address: usize) -> Option<&Area> {
        self.list.get(self.index_after(address))
    }

    /// The areas that touch `range`, in order.
    pub fn touching(&self, range: Range<usize>) -> impl Iterator<Item = &Area> {
        self.list[..self.count_after(range.start)]
            .iter()
            .rev()
            .take_while(move |area| area.start < range.end)
    }

    /// Whether areas cover all of `range`.
    pub fn covers(&self, range: Range<usize>) -> bool {
        self.covered(range.clone()) >= range.end
    }

    /// Where the part of a range that is mapped without a hole from its start on ends.
    pub fn covered(&self, range: Range<usize>) -> usize {
        let mut at = range.start;
        for area in self.touching(range.clone()) {
            if area.start > at {
                break;
            }
            at = area.end;
        }
        at.min(range.end)
    }

    /// The areas that a child inherits.
    pub fn for_child(&self) -> Result<Areas> {
        let mut child = Areas::new();
        child.reserve(self.list.len())?;
        child.list.extend(
            self.list
                .iter()
                .filter(|area| !area.flags.has(Flags::DONT_FORK))
                .map(|area| Area {
                    flags: area.flags.set(Flags::LOCKED, false),
                    ..area.clone()
                }),
        );
        let mut largest = 0;
        for area in &child.list {
            let accounted = area.accounted(&area.range());
            child.bytes += area.end - area.start;
            child.accounted += accounted;
            largest = largest.max(accounted);
        }
        let (pages, mapped) = (child.accounted / PAGE_SIZE, self.bytes / PAGE_SIZE);
        child.commitment.raise(pages, largest / PAGE_SIZE, mapped)?;
        Ok(child)
    }

    /// Makes sure that `count` more areas fit.
    pub fn reserve(&mut self, count: usize) -> Result<()> {
        self.list.try_reserve(count).map_err(|_| Errno::ENOMEM)
    }

    /// Adds an area where none is, joined with its neighbours if they are of the same kind. Room must be reserved.
    pub fn insert(&mut self, area: Area) {
        self.bytes += area.end - area.start;
        self.accounted += area.accounted(&area.range());
        let at = self.count_after(area.start);
        self.near = at;
        let before = self.list.get(at);
        debug_assert!(before.is_none_or(|before| before.end <= area.start));
        let before = before.is_some_and(|before| before.joins(&area));
        let after = at.checked_sub(1);
        match (before, after.filter(|&i| area.joins(&self.list[i]))) {
            (true, Some(i)) => self.join(i),
            (true, None) => self.list[at].end = area.end,
            (false, Some(i)) => {
                let next = &mut self.list[i];
                next.start = area.start;
                next.source = area.source;
            }
            (false, None) => self.list.insert(at, area),
        }
    }

    /// Makes the area at an index, which goes, a part of the one before it in memory.
    fn join(&mut self, at: usize) {
        let end = self.list.remove(at).end;
        self.list[at].end = end;
    }

    /// Cuts the area that holds `address` in two there. Room must be reserved.
    fn split(&mut self, address: usize) {
        let at = self.index_after(address);
        if let Some(area) = self.list.get_mut(at).filter(|area| area.start < address) {
            let upper = area.part(address..area.end);
            area.end = address;
            self.list.insert(at, upper);
        }
    }

    /// Takes `range` out of all areas; returns from where to where nothing is then. Room for two must be reserved.
    pub fn remove(&mut self, range: Range<usize>) -> Range<usize> {
        let first = self.index_after(range.start);
        if let Some(area) = self.list.get_mut(first)
            && area.start <= range.start
            && range.end <= area.end
        {
            // Inside one area; at its edge nothing has to move.
            self.accounted -= area.accounted(&range);
            let (head, tail) = (area.start < range.start, range.end < area.end);
            match (head, tail) {
                (false, false) => drop(self.list.remove(first)),
                (true, false) => area.end = range.start,
                (false, true) => *area = area.part(range.end..area.end),
                (true, true) => {
                    let upper = area.part(range.end..area.end);
                    area.end = range.start;
                    self.list.insert(first, upper);
                }
            }
            self.bytes -= range.len();
            return self.free_below(first + usize::from(tail));
        }
        self.split(range.start);
        self.split(range.end);
        let inside = self.index_below(range.end)..self.index_below(range.start);
        let first = inside.start;
        for area in self.list.drain(inside) {
            self.bytes -= area.end - area.start;
            self.accounted -= area.accounted(&area.range());
        }
        self.free_below(first)
    }

    /// What is free below the area before an index, where there may be more room than before.
    #[inline]
    fn free_below(&mut self, at: usize) -> Range<usize> {
        self.near = at;
        let above = self.list.get(at.wrapping_sub(1));
        let above = above.map_or(usize::MAX, |area| area.start);
        self.searched.from = self.searched.from.max(above);
        self.list.get(at).map_or(0, |area| area.end)..above
    }

    /// Changes all areas in `range`, cut at its bounds. Room for two must be reserved.
    pub fn change(&mut self, range: Range<usize>, mut change: impl FnMut(&mut Area)) {
        self.split(range.start);
        self.split(range.end);
        let inside = self.index_below(range.end)..self.index_below(range.start);
        self.near = inside.start;
        for area in &mut self.list[inside.clone()] {
            self.accounted -= area.accounted(&area.range());
            change(area);
            self.accounted += area.accounted(&area.range());
        }
        let mut at = inside.start.saturating_sub(1);
        let mut end = inside.end + 1;
        while at + 1 < end.min(self.list.len()) {
            if self.list[at + 1].joins(&self.list[at]) {
                self.join(at);
                end -= 1;
            } else {
                at += 1;
            }
        }
    }

    /// Moves the end of the area that ends at `end` up to `new_end`, if nothing is in the way.
    pub fn extend(&mut self, end: usize, new_end: usize) -> bool {
        let at = self.index_after(end - 1);
        let next = self.list.get(at.wrapping_sub(1));
        let room = next.map_or(usize::MAX, |next| next.start);
        let area = self.list.get(at);
        let area = area.filter(|area| area.end == end && end < new_end && new_end <= room);
        let Some(area) = area else {
            return false;
        };
        let grown = new_end - end;
        let accounted = match area.flags.has(Flags::ACCOUNT) {
            true => grown,
            false => 0,
        };
        if self.commit(accounted).is_err() {
            return false;
        }
        self.bytes += grown;
        self.accounted += accounted;
        self.list[at].end = new_end;
        true
    }

    /// Extends the stack above `address` down to it, if there is one no longer than `limit` bytes then, all areas together
    /// are no longer than `all`, and enough room stays below it.
    pub fn grow_down(&mut self, address: usize, limit: usize, all: usize) -> bool {
        let at = self.index_after(address);
        let below = self.list.get(at.wrapping_add(1));
        let floor = below.map_or(USER_START, |area| area.end + STACK_GAP);
        let start = page_down(address);
        let Some(area) = self.list.get(at) else {
            return false;
        };
        let grown = area.start.saturating_sub(start);
        let fits = area.flags.has(Flags::GROWS_DOWN)
            && area.end - start <= limit
            && self.bytes.saturating_add(grown) <= all
            && start >= floor;
        let Some(source) = area.source.receded(grown).filter(|_| fits) else {
            return false;
        };
        let accounted = match area.flags.has(Flags::ACCOUNT) {
            true => grown,
            false => 0,
        };
        if self.commit(accounted).is_err() {
            return false;
        }
        let area = &mut self.list[at];
        (area.start, area.source) = (start, source);
        self.bytes += grown;
        self.accounted += accounted;
        true
    }

    /// The lowest free place for `len` bytes inside `window`, aligned to `align`.
    pub fn find_free_above(&self, window: Range<usize>, len: usize, align: usize) -> Option<usize> {
        let mut start = window.start.next_multiple_of(align);
        let above = |area: &&Area| area.end <= window.start;
        for area in self.list.iter().rev().skip_while(above) {
            if start.checked_add(len)? <= area.floor() {
                break;
            }
            start = start.max(area.end.next_multiple_of(align));
        }
        (start.checked_add(len)? <= window.end).then_some(start)
    }

    /// The highest free place for `len` bytes inside `window`, aligned to `align`.
    pub fn find_free(&mut self, window: Range<usize>, len: usize, align: usize) -> Option<usize> {
        let Searched {
            from,
            top,
            len: most,
        } = self.searched;
        let known = top == window.end && len >= most;
        let mut at = self.index_below(if known { from.min(top) } else { window.end });
        loop {
            let above = self.list.get(at.wrapping_sub(1));
            let top = above.map_or(window.end, |area| area.floor().min(window.end));
            let below = self.list.get(at);
            let floor = below.map_or(window.start, |area| area.end.max(window.start));
            let start = top.checked_sub(len)? & !(align - 1);
            if start >= floor {
                let from = start + len;
                if align == PAGE_SIZE && (known || from <= self.searched.from) {
                    self.searched = Searched {
                        from,
                        top: window.end,
                        len,
                    };
                }
                self.near = at;
                return Some(start);
            }
            below.filter(|area| area.end > window.start)?;
            at += 1;
        }
    }
}
