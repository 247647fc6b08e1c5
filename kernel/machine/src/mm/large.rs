//! Large ranges, which are changed part by part: others run in between, and the address space's lock is free.

extern crate alloc;

use alloc::sync::Arc;
use core::ops::Range;

use super::area::Rights;
use super::space::AddressSpace;
use crate::errno::{Errno, Result};
use crate::upcall::{cond_resched, cond_resched_killable};

/// The most that is changed at once, in bytes.
const PART: usize = 1 << 32;
/// A space with fewer tables is small.
const MANY_TABLES: usize = 256;

/// Whether a range is in more than one part, so that who changes it waits.
pub fn is_large(range: &Range<usize>) -> bool {
    range.len() > PART
}

/// A range in parts.
pub(super) fn parts(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    let starts = range.step_by(PART);
    starts.map(move |start| start..end.min(start.saturating_add(PART)))
}

impl AddressSpace {
    /// Takes a range of pages away. Waits if the range is large.
    #[inline]
    pub fn unmap(&self, range: Range<usize>) -> Result<()> {
        if is_large(&range) {
            self.empty_first(range.clone())?;
        }
        self.lock().unmap(self.context(), range)
    }

    #[cold]
    #[inline(never)]
    fn empty_first(&self, range: Range<usize>) -> Result<()> {
        self.lock().check_cut(&range)?;
        self.empty(range, true)
    }

    /// Lets go of the content of a range of pages; what was promised there stands. Waits if the range is large.
    pub fn discard(&self, range: Range<usize>) -> Result<()> {
        let covered = self.lock().areas.covers(range.clone());
        self.empty(range, false)?;
        if covered { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    fn empty(&self, range: Range<usize>, tables: bool) -> Result<()> {
        let several = is_large(&range);
        for part in parts(range) {
            self.lock().empty(self.context(), part, tables);
            if several {
                cond_resched_killable()?;
            }
        }
        Ok(())
    }

    /// Changes what the program may do with a range of pages. Waits if the range is large.
    ///
    /// # Errors
    /// ENOMEM (not all mapped), EACCES (a shared mapping of a file not opened for writing).
    pub fn protect(&self, range: Range<usize>, rights: Rights) -> Result<()> {
        if !is_large(&range) {
            return self.lock().protect(self.context(), range, rights);
        }
        let changed = self.lock().promise(&range, rights)?;
        // What areas promise by now goes, whoever changes them meanwhile.
        for part in parts(changed.clone()) {
            self.lock().obey(self.context(), part);
            cond_resched();
        }
        if changed.end < range.end {
            Err(Errno::ENOMEM)
        } else {
            Ok(())
        }
    }
}

/// Lets go of a space that its thread no longer has. If that was the last, and the space is large, it is emptied first, before
/// that is done where nobody else can run. No CPU runs it for the thread any more.
pub fn leave(space: Arc<AddressSpace>) {
    if Arc::strong_count(&space) > 1 || space.tables() < MANY_TABLES {
        return;
    }
    for area in space.areas() {
        for part in parts(area.range()) {
            space.lock().empty(space.context(), part, true);
            cond_resched();
        }
    }
}
