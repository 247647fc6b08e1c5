//! Memory that is reserved but not accessed: how much counts as committed (overcommit).

use std::{fs, ptr};

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, MAP_SHARED, PROT_NONE, PROT_READ,
    PROT_WRITE, c_void,
};

use crate::{tell, tell_ok};

const MIB: usize = 1 << 20;
const BOTH: i32 = PROT_READ | PROT_WRITE;

/// Runs this part.
pub fn run() {
    for mode in ["3", "-1", "1", "0"] {
        set("memory", mode);
    }
    let all = kbytes("MemTotal:") * 1024 + MIB;
    // SAFETY: only new mappings, which are not accessed.
    unsafe {
        requests(all);
        set("memory", "1");
        requests(all);
        limits();
        set("memory", "2");
        strict();
    }
    set("memory", "0");
    set("ratio", "50");
}

fn set(what: &str, value: &str) {
    let done = fs::write(format!("/proc/sys/vm/overcommit_{what}"), value);
    tell_ok(&format!("{what} {value}"), done.is_ok());
}

fn show(what: &str) {
    let value = fs::read_to_string(format!("/proc/sys/vm/overcommit_{what}")).unwrap_or_default();
    println!("{what}: {}", value.trim());
}

/// A line of /proc/meminfo.
fn kbytes(name: &str) -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

unsafe fn map(len: usize, rights: i32, flags: i32) -> *mut c_void {
    unsafe { libc::mmap(ptr::null_mut(), len, rights, flags | MAP_ANONYMOUS, -1, 0) }
}

/// Maps, prints whether that succeeded, and unmaps.
unsafe fn try_map(what: &str, len: usize, rights: i32, flags: i32) {
    unsafe {
        let at = map(len, rights, flags);
        tell_ok(what, at != MAP_FAILED);
        libc::munmap(at, len);
    }
}

unsafe fn requests(len: usize) {
    unsafe {
        try_map("private", len, BOTH, MAP_PRIVATE);
        try_map("two halves", (len / 2) & !0xfff, BOTH, MAP_PRIVATE);
        try_map("to be read", len, PROT_READ, MAP_PRIVATE);
        try_map("unreserved", len, BOTH, MAP_PRIVATE | MAP_NORESERVE);
        try_map("shared", len, BOTH, MAP_SHARED);
        try_map("shared, unreserved", len, BOTH, MAP_SHARED | MAP_NORESERVE);
        let at = map(len, PROT_NONE, MAP_PRIVATE);
        tell("to be written", libc::mprotect(at, len, BOTH));
        libc::munmap(at, len);
        let at = map(MIB, BOTH, MAP_PRIVATE);
        let moved = libc::mremap(at, MIB, len, libc::MREMAP_MAYMOVE);
        tell_ok("larger", moved != MAP_FAILED);
        match moved {
            MAP_FAILED => libc::munmap(at, MIB),
            moved => libc::munmap(moved, len),
        };
        let segment = libc::shmget(libc::IPC_PRIVATE, len, 0o600);
        tell_ok("segment", segment >= 0);
        libc::shmctl(segment, libc::IPC_RMID, ptr::null_mut());
    }
}

/// The limit is set as a ratio or in kilobytes.
fn limits() {
    let total = kbytes("MemTotal:");
    let near = |limit: usize| kbytes("CommitLimit:").abs_diff(limit) < 16;
    for ratio in ["25", "120"] {
        set("ratio", ratio);
        let ratio: usize = ratio.parse().unwrap_or(0);
        tell_ok(
            "limit",
            near(total / 100 * ratio) || near(total * ratio / 100),
        );
    }
    set("kbytes", "40000");
    show("ratio");
    tell_ok("limit", near(40_000));
    set("ratio", "60");
    show("kbytes");
}

/// Uses the limit of a machine that has committed all but 64 MiB.
unsafe fn strict() {
    let before = kbytes("Committed_AS:");
    set_quietly(before + (64 << 10));
    let counts = |what, mib: usize| {
        let now = kbytes("Committed_AS:").saturating_sub(before) / 1024;
        tell_ok(what, now.abs_diff(mib) < 8);
    };
    unsafe {
        try_map("too much", 128 * MIB, BOTH, MAP_PRIVATE);
        try_map("unreserved", 128 * MIB, BOTH, MAP_PRIVATE | MAP_NORESERVE);
        try_map("shared", 128 * MIB, BOTH, MAP_SHARED);
        try_map("to be read", 128 * MIB, PROT_READ, MAP_PRIVATE);
        let at = map(40 * MIB, BOTH, MAP_PRIVATE);
        tell_ok("enough", at != MAP_FAILED);
        counts("counted", 40);
        try_map("no more", 40 * MIB, BOTH, MAP_PRIVATE);
        tell("fork", fork());
        tell("half", libc::munmap(at, 20 * MIB));
        counts("counted", 20);
        let rest = at.byte_add(20 * MIB);
        tell("to be read", libc::mprotect(rest, 10 * MIB, PROT_READ));
        tell("written again", libc::mprotect(rest, 10 * MIB, BOTH));
        counts("counted", 20);
        tell("fork", fork());
        counts("counted", 20);
        let shared = map(20 * MIB, BOTH, MAP_SHARED);
        counts("with shared memory", 40);
        let larger = libc::mremap(rest, 20 * MIB, 60 * MIB, libc::MREMAP_MAYMOVE);
        tell_ok("larger", larger != MAP_FAILED);
        libc::munmap(shared, 20 * MIB);
        let larger = libc::mremap(rest, 20 * MIB, 40 * MIB, libc::MREMAP_MAYMOVE);
        tell_ok("larger", larger != MAP_FAILED);
        counts("counted", 40);
        libc::munmap(larger, 40 * MIB);
        counts("nothing", 0);
    }
}

fn set_quietly(kbytes: usize) {
    let done = fs::write("/proc/sys/vm/overcommit_kbytes", kbytes.to_string());
    tell_ok("a limit", done.is_ok());
}

/// Returns 0 if a child, which exits at once, could be created.
unsafe fn fork() -> i32 {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        if child > 0 {
            libc::waitpid(child, ptr::null_mut(), 0);
        }
        child.min(0)
    }
}
