//! What a program may do with its areas, and how they behave.

use core::ops::Range;

use super::area::{Area, Flags, Rights};
use super::asid::Context;
use super::space::{AddressSpace, Space};
use crate::errno::{Errno, Result};
use translation::Change;

impl AddressSpace {
    /// Changes the behaviour of a range of pages.
    pub fn set_flags(&self, range: Range<usize>, flags: Flags, on: bool) -> Result<()> {
        let mut space = self.lock();
        let covered = space.areas.covers(range.clone());
        let changes = |area: &Area| area.flags.has(flags) != on;
        space.areas.check_cuts(&range, changes)?;
        space
            .areas
            .change(range, |area| area.flags = area.flags.set(flags, on))?;
        if covered { Ok(()) } else { Err(Errno::ENOMEM) }
    }
}

impl Space {
    pub(super) fn protect(
        &mut self,
        context: &Context,
        range: Range<usize>,
        rights: Rights,
    ) -> Result<()> {
        let asked = range.end;
        let range = self.promise(&range, rights)?;
        self.obey(context, range.clone());
        if range.end < asked {
            Err(Errno::ENOMEM)
        } else {
            Ok(())
        }
    }

    /// Changes the rights of the areas in `range` up to the first hole: as in Linux, what is before it changes although the
    /// call fails. Returns what is to follow them.
    pub(super) fn promise(&mut self, range: &Range<usize>, rights: Rights) -> Result<Range<usize>> {
        let range = range.start..self.areas.covered(range.clone());
        let write = rights.has(Rights::WRITE);
        let never = |area: &Area| area.is_shared() && area.flags.has(Flags::NEVER_WRITE);
        if write && self.areas.touching(range.clone()).any(never) {
            return Err(Errno::EACCES);
        }
        let changes = |area: &Area| area.rights != rights;
        self.areas.check_cuts(&range, changes)?;
        if write {
            self.areas.commit_writable(&range)?;
        }
        self.areas.change(range.clone(), |area| {
            area.flags = area.flags.accounted(rights);
            area.rights = rights;
        })?;
        Ok(range)
    }

    /// Does now what calls under way have yet to do in a range, for who moves or copies its entries: Linux lets nobody in between.
    #[inline]
    pub(super) fn obey_late(&mut self, context: &Context, range: Range<usize>) {
        if self.late != 0 {
            self.obey(context, range);
        }
    }

    /// Makes the entries of a range agree with its areas' rights.
    pub(super) fn obey(&mut self, context: &Context, range: Range<usize>) {
        self.split(context, range.clone());
        let mut changed = false;
        for area in self.areas.touching(range.clone()) {
            let part = area.start.max(range.start)..area.end.min(range.end);
            self.table.visit(part, &mut |_, entries| {
                for entry in entries {
                    changed |= super::fault::set_rights(area, entry);
                }
            });
        }
        if changed {
            context.pay(Change::Narrow, range);
        }
    }
}
