//! As many mappings as a program may have: each change, look-up and copy takes no longer than with
//! few.

use std::fs;
use std::ptr;

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, PROT_NONE, PROT_READ,
};

use super::become_user;
use crate::{in_child, tell};

const PAGE: usize = 4096;
/// The size of the mapping in pages. It is cut into two areas for every two pages, fewer than the
/// limit.
const PAGES: usize = 60_000;

/// Runs this part.
pub fn run() {
    in_child(|| {
        become_user();
        // SAFETY: pages of this function's own mapping.
        unsafe {
            let start = map(ptr::null_mut(), PAGES, 0);
            tell("areas", areas(start));
            tell(
                "cut",
                each_second(start, |page| protect(page, 1, PROT_READ)),
            );
            tell("areas", areas(start));
            tell("holes", each_second(start, |page| libc::munmap(page, PAGE)));
            tell("areas", areas(start));
            tell(
                "refill",
                each_second(start, |page| i32::from(map(page, 1, MAP_FIXED) != page)),
            );
            tell("areas", areas(start));
            in_child(|| tell("areas of a child", areas(start)));
            tell("unlock all", libc::munlockall());
            tell(
                "cut",
                each_second(start, |page| protect(page, 1, PROT_READ)),
            );
            tell("one", protect(start, PAGES, PROT_READ));
            tell("areas", areas(start));
            tell("none", libc::munmap(start, PAGES * PAGE));
        }
    });
}

unsafe fn map(at: *mut libc::c_void, pages: usize, flags: i32) -> *mut libc::c_void {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags;
    let at = unsafe { libc::mmap(at, pages * PAGE, PROT_NONE, flags, -1, 0) };
    assert!(at != MAP_FAILED);
    at
}

unsafe fn protect(at: *mut libc::c_void, pages: usize, rights: i32) -> i32 {
    unsafe { libc::mprotect(at, pages * PAGE, rights) }
}

/// How many calls for every second page fail. Works from both ends, to cover both orders.
fn each_second(start: *mut libc::c_void, call: impl Fn(*mut libc::c_void) -> i32) -> i32 {
    let pages = (1..PAGES / 2).map(|index| index * 2);
    let order = pages
        .clone()
        .take(PAGES / 4)
        .chain(pages.skip(PAGES / 4).rev());
    let failed = order.filter(|page| call(start.wrapping_byte_add(page * PAGE)) != 0);
    failed.count() as i32
}

/// The number of areas that the mapping has in `/proc/self/maps`.
fn areas(start: *mut libc::c_void) -> i32 {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let first = |line: &str| usize::from_str_radix(line.split('-').next()?, 16).ok();
    let range = start.addr()..start.addr() + PAGES * PAGE;
    let inside = maps
        .lines()
        .filter_map(first)
        .filter(|at| range.contains(at));
    inside.count() as i32
}
