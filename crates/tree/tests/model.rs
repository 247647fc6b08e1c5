//! The tree compared with a sorted map, under random changes.

use std::collections::BTreeMap;
use tree::{Member, Tree};

/// A member with a weight; the sum is the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weight(u32, u32);

impl Member for Weight {
    type Key = u32;
    type Sum = u32;

    fn key(&self) -> u32 {
        self.0
    }

    fn sum(&self) -> u32 {
        self.1
    }

    fn join(one: u32, other: u32) -> u32 {
        one.max(other)
    }
}

/// A generator of numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as u32 % bound
    }
}

/// A member whose sum counts.
struct Counted(u32);

impl Member for Counted {
    type Key = u32;
    type Sum = usize;

    fn key(&self) -> u32 {
        self.0
    }

    fn sum(&self) -> usize {
        1
    }

    fn join(one: usize, other: usize) -> usize {
        one + other
    }
}

#[test]
fn it_counts() {
    let mut tree = Tree::new();
    for key in (0..1000).rev() {
        tree.insert(Counted(2 * key)).unwrap();
    }
    for key in (0..1000).step_by(3) {
        tree.remove(&(2 * key)).unwrap();
    }
    let left: Vec<u32> = (0..1000).filter(|key| key % 3 != 0).collect();
    for (index, key) in left.iter().enumerate() {
        assert_eq!(tree.nth(index).map(|one| one.0), Some(2 * key));
    }
    assert!(tree.nth(left.len()).is_none());
}

#[test]
fn it_finds_those_that_are_sought() {
    let (mut tree, mut numbers) = (Tree::new(), Numbers(7));
    for key in 0..2000 {
        tree.insert(Weight(key, numbers.below(1000))).unwrap();
    }
    for least in [0, 1, 500, 990, 999, 1000] {
        let mut found: Vec<u32> = tree.those(|sum| *sum >= least).map(|one| one.0).collect();
        found.sort_unstable();
        let mut all: Vec<u32> = tree
            .iter()
            .filter(|one| one.1 >= least)
            .map(|one| one.0)
            .collect();
        all.sort_unstable();
        assert_eq!(found, all);
    }
    assert_eq!(Tree::<Weight>::new().those(|_| true).count(), 0);
}

#[test]
fn it_finds_what_a_map_finds() {
    for keys in [8, 100, 3000] {
        let mut numbers = Numbers(keys.into());
        let (mut tree, mut map) = (Tree::new(), BTreeMap::new());
        for _ in 0..20_000 {
            let (key, weight) = (numbers.below(keys), numbers.below(1000));
            if numbers.below(2) == 0 && !map.contains_key(&key) {
                map.insert(key, weight);
                tree.insert(Weight(key, weight)).unwrap();
            } else {
                let gone = map.remove(&key).map(|weight| Weight(key, weight));
                assert_eq!(tree.remove(&key), gone);
            }
            assert_eq!(tree.len(), map.len());
            let asked = numbers.below(keys);
            let next = map.range(asked..).next();
            assert_eq!(tree.from(&asked).map(|one| one.0), next.map(|one| *one.0));
            let heavy = numbers.below(1000);
            let first = map.iter().find(|one| *one.1 >= heavy);
            let found = tree.first(|&sum| sum >= heavy);
            assert_eq!(found.map(|one| one.0), first.map(|one| *one.0));
            let first = map.range(asked..).find(|one| *one.1 >= heavy);
            let found = tree.first_from(&asked, |&sum| sum >= heavy);
            assert_eq!(found.map(|one| one.0), first.map(|one| *one.0));
        }
    }
}

#[test]
fn it_sums_what_changes() {
    let (mut tree, mut numbers) = (Tree::new(), Numbers(9));
    for key in 0..500 {
        tree.insert(Weight(key, 0)).unwrap();
    }
    let mut weights = vec![0; 500];
    for _ in 0..5000 {
        let (key, weight) = (numbers.below(500), numbers.below(1000));
        weights[key as usize] = weight;
        assert!(tree.change(&key, |one| one.1 = weight));
        assert_eq!(tree.sum(), weights.iter().copied().max());
        let heavy = weights.iter().position(|weight| *weight > 900);
        let found = tree.first(|sum| *sum > 900);
        assert_eq!(found.map(|one| one.0 as usize), heavy);
    }
    assert!(!tree.change(&500, |_| ()));
}
