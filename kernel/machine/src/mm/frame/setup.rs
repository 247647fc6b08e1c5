//! Boot-time setup: the metadata of all frames, and the memory that the allocator gets.

use core::ops::Range;
use core::sync::atomic::Ordering::*;

use super::meta::{FRAMES, Meta};
use super::pool::POOL;
use crate::mm::buddy::{self, Buddy, ORDERS};
use crate::mm::{PAGE_SHIFT, PAGE_SIZE, PhysAddr};

/// Builds the metadata and gives all memory except `reserved` to the allocator. Ranges are in
/// bytes.
///
/// # Safety
/// Those of [`mm::init`](crate::mm::init).
pub(in crate::mm) unsafe fn init(ram: &[Range<usize>], reserved: &[Range<usize>]) {
    let usable = usable_ram(ram);
    let first = usable
        .clone()
        .map(|r| r.start)
        .min()
        .expect("memory in the device tree")
        >> PAGE_SHIFT;
    let end = usable.clone().map(|r| r.end).max().unwrap_or(0) >> PAGE_SHIFT;
    let size = (end - first) * size_of::<Meta>();
    let array = usable
        .clone()
        .find_map(|r| find_hole(r, reserved, size))
        .expect("room for the metadata of frames");
    // SAFETY: a hole between the reserved ranges inside RAM: unused memory in the linear map;
    // zeroes are valid metadata (Owner::Reserved, no reference).
    unsafe { core::ptr::write_bytes(PhysAddr(array).linear() as *mut u8, 0, size) };
    let biased = PhysAddr(array)
        .linear()
        .wrapping_sub(first * size_of::<Meta>());
    FRAMES.biased.store(biased, Relaxed);
    FRAMES.first.store(first as u32, Relaxed);
    FRAMES.end.store(end as u32, Release);

    let buddy = &mut POOL.lock().buddy;
    for range in usable {
        let mut start = range.start.max(PAGE_SIZE);
        while start < range.end {
            let taken = |r: &&Range<usize>| r.contains(&start);
            let metadata = array..array + size;
            if let Some(hit) = reserved.iter().chain([&metadata]).find(taken) {
                start = hit.end.next_multiple_of(PAGE_SIZE);
                continue;
            }
            let next = reserved
                .iter()
                .chain([&metadata])
                .map(|r| r.start / PAGE_SIZE * PAGE_SIZE)
                .filter(|&r| r > start);
            start = give_blocks(buddy, start..next.min().unwrap_or(range.end).min(range.end));
        }
    }
    FRAMES.total.store(buddy::free(), Relaxed);
}

/// Gives whole frames that were reserved to the allocator; the range is in bytes.
///
/// # Safety
/// The frames were reserved until now, and nobody uses them any more.
pub(in crate::mm) unsafe fn add(range: Range<usize>) {
    let usable = FRAMES.first.load(Relaxed) as usize..FRAMES.end.load(Relaxed) as usize;
    let frames = range.start >> PAGE_SHIFT..range.end >> PAGE_SHIFT;
    if frames.start < frames.end && usable.start <= frames.start && frames.end <= usable.end {
        give_blocks(&mut POOL.lock().buddy, range);
        FRAMES.total.fetch_add(frames.len(), Relaxed);
    }
}

/// Gives a free range to the allocator in the largest blocks that fit; returns its end.
fn give_blocks(buddy: &mut Buddy, range: Range<usize>) -> usize {
    let mut frame = range.start >> PAGE_SHIFT;
    let end = range.end >> PAGE_SHIFT;
    while frame < end {
        let order = (frame.trailing_zeros().min((end - frame).ilog2()) as usize).min(ORDERS - 1);
        buddy.give(frame as u32, order);
        frame += 1 << order;
    }
    range.end.max(range.start + PAGE_SIZE)
}

/// RAM in whole frames with valid numbers, without memory that is so far off that the metadata
/// would take most of the memory.
fn usable_ram(ram: &[Range<usize>]) -> impl Iterator<Item = Range<usize>> + Clone {
    let total: usize = ram.iter().map(|r| r.len()).sum();
    let start = ram.iter().map(|r| r.start).min().unwrap_or(0);
    let limit = start
        .saturating_add(total.saturating_mul(16))
        .min(u32::MAX as usize * PAGE_SIZE);
    ram.iter()
        .map(move |r| r.start.next_multiple_of(PAGE_SIZE)..r.end.min(limit) / PAGE_SIZE * PAGE_SIZE)
        .filter(|r| r.start < r.end)
}

/// Finds the lowest address for `size` bytes in `ram` that overlap no reserved range.
fn find_hole(ram: Range<usize>, reserved: &[Range<usize>], size: usize) -> Option<usize> {
    let mut start = ram.start;
    while start.checked_add(size)? <= ram.end {
        match reserved
            .iter()
            .filter(|r| r.start < start + size && start < r.end)
            .map(|r| r.end)
            .max()
        {
            Some(end) => start = end.next_multiple_of(PAGE_SIZE),
            None => return Some(start),
        }
    }
    None
}
