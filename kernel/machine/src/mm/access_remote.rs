//! Access to a program's memory from outside it: by debuggers, other programs and the guests that
//! it runs.

use core::ops::Range;

use super::asid::Context;
use super::fault::{Access, Failure};
use super::space::{AddressSpace, Space};
use super::vma::Rights;
use super::{PAGE_SIZE, PhysAddr, frame, huge_page};
use crate::arch::mmu::Pte;
use crate::arch::uaccess::untagged;
use crate::arch::user_end;
use crate::errno::{Errno, Result};

impl AddressSpace {
    /// Reads another program's memory; returns the number of bytes before the first unreadable one.
    ///
    /// # Errors
    /// ENOMEM; EINTR if the current thread must die.
    pub fn read(&self, address: usize, target: &mut [u8]) -> Result<usize> {
        self.each_page(
            address,
            target.len(),
            Access::Read,
            |frame, offset, at, len| {
                frame.read(offset, &mut target[at..at + len]);
            },
        )
    }

    /// Writes another program's memory; returns the number of bytes before the first unwritable
    /// one.
    ///
    /// # Errors
    /// ENOMEM; EINTR if the current thread must die.
    pub fn write(&self, address: usize, source: &[u8]) -> Result<usize> {
        self.each_page(
            address,
            source.len(),
            Access::Write,
            |frame, offset, at, len| {
                frame.write(offset, &source[at..at + len]);
            },
        )
    }

    /// Writes another program's memory as a debugger does, also where the program itself may not
    /// write, in a private copy of the page; returns the number of bytes before the first
    /// unwritable one.
    ///
    /// # Errors
    /// ENOMEM; EINTR if the current thread must die.
    pub fn poke(&self, address: usize, source: &[u8]) -> Result<usize> {
        let address = untagged(address);
        let mut done = 0;
        while done < source.len() {
            let at = address.wrapping_add(done);
            let part = (PAGE_SIZE - at % PAGE_SIZE).min(source.len() - done);
            if at >= user_end() {
                break;
            }
            let mut space = self.lock_range(&(at..at + part), Access::Write)?;
            match space.poke_page(&self.context, at, &source[done..done + part]) {
                Ok(()) => done += part,
                Err(Errno::EAGAIN) => {
                    let page = space.file_page(at, Access::Write);
                    drop(space);
                    page.ok_or(Errno::EFAULT)?.load()?;
                }
                Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Reads the tags of part of one page as a debugger does, also where the program itself may not
    /// read.
    ///
    /// # Errors
    /// EFAULT if nothing is mapped, EOPNOTSUPP if the memory has no tags, ENOMEM; EINTR if the
    /// current thread must die.
    pub fn read_tags(&self, address: usize, tags: &mut [u8]) -> Result<()> {
        let frame = self.tagged_frame(address, Access::Read)?;
        frame.read_tags(address % PAGE_SIZE, tags);
        Ok(())
    }

    /// Writes the tags, also where the program itself may not write, in a private copy of the page.
    ///
    /// # Errors
    /// Those of [`AddressSpace::read_tags`].
    pub fn write_tags(&self, address: usize, tags: &[u8]) -> Result<()> {
        let frame = self.tagged_frame(address, Access::Write)?;
        frame.write_tags(address % PAGE_SIZE, tags);
        Ok(())
    }

    /// Searches the first part of a range, which one table maps, for a page with tags, and fills
    /// `tags` with them. Returns the page, if there is one, and the address at which to continue.
    pub fn next_tags(&self, range: Range<usize>, tags: &mut [u8]) -> (Option<usize>, usize) {
        let space = self.lock();
        let mut found = None;
        let end = space.table.part_end(range.clone(), &mut 1);
        space.table.visit(range.start..end, &mut |start, entries| {
            for (page, entry) in (start..).step_by(PAGE_SIZE).zip(entries) {
                let pte = entry.load();
                if found.is_some() || pte == Pte::EMPTY || pte == Pte::BUSY {
                    continue;
                }
                let frame = frame::FrameRef::clone_phys(PhysAddr(pte.phys()));
                if frame.has_tags() {
                    frame.read_tags(0, tags);
                    found = Some(page);
                }
            }
        });
        (found, found.map_or(end, |page| page + PAGE_SIZE))
    }

    fn tagged_frame(&self, address: usize, access: Access) -> Result<frame::FrameRef> {
        if address >= user_end() {
            return Err(Errno::EFAULT);
        }
        let mut space = self.lock_range(&(address..address + 1), access)?;
        space.tagged_frame(&self.context, address, access)
    }

    /// Returns the frame that `access` to `address` would use, faulting it in if necessary.
    pub fn frame(&self, address: usize, access: Access) -> Result<frame::FrameRef> {
        let address = untagged(address);
        if address >= user_end() {
            return Err(Errno::EFAULT);
        }
        loop {
            let mut space = self.lock_range(&(address..address + 1), access)?;
            let page = match space.resolve_paged(&self.context, address, access) {
                Err(Failure::Absent) => space.file_page(address, access),
                Err(failure) => return Err(failure.errno()),
                Ok(()) => return space.frame_at(address, access).ok_or(Errno::EFAULT),
            };
            drop(space);
            page.ok_or(Errno::EFAULT)?.load()?;
        }
    }

    /// Returns the huge page that contains `address`, if there is one and it is writable.
    pub fn huge_page(&self, address: usize) -> Option<huge_page::MappedFrames> {
        let space = self.lock();
        let (_, slot) = space.table.next_huge_page(address..address + 1)?;
        let pte = slot.load();
        let there = pte.valid() && pte.writable();
        there.then(|| huge_page::MappedFrames::new(PhysAddr(pte.phys())))
    }

    /// Visits the frames that `access` to a range would use, with their addresses, faulting them
    /// in. Stops at the first that is unavailable, or when `visit` returns false.
    pub fn frames(
        &self,
        range: Range<usize>,
        access: Access,
        mut visit: impl FnMut(usize, frame::FrameRef) -> bool,
    ) {
        let Ok(mut space) = self.lock_range(&range, access) else {
            return;
        };
        for address in range.step_by(PAGE_SIZE).filter(|at| *at < user_end()) {
            let there = space.frame_at(address, access);
            let frame = there.or_else(|| {
                let made = space.resolve_paged(&self.context, address, access);
                made.ok().and_then(|()| space.frame_at(address, access))
            });
            if !frame.is_some_and(|frame| visit(address, frame)) {
                break;
            }
        }
    }

    fn each_page(
        &self,
        address: usize,
        len: usize,
        access: Access,
        mut visit: impl FnMut(&frame::FrameRef, usize, usize, usize),
    ) -> Result<usize> {
        let (mut done, address) = (0, untagged(address));
        while done < len {
            let at = address.wrapping_add(done);
            let part = (PAGE_SIZE - at % PAGE_SIZE).min(len - done);
            if at >= user_end() {
                break;
            }
            let mut space = self.lock_range(&(at..at + part), access)?;
            if space.frame_at(at, access).is_none() {
                match space.resolve_paged(&self.context, at, access) {
                    Ok(()) => {}
                    Err(Failure::NoMemory) => return Err(Errno::ENOMEM),
                    Err(Failure::Absent) => {
                        let page = space.file_page(at, access);
                        drop(space);
                        match page.map(|page| page.load()) {
                            Some(Ok(())) => continue,
                            _ => break,
                        }
                    }
                    Err(_) => break,
                }
            }
            let Some(frame) = space.frame_at(at, access) else {
                break;
            };
            visit(&frame, at % PAGE_SIZE, done, part);
            done += part;
        }
        Ok(done)
    }
}

impl Space {
    /// Writes inside one page, for [`AddressSpace::poke`].
    fn poke_page(&mut self, context: &Context, address: usize, source: &[u8]) -> Result<()> {
        let page = address & !(PAGE_SIZE - 1);
        let vma = self.vmas.find(page).ok_or(Errno::EFAULT)?;
        let (rights, shared) = (vma.rights, vma.is_shared());
        let forced = !rights.asked().contains(Rights::WRITE);
        if forced && shared {
            return Err(Errno::EFAULT);
        }
        let range = page..page + PAGE_SIZE;
        if forced {
            self.force(context, range.clone(), rights.union(Rights::WRITE))?;
        }
        let written = self
            .resolve_paged(context, address, Access::Write)
            .map_err(|failure| match failure {
                Failure::Absent => Errno::EAGAIN,
                failure => failure.errno(),
            })
            .and_then(|()| {
                let frame = self.frame_at(address, Access::Write).ok_or(Errno::EFAULT)?;
                frame.write(address % PAGE_SIZE, source);
                if rights.contains(Rights::EXECUTE) {
                    frame.sync_instructions();
                }
                Ok(())
            });
        if forced {
            self.force(context, range, rights)?;
        }
        written
    }

    /// Returns the frame of tagged memory, with a debugger's rights.
    fn tagged_frame(
        &mut self,
        context: &Context,
        address: usize,
        access: Access,
    ) -> Result<frame::FrameRef> {
        let page = address & !(PAGE_SIZE - 1);
        let vma = self.vmas.find(page).ok_or(Errno::EFAULT)?;
        if !vma.rights.contains(Rights::TAGGED) {
            return Err(Errno::EOPNOTSUPP);
        }
        let (rights, shared) = (vma.rights, vma.is_shared());
        let (forced, wanted) = match access {
            Access::Write => (!rights.contains(Rights::WRITE), Rights::WRITE),
            _ => (rights.is_none(), Rights::READ),
        };
        if forced && shared && access == Access::Write {
            return Err(Errno::EFAULT);
        }
        let range = page..page + PAGE_SIZE;
        if forced {
            self.force(context, range.clone(), rights.union(wanted))?;
        }
        let made = self.resolve_alone(context, address, access);
        let frame = made
            .map_err(|failure| failure.errno())
            .and_then(|()| self.frame_at(address, access).ok_or(Errno::EFAULT));
        if forced {
            self.force(context, range, rights)?;
        }
        frame
    }

    /// Changes the rights of a page temporarily, without changing what is committed.
    fn force(&mut self, context: &Context, page: Range<usize>, rights: Rights) -> Result<()> {
        self.vmas.check_cuts(&page, |_| true)?;
        self.vmas.change(page.clone(), |vma| vma.rights = rights)?;
        self.apply_own_rights(context, page);
        Ok(())
    }

    /// Returns a handle of the frame mapped at `address`, if the PTE allows the access.
    fn frame_at(&self, address: usize, access: Access) -> Option<frame::FrameRef> {
        let pte = self.table.lookup(address);
        let allowed = pte.valid() && (access == Access::Read || pte.writable());
        allowed.then(|| frame::FrameRef::clone_phys(PhysAddr(pte.phys())))
    }
}
