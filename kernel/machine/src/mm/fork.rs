//! fork: copies an address space for a child.

use core::cell::Cell;
use core::mem;
use core::ops::Range;

use super::asid::Context;
use super::large::{PART, Parts, VMAS};
use super::space::{AddressSpace, Space, SpaceUser, TAGGED};
use super::space_lock::WriteGuard;
use super::vma::Vma;
use super::vmas::Vmas;
use crate::arch::mmu::Pte;
use crate::arch::user_end;
use crate::errno::{Errno, Result};
use crate::upcall::must_die;
use translation::owed::{Owed, Protect};

impl AddressSpace {
    /// Copies this space, which the current thread runs, for a child: private pages are shared
    /// until one of the two writes. May sleep if the space is large. Meanwhile other threads can
    /// neither change VMAs nor fault to write, so that the copy never contains a later write
    /// without an earlier one.
    ///
    /// # Errors
    /// ENOMEM; EINTR if the thread must die.
    pub fn fork(&self) -> Result<SpaceUser> {
        let alone = self.users() == 1;
        // Declared before the guards, so that the locks are free when it is dropped.
        let child = SpaceUser::new(self.end())?;
        child.set_vdso(self.vdso());
        child.set_dumpable(self.dumpable());
        child.set_program(self.program());
        let mut parts = self.parts_of_fork(alone);
        let mut parent = self.lock_to_change()?;
        let many = parent.vmas.count() > VMAS;
        let losing = Cell::new(false);
        let add_to_file = |vma: &Vma| {
            losing.set(vma.add_to_file(&child.me)? | losing.get());
            Ok(())
        };
        if many {
            parent = self.inherit(parent, &child, add_to_file, &mut parts)?;
        }
        let mut space = child.lock();
        if !many {
            space.vmas = parent.vmas.for_child()?;
            space.vmas.iter().try_for_each(add_to_file)?;
        }
        if losing.get() {
            drop(space);
            parent = self.drop_truncated(parent, 0..user_end(), &mut parts);
            space = child.lock();
        }
        (space.heap, space.mmap_top) = (parent.heap.clone(), parent.mmap_top);
        space.stack_limit = parent.stack_limit;
        space.mmap_bottom = parent.mmap_bottom;
        let mut at = 0;
        let mut owed = Owed::<Protect>::new();
        let shared = loop {
            let (part, also) = space.share(&self.context, &mut parent, at);
            owed.join(also);
            let next = match part {
                Ok(Some(next)) => next,
                whole => break whole,
            };
            drop(space);
            if !alone {
                self.forget_writable(&parent, mem::replace(&mut owed, Owed::new()), at..next);
            }
            at = next;
            parent = parts.pause(parent);
            space = child.lock();
            if must_die() {
                break Err(Errno::EINTR);
            }
        };
        // Flush the PTEs made read-only before anything relies on it, even if the copy failed.
        // Otherwise a guest's write through a stale entry would reach only one of the two spaces.
        let notified = self.context.notifiers.any();
        if notified && !alone {
            self.forget_writable(&parent, owed, at..user_end());
        } else {
            self.context.pay_cpus(owed, 0..user_end());
        }
        drop((space, parent));
        // Dropping the child here must not make other threads wait.
        drop(parts);
        if notified && alone {
            self.protect_shared();
        }
        shared.map(|_| child)
    }

    /// Stops other threads, and the guests that they run, from writing through stale translations
    /// of a range of the locked space. The range covers at most as many VMAs as are changed at
    /// once.
    #[cold]
    #[inline(never)]
    fn forget_writable(&self, space: &Space, owed: Owed<Protect>, range: Range<usize>) {
        self.context.pay_cpus(owed, range.clone());
        if self.context.notifiers.any() {
            let vmas = space.vmas.touching(range.clone());
            for vma in vmas.filter(|vma| vma.is_copied()) {
                let part = vma.start.max(range.start)..vma.end.min(range.end);
                self.context.notifiers.protect(part);
            }
        }
    }

    /// Copies many VMAs for a child, a batch at a time.
    #[cold]
    fn inherit<'a>(
        &'a self,
        mut parent: WriteGuard<'a, Space>,
        child: &AddressSpace,
        add_to_file: impl Fn(&Vma) -> Result<()>,
        parts: &mut Parts<'a>,
    ) -> Result<WriteGuard<'a, Space>> {
        let mut vmas = Vmas::new();
        let mut done = parent.vmas.promise_child(&mut vmas).map(|()| Some(0));
        while let Ok(Some(address)) = done {
            done = parent.vmas.inherit(&mut vmas, address, &add_to_file);
            parent = parts.pause(parent);
            if must_die() {
                done = Err(Errno::EINTR);
            }
        }
        // Also if some are missing, since dropping them may take long.
        child.lock().vmas = vmas;
        done.map(|_| parent)
    }
}

impl Space {
    /// Copies part of the private pages that `parent` has from `address` on into this new space,
    /// read-only in both from now on. Returns the start of the next part, if there is one, and what
    /// the parent owes, even if the part failed.
    #[inline]
    fn share(
        &mut self,
        context: &Context,
        parent: &mut Space,
        address: usize,
    ) -> (Result<Option<usize>>, Owed<Protect>) {
        let Space {
            table,
            vmas,
            pages,
            late,
            unusual,
            ..
        } = self;
        let mut left = PART;
        let mut owed = Owed::new();
        *late |= parent.late & TAGGED;
        *unusual |= parent.is_tagged();
        let small = parent.table.tables() + parent.table.huge_pages() <= PART;
        if small {
            // At once, so that all runs of all VMAs need one payment.
            parent.split_huge_pages(context, 0..parent.end);
            parent.unfold_private(context, 0..parent.end);
        }
        for (count, vma) in vmas.touching(address..usize::MAX).enumerate() {
            if count == VMAS {
                return (Ok(Some(vma.start)), owed);
            }
            if !vma.is_copied() {
                continue;
            }
            let start = vma.start.max(address);
            let mut end = vma.end;
            if !small {
                end = parent.table.part_end(start..end, &mut left);
                parent.split_huge_pages(context, start..end);
                parent.unfold_private(context, start..end);
            }
            parent.finish_pending(context, start..end);
            let mut failed = None;
            parent.table.visit(start..end, &mut |start, entries| {
                if failed.is_none() && entries.iter().any(|entry| entry.load() != Pte::EMPTY) {
                    match table.make(start, &mut Owed::held_by_nobody) {
                        Ok(leaf) => {
                            let (shared, also) = super::fault::share(start, entries, leaf);
                            *pages += shared;
                            owed.join(also);
                        }
                        Err(error) => failed = Some(error),
                    }
                }
            });
            if let Some(error) = failed {
                return (Err(error), owed);
            }
            if end < vma.end {
                return (Ok(Some(end)), owed);
            }
        }
        (Ok(None), owed)
    }
}
