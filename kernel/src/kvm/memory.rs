//! A guest's memory: slots of the VMM's memory, mapped for the guest while the VMM has the same
//! memory there (KVM_CAP_SYNC_MMU).

use core::ops::Range;

use super::dirty::Log;
use super::slots::{Changed, Slot, Slots};
use super::uapi::MemoryRegion;
use super::vm::Machine;
use crate::arch::PAGE_SIZE;
use crate::arch::virt::Stage2;
use crate::errno::{Errno, Result};
use crate::mm::AddressSpace;
use crate::mm::fault::Access;
use crate::mm::huge_page;
use crate::mm::mmu_notifier::MmuNotifier;
use crate::sync::Mutex;
use crate::task::sched;

/// The amount of memory mapped at once around a guest's access: a power of two.
const AROUND: u64 = 64 << 10;

/// The result of a guest's access to memory.
pub enum Found {
    /// The access can be tried again.
    Memory,
    /// There is no memory, or no writable memory.
    Nothing,
}

/// A guest's memory. The VMM's address space notifies it of changes; as long as that space lives,
/// only the machine drops it.
pub struct Memory {
    /// The slots, which map the VMM's memory into the guest's. Locked while the VMM's address space
    /// is locked, so never in the opposite order.
    pub slots: Mutex<Slots>,
    /// The guest's stage 2 translation.
    pub translation: Stage2,
}

impl Memory {
    /// Memory without slots, for guest addresses of `bits` bits.
    pub fn new(bits: u32) -> Result<Self> {
        Ok(Memory {
            slots: Mutex::default(),
            translation: Stage2::new(bits)?,
        })
    }

    /// The approximate size of the kernel memory that it takes, in bytes.
    pub fn held(&self) -> usize {
        self.translation.tables() * PAGE_SIZE + self.slots.lock().logs()
    }
}

impl Machine {
    /// Creates, changes or removes a slot (KVM_SET_USER_MEMORY_REGION).
    pub fn set_region(&self, region: &MemoryRegion) -> Result<usize> {
        let _changing = self.changing.lock_killable()?;
        let all_written = self.logs_all_written();
        let (new, wanted) = {
            let slots = self.memory.slots.lock();
            let wanted = slots.check(region, self.limit())?;
            (slots.get(region.slot).is_none(), wanted)
        };
        // A log is large, so it is made without the lock; nobody else changes slots meanwhile.
        let log = match wanted {
            Some(pages) => Some(Log::new(pages, all_written)?),
            None => None,
        };
        let set = || self.memory.slots.lock().set(region, log);
        let changed = if new {
            self.space()?.add_alias(&region.host(), set)?
        } else {
            set()?
        };
        match changed {
            Changed::Moved(range) => self.memory.translation.unmap(range, sched::cond_resched),
            Changed::Logged(range) if !all_written => {
                let range = core::iter::once(range);
                self.memory.translation.protect(range, sched::cond_resched);
            }
            Changed::Nothing | Changed::Logged(_) => {}
        }
        Ok(0)
    }

    /// Maps memory for a guest's access.
    pub fn fault(&self, address: u64, write: bool) -> Result<Found> {
        if let Some(found) = self.fault_by(address, write, true)? {
            return Ok(found);
        }
        // Something was unmapped while a huge page was prepared. Mapping a small page takes less
        // time.
        let found = self.fault_by(address, write, false)?;
        Ok(found.unwrap_or(Found::Memory))
    }

    /// The same, with a huge page if `huge` and one exists; None if it could not be mapped.
    fn fault_by(&self, address: u64, write: bool, huge: bool) -> Result<Option<Found>> {
        let generation = self.memory.translation.generation();
        let slot = self.memory.slots.lock().find(address).cloned();
        let Some(slot) = slot.filter(|slot| slot.writable || !write) else {
            return Ok(Some(Found::Nothing));
        };
        let host = slot.host(address);
        // A writable page is mapped writable at once, unless writes are logged. A page that the VMM
        // itself may only read is mapped read-only, if the guest reads it.
        let mut writable = slot.writable && (write || slot.log.is_none());
        let access = if writable {
            Access::Write
        } else {
            Access::Read
        };
        let space = self.space()?;
        let frame = match space.frame(host, access) {
            Err(Errno::EFAULT) if writable && !write => {
                writable = false;
                space.frame(host, Access::Read)?
            }
            other => other?,
        };
        let page = address & !(PAGE_SIZE as u64 - 1);
        if huge
            && writable
            && slot.log.is_none()
            && let Some(mapped) = self.map_huge_page(&space, &slot, page, generation)?
        {
            return Ok(mapped.then_some(Found::Memory));
        }
        let mapped = self
            .memory
            .translation
            .map(page, frame, writable, generation)?;
        // After the page is mapped: otherwise a reader of the log in between would miss a page that
        // can still be written.
        match &slot.log {
            Some(log) if mapped && writable => log.mark(slot.page(address)),
            None if mapped && writable => self.map_around(&space, &slot, page, generation),
            _ => {}
        }
        Ok(Some(Found::Memory))
    }

    /// Maps the huge page around a page, if the VMM has one that lies in the slot as a whole. None
    /// if there is none, false if something was unmapped meanwhile.
    fn map_huge_page(
        &self,
        space: &AddressSpace,
        slot: &Slot,
        page: u64,
        generation: u64,
    ) -> Result<Option<bool>> {
        let whole = slot.around(page, huge_page::SIZE as u64);
        let host = slot.host(whole.start);
        if whole.end - whole.start != huge_page::SIZE as u64
            || !host.is_multiple_of(huge_page::SIZE)
        {
            return Ok(None);
        }
        let translation = &self.memory.translation;
        space
            .huge_page(host)
            .map(|huge| translation.map_huge_page(whole.start, huge, generation))
            .transpose()
    }

    /// Maps the other writable pages around a page that was mapped, since guests soon use
    /// neighbouring pages.
    fn map_around(&self, space: &AddressSpace, slot: &Slot, page: u64, generation: u64) {
        let huge = slot.around(page, AROUND);
        let host = slot.host(huge.start)..slot.host(huge.end);
        space.frames(host.clone(), Access::Write, |at, frame| {
            let address = huge.start + (at - host.start) as u64;
            let mapped = self
                .memory
                .translation
                .map(address, frame, true, generation);
            mapped.unwrap_or(false)
        });
    }

    /// Whether the guest has memory at an address.
    pub fn has_memory(&self, address: u64) -> bool {
        self.memory.slots.lock().find(address).is_some()
    }

    /// Writes to the guest's memory on its behalf.
    ///
    /// # Errors
    /// EFAULT: not all of it is writable memory.
    pub fn write_guest(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.each_part(address, bytes.len(), |slot, at, range| {
            let part = &bytes[range];
            if !slot.writable || self.space()?.write(slot.host(at), part)? != part.len() {
                return Err(Errno::EFAULT);
            }
            if let Some(log) = &slot.log {
                log.mark(slot.page(at));
            }
            Ok(())
        })
    }

    /// Reads the guest's memory on its behalf.
    ///
    /// # Errors
    /// EFAULT: not all of it is memory.
    pub fn read_guest(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.each_part(address, bytes.len(), |slot, at, range| {
            let part = &mut bytes[range];
            if self.space()?.read(slot.host(at), part)? != part.len() {
                return Err(Errno::EFAULT);
            }
            Ok(())
        })
    }

    /// Visits the pages of a guest address range: the slot, the address, and the part of the bytes
    /// that lies there.
    fn each_part(
        &self,
        address: u64,
        len: usize,
        mut visit: impl FnMut(&Slot, u64, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let at = address.checked_add(done as u64).ok_or(Errno::EFAULT)?;
            let part = (PAGE_SIZE - at as usize % PAGE_SIZE).min(len - done);
            let slot = self.memory.slots.lock().find(at).cloned();
            visit(&slot.ok_or(Errno::EFAULT)?, at, done..done + part)?;
            done += part;
        }
        Ok(())
    }
}

impl MmuNotifier for Memory {
    fn invalidate(&self, range: Range<usize>) {
        let slots = self.slots.lock();
        slots
            .showing(&range)
            .for_each(|range| self.translation.unmap(range, || ()));
    }

    fn protect(&self, range: Range<usize>) {
        let slots = self.slots.lock();
        self.translation.share(slots.showing(&range), || ());
    }

    fn is_slow(&self) -> bool {
        self.translation.cleans()
    }

    fn aliases(&self, range: &Range<usize>, most: usize) -> usize {
        self.slots.lock().showing(range).take(most).count()
    }

    fn end(&self) {
        self.translation.end(sched::cond_resched);
    }
}
