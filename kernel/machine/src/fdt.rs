//! The device tree, which describes the machine. It is not trusted to be well formed.

use core::ops::Range;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::{NodeStandard, Status};
use dtoolkit::{Node, Property};
use spin::Once;

/// Up to `N` ranges of addresses.
#[derive(Clone)]
pub struct Ranges<const N: usize> {
    list: [Range<usize>; N],
    len: usize,
}

impl<const N: usize> Ranges<N> {
    /// No ranges.
    pub const fn new() -> Self {
        Ranges {
            list: [const { 0..0 }; N],
            len: 0,
        }
    }

    /// Adds a range unless it is empty; returns false if there is no room.
    pub fn add(&mut self, range: Range<usize>) -> bool {
        if range.is_empty() {
            return true;
        }
        let Some(slot) = self.list.get_mut(self.len) else {
            return false;
        };
        *slot = range;
        self.len += 1;
        true
    }

    /// The ranges.
    pub fn as_slice(&self) -> &[Range<usize>] {
        &self.list[..self.len]
    }

    /// Sorts the ranges, and merges adjacent ones.
    pub fn normalise(&mut self) {
        heapsort::sort_by_key(&mut self.list[..self.len], |range| range.start);
        let mut kept = 0;
        for at in 0..self.len {
            let range = self.list[at].clone();
            if kept > 0 && range.start <= self.list[kept - 1].end {
                self.list[kept - 1].end = self.list[kept - 1].end.max(range.end);
            } else {
                self.list[kept] = range;
                kept += 1;
            }
        }
        self.len = kept;
    }
}

/// The reason why a tree is unusable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// It has no valid header, or is truncated or corrupt.
    Damaged,
    /// It describes no memory.
    NoMemory,
}

/// The memory layout, which must be known before memory can be managed.
pub struct Memory {
    /// RAM.
    pub ram: Ranges<32>,
    /// Parts of RAM that are in use.
    pub reserved: Ranges<64>,
    /// Parts of RAM that must not be mapped.
    pub unmapped: Ranges<16>,
    /// The initial archive.
    pub initrd: Range<usize>,
}

static TREE: Once<Fdt<'static>> = Once::new();

/// The machine's device tree, if it is set yet.
#[allow(dead_code, reason = "not every architecture asks before it is")]
pub fn try_tree() -> Option<Fdt<'static>> {
    TREE.get().copied()
}

/// Validates a tree.
pub fn check(bytes: &[u8]) -> Result<Fdt<'_>, Unusable> {
    Fdt::new(bytes).map_err(|_| Unusable::Damaged)
}

/// Sets the tree that [`tree`] returns.
pub fn set(tree: Fdt<'static>) {
    TREE.call_once(|| tree);
}

/// The machine's device tree.
///
/// # Panics
/// Before [`set`].
pub fn tree() -> Fdt<'static> {
    *TREE.get().expect("the device tree is known")
}

/// Reads the memory layout.
pub fn memory(tree: Fdt) -> Result<Memory, Unusable> {
    let mut memory = Memory {
        ram: Ranges::new(),
        reserved: Ranges::new(),
        unmapped: Ranges::new(),
        initrd: 0..0,
    };
    for node in tree
        .root()
        .children()
        .filter(|node| text_of(node, "device_type") == Some("memory"))
    {
        for range in regions(node) {
            memory.ram.add(range);
        }
    }
    memory.ram.normalise();
    if memory.ram.as_slice().is_empty() {
        return Err(Unusable::NoMemory);
    }
    for reservation in tree.memory_reservations() {
        let start = reservation.address() as usize;
        memory
            .reserved
            .add(start..start.saturating_add(reservation.size() as usize));
    }
    for node in tree
        .find_node("/reserved-memory")
        .iter()
        .flat_map(|node| node.children())
    {
        for range in regions(node) {
            memory.reserved.add(range.clone());
            if node.property("no-map").is_some() {
                memory.unmapped.add(range);
            }
        }
    }
    if let Some(chosen) = tree.find_node("/chosen")
        && let (Some(start), Some(end)) = (
            number(&chosen, "linux,initrd-start"),
            number(&chosen, "linux,initrd-end"),
        )
        && start < end
    {
        memory.initrd = start..end;
        memory.reserved.add(start..end);
    }
    Ok(memory)
}

/// The kernel's command line.
pub fn command_line<'a>(tree: Fdt<'a>) -> &'a str {
    tree.find_node("/chosen")
        .and_then(|chosen| text_of(&chosen, "bootargs"))
        .unwrap_or("")
}

/// The console's node: the one that `stdout-path` names, or the first `compatible` device.
pub fn console_node<'a>(tree: Fdt<'a>, compatible: &'a [&'a str]) -> Option<FdtNode<'a>> {
    let chosen = tree
        .find_node("/chosen")
        .and_then(|chosen| text_of(&chosen, "stdout-path"));
    let path = chosen.and_then(|path| path.split(':').next());
    let by_alias = |name| {
        tree.find_node("/aliases")
            .and_then(|aliases| text_of(&aliases, name))
    };
    let named = path.and_then(|path| {
        if path.starts_with('/') {
            Some(path)
        } else {
            by_alias(path)
        }
    });
    let node = named
        .and_then(|path| tree.find_node(path))
        .filter(|node| is_any(node, compatible));
    node.or_else(|| find(tree, compatible).next())
}

/// Nodes at most three levels below the root that are `compatible` with any of the names and
/// enabled, each once.
pub fn find<'a>(
    tree: Fdt<'a>,
    compatible: &'a [&'a str],
) -> impl Iterator<Item = FdtNode<'a>> + 'a {
    use core::iter::once;
    let bottom = |node: FdtNode<'a>| once(node).chain(node.children());
    let middle = move |node: FdtNode<'a>| once(node).chain(node.children().flat_map(bottom));
    let all = tree.root().children().flat_map(middle);
    all.filter(move |node| is_any(node, compatible) && is_enabled(node))
}

/// Whether the node is `compatible` with any of the names.
pub fn is_any(node: &FdtNode, compatible: &[&str]) -> bool {
    compatible.iter().any(|name| node.is_compatible(name))
}

/// Whether the node is enabled.
pub fn is_enabled(node: &FdtNode) -> bool {
    matches!(node.status(), Ok(Status::Okay))
}

/// The address ranges of a node's `reg`.
pub fn regions<'a>(node: FdtNode<'a>) -> impl Iterator<Item = Range<usize>> + 'a {
    node.reg()
        .ok()
        .flatten()
        .into_iter()
        .flatten()
        .filter_map(|reg| {
            let start = reg.address::<u64>().ok()? as usize;
            let size = reg.size::<u64>().ok()? as usize;
            Some(start..start.checked_add(size)?)
        })
}

/// The value of a property of one or two cells.
pub fn number(node: &FdtNode, name: &str) -> Option<usize> {
    match node.property(name)?.value() {
        bytes @ [_, _, _, _] => Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize),
        bytes @ [_, _, _, _, _, _, _, _] => {
            Some(u64::from_be_bytes(bytes.try_into().ok()?) as usize)
        }
        _ => None,
    }
}

/// The number formed by all cells of a property.
#[allow(dead_code, reason = "arm64 numbers its CPUs so")]
pub fn number_of_cells(node: &FdtNode, name: &str) -> Option<usize> {
    bytes(node, name)?;
    Some(cells(node, name).fold(0, |number, cell| number << 32 | cell as usize))
}

/// The cells of a property.
pub fn cells<'a>(node: &FdtNode<'a>, name: &str) -> impl Iterator<Item = u32> + 'a {
    let bytes = bytes(node, name).unwrap_or(&[]);
    bytes
        .chunks_exact(4)
        .map(|cell| u32::from_be_bytes([cell[0], cell[1], cell[2], cell[3]]))
}

/// The bytes of a property.
pub fn bytes<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    node.properties()
        .find(|property| property.name() == name)?
        .value_as::<&'a [u8]>()
        .ok()
}

/// The value of a property that is a string.
pub fn text_of<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a str> {
    core::str::from_utf8(bytes(node, name)?.strip_suffix(&[0])?).ok()
}
