//! Tests inside the kernel: frames, heap, kernel stacks, address spaces.

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::fault::Access;
use super::frame::{self, FrameRef, Owner};
use super::mmu_notifier::MmuNotifier;
use super::shared::SharedPages;
use super::space::SpaceUser;
use super::table::PageTable;
use super::totals::Limits;
use super::vma::{Flags, Label, PageSource, Rights, Source, Vma};
use super::vmalloc::KernelStack;
use super::vmas::{Removed, Vmas};
use super::{AddressSpace, MapRequest, Move, PAGE_SIZE, Place, RemapRequest, huge_page, user};
use crate::arch::{KERNEL_STACK_SIZE, cpu, mmu, user_end};
use crate::errno::Errno;
use crate::selftest;
use crate::sync::lockdep::NoSleep;
use crate::sync::might_sleep;
use crossings::Kind;
use translation::owed::Owed;

/// Where mappings of the tests begin.
const FIRST: usize = 0x1_0000;

/// Xorshift, so that each run does the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

/// Pages in VMAs, and pages present.
fn size(space: &AddressSpace) -> (usize, usize) {
    let size = space.size();
    (size.vmas, size.resident)
}

/// A file, which wants the lock of a space that it is mapped in when it ends, and may wait.
struct Last {
    of: Weak<AddressSpace>,
    page: FrameRef,
    left: Arc<AtomicUsize>,
}

impl Last {
    /// Maps one that nobody else has; it is counted in `left`.
    fn map(space: &Arc<AddressSpace>, at: usize, left: &Arc<AtomicUsize>) -> Result<(), Errno> {
        let file = Last {
            of: Arc::downgrade(space),
            page: frame::alloc_zeroed().unwrap(),
            left: left.clone(),
        };
        left.fetch_add(1, Relaxed);
        let (mapping, offset) = (Arc::new(file), 0);
        let request = MapRequest {
            source: Source::File { mapping, offset },
            ..MapRequest::anonymous(Place::Fixed(at), PAGE_SIZE)
        };
        space.map(request, &mut Removed::new()).map(drop)
    }
}

impl PageSource for Last {
    fn page(&self, _index: usize, _write: bool) -> Result<FrameRef, Errno> {
        Ok(self.page.clone())
    }

    fn len_pages(&self) -> usize {
        1
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        might_sleep();
        self.of.upgrade().unwrap().set_stack_limit(0);
        self.left.fetch_sub(1, Relaxed);
    }
}

selftest! {
    fn who_shows_a_space_elsewhere_is_told_of_its_end() {
        struct Shown(AtomicBool);
        impl MmuNotifier for Shown {
            fn invalidate(&self, range: Range<usize>) {
                let all = range.start == 0 && user_end() <= range.end;
                self.0.fetch_or(all, Relaxed);
            }

            fn protect(&self, _range: Range<usize>) {}
        }
        let shown = Arc::new(Shown(AtomicBool::new(false)));
        let space = SpaceUser::new(user_end()).unwrap();
        let notifier: Weak<Shown> = Arc::downgrade(&shown);
        space.add_notifier(notifier).unwrap();
        assert!(!shown.0.load(Relaxed));
        drop(space);
        assert!(shown.0.load(Relaxed));
    }

    fn a_file_that_ends_with_its_last_area_finds_the_space_free() {
        let space = SpaceUser::new(user_end()).unwrap();
        let left = Arc::new(AtomicUsize::new(0));
        let page = |at| FIRST + at * PAGE_SIZE..FIRST + (at + 1) * PAGE_SIZE;
        // One alone, by another mapping in its place, and several at once.
        (0..200).for_each(|at| Last::map(&space, page(at).start, &left).unwrap());
        space.unmap(page(0), &mut Removed::new()).unwrap();
        assert_eq!(left.load(Relaxed), 199);
        Last::map(&space, page(1).start, &left).unwrap();
        assert_eq!(left.load(Relaxed), 199);
        let all = page(0).start..page(200).start;
        let mut gone = Removed::new();
        {
            let _held = NoSleep::begin();
            space.unmap(all, &mut gone).unwrap();
        }
        assert_eq!(left.load(Relaxed), 199);
        drop(gone);
        assert_eq!(left.load(Relaxed), 0);
        // One that is not mapped.
        let sealed = MapRequest {
            flags: Flags::default().set(Flags::SEALED, true),
            ..MapRequest::anonymous(Place::Fixed(FIRST), PAGE_SIZE)
        };
        space.map(sealed, &mut Removed::new()).unwrap();
        assert_eq!(Last::map(&space, FIRST, &left), Err(Errno::EPERM));
        assert_eq!(left.load(Relaxed), 0);
    }

    fn a_space_ends_with_its_last_user_whoever_looks_at_it() {
        let space = SpaceUser::new(user_end()).unwrap();
        let (look, left) = (space.clone(), Arc::new(AtomicUsize::new(0)));
        Last::map(&space, FIRST, &left).unwrap();
        map(&space, BASE, 600, 3).unwrap();
        look.write(BASE + PAGE_SIZE, &[7]).unwrap();
        let second = space.share();
        drop(space);
        assert_eq!((left.load(Relaxed), byte(&look, BASE + PAGE_SIZE)), (1, Some(7)));
        drop(second);
        assert_eq!((left.load(Relaxed), byte(&look, BASE + PAGE_SIZE)), (0, None));
        assert_eq!(look.vmas().count(), 0);
        // It may be under a lock that the last look ends.
        let _held = NoSleep::begin();
        drop(look);
    }

    fn frames_are_counted() {
        let frame = frame::alloc_zeroed().unwrap();
        let second = frame.clone();
        assert!(frame.meta().refs() == 2 && !frame.is_unique());
        second.write(100, b"stile");
        let mut read = [0; 6];
        frame.read(99, &mut read);
        assert_eq!(&read, b"\0stile");
        drop(second);
        assert!(frame.is_unique());
        let copy = FrameRef::new(Owner::Anonymous).unwrap();
        copy.copy_from(&frame);
        copy.fill(100..105, b'x');
        copy.read(99, &mut read);
        assert_eq!(&read, b"\0xxxxx");
    }
}

selftest! {
    fn frames_all_come_back() {
        let rest = frame::free_count() % 1000;
        let before = frame::free_count();
        let mut held: Vec<FrameRef> = (0..2000 + rest).map(|_| frame::alloc().unwrap()).collect();
        let mut numbers: Vec<usize> = held.iter().map(|frame| frame.phys().0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), held.len());
        held.clear();
        // What the CPU's cache keeps is no loss.
        assert!(before.saturating_sub(frame::free_count()) <= 128, "{before} before, {} after", frame::free_count());
    }
}

selftest! {
    fn heap_blocks_keep_apart() {
        let mut random = Random(88_172_645_463_325_252);
        let mut live: Vec<Vec<u8>> = Vec::new();
        for round in 0..20_000 {
            if live.len() < 500 && random.below(5) < 3 {
                let bound = [60, 300, 3000, 20_000][random.below(4)];
                let size = 1 + random.below(bound);
                live.push(vec![round as u8; size]);
            } else if !live.is_empty() {
                let block = live.swap_remove(random.below(live.len()));
                assert!(block.iter().all(|&byte| byte == block[0]));
            }
        }
    }
}

selftest! {
    fn kernel_stacks_have_guards() {
        let stacks: Vec<KernelStack> = (0..80).map(|_| KernelStack::new().unwrap()).collect();
        for stack in &stacks {
            assert_eq!(stack.range().len(), KERNEL_STACK_SIZE);
            assert!(stack.range().start & KERNEL_STACK_SIZE != 0);
        }
    }
}

selftest! {
    fn other_cpus_hear_of_kernel_stacks_in_batches() {
        const STACKS: usize = 400;
        let fences = || {
            let counts = cpu::this().crossings();
            counts.get(Kind::FenceBroadcastPage) + counts.get(Kind::FenceBroadcastAll)
        };
        let before = fences();
        let stacks: Vec<KernelStack> = (0..STACKS).map(|_| KernelStack::new().unwrap()).collect();
        drop(stacks);
        assert!(!mmu::keeps_mappings() || fences() - before < STACKS as u64 / 4);
    }
}

const BASE: usize = 0x2000_0000;

fn map(space: &AddressSpace, at: usize, pages: usize, prot: u32) -> Result<usize, Errno> {
    let request = MapRequest {
        rights: Rights::from_prot(prot),
        ..MapRequest::anonymous(Place::Free(at), pages * PAGE_SIZE)
    };
    space.map(request, &mut Removed::new())
}

fn remap(
    space: &AddressSpace,
    old: Range<usize>,
    len: usize,
    place: Move,
    gone: &mut Removed,
) -> Result<usize, Errno> {
    let keep = false;
    let request = RemapRequest {
        old,
        len,
        place,
        keep,
    };
    Ok(space.remap(request, &Limits::NONE, gone)?.0)
}

fn byte(space: &AddressSpace, at: usize) -> Option<u8> {
    let mut byte = [0];
    (space.read(at, &mut byte) == Ok(1)).then_some(byte[0])
}

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
        space.protect(BASE..BASE + PAGE_SIZE, Rights::NONE).unwrap();
        assert_eq!(byte(&space, BASE), None);
        space.protect(BASE..BASE + PAGE_SIZE, Rights::READ).unwrap();
        assert_eq!(byte(&space, BASE), Some(5));
    }
}

/// What the program of a new space, which has just written 1 to its page at BASE, reads there after
/// a change of the space, and whether it may write: both by this CPU's translations.
fn after(change: impl FnOnce(&Arc<AddressSpace>)) -> (Option<u8>, bool) {
    let space = SpaceUser::new(user_end()).unwrap();
    map(&space, BASE, 2, 3).unwrap();
    space.clone().activate();
    assert_eq!(user::copy_to(BASE, &[1]), 1);
    change(&space);
    let mut byte = [0];
    let read = (user::copy_from(BASE, &mut byte) == 1).then_some(byte[0]);
    let writes = user::copy_to(BASE, &[2]) == 1;
    super::deactivate();
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
        assert_eq!(protected(Rights::NONE), (None, false));
        assert_eq!(after(|space| space.discard(page.clone(), |_| Ok(())).unwrap()), (Some(0), true));
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
            // This is another frame from here on.
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

/// What a page should hold: its rights, and a place in the shared object or a value of its own.
#[derive(Clone, Copy)]
struct Expected {
    prot: u32,
    shared: Option<usize>,
    value: u8,
}

/// Addresses that are used, in units.
const UNITS: usize = 1200;
const SHARED: usize = 64;

/// Spaces, what each unit of them should hold, and what the shared object should.
struct Trial {
    /// Pages that are mapped, protected and so on together; the first of them is touched.
    unit: usize,
    spaces: Vec<(SpaceUser, BTreeMap<usize, Expected>)>,
    object: Arc<SharedPages>,
    object_values: [u8; SHARED],
    random: Random,
}

impl Trial {
    fn step(&mut self) {
        let count = self.spaces.len();
        let chosen = self.random.below(count);
        let (page, pages) = (self.random.below(UNITS), 1 + self.random.below(40));
        let unit = self.unit * PAGE_SIZE;
        let prot = self.random.below(8) as u32;
        let (space, expected) = &mut self.spaces[chosen];
        let start = BASE + page * unit;
        let range = start..start + pages * unit;
        match self.random.below(16) {
            0 | 1 => {
                let first = self.random.below(SHARED);
                let shared = self.random.below(2) == 0;
                let source = match shared {
                    true => Source::File {
                        mapping: self.object.clone(),
                        offset: first * unit,
                    },
                    false => Source::Anonymous,
                };
                let request = MapRequest {
                    rights: Rights::from_prot(prot),
                    flags: Flags::default().set(Flags::SHARED, shared),
                    source,
                    label: Label::None,
                    ..MapRequest::anonymous(Place::Fixed(start), range.len())
                };
                assert_eq!(space.map(request, &mut Removed::new()), Ok(start));
                let entry = |index| Expected {
                    prot,
                    shared: shared.then_some(first + index),
                    value: 0,
                };
                expected.extend((0..pages).map(|index| (page + index, entry(index))));
            }
            2 => {
                space.unmap(range, &mut Removed::new()).unwrap();
                expected.retain(|&at, _| at < page || at >= page + pages);
            }
            3 => {
                // What lies before a hole changes although the call fails.
                let covered = (page..page + pages)
                    .take_while(|at| expected.contains_key(at))
                    .count();
                let done = space.protect(range, Rights::from_prot(prot));
                assert_eq!(done.is_ok(), covered == pages);
                expected
                    .range_mut(page..page + covered)
                    .for_each(|(_, entry)| entry.prot = prot);
            }
            4 => {
                let whole = expected.range(page..page + pages).count() == pages;
                assert_eq!(space.discard(range, |_| Ok(())).is_ok(), whole);
                let own = expected
                    .range_mut(page..page + pages)
                    .filter(|(_, entry)| entry.shared.is_none());
                own.for_each(|(_, entry)| entry.value = 0);
            }
            5 if count < 8 => {
                let child = (space.fork().unwrap(), expected.clone());
                self.spaces.push(child);
            }
            6 if count > 1 => drop(self.spaces.swap_remove(chosen)),
            7 => self.remap(chosen, page, pages),
            _ => self.touch(chosen, page),
        }
    }

    fn remap(&mut self, chosen: usize, page: usize, pages: usize) {
        let new_pages = 1 + self.random.below(50);
        let unit = self.unit * PAGE_SIZE;
        let (space, expected) = &mut self.spaces[chosen];
        let start = BASE + page * unit;
        let old = start..start + pages * unit;
        let place = if new_pages > pages {
            Move::Anywhere
        } else {
            Move::Never
        };
        let gone = &mut Removed::new();
        let Ok(at) = remap(space, old, new_pages * unit, place, gone) else {
            return;
        };
        let before = expected.clone();
        expected.retain(|&at, _| at < page || at >= page + pages);
        if at != start {
            return space.unmap(at..at + new_pages * unit, gone).unwrap();
        }
        for index in 0..new_pages {
            let first = before[&page];
            let fresh = Expected {
                shared: first.shared.map(|shared| shared + index),
                value: 0,
                ..first
            };
            let entry = if index < pages {
                before[&(page + index)]
            } else {
                fresh
            };
            expected.insert(page + index, entry);
        }
    }

    fn touch(&mut self, chosen: usize, page: usize) {
        let value = self.random.below(256) as u8;
        let (space, expected) = &mut self.spaces[chosen];
        let at = BASE + page * self.unit * PAGE_SIZE + 17;
        let entry = expected
            .get_mut(&page)
            .filter(|entry| entry.shared.is_none_or(|index| index < SHARED));
        let Some(entry) = entry else {
            return assert_eq!(byte(space, at), None);
        };
        let held = entry
            .shared
            .map_or(&mut entry.value, |index| &mut self.object_values[index]);
        let wanted = if entry.prot & 2 != 0 { 1 } else { 0 };
        assert_eq!(space.write(at, &[value]), Ok(wanted));
        if wanted == 1 {
            *held = value;
        }
        assert_eq!(byte(space, at), (entry.prot != 0).then_some(*held));
    }
}

selftest! {
    fn spaces_agree_with_a_simple_model() {
        agree(1, 20_000);
    }
}

selftest! {
    fn spaces_agree_with_it_in_large_units_too() {
        agree(100, 4_000);
    }
}

fn agree(unit: usize, steps: usize) {
    if unit > 1 {
        join_single_frames();
    }
    let free = frame::free_count();
    let first = (SpaceUser::new(user_end()).unwrap(), BTreeMap::new());
    let mut trial = Trial {
        unit,
        spaces: vec![first],
        object: SharedPages::new(SHARED * unit, true).unwrap(),
        object_values: [0; SHARED],
        random: Random(0x9e37_79b9_7f4a_7c15),
    };
    let mut huge = 0;
    for step in 0..steps {
        trial.step();
        if step % 16 == 0 {
            huge += trial.spaces[0].0.usage(BASE..BASE + (1 << 30)).huge;
        }
    }
    assert_eq!(huge > 0, unit > 1, "blocks");
    for (space, expected) in &trial.spaces {
        assert_eq!(space.size().vmas, expected.len() * unit);
        assert_eq!(space.usage(0..user_end()).resident, space.size().resident);
    }
    drop(trial);
    // A table lost for each space would be thousands; heap and caches keep some frames, or give
    // back what they had kept.
    let lost = free.saturating_sub(frame::free_count());
    assert!(lost < 300, "{lost} of {free} lost");
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
            // A copy knows of no search.
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
                flags: Flags::default().set(Flags::GROWS_DOWN, random.below(50) == 0),
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
        space.discard(range.start..hole, |_| Ok(())).unwrap();
        assert_eq!((byte(&space, BASE + 5), byte(&space, range.end - 1)), (Some(0), Some(9)));
        drop(space);
        let lost = free.saturating_sub(frame::free_count());
        assert!(lost < 128, "{lost} of {free} lost");
    }
}

/// All memory, to the last page of the kernel's own.
fn take_all() -> (Vec<FrameRef>, Vec<Vec<u8>>) {
    let mut last: Vec<Vec<u8>> = Vec::with_capacity(4096);
    let mut frames = Vec::with_capacity(frame::free_count());
    while let Ok(frame) = frame::alloc() {
        frames.push(frame);
    }
    while last.len() < last.capacity() {
        let mut page = Vec::new();
        if page.try_reserve_exact(PAGE_SIZE).is_err() {
            break;
        }
        last.push(page);
    }
    (frames, last)
}

/// Makes huge pages available again, whatever ran before: each write here takes some chains of
/// single frames apart, until there are none.
fn join_single_frames() {
    let space = SpaceUser::new(user_end()).unwrap();
    let writes = frame::free_count() / (frame::CHAINS * huge_page::SIZE / PAGE_SIZE) + 1;
    let range = BASE..BASE + writes * huge_page::SIZE;
    map(&space, BASE, range.len() / PAGE_SIZE, 3).unwrap();
    for at in range.step_by(huge_page::SIZE) {
        assert_eq!(space.write(at, &[1]), Ok(1));
    }
}

selftest! {
    fn huge_pages_come_back_after_all_memory_was_taken() {
        drop(take_all());
        let space = SpaceUser::new(user_end()).unwrap();
        // Each write joins so many single frames, until all are.
        let joins = frame::free_count() / (frame::CHAINS * huge_page::SIZE / PAGE_SIZE) + 1;
        let wanted = 8;
        let range = BASE..BASE + (joins + wanted) * huge_page::SIZE;
        map(&space, BASE, range.len() / PAGE_SIZE, 3).unwrap();
        for at in range.clone().step_by(huge_page::SIZE) {
            assert_eq!(space.write(at, &[1]), Ok(1));
        }
        let last = range.end - wanted * huge_page::SIZE..range.end;
        assert_eq!(space.usage(last.clone()).huge * PAGE_SIZE, last.len());
    }
}

selftest! {
    fn without_memory_a_large_range_stays_whole() {
        let space = SpaceUser::new(user_end()).unwrap();
        // As many VMAs as one list has, with the large one in the midst.
        let step = 1 << 30;
        let large = BASE + 31 * step;
        for at in (BASE..).step_by(step).take(63) {
            map(&space, at, if at == large { step / 2 / PAGE_SIZE } else { 1 }, 3).unwrap();
        }
        let inside = large + 2 * PAGE_SIZE..large + step / 2 - 2 * PAGE_SIZE;
        assert_eq!(space.write(inside.start, &[7]), Ok(1));
        // A kind of its own, so that it does not join what is around it.
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
        /// The most that was notified at once.
        struct Longest(AtomicUsize);
        impl MmuNotifier for Longest {
            fn invalidate(&self, range: Range<usize>) {
                self.0.fetch_max(range.len(), Relaxed);
            }

            fn protect(&self, _range: Range<usize>) {}
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
        space.discard(BASE..BASE + PAGE_SIZE, |_| Ok(())).unwrap();
        check("cut off");
    }
}

selftest! {
    fn files_stay_mapped_that_there_is_no_memory_to_keep_until_the_space_is_free() {
        let space = SpaceUser::new(user_end()).unwrap();
        let left = Arc::new(AtomicUsize::new(0));
        let all = BASE..BASE + 200 * PAGE_SIZE;
        all.clone().step_by(PAGE_SIZE).for_each(|at| Last::map(&space, at, &left).unwrap());
        let taken = take_all();
        let refused = space.unmap(all.clone(), &mut Removed::new());
        drop(taken);
        assert_eq!((refused, left.load(Relaxed)), (Err(Errno::ENOMEM), 200));
        space.unmap(all, &mut Removed::new()).unwrap();
        assert_eq!(left.load(Relaxed), 0);
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
        // Another thread's calls, before the rest of it goes.
        for rights in [Rights::READ, Rights::READ.with(Rights::WRITE)] {
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
    fn a_frame_with_too_many_holders_is_never_freed() {
        let frame = FrameRef::zeroed(Owner::Kernel).unwrap();
        frame.meta().set_refs(u32::MAX / 2);
        // The last that is counted, and one that is not.
        let more = [frame.clone(), frame.clone()];
        assert!(frame.meta().refs() > u32::MAX / 2 + 2);
        let kept = frame.meta().refs();
        drop(more);
        assert_eq!(frame.meta().refs(), kept);
        // There is but this one: it goes.
        frame.meta().set_refs(1);
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
