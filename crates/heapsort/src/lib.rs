//! Sorting in place by heap, as Linux's `lib/sort.c` does: programs choose how long many lists are,
//! and Rust's sort calls itself, in frames that have room for 32 elements. This takes constant
//! stack. Equal elements may change places.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use core::cmp::Ordering;

/// Sorts a list.
pub fn sort<T: Ord>(list: &mut [T]) {
    sort_by(list, T::cmp);
}

/// Sorts a list by keys.
pub fn sort_by_key<T, K: Ord>(list: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(list, |one, other| key(one).cmp(&key(other)));
}

/// Sorts a list in the order of `compare`.
pub fn sort_by<T>(list: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    // Many lists are in order already.
    if list.is_sorted_by(|one, next| compare(one, next).is_le()) {
        return;
    }
    for root in (0..list.len() / 2).rev() {
        sift(list, root, &mut compare);
    }
    for end in (1..list.len()).rev() {
        list.swap(0, end);
        sift(&mut list[..end], 0, &mut compare);
    }
}

/// Moves the element at `at` below all that are greater, in a heap whose greatest is the first.
fn sift<T>(list: &mut [T], mut at: usize, compare: &mut impl FnMut(&T, &T) -> Ordering) {
    let mut is_less =
        |list: &[T], one: usize, other: usize| compare(&list[one], &list[other]).is_lt();
    loop {
        let mut below = 2 * at + 1;
        if below >= list.len() {
            return;
        }
        if below + 1 < list.len() && is_less(list, below, below + 1) {
            below += 1;
        }
        if !is_less(list, at, below) {
            return;
        }
        list.swap(at, below);
        at = below;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{sort, sort_by, sort_by_key};

    proptest! {
        #[test]
        fn lists_are_sorted_as_rust_sorts_them(list in vec(0..200_u8, 0..300)) {
            let mut expected = list.clone();
            expected.sort_unstable();
            let mut sorted = list.clone();
            sort(&mut sorted);
            prop_assert_eq!(&sorted, &expected);
            expected.reverse();
            let mut sorted = list.clone();
            sort_by(&mut sorted, |one, other| other.cmp(one));
            prop_assert_eq!(&sorted, &expected);
            sort_by_key(&mut sorted, |number| number ^ 1);
            prop_assert!(sorted.is_sorted_by_key(|number| number ^ 1));
        }
    }
}
