//! Unmapping: frames are freed only after the TLB maintenance, which is done once, however many
//! PTEs change. The first few frames are gathered; further PTEs become invalid but keep their
//! frames, which a second walk takes out when no CPU can reach them any more.

use core::mem::MaybeUninit;

use super::PAGE_SIZE;
use super::PhysAddr;
use super::asid::Context;
use super::contpte;
use super::fault::zero_frame;
use super::frame::{FRAMES, FrameRef};
use super::huge_page::{self, HugePages};
use super::table::{Entry, hidden};
use crate::arch::mmu::Pte;
use translation::owed::{Clear, Debts, Owed, UnlinkTable};

/// Number of frames that are gathered.
const GATHERED: usize = 64;

/// Frames that PTEs no longer hold, but that some CPU may still reach through its TLB.
pub struct Gather<'a> {
    /// The context of the translations; none if no CPU can hold any.
    context: Option<&'a Context>,
    /// The first `count` are initialized.
    frames: [MaybeUninit<FrameRef>; GATHERED],
    count: usize,
    huge_pages: HugePages,
    owed: Debts<Clear>,
    /// Number of pages taken, excluding those in `frames`.
    taken: usize,
    /// Number of PTEs that still hold their frames.
    left: usize,
    /// Number of PTEs that mapped the zero page.
    zeroes: usize,
}

impl<'a> Gather<'a> {
    /// Creates a gather for a space that may be running.
    pub fn new(context: &'a Context) -> Self {
        Self::with(Some(context))
    }

    /// Creates a gather for a space whose translations are in no TLB, and that never runs again.
    pub fn dead() -> Self {
        Self::with(None)
    }

    fn with(context: Option<&'a Context>) -> Self {
        Gather {
            context,
            frames: [const { MaybeUninit::uninit() }; GATHERED],
            count: 0,
            huge_pages: HugePages::NONE,
            owed: Debts::new(),
            taken: 0,
            left: 0,
            zeroes: 0,
        }
    }

    /// Empties all PTEs of a run that begins with the page at `start`.
    pub fn take_all(&mut self, start: usize, entries: &[Entry]) {
        if self.context.is_none() {
            let filled = entries.iter().filter(|entry| entry.load() != Pte::EMPTY);
            return filled.for_each(|entry| self.release(entry));
        }
        for (index, entry) in entries.iter().enumerate() {
            if entry.load() != Pte::EMPTY {
                self.take(start + index * PAGE_SIZE, entry);
            }
        }
    }

    /// Empties the PTEs of a run that hold frames of files.
    pub fn take_shared(&mut self, start: usize, entries: &[Entry]) {
        for (index, entry) in entries.iter().enumerate() {
            let pte = entry.load();
            if pte != Pte::EMPTY && !FRAMES.at(PhysAddr(pte.phys())).is_anonymous() {
                self.take(start + index * PAGE_SIZE, entry);
            }
        }
    }

    /// Takes over a huge page that an entry held for the addresses from `start` on.
    ///
    /// # Safety
    /// Those of [`HugePages::add`].
    pub unsafe fn take_huge_page(&mut self, start: usize, huge: PhysAddr, owed: Owed<Clear>) {
        self.owed.add(start..start + huge_page::SIZE, owed);
        self.taken += huge_page::SIZE / PAGE_SIZE;
        // SAFETY: guaranteed by the caller.
        unsafe { self.huge_pages.add(huge) };
    }

    /// Makes the pages of a run invalid pages by themselves, which are to be taken one by one.
    #[cold]
    pub fn hide_run(&mut self, start: usize, run: &[Entry]) {
        let owed = contpte::hide(run);
        match self.context {
            Some(_) => self.owed.add(start..start + contpte::SIZE, owed),
            None => owed.held_by_nobody(),
        }
    }

    #[inline(always)]
    fn take(&mut self, page: usize, entry: &Entry) {
        if self.context.is_none() {
            return self.release(entry);
        }
        let Some(slot) = self.frames.get_mut(self.count) else {
            let (_, owed) = entry.update(hidden);
            self.owed.add(page..page + PAGE_SIZE, owed);
            self.left += 1;
            return;
        };
        let (pte, owed) = entry.take();
        self.owed.add(page..page + PAGE_SIZE, owed);
        let frame = PhysAddr(pte.phys());
        if frame == zero_frame() {
            self.zeroes += 1;
            return;
        }
        // SAFETY: the PTE held this handle, and `take` emptied it.
        slot.write(unsafe { FrameRef::from_phys(frame) });
        self.count += 1;
    }

    /// Empties a PTE that no CPU can reach.
    #[inline(always)]
    fn release(&mut self, entry: &Entry) {
        let (pte, owed) = entry.take::<Clear>();
        owed.held_by_nobody();
        let frame = PhysAddr(pte.phys());
        if frame == zero_frame() {
            self.zeroes += 1;
            return;
        }
        // SAFETY: the PTE held this handle, and `take` emptied it.
        drop(unsafe { FrameRef::from_phys(frame) });
    }

    /// Performs the owed TLB maintenance, including that of `tables`, which were unlinked, and
    /// drops the frames. If it returns true, the same walk must be repeated with [`Gather::dead`].
    /// By reference, since the struct of half a KiB should not be moved.
    #[must_use]
    pub fn flush(&mut self, tables: Option<Owed<UnlinkTable>>) -> bool {
        self.pay(tables);
        self.left != 0
    }

    /// Number of pages that a running space has lost, after [`Gather::flush`] and the second walk
    /// by `rest`.
    pub fn taken(&self, rest: Option<&Gather>) -> usize {
        self.taken + rest.map_or(0, |rest| self.left - rest.zeroes)
    }

    fn pay(&mut self, tables: Option<Owed<UnlinkTable>>) {
        match (self.context, tables, self.owed.take()) {
            (Some(context), Some(tables), Some((span, pages))) => {
                context.pay(tables.with_pages(pages), span)
            }
            (Some(context), Some(tables), None) => context.pay(tables, 0..0),
            (Some(context), None, Some((span, pages))) => context.pay(pages, span),
            (_, tables, pages) => {
                if let Some(tables) = tables {
                    tables.held_by_nobody();
                }
                if let Some((_, pages)) = pages {
                    pages.held_by_nobody();
                }
            }
        }
        let count = core::mem::take(&mut self.count);
        self.taken += count;
        for frame in self.frames.iter().take(count) {
            // SAFETY: `take` wrote the first `count`; with the count at 0 none is read again.
            drop(unsafe { frame.assume_init_read() });
        }
        self.huge_pages.free();
    }
}

impl Drop for Gather<'_> {
    fn drop(&mut self) {
        // After `flush` nothing is owed.
        if !self.owed.is_empty() {
            self.pay(None);
        }
    }
}
