//! Unmapping: what entries held is let go only after every CPU has forgotten the translations,
//! which they do once, however many entries there are. The first few frames are gathered; entries
//! beyond become invalid but keep their frames, which are taken out in a second walk, when nobody
//! can reach them any more.

use core::mem::MaybeUninit;

use super::PAGE_SIZE;
use super::PhysAddr;
use super::asid::Context;
use super::fault::zero_frame;
use super::frame::{FRAMES, FrameRef};
use super::huge_page::{self, HugePages};
use super::table::{Entry, hidden};
use crate::arch::mmu::Pte;
use translation::owed::{Clear, Debts, Owed, UnlinkTable};

/// Frames that are gathered.
const GATHERED: usize = 64;

/// Frames that entries no longer hold, but that some CPU may still reach; to be settled.
pub struct Gather<'a> {
    /// The context of the translations; none if no CPU can hold any.
    context: Option<&'a Context>,
    /// The first `count` are there.
    frames: [MaybeUninit<FrameRef>; GATHERED],
    count: usize,
    huge_pages: HugePages,
    owed: Debts<Clear>,
    /// Pages that were taken, as far as they are not among `frames`.
    taken: usize,
    /// Entries that were left with their frames.
    left: usize,
    /// Entries that held the frame of zeroes.
    zeroes: usize,
}

impl<'a> Gather<'a> {
    /// For a space that may be running.
    pub fn new(context: &'a Context) -> Self {
        Self::with(Some(context))
    }

    /// For a space whose translations every CPU has forgotten, and that never runs again.
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

    /// Empties all entries of a run that begins with the page at `start`.
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

    /// Empties the entries of a run that hold frames of files.
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
    /// As for [`HugePages::add`].
    pub unsafe fn take_huge_page(&mut self, start: usize, huge: PhysAddr, owed: Owed<Clear>) {
        self.owed.add(start..start + huge_page::SIZE, owed);
        self.taken += huge_page::SIZE / PAGE_SIZE;
        // SAFETY: the caller's promise.
        unsafe { self.huge_pages.add(huge) };
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
        // SAFETY: the entry held this handle, and `take` left it empty.
        slot.write(unsafe { FrameRef::from_phys(frame) });
        self.count += 1;
    }

    /// Empties an entry that no CPU can reach.
    #[inline(always)]
    fn release(&mut self, entry: &Entry) {
        let (pte, owed) = entry.take::<Clear>();
        owed.held_by_nobody();
        let frame = PhysAddr(pte.phys());
        if frame == zero_frame() {
            self.zeroes += 1;
            return;
        }
        // SAFETY: the entry held this handle, and `take` left it empty.
        drop(unsafe { FrameRef::from_phys(frame) });
    }

    /// Pays for the entries, with `tables` for tables that were unlinked too, and lets go of the
    /// frames. If it says so, the same walk is due once more, with what [`Gather::dead`] returns.
    /// By reference: it is half a KiB that nobody should move.
    #[must_use]
    pub fn flush(&mut self, tables: Option<Owed<UnlinkTable>>) -> bool {
        self.pay(tables);
        self.left != 0
    }

    /// How many pages a running space has lost, once that is settled, and `rest` has made the
    /// second walk.
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
        // Nothing is left of what was paid.
        if !self.owed.is_empty() {
            self.pay(None);
        }
    }
}
