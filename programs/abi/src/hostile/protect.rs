//! A large mprotect beside another thread that moves or copies the pages: reads succeed exactly
//! where `/proc/self/maps` allows them.

use std::fs;
use std::thread;

use libc::{
    MADV_NOHUGEPAGE, MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, MREMAP_MAYMOVE,
    O_NONBLOCK, PROT_NONE, PROT_READ, PROT_WRITE, c_void,
};

use super::become_user;
use crate::{in_child, tell_ok};

const PAGE: usize = 4096;
/// The bytes that one last-level table maps.
const TABLE: usize = 2 << 20;
const LEN: usize = 1 << 30;
const ROUNDS: usize = 8;

/// Runs this part.
pub fn run() {
    in_child(|| {
        become_user();
        tell_ok("moved meanwhile", rounds(moved));
        tell_ok("copied meanwhile", rounds(copied));
        tell_ok("read meanwhile", read_when_allowed());
    });
}

fn rounds(agrees: fn(&Probe, *mut c_void) -> bool) -> bool {
    let probe = Probe::new();
    (0..ROUNDS).filter(|_| !round(&probe, agrees)).count() == 0
}

/// A mapping with one written page in each table.
fn pages() -> *mut c_void {
    // SAFETY: this function's own mapping; the writes are inside it.
    unsafe {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        let rights = PROT_READ | PROT_WRITE;
        let start = libc::mmap(std::ptr::null_mut(), LEN, rights, flags, -1, 0);
        assert!(start != MAP_FAILED);
        libc::madvise(start, LEN, MADV_NOHUGEPAGE);
        for offset in (0..LEN).step_by(TABLE) {
            start.wrapping_byte_add(offset).cast::<u8>().write(1);
        }
        start
    }
}

/// The kernel can read the last page of another thread's mprotect once that has changed it.
fn read_when_allowed() -> bool {
    let probe = Probe::new();
    for _ in 0..ROUNDS {
        let start = pages();
        let address = start.expose_provenance();
        let last = start.wrapping_byte_add(LEN - TABLE);
        // SAFETY: only system calls access the pages.
        unsafe { libc::mprotect(start, LEN, PROT_NONE) };
        thread::scope(|scope| {
            scope.spawn(move || {
                let start = std::ptr::with_exposed_provenance_mut(address);
                // SAFETY: as above.
                unsafe { libc::mprotect(start, LEN, PROT_READ) }
            });
            while !probe.can_read(last) {}
        });
        // SAFETY: as above.
        unsafe { libc::munmap(start, LEN) };
    }
    true
}

/// A thread revokes all rights, of one page in each table; when the first page cannot be read,
/// `agrees` checks the last.
fn round(probe: &Probe, agrees: fn(&Probe, *mut c_void) -> bool) -> bool {
    let start = pages();
    let last = start.wrapping_byte_add(LEN - TABLE);
    let done = thread::scope(|scope| {
        let address = start.expose_provenance();
        scope.spawn(move || {
            let start = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: only system calls access the pages.
            unsafe { libc::mprotect(start, LEN, PROT_NONE) }
        });
        while probe.can_read(start) {}
        agrees(probe, last)
    });
    // SAFETY: as above.
    unsafe { libc::munmap(start, LEN) };
    done
}

fn moved(probe: &Probe, page: *mut c_void) -> bool {
    // SAFETY: only system calls access the pages.
    let target = unsafe { libc::mremap(page, PAGE, TABLE, MREMAP_MAYMOVE) };
    let done = target != MAP_FAILED && probe.can_read(target) == may_read(target);
    // SAFETY: as above.
    unsafe { libc::munmap(target, TABLE) };
    done
}

fn copied(probe: &Probe, page: *mut c_void) -> bool {
    // SAFETY: the child only makes system calls, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(i32::from(probe.can_read(page) != may_read(page)));
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0);
        status == 0
    }
}

/// Whether the area at an address is readable by `/proc/self/maps`.
fn may_read(at: *mut c_void) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let Some((range, rest)) = line.split_once(' ') else {
            return false;
        };
        let bound = |text: &str| usize::from_str_radix(text, 16).unwrap_or(0);
        let holds = range
            .split_once('-')
            .is_some_and(|(start, end)| (bound(start)..bound(end)).contains(&at.addr()));
        holds && rest.starts_with('r')
    })
}

/// A pipe into which the kernel copies a byte if it can be read.
struct Probe([i32; 2]);

impl Probe {
    fn new() -> Self {
        let mut ends = [-1; 2];
        // SAFETY: the array has room for two descriptors.
        unsafe { libc::pipe2(ends.as_mut_ptr(), O_NONBLOCK) };
        Probe(ends)
    }

    fn can_read(&self, at: *mut c_void) -> bool {
        let mut byte = 0u8;
        // SAFETY: the kernel checks the address; there is room for the byte.
        unsafe {
            libc::write(self.0[1], at, 1) == 1
                && libc::read(self.0[0], (&raw mut byte).cast(), 1) == 1
        }
    }
}
