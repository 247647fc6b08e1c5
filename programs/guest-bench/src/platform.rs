//! The platform as the device tree describes it.

use core::cell::Cell;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property};

/// The addresses of devices and of the device tree.
#[derive(Clone, Copy)]
pub struct Platform {
    pub uart: usize,
    pub distributor: usize,
    pub redistributors: usize,
    /// The VMM's status register, if it has one.
    pub status: Option<usize>,
    tree: usize,
}

struct Known(Cell<Option<Platform>>);

// SAFETY: only the first CPU uses it.
unsafe impl Sync for Known {}

static KNOWN: Known = Known(Cell::new(None));

/// The platform that [`find`] found.
pub fn known() -> Option<Platform> {
    KNOWN.0.get()
}

fn parse(tree: usize) -> Fdt<'static> {
    // SAFETY: the VMM passes the address of a device tree, and nothing writes to it.
    unsafe { Fdt::from_raw(tree as *const u8) }.expect("the device tree is sound")
}

/// Reads the tree at this address.
pub fn find(address: usize) -> Platform {
    let tree = parse(address);
    let controller = device(tree, "arm,gic-v3").expect("a GICv3");
    let platform = Platform {
        uart: base(device(tree, "arm,pl011").expect("a PL011"), 0).expect("the PL011's registers"),
        distributor: base(controller, 0).expect("a distributor"),
        redistributors: base(controller, 1).expect("redistributors"),
        status: device(tree, "stile,exit-status").and_then(|node| base(node, 0)),
        tree: address,
    };
    KNOWN.0.set(Some(platform));
    platform
}

impl Platform {
    /// The affinities of all CPUs, in the format of MPIDR_EL1.
    pub fn affinities(&self) -> impl Iterator<Item = u64> {
        let cpus = parse(self.tree).find_node("/cpus");
        let nodes = cpus.into_iter().flat_map(|cpus| cpus.children());
        nodes.filter_map(|node| {
            let register = node.property("reg")?;
            let bytes = register.value().iter();
            Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
        })
    }
}

fn device(tree: Fdt<'static>, compatible: &str) -> Option<FdtNode<'static>> {
    tree.root()
        .children()
        .find(|node| node.is_compatible(compatible))
}

fn base(node: FdtNode<'static>, index: usize) -> Option<usize> {
    let mut ranges = node.reg().ok()??;
    ranges
        .nth(index)?
        .address::<u64>()
        .ok()
        .map(|address| address as usize)
}
