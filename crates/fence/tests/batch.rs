//! Batches cover what was added, and nothing else unless they cover everything.

use std::collections::BTreeSet;

use fence::{Batch, Change, Extent, Injector, PAGE_SIZE, RANGES, Range, Reach, THRESHOLD};
use proptest::prelude::*;

fn range(page: usize, pages: usize) -> Range {
    Range {
        start: page * PAGE_SIZE,
        pages,
    }
}

proptest! {
    #[test]
    fn pages_are_covered_exactly_or_with_everything(added in proptest::collection::vec((0..200usize, 0..12usize), 0..12)) {
        let mut batch = Batch::new();
        let mut wanted = BTreeSet::new();
        for (page, pages) in &added {
            batch.add(Change::Clear, Reach::Everywhere, range(*page, *pages));
            wanted.extend(range(*page, *pages).addresses());
        }
        match batch.owed() {
            None => prop_assert!(wanted.is_empty()),
            Some(fence) => {
                prop_assert_eq!(fence.reach, Reach::Everywhere);
                match fence.extent {
                    Extent::Everything => prop_assert!(wanted.len() > THRESHOLD || added.len() > RANGES),
                    Extent::Pages(ranges) => {
                        let fenced: Vec<_> = ranges.iter().flat_map(|range| range.addresses()).collect();
                        prop_assert!(fenced.len() <= THRESHOLD);
                        prop_assert_eq!(fenced.len(), wanted.len(), "a page is fenced twice");
                        prop_assert_eq!(fenced.into_iter().collect::<BTreeSet<_>>(), wanted);
                    }
                }
            }
        }
    }

    #[test]
    fn the_widest_reach_wins(reaches in proptest::collection::vec(0..4usize, 1..6)) {
        let all = [Reach::Nobody, Reach::OnTrap, Reach::Local, Reach::Everywhere];
        let mut batch = Batch::new();
        reaches.iter().enumerate().for_each(|(page, reach)| batch.add(Change::Widen, all[*reach], range(page, 1)));
        let widest = reaches.iter().map(|reach| all[*reach]).max().unwrap();
        prop_assert_eq!(batch.owed().map_or(Reach::Nobody, |fence| fence.reach), widest);
    }

    #[test]
    fn any_addresses_and_lengths_are_survived(start: usize, pages: usize, other: usize) {
        let mut batch = Batch::new();
        batch.add(Change::Clear, Reach::Local, Range { start: start / PAGE_SIZE * PAGE_SIZE, pages });
        batch.add(Change::Clear, Reach::Local, range(other % 1000, 1));
        prop_assert!(batch.owed().is_some());
    }
}

#[test]
fn tables_need_a_fence_of_everything() {
    for change in [Change::LinkTable, Change::UnlinkTable] {
        let mut batch = Batch::new();
        batch.add(Change::Clear, Reach::Everywhere, range(0, 1));
        batch.add(change, Reach::Local, range(0, 512));
        let fence = batch.owed().unwrap();
        assert_eq!(
            (fence.reach, fence.extent),
            (Reach::Everywhere, Extent::Everything)
        );
        batch.clear();
        assert_eq!(batch.owed(), None);
    }
}

#[test]
fn the_last_page_of_all_is_not_lost() {
    let mut batch = Batch::new();
    let last = usize::MAX / PAGE_SIZE;
    [last, last - 1]
        .iter()
        .for_each(|page| batch.add(Change::Clear, Reach::Local, range(*page, 1)));
    assert_eq!(
        batch.owed().unwrap().extent,
        Extent::Pages(&[range(last - 1, 2)])
    );
}

#[test]
fn neighbours_become_one_range() {
    let mut batch = Batch::new();
    [4, 0, 2, 1, 3]
        .iter()
        .for_each(|page| batch.add(Change::Clear, Reach::Local, range(*page, 1)));
    assert_eq!(batch.owed().unwrap().extent, Extent::Pages(&[range(0, 5)]));
}

#[test]
fn injection_repeats_by_seed_differs_by_cpu_and_hides_about_half() {
    let sequence = |seed, cpu| {
        let mut injector = Injector::new(seed, cpu);
        std::iter::repeat_with(move || injector.should_inject())
            .take(1000)
            .collect::<Vec<_>>()
    };
    assert_eq!(sequence(7, 3), sequence(7, 3));
    assert_ne!(sequence(7, 3), sequence(7, 4));
    assert_ne!(sequence(7, 3), sequence(8, 3));
    for seed in 0..20 {
        let hidden = sequence(seed, 0)
            .into_iter()
            .filter(|hidden| *hidden)
            .count();
        assert!((400..600).contains(&hidden), "{hidden} of 1000");
    }
}
