//! Random calls on spaces, compared with a simple model.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::super::frame;
use super::super::shared::SharedPages;
use super::super::space::SpaceUser;
use super::super::vma::{Flags, Label, Rights, Source};
use super::super::vmas::Removed;
use super::super::{MapRequest, Move, PAGE_SIZE, Place};
use super::{BASE, Random, byte, join_single_frames, remap};
use crate::arch::user_end;
use crate::selftest;

/// The expected state of a page: its rights, and an index in the shared object or a value of its
/// own.
#[derive(Clone, Copy)]
struct Expected {
    prot: u32,
    shared: Option<usize>,
    value: u8,
}

/// Number of addresses in use, in units.
const UNITS: usize = 1200;
const SHARED: usize = 64;

/// Spaces with the expected state of their units, and the expected content of the shared object.
struct Trial {
    /// Number of pages that are mapped, protected and so on together; only the first of them is
    /// touched.
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
                    flags: Flags::empty().with(Flags::SHARED, shared),
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
                // The part before a hole changes although the call fails.
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
                assert_eq!(space.discard(range, true, |_| Ok(())).is_ok(), whole);
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
            let entry = if index < pages {
                // A range that only shrinks may have holes.
                before.get(&(page + index)).copied()
            } else {
                let first = before[&page];
                Some(Expected {
                    shared: first.shared.map(|shared| shared + index),
                    value: 0,
                    ..first
                })
            };
            if let Some(entry) = entry {
                expected.insert(page + index, entry);
            }
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
    // A leaked table per space would be thousands; the heap and the caches keep some frames, or
    // free earlier ones.
    let lost = free.saturating_sub(frame::free_count());
    assert!(lost < 300, "{lost} of {free} lost");
}
