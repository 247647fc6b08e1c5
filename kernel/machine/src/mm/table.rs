//! Page tables: trees of tables with 512 entries, in whatever encoding the architecture has.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::frame::{FRAMES, FrameRef, Owner};
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr};
use crate::arch::cpu;
use crate::arch::mmu::{self, Pte};
use crate::errno::{Errno, Result};
use translation::Change;
use translation::owed::{Clear, FillUser, Kind, LinkTable, Owed, Replace, UnlinkTable};

/// Entries in a table.
const ENTRIES: usize = PAGE_SIZE / size_of::<Pte>();
/// Address bits that one table resolves.
const INDEX_BITS: u32 = ENTRIES.trailing_zeros();

/// log2 of the bytes that one entry of a table covers; level 0 holds the pages.
const fn shift(level: usize) -> u32 {
    PAGE_SHIFT + level as u32 * INDEX_BITS
}

const fn index(address: usize, level: usize) -> usize {
    address >> shift(level) & (ENTRIES - 1)
}

/// An entry that the hardware does not follow, but that still holds its frame: for pages that
/// nobody may touch. Bit 0 says "valid" on every architecture, and the hardware reads no other bit
/// without it.
pub fn hidden(pte: Pte) -> Pte {
    Pte(pte.0 & !1)
}

/// What an entry holds while its page changes its frame: invalid, but not empty.
pub const BUSY: Pte = Pte(2);

/// An entry in memory, which the hardware may read at any time and, while valid, change (Access
/// flag, dirty state).
#[repr(transparent)]
pub struct Entry(AtomicU64);

impl Entry {
    /// What the entry holds.
    pub fn load(&self) -> Pte {
        Pte(self.0.load(Relaxed))
    }

    /// Fills an empty entry that nobody else fills meanwhile. What it points to is visible before
    /// the entry is.
    #[inline]
    pub fn fill<C: Kind>(&self, pte: Pte) -> Owed<C> {
        debug_assert!(is_change(C::CHANGE, self.load(), pte));
        self.0.store(mmu::new_entry(pte).0, Release);
        Owed::new()
    }

    /// Fills the entry if it is empty; none if it was not.
    #[inline]
    #[must_use]
    pub fn try_fill<C: Kind>(&self, pte: Pte) -> Option<Owed<C>> {
        debug_assert!(is_change(C::CHANGE, Pte::EMPTY, pte));
        self.0
            .compare_exchange(Pte::EMPTY.0, mmu::new_entry(pte).0, AcqRel, Relaxed)
            .ok()
            .map(|_| Owed::new())
    }

    /// Empties the entry; returns what it held.
    #[inline]
    pub fn take<C: Kind>(&self) -> (Pte, Owed<C>) {
        let old = Pte(self.0.swap(Pte::EMPTY.0, AcqRel));
        debug_assert!(is_change(C::CHANGE, old, Pte::EMPTY));
        (old, Owed::new())
    }

    /// Replaces what was read before, unless it has changed since: then what stands there now comes
    /// back.
    #[inline]
    pub fn replace<C: Kind>(&self, old: Pte, new: Pte) -> core::result::Result<Owed<C>, Pte> {
        debug_assert!(is_change(C::CHANGE, old, new));
        self.0
            .compare_exchange(old.0, new.0, AcqRel, Relaxed)
            .map(|_| Owed::new())
            .map_err(Pte)
    }

    /// The same with another frame, paid for by `pay` before the new entry is made where that is
    /// owed. A fault in between finds the entry busy and retries.
    #[inline(always)]
    pub fn replace_frame(&self, old: Pte, new: Pte, pay: impl FnOnce(Owed<Replace>)) -> bool {
        let first = if mmu::BREAK_FIRST { BUSY } else { new };
        let Ok(owed) = self.replace(old, first) else {
            return false;
        };
        pay(owed);
        if mmu::BREAK_FIRST {
            self.0.store(mmu::new_entry(new).0, Release);
        }
        true
    }

    /// Changes an entry by `change`; returns what it held before.
    #[inline]
    pub fn update<C: Kind>(&self, change: impl Fn(Pte) -> Pte) -> (Pte, Owed<C>) {
        let mut old = self.load();
        loop {
            match self.replace(old, change(old)) {
                Ok(owed) => return (old, owed),
                Err(now) => old = now,
            }
        }
    }
}

/// Whether a change owes no more than one of the kind that it is called.
fn is_change(called: Change, old: Pte, new: Pte) -> bool {
    match called {
        Change::FillUser | Change::FillKernel => !old.valid() || old.is_unseen(),
        Change::LinkTable => old == Pte::EMPTY && new.is_table(),
        Change::UnlinkTable => old.is_table() && new == Pte::EMPTY,
        Change::Clear => hidden(new) == new,
        Change::Replace => true,
        Change::Protect => old.phys() == new.phys(),
        Change::Widen => old.phys() == new.phys(),
        Change::Touch | Change::Age => old.with_young(true) == new.with_young(true),
        Change::Resize => false,
    }
}

/// Bytes that an entry above a last-level table covers.
pub const HUGE_PAGE_SIZE: usize = 1 << shift(1);
/// Pages in a huge page.
pub const HUGE_PAGE_PAGES: usize = ENTRIES;

/// A last-level table.
#[derive(Clone, Copy)]
pub struct Leaf<'a>(&'a [Entry; ENTRIES]);

impl<'a> Leaf<'a> {
    /// The table that lies in a frame.
    ///
    /// # Safety
    /// The frame is a table that lives as long as the result says.
    pub unsafe fn at(table: PhysAddr) -> Self {
        Leaf(entries(table))
    }

    /// The entry of the page at `address`, which this table must cover.
    #[inline]
    pub fn entry(self, address: usize) -> &'a Entry {
        &self.0[index(address, 0)]
    }

    /// The entries from that of the page at `address` on.
    pub fn from(self, address: usize) -> &'a [Entry] {
        &self.0[index(address, 0)..]
    }
}

/// A tree of tables and the frames that they lie in.
pub struct PageTable {
    root: PhysAddr,
    /// How many entries hold huge pages.
    huge_pages: AtomicUsize,
    /// Tables below the root.
    tables: AtomicUsize,
}

impl PageTable {
    /// An empty tree for a program.
    pub fn new() -> Result<Self> {
        let root = new_table()?;
        // SAFETY: the root is a table of this tree's own.
        unsafe { mmu::init_user_root(root.linear()) };
        Ok(PageTable::with(root))
    }

    /// The kernel's own tree, which lives for ever.
    pub fn kernel() -> Self {
        PageTable::with(PhysAddr(mmu::kernel_root()))
    }

    fn with(root: PhysAddr) -> Self {
        PageTable {
            root,
            huge_pages: AtomicUsize::new(0),
            tables: AtomicUsize::new(0),
        }
    }

    /// How many tables there are.
    pub fn tables(&self) -> usize {
        self.tables.load(Relaxed) + 1
    }

    /// Where the root table lies.
    pub fn root(&self) -> PhysAddr {
        self.root
    }

    /// The last-level table for the page at `address`, if it exists.
    #[inline]
    pub fn leaf(&self, address: usize) -> Option<Leaf<'_>> {
        let mut table = self.root;
        for level in (1..mmu::levels()).rev() {
            let pte = entry(table, index(address, level)).load();
            let below = if level == 1 {
                pte.is_table()
            } else {
                pte.valid()
            };
            if !below {
                return None;
            }
            table = PhysAddr(pte.phys());
        }
        Some(Leaf(entries(table)))
    }

    /// The entry for the page at `address`, if its table exists.
    #[inline]
    pub fn find(&self, address: usize) -> Option<&Entry> {
        Some(self.leaf(address)?.entry(address))
    }

    /// What the entry of the page at `address` holds, or would if all huge pages were pages.
    pub fn lookup(&self, address: usize) -> Pte {
        let mut table = self.root;
        for level in (0..mmu::levels()).rev() {
            let pte = entry(table, index(address, level)).load();
            if level == 0 || pte == Pte::EMPTY {
                return pte;
            }
            if !pte.is_table() {
                return pte.page(index(address, 0));
            }
            table = PhysAddr(pte.phys());
        }
        Pte::EMPTY
    }

    /// The entry above the last-level table for the page at `address`, which holds that table, a
    /// huge page, or nothing; makes the tables on the way, beside other CPUs that do. `pay` is
    /// given what each owes.
    pub fn above_leaf(
        &self,
        address: usize,
        pay: &mut impl FnMut(Owed<LinkTable>),
    ) -> Result<&Entry> {
        let mut table = self.root;
        for level in (2..mmu::levels()).rev() {
            table = self.below(entry(table, index(address, level)), pay)?;
        }
        Ok(entry(table, index(address, 1)))
    }

    /// The last-level table for the page at `address`; makes the tables on the way, beside other
    /// CPUs that do. `pay` is given what each owes.
    ///
    /// # Errors
    /// ENOMEM; EAGAIN if there is a huge page.
    pub fn make(&self, address: usize, pay: &mut impl FnMut(Owed<LinkTable>)) -> Result<Leaf<'_>> {
        self.make_below(self.above_leaf(address, pay)?, pay)
    }

    /// The last-level table that an entry of [`above_leaf`](Self::above_leaf) points to; makes it.
    ///
    /// # Errors
    /// As of [`make`](Self::make).
    pub fn make_below(
        &self,
        slot: &Entry,
        pay: &mut impl FnMut(Owed<LinkTable>),
    ) -> Result<Leaf<'_>> {
        Ok(Leaf(entries(self.below(slot, pay)?)))
    }

    /// Whether any entry holds a huge page.
    #[inline]
    pub fn has_huge_pages(&self) -> bool {
        self.huge_pages.load(Relaxed) != 0
    }

    /// How many entries hold huge pages.
    pub fn huge_pages(&self) -> usize {
        self.huge_pages.load(Relaxed)
    }

    /// Fills an entry with a huge page unless another CPU has filled it: none then.
    #[must_use]
    pub fn try_fill_huge_page(&self, slot: &Entry, huge: Pte) -> Option<Owed<FillUser>> {
        let filled = slot.try_fill(huge);
        self.huge_pages
            .fetch_add(usize::from(filled.is_some()), Relaxed);
        filled
    }

    /// Takes the first huge page that touches `range` out, for the only user of the tree:
    /// where it begins, its entry, and what that held.
    pub fn take_huge_page(&self, range: Range<usize>) -> Option<(usize, &Entry, Pte, Owed<Clear>)> {
        let (start, slot) = self.next_huge_page(range)?;
        self.huge_pages.fetch_sub(1, Relaxed);
        let (pte, owed) = slot.take();
        Some((start, slot, pte, owed))
    }

    /// The first huge page that touches `range`: where it begins, and its entry.
    pub fn next_huge_page(&self, range: Range<usize>) -> Option<(usize, &Entry)> {
        if !self.has_huge_pages() || range.is_empty() {
            return None;
        }
        find_huge_page(self.root, mmu::levels() - 1, range)
    }

    /// Makes the tables below the root for a range.
    pub fn make_top(&self, range: Range<usize>) -> Result<()> {
        let level = mmu::levels() - 1;
        for slot in index(range.start, level)..=index(range.end - 1, level) {
            let slot = entry(self.root, slot);
            if !slot.load().valid() {
                self.grow(slot, &mut mmu::publish_table)?;
            }
        }
        Ok(())
    }

    /// Where the part of `range` ends that has `most` tables and huge pages, or the range itself;
    /// so many fewer are left in `most`.
    pub fn part_end(&self, range: Range<usize>, most: &mut usize) -> usize {
        count_off(self.root, mmu::levels() - 1, range.clone(), most).unwrap_or(range.end)
    }

    /// Calls `visit` with the entries of all pages in `range`, valid or not, whose tables exist:
    /// runs of neighbouring entries, with the address of each run's first page. A huge page's pages
    /// come one by one, with copies of their entries.
    #[inline]
    pub fn visit(&self, range: Range<usize>, visit: &mut impl FnMut(usize, &[Entry])) {
        if range.is_empty() {
            return;
        }
        let last = range.end - 1;
        // Most ranges are short: straight to their one table.
        if (range.start ^ last) < HUGE_PAGE_SIZE {
            if let Some(leaf) = self.leaf(range.start) {
                return visit(range.start, &leaf.0[index(range.start, 0)..=index(last, 0)]);
            }
            if !self.has_huge_pages() {
                return;
            }
        }
        visit_table(self.root, mmu::levels() - 1, range, visit);
    }

    /// The table that an entry points to, made if there is none.
    fn below(&self, slot: &Entry, pay: &mut impl FnMut(Owed<LinkTable>)) -> Result<PhysAddr> {
        let pte = slot.load();
        if pte.is_table() {
            return Ok(PhysAddr(pte.phys()));
        }
        self.grow(slot, pay)
    }

    /// Hangs a table below an empty entry, which nobody else fills meanwhile.
    pub fn link(&self, slot: &Entry, table: PhysAddr) -> Owed<LinkTable> {
        self.tables.fetch_add(1, Relaxed);
        slot.fill(Pte::table(table.0))
    }

    // In line: what it does with the debt is known there.
    #[inline(always)]
    fn grow(&self, slot: &Entry, pay: &mut impl FnMut(Owed<LinkTable>)) -> Result<PhysAddr> {
        let table = new_table()?;
        if let Some(owed) = slot.try_fill::<LinkTable>(Pte::table(table.0)) {
            pay(owed);
            self.tables.fetch_add(1, Relaxed);
            return Ok(table);
        }
        // SAFETY: `new_table` made it, and no entry took it.
        unsafe { give_table(table) };
        let pte = slot.load();
        if pte.is_table() {
            Ok(PhysAddr(pte.phys()))
        } else {
            Err(Errno::EAGAIN)
        }
    }

    /// Takes the tables out of the tree that touch `range` and cover nothing outside `empty`, where
    /// no VMA is; none if there are none. CPUs may reach them until the debt is paid.
    #[must_use]
    pub fn unlink(
        &mut self,
        range: Range<usize>,
        empty: Range<usize>,
    ) -> Option<(Unlinked, Owed<UnlinkTable>)> {
        // The smallest thing to free is a last-level table.
        let leaf = 1 << shift(1);
        let first = (range.start & !(leaf - 1)).max(empty.start);
        let last = (range.end.next_multiple_of(leaf)).min(empty.end);
        if first.next_multiple_of(leaf) >= last & !(leaf - 1) {
            return None;
        }
        let mut tables = Unlinked { first: 0, count: 0 };
        let level = mmu::levels() - 1;
        let mut owed = Owed::new();
        unlink_below(self.root, level, range, &empty, &mut tables, &mut owed);
        *self.tables.get_mut() -= tables.count;
        if tables.count == 0 {
            owed.held_by_nobody();
            return None;
        }
        Some((tables, owed))
    }
}

/// Tables that are no longer in a tree, chained by their frames' metadata: the number of the first
/// frame. They are freed when this is dropped, for which all debts must be paid and no entry hold a
/// frame.
pub struct Unlinked {
    first: u32,
    count: usize,
}

impl Unlinked {
    fn add(&mut self, table: PhysAddr) {
        FRAMES.at(table).set_links(0, self.first);
        self.first = (table.0 >> PAGE_SHIFT) as u32;
        self.count += 1;
    }

    /// Calls `visit` with the entries of each table.
    pub fn each(&self, mut visit: impl FnMut(&[Entry])) {
        let mut next = self.first;
        while next != 0 {
            let table = PhysAddr((next as usize) << PAGE_SHIFT);
            visit(entries(table));
            next = FRAMES.at(table).next();
        }
    }
}

impl Drop for Unlinked {
    fn drop(&mut self) {
        while self.first != 0 {
            let table = PhysAddr((self.first as usize) << PAGE_SHIFT);
            self.first = FRAMES.at(table).next();
            // SAFETY: `unlink` took this table out, which `new_table` made.
            unsafe { give_table(table) };
        }
    }
}

/// The rest of the tree must have been unlinked, and no CPU have it in use. The kernel's tree is
/// never dropped.
impl Drop for PageTable {
    fn drop(&mut self) {
        // SAFETY: `new` turned the root's one handle into an address.
        drop(unsafe { FrameRef::from_phys(self.root) });
    }
}

/// A table without entries, as an address that keeps the one handle of its frame.
fn new_table() -> Result<PhysAddr> {
    match cpu::this().tables.with(EmptyTables::take) {
        Some(table) => Ok(table),
        None => Ok(FrameRef::zeroed(Owner::Kernel)?.into_phys()),
    }
}

/// Lets go of a table, whose entries are all empty again.
///
/// # Safety
/// It came from `new_table`, and nothing leads to it any more.
unsafe fn give_table(table: PhysAddr) {
    debug_assert!(
        entries(table)
            .iter()
            .all(|entry| entry.load() == Pte::EMPTY)
    );
    if !cpu::this().tables.with(|kept| kept.keep(table)) {
        // SAFETY: `new_table` turned the one handle into this address.
        drop(unsafe { FrameRef::from_phys(table) });
    }
}

/// The tables that a CPU keeps for the next that it needs, which then need not be filled with
/// zeroes: chained by their frames' metadata.
pub struct EmptyTables {
    first: u32,
    count: usize,
}

impl EmptyTables {
    /// As many as some small programs have.
    const MOST: usize = 16;

    /// None.
    pub const fn new() -> Self {
        EmptyTables { first: 0, count: 0 }
    }

    fn take(&mut self) -> Option<PhysAddr> {
        self.count = self.count.checked_sub(1)?;
        let table = PhysAddr((self.first as usize) << PAGE_SHIFT);
        self.first = FRAMES.at(table).next();
        Some(table)
    }

    fn keep(&mut self, table: PhysAddr) -> bool {
        let fits = self.count < Self::MOST;
        if fits {
            FRAMES.at(table).set_links(0, self.first);
            self.first = (table.0 >> PAGE_SHIFT) as u32;
            self.count += 1;
        }
        fits
    }
}

#[inline]
fn entry<'a>(table: PhysAddr, index: usize) -> &'a Entry {
    &entries(table)[index & (ENTRIES - 1)]
}

#[inline]
fn entries<'a>(table: PhysAddr) -> &'a [Entry; ENTRIES] {
    // SAFETY: `table` comes from a table's valid entry or a tree's root: a whole frame of entries
    // in the linear map, atomics that any bits fit. Tables are freed by a `&mut` method only, and
    // what the tree hands out borrows it.
    unsafe { &*(table.linear() as *const [Entry; ENTRIES]) }
}

fn visit_table(
    table: PhysAddr,
    level: usize,
    range: Range<usize>,
    visit: &mut dyn FnMut(usize, &[Entry]),
) {
    let (first, last) = (index(range.start, level), index(range.end - 1, level));
    if level == 0 {
        return visit(range.start, &entries(table)[first..=last]);
    }
    let mut start = range.start;
    for slot in &entries(table)[first..=last] {
        let next = ((start >> shift(level)) + 1) << shift(level);
        let pte = slot.load();
        if pte.is_table() {
            visit_table(
                PhysAddr(pte.phys()),
                level - 1,
                start..next.min(range.end),
                visit,
            );
        } else if pte != Pte::EMPTY {
            visit_huge_page(pte, start..next.min(range.end), visit);
        }
        start = next;
    }
}

#[cold]
#[inline(never)]
fn visit_huge_page(huge: Pte, range: Range<usize>, visit: &mut dyn FnMut(usize, &[Entry])) {
    for page in range.step_by(PAGE_SIZE) {
        let copy = Entry(AtomicU64::new(huge.page(index(page, 0)).0));
        visit(page, core::slice::from_ref(&copy));
    }
}

fn find_huge_page<'a>(
    table: PhysAddr,
    level: usize,
    range: Range<usize>,
) -> Option<(usize, &'a Entry)> {
    let mut start = range.start;
    for slot in &entries(table)[index(range.start, level)..=index(range.end - 1, level)] {
        let span = start >> shift(level) << shift(level);
        let next = span + (1 << shift(level));
        let pte = slot.load();
        if pte.is_table() && level > 1 {
            let part = start..next.min(range.end);
            if let Some(found) = find_huge_page(PhysAddr(pte.phys()), level - 1, part) {
                return Some(found);
            }
        } else if pte != Pte::EMPTY && !pte.is_table() {
            return Some((span, slot));
        }
        start = next;
    }
    None
}

/// Counts `left` down for each huge page and table in `range`, of which those above the last level
/// may be empty; where the first begins for which nothing is left.
fn count_off(
    table: PhysAddr,
    level: usize,
    range: Range<usize>,
    left: &mut usize,
) -> Option<usize> {
    let mut start = range.start;
    for slot in &entries(table)[index(range.start, level)..=index(range.end - 1, level)] {
        let next = ((start >> shift(level)) + 1) << shift(level);
        let pte = slot.load();
        if pte != Pte::EMPTY {
            if *left == 0 {
                return Some(start);
            }
            if pte.is_table() && level > 1 {
                let part = start..next.min(range.end);
                if let Some(end) = count_off(PhysAddr(pte.phys()), level - 1, part, left) {
                    return Some(end);
                }
            }
            // After what is below it, so that each part has something of that.
            *left = left.saturating_sub(1);
        }
        start = next;
    }
    None
}

fn unlink_below(
    table: PhysAddr,
    level: usize,
    range: Range<usize>,
    empty: &Range<usize>,
    unlinked: &mut Unlinked,
    owed: &mut Owed<UnlinkTable>,
) {
    let mut start = range.start;
    for slot in &entries(table)[index(range.start, level)..=index(range.end - 1, level)] {
        let span = start >> shift(level) << shift(level);
        let next = span + (1 << shift(level));
        let pte = slot.load();
        if pte.is_table() {
            let below = PhysAddr(pte.phys());
            if level > 1 {
                let part = start..next.min(range.end);
                unlink_below(below, level - 1, part, empty, unlinked, owed);
            }
            if empty.start <= span && next <= empty.end {
                owed.join(slot.take().1);
                unlinked.add(below);
            }
        }
        start = next;
    }
}
