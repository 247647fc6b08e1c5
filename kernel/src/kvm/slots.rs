//! A guest's memory by slots: which of the VMM's memory stands where (KVM_SET_USER_MEMORY_REGION).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::dirty::Log;
use super::uapi::{MEM_LOG, MEM_READONLY, MemoryRegion};
use crate::arch::{PAGE_SIZE, USER_END};
use crate::errno::{Errno, Result};

/// How many there can be.
pub const MAX: usize = 32767;

/// The most pages of one.
const MOST_PAGES: u64 = (1 << 31) - 1;

/// The most slots that may show the same memory of the VMM's beside another: all of them are looked
/// at when it is unmapped.
const MOST_ALIASES: usize = 128;

/// One slot.
#[derive(Clone)]
pub struct Slot {
    number: u32,
    /// Where the guest has it.
    guest: Range<u64>,
    /// Where the VMM has it.
    address: u64,
    /// Whether the guest may write.
    pub writable: bool,
    /// Which pages were written, where the VMM wants to know.
    pub log: Option<Arc<Log>>,
}

/// The slots of a VM, by guest address.
#[derive(Default)]
pub struct Slots(Vec<Slot>);

/// What becomes of the guest's translation when slots changed.
pub enum Changed {
    /// Nothing.
    Nothing,
    /// These addresses no longer mean what they did.
    Moved(Range<u64>),
    /// Writes here are to be noticed from now on.
    Logged(Range<u64>),
}

impl Slot {
    /// Where the VMM has a guest's address of this slot.
    pub fn monitors(&self, address: u64) -> usize {
        (self.address + (address - self.guest.start)) as usize
    }

    /// The number of the page at a guest's address, within this slot.
    pub fn page(&self, address: u64) -> usize {
        (address - self.guest.start) as usize / PAGE_SIZE
    }

    /// The guest's addresses of `count` pages, from the `first` of this slot on.
    pub fn pages(&self, first: usize, count: usize) -> Range<u64> {
        let start = self.guest.start + (first * PAGE_SIZE) as u64;
        start..(start + (count * PAGE_SIZE) as u64).min(self.guest.end)
    }

    /// The guest's addresses of this slot in the same aligned block of `len` bytes.
    pub fn around(&self, address: u64, len: u64) -> Range<u64> {
        let start = address & !(len - 1);
        start.max(self.guest.start)..start.saturating_add(len).min(self.guest.end)
    }

    /// How many pages it has.
    pub fn len(&self) -> usize {
        (self.guest.end - self.guest.start) as usize / PAGE_SIZE
    }

    /// The guest's addresses of what the VMM has in a range.
    fn shown(&self, monitors: &Range<usize>) -> Option<Range<u64>> {
        let len = self.guest.end - self.guest.start;
        let start = (monitors.start as u64).max(self.address);
        let end = (monitors.end as u64).min(self.address + len);
        let guest = |address: u64| self.guest.start + (address - self.address);
        (start < end).then(|| guest(start)..guest(end))
    }
}

impl Slots {
    /// The slot that holds a guest's address.
    pub fn find(&self, address: u64) -> Option<&Slot> {
        let behind = self.0.partition_point(|slot| slot.guest.start <= address);
        let slot = self.0.get(behind.checked_sub(1)?)?;
        slot.guest.contains(&address).then_some(slot)
    }

    /// The slot with a number.
    pub fn get(&self, number: u32) -> Option<&Slot> {
        self.0.iter().find(|slot| slot.number == number)
    }

    /// Bytes that their logs take.
    pub fn logs(&self) -> usize {
        let logs = self.0.iter().filter_map(|slot| slot.log.as_ref());
        logs.map(|log| log.len()).sum()
    }

    /// The guest's addresses of what the VMM has in a range.
    pub fn showing<'a>(
        &'a self,
        monitors: &'a Range<usize>,
    ) -> impl Iterator<Item = Range<u64>> + 'a {
        self.0.iter().filter_map(|slot| slot.shown(monitors))
    }

    /// Whether [`Slots::set`] can make, move or remove a slot of a guest whose addresses end at
    /// `limit`, with Linux's checks. Returns of how many pages a log begins with it, if one does.
    pub fn check(&self, region: &MemoryRegion, limit: u64) -> Result<Option<usize>> {
        let page = PAGE_SIZE as u64;
        let aligned = [region.len, region.guest_address, region.address]
            .iter()
            .all(|part| part % page == 0);
        let end = region.guest_address.checked_add(region.len);
        let monitors = region
            .address
            .checked_add(region.len)
            .filter(|end| *end <= USER_END as u64);
        // The upper half of the number is the address space, of which arm64 has one.
        if region.slot as usize >= MAX
            || region.flags & !(MEM_READONLY | MEM_LOG) != 0
            || !aligned
            || region.len / page > MOST_PAGES
        {
            return Err(Errno::EINVAL);
        }
        let (end, monitors) = end.zip(monitors).ok_or(Errno::EINVAL)?;
        let old = self.get(region.slot);
        if region.len == 0 {
            return old.map(|_| None).ok_or(Errno::EINVAL);
        }
        if let Some(old) = old
            && (old.address != region.address
                || (old.len() * PAGE_SIZE) as u64 != region.len
                || old.writable != (region.flags & MEM_READONLY == 0))
        {
            return Err(Errno::EINVAL);
        }
        let others = || self.0.iter().filter(|slot| slot.number != region.slot);
        let overlaps =
            |slot: &Slot| slot.guest.start < end && region.guest_address < slot.guest.end;
        if others().any(overlaps) {
            return Err(Errno::EEXIST);
        }
        if end > limit {
            return Err(Errno::EFAULT);
        }
        let monitors = region.address as usize..monitors as usize;
        if others()
            .filter(|slot| slot.shown(&monitors).is_some())
            .nth(MOST_ALIASES)
            .is_some()
        {
            return Err(Errno::ENOMEM);
        }
        let begins = region.flags & MEM_LOG != 0 && old.is_none_or(|old| old.log.is_none());
        Ok(begins.then_some(region.len as usize / PAGE_SIZE))
    }

    /// Makes, moves or removes a slot that was checked, with the log that begins if one does.
    pub fn set(&mut self, region: &MemoryRegion, log: Option<Arc<Log>>) -> Result<Changed> {
        let old = self.0.iter().position(|slot| slot.number == region.slot);
        if region.len == 0 {
            let old = old.ok_or(Errno::EINVAL)?;
            return Ok(Changed::Moved(self.0.remove(old).guest));
        }
        self.0.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let begins = log.is_some();
        let before = old.and_then(|at| self.0[at].log.clone());
        let new = Slot {
            number: region.slot,
            guest: region.guest_address..region.guest_address + region.len,
            address: region.address,
            writable: region.flags & MEM_READONLY == 0,
            log: log.or(before.filter(|_| region.flags & MEM_LOG != 0)),
        };
        let guest = new.guest.clone();
        let old = old.map(|at| self.0.remove(at));
        self.insert(new);
        Ok(match old {
            Some(old) if old.guest != guest => Changed::Moved(old.guest),
            Some(_) if begins => Changed::Logged(guest),
            _ => Changed::Nothing,
        })
    }

    fn insert(&mut self, new: Slot) {
        let at = self
            .0
            .partition_point(|slot| slot.guest.start < new.guest.start);
        self.0.insert(at, new);
    }
}
