//! Page tables: trees of tables with 512 entries, in the architecture's encoding.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::contpte;
use super::frame::{FRAMES, FrameRef, Owner, take_private};
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr};
use crate::arch::cpu;
use crate::arch::mmu::{self, Pte};
use crate::errno::{Errno, Result};
use translation::Change;
use translation::owed::{Clear, FillUser, Kind, LinkTable, Owed, Replace, UnlinkTable};

/// Number of entries in a table.
const ENTRIES: usize = PAGE_SIZE / size_of::<Pte>();
/// Number of address bits that one table resolves.
const INDEX_BITS: u32 = ENTRIES.trailing_zeros();

/// log2 of the bytes that one entry of a table covers; level 0 is the last level, which maps pages.
const fn shift(level: usize) -> u32 {
    PAGE_SHIFT + level as u32 * INDEX_BITS
}

const fn index(address: usize, level: usize) -> usize {
    address >> shift(level) & (ENTRIES - 1)
}

/// Makes a PTE invalid that still holds its frame, for pages that may not be accessed. Bit 0 is the
/// valid bit on every architecture, and the hardware ignores all other bits of an invalid entry.
pub fn hidden(pte: Pte) -> Pte {
    Pte(pte.0 & !1)
}

/// The inverse of [`hidden`].
pub fn shown(pte: Pte) -> Pte {
    Pte(pte.0 | 1)
}

/// An entry in memory, which the hardware may read at any time and, while it is valid, change
/// (Access flag, dirty state).
#[repr(transparent)]
pub struct Entry(AtomicU64);

impl Entry {
    /// The current value.
    pub fn load(&self) -> Pte {
        Pte(self.0.load(Relaxed))
    }

    /// Makes an empty entry busy, so that nobody else fills it; false if it is not empty.
    #[must_use]
    pub fn claim(&self) -> bool {
        self.0
            .compare_exchange(Pte::EMPTY.0, Pte::BUSY.0, Relaxed, Relaxed)
            .is_ok()
    }

    /// Makes an entry empty again that was claimed.
    pub fn give_up(&self) {
        debug_assert!(self.load() == Pte::BUSY);
        self.0.store(Pte::EMPTY.0, Relaxed);
    }

    /// Fills an empty or claimed entry that nobody else fills concurrently. Earlier writes to the
    /// frame or table become visible before the entry does.
    #[inline]
    pub fn fill<C: Kind>(&self, pte: Pte) -> Owed<C> {
        debug_assert!(is_change(C::CHANGE, self.load(), pte));
        self.0.store(mmu::new_entry(pte).0, Release);
        Owed::new()
    }

    /// Fills the entry if it is empty; otherwise returns none.
    #[inline]
    #[must_use]
    pub fn try_fill<C: Kind>(&self, pte: Pte) -> Option<Owed<C>> {
        debug_assert!(is_change(C::CHANGE, Pte::EMPTY, pte));
        self.0
            .compare_exchange(Pte::EMPTY.0, mmu::new_entry(pte).0, AcqRel, Relaxed)
            .ok()
            .map(|_| Owed::new())
    }

    /// Empties the entry; returns its previous value.
    #[inline]
    pub fn take<C: Kind>(&self) -> (Pte, Owed<C>) {
        let old = Pte(self.0.swap(Pte::EMPTY.0, AcqRel));
        debug_assert!(is_change(C::CHANGE, old, Pte::EMPTY));
        (old, Owed::new())
    }

    /// Replaces the value `old`; if the entry has changed since, returns its current value.
    #[inline]
    pub fn replace<C: Kind>(&self, old: Pte, new: Pte) -> core::result::Result<Owed<C>, Pte> {
        debug_assert!(is_change(C::CHANGE, old, new));
        self.0
            .compare_exchange(old.0, new.0, AcqRel, Relaxed)
            .map(|_| Owed::new())
            .map_err(Pte)
    }

    /// As [`Entry::replace`], with another frame. If break-before-make is required, `pay` runs
    /// before the new entry is written. A fault in between finds the entry busy and retries, as
    /// does a CPU that still holds the busy entry.
    #[inline(always)]
    pub fn replace_frame(&self, old: Pte, new: Pte, pay: impl FnOnce(Owed<Replace>)) -> bool {
        let first = if mmu::BREAK_FIRST { Pte::BUSY } else { new };
        let Ok(owed) = self.replace(old, first) else {
            return false;
        };
        pay(owed);
        if mmu::BREAK_FIRST {
            self.0.store(mmu::new_entry(new).0, Release);
        }
        true
    }

    /// Applies `change` to an entry; returns its previous value.
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

/// Whether a change owes no more than its declared kind.
fn is_change(called: Change, old: Pte, new: Pte) -> bool {
    match called {
        Change::FillUser | Change::FillKernel => !old.valid() || old.is_unseen(),
        Change::LinkTable => old == Pte::EMPTY && new.is_table(),
        Change::UnlinkTable => old.is_table() && new == Pte::EMPTY,
        Change::Clear | Change::Unfold => hidden(new) == new,
        Change::Replace => true,
        Change::Protect => old.phys() == new.phys(),
        Change::Widen => old.phys() == new.phys(),
        Change::Touch | Change::Age => old.with_young(true) == new.with_young(true),
        Change::Resize => false,
    }
}

/// Bytes that an entry one level above the last covers.
pub const HUGE_PAGE_SIZE: usize = 1 << shift(1);
/// Number of pages in a huge page.
pub const HUGE_PAGE_PAGES: usize = ENTRIES;

/// A last-level table.
#[derive(Clone, Copy)]
pub struct Leaf<'a>(&'a [Entry; ENTRIES]);

impl<'a> Leaf<'a> {
    /// Returns the table in a frame.
    ///
    /// # Safety
    /// The frame is a table that lives at least as long as the result.
    pub unsafe fn at(table: PhysAddr) -> Self {
        Leaf(entries(table))
    }

    /// The entry of the page at `address`, which this table must cover.
    #[inline]
    pub fn entry(self, address: usize) -> &'a Entry {
        &self.0[index(address, 0)]
    }

    /// The entries of the run around the page at `address`.
    pub fn run(self, address: usize) -> &'a [Entry] {
        let first = index(address & !(contpte::SIZE - 1), 0);
        &self.0[first..first + contpte::PAGES]
    }

    /// The entries from the one of the page at `address` to the end of the table.
    pub fn from(self, address: usize) -> &'a [Entry] {
        &self.0[index(address, 0)..]
    }
}

/// Beside the number of huge pages: there are, or were, runs of contiguous entries.
const RUNS: usize = 1 << (usize::BITS - 1);
/// The same of private memory.
const PRIVATE_RUNS: usize = RUNS >> 1;

/// A page-table tree, and the frames of its tables.
pub struct PageTable {
    root: PhysAddr,
    /// Number of entries that hold huge pages, [`RUNS`] and [`PRIVATE_RUNS`].
    huge_pages: AtomicUsize,
    /// Number of tables below the root.
    tables: AtomicUsize,
}

impl PageTable {
    /// Creates an empty tree for a program.
    pub fn new() -> Result<Self> {
        let root = new_table()?;
        // SAFETY: the root is a table that belongs to this tree alone.
        unsafe { mmu::init_user_root(root.linear()) };
        Ok(PageTable::with(root))
    }

    /// Returns the kernel's own tree, which lives forever.
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

    /// Number of tables.
    pub fn tables(&self) -> usize {
        self.tables.load(Relaxed) + 1
    }

    /// The root table's address.
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

    /// The value of the entry of the page at `address`; for a huge page or a run, the entry that
    /// the page would have after a split.
    pub fn lookup(&self, address: usize) -> Pte {
        let mut table = self.root;
        for level in (0..mmu::levels()).rev() {
            let pte = entry(table, index(address, level)).load();
            if level == 0 && pte.is_contiguous() && pte != Pte::BUSY {
                return contpte::alone(Leaf(entries(table)), address);
            }
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

    /// The entry above the last-level table for the page at `address`, if the tables above it
    /// exist.
    pub fn find_above_leaf(&self, address: usize) -> Option<&Entry> {
        let mut table = self.root;
        for level in (2..mmu::levels()).rev() {
            let pte = entry(table, index(address, level)).load();
            if !pte.is_table() {
                return None;
            }
            table = PhysAddr(pte.phys());
        }
        Some(entry(table, index(address, 1)))
    }

    /// The value `pte`, which the entry of the page at `address` has; for one of a run, that which
    /// the page would have by itself.
    pub fn alone(&self, address: usize, pte: Pte) -> Pte {
        match pte.is_contiguous() {
            true => self.lookup(address),
            false => pte,
        }
    }

    /// Returns the entry above the last-level table for the page at `address`, which holds that
    /// table, a huge page, or nothing. Makes the tables above it, concurrently with other CPUs;
    /// `pay` gets what each of them owes.
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

    /// Returns the last-level table for the page at `address`. Makes it and the tables above it,
    /// concurrently with other CPUs; `pay` gets what each of them owes.
    ///
    /// # Errors
    /// ENOMEM; EAGAIN if there is a huge page.
    pub fn make(&self, address: usize, pay: &mut impl FnMut(Owed<LinkTable>)) -> Result<Leaf<'_>> {
        self.make_below(self.above_leaf(address, pay)?, pay)
    }

    /// Returns the last-level table below an entry of [`above_leaf`](Self::above_leaf); makes it if
    /// necessary.
    ///
    /// # Errors
    /// Those of [`make`](Self::make).
    pub fn make_below(
        &self,
        slot: &Entry,
        pay: &mut impl FnMut(Owed<LinkTable>),
    ) -> Result<Leaf<'_>> {
        Ok(Leaf(entries(self.below(slot, pay)?)))
    }

    /// Whether any entry stands for more than one page: a huge page, or one of a run.
    #[inline]
    pub fn has_larger(&self) -> bool {
        self.huge_pages.load(Relaxed) != 0
    }

    /// Whether any entry holds a huge page.
    #[inline]
    pub fn has_huge_pages(&self) -> bool {
        self.huge_pages() != 0
    }

    /// Number of entries that hold huge pages.
    pub fn huge_pages(&self) -> usize {
        self.huge_pages.load(Relaxed) & !(RUNS | PRIVATE_RUNS)
    }

    /// Whether there may be runs.
    pub fn has_runs(&self) -> bool {
        self.huge_pages.load(Relaxed) & RUNS != 0
    }

    /// Whether there may be runs of private memory.
    pub fn has_private_runs(&self) -> bool {
        self.huge_pages.load(Relaxed) & PRIVATE_RUNS != 0
    }

    /// Records that there is a run. Writes only the first time.
    pub fn set_runs(&self) {
        self.set(RUNS);
    }

    /// Records that there is a run of private memory. Writes only the first time.
    pub fn set_private_runs(&self) {
        self.set(RUNS | PRIVATE_RUNS);
    }

    fn set(&self, runs: usize) {
        if self.huge_pages.load(Relaxed) & runs != runs {
            self.huge_pages.fetch_or(runs, Relaxed);
        }
    }

    /// Fills an entry with a huge page; none if another CPU has filled it first.
    #[must_use]
    pub fn try_fill_huge_page(&self, slot: &Entry, huge: Pte) -> Option<Owed<FillUser>> {
        let filled = slot.try_fill(huge);
        self.huge_pages
            .fetch_add(usize::from(filled.is_some()), Relaxed);
        filled
    }

    /// Removes the first huge page that overlaps `range`, with the tree locked exclusively; returns
    /// its address, its entry, and the entry's previous value.
    pub fn take_huge_page(&self, range: Range<usize>) -> Option<(usize, &Entry, Pte, Owed<Clear>)> {
        let (start, slot) = self.next_huge_page(range)?;
        self.huge_pages.fetch_sub(1, Relaxed);
        let (pte, owed) = slot.take();
        Some((start, slot, pte, owed))
    }

    /// Returns the address and the entry of the first huge page that overlaps `range`.
    pub fn next_huge_page(&self, range: Range<usize>) -> Option<(usize, &Entry)> {
        if !self.has_huge_pages() || range.is_empty() {
            return None;
        }
        find_huge_page(self.root, mmu::levels() - 1, range)
    }

    /// Calls `visit` with each entry in `range` that holds a last-level table or a huge page, and
    /// with the first address of the range that it covers.
    pub fn visit_above_leaf(&self, range: Range<usize>, visit: &mut dyn FnMut(usize, &Entry)) {
        if !range.is_empty() {
            visit_level_1(self.root, mmu::levels() - 1, range, visit);
        }
    }

    /// Moves a last-level table with all that it holds from one entry to another, which is empty,
    /// with the tree locked exclusively.
    pub fn move_table(&self, from: &Entry, to: &Entry) -> (Owed<UnlinkTable>, Owed<LinkTable>) {
        let (table, unlinked) = from.take();
        (unlinked, to.fill(table))
    }

    /// Makes the tables directly below the root for a range.
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

    /// Makes the first 2^`order` tables directly below the root of a new tree, one after the other
    /// in memory and aligned to their size together; returns the address of the first.
    ///
    /// # Errors
    /// ENOMEM.
    #[allow(dead_code, reason = "not every architecture has guests")]
    pub fn make_contiguous_top(&self, order: usize) -> Result<PhysAddr> {
        let first = take_private(order, Owner::Kernel).ok_or(Errno::ENOMEM)?;
        for (number, slot) in entries(self.root)[..1 << order].iter().enumerate() {
            let table = PhysAddr(first.0 + number * PAGE_SIZE);
            // SAFETY: the frame has one handle, which is `first`'s, and nobody else knows it.
            let frame = unsafe { FrameRef::from_phys(table) };
            frame.zero();
            // No CPU uses a new tree.
            self.link(slot, frame.into_phys()).held_by_nobody();
        }
        Ok(first)
    }

    /// Returns the end of the first part of `range` that contains `most` tables and huge pages, or
    /// of the range itself; subtracts the number found from `most`.
    pub fn part_end(&self, range: Range<usize>, most: &mut usize) -> usize {
        count_off(self.root, mmu::levels() - 1, range.clone(), most).unwrap_or(range.end)
    }

    /// Calls `visit` with the PTEs of all pages in `range` that have a table, valid or not: runs of
    /// consecutive entries, with the address of each run's first page. The pages of a huge page are
    /// visited one at a time, with copies of their entries.
    #[inline]
    pub fn visit(&self, range: Range<usize>, visit: &mut impl FnMut(usize, &[Entry])) {
        if range.is_empty() {
            return;
        }
        let last = range.end - 1;
        // Most ranges are short: go straight to their only table.
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

    /// Returns the table that an entry points to; makes it if necessary.
    fn below(&self, slot: &Entry, pay: &mut impl FnMut(Owed<LinkTable>)) -> Result<PhysAddr> {
        let pte = slot.load();
        if pte.is_table() {
            return Ok(PhysAddr(pte.phys()));
        }
        self.grow(slot, pay)
    }

    /// Links a table into an empty entry, which nobody else fills concurrently.
    pub fn link(&self, slot: &Entry, table: PhysAddr) -> Owed<LinkTable> {
        self.tables.fetch_add(1, Relaxed);
        slot.fill(Pte::table(table.0))
    }

    // Inlined, so that each caller's `pay` is known at compile time.
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

    /// Unlinks the tables that overlap `range` and cover nothing outside `empty`, which contains no
    /// VMA; none if there are none. CPUs may reach them until the debt is paid.
    #[must_use]
    pub fn unlink(
        &mut self,
        range: Range<usize>,
        empty: Range<usize>,
    ) -> Option<(Unlinked, Owed<UnlinkTable>)> {
        // The smallest unit to free is a last-level table.
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

/// Tables that are no longer in a tree, linked through their frames' metadata: the first frame's
/// number. Dropping this frees them; by then all debts must be paid and no entry may hold a frame.
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
            // SAFETY: `new_table` made this table, and `unlink` took it out.
            unsafe { give_table(table) };
        }
    }
}

/// The rest of the tree must have been unlinked, and no CPU may use it. The kernel's tree is never
/// dropped.
impl Drop for PageTable {
    fn drop(&mut self) {
        // SAFETY: `new` turned the root's only handle into an address.
        drop(unsafe { FrameRef::from_phys(self.root) });
    }
}

/// Allocates an empty table, as an address that keeps the only handle of its frame.
fn new_table() -> Result<PhysAddr> {
    match cpu::this().tables.with(EmptyTables::take) {
        Some(table) => Ok(table),
        None => Ok(FrameRef::zeroed(Owner::Kernel)?.into_phys()),
    }
}

/// Frees a table, whose entries are all empty again.
///
/// # Safety
/// It came from `new_table`, and no entry refers to it any more.
unsafe fn give_table(table: PhysAddr) {
    debug_assert!(
        entries(table)
            .iter()
            .all(|entry| entry.load() == Pte::EMPTY)
    );
    if !cpu::this().tables.with(|kept| kept.keep(table)) {
        // SAFETY: `new_table` turned the only handle into this address.
        drop(unsafe { FrameRef::from_phys(table) });
    }
}

/// A CPU's cache of empty tables, which need not be zeroed again: linked through their frames'
/// metadata.
pub struct EmptyTables {
    first: u32,
    count: usize,
}

impl EmptyTables {
    /// As many tables as some small programs have.
    const MOST: usize = 16;

    /// An empty cache.
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
    // in the linear map, atomics for which any bits are valid. Tables are freed only by `&mut`
    // methods, and references that the tree hands out borrow it.
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

fn visit_level_1(
    table: PhysAddr,
    level: usize,
    range: Range<usize>,
    visit: &mut dyn FnMut(usize, &Entry),
) {
    let mut start = range.start;
    for slot in &entries(table)[index(range.start, level)..=index(range.end - 1, level)] {
        let next = ((start >> shift(level)) + 1) << shift(level);
        let pte = slot.load();
        if level == 1 && pte != Pte::EMPTY {
            visit(start, slot);
        } else if level > 1 && pte.is_table() {
            let part = start..next.min(range.end);
            visit_level_1(PhysAddr(pte.phys()), level - 1, part, visit);
        }
        start = next;
    }
}

/// Decrements `left` for each huge page and table in `range`, where tables above the last level may
/// be empty; returns the address of the first one for which nothing is left.
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
            // After the tables below it, so that each part contains some of those.
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
