//! Sockets in flight through sockets, and the unreachable ones among them.
//!
//! A socket that is sent waits in another, its holder. If such holders hold one another in a cycle,
//! and no program has any of them open, no receive ever takes them out: they are garbage, although
//! everything in the cycle still has a count. The sockets that are not garbage are found from
//! outside: a socket that is open somewhere, or waits in one that is not in flight itself, is
//! reachable, and so is everything that waits in it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::mem::replace;
use hash_table::HashMap;

mod pace;

pub use pace::Pace;

/// There was not enough memory to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// A socket that is in flight, or that holds one in flight.
struct Node<T, S> {
    /// The owner's handle of it; `None` while it only holds others.
    item: Option<T>,
    /// How often it is in flight, and how many of these are from outside the part being examined.
    count: usize,
    outside: usize,
    /// The sockets that wait in it, and how often each does.
    held: HashMap<u64, usize, S>,
    reached: bool,
}

/// The sockets in flight, each of which waits in others.
pub struct Graph<T, S> {
    nodes: HashMap<u64, Node<T, S>, S>,
    edges: usize,
}

impl<T, S: BuildHasher + Clone> Graph<T, S> {
    /// An empty graph.
    pub const fn new(hasher: S) -> Self {
        Graph {
            nodes: HashMap::with_hasher(hasher),
            edges: 0,
        }
    }

    /// The total number of waiting sockets.
    pub fn len(&self) -> usize {
        self.edges
    }

    /// Whether no socket waits.
    pub fn is_empty(&self) -> bool {
        self.edges == 0
    }

    /// Whether `holder` is in flight itself, so that adding a socket to it may close a cycle.
    pub fn is_in_flight(&self, holder: u64) -> bool {
        self.nodes.get(&holder).is_some_and(|node| node.count > 0)
    }

    /// Whether `held` waits in `holder`.
    pub fn holds(&self, holder: u64, held: u64) -> bool {
        self.nodes
            .get(&holder)
            .is_some_and(|node| node.held.contains_key(&held))
    }

    /// Records that `held` waits in `holder` once more. Without memory nothing changes.
    pub fn add(&mut self, holder: u64, held: u64, item: T) -> Result<(), NoMemory> {
        self.nodes.try_reserve(2).map_err(|_| NoMemory)?;
        if self.node(holder).held.try_reserve(1).is_err() {
            self.remove_idle(holder);
            return Err(NoMemory);
        }
        *self.node(holder).held.get_or_insert_with(held, || 0) += 1;
        let node = self.node(held);
        node.item = Some(item);
        node.count += 1;
        self.edges += 1;
        Ok(())
    }

    fn node(&mut self, number: u64) -> &mut Node<T, S> {
        let hasher = self.nodes.hasher().clone();
        self.nodes.get_or_insert_with(number, || Node {
            item: None,
            count: 0,
            outside: 0,
            held: HashMap::with_hasher(hasher),
            reached: false,
        })
    }

    /// Records that `held` waits in `holder` once less.
    pub fn remove(&mut self, holder: u64, held: u64) {
        let Some(node) = self.nodes.get_mut(&holder) else {
            return;
        };
        let Some(times) = node.held.get_mut(&held) else {
            return;
        };
        *times -= 1;
        if *times == 0 {
            node.held.remove(&held);
        }
        self.edges -= 1;
        if let Some(node) = self.nodes.get_mut(&held) {
            node.count -= 1;
        }
        self.remove_idle(held);
        self.remove_idle(holder);
    }

    fn remove_idle(&mut self, number: u64) {
        let idle = |node: &Node<T, S>| node.count == 0 && node.held.is_empty();
        if self.nodes.get(&number).is_some_and(idle) {
            self.nodes.remove(&number);
        }
    }

    /// Passes the unreachable sockets to `found`. `is_open` tells whether a socket that is in
    /// flight this many times is also open elsewhere. Returns whether any socket in flight holds
    /// another, without which there is no cycle. Calls `pause` after each step.
    pub fn garbage(
        &mut self,
        is_open: impl Fn(&T, usize) -> bool,
        mut found: impl FnMut(&T),
        pause: impl Fn(),
    ) -> Result<bool, NoMemory> {
        let mut reached = Vec::new();
        reached
            .try_reserve_exact(self.nodes.len())
            .map_err(|_| NoMemory)?;
        let mut holders = Vec::new();
        holders
            .try_reserve_exact(self.nodes.len())
            .map_err(|_| NoMemory)?;
        for (&number, node) in self.nodes.iter_mut() {
            (node.outside, node.reached) = (node.count, false);
            if node.count > 0 && !node.held.is_empty() {
                holders.push(number);
            }
            pause();
        }
        for holder in &holders {
            self.each_held(*holder, |_, node, times| {
                node.outside -= times;
                pause();
            });
        }
        for (&number, node) in self.nodes.iter_mut() {
            let open = |item| is_open(item, node.count);
            if node.outside > 0 || node.item.as_ref().is_some_and(open) {
                node.reached = true;
                reached.push(number);
            }
            pause();
        }
        while let Some(number) = reached.pop() {
            self.each_held(number, |one, node, _| {
                if !replace(&mut node.reached, true) {
                    reached.push(one);
                }
                pause();
            });
        }
        for node in self.nodes.values() {
            if node.count > 0 && !node.reached {
                node.item.iter().for_each(&mut found);
            }
            pause();
        }
        Ok(!holders.is_empty())
    }

    /// Calls `act` with each socket that waits in `holder`, and how often it does.
    fn each_held(&mut self, holder: u64, mut act: impl FnMut(u64, &mut Node<T, S>, usize)) {
        let none = HashMap::with_hasher(self.nodes.hasher().clone());
        let Some(node) = self.nodes.get_mut(&holder) else {
            return;
        };
        // Taken out meanwhile, because a socket may wait in itself.
        let held = replace(&mut node.held, none);
        for (&one, &times) in held.iter() {
            if let Some(node) = self.nodes.get_mut(&one) {
                act(one, node, times);
            }
        }
        if let Some(node) = self.nodes.get_mut(&holder) {
            node.held = held;
        }
    }
}
