//! Address spaces: faults, copy on write, huge pages, large ranges, tables.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::super::fault::{Access, Failure};
use super::super::frame;
use super::super::mmu_notifier::MmuNotifier;
use super::super::space::SpaceUser;
use super::super::table::PageTable;
use super::super::totals::Limits;
use super::super::vma::{Flags, Label, Rights, Source, Vma};
use super::super::vmas::{Removed, Vmas};
use super::super::{
    AddressSpace, MapRequest, Move, PAGE_SIZE, Place, RemapRequest, huge_page, user,
};
use super::{BASE, Random, byte, join_single_frames, map, remap, size, take_all};
use crate::arch::user_end;
use crate::errno::Errno;
use crate::selftest;
use translation::owed::Owed;

selftest! {
    fn spaces_fault_and_copy_on_write() {
        let parent = SpaceUser::new(user_end()).unwrap();
        map(&parent, BASE, 4, 3).unwrap();
        assert_eq!(map(&parent, BASE + PAGE_SIZE, 1, 3), Err(Errno::EEXIST));
        assert_eq!(byte(&parent, BASE), Some(0));
        assert_eq!(size(&parent), (4, 0), "a read maps the zero page, which is not counted");
        assert_eq!(parent.write(BASE + PAGE_SIZE - 1, &[7, 8]), Ok(2));
        assert_eq!(size(&parent), (4, 2));
        let child = parent.fork().unwrap();
        assert_eq!(parent.write(BASE + PAGE_SIZE, &[9]), Ok(1));
        assert_eq!((byte(&parent, BASE + PAGE_SIZE), byte(&child, BASE + PAGE_SIZE)), (Some(9), Some(8)));
        parent.protect(BASE..BASE + PAGE_SIZE, Rights::READ).unwrap();
        assert_eq!(parent.write(BASE, &[1]), Ok(0));
        assert_eq!(child.write(BASE, &[1]), Ok(1));
        assert_eq!(byte(&parent, BASE + PAGE_SIZE - 1), Some(7));
        parent.unmap(BASE..BASE + 4 * PAGE_SIZE, &mut Removed::new()).unwrap();
        assert_eq!((byte(&parent, BASE), size(&parent)), (None, (0, 0)));
    }
}

selftest! {
    fn spaces_refuse_hidden_pages_and_find_them_again() {
        let space = SpaceUser::new(user_end()).unwrap();
        map(&space, BASE, 1, 3).unwrap();
        assert_eq!(space.write(BASE, &[5]), Ok(1));
        space.protect(BASE..BASE + PAGE_SIZE, Rights::empty()).unwrap();
        assert_eq!(byte(&space, BASE), None);
        space.protect(BASE..BASE + PAGE_SIZE, Rights::READ).unwrap();
        assert_eq!(byte(&space, BASE), Some(5));
    }
}

/// In a new space whose program has just written 1 to its page at BASE, returns what it reads there
/// after a change of the space, and whether it may write: both through this CPU's TLB.
fn after(change: impl FnOnce(&Arc<AddressSpace>)) -> (Option<u8>, bool) {
    let space = SpaceUser::new(user_end()).unwrap();
    map(&space, BASE, 2, 3).unwrap();
    space.clone().activate();
    assert_eq!(user::copy_to(BASE, &[1]), 1);
    change(&space);
    let mut byte = [0];
    let read = (user::copy_from(BASE, &mut byte) == 1).then_some(byte[0]);
    let writes = user::copy_to(BASE, &[2]) == 1;
    super::super::deactivate();
    (read, writes)
}

selftest! {
    fn a_cpu_forgets_what_its_space_lost() {
        let page = BASE..BASE + PAGE_SIZE;
        let mut child = None;
        assert_eq!(after(|space| child = space.fork().ok()), (Some(1), true));
        assert_eq!(byte(&child.unwrap(), BASE), Some(1), "the parent wrote to the child");
        let protected = |rights| after(|space| space.protect(page.clone(), rights).unwrap());
        assert_eq!(protected(Rights::READ), (Some(1), false));
        assert_eq!(protected(Rights::empty()), (None, false));
        assert_eq!(after(|space| space.discard(page.clone(), true, |_| Ok(())).unwrap()), (Some(0), true));
        let unmap = |space: &Arc<AddressSpace>| {
            space.unmap(page.clone(), &mut Removed::new()).unwrap();
        };
        assert_eq!(after(unmap), (None, false));
        let moved = |space: &Arc<AddressSpace>| {
            let to = Move::To(BASE + 8 * PAGE_SIZE);
            let gone = &mut Removed::new();
            remap(space, page.clone(), PAGE_SIZE, to, gone).unwrap();
        };
        assert_eq!(after(moved), (None, false));
        let copied = |space: &Arc<AddressSpace>| {
            let child = space.fork().unwrap();
            let mut byte = [0];
            assert_eq!(user::copy_from(BASE, &mut byte), 1);
            // BASE maps another frame from here on.
            assert_eq!(space.write(BASE, &[3]), Ok(1));
            drop(child);
        };
        assert_eq!(after(copied), (Some(3), true));
    }
}

selftest! {
    fn spaces_count_references() {
        let space = SpaceUser::new(user_end()).unwrap();
        let range = BASE..BASE + 8 * PAGE_SIZE;
        map(&space, BASE, 8, 3).unwrap();
        for page in range.clone().step_by(PAGE_SIZE) {
            assert_eq!(space.write(page, &[1]), Ok(1));
        }
        assert_eq!(space.usage(range.clone()).referenced, 8);
        space.clear_references(|_| true);
        assert_eq!(space.usage(range.clone()).referenced, 0);
        assert_eq!(space.fault(BASE, Access::Read), Ok(()));
        assert_eq!(space.usage(range).referenced, 1);
    }
}

selftest! {
    fn what_was_searched_is_searched_again_where_it_changed() {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let mut vmas = Vmas::new();
        let page = |index| BASE + index * PAGE_SIZE;
        for _ in 0..10_000 {
            let (first, pages) = (random.below(4000), 1 + random.below(12));
            let range = page(first)..page(first + pages);
            if random.below(5) < 2 {
                vmas.remove(range, &mut Removed::new()).unwrap();
                continue;
            }
            let window = page(0)..page([3000, 4000][random.below(2)]);
            let align = [PAGE_SIZE, PAGE_SIZE, 8 * PAGE_SIZE][random.below(3)];
            // A copy has no cached search.
            let mut copy = vmas.for_child().unwrap();
            let found = vmas.find_free(window.clone(), range.len(), align);
            assert_eq!(found, copy.find_free(window, range.len(), align));
            let Some(start) = found.filter(|_| random.below(8) > 0) else {
                continue;
            };
            assert!(vmas.touching(start..start + range.len()).next().is_none());
            vmas.insert(Vma {
                start,
                end: start + range.len(),
                rights: Rights::from_prot(random.below(8) as u32),
                label: Label::None,
                flags: Flags::empty().with(Flags::GROWS_DOWN, random.below(50) == 0),
                source: Source::Anonymous,
            }).unwrap();
        }
    }
}

selftest! {
    fn blocks_are_split_where_their_pages_differ() {
        join_single_frames();
        let free = frame::free_count();
        let space = SpaceUser::new(user_end()).unwrap();
        let pages = huge_page::SIZE / PAGE_SIZE;
        let range = BASE..BASE + 2 * huge_page::SIZE;
        map(&space, BASE, 2 * pages, 3).unwrap();
        let huge = || space.usage(range.clone()).huge;
        assert_eq!(space.write(BASE + 5, &[1]), Ok(1));
        assert_eq!((huge(), space.size().resident), (pages, pages));
        assert_eq!(space.write(range.end - 1, &[2]), Ok(1));
        assert_eq!(huge(), 2 * pages);
        let hole = BASE + 7 * PAGE_SIZE;
        assert_eq!(space.write(hole - 1, &[3, 4]), Ok(2));
        space.unmap(hole..hole + PAGE_SIZE, &mut Removed::new()).unwrap();
        assert_eq!((huge(), space.size().resident), (pages, 2 * pages - 1));
        let found = [BASE + 5, hole - 1, hole, range.end - 1].map(|at| byte(&space, at));
        assert_eq!(found, [Some(1), Some(3), None, Some(2)]);
        let child = space.fork().unwrap();
        assert_eq!(space.write(range.end - 1, &[9]), Ok(1));
        assert_eq!((byte(&child, range.end - 1), huge()), (Some(2), 0));
        drop(child);
        space.discard(range.start..hole, true, |_| Ok(())).unwrap();
        assert_eq!((byte(&space, BASE + 5), byte(&space, range.end - 1)), (Some(0), Some(9)));
        drop(space);
        let lost = free.saturating_sub(frame::free_count());
        assert!(lost < 128, "{lost} of {free} lost");
    }
}

selftest! {
    fn without_memory_a_large_range_stays_whole() {
        let space = SpaceUser::new(user_end()).unwrap();
        // As many VMAs as fit in one list, with the large one in the middle.
        let step = 1 << 30;
        let large = BASE + 31 * step;
        for at in (BASE..).step_by(step).take(63) {
            map(&space, at, if at == large { step / 2 / PAGE_SIZE } else { 1 }, 3).unwrap();
        }
        let inside = large + 2 * PAGE_SIZE..large + step / 2 - 2 * PAGE_SIZE;
        assert_eq!(space.write(inside.start, &[7]), Ok(1));
        // Other rights, so that it is not merged with its neighbours.
        let in_place = MapRequest {
            rights: Rights::READ,
            ..MapRequest::anonymous(Place::Fixed(inside.start), inside.len())
        };
        let taken = take_all();
        let gone = &mut Removed::new();
        let refused = (
            space.unmap(inside.clone(), gone),
            space.map(in_place, gone),
            space.write(BASE, &[7]),
        );
        drop(taken);
        assert_eq!(refused, (Err(Errno::ENOMEM), Err(Errno::ENOMEM), Err(Errno::ENOMEM)));
        assert_eq!(byte(&space, inside.start), Some(7));
        space.unmap(inside.clone(), &mut Removed::new()).unwrap();
        assert_eq!(byte(&space, inside.start), None);
    }
}

selftest! {
    fn what_is_large_goes_in_parts_wherever_it_goes() {
        /// The longest range that was notified at once.
        struct Longest(AtomicUsize);
        impl MmuNotifier for Longest {
            fn invalidate(&self, range: Range<usize>) {
                self.0.fetch_max(range.len(), Relaxed);
            }

            fn protect(&self, _range: Range<usize>) {}

            fn aliases(&self, _range: &Range<usize>, _most: usize) -> usize {
                1
            }

            fn end(&self) {}
        }
        const TABLES: usize = 200;
        let longest = Arc::new(Longest(AtomicUsize::new(0)));
        let space = SpaceUser::new(user_end()).unwrap();
        let notifier: Weak<Longest> = Arc::downgrade(&longest);
        space.add_notifier(notifier).unwrap();
        let (pages, gone) = (TABLES * huge_page::SIZE / PAGE_SIZE, &mut Removed::new());
        let fill = |range: Range<usize>| {
            space.set_flags(range.clone(), Flags::NO_HUGE, true, |_| Ok(())).unwrap();
            for at in range.step_by(huge_page::SIZE) {
                assert_eq!(space.write(at, &[1]), Ok(1));
            }
        };
        let all = BASE..BASE + pages * PAGE_SIZE;
        let check = |what| {
            let longest = longest.0.swap(0, Relaxed);
            assert!((1..100 * huge_page::SIZE).contains(&longest), "{what}: {longest:#x}");
            assert_eq!(byte(&space, BASE), Some(0), "{what}");
        };
        map(&space, BASE, pages, 3).unwrap();
        fill(all.clone());
        let in_place = || MapRequest::anonymous(Place::Fixed(BASE), all.len());
        space.map(in_place(), gone).unwrap();
        check("by a mapping");
        fill(all.clone());
        let other = all.end + huge_page::SIZE;
        map(&space, other, 1, 3).unwrap();
        let old = other..other + PAGE_SIZE;
        remap(&space, old, all.len(), Move::To(BASE), gone).unwrap();
        check("by a move");
        fill(all.clone());
        remap(&space, all.clone(), PAGE_SIZE, Move::Never, gone).unwrap();
        longest.0.fetch_max(1, Relaxed);
        space.discard(BASE..BASE + PAGE_SIZE, true, |_| Ok(())).unwrap();
        check("cut off");
    }
}

selftest! {
    fn a_large_range_moves_in_parts_and_keeps_its_place() {
        const TABLES: usize = 20;
        let size = huge_page::SIZE;
        let len = TABLES * size;
        let space = SpaceUser::new(user_end()).unwrap();
        map(&space, BASE, len / PAGE_SIZE, 3).unwrap();
        space.set_flags(BASE..BASE + len, Flags::NO_HUGE, true, |_| Ok(())).unwrap();
        for table in 0..TABLES {
            assert_eq!(space.write(BASE + table * size, &[table as u8 + 1]), Ok(1));
        }
        let to = BASE + 2 * len + 3 * PAGE_SIZE;
        let kept = RemapRequest {
            old: BASE..BASE + len,
            len,
            place: Move::To(to),
            keep: true,
        };
        let gone = &mut Removed::new();
        space.remap(kept, &Limits::NONE, gone).unwrap();
        let is_moved = |at| {
            (0..TABLES).all(|table| byte(&space, at + table * size) == Some(table as u8 + 1))
        };
        assert!(is_moved(to) && byte(&space, BASE) == Some(0));
        assert_eq!(space.vmas().map(|vma| vma.range().len()).collect::<Vec<_>>(), [len, len]);
        // It grows, and the new part is merged with the moved one.
        let grown = remap(&space, to..to + len, 2 * len, Move::To(BASE + 8 * len), gone).unwrap();
        assert!(is_moved(grown) && byte(&space, to).is_none());
        assert_eq!(byte(&space, grown + 2 * len - 1), Some(0));
        assert_eq!(space.vmas().map(|vma| vma.range().len()).collect::<Vec<_>>(), [len, 2 * len]);
        assert_eq!(space.totals().all, 3 * len);
        assert_eq!(space.totals().accounted, 3 * len);
    }
}

selftest! {
    fn faults_wait_where_a_huge_page_would_reach_what_moves() {
        let size = huge_page::SIZE;
        let space = SpaceUser::new(user_end()).unwrap();
        map(&space, BASE, 4 * size / PAGE_SIZE, 3).unwrap();
        let mut parts = space.parts();
        let moving = [BASE + 2 * size - PAGE_SIZE..BASE + 2 * size, BASE + 8 * size..BASE + 9 * size];
        drop(parts.pause_move(space.lock(), [&moving[0], &moving[1]]));
        assert!(space.is_paused());
        let fault = |at| space.fault(BASE + at, Access::Write);
        assert_eq!(fault(size), Err(Failure::Paused));
        assert_eq!(fault(2 * size - 1), Err(Failure::Paused));
        assert_eq!(fault(0), Ok(()));
        assert_eq!(fault(2 * size), Ok(()));
        drop(parts);
        assert!(!space.is_paused());
        assert_eq!(fault(size), Ok(()));
    }
}

selftest! {
    fn who_writes_waits_for_a_fork_beside_other_threads() {
        let space = SpaceUser::new(user_end()).unwrap();
        map(&space, BASE, 2, 3).unwrap();
        let mut parts = space.parts_of_fork(false);
        drop(parts.pause(space.lock()));
        assert_eq!(space.fault(BASE, Access::Write), Err(Failure::Paused));
        assert_eq!(space.fault(BASE, Access::Read), Ok(()));
        drop(parts);
        assert_eq!(space.fault(BASE, Access::Write), Ok(()));
    }
}

selftest! {
    fn a_large_range_that_goes_is_not_joined_again() {
        let space = SpaceUser::new(user_end()).unwrap();
        let pages = 64;
        map(&space, BASE, pages, 3).unwrap();
        let all = BASE..BASE + pages * PAGE_SIZE;
        let inside = all.start + PAGE_SIZE..all.end - PAGE_SIZE;
        let leaving = space.leave(inside.clone(), &mut Removed::new()).unwrap();
        // Another thread's calls, before the rest is unmapped.
        for rights in [Rights::READ, Rights::READ.union(Rights::WRITE)] {
            space.protect(all.clone(), rights).unwrap();
        }
        assert_eq!(space.vmas().count(), 3);
        assert_eq!(space.seal(inside.start..all.end), Err(Errno::ENOMEM));
        drop(leaving);
        assert_eq!(space.seal(all.end - PAGE_SIZE..all.end), Ok(()));
        space.unmap(inside, &mut Removed::new()).unwrap();
        map(&space, all.start + PAGE_SIZE, 1, 3).unwrap();
        assert_eq!(space.vmas().map(|vma| vma.range().len()).next(), Some(2 * PAGE_SIZE));
    }
}

selftest! {
    fn a_part_has_few_tables_also_where_they_are_empty() {
        const GIB: usize = 1 << 30;
        const MOST: usize = 16;
        let mut table = PageTable::new().unwrap();
        for at in 0..64 {
            let pay = &mut Owed::held_by_nobody;
            table.above_leaf(at * GIB, pay).unwrap();
        }
        let (mut at, mut parts) = (0, 0);
        while at < 64 * GIB {
            let end = table.part_end(at..64 * GIB, &mut MOST.clone());
            assert!(at < end && end - at <= MOST * GIB);
            (at, parts) = (end, parts + 1);
        }
        assert_eq!(parts, 64 / MOST);
        let (tables, owed) = table.unlink(0..64 * GIB, 0..64 * GIB).unwrap();
        owed.held_by_nobody();
        drop(tables);
    }
}
