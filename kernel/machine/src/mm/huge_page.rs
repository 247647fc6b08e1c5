//! Transparent huge pages: private memory mapped by a single block entry, where a program has a
//! contiguous range of that size. Code that needs the individual pages splits the huge page; each
//! frame keeps its own reference count.

use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::asid::Context;
use super::contpte;
use super::fault::{self, Access, Failure};
use super::frame::{self, FRAMES, FrameRef, Owner};
use super::mmu_gather::Gather;
use super::space::Space;
use super::space_lock::Slot;
use super::table::{Entry, HUGE_PAGE_PAGES, HUGE_PAGE_SIZE, Leaf};
use super::vma::{Flags, Rights, Source, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr};
use crate::arch::mmu::{self, Pte};
use crate::errno::{Errno, Result};
use crate::params;
use crate::upcall;
use crossings::Kind;
use translation::owed::{Age, FillUser, LinkTable, Owed, Touch};

/// Bytes in a huge page.
pub const SIZE: usize = HUGE_PAGE_SIZE;

/// The VMAs that get huge pages (`transparent_hugepage=`, as on Linux).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Policy {
    /// All private memory.
    Always,
    /// VMAs with MADV_HUGEPAGE.
    Madvise,
    /// None.
    Never,
}

/// All policies by name, the default first.
pub const POLICIES: [(&str, Policy); 3] = [
    ("always", Policy::Always),
    ("madvise", Policy::Madvise),
    ("never", Policy::Never),
];

static POLICY: AtomicU8 = AtomicU8::new(Policy::Always as u8);

/// Reads the policy from the command line.
pub(super) fn init() {
    let policy = params::choice("transparent_hugepage", &POLICIES);
    POLICY.store(policy as u8, Relaxed);
}

/// The current policy.
pub fn policy() -> Policy {
    match POLICY.load(Relaxed) {
        0 => Policy::Always,
        1 => Policy::Madvise,
        _ => Policy::Never,
    }
}

/// Whether a VMA gets a huge page around `page`, and has room for it.
pub(super) fn may_be_huge(vma: &Vma, page: usize) -> bool {
    let start = page & !(SIZE - 1);
    if start < vma.start || start + SIZE > vma.end {
        return false;
    }
    let asked = match policy() {
        Policy::Always => !vma.flags.contains(Flags::NO_HUGE),
        Policy::Madvise => vma.flags.contains(Flags::HUGE),
        Policy::Never => false,
    };
    asked
        && matches!(vma.source, Source::Anonymous)
        && vma.rights.contains(Rights::WRITE)
        && !vma.rights.contains(Rights::EXECUTE)
        && !vma.flags.contains(Flags::GROWS_DOWN)
        && upcall::may_have_huge_pages()
}

/// A huge page's frames, with one reference to each.
struct Frames(PhysAddr);

const ORDER: usize = HUGE_PAGE_PAGES.trailing_zeros() as usize;

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: `HugePage::new` took the frames, and this owns their handles.
        unsafe { frame::give_private(self.0, ORDER) };
    }
}

/// The contents of a huge page's entry: its frames, and one for the table that a split needs, so
/// that a split cannot fail.
pub struct HugePage {
    frames: Frames,
    table: FrameRef,
}

impl HugePage {
    /// Allocates a zeroed huge page; none if memory is short or fragmented.
    fn new() -> Option<Self> {
        let table = FrameRef::new(Owner::Kernel).ok()?;
        let frames = Frames(frame::take_private(ORDER, Owner::Anonymous)?);
        // SAFETY: the frames of the huge page, to which nobody else has a reference yet.
        unsafe { mmu::zero_pages(frames.0.linear() as *mut u8, HUGE_PAGE_PAGES) };
        Some(HugePage { frames, table })
    }

    /// Turns the huge page into an address, for an entry that holds it from now on. The metadata of
    /// its first frame records the frame for the table.
    fn into_phys(self) -> PhysAddr {
        let HugePage { frames, table } = self;
        let first = frames.0;
        FRAMES
            .at(first)
            .set_links(0, (table.into_phys().0 >> PAGE_SHIFT) as u32);
        core::mem::forget(frames);
        first
    }

    /// Takes the huge page back from an entry: the inverse of `into_phys`.
    ///
    /// # Safety
    /// `first` came from `into_phys`, and each such address is taken back at most once.
    unsafe fn from_phys(first: PhysAddr) -> Self {
        let table = FRAMES.at(first).next() as usize;
        // SAFETY: `into_phys` turned the handle into this number; the caller guarantees that it is
        // taken back once.
        let table = unsafe { FrameRef::from_phys(PhysAddr(table << PAGE_SHIFT)) };
        let frames = Frames(first);
        HugePage { frames, table }
    }

    /// Converts the huge page to pages: a table of PTEs with the attributes of `pte`, the huge
    /// page's entry, which then hold the frames. Runs that do not overlap the bytes `changing` of
    /// the huge page stay together, if it was used: a copy of an old entry would tell a hart that
    /// pages are old which another has used since.
    fn into_table(self, pte: Pte, changing: &Range<usize>) -> PhysAddr {
        let HugePage { frames, table } = self;
        core::mem::forget(frames);
        table.zero();
        let table = table.into_phys();
        // SAFETY: a zeroed frame, to which only the result refers.
        let leaf = unsafe { Leaf::at(table) };
        for index in 0..HUGE_PAGE_PAGES {
            let (at, page) = (index * PAGE_SIZE, pte.page(index));
            let pte = match pte.young() && !contpte::overlap(at, changing) {
                true => page.contiguous(),
                false => page,
            };
            leaf.entry(at).fill::<FillUser>(pte).held_by_nobody();
        }
        table
    }
}

/// A huge page's frames with an additional reference to each, for a guest's translation.
pub struct MappedFrames(PhysAddr);

impl MappedFrames {
    pub(super) fn new(first: PhysAddr) -> Self {
        for page in (first.0..).step_by(PAGE_SIZE).take(HUGE_PAGE_PAGES) {
            core::mem::forget(FrameRef::clone_phys(PhysAddr(page)));
        }
        MappedFrames(first)
    }

    /// The address of the first frame.
    pub fn phys(&self) -> u64 {
        self.0.0 as u64
    }

    /// Turns this into an address that keeps the frames, for a translation that holds them from now
    /// on.
    pub fn into_phys(self) -> u64 {
        let first = self.phys();
        core::mem::forget(self);
        first
    }

    /// Takes the frames back from a translation: the inverse of `into_phys`.
    ///
    /// # Safety
    /// `first` came from `into_phys`, and each such address is taken back at most once.
    pub unsafe fn from_phys(first: u64) -> Self {
        MappedFrames(PhysAddr(first as usize))
    }
}

impl Drop for MappedFrames {
    fn drop(&mut self) {
        for page in (self.0.0..).step_by(PAGE_SIZE).take(HUGE_PAGE_PAGES) {
            // SAFETY: `new` took a handle of each frame.
            drop(unsafe { FrameRef::from_phys(PhysAddr(page)) });
        }
    }
}

/// Huge pages that no entry holds any more, linked through the metadata of their first frames.
pub struct HugePages(u32);

impl HugePages {
    /// No huge pages.
    pub const NONE: Self = HugePages(0);

    /// Adds a huge page.
    ///
    /// # Safety
    /// An entry held `first`, and has been emptied.
    pub unsafe fn add(&mut self, first: PhysAddr) {
        let meta = FRAMES.at(first);
        meta.set_links(self.0, meta.next());
        self.0 = (first.0 >> PAGE_SHIFT) as u32;
    }

    /// Drops all of them.
    #[inline]
    pub fn free(&mut self) {
        if self.0 != 0 {
            self.free_each();
        }
    }

    #[cold]
    #[inline(never)]
    fn free_each(&mut self) {
        while self.0 != 0 {
            let first = PhysAddr((self.0 as usize) << PAGE_SHIFT);
            self.0 = FRAMES.at(first).links().0;
            // SAFETY: guaranteed by the caller of `add`; it is out of the list.
            drop(unsafe { HugePage::from_phys(first) });
        }
    }
}

impl Space {
    /// Handles a fault on `page` whose last-level table is missing: installs a huge page, or finds
    /// one; otherwise makes the table, and fills the page in. Runs concurrently with other CPUs. A
    /// single payment covers the tables and the entries filled in below them.
    #[cold]
    #[inline(never)]
    pub(super) fn without_leaf<const TAGS: bool>(
        &self,
        vma: &Vma,
        context: &Context,
        own: &Slot,
        page: usize,
        access: Access,
    ) -> core::result::Result<(), Failure> {
        let mut tables = None;
        // Only a write installs a huge page.
        let anew = (access == Access::Write).then_some((vma, own));
        let done = match self.leaf_or_huge_page::<TAGS>(anew, context, page, &mut tables) {
            Ok(Some(leaf)) => {
                // Also for another CPU's table, which this one may not have seen either.
                tables.get_or_insert_with(Owed::new);
                self.resolve_page::<true, TAGS>(vma, context, own, leaf, page, access)
            }
            Ok(None) => Ok(()),
            Err(_) => Err(Failure::NoMemory),
        };
        if let Some(owed) = tables {
            context.pay(owed, page..page + PAGE_SIZE);
        }
        done
    }

    /// Returns the last-level table, or none if there is a huge page, including one that is
    /// installed because of `anew`. The debts of new tables are added to `tables`.
    pub(super) fn leaf_or_huge_page<const TAGS: bool>(
        &self,
        anew: Option<(&Vma, &Slot)>,
        context: &Context,
        page: usize,
        tables: &mut Option<Owed<LinkTable>>,
    ) -> Result<Option<Leaf<'_>>> {
        let slot = self
            .table
            .above_leaf(page, &mut |owed| owed.join_to(tables))?;
        let pte = slot.load();
        if pte != Pte::EMPTY && !pte.is_table() {
            touch(context, slot, pte, page);
            return Ok(None);
        }
        if pte == Pte::EMPTY
            && let Some((vma, own)) = anew
            && may_be_huge(vma, page)
            && let Some(huge) = HugePage::new()
        {
            let filled = self.fill_huge_page::<TAGS>(vma, own, slot, huge);
            // Also for another CPU's huge page, which this one may not have seen either.
            let filled = filled.unwrap_or_else(Owed::new);
            match tables {
                Some(_) => filled.paid_with_table(),
                None => context.pay(filled, page..page + PAGE_SIZE),
            }
            return Ok(None);
        }
        match self
            .table
            .make_below(slot, &mut |owed| owed.join_to(tables))
        {
            Err(Errno::EAGAIN) => Ok(None),
            made => made.map(Some),
        }
    }

    fn fill_huge_page<const TAGS: bool>(
        &self,
        vma: &Vma,
        own: &Slot,
        slot: &Entry,
        huge: HugePage,
    ) -> Option<Owed<FillUser>> {
        let first = huge.into_phys();
        if TAGS && vma.rights.contains(Rights::TAGGED) {
            for page in (first.0..).step_by(PAGE_SIZE).take(HUGE_PAGE_PAGES) {
                FrameRef::clone_phys(PhysAddr(page)).sync_tags();
            }
        }
        let memory = fault::memory::<TAGS>(vma);
        let pte = Pte::huge_leaf(first.0, fault::prot(vma, true), memory);
        let filled = self.table.try_fill_huge_page(slot, pte);
        if filled.is_some() {
            fault::count(Kind::FaultAnonWrite);
            fault::count_mapped(HUGE_PAGE_PAGES as u64 - 1);
            own.data.add(HUGE_PAGE_PAGES);
        } else {
            fault::count(Kind::FaultSpurious);
            // SAFETY: no entry took it.
            drop(unsafe { HugePage::from_phys(first) });
        }
        filled
    }

    /// Splits all huge pages that overlap `range` and unfolds all runs there, with the space locked
    /// exclusively.
    #[inline]
    pub(super) fn split(&self, context: &Context, range: Range<usize>) {
        if self.table.has_larger() {
            self.split_all(context, range);
        }
    }

    #[cold]
    #[inline(never)]
    fn split_all(&self, context: &Context, range: Range<usize>) {
        self.unfold(context, range.clone());
        self.split_each(context, range.clone(), &range);
    }

    /// Splits all huge pages that overlap `range`. Runs stay as they are: for fork, which copies
    /// none of those of files.
    #[inline]
    pub(super) fn split_huge_pages(&self, context: &Context, range: Range<usize>) {
        if self.table.has_larger() {
            self.split_each(context, range.clone(), &range);
        }
    }

    /// Splits all huge pages that overlap `range`. Their pages become runs, but for those around
    /// the pages `changing`.
    #[cold]
    #[inline(never)]
    fn split_each(&self, context: &Context, range: Range<usize>, changing: &Range<usize>) {
        while let Some((start, slot, pte, owed)) = self.table.take_huge_page(range.clone()) {
            context.pay(owed, start..start + SIZE);
            // SAFETY: the entry held it, and is empty now.
            let huge = unsafe { HugePage::from_phys(PhysAddr(pte.phys())) };
            let changing = match contpte::is_on() {
                true => changing.start.saturating_sub(start)..(changing.end - start).min(SIZE),
                false => 0..SIZE,
            };
            if changing != (0..SIZE) {
                self.table.set_private_runs();
            }
            let owed = self
                .table
                .link(slot, huge.into_table(pte.revealed(), &changing));
            context.pay(owed, start..start + SIZE);
        }
    }

    /// Splits the huge pages, and unfolds the runs, that only partly lie in `range`.
    #[inline]
    pub(super) fn split_ends(&self, context: &Context, range: &Range<usize>) {
        if self.table.has_larger() {
            self.split_both_ends(context, range);
        }
    }

    #[cold]
    #[inline(never)]
    fn split_both_ends(&self, context: &Context, range: &Range<usize>) {
        for edge in [range.start, range.end] {
            if !edge.is_multiple_of(SIZE) {
                self.split_each(context, edge..edge + 1, &(edge..edge));
            }
        }
        self.unfold_ends(context, range);
    }

    /// Removes all huge pages that overlap `range`, and makes the pages of runs there pages by
    /// themselves.
    #[inline]
    pub(super) fn gather_larger(&self, gather: &mut Gather, range: &Range<usize>) {
        if self.table.has_larger() {
            self.gather_each_larger(gather, range.clone());
        }
    }

    #[cold]
    #[inline(never)]
    fn gather_each_larger(&self, gather: &mut Gather, range: Range<usize>) {
        self.gather_runs(gather, &range);
        while let Some((start, _, pte, owed)) = self.table.take_huge_page(range.clone()) {
            // SAFETY: the entry held it, and is empty now.
            unsafe { gather.take_huge_page(start, PhysAddr(pte.phys()), owed) };
        }
    }

    /// Number of pages of `range` that are mapped as huge pages.
    pub(super) fn huge_page_count(&self, range: Range<usize>) -> usize {
        let mut pages = 0;
        self.each_huge_page(range.clone(), |start, _| {
            let part = start.max(range.start)..(start + SIZE).min(range.end);
            pages += part.len() / PAGE_SIZE;
        });
        pages
    }

    /// Clears the Access flag of all huge pages that overlap `range`.
    pub(super) fn age_huge_pages(&self, range: Range<usize>) -> Owed<Age> {
        let mut owed = Owed::new();
        self.each_huge_page(range, |_, slot| {
            let (_, also) = slot.update(|pte| pte.with_young(false));
            owed.join(also);
        });
        owed
    }

    fn each_huge_page(&self, mut range: Range<usize>, mut visit: impl FnMut(usize, &Entry)) {
        while let Some((start, slot)) = self.table.next_huge_page(range.clone()) {
            visit(start, slot);
            range.start = (start + SIZE).min(range.end);
        }
    }
}

/// Handles a huge page that already allows the access: this CPU has not seen it yet, or only the
/// Access flag is clear.
fn touch(context: &Context, slot: &Entry, pte: Pte, page: usize) {
    if pte.young() || pte.is_unseen() {
        fault::count(Kind::FaultSpurious);
        if pte.is_unseen() {
            fault::make_visible(slot, pte);
        }
        return context.recover(page);
    }
    fault::count(Kind::FaultAccessFlag);
    if let Ok(owed) = slot.replace::<Touch>(pte, pte.with_young(true)) {
        context.pay(owed, page..page + PAGE_SIZE);
    }
}
