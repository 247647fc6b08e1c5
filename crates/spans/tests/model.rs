//! Compares the tree with a plain map: look-ups, gaps, and the results of changes.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::prelude::*;
use spans::{MOST, Span, Spans};

#[derive(Clone, Debug, PartialEq)]
struct Piece(Range<usize>);

impl Span for Piece {
    fn start(&self) -> usize {
        self.0.start
    }
    fn end(&self) -> usize {
        self.0.end
    }
}

const END: usize = 4000;

#[derive(Clone, Debug)]
enum Step {
    Insert(usize, usize),
    Remove(usize),
    Drain(usize, usize),
    Look(usize),
    Gap(usize, usize, usize),
    Copy(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..END, 1..3_usize).prop_map(|(at, len)| Step::Insert(at, len)),
        6 => (0..END).prop_map(Step::Remove),
        1 => (0..END, 1..600_usize).prop_map(|(at, len)| Step::Drain(at, len)),
        4 => (0..END).prop_map(Step::Look),
        4 => (0..END, 0..END, 1..40_usize).prop_map(|(a, b, len)| Step::Gap(a, b, len)),
        1 => (2..9_usize).prop_map(Step::Copy),
    ]
}

struct Pair {
    tree: Spans<Piece>,
    model: BTreeMap<usize, usize>,
}

impl Pair {
    fn after(&self, address: usize) -> Option<Piece> {
        let here = self.model.range(..=address).next_back();
        let here = here.filter(|(_, end)| **end > address);
        let (start, end) = here.or_else(|| self.model.range(address..).next())?;
        Some(Piece(*start..*end))
    }

    fn before(&self, address: usize) -> Option<Piece> {
        let mut pieces = self.model.range(..=address).rev();
        let (start, end) = pieces.find(|(_, end)| **end <= address)?;
        Some(Piece(*start..*end))
    }

    /// All gaps inside a window, upwards.
    fn gaps(&self, window: &Range<usize>) -> Vec<Range<usize>> {
        let (mut gaps, mut bottom) = (Vec::new(), window.start);
        for (&start, &end) in &self.model {
            gaps.push(bottom..start.min(window.end));
            bottom = bottom.max(end);
        }
        gaps.push(bottom..window.end);
        gaps
    }

    fn insert(&mut self, start: usize, len: usize) {
        let end = start + len;
        if self.after(start).is_some_and(|next| next.0.start < end) {
            return;
        }
        self.tree.reserve(start, 1).unwrap();
        let (leaf, count) = self.tree.edit(start);
        leaf.insert(count, Piece(start..end));
        self.tree.rebalance(start);
        self.model.insert(start, end);
    }

    fn drain(&mut self, range: Range<usize>) {
        loop {
            let (leaf, count) = self.tree.edit(range.start);
            let first = leaf.partition_point(|piece| piece.0.start >= range.end);
            let taken = leaf.drain(first.min(count)..count).count();
            self.tree.rebalance(range.start);
            if taken == 0 {
                break;
            }
        }
        while let Some(piece) = self
            .after(range.start)
            .filter(|next| next.0.start < range.end)
        {
            self.model.remove(&piece.0.start);
        }
    }

    fn look(&self, at: usize) {
        let after = self.after(at);
        assert_eq!(self.tree.first_after(at), after.as_ref());
        assert_eq!(
            self.tree.around(at),
            (self.before(at).as_ref(), after.as_ref())
        );
        let way = self.tree.cursor_to(at);
        assert_eq!(way.map(|(_, piece)| piece), after.as_ref());
        if let Some((way, piece)) = way {
            let short = self.tree.at_cursor(way);
            let found = short.or_else(|| self.tree.at_cursor_slow(way));
            assert_eq!(found, Some(piece));
        }
        let rest = self.tree.from(at).map(|piece| piece.0.clone());
        let model = self.model.iter().filter(|(_, end)| **end > at);
        assert!(rest.eq(model.map(|(start, end)| *start..*end)));
    }

    fn gap(&self, window: Range<usize>, len: usize) {
        let gaps = self.gaps(&window);
        let fits = |gap: &&Range<usize>| gap.start + len <= gap.end;
        let highest = gaps.iter().rev().find(fits).map(|gap| gap.end);
        assert_eq!(self.tree.highest_gap(window.clone(), len), highest);
        let lowest = gaps.iter().find(fits).map(|gap| gap.start);
        assert_eq!(self.tree.lowest_gap(window, len), lowest);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Insert(at, len) => self.insert(at, len),
            Step::Remove(at) => {
                if let Some(piece) = self.after(at) {
                    self.drain(piece.0);
                }
            }
            Step::Drain(at, len) => {
                let end = self.after(at + len).map_or(END, |next| next.0.start);
                let start = self.before(at).map_or(0, |before| before.0.end);
                self.drain(start..end);
            }
            Step::Look(at) => self.look(at),
            Step::Gap(a, b, len) => self.gap(a.min(b)..a.max(b), len),
            Step::Copy(part) => {
                let keep = |piece: &Piece| !piece.0.start.is_multiple_of(part);
                let (mut at, mut copies) = (0, Spans::new());
                while let Some(end) = (self.tree)
                    .try_copy_list(at, &mut copies, keep, Piece::clone)
                    .unwrap()
                {
                    at = end;
                }
                self.tree = self.tree.try_copy(keep, Piece::clone).unwrap();
                assert!(copies.iter().eq(self.tree.iter()));
                assert_eq!(copies.len(), self.tree.len());
                if part % 2 == 0 {
                    // A tree that was copied list by list behaves like any other.
                    self.tree = copies;
                }
                self.model.retain(|start, _| start % part > 0);
            }
        }
        assert_eq!(self.tree.len(), self.model.len());
    }
}

fn pair() -> Pair {
    Pair {
        tree: Spans::new(),
        model: BTreeMap::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn agrees_with_a_map(steps in prop::collection::vec(step(), 0..4000)) {
        let mut pair = pair();
        for step in &steps {
            pair.step(step);
        }
        (0..END).step_by(97).for_each(|at| pair.look(at));
    }
}

#[test]
fn many_come_and_go_in_every_order() {
    for order in [|i: usize| i, |i| 19_999 - i, |i| i * 7919 % 20_000] {
        let mut pair = pair();
        (0..20_000).for_each(|i| pair.insert(order(i) * 2, 1));
        assert_eq!(pair.tree.iter().count(), 20_000);
        assert_eq!(pair.tree.highest_gap(0..70_000, 2), Some(70_000));
        assert_eq!(pair.tree.highest_gap(0..39_999, 2), None);
        (0..19_000).for_each(|i| pair.drain(order(i) * 2..order(i) * 2 + 1));
        assert_eq!(pair.tree.iter().count(), 1000);
        pair.look(1000);
    }
}

#[test]
fn few_are_one_list_again_when_the_others_have_gone() {
    let mut pair = pair();
    (0..1000).for_each(|at| pair.insert(at * 2, 1));
    assert!(!pair.tree.is_one_list());
    pair.drain(MOST..2000);
    assert!(pair.tree.is_one_list());
    assert_eq!(pair.tree.len(), MOST / 2);
}

#[test]
fn no_room_is_found_below_a_floor() {
    struct Stack(Range<usize>);
    impl Span for Stack {
        fn start(&self) -> usize {
            self.0.start
        }
        fn end(&self) -> usize {
            self.0.end
        }
        fn floor(&self) -> usize {
            self.0.start.saturating_sub(10)
        }
    }
    let mut tree = Spans::new();
    for start in [20, 100] {
        tree.reserve(start, 1).unwrap();
        let (leaf, count) = tree.edit(start);
        leaf.insert(count, Stack(start..start + 20));
        tree.rebalance(start);
    }
    assert_eq!(tree.highest_gap(0..100, 5), Some(90));
    assert_eq!(tree.lowest_gap(15..100, 50), Some(40));
    assert_eq!(tree.lowest_gap(15..100, 51), None);
}
