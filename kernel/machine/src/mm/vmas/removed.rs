//! The files of VMAs that were removed.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::{self, ManuallyDrop};

use crate::errno::{Errno, Result};
use crate::mm::vma::{PageSource, Source, Vma};
use crate::sync::might_sleep;
use crate::upcall::cond_resched;

/// The files of removed VMAs. Removing the last VMA may drop the last reference to a file, which
/// may take long, sleep, or need the space's lock. So a caller that removes VMAs collects their
/// files here, and drops this after it has released the space's lock.
pub struct Removed(ManuallyDrop<Files>);

#[derive(Default)]
struct Files {
    first: Option<Arc<dyn PageSource>>,
    others: Vec<Arc<dyn PageSource>>,
}

impl Files {
    fn last(&self) -> Option<&Arc<dyn PageSource>> {
        self.others.last().or(self.first.as_ref())
    }
}

impl Removed {
    /// No files.
    #[inline]
    pub const fn new() -> Self {
        Removed(ManuallyDrop::new(Files {
            first: None,
            others: Vec::new(),
        }))
    }

    /// Reserves memory for the files of `vmas`.
    ///
    /// # Errors
    /// ENOMEM.
    #[cold]
    pub(super) fn reserve<'v>(&mut self, vmas: impl Iterator<Item = &'v Vma>) -> Result<()> {
        let (mut count, mut last) = (0_usize, self.0.last());
        for vma in vmas {
            if let Source::File { mapping, .. } = &vma.source
                && !last.is_some_and(|last| Arc::ptr_eq(last, mapping))
            {
                (count, last) = (count + 1, Some(mapping));
            }
        }
        let one = usize::from(self.0.first.is_none());
        let room = self.0.others.try_reserve_exact(count.saturating_sub(one));
        room.map_err(|_| Errno::ENOMEM)
    }

    /// Whether there are no files yet.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.first.is_none()
    }

    /// Takes over a VMA's file: the first file, or one for which memory is reserved.
    #[inline]
    pub(super) fn add(&mut self, vma: Vma) {
        let Source::File { mapping, .. } = vma.source else {
            return;
        };
        match self.0.last() {
            None => self.0.first = Some(mapping),
            Some(last) if Arc::ptr_eq(last, &mapping) => {}
            Some(_) => self.0.others.push(mapping),
        }
    }

    #[cold]
    #[inline(never)]
    fn drop_files(&mut self) {
        let Files { first, others } = mem::take(&mut *self.0);
        if let Some(first) = first {
            might_sleep();
            drop(first);
        }
        for file in others {
            drop(file);
            cond_resched();
        }
    }
}

impl Drop for Removed {
    /// Usually there are none: only that check is inlined.
    #[inline]
    fn drop(&mut self) {
        if self.0.first.is_some() || self.0.others.capacity() > 0 {
            self.drop_files();
        }
    }
}
