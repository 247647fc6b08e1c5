//! Page age: the pages that `Referenced` of smaps counts, and the effect of clear_refs on them.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;

use libc::{MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE, c_int};

use crate::{smaps, tell_ok, touch};

const PAGE: usize = 4096;
const PAGES: usize = 64;
const BOTH: c_int = PROT_READ | PROT_WRITE;

fn clear(what: &str) {
    let written = std::fs::write("/proc/self/clear_refs", what);
    tell_ok(&format!("clear_refs {what:?}"), written.is_ok());
}

/// Flushes a mapping from TLBs, so that the next accesses are noticed: clear_refs does not do so.
fn forget(start: *mut u8) {
    // SAFETY: the mapping is this part's own.
    unsafe {
        libc::mprotect(start.cast(), PAGES * PAGE, PROT_READ);
        libc::mprotect(start.cast(), PAGES * PAGE, BOTH);
    }
}

/// A mapping between two inaccessible pages, so that it merges with no other.
fn map(flags: c_int, file: c_int) -> *mut u8 {
    // SAFETY: a new mapping touches no memory in use; the next one lies inside it, and may be
    // accessed.
    unsafe {
        let (room, none) = ((PAGES + 2) * PAGE, libc::PROT_NONE);
        let outer = libc::mmap(
            ptr::null_mut(),
            room,
            none,
            MAP_PRIVATE | MAP_ANONYMOUS,
            -1,
            0,
        );
        let (inner, flags) = (outer.add(PAGE), flags | libc::MAP_FIXED);
        let start: *mut u8 = libc::mmap(inner, PAGES * PAGE, BOTH, flags, file, 0).cast();
        // Takes one fault for each page: fault-around may map old pages, depending on the CPU.
        (0..PAGES).for_each(|page| start.add(page * PAGE).write_volatile(1));
        start
    }
}

fn use_pages(start: *mut u8, pages: usize, write: bool) {
    for page in 0..pages {
        // SAFETY: the address is in the mapping.
        unsafe {
            let at = start.add(page * PAGE);
            if write {
                at.write_volatile(2);
            } else {
                touch(at);
            }
        }
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: the descriptor is new.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"age".as_ptr(), 0)) };
    tell_ok("a file", file.set_len((PAGES * PAGE) as u64).is_ok());
    let private = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    let shared = map(MAP_SHARED, file.as_raw_fd());
    let tell = |what: &str| {
        let [private, shared] = [private, shared].map(|start| smaps(start, "Referenced:"));
        println!("{what}: private {private}, of a file {shared}");
    };
    tell("written");
    for (kind, reads, writes) in [("1", 16, 8), ("2", 4, 2), ("3", 32, 1)] {
        clear(kind);
        tell("cleared");
        for start in [private, shared] {
            forget(start);
            use_pages(start, reads, false);
        }
        tell("read");
        for start in [private, shared] {
            forget(start);
            use_pages(start, writes, true);
        }
        tell("written");
    }
    for what in ["4", "5", "1\n", "0", "6", "x"] {
        clear(what);
    }
}
