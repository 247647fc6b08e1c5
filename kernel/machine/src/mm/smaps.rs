//! What `/proc` and `mincore` ask about the pages of a space.

use core::ops::Range;

use super::PhysAddr;
use super::fault::zero_frame;
use super::frame::FRAMES;
use super::space::AddressSpace;
use super::vma::{Source, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE};
use crate::arch::mmu::Pte;

/// Pages of a VMA by kind, as `/proc/PID/smaps` counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Present, but the zero page.
    pub resident: usize,
    /// Accessed since they were mapped or `clear_refs` was last written.
    pub referenced: usize,
    /// Private memory.
    pub anonymous: usize,
    /// Held by others too.
    pub shared: usize,
    /// Written to since mapped; private memory is for that alone there.
    pub dirty: usize,
    /// The dirty ones that others hold too.
    pub shared_dirty: usize,
    /// Mapped as huge pages.
    pub huge: usize,
    /// The share of this space, each page divided by its holders, in bytes.
    pub proportional: usize,
}

/// The pages of a space.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    /// In all VMAs.
    pub vmas: usize,
    /// What tables of pages take.
    pub tables: usize,
    /// Present, but the zero page.
    pub resident: usize,
    /// The most that were present at a time.
    pub peak: usize,
}

impl AddressSpace {
    /// Counts the pages present in a range. May wait.
    pub fn usage(&self, range: Range<usize>) -> Usage {
        let mut usage = Usage::default();
        self.each_part_of(range, |space, part| {
            space.table.visit(part.clone(), &mut |_, entries| {
                for entry in entries {
                    usage.add(entry.load());
                }
            });
            usage.huge += space.huge_page_count(part);
        });
        usage
    }

    /// Its pages.
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

    /// Pages that the kernel takes for it: its tables, and what it knows of its VMAs.
    pub fn overhead(&self) -> usize {
        let space = self.read_lock();
        space.table.tables() + space.vmas.count() * size_of::<Vma>() / PAGE_SIZE
    }

    /// Resets the peak of resident pages.
    pub fn reset_peak(&self) {
        self.lock().peak = 0;
    }

    /// The first address above those of the program.
    pub fn end(&self) -> usize {
        self.read_lock().end
    }

    /// Calls `visit` for the pages of a range that are present: where, the number of the frame, and
    /// whether that is private memory.
    pub fn held(&self, range: Range<usize>, mut visit: impl FnMut(usize, usize, bool)) {
        // Alone, so that no entry is busy.
        let space = self.lock();
        space.table.visit(range, &mut |start, entries| {
            for (page, entry) in (start..).step_by(PAGE_SIZE).zip(entries) {
                let frame = PhysAddr(entry.load().phys());
                if entry.load() != Pte::EMPTY {
                    let private = frame == zero_frame() || FRAMES.at(frame).is_anonymous();
                    visit(page, frame.0 >> PAGE_SHIFT, private);
                }
            }
        });
    }

    /// For each page of a range, 1 if it is present, or would be without waiting, else 0.
    pub fn present(&self, range: Range<usize>, answer: &mut [u8]) {
        answer.fill(0);
        let space = self.lock();
        for vma in space.vmas.touching(range.clone()) {
            let Source::File { mapping, offset } = &vma.source else {
                continue;
            };
            let part = vma.start.max(range.start)..vma.end.min(range.end);
            let page = |address: usize| (offset + address - vma.start) >> PAGE_SHIFT;
            let (first, end) = (page(part.start), page(part.end));
            let answer = &mut answer[(part.start - range.start) >> PAGE_SHIFT..];
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
    }

    /// Makes all pages of the VMAs `wanted` old: what `Referenced` counts begins anew. May wait.
    pub fn clear_references(&self, wanted: impl Fn(&Vma) -> bool) {
        for vma in self.vmas().filter(|vma| wanted(vma)) {
            self.each_part_of(vma.range(), |space, part| {
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
        // A file's page is held by its file too.
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
