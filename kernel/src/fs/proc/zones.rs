//! Free memory as procfs and sysfs show it: one zone, of one node.

use super::super::seq_file::Text;
use crate::mm::frame::{self, Held};
use crate::put;

/// The name of the only zone: memory that any device and the kernel can use.
const ZONE: &str = "Normal";

/// buddyinfo: free blocks by size.
pub fn blocks(text: &mut Text) {
    put!(text, "Node 0, zone {ZONE:>8} ");
    for count in frame::free_blocks() {
        put!(text, "{count:>6} ");
    }
    put!(text, "\n");
}

/// zoneinfo. Frames in a CPU's own reserve are not shown.
pub fn zones(text: &mut Text) {
    let Held {
        file, anonymous, ..
    } = frame::held();
    let (min, low) = frame::watermarks();
    let (free, span) = (frame::free_count(), frame::span());
    put!(text, "Node 0, zone {ZONE:>8}\n  per-node stats\n");
    put_counts(
        text,
        &[
            ("nr_active_anon", file + anonymous),
            ("nr_anon_pages", anonymous),
            ("nr_file_pages", file),
            ("nr_shmem", file),
        ],
    );
    put!(text, "  pages free     {free}\n");
    for (name, frames) in [
        ("boost", 0),
        ("min", min),
        ("low", low),
        ("high", low),
        ("promo", low),
        ("spanned", span.len()),
        ("present", frame::total()),
        ("managed", frame::total()),
        ("cma", 0),
    ] {
        put!(text, "        {name:<8} {frames}\n");
    }
    put!(text, "        protection: (0)\n");
    put_counts(
        text,
        &[
            ("nr_free_pages", free),
            ("nr_zone_active_anon", file + anonymous),
        ],
    );
    let start = span.start;
    put!(
        text,
        "  node_unreclaimable:  0\n  start_pfn:           {start}\n"
    );
}

fn put_counts(text: &mut Text, counts: &[(&str, usize)]) {
    for (name, count) in counts {
        put!(text, "      {name:<12} {count}\n");
    }
}

/// Free memory is not grouped by mobility. Linux shows it this way if there is too little memory
/// for groups.
const TYPES: [&str; 4] = ["Unmovable", "Movable", "Reclaimable", "HighAtomic"];
/// The size of a page block, as a power of two of frames: a huge page (pageblock_order).
const GROUP: u32 = 9;

/// pagetypeinfo
pub fn types(text: &mut Text) {
    let group = 1 << GROUP;
    put!(
        text,
        "Page block order: {GROUP}\nPages per block:  {group}\n\n{:<43} ",
        "Free pages count per migrate type at order"
    );
    let blocks = frame::free_blocks();
    for order in 0..blocks.len() {
        put!(text, "{order:>6} ");
    }
    put!(text, "\n");
    for (at, name) in TYPES.iter().enumerate() {
        put!(text, "Node    0, zone {ZONE:>8}, type {name:>12} ");
        for count in blocks {
            put!(text, "{:>6} ", if at == 0 { count } else { 0 });
        }
        put!(text, "\n");
    }
    put!(text, "\n{:<23}", "Number of blocks type ");
    for name in TYPES {
        put!(text, "{name:>12} ");
    }
    put!(text, "\nNode 0, zone {ZONE:>8} ");
    for at in 0..TYPES.len() {
        let groups = frame::span().len().div_ceil(group);
        put!(text, "{:>12} ", if at == 0 { groups } else { 0 });
    }
    put!(text, "\n");
}

/// numastat of the node. Nothing is counted, as on Linux with vm.numa_stat = 0.
pub fn numa(text: &mut Text) {
    for name in [
        "numa_hit",
        "numa_miss",
        "numa_foreign",
        "interleave_hit",
        "local_node",
        "other_node",
    ] {
        put!(text, "{name} 0\n");
    }
}
