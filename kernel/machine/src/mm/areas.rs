//! The areas of an address space: a tree, which stays one list while they are few.

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use spans::{Leaf, NoMemory, Span, Spans};

use super::area::{Area, Flags, PageSource, Source};
use super::commit::Commitment;
use super::heap;
use super::space::USER_START;
use super::{PAGE_SIZE, page_down};
use crate::errno::{Errno, Result};

/// Pages that stay free below a stack.
const STACK_GAP: usize = 256 * PAGE_SIZE;

/// How many areas a program may map (/proc/sys/vm/max_map_count).
pub static MOST_AREAS: AtomicUsize = AtomicUsize::new(65530);

impl Span for Area {
    fn start(&self) -> usize {
        self.start
    }

    fn end(&self) -> usize {
        self.end
    }

    fn floor(&self) -> usize {
        if self.flags.has(Flags::GROWS_DOWN) {
            self.start.saturating_sub(STACK_GAP)
        } else {
            self.start
        }
    }
}

fn no_memory(_: NoMemory) -> Errno {
    Errno::ENOMEM
}

/// The areas of an address space, disjoint. What changes them may fail with ENOMEM: an area that was to change may be cut in two then,
/// but promises what it did.
pub struct Areas {
    tree: Spans<Area>,
    bytes: usize,
    /// Bytes that count as promised.
    accounted: usize,
    commitment: Commitment,
    searched: Searched,
    gone: Gone,
}

/// The files of areas that were removed. With the last that has a file it ends, which may take long, wait, or want the space: not
/// before the space's lock is free.
#[derive(Default)]
pub struct Gone {
    first: Option<Arc<dyn PageSource>>,
    others: Vec<Arc<dyn PageSource>>,
}

impl Gone {
    /// Takes over what an area had. Where memory is gone, that goes at once.
    #[inline]
    fn add(&mut self, area: Area) {
        if let Source::File { mapping, .. } = area.source {
            self.add_file(mapping);
        }
    }

    fn add_file(&mut self, file: Arc<dyn PageSource>) {
        let Some(last) = self.others.last().or(self.first.as_ref()) else {
            self.first = Some(file);
            return;
        };
        if !Arc::ptr_eq(last, &file) && self.others.try_reserve(1).is_ok() {
            self.others.push(file);
        }
    }
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
            tree: Spans::new(),
            bytes: 0,
            accounted: 0,
            commitment: Commitment::new(),
            searched: Searched {
                from: usize::MAX,
                top: 0,
                len: 0,
            },
            gone: Gone {
                first: None,
                others: Vec::new(),
            },
        }
    }

    /// The files of what was removed since the last call, if there are any.
    #[inline]
    pub fn take_gone(&mut self) -> Option<Gone> {
        self.gone.first.is_some().then(|| mem::take(&mut self.gone))
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Area> {
        self.tree.iter()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.tree.len()
    }

    /// Whether there are as many as a program may map, or more.
    #[inline]
    pub fn is_full(&self) -> bool {
        !self.has_room(1)
    }

    /// Whether a program may map `count` more.
    #[inline]
    pub fn has_room(&self, count: usize) -> bool {
        self.tree.len() + count <= MOST_AREAS.load(Relaxed)
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
        let more = self.touching(range.clone()).filter(|area| area.owes());
        let more = more.map(all).sum();
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
        let near = self.tree.by_way(hint.load(Relaxed));
        if let Some(area) = near.filter(|area| area.start <= address && address < area.end) {
            return Some(area);
        }
        self.find_far(address, hint)
    }

    #[cold]
    #[inline(never)]
    fn find_far(&self, address: usize, hint: &AtomicUsize) -> Option<&Area> {
        let near = self.tree.by_long_way(hint.load(Relaxed));
        if let Some(area) = near.filter(|area| area.start <= address && address < area.end) {
            return Some(area);
        }
        let (way, area) = self.tree.way_to(address)?;
        hint.store(way, Relaxed);
        Some(area).filter(|area| area.start <= address)
    }

    /// The first area that ends above `address`.
    pub fn first_after(&self, address: usize) -> Option<&Area> {
        self.tree.first_after(address)
    }

    /// Whether `range` is free, and leaves a stack above it the gap that it keeps.
    pub fn is_room(&self, range: Range<usize>) -> bool {
        let next = self.first_after(range.start);
        next.is_none_or(|next| range.end <= next.floor())
    }

    /// The areas that touch `range`, in order.
    pub fn touching(&self, range: Range<usize>) -> impl Iterator<Item = &Area> {
        let areas = self.tree.from(range.start);
        areas.take_while(move |area| area.start < range.end)
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
        heap::check_room_for(self.tree.len() * size_of::<Area>())?;
        let mut child = Areas::new();
        let mut largest = 0;
        let keep = |area: &Area| !area.flags.has(Flags::DONT_FORK);
        let tree = self.tree.try_copy(keep, |area| {
            let accounted = area.accounted(&area.range());
            child.bytes += area.end - area.start;
            child.accounted += accounted;
            largest = largest.max(accounted);
            Area {
                flags: area.flags.set(Flags::LOCKED.with(Flags::GOES), false),
                ..area.clone()
            }
        });
        child.tree = tree.map_err(no_memory)?;
        let (pages, mapped) = (child.accounted / PAGE_SIZE, self.bytes / PAGE_SIZE);
        child.commitment.raise(pages, largest / PAGE_SIZE, mapped)?;
        Ok(child)
    }

    /// Adds an area where none is, joined with its neighbours if they are of the same kind.
    #[inline]
    pub fn insert(&mut self, area: Area) -> Result<()> {
        let range = area.range();
        self.tree.reserve(range.start, 1).map_err(no_memory)?;
        let (list, at) = self.tree.edit(range.start);
        self.bytes += range.len();
        self.accounted += area.accounted(&range);
        insert(list, at, area);
        if !self.tree.is_one_list() {
            self.tree.settle(range.start);
            self.join_lists(range.start);
            self.join_lists(range.end);
        }
        Ok(())
    }

    /// Makes one area of those that end and begin at `address`, if they are of the same kind, but in different lists: what changes a
    /// list joins its own.
    #[cold]
    #[inline(never)]
    fn join_lists(&mut self, address: usize) {
        let (Some(lower), Some(upper)) = self.tree.around(address) else {
            return;
        };
        if !lower.joins(upper) {
            return;
        }
        let start = lower.start;
        let (list, count) = self.tree.edit(start);
        let lower = list.remove(count - 1);
        self.tree.settle(start);
        let (list, count) = self.tree.edit(address);
        let upper = &mut list[count - 1];
        (upper.start, upper.source) = (lower.start, lower.source);
        self.tree.settle(address);
    }

    /// Cuts the area that holds `address` in two there.
    pub fn cut(&mut self, address: usize) -> Result<()> {
        if self.find(address).is_none_or(|area| area.start >= address) {
            return Ok(());
        }
        self.tree.reserve(address, 1).map_err(no_memory)?;
        let (list, count) = self.tree.edit(address);
        let at = count.wrapping_sub(1);
        if let Some(area) = list.get_mut(at).filter(|area| area.start < address) {
            let upper = area.part(address..area.end);
            area.end = address;
            list.insert(at, upper);
        }
        self.tree.settle(address);
        Ok(())
    }

    /// Takes `range` out of all areas. Returns the free room that it lies in.
    #[inline]
    pub fn remove(&mut self, range: Range<usize>) -> Result<Range<usize>> {
        let (list, count) = self.tree.edit(range.start);
        let at = count.wrapping_sub(1);
        let Some(area) = list.get_mut(at).filter(|area| {
            let (head, tail) = (area.start < range.start, range.end < area.end);
            area.start <= range.start && range.end <= area.end && !(head && tail)
        }) else {
            return self.remove_each(range);
        };
        // At the edge of one area, where nothing has to move, or all of it.
        self.bytes -= range.len();
        self.accounted -= area.accounted(&range);
        let mut above = at;
        if range.end < area.end {
            area.begin_at(range.end);
            above += 1;
        } else if area.start < range.start {
            area.end = range.start;
        } else {
            self.gone.add(list.remove(at));
        }
        let room = room(list.get(above), list.get(above.wrapping_sub(1)));
        if !self.tree.is_one_list() {
            self.tree.settle(range.start);
            return Ok(self.room_at(range.start));
        }
        self.searched.from = self.searched.from.max(room.end);
        Ok(room)
    }

    /// Cuts the areas at the bounds of `range`, which can then be removed without memory for it.
    ///
    /// # Errors
    /// ENOMEM, also where without `range` an area would be two, and so one more than a program may map.
    #[cold]
    #[inline(never)]
    pub fn cut_out(&mut self, range: &Range<usize>) -> Result<()> {
        let splits = |area: &Area| area.start < range.start && range.end < area.end;
        if self.is_full() && self.find(range.start).is_some_and(splits) {
            return Err(Errno::ENOMEM);
        }
        self.cut(range.start)?;
        self.cut(range.end)
    }

    /// Does that for a range that is removed later: whoever changes areas meanwhile does not join them across its bounds.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn cut_out_for_long(&mut self, range: &Range<usize>) -> Result<()> {
        self.cut_out(range)?;
        for at in [range.start, range.end - 1] {
            if let Some(area) = self.find(at).map(Area::range) {
                self.change(area, |area| area.flags = area.flags.set(Flags::GOES, true))?;
            }
        }
        Ok(())
    }

    /// Puts an area in the place of those in its range, of which there are some, cut at its bounds. Needs no memory.
    pub fn replace(&mut self, area: Area) {
        let range = area.range();
        // The lowest of them becomes the new one.
        let rest = self.first_after(range.start).map_or(range.end, Area::end);
        if rest < range.end {
            _ = self.remove(rest..range.end);
        }
        let (list, count) = self.tree.edit(range.start);
        let at = count - 1;
        self.bytes += range.len();
        self.accounted += area.accounted(&range);
        let old = core::mem::replace(&mut list[at], area);
        self.bytes -= old.end - old.start;
        self.accounted -= old.accounted(&old.range());
        join_each(list, at..at + 1);
        if !self.tree.is_one_list() {
            self.tree.settle(range.start);
            self.join_lists(range.start);
            self.join_lists(range.end);
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_each(&mut self, range: Range<usize>) -> Result<Range<usize>> {
        self.cut_out(&range)?;
        loop {
            let (list, count) = self.tree.edit(range.start);
            let inside = below(list, range.end)..count;
            if inside.is_empty() {
                return Ok(self.room_at(range.start));
            }
            for area in list.drain(inside) {
                self.bytes -= area.end - area.start;
                self.accounted -= area.accounted(&area.range());
                self.gone.add(area);
            }
            self.tree.settle(range.start);
        }
    }

    /// The free room in which `address` lies, which may be more than before.
    #[cold]
    #[inline(never)]
    fn room_at(&mut self, address: usize) -> Range<usize> {
        let (below, above) = self.tree.around(address);
        let room = room(below, above);
        self.searched.from = self.searched.from.max(room.end);
        room
    }

    /// Changes all areas in `range`, cut at its bounds.
    pub fn change(&mut self, range: Range<usize>, mut change: impl FnMut(&mut Area)) -> Result<()> {
        self.cut(range.start)?;
        self.cut(range.end)?;
        let mut at = range.start;
        while at < range.end {
            let start = at;
            let (list, count) = self.tree.edit(start);
            let inside = below(list, range.end)..count;
            if inside.is_empty() {
                break;
            }
            at = list[inside.start].end;
            for area in &mut list[inside.clone()] {
                self.accounted -= area.accounted(&area.range());
                change(area);
                self.accounted += area.accounted(&area.range());
            }
            join_each(list, inside);
            if !self.tree.is_one_list() {
                self.tree.settle(start);
                self.join_lists(start);
            }
        }
        if !self.tree.is_one_list() {
            self.join_lists(range.end);
        }
        Ok(())
    }

    /// Moves the end of the area that ends at `end` up to `new_end`, if nothing is in the way.
    pub fn extend(&mut self, end: usize, new_end: usize) -> bool {
        let (area, next) = self.tree.around(end);
        let room = next.map_or(usize::MAX, |next| next.start);
        let area = area.filter(|area| area.end == end && end < new_end && new_end <= room);
        let Some(grows) = area.map(|area| area.flags.has(Flags::ACCOUNT)) else {
            return false;
        };
        self.grow(end - 1, new_end - end, grows, |area| area.end = new_end)
    }

    /// Extends the stack above `address` down to it, if there is one no longer than `limit` bytes then, all areas together
    /// are no longer than `all`, and enough room stays below it.
    pub fn grow_down(&mut self, address: usize, limit: usize, all: usize) -> bool {
        let (below, area) = self.tree.around(address);
        // What a stack that runs over cannot write to, or what moves away itself, needs no gap.
        let gapless = |area: &Area| area.flags.has(Flags::GROWS_DOWN) || area.rights.is_none();
        let floor = below.map_or(USER_START, |area| match gapless(area) {
            true => area.end,
            false => area.end + STACK_GAP,
        });
        let start = page_down(address);
        let Some(area) = area else {
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
        let grows = area.flags.has(Flags::ACCOUNT);
        self.grow(address, grown, grows, |area| {
            (area.start, area.source) = (start, source);
        })
    }

    /// Lets `change` make the first area that ends above `address` longer by `bytes`, `promised` or not; false where so much cannot be
    /// promised.
    fn grow(
        &mut self,
        address: usize,
        bytes: usize,
        promised: bool,
        change: impl FnOnce(&mut Area),
    ) -> bool {
        let accounted = if promised { bytes } else { 0 };
        if self.commit(accounted).is_err() {
            return false;
        }
        let (list, count) = self.tree.edit(address);
        change(&mut list[count - 1]);
        self.tree.settle(address);
        self.bytes += bytes;
        self.accounted += accounted;
        true
    }

    /// The lowest free place for `len` bytes inside `window`, aligned to `align`.
    pub fn find_free_above(&self, window: Range<usize>, len: usize, align: usize) -> Option<usize> {
        let bottom = self.tree.lowest_gap(window, with_align(len, align)?)?;
        Some(bottom.next_multiple_of(align))
    }

    /// The highest free place for `len` bytes inside `window`, aligned to `align`: as on Linux, in the highest gap where that fits
    /// however it begins.
    #[inline(always)]
    pub fn find_free(&mut self, window: Range<usize>, len: usize, align: usize) -> Option<usize> {
        let known = self.searched.top == window.end && len >= self.searched.len;
        let top = match known {
            true => self.searched.from.min(window.end),
            false => window.end,
        };
        let gap = with_align(len, align)?;
        let top = self.tree.highest_gap(window.start..top, gap)?;
        let start = (top - len) & !(align - 1);
        let from = start + len;
        if align == PAGE_SIZE && (known || from <= self.searched.from) {
            let top = window.end;
            self.searched = Searched { from, top, len };
        }
        Some(start)
    }
}

/// The free room between two areas.
fn room(below: Option<&Area>, above: Option<&Area>) -> Range<usize> {
    below.map_or(0, |area| area.end)..above.map_or(usize::MAX, |area| area.start)
}

/// What a gap has in which `len` bytes can be aligned.
fn with_align(len: usize, align: usize) -> Option<usize> {
    len.checked_add(align - PAGE_SIZE)
}

/// How many areas of a list begin at or above `address`: the index of the highest below it.
fn below(leaf: &[Area], address: usize) -> usize {
    leaf.partition_point(|area| area.start >= address)
}

/// Adds an area at an index of a list, joined with its neighbours there. Room must be reserved.
#[inline(always)]
fn insert(leaf: &mut Leaf<Area>, at: usize, area: Area) {
    let before = leaf.get(at);
    debug_assert!(before.is_none_or(|before| before.end <= area.start));
    let before = before.is_some_and(|before| before.joins(&area));
    let after = at.checked_sub(1);
    match (before, after.filter(|&i| area.joins(&leaf[i]))) {
        (true, Some(i)) => join(leaf, i),
        (true, None) => leaf[at].end = area.end,
        (false, Some(i)) => {
            let next = &mut leaf[i];
            (next.start, next.source) = (area.start, area.source);
        }
        (false, None) => leaf.insert(at, area),
    }
}

/// Makes the area at an index, which goes, a part of the one below it.
fn join(leaf: &mut Leaf<Area>, at: usize) {
    let end = leaf.remove(at).end;
    leaf[at].end = end;
}

/// Joins areas of the same kind, where those at some indices have changed.
fn join_each(leaf: &mut Leaf<Area>, inside: Range<usize>) {
    let mut at = inside.start.saturating_sub(1);
    let mut end = inside.end + 1;
    while at + 1 < end.min(leaf.len()) {
        if leaf[at + 1].joins(&leaf[at]) {
            join(leaf, at);
            end -= 1;
        } else {
            at += 1;
        }
    }
}
