//! What procfs and sysfs tell of free memory: one zone, of one node.

use super::super::generated::Text;
use crate::mm::frame;
use crate::put;

/// What the only zone is called: memory that any device and the kernel can use.
const ZONE: &str = "Normal";

/// buddyinfo: free blocks by size.
pub fn blocks(text: &mut Text) {
    put!(text, "Node 0, zone {ZONE:>8} ");
    for count in frame::free_blocks() {
        put!(text, "{count:>6} ");
    }
    put!(text, "\n");
}

/// zoneinfo. Frames that a CPU keeps ready are its own: they are not told.
pub fn zones(text: &mut Text) {
    let (file, anonymous) = frame::held_by_programs();
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

/// numastat of the node. Nothing is counted, as on Linux where vm.numa_stat is 0.
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
