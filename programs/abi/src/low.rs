//! The lowest addresses, which only privileged programs may map.

use std::{fs, ptr};

use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_PRIVATE, MREMAP_FIXED, MREMAP_MAYMOVE};
use libc::{PROT_READ, PROT_WRITE, c_int, c_void};

use crate::{in_child, tell_end, tell_ok};

/// The lowest address that unprivileged programs may map.
const LEAST: &str = "/proc/sys/vm/mmap_min_addr";
const PAGE: usize = 4096;
const USER: u32 = 1000;
const LOW: [usize; 6] = [0, 0x1000, 0x7000, 0x8000, 0xf000, 0x10000];

/// Runs this part.
pub fn run() {
    let before = fs::read_to_string(LEAST).unwrap_or_default();
    everybody();
    println!("higher: {:?}", fs::write(LEAST, "69632").is_ok());
    everybody();
    println!("restored: {:?}", fs::write(LEAST, before.trim()).is_ok());
    tell_end("root's page 0", in_child(page_zero));
    let user = in_child(|| {
        // SAFETY: the call accesses no memory.
        unsafe { libc::setresuid(USER, USER, USER) };
        page_zero();
    });
    tell_end("user's page 0", user);
}

/// The low addresses that root may map, and those that a user may.
fn everybody() {
    let least = fs::read_to_string(LEAST).unwrap_or_default();
    println!("least: {}", least.trim());
    tell_end("root", in_child(places));
    let user = in_child(|| {
        // SAFETY: the call accesses no memory.
        unsafe { libc::setresuid(USER, USER, USER) };
        places();
    });
    tell_end("user", user);
}

/// Executes a program with MMAP_PAGE_ZERO.
fn page_zero() {
    const MMAP_PAGE_ZERO: libc::c_ulong = 0x10_0000;
    let words = [c"abi".as_ptr(), c"low".as_ptr(), c"0".as_ptr(), ptr::null()];
    // SAFETY: both arrays end with a null pointer.
    unsafe {
        libc::personality(MMAP_PAGE_ZERO);
        libc::execve(c"/proc/self/exe".as_ptr(), words.as_ptr(), &ptr::null());
    }
}

/// The executed program: prints what it has at address 0.
pub fn after_exec() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let first = maps.lines().next().unwrap_or_default();
    println!(
        "page 0: {}",
        if first.starts_with("00000000-") {
            first
        } else {
            "none"
        }
    );
}

fn map(at: usize, flags: c_int) -> *mut c_void {
    let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags);
    // SAFETY: no part of the program is at such a low address.
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
