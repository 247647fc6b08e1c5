//! The gap of 256 pages below a stack, and the mappings that it keeps out.

use std::ptr;

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED_NOREPLACE, MAP_GROWSDOWN, MAP_PRIVATE, PROT_NONE,
    PROT_READ, PROT_WRITE, c_int,
};

use crate::{in_child, tell_end, tell_ok};

const PAGE: usize = 4096;
const BOTH: c_int = PROT_READ | PROT_WRITE;
/// The size of the free range in pages, and the offset of the stack in it.
const FREE: usize = 2048;
const STACK: usize = 1024;
const GAP: usize = 256;

/// Runs this part.
pub fn run() {
    let none = map(ptr::null_mut(), FREE, PROT_NONE, 0);
    // SAFETY: it was just mapped. The children map there, and nothing else does.
    unsafe { libc::munmap(none.cast(), FREE * PAGE) };
    let place = |pages: usize| none.wrapping_add(pages * PAGE);
    let stack = || assert!(fixed(place(STACK), BOTH, MAP_GROWSDOWN));
    let grow = || fill(place(STACK - 1));
    let beside = |what: &str, work: &dyn Fn()| {
        let both = || {
            stack();
            work();
        };
        tell_end(what, in_child(both));
    };
    let told = |what, ok| tell_ok(what, ok);
    beside("hints", &|| {
        let hint = |at: *mut u8| map(at, 1, BOTH, 0) == at;
        println!("above: {}", hint(place(STACK + 1)));
        println!("just below: {}", hint(place(STACK - 1)));
        println!("in the gap: {}", hint(place(STACK - GAP)));
        println!("below the gap: {}", hint(place(STACK - GAP - 1)));
        let odd = place(STACK / 2).wrapping_add(0x234);
        println!("odd: {}", map(odd, 1, BOTH, 0) == place(STACK / 2));
    });
    beside("growing", &grow);
    beside("to a neighbour", &|| {
        told("fixed", fixed(place(STACK - GAP - 2), BOTH, 0));
        grow();
        println!("with the gap between");
        fill(place(STACK - 2));
    });
    beside("above one that allows nothing", &|| {
        told("fixed", fixed(place(STACK - 2), PROT_NONE, 0));
        grow();
    });
    beside("above one that may be read", &|| {
        told("fixed", fixed(place(STACK - 2), PROT_READ, 0));
        grow();
    });
    beside("above a stack", &|| {
        told("fixed", fixed(place(STACK - 2), BOTH, MAP_GROWSDOWN));
        grow();
    });
    beside("mremap into the gap", &|| {
        let at = place(STACK - 300);
        told("fixed", fixed(at, BOTH, 0));
        // SAFETY: it was just mapped.
        let grown = unsafe { libc::mremap(at.cast(), PAGE, 200 * PAGE, 0) };
        tell_ok("in place", grown != MAP_FAILED);
    });
    tell_end("brk below a stack", in_child(|| heap(MAP_GROWSDOWN, GAP)));
    tell_end("brk below a mapping", in_child(|| heap(0, 0)));
}

/// Grows the heap towards a mapping above it, and prints how far the gap allows that.
fn heap(flags: c_int, gap: usize) {
    // SAFETY: the heap only grows.
    let moved = |at: *mut u8| unsafe { libc::syscall(libc::SYS_brk, at) } as usize;
    let brk = |at: *mut u8| moved(at) == at.addr();
    let end = ptr::with_exposed_provenance_mut::<u8>(moved(ptr::null_mut()));
    let end = end.wrapping_add(end.align_offset(PAGE));
    let pages = |pages: usize| end.wrapping_add(pages * PAGE);
    println!("mapped: {}", fixed(pages(1024), BOTH, flags));
    let last = 1024 - gap;
    println!("to it: {}", brk(pages(last)));
    println!("a page before: {}", brk(pages(last - 1)));
    println!("a byte more: {}", brk(pages(last - 1).wrapping_add(1)));
}

fn map(at: *mut u8, pages: usize, rights: c_int, flags: c_int) -> *mut u8 {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | flags;
    // SAFETY: no mapping is replaced.
    unsafe { libc::mmap(at.cast(), pages * PAGE, rights, flags, -1, 0).cast() }
}

/// Maps a page at a free address.
fn fixed(at: *mut u8, rights: c_int, flags: c_int) -> bool {
    map(at, 1, rights, flags | MAP_FIXED_NOREPLACE) == at
}

fn fill(page: *mut u8) {
    // SAFETY: a page of a stack, or the child ends with a signal.
    unsafe { page.write_volatile(1) };
}
