//! The statistics that `/proc` and `mincore` report about the pages of a space.

use core::ops::Range;

use super::PhysAddr;
use super::fault::zero_frame;
use super::frame::FRAMES;
use super::space::AddressSpace;
use super::vma::{Source, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE};
use crate::arch::mmu::Pte;

/// Number of pages of a VMA by kind, as in `/proc/PID/smaps`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Present, except the zero page.
    pub resident: usize,
    /// Accessed since they were mapped or `clear_refs` was last written.
    pub referenced: usize,
    /// Private memory.
    pub anonymous: usize,
    /// With other holders, too.
    pub shared: usize,
    /// Written to since mapped; private pages always count, as they exist only after a write.
    pub dirty: usize,
    /// Dirty pages with other holders.
    pub shared_dirty: usize,
    /// Mapped as huge pages.
    pub huge: usize,
    /// The proportional set size: each page divided by its number of holders, in bytes.
    pub proportional: usize,
}

/// The size of a space, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    /// In all VMAs.
    pub vmas: usize,
    /// Taken by page tables.
    pub tables: usize,
    /// Present, except the zero page.
    pub resident: usize,
    /// The peak of resident pages.
    pub peak: usize,
}

impl AddressSpace {
    /// Counts the pages present in a range. May sleep.
    pub fn usage(&self, range: Range<usize>) -> Usage {
        let mut usage = Usage::default();
        self.each_part_of(range, |space, part| {
            space.table.visit(part.clone(), &mut |start, entries| {
                for (page, entry) in (start..).step_by(PAGE_SIZE).zip(entries) {
                    usage.add(space.table.alone(page, entry.load()));
                }
            });
            usage.huge += space.huge_page_count(part);
        });
        usage
    }

    /// Counts the present pages that are not private memory: those of files. May sleep.
    pub fn file_pages(&self) -> usize {
        // Memory without a file has none of them.
        let of_files = |vma: &Vma| matches!(vma.source, Source::File { .. });
        let pages = self.vmas().filter(of_files).map(|vma| {
            let usage = self.usage(vma.range());
            usage.resident - usage.anonymous
        });
        pages.sum()
    }

    /// The size of the space.
    #[inline]
    pub fn size(&self) -> Size {
        let space = self.read_lock();
        let resident = space.pages.wrapping_add(space.counted());
        let resident = resident.wrapping_sub(space.taken);
        Size {
            vmas: space.vmas.totals().all / PAGE_SIZE,
            tables: space.table.tables(),
            resident,
            peak: space.peak.max(resident),
        }
    }

    /// Number of pages of kernel memory for this space: its page tables and VMAs.
    pub fn overhead(&self) -> usize {
        let space = self.read_lock();
        space.table.tables() + space.vmas.count() * size_of::<Vma>() / PAGE_SIZE
    }

    /// Resets the peak of resident pages.
    pub fn reset_peak(&self) {
        self.lock().peak = 0;
    }

    /// The end of the program's addresses.
    pub fn end(&self) -> usize {
        self.read_lock().end
    }

    /// Calls `visit` for the present pages of a range with the address, the frame number, and
    /// whether it is private memory.
    pub fn held(&self, range: Range<usize>, mut visit: impl FnMut(usize, usize, bool)) {
        // Locked exclusively, so that no PTE is busy.
        let space = self.lock();
        space.table.visit(range, &mut |start, entries| {
            for (page, entry) in (start..).step_by(PAGE_SIZE).zip(entries) {
                let pte = space.table.alone(page, entry.load());
                let frame = PhysAddr(pte.phys());
                if pte != Pte::EMPTY {
                    let private = frame == zero_frame() || FRAMES.at(frame).is_anonymous();
                    visit(page, frame.0 >> PAGE_SHIFT, private);
                }
            }
        });
    }

    /// Sets `answer` to 1 for each page of a range of `vma` that is present, or would be without
    /// waiting, and otherwise to 0. False if the range is of another VMA by now.
    pub fn present(&self, vma: &Vma, range: Range<usize>, answer: &mut [u8]) -> bool {
        answer.fill(0);
        let space = self.lock();
        let Some(now) = space.vmas.touching(range.clone()).next() else {
            return false;
        };
        if now.start > range.start || now.end < range.end || !now.agrees(vma, range.start) {
            return false;
        }
        if let Source::File { mapping, offset } = &now.source {
            let page = |address: usize| (offset + address - now.start) >> PAGE_SHIFT;
            let (first, end) = (page(range.start), page(range.end));
            let mut at = first;
            while let Some(cached) = mapping.next_present(at).filter(|&page| page < end) {
                let mut frame = [None];
                mapping.present(cached, &mut frame);
                answer[cached - first] = frame[0].is_some().into();
                at = cached + 1;
            }
        }
        space.table.visit(range.clone(), &mut |start, entries| {
            let answer = &mut answer[(start - range.start) >> PAGE_SHIFT..];
            for (entry, answer) in entries.iter().zip(answer) {
                *answer |= u8::from(entry.load() != Pte::EMPTY);
            }
        });
        true
    }

    /// Clears the Access flag of all pages of the VMAs `wanted`, so that `Referenced` counts from
    /// zero. May sleep.
    pub fn clear_references(&self, wanted: impl Fn(&Vma) -> bool) {
        for vma in self.vmas().filter(|vma| wanted(vma)) {
            self.each_part_of(vma.range(), |space, part| {
                // From here on each page has a flag of its own, which software may have to set.
                space.unfold(self.context(), part.clone());
                let mut owed = space.age_huge_pages(part.clone());
                space.table.visit(part.clone(), &mut |_, entries| {
                    for entry in entries.iter().filter(|entry| entry.load().valid()) {
                        let (_, also) = entry.update(|pte| pte.with_young(false));
                        owed.join(also);
                    }
                });
                self.context().pay(owed, part);
            });
        }
    }
}

impl Usage {
    fn add(&mut self, pte: Pte) {
        let frame = PhysAddr(pte.phys());
        if pte == Pte::EMPTY || frame == zero_frame() {
            return;
        }
        let meta = FRAMES.at(frame);
        // The file itself holds a reference to its page.
        let holders = (meta.refs() - !meta.is_anonymous() as u32).max(1) as usize;
        self.resident += 1;
        self.referenced += pte.young() as usize;
        self.anonymous += meta.is_anonymous() as usize;
        self.shared += (holders > 1) as usize;
        let dirty = pte.dirty() || meta.is_anonymous();
        self.dirty += dirty as usize;
        self.shared_dirty += (dirty && holders > 1) as usize;
        self.proportional += PAGE_SIZE / holders;
    }
}
