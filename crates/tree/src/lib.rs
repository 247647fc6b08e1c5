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
    /// The type of keys; no two members have the same key.
    type Key: Ord;
    /// The type of the sum over the members of a subtree.
    type Sum: Copy + PartialEq;

    /// The member's key.
    fn key(&self) -> Self::Key;
    /// The sum of this member alone.
    fn sum(&self) -> Self::Sum;
    /// The sum of two sums.
    fn join(one: Self::Sum, other: Self::Sum) -> Self::Sum;
}

/// There is not enough memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// No node.
const NONE: u32 = u32::MAX;
/// The maximum height of a tree with as many members as there are numbers (1.44 times log2).
const MOST_HEIGHT: usize = 48;
const LEFT: usize = 0;
const RIGHT: usize = 1;

struct Node<T: Member> {
    member: T,
    sum: T::Sum,
    height: u8,
    below: [u32; 2],
}

/// The path from the root to a node.
struct Path {
    nodes: [u32; MOST_HEIGHT],
    length: usize,
}

impl Path {
    fn new() -> Self {
        Path {
            nodes: [NONE; MOST_HEIGHT],
            length: 0,
        }
    }

    fn push(&mut self, at: u32) {
        self.nodes[self.length] = at;
        self.length += 1;
    }

    fn last(&self) -> Option<u32> {
        self.nodes[..self.length].last().copied()
    }
}

/// Members in ascending order of keys.
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
    /// The memory that a member takes, in bytes.
    pub const NODE: usize = size_of::<Node<T>>();

    /// An empty tree.
    pub const fn new() -> Self {
        Tree {
            nodes: Vec::new(),
            root: NONE,
        }
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The sum of all members, if there are any.
    pub fn sum(&self) -> Option<T::Sum> {
        self.node(self.root).map(|node| node.sum)
    }

    /// All members, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.nodes.iter().map(|node| &node.member)
    }

    /// The first member whose key is `key` or greater.
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

    /// The member with this key.
    pub fn get(&self, key: &T::Key) -> Option<&T> {
        self.from(key).filter(|found| found.key() == *key)
    }

    /// The first member whose sum matches. `seeks` must be true for the sum of a subtree if and
    /// only if it is true for that of one of its members.
    pub fn first(&self, seeks: impl Fn(&T::Sum) -> bool) -> Option<&T> {
        self.first_in(self.root, &seeks)
    }

    /// The first matching member whose key is `key` or greater; `seeks` as for
    /// [`first`](Self::first).
    pub fn first_from(&self, key: &T::Key, seeks: impl Fn(&T::Sum) -> bool) -> Option<&T> {
        // The nodes on the path to the key that come after it.
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

    /// All members whose sum matches, in no particular order. `seeks` must be true for the sum of a
    /// subtree if it is true for that of one of its members.
    pub fn those(&self, seeks: impl Fn(&T::Sum) -> bool) -> impl Iterator<Item = &T> {
        // At most one node waits at each level.
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

    /// The member with the index `index`.
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

    /// Adds a member with a new key.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn insert(&mut self, member: T) -> Result<(), NoMemory> {
        self.reserve(1)?;
        let (key, sum) = (member.key(), member.sum());
        let mut path = Path::new();
        let (mut at, mut side) = (self.root, LEFT);
        while let Some(node) = self.node(at) {
            path.push(at);
            side = usize::from(key > node.member.key());
            at = node.below[side];
        }
        let new = self.nodes.len() as u32;
        self.nodes.push(Node {
            member,
            sum,
            height: 1,
            below: [NONE; 2],
        });
        match path.last() {
            Some(parent) => self.nodes[parent as usize].below[side] = new,
            None => self.root = new,
        }
        self.balance(&path, path.length);
        Ok(())
    }

    /// Changes the member with this key, whose key must stay the same; returns whether it exists.
    pub fn change(&mut self, key: &T::Key, change: impl FnOnce(&mut T)) -> bool {
        let Some((mut path, at)) = self.path_to(key) else {
            return false;
        };
        change(&mut self.nodes[at as usize].member);
        path.push(at);
        self.balance(&path, path.length);
        true
    }

    /// Removes the member with this key.
    pub fn remove(&mut self, key: &T::Key) -> Option<T> {
        let member = self.take(key)?;
        self.shrink();
        Some(member)
    }

    /// As [`remove`](Self::remove), but keeps the room: what [`reserve`](Self::reserve) made is
    /// available for the next insertion.
    pub fn take(&mut self, key: &T::Key) -> Option<T> {
        let (mut path, gone) = self.path_to(key)?;
        let (parent, depth) = (path.last(), path.length);
        let [left, right] = self.nodes[gone as usize].below;
        let heir = match right {
            NONE => left,
            _ => self.take_least(gone, right, &mut path),
        };
        self.relink(parent, gone, heir);
        self.balance(&path, depth);
        self.relink_last(gone);
        Some(self.nodes.swap_remove(gone as usize).member)
    }

    /// Puts the first node of the subtree at `right` in place of the node above that subtree, and
    /// extends the path to the latter accordingly.
    fn take_least(&mut self, above: u32, right: u32, path: &mut Path) -> u32 {
        let place = path.length;
        path.push(above);
        let mut least = right;
        while let [left, _] = self.nodes[least as usize].below
            && left != NONE
        {
            path.push(least);
            least = left;
        }
        path.nodes[place] = least;
        let Node {
            below, sum, height, ..
        } = self.nodes[above as usize];
        let rest = self.nodes[least as usize].below[RIGHT];
        let mut heirs = [below[LEFT], rest];
        if least != right {
            let parent = path.nodes[path.length - 1];
            self.nodes[parent as usize].below[LEFT] = rest;
            heirs[RIGHT] = right;
        }
        // The nodes above have recorded the subtree with its former root.
        let heir = &mut self.nodes[least as usize];
        (heir.below, heir.sum, heir.height) = (heirs, sum, height);
        least
    }

    /// Frees the room of removed members, if there is memory for a smaller copy.
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

    /// The node with this key, and the path to it from the root.
    fn path_to(&self, key: &T::Key) -> Option<(Path, u32)> {
        let mut path = Path::new();
        let mut at = self.root;
        loop {
            let node = self.node(at)?;
            let own = node.member.key();
            if *key == own {
                return Some((path, at));
            }
            path.push(at);
            at = node.below[usize::from(*key > own)];
        }
    }

    /// Changes the link from `parent`, or of the root, from one node to another.
    fn relink(&mut self, parent: Option<u32>, from: u32, to: u32) {
        let Some(parent) = parent else {
            self.root = to;
            return;
        };
        let below = &mut self.nodes[parent as usize].below;
        let side = usize::from(below[RIGHT] == from);
        below[side] = to;
    }

    /// Balances the nodes of a path and updates their sums, the lowest first: all from depth `to`
    /// on, and then further up until nothing changes.
    fn balance(&mut self, path: &Path, to: usize) {
        for (depth, &at) in path.nodes[..path.length].iter().enumerate().rev() {
            let (top, changed) = self.balance_one(at);
            if !changed && depth <= to {
                return;
            }
            if top != at {
                let parent = depth.checked_sub(1).map(|above| path.nodes[above]);
                self.relink(parent, at, top);
            }
        }
    }

    /// Balances the subtree at `at`, in which the heights differ by at most two. Returns its new
    /// root, and whether its height, sum or root has changed.
    fn balance_one(&mut self, at: u32) -> (u32, bool) {
        let [left, right] = self.nodes[at as usize].below;
        let (left_height, right_height) = (self.height(left), self.height(right));
        if left_height.abs_diff(right_height) < 2 {
            return (at, self.sum_up(at));
        }
        let high = usize::from(right_height > left_height);
        let child = [left, right][high];
        let [inner, outer] = [1 - high, high].map(|side| self.nodes[child as usize].below[side]);
        if self.height(inner) > self.height(outer) {
            self.nodes[at as usize].below[high] = self.rotate(child, 1 - high);
        }
        (self.rotate(at, high), true)
    }

    /// Rotates the child at `side` above the node at `at`; returns the new root.
    fn rotate(&mut self, at: u32, side: usize) -> u32 {
        let child = self.nodes[at as usize].below[side];
        let inner = self.nodes[child as usize].below[1 - side];
        self.nodes[at as usize].below[side] = inner;
        self.nodes[child as usize].below[1 - side] = at;
        self.sum_up(at);
        self.sum_up(child);
        child
    }

    /// Updates the height and the sum of the subtree at `at`; returns whether they have changed.
    fn sum_up(&mut self, at: u32) -> bool {
        let node = &self.nodes[at as usize];
        let [left, right] = node.below.map(|below| self.node(below));
        let below = left.into_iter().chain(right);
        let (mut sum, mut height) = (node.member.sum(), 0);
        for below in below {
            sum = T::join(sum, below.sum);
            height = height.max(below.height);
        }
        let node = &mut self.nodes[at as usize];
        let (old_sum, old_height) = (node.sum, node.height);
        (node.sum, node.height) = (sum, height + 1);
        (old_sum, old_height) != (sum, height + 1)
    }

    /// Changes the link to the last node, which moves to `place`.
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

#[cfg(test)]
mod tests {
    use super::*;

    struct One(u32);

    impl Member for One {
        type Key = u32;
        type Sum = u32;

        fn key(&self) -> u32 {
            self.0
        }

        fn sum(&self) -> u32 {
            self.0 % 7
        }

        fn join(one: u32, other: u32) -> u32 {
            one.max(other)
        }
    }

    /// Checks what each node has recorded about its subtree; returns its height and sum.
    fn check(tree: &Tree<One>, at: u32) -> (u8, u32) {
        let Some(node) = tree.node(at) else {
            return (0, 0);
        };
        let [left, right] = node.below.map(|below| check(tree, below));
        assert!(left.0.abs_diff(right.0) < 2);
        assert_eq!(node.height, 1 + left.0.max(right.0));
        assert_eq!(node.sum, node.member.sum().max(left.1).max(right.1));
        (node.height, node.sum)
    }

    #[test]
    fn nodes_know_their_subtrees() {
        let (mut tree, mut random) = (Tree::new(), 1_u32);
        for step in 0..4000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (random >> 8) % 300;
            if tree.remove(&key).is_none() && (step < 2000 || step % 3 == 0) {
                tree.insert(One(key)).unwrap();
            }
            check(&tree, tree.root);
        }
    }
}
