//! The addresses at which a program's parts begin: random, unless the kernel runs with
//! `norandmaps`, or the program or `/proc/sys/kernel/randomize_va_space` disables it. `end` is
//! always the end of the program's addresses.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::PAGE_SIZE;
use crate::arch::MAP_WINDOW;
use crate::{params, random};

/// Bytes kept free between the stack's greatest extent and mappings.
pub const MMAP_GAP: usize = 1 << 20;

/// The number of bytes over which the start of each part is spread.
struct Spread {
    /// The stack, below the end.
    stack: usize,
    /// Mappings.
    mmap: usize,
    /// The heap.
    heap: usize,
}

/// 28 bits of pages for mappings, if the address space is large enough.
const fn spread(end: usize) -> Spread {
    if end >> 46 != 0 {
        Spread {
            stack: 16 << 30,
            mmap: PAGE_SIZE << 28,
            heap: 1 << 30,
        }
    } else if end >> 32 != 0 {
        Spread {
            stack: 16 << 30,
            mmap: PAGE_SIZE << 18,
            heap: 1 << 30,
        }
    } else {
        Spread {
            stack: 8 << 20,
            mmap: PAGE_SIZE << 11,
            heap: 32 << 20,
        }
    }
}

/// The parts that begin at random: none, all but the heap, or all.
pub static LEVEL: AtomicUsize = AtomicUsize::new(HEAP);
/// Stack, mappings and position-independent programs.
const MAPPINGS: usize = 1;
/// The heap, too.
const HEAP: usize = 2;

/// Checks whether the kernel runs with `norandmaps`.
pub(super) fn init() {
    if params::get("norandmaps").is_some() {
        LEVEL.store(0, Relaxed);
    }
}

/// Returns a random multiple of the page size below `spread`; 0 if nothing of this `level` is
/// randomized, or the program does not want it.
fn offset(spread: usize, level: usize, random: bool) -> usize {
    if !random || LEVEL.load(Relaxed) < level {
        0
    } else {
        (random::u64() as usize % spread) & !(PAGE_SIZE - 1)
    }
}

/// Returns the top of the main stack. In a 32-bit space it lies below the pages that an
/// architecture may reserve there, as Arm does for its vectors.
pub fn stack_top(end: usize, random: bool) -> usize {
    let highest = if end >> 32 == 0 {
        end & !0xffff
    } else {
        end.min(MAP_WINDOW) - PAGE_SIZE
    };
    highest - offset(spread(end).stack, MAPPINGS, random)
}

/// Returns the distance between the stack's room and the mappings below it.
pub fn mmap_offset(end: usize, random: bool) -> usize {
    offset(spread(end).mmap, MAPPINGS, random)
}

/// Returns the address at which bottom-up mappings begin.
pub fn mmap_bottom(end: usize, random: bool) -> usize {
    ((end.min(MAP_WINDOW) / 4) & !(PAGE_SIZE - 1)) + mmap_offset(end, random)
}

/// Returns the address above which the kernel places no mappings, in a space without a main stack.
pub fn mmap_top(end: usize) -> usize {
    end.min(MAP_WINDOW) - spread(end).stack - MMAP_GAP
}

/// Returns the distance between the program's data and the heap.
pub fn heap_offset(end: usize, random: bool) -> usize {
    offset(spread(end).heap, HEAP, random)
}

/// Returns the load address of a position-independent program.
pub fn program_start(end: usize, random: bool) -> usize {
    ((end.min(MAP_WINDOW) / 3 * 2) & !(PAGE_SIZE - 1)) + mmap_offset(end, random)
}
