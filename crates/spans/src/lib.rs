//! Disjoint ranges in order: a B+ tree that finds a range by an address, and free room by its
//! length, in logarithmic time. Few ranges are one node, which costs as much as a sorted list.
//!
//! All lists are in descending order: most new ranges lie below the others, so little has to move.
//! Every allocation is fallible, and a change that fails leaves the tree as it was.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod gaps;
mod node;

use alloc::vec::Vec;
use core::iter::Rev;
use core::mem::{replace, take};
use core::ops::Range;
use core::slice;

use node::{Child, Node, count_above, is_full};
pub use node::{Leaf, MOST};

/// A range of addresses, and the caller's data for it.
pub trait Span {
    /// The first address.
    fn start(&self) -> usize;
    /// The address after the last one.
    fn end(&self) -> usize;
    /// Free room below the range ends here: at its start, or lower.
    fn floor(&self) -> usize {
        self.start()
    }
}

/// There is no memory for a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMemory;

/// A set of disjoint ranges.
pub struct Spans<T> {
    /// All ranges, while they are few, so that neighbours always lie in the same list.
    few: Leaf<T>,
    /// All ranges, if they are many: nodes of one height, the highest first.
    many: Vec<Child<T>>,
}

impl<T> Default for Spans<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Spans<T> {
    /// An empty set.
    pub const fn new() -> Self {
        Spans {
            few: Leaf::new(Vec::new()),
            many: Vec::new(),
        }
    }

    /// The number of ranges.
    #[inline]
    pub fn len(&self) -> usize {
        match self.is_one_list() {
            true => self.few.len(),
            false => node::count(&self.many),
        }
    }

    /// True if there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the ranges are few enough for one list.
    #[inline]
    pub fn is_one_list(&self) -> bool {
        self.many.is_empty()
    }
}

impl<T: Span> Spans<T> {
    /// The lowest range that ends above `address`.
    #[inline]
    pub fn first_after(&self, address: usize) -> Option<&T> {
        self.list_after(address).last()
    }

    /// The ranges above `address` in the list of [`first_after`](Self::first_after).
    #[inline]
    fn list_after(&self, address: usize) -> &[T] {
        match self.is_one_list() {
            true => self.few.above(address),
            false => list_below(&self.many, address),
        }
    }

    /// The highest range that ends at or below `address`, and the lowest that ends above it.
    #[inline]
    pub fn around(&self, address: usize) -> (Option<&T>, Option<&T>) {
        if !self.is_one_list() {
            return around_below(&self.many, address);
        }
        let above = self.few.above(address);
        (self.few.get(above.len()), above.last())
    }

    /// The lowest range that ends above `address`, with a cursor to it for [`Spans::at_cursor`].
    pub fn cursor_to(&self, address: usize) -> Option<(usize, &T)> {
        let (mut list, mut way, mut unit) = (&self.few, 0, 1);
        let mut children = &self.many;
        while let Some(at) = count_above(children, address).checked_sub(1) {
            way += at * unit;
            unit *= MOST;
            match &children[at].node {
                Node::Branch(below) => children = below,
                Node::Leaf(leaf) => {
                    list = leaf;
                    break;
                }
            }
        }
        let above = list.above(address);
        Some((way + above.len().checked_sub(1)? * unit, above.last()?))
    }

    /// The range at a cursor, if there is one; an arbitrary one if the ranges have changed since.
    /// Only while there is one list.
    #[inline]
    pub fn at_cursor(&self, way: usize) -> Option<&T> {
        self.few.get(way)
    }

    /// Like [`at_cursor`](Self::at_cursor), in a tree of several lists.
    #[inline]
    pub fn at_cursor_slow(&self, way: usize) -> Option<&T> {
        at_cursor_below(&self.many, way)
    }

    /// The ranges that end above `address`, upwards.
    #[inline]
    pub fn from(&self, address: usize) -> Iter<'_, T> {
        let list = self.list_after(address);
        Iter {
            spans: self,
            list: list.iter().rev(),
            top: list.first().map_or(usize::MAX, T::end),
        }
    }

    /// All ranges, upwards.
    #[inline]
    pub fn iter(&self) -> Iter<'_, T> {
        if !self.is_one_list() {
            return self.from(0);
        }
        Iter {
            spans: self,
            list: self.few.iter().rev(),
            top: usize::MAX,
        }
    }

    /// The top of the highest gap of `len` or more inside `window`.
    #[inline]
    pub fn highest_gap(&self, window: Range<usize>, len: usize) -> Option<usize> {
        match self.is_one_list() {
            true => gaps::highest_of_few(&self.few, window, len),
            false => gaps::highest(&self.many, window, len),
        }
    }

    /// The bottom of the lowest gap of `len` or more inside `window`.
    pub fn lowest_gap(&self, window: Range<usize>, len: usize) -> Option<usize> {
        match self.is_one_list() {
            true => gaps::lowest(&self.few, window, len),
            false => gaps::lowest(&self.many, window, len),
        }
    }

    /// Reserves room for `room` more ranges, at most two, in the list that [`Spans::edit`] returns
    /// for `address`.
    ///
    /// # Errors
    /// [`NoMemory`].
    #[inline]
    pub fn reserve(&mut self, address: usize, room: usize) -> Result<(), NoMemory> {
        if self.is_one_list() && self.few.has_room(room) {
            return Ok(());
        }
        self.make_room(address, room)
    }

    /// The list with the lowest range that ends above `address`, or the highest list if there is
    /// none; and how many of its ranges end above `address`. After a change the caller calls
    /// [`Spans::rebalance`].
    #[inline]
    pub fn edit(&mut self, address: usize) -> (&mut Leaf<T>, usize) {
        let list = match self.many.is_empty() {
            true => &mut self.few,
            false => node::leaf_mut(&mut self.many, address),
        };
        let count = list.go_to(address);
        (list, count)
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self, address: usize, room: usize) -> Result<(), NoMemory> {
        if self.is_one_list() {
            if !is_full(self.few.len()) {
                return self.few.grow();
            }
            self.many = node::room()?;
            self.many.push(Child::new(Node::Leaf(take(&mut self.few))));
        } else if is_full(self.many.len()) {
            let below = replace(&mut self.many, node::room()?);
            self.many.push(Child::new(Node::Branch(below)));
        }
        node::make_room(&mut self.many, address, room)
    }

    /// Reports that the list from [`Spans::edit`] for `address` has changed.
    #[inline]
    pub fn rebalance(&mut self, address: usize) {
        if !self.is_one_list() {
            self.rebalance_many(address);
        }
    }

    #[cold]
    #[inline(never)]
    fn rebalance_many(&mut self, address: usize) {
        node::rebalance(&mut self.many, address);
        self.lower();
    }

    /// Removes root nodes that have a single child.
    fn lower(&mut self) {
        while self.many.len() == 1
            && let Some(only) = self.many.pop()
        {
            match only.node {
                Node::Leaf(leaf) => self.few = leaf,
                Node::Branch(below) => self.many = below,
            }
        }
    }

    /// Appends to `copies` copies, made by `copy`, of the ranges above `address` that `keep`
    /// selects, from one list: at most [`MOST`]. Returns the end of the list's highest range;
    /// `None` if no range ends above `address`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn try_copy_list(
        &self,
        address: usize,
        copies: &mut Self,
        keep: impl Fn(&T) -> bool,
        copy: impl FnMut(&T) -> T,
    ) -> Result<Option<usize>, NoMemory> {
        let list = self.list_after(address);
        let mut own = node::room()?;
        own.extend(list.iter().filter(|span| keep(span)).map(copy));
        if !own.is_empty() {
            copies.push(Leaf::new(own))?;
        }
        Ok(list.first().map(T::end))
    }

    /// Adds a list that is above all others.
    fn push(&mut self, list: Leaf<T>) -> Result<(), NoMemory> {
        if self.is_empty() {
            self.few = list;
            return Ok(());
        }
        if self.is_one_list() {
            self.many = node::room()?;
            self.many.push(Child::new(Node::Leaf(take(&mut self.few))));
        } else if is_full(self.many.len()) {
            let below = replace(&mut self.many, node::room()?);
            self.many.push(Child::new(Node::Branch(below)));
        }
        node::push(&mut self.many, list)
    }

    /// Copies, by `copy`, the ranges that `keep` selects.
    ///
    /// # Errors
    /// [`NoMemory`].
    #[inline]
    pub fn try_copy(
        &self,
        keep: impl Fn(&T) -> bool,
        mut copy: impl FnMut(&T) -> T,
    ) -> Result<Self, NoMemory> {
        let mut copies = Spans::new();
        if self.is_one_list() {
            copies.few = self.few.try_copy(&keep, &mut copy)?;
        } else {
            copies.many = node::try_copy(&self.many, &keep, &mut copy)?;
            copies.lower();
        }
        Ok(copies)
    }
}

#[cold]
#[inline(never)]
fn list_below<T: Span>(mut children: &[Child<T>], address: usize) -> &[T] {
    loop {
        match children[..count_above(children, address)]
            .last()
            .map(|child| &child.node)
        {
            None => return &[],
            Some(Node::Leaf(leaf)) => return leaf.above(address),
            Some(Node::Branch(below)) => children = below,
        }
    }
}

#[cold]
#[inline(never)]
fn around_below<T: Span>(mut children: &[Child<T>], address: usize) -> (Option<&T>, Option<&T>) {
    let mut lower_node = None;
    loop {
        let count = count_above(children, address);
        let lower = children.get(count).map(|child| &child.node);
        lower_node = lower.or(lower_node);
        match children[..count].last().map(|child| &child.node) {
            None => return (lower_node.and_then(Node::highest), None),
            Some(Node::Branch(below)) => children = below,
            Some(Node::Leaf(leaf)) => {
                let above = leaf.above(address);
                let lower = leaf.get(above.len());
                return (
                    lower.or_else(|| lower_node.and_then(Node::highest)),
                    above.last(),
                );
            }
        }
    }
}

#[cold]
#[inline(never)]
fn at_cursor_below<T>(mut children: &[Child<T>], mut way: usize) -> Option<&T> {
    loop {
        let child = children.get(way % MOST)?;
        way /= MOST;
        match &child.node {
            Node::Leaf(leaf) => return leaf.get(way),
            Node::Branch(below) => children = below,
        }
    }
}

/// An iterator over ranges, upwards.
pub struct Iter<'a, T> {
    spans: &'a Spans<T>,
    list: Rev<slice::Iter<'a, T>>,
    /// The end of the highest range of the current list.
    top: usize,
}

impl<'a, T: Span> Iterator for Iter<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        let next = self.list.next();
        if next.is_some() || self.spans.is_one_list() {
            return next;
        }
        self.next_list()
    }
}

impl<'a, T: Span> Iter<'a, T> {
    /// The first range of the next list.
    #[cold]
    #[inline(never)]
    fn next_list(&mut self) -> Option<&'a T> {
        *self = self.spans.from(self.top);
        self.list.next()
    }
}
