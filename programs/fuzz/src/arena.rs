//! The memory that random calls are given: always at the same address, with structures of every
//! kind that a call may read, strings, and what surrounds them.

use random::Random;

use crate::blob::{self, Blob};

/// Where it begins.
pub const BASE: usize = 0x2000_0000;
/// The size of a slot, which holds a structure.
pub const SLOT: usize = 256;
/// Slots for each kind of structure.
const EACH: usize = 4;
const PAGE: usize = 4096;

/// Memory that calls write to, after the structures.
const OUTPUT: usize = BASE + 0x1_0000;
const OUTPUT_LEN: usize = 4 * PAGE;
/// A page without access, then the strings, read-only, then a page of a file.
const GUARD: usize = OUTPUT + OUTPUT_LEN;
const STRINGS: usize = GUARD + PAGE;
const FILE: usize = STRINGS + 4 * PAGE;
const END: usize = FILE + 2 * PAGE;

/// Paths and other strings. `f0` to `f3` are files, `d0` and `d1` folders, `l0` to `l2` symbolic
/// links to a file, a folder and itself, `fifo` a FIFO.
const NAMES: &[&str] = &[
    "f0",
    "f1",
    "f2",
    "f3",
    "d0",
    "d1",
    "d0/f0",
    "d0/new",
    "d0/..",
    "d1/d2",
    "l0",
    "l1",
    "l1/f0",
    "l2",
    "fifo",
    "new",
    "new2",
    "none/new",
    "f0/x",
    "f0/",
    "d0/",
    "",
    ".",
    "..",
    "/",
    "//d0",
    "/dev/null",
    "user.a",
    "user.b",
    "trusted.a",
    "security.a",
    "system.posix_acl_access",
    "nothing",
    "user",
    "keyring",
    "/q0",
    "q1",
];

/// Maps the memory and fills it with structures; `port` is a port for socket addresses.
pub fn map(random: &mut Random, port: u16) {
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let readable = libc::PROT_READ | libc::PROT_WRITE;
    map_at(BASE, END - BASE, readable, anonymous, -1);
    for kind in 0..Blob::ALL.len() * EACH {
        let at = BASE + kind * SLOT;
        // SAFETY: the slot is inside the mapping, and nothing else refers to it.
        let slot = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, SLOT) };
        blob::fill(Blob::ALL[kind / EACH], slot, random, port);
    }
    let mut at = STRINGS;
    for name in names() {
        // SAFETY: inside the mapping, as `strings_fit` says.
        let place = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, name.len() + 1) };
        place[..name.len()].copy_from_slice(name.as_bytes());
        at += name.len() + 1;
    }
    assert!(at <= FILE, "the strings fit");
    protect(GUARD, PAGE, libc::PROT_NONE);
    protect(STRINGS, FILE - STRINGS, libc::PROT_READ);
}

/// Maps two pages of a file, of which it may have fewer.
pub fn map_file(fd: i32) {
    let readable = libc::PROT_READ | libc::PROT_WRITE;
    map_at(
        FILE,
        2 * PAGE,
        readable,
        libc::MAP_SHARED | libc::MAP_FIXED,
        fd,
    );
}

/// An anonymous mapping at an address, or of a file.
pub fn map_at(at: usize, len: usize, access: i32, flags: i32, fd: i32) {
    // SAFETY: nothing of the program's own is at these addresses.
    let mapped = unsafe { libc::mmap(at as *mut _, len, access, flags, fd, 0) };
    assert_eq!(mapped as usize, at, "mmap");
}

fn protect(at: usize, len: usize, access: i32) {
    // SAFETY: a mapping of this module.
    assert_eq!(unsafe { libc::mprotect(at as *mut _, len, access) }, 0);
}

/// All strings, with a name that is as long as one may be, one that is longer, and a path that is.
fn names() -> impl Iterator<Item = String> {
    let long = ["n".repeat(255), "n".repeat(256), "./".repeat(2050)];
    NAMES.iter().map(|name| name.to_string()).chain(long)
}

/// The address of a string.
pub fn string(random: &mut Random) -> usize {
    let all: Vec<String> = names().collect();
    let chosen = match random.once_in(12) {
        true => random.below(all.len() as u64) as usize,
        false => random.below(NAMES.len() as u64) as usize,
    };
    STRINGS
        + all[..chosen]
            .iter()
            .map(|name| name.len() + 1)
            .sum::<usize>()
}

/// The string at an address, if one begins there.
pub fn string_at(at: usize) -> Option<String> {
    let mut from = STRINGS;
    names().find(|name| {
        let found = from == at;
        from += name.len() + 1;
        found
    })
}

/// The address of a structure of this kind.
pub fn structure(kind: Blob, random: &mut Random) -> usize {
    let index = Blob::ALL.iter().position(|one| *one == kind);
    let first = index.expect("a kind of structure") * EACH;
    BASE + (first + random.below(EACH as u64) as usize) * SLOT
}

/// The kind of the structure at an address.
pub fn structure_at(at: usize) -> Option<Blob> {
    let slot = at.checked_sub(BASE)? / SLOT;
    Blob::ALL.get(slot / EACH).copied()
}

/// An address for output.
pub fn output(random: &mut Random) -> usize {
    OUTPUT + random.below(64) as usize * SLOT
}

/// The start of a page, for calls that change mappings.
pub fn page(random: &mut Random) -> usize {
    OUTPUT + random.below(((END - OUTPUT) / PAGE) as u64) as usize * PAGE
}

/// An address that is none, or at an edge.
pub fn odd(random: &mut Random) -> usize {
    let edges = [
        0,
        1,
        PAGE,
        GUARD - 4,
        GUARD,
        STRINGS,
        FILE,
        FILE + PAGE,
        END - 8,
        END,
        BASE + 1,
        1 << 38,
        1 << 47,
        1 << 63,
        usize::MAX - 7,
        usize::MAX,
    ];
    random.one_of(&edges)
}
