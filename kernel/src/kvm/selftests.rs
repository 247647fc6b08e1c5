//! Tests of guests' memory, inside the machine.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::dirty::Log;
use super::memory::Memory;
use super::slots::Slots;
use super::uapi::MemoryRegion;
use crate::arch::virt::{self, Stage2};
use crate::arch::{irq, time, user_end};
use crate::errno::Errno;
use crate::mm::fault::Access;
use crate::mm::huge_page;
use crate::mm::{MapRequest, PAGE_SIZE, Place, Removed, SpaceUser, frame};
use crate::selftest;
use crate::task::timer::{Expire, Timer};

/// Records that an interrupt arrived.
struct Note(AtomicBool);

impl Expire for Note {
    fn expire(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// A slot of one page of the VMM's memory at `address`.
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
    fn no_memory_of_a_space_is_in_too_many_slots_of_all_machines() {
        if !virt::available() {
            return;
        }
        let space = SpaceUser::new(user_end()).expect("a space");
        let memories = [39, 40].map(|bits| Arc::new(Memory::new(bits).expect("memory")));
        for memory in &memories {
            let notifier: Weak<Memory> = Arc::downgrade(memory);
            space.add_notifier(notifier).expect("few");
        }
        let add = |slot: u32, address| {
            let region = page(slot, address);
            let slots = &memories[slot as usize % 2].slots;
            let set = || slots.lock().set(&region, None).map(drop);
            space.add_alias(&region.host(), set).err()
        };
        let refused = (0..).find_map(|slot| add(slot, 1 << 30).map(|error| (slot, error)));
        assert_eq!(refused, Some((129, Errno::ENOMEM)));
        assert_eq!(add(129, 2 << 30), None);
    }

    fn slots_are_found_by_both_addresses() {
        const LIMIT: u64 = 1 << 40;
        const COUNT: u32 = 10_000;
        let mut slots = Slots::default();
        // The VMM has them in the opposite order, with a gap before each.
        let address = |slot: u32| (1 << 30) + (u64::from(COUNT - slot) << 13);
        for slot in 0..COUNT {
            let region = page(slot * 7 % COUNT, address(slot * 7 % COUNT));
            assert!(slots.check(&region, LIMIT).is_ok());
            slots.set(&region, None).expect("room");
        }
        for slot in (0..COUNT).step_by(99) {
            let guest = u64::from(slot) << 12;
            let found = slots.find(guest + 5).expect("it was made");
            assert_eq!(found.host(guest), address(slot) as usize);
            let host = address(slot) as usize - PAGE_SIZE..address(slot) as usize + 1;
            let shown: Vec<_> = slots.showing(&host).collect();
            assert_eq!((shown.len(), &shown[0]), (1, &(guest..guest + 1)));
            assert!(slots.showing(&(host.start..host.end - 1)).next().is_none());
            let taken = MemoryRegion { guest_address: guest, ..page(COUNT, 1 << 20) };
            assert_eq!(slots.check(&taken, LIMIT).err(), Some(Errno::EEXIST));
            let gone = MemoryRegion { len: 0, ..page(slot, address(slot)) };
            slots.set(&gone, None).expect("it was there");
            assert!(slots.find(guest).is_none() && slots.get(slot).is_none());
            assert!(slots.showing(&host).next().is_none());
            assert!(slots.check(&taken, LIMIT).is_ok());
        }
    }

    fn logs_are_counted_with_their_slots() {
        let mut slots = Slots::default();
        let log = Log::new(1 << 20, false).expect("a log");
        slots.set(&page(0, 1 << 30), Some(log)).expect("room");
        assert_eq!(slots.logs(), 1 << 17);
        let gone = MemoryRegion { len: 0, ..page(0, 1 << 30) };
        slots.set(&gone, None).expect("it was there");
        assert_eq!(slots.logs(), 0);
    }

    fn memory_goes_by_parts_and_tables_are_counted() {
        if !virt::available() {
            return;
        }
        // Two pages for each last-level table.
        const PAGES: u64 = 300;
        let memory = Stage2::new(39).expect("memory");
        for page in 0..PAGES {
            let frame = frame::alloc_zeroed().expect("a frame");
            let mapped = memory.map(page << 20, frame, true, memory.generation());
            assert_eq!(mapped, Ok(true));
        }
        assert_eq!(memory.tables(), 153);
        let mut pauses = 0;
        memory.unmap(0..PAGES << 20, || pauses += 1);
        // Parts are shorter if each page has to be cleaned from the caches.
        let most = if memory.cleans() { 1 } else { 8 };
        assert!(pauses >= PAGES / 2 / most);
        assert_eq!(memory.flushes(), pauses);
    }

    fn a_guest_sees_memory_past_the_caches() {
        if !virt::available() {
            return;
        }
        let memory = Stage2::new(39).expect("memory");
        let frame = frame::alloc_zeroed().expect("a frame");
        let map = |frame: &frame::FrameRef, writable| {
            let mapped = memory.map(0x3000, frame.clone(), writable, memory.generation());
            assert_eq!(mapped, Ok(true));
            memory.synced().0
        };
        assert_eq!(map(&frame, false), 1);
        // The mapping becomes writable; it is still of the same frame.
        assert_eq!(map(&frame, true), 1);
        let other = frame::alloc_zeroed().expect("a frame");
        let before = map(&other, true);
        let in_caches = memory.synced().1;
        // The frame that was mapped before is released, too.
        assert_eq!(before, if in_caches { 2 } else { 3 });
        memory.write_all_to_memory(|| ());
        memory.unmap(0..1 << 30, || ());
        let after = memory.synced().0;
        assert_eq!(after - before, if in_caches { 0 } else { 2 });
    }

    fn a_huge_page_is_made_ready_only_to_be_mapped() {
        const START: usize = 0x2000_0000;
        if !virt::available() {
            return;
        }
        let space = SpaceUser::new(user_end()).expect("a space");
        let request = MapRequest::anonymous(Place::Free(START), huge_page::SIZE);
        space.map(request, &mut Removed::new()).expect("room");
        space.frame(START, Access::Write).expect("a frame");
        let memory = Stage2::new(39).expect("memory");
        let map = |generation| {
            let huge = space.huge_page(START).expect("a huge page");
            let mapped = memory.map_huge_page(0, huge, generation).expect("memory");
            (mapped, memory.synced().0)
        };
        let generation = memory.generation();
        memory.unmap(0..1 << 21, || ());
        assert_eq!(map(generation), (false, 0));
        assert_eq!(map(memory.generation()), (true, 512));
        assert_eq!(map(memory.generation()), (true, 512));
    }

    fn the_end_of_scattered_memory_lets_interrupts_in() {
        if !virt::available() {
            return;
        }
        let memory = Stage2::new(39).expect("memory");
        for page in 0..512 {
            let frame = frame::alloc_zeroed().expect("a frame");
            let mapped = memory.map(page << 30, frame, true, memory.generation());
            assert_eq!(mapped, Ok(true));
        }
        // The tables remain.
        memory.unmap(0..1 << 40, || ());
        let struck = Arc::new(Note(AtomicBool::new(false)));
        let _timer = Timer::call(time::now_ticks(), struck.clone()).expect("memory");
        while !irq::pending() {}
        drop(memory);
        assert!(struck.0.load(Relaxed));
    }

    fn a_fork_reads_what_a_guest_wrote() {
        if !virt::available() {
            return;
        }
        const PAGES: usize = 300;
        const START: usize = 0x2000_0000;
        let space = SpaceUser::new(user_end()).expect("a space");
        let request = MapRequest::anonymous(Place::Free(START), PAGES * PAGE_SIZE);
        space.map(request, &mut Removed::new()).expect("room");
        let memory = Arc::new(Memory::new(40).expect("memory"));
        let region = MemoryRegion { len: (PAGES * PAGE_SIZE) as u64, ..page(0, START as u64) };
        memory.slots.lock().set(&region, None).expect("room");
        let notifier: Weak<Memory> = Arc::downgrade(&memory);
        space.add_notifier(notifier).expect("room");
        let frames: Vec<_> = (0..PAGES)
            .map(|page| space.frame(START + page * PAGE_SIZE, Access::Write).expect("a frame"))
            .collect();
        for (page, frame) in frames.iter().enumerate() {
            let generation = memory.translation.generation();
            let address = (page * PAGE_SIZE) as u64;
            let mapped = memory.translation.map(address, frame.clone(), true, generation);
            assert_eq!(mapped, Ok(true));
        }
        let threads = [space.clone(), space.clone(), space.clone()];
        let before = memory.translation.flushes();
        let (synced, in_caches) = memory.translation.synced();
        let child = space.fork().expect("a child");
        assert_eq!(memory.translation.flushes() - before, 1);
        // The references: this handle, both spaces, and the guest if it may not have written past
        // the caches.
        let (refs, let_go) = if in_caches { (4, 0) } else { (3, PAGES as u64) };
        assert!(frames.iter().all(|frame| frame.meta().refs() == refs));
        assert_eq!(memory.translation.synced().0 - synced, let_go);
        drop((child, threads, space));
        assert!(frames.iter().all(|frame| frame.meta().refs() == 1));
    }
}
