//! A balanced tree (AVL) in one array. Each node keeps a sum over its subtree, by which a search
//! skips subtrees without a match. Insertion is the only operation that needs memory, and it can
//! fail.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use core::cmp::Ordering;

/// A member of a tree.
pub trait Member {
    /// The type of its place in the order; no two members have the same place.
    type Key: Ord;
    /// The type of the sum over a subtree's members.
    type Sum: Copy;

    /// Its place in the order.
    fn key(&self) -> Self::Key;
    /// The sum of this member alone.
    fn sum(&self) -> Self::Sum;
    /// The sum of both.
    fn join(one: Self::Sum, other: Self::Sum) -> Self::Sum;
}

/// There is no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// No node.
const NONE: u32 = u32::MAX;
/// No tree of so many members as have numbers is higher (1.44 times log2).
const MOST_HEIGHT: usize = 48;
const LEFT: usize = 0;
const RIGHT: usize = 1;

struct Node<T: Member> {
    member: T,
    sum: T::Sum,
    height: u8,
    below: [u32; 2],
}

/// Members by ascending key.
pub struct Tree<T: Member> {
    nodes: Vec<Node<T>>,
    root: u32,
}

impl<T: Member> Default for Tree<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Member> Tree<T> {
    /// The memory that a member takes.
    pub const NODE: usize = size_of::<Node<T>>();

    /// Nothing.
    pub const fn new() -> Self {
        Tree {
            nodes: Vec::new(),
            root: NONE,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The sum of all, if there are any.
    pub fn sum(&self) -> Option<T::Sum> {
        self.node(self.root).map(|node| node.sum)
    }

    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.nodes.iter().map(|node| &node.member)
    }

    /// The first whose key is `key` or greater.
    pub fn from(&self, key: &T::Key) -> Option<&T> {
        let (mut at, mut found) = (self.root, None);
        while let Some(node) = self.node(at) {
            let side = if node.member.key() >= *key {
                found = Some(&node.member);
                LEFT
            } else {
                RIGHT
            };
            at = node.below[side];
        }
        found
    }

    /// The member with that key.
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.from(key).filter(|found| found.key() == *key)
    }

    /// The first member whose sum matches, where `seeks` is true of a subtree's sum if and only if
    /// it is true of that of a member in it.
    pub fn first(&self, seeks: impl Fn(&T::Sum) -> bool) -> Option<&T> {
        self.first_in(self.root, &seeks)
    }

    /// The first of those whose key is `key` or greater; `seeks` as with [`first`](Self::first).
    pub fn first_from(&self, key: &T::Key, seeks: impl Fn(&T::Sum) -> bool) -> Option<&T> {
        // The way to the key, as far as what is on it comes after that.
        let mut after = [NONE; MOST_HEIGHT];
        let (mut count, mut at) = (0, self.root);
        while let Some(node) = self.node(at) {
            let side = if node.member.key() >= *key {
                after[count] = at;
                count += 1;
                LEFT
            } else {
                RIGHT
            };
            at = node.below[side];
        }
        after[..count].iter().rev().find_map(|&at| {
            let node = self.node(at)?;
            match seeks(&node.member.sum()) {
                true => Some(&node.member),
                false => self.first_in(node.below[RIGHT], &seeks),
            }
        })
    }

    fn first_in(&self, at: u32, seeks: &impl Fn(&T::Sum) -> bool) -> Option<&T> {
        let mut node = self.node(at).filter(|node| seeks(&node.sum))?;
        loop {
            let left = self.node(node.below[LEFT]);
            if let Some(left) = left.filter(|left| seeks(&left.sum)) {
                node = left;
            } else if seeks(&node.member.sum()) {
                return Some(&node.member);
            } else {
                node = self.node(node.below[RIGHT])?;
            }
        }
    }

    /// All members whose sum matches, in no order, where `seeks` is true of a subtree's sum if it
    /// is true of that of a member in it.
    pub fn those(&self, seeks: impl Fn(&T::Sum) -> bool) -> impl Iterator<Item = &T> {
        // One waits at each level.
        let mut waiting = [NONE; MOST_HEIGHT];
        let (mut count, mut at) = (0_usize, self.root);
        core::iter::from_fn(move || {
            loop {
                let node = self.node(at).filter(|node| seeks(&node.sum));
                let Some(node) = node else {
                    count = count.checked_sub(1)?;
                    at = waiting[count];
                    continue;
                };
                let [left, right] = node.below;
                (waiting[count], at) = (right, left);
                count += 1;
                if seeks(&node.member.sum()) {
                    return Some(&node.member);
                }
            }
        })
    }

    /// The member before which there are `index` others.
    pub fn nth(&self, mut index: usize) -> Option<&T>
    where
        T: Member<Sum = usize>,
    {
        let mut node = self.node(self.root)?;
        loop {
            let left = self.node(node.below[LEFT]);
            let before = left.map_or(0, |left| left.sum);
            let side = match index.cmp(&before) {
                Ordering::Less => LEFT,
                Ordering::Equal => return Some(&node.member),
                Ordering::Greater => {
                    index -= before + 1;
                    RIGHT
                }
            };
            node = self.node(node.below[side])?;
        }
    }

    /// Makes room for `more` members.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn reserve(&mut self, more: usize) -> Result<(), NoMemory> {
        let fits = self.nodes.len() + more < NONE as usize;
        let room = fits.then(|| self.nodes.try_reserve(more));
        room.ok_or(NoMemory)?.map_err(|_| NoMemory)
    }

    /// Adds a member whose key no other has.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn insert(&mut self, member: T) -> Result<(), NoMemory> {
        self.reserve(1)?;
        let (key, sum) = (member.key(), member.sum());
        let new = self.nodes.len() as u32;
        self.nodes.push(Node {
            member,
            sum,
            height: 1,
            below: [NONE; 2],
        });
        self.root = self.place(self.root, new, &key);
        Ok(())
    }

    /// Changes the member with that key, which keeps its place in the order; returns whether there
    /// is one.
    pub fn change(&mut self, key: &T::Key, change: impl FnOnce(&mut T)) -> bool {
        let mut path = [NONE; MOST_HEIGHT];
        let (mut length, mut at) = (0, self.root);
        while let Some(node) = self.node(at) {
            path[length] = at;
            length += 1;
            let own = node.member.key();
            if *key == own {
                change(&mut self.nodes[at as usize].member);
                path[..length].iter().rev().for_each(|at| self.sum_up(*at));
                return true;
            }
            at = node.below[usize::from(*key > own)];
        }
        false
    }

    /// Takes out the member with that key.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        let member = self.take(key)?;
        self.shrink();
        Some(member)
    }

    /// As [`remove`](Self::remove), and keeps the room: what [`reserve`](Self::reserve) made is
    /// there for the next.
    pub fn take(&mut self, key: &T::Key) -> Option<T> {
        let (root, gone) = self.cut(self.root, key);
        self.root = root;
        let gone = (gone != NONE).then_some(gone)?;
        self.relink_last(gone);
        Some(self.nodes.swap_remove(gone as usize).member)
    }

    /// Gives back room of removed members, if there is memory for a smaller copy.
    fn shrink(&mut self) {
        let room = 2 * self.nodes.len().max(8);
        if self.nodes.capacity() < 2 * room {
            return;
        }
        let mut nodes = Vec::new();
        if nodes.try_reserve_exact(room).is_ok() {
            nodes.append(&mut self.nodes);
            self.nodes = nodes;
        }
    }

    fn node(&self, at: u32) -> Option<&Node<T>> {
        self.nodes.get(at as usize)
    }

    fn height(&self, at: u32) -> u8 {
        self.node(at).map_or(0, |node| node.height)
    }

    /// Puts the node `new` into the subtree at `at`; the subtree's new root.
    fn place(&mut self, at: u32, new: u32, key: &T::Key) -> u32 {
        let Some(node) = self.node(at) else {
            return new;
        };
        let side = usize::from(*key > node.member.key());
        let below = self.place(node.below[side], new, key);
        self.nodes[at as usize].below[side] = below;
        self.balance(at)
    }

    /// Takes the node with that key out of the subtree at `at`; the subtree's new root, and the
    /// node.
    fn cut(&mut self, at: u32, key: &T::Key) -> (u32, u32) {
        let Some(node) = self.node(at) else {
            return (NONE, NONE);
        };
        let [left, right] = node.below;
        let own = node.member.key();
        if *key == own {
            return (self.merge(left, right), at);
        }
        let side = usize::from(*key > own);
        let (below, gone) = self.cut([left, right][side], key);
        self.nodes[at as usize].below[side] = below;
        (self.balance(at), gone)
    }

    /// One tree of two, whose heights differ by at most one.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if right == NONE {
            return left;
        }
        let (rest, least) = self.cut_least(right);
        self.nodes[least as usize].below = [left, rest];
        self.balance(least)
    }

    /// Takes the first node out of the subtree at `at`; the subtree's new root, and the node.
    fn cut_least(&mut self, at: u32) -> (u32, u32) {
        let [left, right] = self.nodes[at as usize].below;
        if left == NONE {
            return (right, at);
        }
        let (rest, least) = self.cut_least(left);
        self.nodes[at as usize].below[LEFT] = rest;
        (self.balance(at), least)
    }

    /// Balances the subtree at `at`, whose own subtrees' heights differ by at most two; its new
    /// root.
    fn balance(&mut self, at: u32) -> u32 {
        let [left, right] = self.nodes[at as usize].below;
        let (left_height, right_height) = (self.height(left), self.height(right));
        if left_height.abs_diff(right_height) < 2 {
            self.sum_up(at);
            return at;
        }
        let high = usize::from(right_height > left_height);
        let child = [left, right][high];
        let [inner, outer] = [1 - high, high].map(|side| self.nodes[child as usize].below[side]);
        if self.height(inner) > self.height(outer) {
            self.nodes[at as usize].below[high] = self.rotate(child, 1 - high);
        }
        self.rotate(at, high)
    }

    /// Brings the child at `side` above the node at `at`; it is the new root.
    fn rotate(&mut self, at: u32, side: usize) -> u32 {
        let child = self.nodes[at as usize].below[side];
        let inner = self.nodes[child as usize].below[1 - side];
        self.nodes[at as usize].below[side] = inner;
        self.nodes[child as usize].below[1 - side] = at;
        self.sum_up(at);
        self.sum_up(child);
        child
    }

    fn sum_up(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        let [left, right] = node.below.map(|below| self.node(below));
        let below = left.into_iter().chain(right);
        let sum = below.fold(node.member.sum(), |sum, below| T::join(sum, below.sum));
        let height = 1 + self
            .height(node.below[LEFT])
            .max(self.height(node.below[RIGHT]));
        let node = &mut self.nodes[at as usize];
        (node.sum, node.height) = (sum, height);
    }

    /// Makes the link to the last node lead to `place`, where that node moves.
    fn relink_last(&mut self, place: u32) {
        let last = self.nodes.len() as u32 - 1;
        if place == last {
            return;
        }
        if self.root == last {
            self.root = place;
            return;
        }
        let key = self.nodes[last as usize].member.key();
        let mut at = self.root;
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            let side = usize::from(key > node.member.key());
            if node.below[side] == last {
                node.below[side] = place;
                return;
            }
            at = node.below[side];
        }
    }
}
