//! The slots of a guest: which of the VMM's memory appears at which guest address
//! (KVM_SET_USER_MEMORY_REGION).

use alloc::sync::Arc;
use core::ops::Range;

use radix::Radix;
use tree::{Member, Tree};

use super::dirty::Log;
use super::uapi::{MEM_LOG, MEM_READONLY, MemoryRegion};
use crate::arch::{PAGE_SIZE, USER_END};
use crate::errno::{Errno, Result};

/// The maximum number of slots.
pub const MAX: usize = 32767;

/// The maximum number of pages in a slot.
const MOST_PAGES: u64 = (1 << 31) - 1;

/// A slot.
#[derive(Clone)]
pub struct Slot {
    number: u32,
    /// The guest's addresses.
    guest: Range<u64>,
    /// The VMM's address.
    address: u64,
    /// Whether the guest may write.
    pub writable: bool,
    /// The log of written pages (KVM_MEM_LOG_DIRTY_PAGES).
    pub log: Option<Arc<Log>>,
}

/// The slots of a VM.
#[derive(Default)]
pub struct Slots {
    /// Ordered by guest address.
    all: Tree<Slot>,
    /// Ordered by the VMM's address.
    mapped: Tree<Mapped>,
    /// By slot number, the guest address of the slot's last byte.
    numbers: Radix<u64>,
    /// The size of all their logs in bytes.
    logs: usize,
}

/// The VMM's memory that a slot maps.
struct Mapped {
    number: u32,
    /// The VMM's (host's) addresses, and the offset of the guest's addresses from them.
    host: Range<u64>,
    offset: u64,
}

/// No two slots overlap, so the last byte of each determines its order.
impl Member for Slot {
    type Key = u64;
    type Sum = ();

    fn key(&self) -> u64 {
        self.guest.end - 1
    }

    fn sum(&self) {}

    fn join(_one: (), _other: ()) {}
}

/// Slots may map the same memory. The sum spans the first to the last address.
impl Member for Mapped {
    type Key = (u64, u32);
    type Sum = (u64, u64);

    fn key(&self) -> (u64, u32) {
        (self.host.start, self.number)
    }

    fn sum(&self) -> (u64, u64) {
        (self.host.start, self.host.end)
    }

    fn join(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
        (one.0.min(other.0), one.1.max(other.1))
    }
}

/// The change of the guest's translation that a change of slots requires.
pub enum Changed {
    /// None.
    Nothing,
    /// These addresses have a different meaning now.
    Moved(Range<u64>),
    /// Writes to these addresses must be noticed from now on.
    Logged(Range<u64>),
}

impl Slot {
    /// The VMM's address of a guest address in this slot.
    pub fn host(&self, address: u64) -> usize {
        (self.address + (address - self.guest.start)) as usize
    }

    /// The index, within this slot, of the page at a guest address.
    pub fn page(&self, address: u64) -> usize {
        (address - self.guest.start) as usize / PAGE_SIZE
    }

    /// The guest addresses of `count` pages of this slot from the `first` on.
    pub fn pages(&self, first: usize, count: usize) -> Range<u64> {
        let start = self.guest.start + (first * PAGE_SIZE) as u64;
        start..(start + (count * PAGE_SIZE) as u64).min(self.guest.end)
    }

    /// The guest addresses of this slot in the aligned block of `len` bytes around `address`.
    pub fn around(&self, address: u64, len: u64) -> Range<u64> {
        let start = address & !(len - 1);
        start.max(self.guest.start)..start.saturating_add(len).min(self.guest.end)
    }

    /// The number of pages.
    pub fn len(&self) -> usize {
        (self.guest.end - self.guest.start) as usize / PAGE_SIZE
    }

    /// The size of its log in bytes.
    fn log_len(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.len())
    }

    /// The VMM's memory that it maps.
    fn mapped(&self) -> Mapped {
        let len = self.guest.end - self.guest.start;
        Mapped {
            number: self.number,
            host: self.address..self.address + len,
            offset: self.guest.start.wrapping_sub(self.address),
        }
    }
}

impl Slots {
    /// The slot that contains a guest address.
    pub fn find(&self, address: u64) -> Option<&Slot> {
        let slot = self.all.from(&address)?;
        slot.guest.contains(&address).then_some(slot)
    }

    /// The slot with a number.
    pub fn get(&self, number: u32) -> Option<&Slot> {
        self.all.get(self.numbers.get(number as usize)?)
    }

    /// The size of all their logs in bytes.
    pub fn logs(&self) -> usize {
        self.logs
    }

    /// The guest addresses at which slots map a range of the VMM's memory.
    pub fn showing(&self, host: &Range<usize>) -> impl Iterator<Item = Range<u64>> {
        let (start, end) = (host.start as u64, host.end as u64);
        let slots = self.mapped.those(move |sum| sum.0 < end && start < sum.1);
        slots.map(move |slot| {
            let guest = |address: u64| address.wrapping_add(slot.offset);
            guest(start.max(slot.host.start))..guest(end.min(slot.host.end))
        })
    }

    /// Whether a slot other than `number` contains some of these guest addresses.
    fn overlaps(&self, guest: &Range<u64>, number: u32) -> bool {
        let mut found = self.all.from(&guest.start);
        if let Some(own) = found.filter(|slot| slot.number == number) {
            found = self.all.from(&own.guest.end);
        }
        found.is_some_and(|slot| slot.guest.start < guest.end)
    }

    /// Whether [`Slots::set`] can create, move or remove a slot of a guest whose addresses end at
    /// `limit`, with Linux's checks. Returns the number of pages in the log that starts with it, if
    /// one does.
    pub fn check(&self, region: &MemoryRegion, limit: u64) -> Result<Option<usize>> {
        let page = PAGE_SIZE as u64;
        let aligned = [region.len, region.guest_address, region.address]
            .iter()
            .all(|part| part % page == 0);
        let end = region.guest_address.checked_add(region.len);
        let host = region
            .address
            .checked_add(region.len)
            .filter(|end| *end <= USER_END as u64);
        // The upper half of the number is the address space; arm64 has only one.
        if region.slot as usize >= MAX
            || region.flags & !(MEM_READONLY | MEM_LOG) != 0
            || !aligned
            || region.len / page > MOST_PAGES
        {
            return Err(Errno::EINVAL);
        }
        let end = end.filter(|_| host.is_some()).ok_or(Errno::EINVAL)?;
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
        if self.overlaps(&(region.guest_address..end), region.slot) {
            return Err(Errno::EEXIST);
        }
        if end > limit {
            return Err(Errno::EFAULT);
        }
        let begins = region.flags & MEM_LOG != 0 && old.is_none_or(|old| old.log.is_none());
        Ok(begins.then_some(region.len as usize / PAGE_SIZE))
    }

    /// Creates, moves or removes a slot that was checked; `log` is the log that starts, if one
    /// does.
    pub fn set(&mut self, region: &MemoryRegion, log: Option<Arc<Log>>) -> Result<Changed> {
        if region.len == 0 {
            let old = self.remove(region.slot).ok_or(Errno::EINVAL)?;
            return Ok(Changed::Moved(old.guest));
        }
        let begins = log.is_some();
        let before = self.get(region.slot).and_then(|old| old.log.clone());
        let new = Slot {
            number: region.slot,
            guest: region.guest_address..region.guest_address + region.len,
            address: region.address,
            writable: region.flags & MEM_READONLY == 0,
            log: log.or(before.filter(|_| region.flags & MEM_LOG != 0)),
        };
        let guest = new.guest.clone();
        let old = self.replace(new)?;
        Ok(match old {
            Some(old) if old.guest != guest => Changed::Moved(old.guest),
            Some(_) if begins => Changed::Logged(guest),
            _ => Changed::Nothing,
        })
    }

    fn remove(&mut self, number: u32) -> Option<Slot> {
        let at = *self.numbers.get(number as usize)?;
        let number = number as usize;
        self.numbers.remove_range(number, number, &mut |_| ());
        let slot = self.all.remove(&at)?;
        self.mapped.remove(&slot.mapped().key());
        self.logs -= slot.log_len();
        Some(slot)
    }

    /// Replaces the slot with the same number, if any, and returns the old one. Nothing changes if
    /// memory is lacking.
    fn replace(&mut self, new: Slot) -> Result<Option<Slot>> {
        let no_memory = |_| Errno::ENOMEM;
        self.all.reserve(1).map_err(no_memory)?;
        self.mapped.reserve(1).map_err(no_memory)?;
        let numbered = self.numbers.insert(new.number as usize, new.key());
        let old = numbered.map_err(|_| Errno::ENOMEM)?;
        let old = old.and_then(|at| self.all.remove(&at));
        if let Some(old) = &old {
            self.mapped.remove(&old.mapped().key());
            self.logs -= old.log_len();
        }
        self.logs += new.log_len();
        self.mapped.insert(new.mapped()).map_err(no_memory)?;
        self.all.insert(new).map_err(no_memory)?;
        Ok(old)
    }
}
