//! Tests of guests' memory, inside the machine.

use super::slots::Slots;
use super::uapi::MemoryRegion;
use crate::arch::virt::{self, Stage2};
use crate::errno::Errno;
use crate::selftest;

/// A page of the monitor's at `address`, as a slot.
fn page(slot: u32, address: u64) -> MemoryRegion {
    MemoryRegion {
        slot,
        flags: 0,
        guest_address: u64::from(slot) << 12,
        len: 1 << 12,
        address,
    }
}

selftest! {
    fn no_memory_is_in_too_many_slots() {
        const LIMIT: u64 = 1 << 40;
        let mut slots = Slots::default();
        let refused = (0..).find_map(|slot| {
            let region = page(slot, 1 << 30);
            let checked = slots.check(&region, LIMIT).err();
            if checked.is_none() {
                slots.set(&region, None).expect("room");
            }
            checked.map(|error| (slot, error))
        });
        assert_eq!(refused, Some((129, Errno::ENOMEM)));
        assert!(slots.check(&page(129, 2 << 30), LIMIT).is_ok());
    }

    fn a_virtual_cpu_knows_that_another_ran() {
        if !virt::available() {
            return;
        }
        let memory = Stage2::new(40).expect("memory");
        assert!(!memory.others_ran(3) && !memory.others_ran(3));
        assert!(memory.others_ran(0) && !memory.others_ran(0));
        assert!(memory.others_ran(3));
    }
}
