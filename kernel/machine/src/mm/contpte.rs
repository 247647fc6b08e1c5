//! Contiguous entries. Sixteen pages that lie in memory one after the other, aligned as their
//! addresses are, get entries that say so, and a CPU may hold them as one (arm64's Contiguous bit,
//! RISC-V's Svnapot). They are a *run*.
//!
//! All entries of a run are valid and allow the same, namely what their VMA allows, so that no
//! fault changes them. They map pages of a file, or private memory of which nobody else has a
//! copy. The hardware may set the Access flag in any of them: it is of the run. A change of one
//! page unfolds the run first, under the space's exclusive lock.

use core::mem;
use core::ops::Range;

use super::asid::Context;
use super::fault::{count, count_mapped, prot};
use super::frame::{FRAMES, FrameRef, zeroed_run};
use super::huge_page;
use super::mmu_gather::Gather;
use super::space::Space;
use super::space_lock::Slot;
use super::table::{Entry, Leaf, PageTable, hidden, shown};
use super::vma::{Rights, Source, Vma};
use super::{PAGE_SIZE, PhysAddr};
use crate::arch::branch::{self, Key};
use crate::arch::mmu::{self, Memory, Prot, Pte};
use crate::{arch, params};
use crossings::Kind;
use translation::owed::{Clear, Debts, FillUser, LinkTable, Owed, Unfold};

/// Pages of a run.
pub const PAGES: usize = 16;
/// Bytes of a run.
pub const SIZE: usize = PAGES * PAGE_SIZE;

/// Reads the policy from the command line.
pub(super) fn init() {
    let on = params::choice("contpte", &[("on", true), ("off", false)]);
    if on && mmu::has_contiguous() {
        branch::take(Key::Contiguous);
    }
}

/// Whether there are runs.
#[inline(always)]
pub(super) fn is_on() -> bool {
    arch::is_taken::<{ Key::Contiguous as u32 }>()
}

/// The place of an address's page in its run.
fn place(address: usize) -> usize {
    address / PAGE_SIZE % PAGES
}

/// Whether the run around the page at `address` overlaps a range, or is divided by an empty one.
pub(super) fn overlap(address: usize, range: &Range<usize>) -> bool {
    let start = address & !(SIZE - 1);
    start < range.end && range.start < start + SIZE
}

/// The PTE that a page of a run would have by itself.
#[cold]
pub(super) fn alone(leaf: Leaf, address: usize) -> Pte {
    let run = leaf.run(address);
    let young = run.iter().any(|entry| entry.load().young());
    let place = place(address);
    run[place].load().alone(place).with_young(young)
}

/// Maps, for a read, the run around a page of a file, if that part of the VMA is one in the page
/// cache, and none of its pages is mapped yet; otherwise returns `around`, the cached pages of the
/// part. Runs concurrently with other CPUs' faults.
#[inline(always)]
pub(super) fn fill_file_run(
    table: &PageTable,
    run: &[Entry],
    own: &Slot,
    vma: &Vma,
    around: [Option<FrameRef>; PAGES],
) -> core::result::Result<Owed<FillUser>, [Option<FrameRef>; PAGES]> {
    let first = around[0].as_ref().map_or(1, |frame| frame.phys().0);
    let follows = |(number, frame): (usize, &Option<FrameRef>)| {
        frame
            .as_ref()
            .is_some_and(|frame| frame.phys().0 == first + number * PAGE_SIZE)
    };
    // At the ends of a VMA there are fewer.
    if !first.is_multiple_of(SIZE) || !around.iter().enumerate().all(follows) {
        return Err(around);
    }
    let (writable, shared) = (vma.rights.contains(Rights::WRITE), vma.is_shared());
    // What a program is going to copy is not worth it.
    if writable && !shared || !claim(run) {
        return Err(around);
    }
    let frames = around.map(|frame| frame.expect("looked at"));
    fill(table, run, own, frames, prot(vma, writable));
    count(Kind::FaultFileRead);
    // Of the page that faulted.
    Ok(Owed::new())
}

/// Claims the entries of a run; false if a page of it is mapped already, or another CPU is about to
/// map one, or a copy of one, among them.
fn claim(run: &[Entry]) -> bool {
    let claimed = run.iter().take_while(|entry| entry.claim()).count();
    if claimed < PAGES {
        run[..claimed].iter().for_each(Entry::give_up);
        return false;
    }
    true
}

/// Maps contiguous frames by a run, whose entries are claimed.
#[inline(always)]
fn fill(table: &PageTable, run: &[Entry], own: &Slot, frames: [FrameRef; PAGES], prot: Prot) {
    table.set_runs();
    // All of them before the first entry: it lets a CPU use the others.
    if prot.execute {
        frames.iter().for_each(FrameRef::sync_instructions);
    }
    let first = Pte::leaf(frames[0].phys().0, prot, Memory::Normal);
    for (place, entry) in run.iter().enumerate() {
        let pte = first.page(place).contiguous();
        entry.fill::<FillUser>(pte).leave_to_fault();
    }
    // From now on the entries hold them.
    mem::forget(frames);
    own.data.add(PAGES);
    count_mapped(PAGES as u64 - 1);
    count(Kind::MappedRuns);
}

/// Whether a run of private memory may be mapped at the start of a range of a VMA all pages of
/// which are wanted.
pub(super) fn may_populate(vma: &Vma, range: &Range<usize>) -> bool {
    is_on()
        && range.start.is_multiple_of(SIZE)
        && range.start + SIZE <= range.end.min(vma.end)
        && matches!(vma.source, Source::Anonymous)
        && vma.rights.contains(Rights::WRITE)
}

impl Space {
    /// Maps a run of private memory at `start`, where [`may_populate`] allows it; false if pages
    /// must be mapped one by one. Runs concurrently with other CPUs' faults.
    #[cold]
    pub(super) fn populate_run(
        &self,
        vma: &Vma,
        context: &Context,
        own: &Slot,
        start: usize,
    ) -> bool {
        let leaf = self.table.leaf(start);
        if leaf.is_none() && huge_page::may_be_huge(vma, start) {
            return false;
        }
        let mut pay = |owed: Owed<LinkTable>| context.pay(owed, start..start + SIZE);
        let leaf = leaf.map_or_else(|| self.table.make(start, &mut pay), Ok);
        leaf.is_ok_and(|leaf| self.fill_private(vma, own, leaf.run(start)))
    }

    fn fill_private(&self, vma: &Vma, own: &Slot, run: &[Entry]) -> bool {
        if run.iter().any(|entry| entry.load() != Pte::EMPTY) {
            return false;
        }
        let Some(frames) = zeroed_run() else {
            return false;
        };
        if !claim(run) {
            return false;
        }
        self.table.set_private_runs();
        fill(&self.table, run, own, frames, prot(vma, true));
        count(Kind::FaultAnonWrite);
        true
    }

    /// Makes the pages of all runs that overlap `range` pages by themselves, with the space locked
    /// exclusively.
    pub(super) fn unfold(&self, context: &Context, range: Range<usize>) {
        if self.table.has_runs() {
            self.unfold_each(context, range, |_| true);
        }
    }

    /// Makes the pages of all runs of private memory that overlap `range` pages by themselves, with
    /// the space locked exclusively: before a fork, after which each is copied by itself.
    #[inline]
    pub(super) fn unfold_private(&self, context: &Context, range: Range<usize>) {
        if self.table.has_private_runs() {
            self.unfold_each_private(context, range);
        }
    }

    #[cold]
    #[inline(never)]
    fn unfold_each_private(&self, context: &Context, range: Range<usize>) {
        self.unfold_each(context, range, |run| {
            // On RISC-V too this is the address of a frame of the run.
            FRAMES.at(PhysAddr(run[0].load().phys())).is_anonymous()
        });
    }

    /// Unfolds the runs that overlap `range` and are `wanted`: break before make of all of them,
    /// with one payment.
    #[cold]
    #[inline(never)]
    fn unfold_each(
        &self,
        context: &Context,
        range: Range<usize>,
        wanted: impl Fn(&[Entry]) -> bool,
    ) {
        let mut debts = Debts::<Unfold>::new();
        self.each_run(range, |start, run| {
            if wanted(run) {
                for entry in run {
                    let (_, owed) = entry.update(|pte| hidden(pte.revealed()));
                    debts.add(start..start + SIZE, owed);
                }
            }
        });
        if let Some((span, owed)) = debts.take() {
            context.pay(owed, span.clone());
            self.each_run(span, |_, run| show_alone(run));
        }
    }

    /// Unfolds the runs that only partly lie in `range`.
    pub(super) fn unfold_ends(&self, context: &Context, range: &Range<usize>) {
        for edge in [range.start, range.end] {
            if !edge.is_multiple_of(SIZE) {
                self.unfold(context, edge..edge + 1);
            }
        }
    }

    /// Makes the pages of all runs that overlap `range` invalid pages by themselves, which are
    /// about to be taken away.
    pub(super) fn gather_runs(&self, gather: &mut Gather, range: &Range<usize>) {
        if self.table.has_runs() {
            self.each_run(range.clone(), |start, run| gather.hide_run(start, run));
        }
    }

    fn each_run(&self, range: Range<usize>, mut visit: impl FnMut(usize, &[Entry])) {
        if range.is_empty() {
            return;
        }
        let whole = range.start & !(SIZE - 1)..range.end.next_multiple_of(SIZE);
        self.table.visit(whole, &mut |start, entries| {
            // The pages of a huge page come one at a time.
            for (number, run) in entries.chunks_exact(PAGES).enumerate() {
                if run[0].load().is_contiguous() {
                    visit(start + number * SIZE, run);
                }
            }
        });
    }
}

/// Makes valid pages by themselves of a run that was made invalid; leaves a valid one alone.
fn show_alone(run: &[Entry]) {
    if run[0].load().valid() {
        return;
    }
    let young = run.iter().any(|entry| entry.load().young());
    for (place, entry) in run.iter().enumerate() {
        let pte = entry.load().alone(place).with_young(young);
        entry.fill::<FillUser>(shown(pte)).leave_to_fault();
    }
}

/// Makes invalid pages by themselves of a run; they keep their frames.
pub(super) fn hide(run: &[Entry]) -> Owed<Clear> {
    let mut owed = Owed::new();
    for (place, entry) in run.iter().enumerate() {
        owed.join(entry.update(|pte| hidden(pte.alone(place))).1);
    }
    owed
}
