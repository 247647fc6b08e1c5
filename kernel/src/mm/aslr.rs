//! Where a program's parts begin: at random, unless the kernel runs with `norandmaps`.

use super::PAGE_SIZE;
use crate::arch::USER_END;
use crate::{params, random};

/// Kept free between the stack's greatest extent and mappings, in bytes.
pub const MMAP_GAP: usize = 1 << 20;

/// Bytes below the end of user addresses where the stack may begin.
const STACK_SPREAD: usize = 16 << 30;
/// Bytes over which mappings begin: 28 bits of pages, as far as the addresses allow.
const MMAP_SPREAD: usize = if USER_END >> 46 != 0 {
    PAGE_SIZE << 28
} else {
    PAGE_SIZE << 18
};
/// Bytes over which the heap begins.
const HEAP_SPREAD: usize = 1 << 30;
/// Where programs without a fixed address begin.
const PROGRAM_START: usize = (USER_END / 3 * 2) & !(PAGE_SIZE - 1);

/// A multiple of the page size below `spread`, 0 with `norandmaps`.
fn offset(spread: usize) -> usize {
    if params::get("norandmaps").is_some() {
        0
    } else {
        (random::u64() as usize % spread) & !(PAGE_SIZE - 1)
    }
}

/// The main stack's top.
pub fn stack_top() -> usize {
    USER_END - PAGE_SIZE - offset(STACK_SPREAD)
}

/// How far below the stack's room mappings begin.
pub fn mmap_offset() -> usize {
    offset(MMAP_SPREAD)
}

/// Above what nothing is mapped by choice, in a space without a main stack.
pub fn mmap_top() -> usize {
    USER_END - STACK_SPREAD - MMAP_GAP
}

/// How far above the program's data the heap begins.
pub fn heap_offset() -> usize {
    offset(HEAP_SPREAD)
}

/// Where to load a program that runs anywhere.
pub fn program_start() -> usize {
    PROGRAM_START + offset(MMAP_SPREAD)
}
