//! Where a program's parts begin: at random, unless the kernel runs with `norandmaps`, or the
//! program or `/proc/sys/kernel/randomize_va_space` does not want it. `end` is everywhere the first
//! address above the program's.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::PAGE_SIZE;
use crate::arch::MAP_WINDOW;
use crate::{params, random};

/// Kept free between the stack's greatest extent and mappings, in bytes.
pub const MMAP_GAP: usize = 1 << 20;

/// Over how many bytes parts begin.
struct Spread {
    /// The stack, below the end.
    stack: usize,
    /// Mappings.
    mmap: usize,
    /// The heap.
    heap: usize,
}

/// 28 bits of pages for mappings, as far as the addresses allow.
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

/// What begins at random: nothing, all but the heap, or all.
pub static LEVEL: AtomicUsize = AtomicUsize::new(HEAP);
/// Stack, mappings and programs that may lie anywhere.
const MAPPINGS: usize = 1;
/// The heap too.
const HEAP: usize = 2;

/// Settles whether the kernel runs with `norandmaps`.
pub(super) fn init() {
    if params::get("norandmaps").is_some() {
        LEVEL.store(0, Relaxed);
    }
}

/// A multiple of the page size below `spread`; 0 where nothing of this `level` begins at random, or
/// the program wants none.
fn offset(spread: usize, level: usize, random: bool) -> usize {
    if !random || LEVEL.load(Relaxed) < level {
        0
    } else {
        (random::u64() as usize % spread) & !(PAGE_SIZE - 1)
    }
}

/// The main stack's top: in a space of 32 bits below what an architecture may keep there, as Arm
/// does its vectors.
pub fn stack_top(end: usize, random: bool) -> usize {
    let highest = if end >> 32 == 0 {
        end & !0xffff
    } else {
        end.min(MAP_WINDOW) - PAGE_SIZE
    };
    highest - offset(spread(end).stack, MAPPINGS, random)
}

/// How far below the stack's room mappings begin.
pub fn mmap_offset(end: usize, random: bool) -> usize {
    offset(spread(end).mmap, MAPPINGS, random)
}

/// From where mappings begin that go upwards.
pub fn mmap_bottom(end: usize, random: bool) -> usize {
    ((end.min(MAP_WINDOW) / 4) & !(PAGE_SIZE - 1)) + mmap_offset(end, random)
}

/// Above what nothing is mapped by choice, in a space without a main stack.
pub fn mmap_top(end: usize) -> usize {
    end.min(MAP_WINDOW) - spread(end).stack - MMAP_GAP
}

/// How far above the program's data the heap begins.
pub fn heap_offset(end: usize, random: bool) -> usize {
    offset(spread(end).heap, HEAP, random)
}

/// Where to load a program that runs anywhere.
pub fn program_start(end: usize, random: bool) -> usize {
    ((end.min(MAP_WINDOW) / 3 * 2) & !(PAGE_SIZE - 1)) + mmap_offset(end, random)
}
