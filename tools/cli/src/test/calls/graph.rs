//! Which functions of a kernel call which, and how much stack each takes.

use anyhow::{Result, ensure};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, EdgeReference, NodeIndex};
use petgraph::visit::{EdgeFiltered, EdgeRef};

use super::image::Image;
use super::step::Step;
use super::{arm64, riscv64};
use crate::arch::Arch;

/// A quarter of a kernel stack, in bytes.
const LARGEST_FRAME: u64 = 4096;
/// Functions with larger frames that run at the kernel's start, before any program.
const AT_START: [&str; 3] = [
    "::start::find_memory",
    "::virtio_net::new_queue",
    "::virtio_queue::new_queue",
];

/// A function.
pub struct Node {
    pub name: String,
    /// The size of its stack frame in bytes, at most.
    pub frame: u64,
}

/// The calls between functions of a kernel, each at its index in the image.
pub struct Calls {
    pub graph: DiGraph<Node, (), usize>,
    /// The number of calls of an address in a register.
    pub unseen: usize,
}

/// An index into the functions.
pub type Place = NodeIndex<usize>;

impl Calls {
    pub fn of(image: &Image, arch: Arch) -> Result<Self> {
        let steps = match arch {
            Arch::Arm64 => arm64::steps,
            Arch::Riscv64 => riscv64::steps,
        };
        let (mut graph, mut unseen) = (DiGraph::default(), 0);
        let mut edges = Vec::new();
        for (place, function) in image.functions.iter().enumerate() {
            let is_inside = |target| (function.start..function.end).contains(&target);
            let mut frame = 0;
            for step in steps(image.code(function)?, function.start) {
                match step {
                    Step::Grows(bytes) => frame += bytes,
                    Step::CallsRegister => unseen += 1,
                    // By a register, to an entry of a table, or to another function at the end.
                    Step::JumpsRegister => {}
                    Step::Jumps(target) if is_inside(target) => {}
                    Step::Calls(target) | Step::Jumps(target) => {
                        edges.extend(image.at(target).map(|callee| (place, callee)));
                    }
                }
            }
            let name = function.name.clone();
            graph.add_node(Node { name, frame });
        }
        ensure!(
            edges.len() > image.functions.len(),
            "the kernel's code has no calls"
        );
        for (from, to) in edges {
            graph.update_edge(Place::new(from), Place::new(to), ());
        }
        Ok(Self { graph, unseen })
    }

    /// The functions whose frames take more than a quarter of a kernel stack.
    pub fn large_frames(&self) -> Vec<String> {
        let nodes = self.graph.node_weights();
        let large = nodes.filter(|node| {
            let starts = AT_START.iter().any(|name| node.name.ends_with(name));
            node.frame > LARGEST_FRAME && !starts
        });
        let told = large.map(|node| format!("a frame of {} bytes: {}", node.frame, node.name));
        told.collect()
    }

    /// The sets of functions that call each other in circles by calls that are `seen`.
    pub fn cycles(&self, seen: impl Fn(Place, Place) -> bool) -> Vec<Vec<Place>> {
        let is_seen = |edge: EdgeReference<(), usize>| seen(edge.source(), edge.target());
        let part = EdgeFiltered::from_fn(&self.graph, is_seen);
        let mut sets = kosaraju_scc(&part);
        sets.retain(|set| match set[..] {
            [one] => self.graph.contains_edge(one, one) && seen(one, one),
            _ => true,
        });
        sets
    }
}
