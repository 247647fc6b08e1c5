//! A sparse array from `usize` to `T`, as a radix tree of fixed fan-out: the page index of a file.
//!
//! A look-up costs one step for every six bits of the largest index held, an array with nothing
//! but index 0 needs no node at all, and every allocation is fallible.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod idr;

pub use idr::Idr;

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::mem::replace;
use core::ops::Range;
use core::slice;

/// The number of index bits that one level decodes.
const BITS: u32 = 6;
const FANOUT: usize = 1 << BITS;

enum Slot<T> {
    Empty,
    Item(T),
    Inner(Node<T>),
}

/// `FANOUT` slots. A vector, because only that can be allocated fallibly on stable Rust.
struct Node<T>(Vec<Slot<T>>);

impl<T> Node<T> {
    fn new() -> Result<Self, TryReserveError> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(FANOUT)?;
        slots.extend((0..FANOUT).map(|_| Slot::Empty));
        Ok(Node(slots))
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|slot| matches!(slot, Slot::Empty))
    }
}

/// The sparse array.
pub struct Radix<T> {
    root: Slot<T>,
    /// The number of node levels above the items: indices below `FANOUT.pow(height)` fit.
    height: u32,
    len: usize,
}

impl<T> Default for Radix<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Radix<T> {
    /// An empty array.
    pub const fn new() -> Self {
        Radix {
            root: Slot::Empty,
            height: 0,
            len: 0,
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `index` fits in the present height.
    fn covers(&self, index: usize) -> bool {
        let bits = self.height * BITS;
        bits >= usize::BITS || index >> bits == 0
    }

    /// The item at `index`.
    pub fn get(&self, index: usize) -> Option<&T> {
        if !self.covers(index) {
            return None;
        }
        let mut slot = &self.root;
        let mut level = self.height;
        loop {
            match slot {
                Slot::Empty => return None,
                Slot::Item(item) => return Some(item),
                Slot::Inner(node) => {
                    level -= 1;
                    slot = node.0.get(digit(index, level))?;
                }
            }
        }
    }

    /// The item at `index`, mutably.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if !self.covers(index) {
            return None;
        }
        let mut slot = &mut self.root;
        let mut level = self.height;
        loop {
            match slot {
                Slot::Empty => return None,
                Slot::Item(item) => return Some(item),
                Slot::Inner(node) => {
                    level -= 1;
                    slot = node.0.get_mut(digit(index, level))?;
                }
            }
        }
    }

    /// Calls `visit` with the items of `range` and their indices, in order.
    pub fn each(&self, range: Range<usize>, mut visit: impl FnMut(usize, &T)) {
        self.each_run(range, |first, slots| {
            for (index, slot) in (first..).zip(slots) {
                if let Slot::Item(item) = slot {
                    visit(index, item);
                }
            }
        });
    }

    /// Stores a copy of each item, from `first` on, at its index in `copies`.
    pub fn copy_to<U>(&self, first: usize, copies: &mut [Option<U>], copy: impl Fn(&T) -> U) {
        let end = first.saturating_add(copies.len());
        self.each_run(first..end, |start, slots| {
            for (place, slot) in copies[start - first..].iter_mut().zip(slots) {
                if let Slot::Item(item) = slot {
                    *place = Some(copy(item));
                }
            }
        });
    }

    /// Calls `visit` with each run of slots of `range` that lies in one node, and the index of the
    /// first, with one descent each.
    fn each_run(&self, range: Range<usize>, mut visit: impl FnMut(usize, &[Slot<T>])) {
        let mut at = range.start;
        while at < range.end {
            let mut stop = (at | (FANOUT - 1)).saturating_add(1).min(range.end);
            if let Some(node) = self.last_node(at) {
                visit(at, &node.0[digit(at, 0)..][..stop - at]);
            } else {
                if self.height == 0 && at == 0 {
                    visit(at, slice::from_ref(&self.root));
                }
                if stop < range.end {
                    stop = self.next_item(stop).unwrap_or(range.end);
                }
            }
            at = stop;
        }
    }

    /// The node whose slots have the items around `index`.
    fn last_node(&self, index: usize) -> Option<&Node<T>> {
        if !self.covers(index) {
            return None;
        }
        let mut slot = &self.root;
        for level in (1..self.height).rev() {
            let Slot::Inner(node) = slot else { return None };
            slot = &node.0[digit(index, level)];
        }
        match slot {
            Slot::Inner(node) => Some(node),
            _ => None,
        }
    }

    /// Stores `item` at `index` and returns the old item. If memory is lacking, nothing changes.
    pub fn insert(&mut self, index: usize, item: T) -> Result<Option<T>, TryReserveError> {
        let inserted = self.insert_below(index, item);
        if inserted.is_err() {
            // Frees the empty nodes that were added on the way.
            self.remove_range(index, index, &mut drop);
        }
        inserted
    }

    fn insert_below(&mut self, index: usize, item: T) -> Result<Option<T>, TryReserveError> {
        while !self.covers(index) {
            if !matches!(self.root, Slot::Empty) {
                let mut node = Node::new()?;
                node.0[0] = replace(&mut self.root, Slot::Empty);
                self.root = Slot::Inner(node);
            }
            self.height += 1;
        }
        let mut slot = &mut self.root;
        for level in (0..self.height).rev() {
            if matches!(slot, Slot::Empty) {
                *slot = Slot::Inner(Node::new()?);
            }
            let Slot::Inner(node) = slot else {
                unreachable!("items are at level 0 only")
            };
            slot = &mut node.0[digit(index, level)];
        }
        match replace(slot, Slot::Item(item)) {
            Slot::Item(old) => Ok(Some(old)),
            _ => {
                self.len += 1;
                Ok(None)
            }
        }
    }

    /// Removes every item in `first..=last` and passes each to `dropped`.
    pub fn remove_range(&mut self, first: usize, last: usize, dropped: &mut impl FnMut(T)) {
        if !self.covers(first) {
            return;
        }
        let mut removed = 0;
        remove(&mut self.root, self.height, 0, first, last, &mut |item| {
            removed += 1;
            dropped(item);
        });
        self.len -= removed;
        if self.len == 0 {
            (self.root, self.height) = (Slot::Empty, 0);
        }
    }

    /// The lowest index from `from` on with an item.
    pub fn next_item(&self, from: usize) -> Option<usize> {
        if !self.covers(from) {
            return None;
        }
        next(&self.root, self.height, 0, from)
    }

    /// The lowest index from `from` on without an item; `until` if there is none before it.
    pub fn next_hole(&self, mut from: usize, until: usize) -> usize {
        while from < until && self.get(from).is_some() {
            from += 1;
        }
        from
    }
}

/// The digit of `index` that level `level` (0 is just above the items) decodes.
fn digit(index: usize, level: u32) -> usize {
    (index >> (level * BITS)) & (FANOUT - 1)
}

/// The first and last index below slot `i` of a node at `level` whose first index is `base`.
fn span(base: usize, level: u32, i: usize) -> (usize, usize) {
    let first = base | i << (level * BITS);
    (first, first | ((1usize << (level * BITS)) - 1))
}

fn remove<T>(
    slot: &mut Slot<T>,
    height: u32,
    base: usize,
    first: usize,
    last: usize,
    dropped: &mut impl FnMut(T),
) {
    if height == 0 {
        if (first..=last).contains(&base)
            && let Slot::Item(item) = replace(slot, Slot::Empty)
        {
            dropped(item);
        }
        return;
    }
    let Slot::Inner(node) = slot else { return };
    // The slots that overlap the range, which overlaps this node.
    let bits = height * BITS;
    let above = |index: usize| index.checked_shr(bits).unwrap_or(0);
    let low = match above(first) < above(base) {
        true => 0,
        false => digit(first, height - 1),
    };
    let high = match above(last) > above(base) {
        true => FANOUT - 1,
        false => digit(last, height - 1),
    };
    for (i, below) in (low..).zip(&mut node.0[low..=high]) {
        let (base, _) = span(base, height - 1, i);
        remove(below, height - 1, base, first, last, dropped);
    }
    if node.is_empty() {
        *slot = Slot::Empty;
    }
}

fn next<T>(slot: &Slot<T>, height: u32, base: usize, from: usize) -> Option<usize> {
    match slot {
        Slot::Empty => None,
        Slot::Item(_) => (base >= from).then_some(base),
        Slot::Inner(node) => node.0.iter().enumerate().find_map(|(i, below)| {
            let (low, high) = span(base, height - 1, i);
            (high >= from)
                .then(|| next(below, height - 1, low, from))
                .flatten()
        }),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeMap;

    /// A simple generator: the tests need variety, not quality.
    fn random(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 16) as usize
    }

    #[test]
    fn behaves_like_a_map() {
        let mut state = 88172645463325252;
        for limit in [3, 64, 70, 5000, usize::MAX] {
            let (mut radix, mut map) = (Radix::new(), BTreeMap::new());
            for step in 0..2000 {
                let index = random(&mut state) % limit;
                let run = index..index.saturating_add(100);
                let mut seen = std::vec![];
                radix.each(run.clone(), |index, item| seen.push((index, *item)));
                assert!(map.range(run).map(|(k, v)| (*k, *v)).eq(seen));
                let mut near = [None; 100];
                radix.copy_to(index, &mut near, |item| *item);
                let places = (index..index.saturating_add(100)).zip(near);
                assert!(
                    places
                        .into_iter()
                        .all(|(index, item)| map.get(&index).copied() == item)
                );
                match random(&mut state) % 4 {
                    0 => {
                        let last = index.saturating_add(random(&mut state) % limit / 4);
                        let mut gone = 0;
                        radix.remove_range(index, last, &mut |_| gone += 1);
                        let keys: Vec<usize> = map.range(index..=last).map(|(k, _)| *k).collect();
                        assert_eq!(gone, keys.len());
                        keys.iter().for_each(|k| _ = map.remove(k));
                    }
                    _ => assert_eq!(radix.insert(index, step).unwrap(), map.insert(index, step)),
                }
                let probe = random(&mut state) % limit;
                assert_eq!(radix.get(probe), map.get(&probe));
                assert_eq!(radix.get_mut(probe), map.get_mut(&probe));
                assert_eq!(
                    radix.next_item(probe),
                    map.range(probe..).next().map(|(k, _)| *k)
                );
                assert_eq!(radix.len(), map.len());
            }
        }
    }

    #[test]
    fn holes() {
        let mut radix = Radix::new();
        for index in [0, 1, 2, 64] {
            radix.insert(index, ()).unwrap();
        }
        assert_eq!(
            [0, 3, 64].map(|from| radix.next_hole(from, usize::MAX)),
            [3, 3, 65]
        );
        assert_eq!(radix.next_hole(0, 2), 2);
        radix.remove_range(0, usize::MAX, &mut |_| ());
        assert!(radix.is_empty() && radix.next_item(0).is_none());
    }

    #[test]
    fn the_last_index_of_all() {
        let mut radix = Radix::new();
        radix.insert(usize::MAX, 1).unwrap();
        radix.insert(0, 2).unwrap();
        assert_eq!(
            (radix.get(usize::MAX), radix.get(0), radix.get(1)),
            (Some(&1), Some(&2), None)
        );
    }
}
