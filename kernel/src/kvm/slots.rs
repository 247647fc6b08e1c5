//! A guest's memory by slots: which of the monitor's memory stands where (KVM_SET_USER_MEMORY_REGION).

use alloc::vec::Vec;
use core::ops::Range;

use super::uapi::{MEM_READONLY, MemoryRegion};
use crate::arch::{PAGE_SIZE, USER_END};
use crate::errno::{Errno, Result};

/// How many there can be.
pub const MAX: usize = 32767;

/// One slot.
#[derive(Clone)]
pub struct Slot {
    number: u32,
    /// Where the guest has it.
    guest: Range<u64>,
    /// Where the monitor has it.
    address: u64,
    /// Whether the guest may write.
    pub writable: bool,
}

/// The slots of a VM.
#[derive(Default)]
pub struct Slots(Vec<Slot>);

impl Slots {
    /// The slot that holds a guest's address, and where that is in the monitor's memory.
    pub fn find(&self, address: u64) -> Option<(&Slot, usize)> {
        let slot = self.0.iter().find(|slot| slot.guest.contains(&address))?;
        Some((slot, (slot.address + (address - slot.guest.start)) as usize))
    }

    /// Makes, moves or removes a slot of a guest whose addresses end at `limit`, with Linux's checks. Returns the guest's
    /// addresses that no longer mean what they did.
    pub fn set(&mut self, region: &MemoryRegion, limit: u64) -> Result<Option<Range<u64>>> {
        let page = PAGE_SIZE as u64;
        let aligned = [region.len, region.guest_address, region.address]
            .iter()
            .all(|part| part % page == 0);
        let end = region.guest_address.checked_add(region.len);
        let monitors = region
            .address
            .checked_add(region.len)
            .is_some_and(|end| end <= USER_END as u64);
        // The upper half of the number is the address space, of which arm64 has one.
        if region.slot as usize >= MAX || region.flags & !MEM_READONLY != 0 || !aligned || !monitors
        {
            return Err(Errno::EINVAL);
        }
        let end = end.ok_or(Errno::EINVAL)?;
        let old = self.0.iter().position(|slot| slot.number == region.slot);
        if region.len == 0 {
            let old = old.ok_or(Errno::EINVAL)?;
            return Ok(Some(self.0.swap_remove(old).guest));
        }
        let new = Slot {
            number: region.slot,
            guest: region.guest_address..end,
            address: region.address,
            writable: region.flags & MEM_READONLY == 0,
        };
        if let Some(old) = old.map(|at| &self.0[at])
            && (old.address != new.address
                || old.guest.end - old.guest.start != region.len
                || old.writable != new.writable)
        {
            return Err(Errno::EINVAL);
        }
        let overlaps =
            |slot: &Slot| slot.guest.start < new.guest.end && new.guest.start < slot.guest.end;
        if self
            .0
            .iter()
            .any(|slot| slot.number != new.number && overlaps(slot))
        {
            return Err(Errno::EEXIST);
        }
        if end > limit {
            return Err(Errno::EFAULT);
        }
        match old {
            Some(at) => Ok(Some(core::mem::replace(&mut self.0[at], new).guest)),
            None => {
                self.0.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
                self.0.push(new);
                Ok(None)
            }
        }
    }
}
