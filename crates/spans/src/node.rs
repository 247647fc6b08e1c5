//! The nodes: lists of ranges, and lists of nodes with the summaries for searches.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut, Range};

use super::{NoMemory, Span, gaps};

/// The maximum number of entries of a node.
pub const MOST: usize = 64;
/// Two neighbours are joined if they have at most this many entries together.
const JOINED: usize = MOST / 4 * 3;

/// A list of ranges, the highest first.
pub struct Leaf<T> {
    list: Vec<T>,
    /// The index of the last change: the next one is probably near.
    near: usize,
}

impl<T> Default for Leaf<T> {
    fn default() -> Self {
        Leaf::new(Vec::new())
    }
}

impl<T> Leaf<T> {
    pub(super) const fn new(list: Vec<T>) -> Self {
        Leaf { list, near: 0 }
    }

    /// The number of ranges for which `is_above` holds, which come first. Tries the place of the
    /// last change first.
    #[inline(always)]
    pub(super) fn count(&self, is_above: impl Fn(&T) -> bool) -> usize {
        let (near, above) = (self.near, |at: usize| self.list.get(at).map(&is_above));
        match above(near) {
            Some(true) if above(near + 1) != Some(true) => near + 1,
            Some(false) | None if above(near.wrapping_sub(1)) == Some(true) => near,
            _ => self.list.partition_point(is_above),
        }
    }

    /// The ranges that end above `address`.
    #[inline]
    pub(super) fn above(&self, address: usize) -> &[T]
    where
        T: Span,
    {
        &self.list[..self.count_above(address)]
    }

    #[inline]
    fn count_above(&self, address: usize) -> usize
    where
        T: Span,
    {
        self.count(|span| span.end() > address)
    }

    /// The number of ranges that end above `address`, remembered as the place of the next change.
    #[inline]
    pub(super) fn go_to(&mut self, address: usize) -> usize
    where
        T: Span,
    {
        self.near = self.count_above(address);
        self.near
    }

    /// True if there is room for `room` more; never beyond [`MOST`].
    #[inline]
    pub(super) fn has_room(&self, room: usize) -> bool {
        self.list.len() + room <= self.list.capacity()
    }

    /// Reserves room for two more ranges, up to [`MOST`].
    pub(super) fn grow(&mut self) -> Result<(), NoMemory> {
        let len = self.list.len();
        let more = len.max(4).min(MOST - len);
        self.list.try_reserve_exact(more).map_err(|_| NoMemory)
    }

    /// Copies, by `copy`, the ranges that `keep` selects.
    #[inline(always)]
    pub(super) fn try_copy(
        &self,
        keep: &impl Fn(&T) -> bool,
        copy: &mut impl FnMut(&T) -> T,
    ) -> Result<Self, NoMemory> {
        let mut copies = Vec::new();
        copies
            .try_reserve_exact(self.list.len())
            .map_err(|_| NoMemory)?;
        copies.extend(self.list.iter().filter(|span| keep(span)).map(copy));
        let near = copies.len();
        Ok(Leaf { list: copies, near })
    }

    /// Inserts a range at an index. Room must be reserved.
    pub fn insert(&mut self, at: usize, span: T) {
        debug_assert!(self.has_room(1));
        self.list.insert(at, span);
    }

    /// Removes the range at an index.
    pub fn remove(&mut self, at: usize) -> T {
        self.near = at;
        self.list.remove(at)
    }

    /// Removes the ranges at some indices.
    pub fn drain(&mut self, inside: Range<usize>) -> impl Iterator<Item = T> {
        self.near = inside.start;
        self.list.drain(inside)
    }
}

impl<T> Deref for Leaf<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.list
    }
}

impl<T> DerefMut for Leaf<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.list
    }
}

/// A range or a node, as a search sees it.
pub trait Summary {
    /// The end of the highest range.
    fn top(&self) -> usize;
    /// The floor of the lowest.
    fn floor(&self) -> usize;
    /// The start of the lowest, or its floor.
    fn bottom(&self) -> usize;
    /// The largest gap between two ranges.
    fn gap(&self) -> usize;
    /// The top of the highest gap of `len` or more between two ranges inside `window`, below `top`.
    fn highest_gap(&self, window: &Range<usize>, len: usize, top: usize) -> Option<usize>;
    /// The bottom of the lowest gap of `len` or more between two ranges inside `window`, above
    /// `bottom`.
    fn lowest_gap(&self, window: &Range<usize>, len: usize, bottom: usize) -> Option<usize>;
}

impl<T: Span> Summary for T {
    #[inline]
    fn top(&self) -> usize {
        self.end()
    }

    #[inline]
    fn floor(&self) -> usize {
        Span::floor(self)
    }

    #[inline]
    fn bottom(&self) -> usize {
        self.start()
    }

    #[inline]
    fn gap(&self) -> usize {
        0
    }

    fn highest_gap(&self, _: &Range<usize>, _: usize, _: usize) -> Option<usize> {
        None
    }

    fn lowest_gap(&self, _: &Range<usize>, _: usize, _: usize) -> Option<usize> {
        None
    }
}

/// The number of entries that end above `address`.
#[inline]
pub fn count_above<S: Summary>(list: &[S], address: usize) -> usize {
    list.partition_point(|entry| entry.top() > address)
}

/// The largest gap inside the entries of a list and between them.
fn largest_gap<S: Summary>(list: &[S]) -> usize {
    let inside = list.iter().map(S::gap).max().unwrap_or(0);
    let between = |pair: &[S]| pair[0].floor().saturating_sub(pair[1].top());
    list.windows(2).map(between).fold(inside, usize::max)
}

/// A child of a node, with its summary.
pub struct Child<T> {
    top: usize,
    floor: usize,
    gap: usize,
    /// The number of ranges.
    pub count: usize,
    pub node: Node<T>,
}

impl<T: Span> Summary for Child<T> {
    #[inline]
    fn top(&self) -> usize {
        self.top
    }

    #[inline]
    fn floor(&self) -> usize {
        self.floor
    }

    #[inline]
    fn bottom(&self) -> usize {
        self.floor
    }

    #[inline]
    fn gap(&self) -> usize {
        self.gap
    }

    fn highest_gap(&self, window: &Range<usize>, len: usize, mut top: usize) -> Option<usize> {
        match &self.node {
            Node::Leaf(leaf) => gaps::highest_in(leaf, window, len, &mut top),
            Node::Branch(children) => gaps::highest_in(children, window, len, &mut top),
        }
    }

    fn lowest_gap(&self, window: &Range<usize>, len: usize, mut bottom: usize) -> Option<usize> {
        match &self.node {
            Node::Leaf(leaf) => gaps::lowest_in(leaf, window, len, &mut bottom),
            Node::Branch(children) => gaps::lowest_in(children, window, len, &mut bottom),
        }
    }
}

impl<T: Span> Child<T> {
    pub fn new(node: Node<T>) -> Self {
        let mut child = Child {
            top: 0,
            floor: 0,
            gap: 0,
            count: 0,
            node,
        };
        child.sum_up();
        child
    }

    /// Updates the summary after a change of the node.
    fn sum_up(&mut self) {
        fn ends<S: Summary>(list: &[S]) -> (usize, usize, usize) {
            let top = list.first().map_or(0, S::top);
            let floor = list.last().map_or(0, S::floor);
            (top, floor, largest_gap(list))
        }
        (self.top, self.floor, self.gap) = match &self.node {
            Node::Leaf(leaf) => ends(leaf),
            Node::Branch(children) => ends(children),
        };
        self.count = match &self.node {
            Node::Leaf(leaf) => leaf.len(),
            Node::Branch(children) => count(children),
        };
    }
}

/// The number of ranges in nodes.
pub fn count<T>(children: &[Child<T>]) -> usize {
    children.iter().map(|child| child.count).sum()
}

/// A node.
pub enum Node<T> {
    /// Ranges.
    Leaf(Leaf<T>),
    /// Nodes of one height, the highest first.
    Branch(Vec<Child<T>>),
}

impl<T> Node<T> {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len(),
            Node::Branch(children) => children.len(),
        }
    }

    /// True if there is no room for two more entries.
    fn is_full(&self) -> bool {
        is_full(self.len())
    }

    /// The highest range.
    pub fn highest(&self) -> Option<&T> {
        match self {
            Node::Leaf(leaf) => leaf.first(),
            Node::Branch(children) => children.first()?.node.highest(),
        }
    }

    /// Splits off the lower half of a node.
    fn split_off(&mut self) -> Result<Self, NoMemory> {
        Ok(match self {
            Node::Leaf(leaf) => Node::Leaf(Leaf::new(lower_half(&mut leaf.list)?)),
            Node::Branch(children) => Node::Branch(lower_half(children)?),
        })
    }

    /// Moves the entries of the node below into this one; false if there is no memory for that.
    fn take_over(&mut self, lower: &mut Self) -> bool {
        match (self, lower) {
            (Node::Leaf(leaf), Node::Leaf(lower)) => append(&mut leaf.list, &mut lower.list),
            (Node::Branch(children), Node::Branch(lower)) => append(children, lower),
            _ => false,
        }
    }
}

fn lower_half<E>(list: &mut Vec<E>) -> Result<Vec<E>, NoMemory> {
    let mut lower = room()?;
    lower.extend(list.drain(list.len() / 2..));
    Ok(lower)
}

fn append<E>(list: &mut Vec<E>, lower: &mut Vec<E>) -> bool {
    let room = list.try_reserve_exact(lower.len()).is_ok();
    if room {
        list.append(lower);
    }
    room
}

/// True if a list has no room for two more.
pub fn is_full(len: usize) -> bool {
    len + 2 > MOST
}

/// An empty list with room for the entries of a node.
pub fn room<E>() -> Result<Vec<E>, NoMemory> {
    let mut list = Vec::new();
    list.try_reserve_exact(MOST).map_err(|_| NoMemory)?;
    Ok(list)
}

/// Reserves room for `room` more ranges, at most two, in the list for `address`: splits full nodes
/// on the way.
pub fn make_room<T: Span>(
    mut children: &mut Vec<Child<T>>,
    address: usize,
    room: usize,
) -> Result<(), NoMemory> {
    loop {
        let mut at = child_for(children, address);
        if children[at].node.is_full() {
            children.try_reserve(1).map_err(|_| NoMemory)?;
            let lower = children[at].node.split_off()?;
            children[at].sum_up();
            children.insert(at + 1, Child::new(lower));
            at = child_for(children, address);
        }
        match &mut children[at].node {
            Node::Branch(below) => children = below,
            Node::Leaf(leaf) if leaf.has_room(room) => return Ok(()),
            Node::Leaf(leaf) => return leaf.grow(),
        }
    }
}

/// The list for `address`.
#[cold]
#[inline(never)]
pub fn leaf_mut<T: Span>(mut children: &mut [Child<T>], address: usize) -> &mut Leaf<T> {
    loop {
        let at = child_for(children, address);
        match &mut children[at].node {
            Node::Branch(below) => children = below,
            Node::Leaf(leaf) => return leaf,
        }
    }
}

/// Rebalances after a change of the list for `address`.
pub fn rebalance<T: Span>(children: &mut Vec<Child<T>>, address: usize) {
    let at = child_for(children, address);
    if let Node::Branch(below) = &mut children[at].node {
        rebalance(below, address);
    }
    if children[at].node.len() == 0 {
        children.remove(at);
    } else {
        children[at].sum_up();
        join(children, at);
    }
    if at > 0 {
        join(children, at - 1);
    }
}

/// Like [`Spans::try_copy`](super::Spans::try_copy).
pub fn try_copy<T: Span>(
    children: &[Child<T>],
    keep: &impl Fn(&T) -> bool,
    copy: &mut impl FnMut(&T) -> T,
) -> Result<Vec<Child<T>>, NoMemory> {
    let mut copies = room()?;
    for child in children {
        let copy = match &child.node {
            Node::Leaf(leaf) => {
                let mut list = room()?;
                for span in leaf.iter().filter(|span| keep(span)) {
                    list.push(copy(span));
                }
                Node::Leaf(Leaf::new(list))
            }
            Node::Branch(below) => Node::Branch(try_copy(below, keep, copy)?),
        };
        if copy.len() > 0 {
            copies.push(Child::new(copy));
        }
    }
    Ok(copies)
}

/// Adds a list above all others; `children` has room for two more.
pub fn push<T: Span>(children: &mut Vec<Child<T>>, list: Leaf<T>) -> Result<(), NoMemory> {
    children.try_reserve(1).map_err(|_| NoMemory)?;
    if matches!(children[0].node, Node::Leaf(_)) {
        children.insert(0, Child::new(Node::Leaf(list)));
        return Ok(());
    }
    if children[0].node.is_full() {
        let lower = children[0].node.split_off()?;
        children[0].sum_up();
        children.insert(1, Child::new(lower));
    }
    if let Node::Branch(below) = &mut children[0].node {
        push(below, list)?;
    }
    children[0].sum_up();
    Ok(())
}

/// The child that `address` leads to.
fn child_for<T: Span>(children: &[Child<T>], address: usize) -> usize {
    count_above(children, address).saturating_sub(1)
}

/// Joins a node and the next one if they are small; says whether it did.
fn join<T: Span>(children: &mut Vec<Child<T>>, at: usize) -> bool {
    let Some([upper, lower]) = children.get_mut(at..at + 2) else {
        return false;
    };
    let small = upper.node.len() + lower.node.len() <= JOINED;
    if !small || !upper.node.take_over(&mut lower.node) {
        return false;
    }
    upper.sum_up();
    children.remove(at + 1);
    true
}
