//! Runs of contiguous entries: what changes one page of a run leaves the others as they were.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::super::contpte::{PAGES, SIZE, is_on};
use super::super::fault::Access;
use super::super::frame::{self, FrameRef, FrameRun};
use super::super::space::SpaceUser;
use super::super::vma::{Flags, Label, Rights, Source};
use super::super::vmas::Removed;
use super::super::{
    AddressSpace, MapRequest, Move, PAGE_SIZE, PageSource, Place, ReverseMap, deactivate,
    huge_page, user,
};
use super::{BASE, remap};
use crate::arch::mmu::Pte;
use crate::arch::{cpu, user_end};
use crate::errno::{Errno, Result};
use crate::selftest;
use crossings::Kind;
use translation::owed::{Age, Owed};

const READ: Rights = Rights::READ;
const WRITE: Rights = Rights::READ.union(Rights::WRITE);

/// A file of two runs, whose pages begin with their numbers.
struct File {
    frames: Vec<FrameRef>,
    reverse_map: ReverseMap,
}

impl File {
    fn new() -> Arc<File> {
        let mut run = FrameRun::default();
        let frame = |page| {
            let frame = run.frame(page, 2 * PAGES - page).unwrap();
            frame.zero();
            frame.write(0, &[page as u8 + 1]);
            frame
        };
        Arc::new(File {
            frames: (0..2 * PAGES).map(frame).collect(),
            reverse_map: ReverseMap::new(),
        })
    }

    /// Whether nobody else holds any of its frames.
    fn is_free(&self) -> bool {
        self.frames.iter().all(FrameRef::is_unique)
    }
}

impl PageSource for File {
    fn page(&self, index: usize, _write: bool) -> Result<FrameRef> {
        self.frames.get(index).cloned().ok_or(Errno::ENXIO)
    }

    fn present(&self, first: usize, frames: &mut [Option<FrameRef>]) {
        for (page, frame) in self.frames[first..].iter().zip(frames) {
            *frame = Some(page.clone());
        }
    }

    fn len_pages(&self) -> usize {
        self.frames.len()
    }

    fn write_mapped(&self, index: usize, allow: &mut dyn FnMut(&FrameRef)) -> Result<()> {
        allow(&self.frames[index]);
        Ok(())
    }

    fn reverse_map(&self) -> Option<&ReverseMap> {
        Some(&self.reverse_map)
    }
}

fn page(number: usize) -> usize {
    BASE + number * PAGE_SIZE
}

fn pages(numbers: Range<usize>) -> Range<usize> {
    page(numbers.start)..page(numbers.end)
}

fn map(
    space: &AddressSpace,
    file: &Arc<File>,
    numbers: Range<usize>,
    rights: Rights,
    flags: Flags,
) {
    let request = MapRequest {
        rights,
        flags,
        source: Source::File {
            mapping: file.clone(),
            offset: numbers.start * PAGE_SIZE,
        },
        label: Label::None,
        ..MapRequest::anonymous(Place::Free(page(numbers.start)), pages(numbers).len())
    };
    space.map(request, &mut Removed::new()).unwrap();
}

/// Entries of runs that are mapped from BASE on.
fn of_runs(space: &AddressSpace) -> usize {
    of_runs_in(space, BASE..BASE + 4 * SIZE)
}

/// Entries of runs that are mapped in a range.
fn of_runs_in(space: &AddressSpace, range: Range<usize>) -> usize {
    let (space, mut count) = (space.lock(), 0);
    space.table.visit(range, &mut |_, entries| {
        let of_run = |pte: Pte| pte.is_contiguous() && pte != Pte::BUSY;
        count += entries.iter().filter(|entry| of_run(entry.load())).count();
    });
    count
}

/// As many entries as these runs have, if there are runs.
fn runs(count: usize) -> usize {
    if is_on() { count * PAGES } else { 0 }
}

/// What the program on this CPU reads of each page.
fn read() -> Vec<Option<u8>> {
    let read = |number| {
        let mut byte = [0];
        (user::copy_from(page(number), &mut byte) == 1).then_some(byte[0])
    };
    (0..2 * PAGES).map(read).collect()
}

/// What it reads of an unchanged file, but for these pages.
fn but(changed: &[(usize, Option<u8>)]) -> Vec<Option<u8>> {
    let mut expected: Vec<_> = (1..=2 * PAGES as u8).map(Some).collect();
    changed
        .iter()
        .for_each(|(page, byte)| expected[*page] = *byte);
    expected
}

/// Maps a file, reads all of it through this CPU's TLB, and changes the space; returns what is read
/// afterwards, and how many entries are of runs. In the end nobody holds the file's frames.
fn after(flags: Flags, change: impl FnOnce(&Arc<AddressSpace>, &File)) -> (Vec<Option<u8>>, usize) {
    let (file, space) = (File::new(), SpaceUser::new(user_end()).unwrap());
    map(&space, &file, 0..2 * PAGES, READ, flags);
    space.clone().activate();
    assert_eq!(user::copy_from(page(3), &mut [0]), 1);
    assert_eq!((of_runs(&space), space.size().resident), (runs(1), PAGES));
    assert_eq!(read(), but(&[]));
    assert_eq!(
        (of_runs(&space), space.size().resident),
        (runs(2), 2 * PAGES)
    );
    change(&space, &file);
    let found = (read(), of_runs(&space));
    deactivate();
    drop(space);
    assert!(file.is_free(), "a page is still held");
    let numbers = file.frames.iter().map(|frame| {
        let mut byte = [0];
        frame.read(0, &mut byte);
        byte[0]
    });
    assert!(numbers.eq(1..=2 * PAGES as u8), "the file has changed");
    found
}

fn private(change: impl FnOnce(&Arc<AddressSpace>, &File)) -> (Vec<Option<u8>>, usize) {
    after(Flags::default(), change)
}

/// With `fence.inject` the first use of an entry may fault, which no program is there to repeat.
fn hides_new_entries() -> bool {
    crate::params::get("fence.inject").is_some()
}

selftest! {
    fn a_page_of_a_run_goes_by_itself() {
        let gone = &mut Removed::new();
        let unmapped = private(|space, _| space.unmap(pages(5..6), gone).unwrap());
        assert_eq!(unmapped, (but(&[(5, None)]), runs(1)));
        let both = private(|space, _| space.unmap(pages(15..17), gone).unwrap());
        assert_eq!(both, (but(&[(15, None), (16, None)]), 0));
        let whole = private(|space, _| {
            space.unmap(pages(0..16), gone).unwrap();
            assert_eq!(space.size().resident, PAGES);
        });
        let expected: Vec<_> = (0..PAGES).map(|page| (page, None)).collect();
        assert_eq!(whole, (but(&expected), runs(1)));
        // It is read anew, around itself.
        let discarded = private(|space, _| {
            space.discard(pages(20..21), true, |_| Ok(())).unwrap();
            assert_eq!((space.size().resident, of_runs(space)), (2 * PAGES - 1, runs(1)));
        });
        assert_eq!(discarded, (but(&[]), runs(1)));
        let truncated = private(|space, file| {
            file.reverse_map.unmap(7..8, false);
            assert_eq!((space.size().resident, of_runs(space)), (2 * PAGES - 1, runs(1)));
        });
        assert_eq!(truncated, (but(&[]), runs(1)));
    }
}

selftest! {
    fn a_page_of_a_run_changes_by_itself() {
        if hides_new_entries() {
            return;
        }
        let written = private(|space, _| {
            space.protect(pages(6..7), WRITE).unwrap();
            assert_eq!(user::copy_to(page(6), &[99]), 1);
            assert_eq!(user::copy_to(page(7), &[99]), 0);
        });
        assert_eq!(written, (but(&[(6, Some(99))]), runs(1)));
        let all = private(|space, _| {
            space.protect(pages(0..32), WRITE).unwrap();
            assert_eq!(user::copy_to(page(30), &[99]), 1);
        });
        assert_eq!(all, (but(&[(30, Some(99))]), 0));
        let hidden = private(|space, _| space.protect(pages(0..1), Rights::empty()).unwrap());
        assert_eq!(hidden, (but(&[(0, None)]), runs(1)));
        let poked = private(|space, _| assert_eq!(space.poke(page(9), &[99]), Ok(1)));
        assert_eq!(poked, (but(&[(9, Some(99))]), runs(1)));
        let moved = private(|space, _| {
            let to = Move::To(page(40));
            remap(space, pages(12..14), 2 * PAGE_SIZE, to, &mut Removed::new()).unwrap();
            let mut byte = [0];
            assert_eq!((user::copy_from(page(41), &mut byte), byte), (1, [14]));
        });
        assert_eq!(moved, (but(&[(12, None), (13, None)]), runs(1)));
    }
}

selftest! {
    fn a_fork_leaves_runs_and_a_child_makes_its_own() {
        let forked = private(|space, _| {
            let child = space.fork().unwrap();
            assert_eq!((of_runs(space), of_runs(&child), child.size().resident), (runs(2), 0, 0));
            child.protect(pages(0..32), WRITE).unwrap();
            assert_eq!(child.write(page(4), &[99]), Ok(1));
        });
        assert_eq!(forked, (but(&[]), runs(2)));
    }
}

selftest! {
    fn a_vma_that_ends_within_a_run_ends_well() {
        if hides_new_entries() {
            return;
        }
        let divided = private(|space, _| {
            space.set_flags(pages(0..5), Flags::DONT_FORK, true, |_| Ok(())).unwrap();
            assert_eq!((space.vmas().count(), of_runs(space)), (2, runs(2)));
            let resident = space.usage(pages(0..5)).resident + space.usage(pages(5..32)).resident;
            assert_eq!(resident, 2 * PAGES);
        });
        assert_eq!(divided, (but(&[]), runs(2)));
        let half = private(|space, _| {
            space.set_flags(pages(0..5), Flags::DONT_FORK, true, |_| Ok(())).unwrap();
            space.protect(pages(0..5), WRITE).unwrap();
            assert_eq!(user::copy_to(page(4), &[99]), 1);
        });
        assert_eq!(half, (but(&[(4, Some(99))]), runs(1)));
    }
}

selftest! {
    fn shared_runs_are_written_in_place() {
        if hides_new_entries() {
            return;
        }
        let (file, space) = (File::new(), SpaceUser::new(user_end()).unwrap());
        map(&space, &file, 0..2 * PAGES, WRITE, Flags::SHARED);
        space.clone().activate();
        assert_eq!(read(), but(&[]));
        assert_eq!(of_runs(&space), runs(2));
        assert_eq!(user::copy_to(page(8), &[99]), 1);
        let mut byte = [0];
        file.frames[8].read(0, &mut byte);
        assert_eq!((byte, of_runs(&space)), ([99], runs(2)));
        space.protect(pages(8..9), READ).unwrap();
        assert_eq!((user::copy_to(page(8), &[1]), user::copy_to(page(9), &[1])), (0, 1));
        assert_eq!(of_runs(&space), runs(1));
        deactivate();
    }
}

selftest! {
    fn only_whole_runs_that_nobody_copies_become_runs() {
        let file = File::new();
        let of = |numbers: Range<usize>, rights, offset: usize| {
            let space = SpaceUser::new(user_end()).unwrap();
            let request = MapRequest {
                rights,
                source: Source::File {
                    mapping: file.clone(),
                    offset: (numbers.start + offset) * PAGE_SIZE,
                },
                ..MapRequest::anonymous(Place::Free(page(numbers.start)), pages(numbers).len())
            };
            space.map(request, &mut Removed::new()).unwrap();
            space.fault(page(4), Access::Read).unwrap();
            of_runs(&space)
        };
        assert_eq!(of(0..16, READ, 0), runs(1));
        assert_eq!(of(0..15, READ, 0), 0);
        assert_eq!(of(1..16, READ, 0), 0);
        assert_eq!(of(0..16, READ, 1), 0);
        assert_eq!(of(0..16, WRITE, 0), 0);
        assert!(file.is_free());
        let mut mixed = Arc::into_inner(File::new()).unwrap();
        mixed.frames.swap(3, 4);
        let space = SpaceUser::new(user_end()).unwrap();
        map(&space, &Arc::new(mixed), 0..2 * PAGES, READ, Flags::default());
        space.fault(page(4), Access::Read).unwrap();
        assert_eq!((of_runs(&space), space.size().resident), (0, PAGES));
        // Somebody is just mapping a page of it.
        let space = SpaceUser::new(user_end()).unwrap();
        map(&space, &file, 0..2 * PAGES, READ, Flags::default());
        {
            let locked = space.lock();
            let mut pay = Owed::held_by_nobody;
            let leaf = locked.table.make(BASE, &mut pay).unwrap();
            assert!(leaf.entry(page(11)).claim());
        }
        space.fault(page(4), Access::Read).unwrap();
        assert_eq!((of_runs(&space), space.size().resident), (0, PAGES - 1));
        space.lock().table.find(page(11)).unwrap().give_up();
        space.fault(page(11), Access::Read).unwrap();
        assert_eq!((of_runs(&space), space.size().resident), (0, PAGES));
        drop(space);
        assert!(file.is_free());
    }
}

selftest! {
    fn a_file_hears_of_a_write_to_one_page_of_a_run() {
        if hides_new_entries() {
            return;
        }
        let (file, space) = (File::new(), SpaceUser::new(user_end()).unwrap());
        map(&space, &file, 0..2 * PAGES, WRITE.notified(), Flags::SHARED);
        space.clone().activate();
        assert_eq!((read(), of_runs(&space)), (but(&[]), runs(2)));
        assert_eq!(user::copy_to(page(6), &[99]), 0);
        space.fault_paged(page(6), Access::Write).unwrap();
        assert_eq!((user::copy_to(page(6), &[99]), user::copy_to(page(7), &[99])), (1, 0));
        assert_eq!((read(), of_runs(&space)), (but(&[(6, Some(99))]), runs(1)));
        deactivate();
    }
}

selftest! {
    fn a_write_waits_for_a_page_that_is_being_mapped() {
        let (file, space) = (File::new(), SpaceUser::new(user_end()).unwrap());
        map(&space, &file, 0..2 * PAGES, WRITE, Flags::default());
        {
            let locked = space.lock();
            let mut pay = Owed::held_by_nobody;
            assert!(locked.table.make(BASE, &mut pay).unwrap().entry(page(4)).claim());
        }
        for access in [Access::Read, Access::Write] {
            assert_eq!((space.fault(page(4), access), space.size().resident), (Ok(()), 0));
        }
        space.lock().table.find(page(4)).unwrap().give_up();
        assert_eq!((space.fault(page(4), Access::Write), space.size().resident), (Ok(()), 1));
    }
}

selftest! {
    fn the_access_flag_is_of_the_run() {
        let (file, space) = (File::new(), SpaceUser::new(user_end()).unwrap());
        map(&space, &file, 0..2 * PAGES, READ, Flags::default());
        space.fault(page(4), Access::Read).unwrap();
        if is_on() {
            let clear = |at| {
                let space = space.lock();
                let entry = space.table.find(page(at)).unwrap();
                entry.update::<Age>(|pte| pte.with_young(false)).1
            };
            let owed = (0..PAGES).filter(|at| *at != 4).map(clear);
            owed.for_each(Owed::held_by_nobody);
            assert_eq!(space.usage(pages(0..32)).referenced, PAGES);
            space.protect(pages(9..10), WRITE).unwrap();
            assert_eq!((of_runs(&space), space.usage(pages(0..32)).referenced), (0, PAGES));
        }
        let space = SpaceUser::new(user_end()).unwrap();
        map(&space, &file, 0..2 * PAGES, READ, Flags::default());
        space.fault(page(4), Access::Read).unwrap();
        assert_eq!(of_runs(&space), runs(1));
        space.clear_references(|_| true);
        assert_eq!((of_runs(&space), space.usage(pages(0..32)).referenced), (0, 0));
        space.fault(page(4), Access::Read).unwrap();
        assert_eq!(space.usage(pages(0..32)).referenced, 1);
        let mut frames = Vec::new();
        space.held(pages(0..16), |at, frame, private| frames.push((at, frame, private)));
        let expected = |(number, frame): (usize, &FrameRef)| {
            (page(number), frame.phys().0 / PAGE_SIZE, false)
        };
        let expected = file.frames[..PAGES].iter().enumerate().map(expected);
        assert!(frames.into_iter().eq(expected));
    }
}

/// A space with private memory, all of which is populated and begins each page with its number.
fn populated(numbers: Range<usize>) -> SpaceUser {
    let space = SpaceUser::new(user_end()).unwrap();
    populate(&space, numbers);
    space
}

/// Maps private memory in a space, populates it, and begins each page with its number.
fn populate(space: &AddressSpace, numbers: Range<usize>) {
    let place = Place::Free(page(numbers.start));
    let request = MapRequest::anonymous(place, pages(numbers.clone()).len());
    space.map(request, &mut Removed::new()).unwrap();
    let mut range = pages(numbers.clone());
    while !range.is_empty() {
        let populated = space.populate_first(&range, Some(Access::Write));
        range.start += populated.unwrap().unwrap() * PAGE_SIZE;
    }
    for number in numbers {
        let byte = [(number as u8).wrapping_add(1)];
        assert_eq!(space.write(page(number), &byte), Ok(1));
    }
}

/// What a space has in the first pages from BASE on.
fn held(space: &AddressSpace) -> Vec<Option<u8>> {
    let byte = |number| {
        let mut byte = [0];
        (space.read(page(number), &mut byte) == Ok(1)).then_some(byte[0])
    };
    (0..2 * PAGES).map(byte).collect()
}

selftest! {
    fn populated_memory_is_runs_where_it_is_whole() {
        let gone = &mut Removed::new();
        let partly = populated(3..2 * PAGES + 2);
        assert_eq!((of_runs(&partly), partly.size().resident), (runs(1), 2 * PAGES - 1));
        drop(partly);
        let space = populated(0..2 * PAGES);
        assert_eq!((of_runs(&space), space.size().resident), (runs(2), 2 * PAGES));
        assert_eq!(held(&space), but(&[]));
        // One that is there already stays.
        space.discard(pages(0..4), true, |_| Ok(())).unwrap();
        assert_eq!(space.populate_first(&pages(0..16), Some(Access::Write)), Ok(Ok(1)));
        assert_eq!((of_runs(&space), space.size().resident), (runs(1), 2 * PAGES - 3));
        space.discard(pages(0..16), true, |_| Ok(())).unwrap();
        assert_eq!(space.populate_first(&pages(0..15), Some(Access::Write)), Ok(Ok(1)));
        space.discard(pages(0..16), true, |_| Ok(())).unwrap();
        let whole = if is_on() { PAGES } else { 1 };
        assert_eq!(space.populate_first(&pages(0..16), Some(Access::Write)), Ok(Ok(whole)));
        assert_eq!((space.read(page(7), &mut [1]), of_runs(&space)), (Ok(1), runs(2)));
        space.unmap(pages(0..32), gone).unwrap();
        assert_eq!(space.size().resident, 0);
        let free = frame::free_count();
        (0..100).for_each(|_| drop(populated(0..2 * PAGES)));
        let lost = free.saturating_sub(frame::free_count());
        assert!(lost < 1000, "{lost} frames lost");
    }
}

selftest! {
    fn one_page_of_populated_memory_changes_by_itself() {
        if hides_new_entries() {
            return;
        }
        let space = populated(0..2 * PAGES);
        space.clone().activate();
        assert_eq!(read(), but(&[]));
        space.protect(pages(6..7), READ).unwrap();
        assert_eq!((user::copy_to(page(6), &[1]), user::copy_to(page(7), &[99])), (0, 1));
        assert_eq!((read(), of_runs(&space)), (but(&[(7, Some(99))]), runs(1)));
        space.discard(pages(20..21), true, |_| Ok(())).unwrap();
        assert_eq!(read(), but(&[(7, Some(99)), (20, Some(0))]));
        assert_eq!(of_runs(&space), 0);
        deactivate();
    }
}

selftest! {
    fn a_fork_makes_pages_by_themselves_of_populated_memory() {
        if hides_new_entries() {
            return;
        }
        let space = populated(0..2 * PAGES);
        space.clone().activate();
        assert_eq!(read(), but(&[]));
        let child = space.fork().unwrap();
        assert_eq!((of_runs(&space), of_runs(&child), child.size().resident), (0, 0, 2 * PAGES));
        assert_eq!((user::copy_to(page(4), &[98]), child.write(page(5), &[99])), (1, Ok(1)));
        assert_eq!((read(), held(&child)), (but(&[(4, Some(98))]), but(&[(5, Some(99))])));
        deactivate();
    }
}

selftest! {
    fn all_runs_of_a_fork_are_unfolded_with_one_payment() {
        let kinds = [
            Kind::FenceLocalPage,
            Kind::FenceLocalAsid,
            Kind::FenceBroadcastPage,
            Kind::FenceBroadcastAsid,
        ];
        let fences = || kinds.map(|kind| cpu::this().crossings().get(kind)).iter().sum::<u64>();
        // In VMAs of one each, with a hole after each.
        let all = huge_page::SIZE / SIZE / 2;
        let space = SpaceUser::new(user_end()).unwrap();
        let place = |number| 2 * number * PAGES..(2 * number + 1) * PAGES;
        (0..all).for_each(|number| populate(&space, place(number)));
        space.clone().activate();
        assert_eq!(of_runs_in(&space, pages(0..2 * all * PAGES)), runs(all));
        let before = fences();
        let child = space.fork().unwrap();
        let paid = fences() - before;
        // And one for the entries that are read-only now.
        assert!(paid <= 2, "{paid} fences");
        assert_eq!(of_runs_in(&space, pages(0..2 * all * PAGES)), 0);
        assert_eq!(held(&space)[..PAGES], but(&[])[..PAGES]);
        assert_eq!(held(&space), held(&child));
        deactivate();
    }
}

selftest! {
    fn a_huge_page_that_is_split_leaves_runs_beside_the_change() {
        let range = BASE..BASE + huge_page::SIZE;
        let gone = &mut Removed::new();
        let huge = || {
            let space = SpaceUser::new(user_end()).unwrap();
            let request = MapRequest::anonymous(Place::Free(range.start), range.len());
            space.map(request, &mut Removed::new()).unwrap();
            space.fault(range.start, Access::Write).unwrap();
            (space.usage(range.clone()).huge != 0).then_some(space)
        };
        // Memory may be too fragmented for huge pages by now.
        let Some(space) = huge() else { return };
        let all = huge_page::SIZE / SIZE;
        space.write(page(40), &[41]).unwrap();
        space.protect(pages(30..40), READ).unwrap();
        assert_eq!(of_runs_in(&space, range.clone()), runs(all - 2));
        assert_eq!((space.write(page(40), &[1]), space.usage(range.clone()).huge), (Ok(1), 0));
        assert_eq!(space.size().resident, huge_page::SIZE / PAGE_SIZE);
        let Some(space) = huge() else { return };
        space.unmap(pages(40..512), gone).unwrap();
        assert_eq!((of_runs_in(&space, range.clone()), space.size().resident), (runs(2), 40));
        let Some(space) = huge() else { return };
        let child = space.fork().unwrap();
        let counts = [&space, &child].map(|space| of_runs_in(space, range.clone()));
        assert_eq!(counts, [0, 0]);
        let Some(space) = huge() else { return };
        space.clear_references(|_| true);
        space.protect(pages(30..40), READ).unwrap();
        assert_eq!(of_runs_in(&space, range.clone()), 0);
    }
}

selftest! {
    fn frames_of_a_run_come_from_one_block() {
        let mut run = FrameRun::default();
        // Too few pages, or none of the first.
        let single = run.frame(0, PAGES - 1).unwrap();
        let other = run.frame(PAGES + 1, 2 * PAGES).unwrap();
        drop((single, other));
        let first = run.frame(2 * PAGES, PAGES).unwrap();
        let third = run.frame(2 * PAGES + 2, PAGES - 2).unwrap();
        if is_on() {
            assert!(first.phys().0.is_multiple_of(SIZE));
            assert_eq!(third.phys().0 - first.phys().0, 2 * PAGE_SIZE);
        }
        drop((first, third, run));
        // Far more than a CPU keeps for itself.
        let free = frame::free_count();
        for _ in 0..1000 {
            drop(FrameRun::default().frame(0, PAGES).unwrap());
        }
        let lost = free.saturating_sub(frame::free_count());
        assert!(lost < 1000, "{lost} frames lost");
    }
}
