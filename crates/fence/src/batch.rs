//! Gathers the fences that one operation owes: a few ranges page by page, or everything.

use translation::Change;

use crate::Reach;

/// The size of a base page, the smallest range that an `sfence.vma` by address covers.
pub const PAGE_SIZE: usize = 4096;

/// The number of separate ranges in a batch.
pub const RANGES: usize = 4;

/// The maximum number of pages that are fenced one by one: Linux's default on RISC-V
/// (`tlb_flush_all_threshold`).
pub const THRESHOLD: usize = 64;

/// Contiguous pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The address of the first page, a multiple of the page size.
    pub start: usize,
    /// The number of base pages; a larger leaf counts once, with the address of any of its pages.
    pub pages: usize,
}

impl Range {
    /// The addresses of its pages.
    pub fn addresses(self) -> impl Iterator<Item = usize> {
        (0..self.pages).map(move |page| self.start.wrapping_add(page * PAGE_SIZE))
    }

    /// The numbers of its first page, and of the page after its last.
    const fn bounds(self) -> (usize, usize) {
        let first = self.start / PAGE_SIZE;
        (first, first.saturating_add(self.pages))
    }

    /// The range that covers both, if they overlap or touch.
    fn joined(self, other: Range) -> Option<Range> {
        let ((first, end), (other_first, other_end)) = (self.bounds(), other.bounds());
        let (start, pages) = (
            self.start.min(other.start),
            end.max(other_end) - first.min(other_first),
        );
        (first <= other_end && other_first <= end).then_some(Range { start, pages })
    }
}

/// The addresses that a fence covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent<'a> {
    /// Only last-level entries of these pages (`sfence.vma` with rs1).
    Pages(&'a [Range]),
    /// Every address, with intermediate levels (rs1=x0), of one ASID, or of all ASIDs (rs2=x0) for
    /// kernel mappings.
    Everything,
}

/// A fence that must be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence<'a> {
    /// The CPUs that must fence.
    pub reach: Reach,
    /// The addresses that it covers.
    pub extent: Extent<'a>,
}

/// Gathers the fences that the changes of one operation owe, so that they are executed once.
///
/// Execute them before the operation returns, and before a freed frame or page-table page is
/// reused.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    reach: Reach,
    everything: bool,
    ranges: [Range; RANGES],
    used: usize,
}

impl Batch {
    /// A batch that owes nothing.
    pub const fn new() -> Batch {
        Batch {
            reach: Reach::Nobody,
            everything: false,
            ranges: [Range { start: 0, pages: 0 }; RANGES],
            used: 0,
        }
    }

    /// Adds a `change` of the pages in `range`, which `reach` must see
    /// ([`Policy::user`](crate::Policy::user) or [`kernel`](crate::Policy::kernel)). Linking or
    /// unlinking a table changes an intermediate entry, which only a fence of everything covers.
    pub fn add(&mut self, change: Change, reach: Reach, range: Range) {
        if reach == Reach::Nobody || range.pages == 0 {
            return;
        }
        self.reach = self.reach.max(reach);
        self.everything |= matches!(
            change,
            Change::LinkTable | Change::UnlinkTable | Change::Resize
        );
        if !self.everything {
            self.add_range(range);
        }
    }

    /// The fence that is owed, if any. Call [`clear`](Batch::clear) after it is executed.
    pub fn owed(&self) -> Option<Fence<'_>> {
        let extent = if self.everything {
            Extent::Everything
        } else {
            Extent::Pages(&self.ranges[..self.used])
        };
        (self.reach != Reach::Nobody).then_some(Fence {
            reach: self.reach,
            extent,
        })
    }

    /// Makes the batch empty.
    pub fn clear(&mut self) {
        *self = Batch::new();
    }

    fn add_range(&mut self, mut range: Range) {
        // Ranges that the new range touches are merged into it; the others are kept.
        let mut kept = 0;
        for at in 0..self.used {
            match range.joined(self.ranges[at]) {
                Some(joined) => range = joined,
                None => {
                    self.ranges[kept] = self.ranges[at];
                    kept += 1;
                }
            }
        }
        self.used = kept;
        match self.ranges.get_mut(self.used) {
            Some(free) => {
                *free = range;
                self.used += 1;
                let pages = self.ranges[..self.used]
                    .iter()
                    .fold(0usize, |sum, range| sum.saturating_add(range.pages));
                self.everything = pages > THRESHOLD;
            }
            None => self.everything = true,
        }
    }
}
