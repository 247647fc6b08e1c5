//! The lowest addresses, which not everybody may map.

use std::{fs, ptr};

use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_PRIVATE, MREMAP_FIXED, MREMAP_MAYMOVE};
use libc::{PROT_READ, PROT_WRITE, c_int, c_void};

use crate::{in_child, tell_end, tell_ok};

const PAGE: usize = 4096;
const USER: u32 = 1000;
const LOW: [usize; 6] = [0, 0x1000, 0x7000, 0x8000, 0xf000, 0x10000];

/// Runs this part.
pub fn run() {
    let least = fs::read_to_string("/proc/sys/vm/mmap_min_addr");
    println!("least: {}", least.unwrap_or_default().trim());
    tell_end("root", in_child(places));
    let user = in_child(|| {
        // SAFETY: touches no memory.
        unsafe { libc::setresuid(USER, USER, USER) };
        places();
    });
    tell_end("user", user);
}

fn map(at: usize, flags: c_int) -> *mut c_void {
    let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags);
    // SAFETY: nothing of the program is so low.
    let at = unsafe { libc::syscall(libc::SYS_mmap, at, PAGE, rights, flags, -1, 0) };
    ptr::with_exposed_provenance_mut(at as usize)
}

fn places() {
    for at in LOW {
        tell_ok(&format!("at {at:#x}"), map(at, MAP_FIXED) != MAP_FAILED);
    }
    for at in LOW {
        let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
        // SAFETY: as above.
        let moved = unsafe { libc::syscall(libc::SYS_mremap, map(0, 0), PAGE, PAGE, flags, at) };
        tell_ok(&format!("moved to {at:#x}"), moved != -1);
    }
    for at in [0x1000, 0x8000] {
        let hinted = map(at, 0) as usize;
        println!(
            "hint {at:#x}: at it {}, low {}",
            hinted == at,
            hinted <= 0x11000
        );
    }
}
