//! Ranges against a set of numbers.

use proptest::prelude::*;
use std::collections::BTreeSet;
use tcp::ranges::{Full, MOST, Ranges};

#[test]
fn cut() {
    let filled = || {
        let mut ranges = Ranges::new();
        for start in [10, 20, 30] {
            ranges.insert(start, start + 5).expect("there is room");
        }
        ranges
    };
    for (at, left) in [
        (40, 15),
        (35, 15),
        (32, 12),
        (30, 10),
        (27, 10),
        (11, 1),
        (10, 0),
    ] {
        let mut ranges = filled();
        ranges.cut(at);
        let sum: u64 = ranges
            .as_slice()
            .iter()
            .map(|range| range.1 - range.0)
            .sum();
        assert_eq!(sum, left, "{at}");
    }
}

proptest! {
    #[test]
    fn as_a_set(steps in proptest::collection::vec((0u64..200, 1u64..12, any::<bool>()), 1..80)) {
        let (mut ranges, mut set) = (Ranges::new(), BTreeSet::new());
        for (start, length, takes) in steps {
            if takes {
                if let Some(end) = ranges.take_reached(start) {
                    set = set.split_off(&end);
                }
            } else {
                let whole = ranges.insert(start, start + length).expect("there is room");
                set.extend(start..start + length);
                prop_assert!((whole.0..whole.1).all(|number| set.contains(&number)));
                prop_assert!(!set.contains(&whole.1));
            }
            let listed = ranges.as_slice().iter().flat_map(|range| range.0..range.1);
            prop_assert!(listed.eq(set.iter().copied()));
            let mut pairs = ranges.as_slice().windows(2);
            prop_assert!(pairs.all(|pair| pair[0].1 < pair[1].0));
        }
        for number in 0..220 {
            prop_assert_eq!(ranges.containing(number).is_some(), set.contains(&number));
        }
    }
}

#[test]
fn bounded() {
    let mut ranges = Ranges::new();
    for number in 0..MOST as u64 {
        assert!(ranges.insert(2 * number, 2 * number + 1).is_ok());
    }
    assert_eq!(ranges.insert(10_000, 10_001), Err(Full));
    // Bytes that fill a hole need no room.
    assert_eq!(ranges.insert(1, 2), Ok((0, 3)));
}
