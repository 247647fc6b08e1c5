//! The VMAs of an address space: a tree, which remains a single list while they are few.

extern crate alloc;

mod grow;
mod inherit;
mod removed;

pub use removed::Removed;

use core::mem;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use spans::{Leaf, NoMemory, Span, Spans};

use super::PAGE_SIZE;
use super::commit::Commitment;
use super::totals::Totals;
use super::vma::{Flags, Source, Vma};
use crate::errno::{Errno, Result};
use crate::upcall::cond_resched;

/// Bytes that stay free below a stack.
const STACK_GAP: usize = 256 * PAGE_SIZE;

/// Maximum number of VMAs of a program (/proc/sys/vm/max_map_count).
pub static MOST_AREAS: AtomicUsize = AtomicUsize::new(65530);

impl Span for Vma {
    fn start(&self) -> usize {
        self.start
    }

    fn end(&self) -> usize {
        self.end
    }

    fn floor(&self) -> usize {
        if self.flags.contains(Flags::GROWS_DOWN) {
            self.start.saturating_sub(STACK_GAP)
        } else {
            self.start
        }
    }
}

fn no_memory(_: NoMemory) -> Errno {
    Errno::ENOMEM
}

/// The VMAs of an address space, disjoint. Changes may fail with ENOMEM; a VMA may already be split
/// in two then, but keeps its attributes.
pub struct Vmas {
    tree: Spans<Vma>,
    totals: Totals,
    commitment: Commitment,
    searched: Searched,
}

/// The result of the last searches for free addresses: no gap between `from` and `top` has `len`
/// bytes or more.
struct Searched {
    from: usize,
    top: usize,
    len: usize,
}

impl Vmas {
    /// No VMAs.
    pub const fn new() -> Self {
        Vmas {
            tree: Spans::new(),
            totals: Totals::new(),
            commitment: Commitment::new(),
            searched: Searched {
                from: usize::MAX,
                top: 0,
                len: 0,
            },
        }
    }

    /// All VMAs, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Vma> {
        self.tree.iter()
    }

    /// Number of VMAs.
    pub fn count(&self) -> usize {
        self.tree.len()
    }

    /// Whether a program may map no further VMA.
    #[inline]
    pub fn is_full(&self) -> bool {
        !self.has_room(1)
    }

    /// Whether a program may map `count` more VMAs.
    #[inline]
    pub fn has_room(&self, count: usize) -> bool {
        self.tree.len() + count <= MOST_AREAS.load(Relaxed)
    }

    /// Drops all files, which may take long or sleep.
    pub fn end(&mut self) {
        loop {
            let (list, count) = self.tree.edit(0);
            if count == 0 {
                break;
            }
            for vma in list.drain(0..count) {
                if let Source::File { mapping, .. } = vma.source {
                    drop(mapping);
                    cond_resched();
                }
            }
            self.tree.rebalance(0);
            cond_resched();
        }
    }

    /// Checks that the VMAs that `changes` selects at the bounds of `range` can be split without
    /// exceeding the maximum number of VMAs.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn check_cuts(&self, range: &Range<usize>, changes: impl Fn(&Vma) -> bool) -> Result<()> {
        // A range has two bounds: usually there is room for both splits, whether or not they are
        // needed.
        if self.has_room(2) {
            Ok(())
        } else {
            self.count_cuts(range, changes)
        }
    }

    #[cold]
    #[inline(never)]
    fn count_cuts(&self, range: &Range<usize>, changes: impl Fn(&Vma) -> bool) -> Result<()> {
        let cuts = |at| {
            let vma = self.find(at);
            vma.is_some_and(|vma| vma.start < at && changes(vma))
        };
        let more = usize::from(cuts(range.start)) + usize::from(cuts(range.end));
        if more == 0 || self.has_room(more) {
            Ok(())
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// Bytes in all VMAs, by kind.
    #[inline]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Number of bytes of `range` that VMAs cover.
    #[cold]
    pub fn bytes_in(&self, range: Range<usize>) -> usize {
        let part = |vma: &Vma| vma.end.min(range.end) - vma.start.max(range.start);
        self.touching(range.clone()).map(part).sum()
    }

    /// Commits `bytes` more, which the caller must map before it releases the lock; otherwise
    /// [`Vmas::update_commitment`] takes the commitment back.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline]
    pub fn commit(&mut self, bytes: usize) -> Result<()> {
        let Totals { all, accounted, .. } = self.totals;
        let (pages, mapped) = ((accounted + bytes) / PAGE_SIZE, all / PAGE_SIZE);
        self.commitment.raise(pages, bytes / PAGE_SIZE, mapped)
    }

    /// Commits the additional pages that the VMAs in `range` need when they become writable.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn commit_writable(&mut self, range: &Range<usize>) -> Result<()> {
        let part = |vma: &Vma| vma.end.min(range.end) - vma.start.max(range.start);
        let more = self
            .touching(range.clone())
            .filter(|vma| vma.needs_account());
        let more = more.map(part).sum();
        if more > 0 { self.commit(more) } else { Ok(()) }
    }

    /// Adjusts the commitment to what the VMAs need.
    #[inline]
    pub fn update_commitment(&mut self) {
        self.commitment.set(self.totals.accounted / PAGE_SIZE);
    }

    /// Number of committed bytes in `range`.
    pub fn accounted(&self, range: Range<usize>) -> usize {
        let touching = self.touching(range.clone());
        touching.map(|vma| vma.accounted(&range)).sum()
    }

    /// The VMA that contains `address`.
    pub fn find(&self, address: usize) -> Option<&Vma> {
        self.first_after(address).filter(|vma| vma.start <= address)
    }

    /// The VMA that contains `address`; first tries the position cached in `hint`.
    #[inline]
    pub fn find_near(&self, address: usize, hint: &AtomicUsize) -> Option<&Vma> {
        let near = self.tree.at_cursor(hint.load(Relaxed));
        if let Some(vma) = near.filter(|vma| vma.start <= address && address < vma.end) {
            return Some(vma);
        }
        self.find_far(address, hint)
    }

    #[cold]
    #[inline(never)]
    fn find_far(&self, address: usize, hint: &AtomicUsize) -> Option<&Vma> {
        let near = self.tree.at_cursor_slow(hint.load(Relaxed));
        if let Some(vma) = near.filter(|vma| vma.start <= address && address < vma.end) {
            return Some(vma);
        }
        let (way, vma) = self.tree.cursor_to(address)?;
        hint.store(way, Relaxed);
        Some(vma).filter(|vma| vma.start <= address)
    }

    /// The first VMA that ends above `address`.
    pub fn first_after(&self, address: usize) -> Option<&Vma> {
        self.tree.first_after(address)
    }

    /// Whether `range` is free, and leaves the guard gap of a stack above it free.
    pub fn is_room(&self, range: Range<usize>) -> bool {
        let next = self.first_after(range.start);
        next.is_none_or(|next| range.end <= next.floor())
    }

    /// The VMAs that overlap `range`, in order.
    pub fn touching(&self, range: Range<usize>) -> impl Iterator<Item = &Vma> {
        let vmas = self.tree.from(range.start);
        vmas.take_while(move |vma| vma.start < range.end)
    }

    /// Whether VMAs cover all of `range`.
    pub fn covers(&self, range: Range<usize>) -> bool {
        self.covered(range.clone()) >= range.end
    }

    /// The end of the part of a range that is mapped without a hole from its start on.
    pub fn covered(&self, range: Range<usize>) -> usize {
        let mut at = range.start;
        for vma in self.touching(range.clone()) {
            if vma.start > at {
                break;
            }
            at = vma.end;
        }
        at.min(range.end)
    }

    /// Adds a VMA to free addresses, merged with its neighbours if they are of the same kind.
    ///
    /// # Errors
    /// ENOMEM; the VMA is dropped.
    pub fn insert(&mut self, vma: Vma) -> Result<()> {
        self.reserve(vma.start)?;
        self.insert_reserved(vma);
        Ok(())
    }

    /// Reserves memory for a VMA that begins at `start`.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline(always)]
    pub fn reserve(&mut self, start: usize) -> Result<()> {
        self.tree.reserve(start, 1).map_err(no_memory)
    }

    /// [`Vmas::insert`] after [`Vmas::reserve`].
    #[inline(always)]
    pub fn insert_reserved(&mut self, vma: Vma) {
        let range = vma.range();
        let (list, at) = self.tree.edit(range.start);
        self.totals.add(&vma, range.len());
        insert(list, at, vma);
        if !self.tree.is_one_list() {
            self.tree.rebalance(range.start);
            self.join_lists(range.start);
            self.join_lists(range.end);
        }
    }

    /// Merges the VMAs that end and begin at `address`, if they are of the same kind but in
    /// different lists: changes of a list merge only within it.
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
        self.tree.rebalance(start);
        let (list, count) = self.tree.edit(address);
        let upper = &mut list[count - 1];
        (upper.start, upper.source) = (lower.start, lower.source);
        self.tree.rebalance(address);
    }

    /// Splits the VMA that contains `address` at this address.
    pub fn cut(&mut self, address: usize) -> Result<()> {
        if self.find(address).is_none_or(|vma| vma.start >= address) {
            return Ok(());
        }
        self.tree.reserve(address, 1).map_err(no_memory)?;
        let (list, count) = self.tree.edit(address);
        let at = count.wrapping_sub(1);
        if let Some(vma) = list.get_mut(at).filter(|vma| vma.start < address) {
            let upper = vma.part(address..vma.end);
            vma.end = address;
            list.insert(at, upper);
        }
        self.tree.rebalance(address);
        Ok(())
    }

    /// Removes `range` from all VMAs; their files go to `gone`. Returns the free range that
    /// contains it.
    #[inline]
    pub fn remove(&mut self, range: Range<usize>, gone: &mut Removed) -> Result<Range<usize>> {
        let (list, count) = self.tree.edit(range.start);
        let at = count.wrapping_sub(1);
        let Some(vma) = list.get_mut(at).filter(|vma| {
            let (head, tail) = (vma.start < range.start, range.end < vma.end);
            let edge = vma.start <= range.start && range.end <= vma.end && !(head && tail);
            edge && gone.is_empty() && !vma.flags.contains(Flags::SEALED)
        }) else {
            return self.remove_each(range, gone);
        };
        // All of a single VMA, or one end of it: no split is needed.
        self.totals.sub(vma, range.len());
        let mut above = at;
        if range.end < vma.end {
            vma.begin_at(range.end);
            above += 1;
        } else if vma.start < range.start {
            vma.end = range.start;
        } else {
            gone.add(list.remove(at));
        }
        let room = room(list.get(above), list.get(above.wrapping_sub(1)));
        if !self.tree.is_one_list() {
            self.tree.rebalance(range.start);
            return Ok(self.room_at(range.start));
        }
        self.searched.from = self.searched.from.max(room.end);
        Ok(room)
    }

    /// Splits the VMAs at the bounds of `range`, so that it can be removed without allocating, and
    /// reserves memory for their files.
    ///
    /// # Errors
    /// EPERM if a VMA is sealed; ENOMEM, also if removing `range` would split a VMA and so exceed
    /// the maximum number of VMAs.
    #[cold]
    #[inline(never)]
    pub fn cut_out(&mut self, range: &Range<usize>, gone: &mut Removed) -> Result<()> {
        let mut sealed = false;
        let touching = self.touching(range.clone());
        gone.reserve(touching.inspect(|vma| sealed |= vma.flags.contains(Flags::SEALED)))?;
        if sealed {
            return Err(Errno::EPERM);
        }
        let splits = |vma: &Vma| vma.start < range.start && range.end < vma.end;
        if self.is_full() && self.find(range.start).is_some_and(splits) {
            return Err(Errno::ENOMEM);
        }
        self.cut(range.start)?;
        self.cut(range.end)
    }

    /// As [`Vmas::cut_out`], for a range that is removed later, so that a concurrent change does
    /// not merge VMAs across its bounds.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn cut_out_for_long(&mut self, range: &Range<usize>, gone: &mut Removed) -> Result<()> {
        self.cut_out(range, gone)?;
        for at in [range.start, range.end - 1] {
            if let Some(vma) = self.find(at).map(Vma::range) {
                self.change(vma, |vma| vma.flags = vma.flags.with(Flags::GOES, true))?;
            }
        }
        Ok(())
    }

    /// Replaces the VMAs in its range, of which there is at least one, by a VMA, after
    /// [`Vmas::cut_out`].
    pub fn replace(&mut self, vma: Vma, gone: &mut Removed) {
        let range = vma.range();
        // The lowest of them is overwritten by the new one.
        let rest = self.first_after(range.start).map_or(range.end, Vma::end);
        if rest < range.end {
            _ = self.remove(rest..range.end, gone);
        }
        let (list, count) = self.tree.edit(range.start);
        let at = count - 1;
        let old = mem::replace(&mut list[at], vma);
        self.totals.sub(&old, old.end - old.start);
        self.totals.add(&list[at], range.len());
        gone.add(old);
        join_each(list, at..at + 1);
        if !self.tree.is_one_list() {
            self.tree.rebalance(range.start);
            self.join_lists(range.start);
            self.join_lists(range.end);
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_each(&mut self, range: Range<usize>, gone: &mut Removed) -> Result<Range<usize>> {
        self.cut_out(&range, gone)?;
        loop {
            let (list, count) = self.tree.edit(range.start);
            let inside = below(list, range.end)..count;
            if inside.is_empty() {
                return Ok(self.room_at(range.start));
            }
            for vma in list.drain(inside) {
                self.totals.sub(&vma, vma.end - vma.start);
                gone.add(vma);
            }
            self.tree.rebalance(range.start);
        }
    }

    /// The free range that contains `address`, which may have become larger.
    #[cold]
    #[inline(never)]
    fn room_at(&mut self, address: usize) -> Range<usize> {
        let (below, above) = self.tree.around(address);
        let room = room(below, above);
        self.searched.from = self.searched.from.max(room.end);
        room
    }

    /// Applies `change` to all VMAs in `range`, split at its bounds.
    pub fn change(&mut self, range: Range<usize>, mut change: impl FnMut(&mut Vma)) -> Result<()> {
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
            for vma in &mut list[inside.clone()] {
                self.totals.sub(vma, vma.end - vma.start);
                change(vma);
                self.totals.add(vma, vma.end - vma.start);
            }
            join_each(list, inside);
            if !self.tree.is_one_list() {
                self.tree.rebalance(start);
                self.join_lists(start);
            }
        }
        if !self.tree.is_one_list() {
            self.join_lists(range.end);
        }
        Ok(())
    }

    /// Finds the lowest free address for `len` bytes inside `window`, aligned to `align`.
    pub fn find_free_above(&self, window: Range<usize>, len: usize, align: usize) -> Option<usize> {
        let bottom = self.tree.lowest_gap(window, with_align(len, align)?)?;
        Some(bottom.next_multiple_of(align))
    }

    /// Finds the highest free address for `len` bytes inside `window`, aligned to `align`: as on
    /// Linux, in the highest gap that fits `len` with any alignment of its start.
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

/// The free range between two VMAs.
fn room(below: Option<&Vma>, above: Option<&Vma>) -> Range<usize> {
    below.map_or(0, |vma| vma.end)..above.map_or(usize::MAX, |vma| vma.start)
}

/// The size of a gap in which `len` bytes can always be aligned.
fn with_align(len: usize, align: usize) -> Option<usize> {
    len.checked_add(align - PAGE_SIZE)
}

/// Number of VMAs in a list that begin at or above `address`: the index of the highest one below
/// it.
fn below(leaf: &[Vma], address: usize) -> usize {
    leaf.partition_point(|vma| vma.start >= address)
}

/// Inserts a VMA at an index of a list, merged with its neighbours there. Room must be reserved.
#[inline(always)]
fn insert(leaf: &mut Leaf<Vma>, at: usize, vma: Vma) {
    let before = leaf.get(at);
    debug_assert!(before.is_none_or(|before| before.end <= vma.start));
    let before = before.is_some_and(|before| before.joins(&vma));
    let after = at.checked_sub(1);
    match (before, after.filter(|&i| vma.joins(&leaf[i]))) {
        (true, Some(i)) => join(leaf, i),
        (true, None) => leaf[at].end = vma.end,
        (false, Some(i)) => {
            let next = &mut leaf[i];
            (next.start, next.source) = (vma.start, vma.source);
        }
        (false, None) => leaf.insert(at, vma),
    }
}

/// Removes the VMA at an index by extending the one below it.
fn join(leaf: &mut Leaf<Vma>, at: usize) {
    let end = leaf.remove(at).end;
    leaf[at].end = end;
}

/// Merges VMAs of the same kind after those at some indices have changed.
fn join_each(leaf: &mut Leaf<Vma>, inside: Range<usize>) {
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
