//! Protections that memory may get: files on mounts with noexec, stacks, locked memory.

use std::ffi::CStr;
use std::ptr;

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_GROWSDOWN, MAP_PRIVATE, MAP_SHARED, MS_NOEXEC, O_CREAT,
    O_RDONLY, O_RDWR, PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE, c_int, c_void,
};

use crate::{in_child, tell, tell_end, tell_ok};

const PAGE: usize = 4096;
const BOTH: c_int = PROT_READ | PROT_WRITE;
const GROWSDOWN: c_int = 0x100_0000;
const GROWSUP: c_int = 0x200_0000;
const READ_IMPLIES_EXEC: libc::c_ulong = 0x40_0000;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and only this part uses
    // its mappings.
    unsafe {
        nothing_executed();
        stacks();
        locked();
        holes();
        never_written();
    }
}

/// A shared mapping of a file opened read-only cannot become writable.
unsafe fn never_written() {
    unsafe {
        libc::close(file(c"read", 1));
        let fd = libc::open(c"read".as_ptr(), O_RDONLY);
        for (name, flags) in [("shared", MAP_SHARED), ("private", MAP_PRIVATE)] {
            println!("opened to read, {name}");
            tell_ok("to write", map(1, BOTH, flags, fd) != MAP_FAILED);
            let place = map(1, PROT_READ, flags, fd);
            tell("write", libc::mprotect(place, PAGE, PROT_WRITE));
            tell("read and write", libc::mprotect(place, PAGE, BOTH));
            tell("nothing", libc::mprotect(place, PAGE, PROT_NONE));
            tell("write", libc::mprotect(place, PAGE, PROT_WRITE));
            println!("{}", rights(place));
            libc::munmap(place, PAGE);
        }
        libc::close(fd);
    }
}

unsafe fn map(pages: usize, rights: c_int, flags: c_int, fd: c_int) -> *mut c_void {
    unsafe { libc::mmap(ptr::null_mut(), pages * PAGE, rights, flags, fd, 0) }
}

/// Creates a file with this many pages.
unsafe fn file(name: &CStr, pages: usize) -> c_int {
    unsafe {
        let fd = libc::open(name.as_ptr(), O_RDWR | O_CREAT, 0o644);
        libc::ftruncate(fd, (pages * PAGE) as i64);
        fd
    }
}

/// The access rights of the page at `place` by /proc/self/maps.
fn rights(place: *mut c_void) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let holds = |line: &&str| {
        let (start, rest) = line.split_once('-').unwrap_or_default();
        let end = rest.split(' ').next().unwrap_or_default();
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        (number(start)..number(end)).contains(&place.addr())
    };
    let line = maps.lines().find(holds).unwrap_or_default();
    line.split(' ').nth(1).unwrap_or("none").to_owned()
}

/// Mappings of a file on a mount with MS_NOEXEC.
unsafe fn nothing_executed() {
    unsafe {
        libc::mkdir(c"noexec".as_ptr(), 0o755);
        let (none, kind) = (c"none".as_ptr(), c"tmpfs".as_ptr());
        let at = c"noexec".as_ptr();
        tell("mount", libc::mount(none, at, kind, MS_NOEXEC, ptr::null()));
        let fd = file(c"noexec/file", 2);
        let change = |what: &str, place, rights| tell(what, libc::mprotect(place, PAGE, rights));
        for (what, flags) in [("private", MAP_PRIVATE), ("shared", MAP_SHARED)] {
            println!("{what}");
            for rights in [PROT_EXEC, PROT_READ | PROT_EXEC] {
                tell_ok("mmap to execute", map(1, rights, flags, fd) != MAP_FAILED);
            }
            let place = map(1, PROT_READ, flags, fd);
            change("to execute", place, PROT_READ | PROT_EXEC);
            change("to execute alone", place, PROT_EXEC);
            change("to write", place, BOTH);
            change("to write and execute", place, BOTH | PROT_EXEC);
            println!("{}", rights(place));
        }
        // The pages before the refused one are changed.
        let free = map(3, BOTH, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        let middle = free.wrapping_byte_add(PAGE);
        let flags = MAP_PRIVATE | libc::MAP_FIXED;
        libc::mmap(middle, PAGE, PROT_READ, flags, fd, 0);
        tell(
            "three pages",
            libc::mprotect(free, 3 * PAGE, PROT_READ | PROT_EXEC),
        );
        for page in 0..3 {
            println!("{page}: {}", rights(free.wrapping_byte_add(page * PAGE)));
        }
        // Later changes of the mount's flags do not affect mappings.
        let place = map(1, PROT_READ, MAP_PRIVATE, fd);
        let again = libc::MS_REMOUNT | libc::MS_BIND;
        tell(
            "remount",
            libc::mount(none, at, ptr::null(), again, ptr::null()),
        );
        change("mapped before", place, PROT_READ | PROT_EXEC);
        let place = map(1, PROT_READ, MAP_PRIVATE, fd);
        change("mapped after", place, PROT_READ | PROT_EXEC);
        let again = again | MS_NOEXEC;
        tell(
            "remount",
            libc::mount(none, at, ptr::null(), again, ptr::null()),
        );
        tell_end("implied", in_child(|| implied(fd)));
        libc::close(fd);
        tell("umount", libc::umount2(at, libc::MNT_DETACH));
    }
}

/// READ_IMPLIES_EXEC, where it applies and where it does not.
unsafe fn implied(fd: c_int) {
    unsafe {
        let free = map(3, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        let middle = free.wrapping_byte_add(PAGE);
        let flags = MAP_PRIVATE | libc::MAP_FIXED;
        libc::mmap(middle, PAGE, PROT_NONE, flags, fd, 0);
        libc::personality(READ_IMPLIES_EXEC);
        println!("mapped: {}", rights(map(1, PROT_READ, MAP_PRIVATE, fd)));
        tell("three pages", libc::mprotect(free, 3 * PAGE, PROT_READ));
        for page in 0..3 {
            println!("{page}: {}", rights(free.wrapping_byte_add(page * PAGE)));
        }
        tell("to write", libc::mprotect(free, 3 * PAGE, PROT_WRITE));
        println!("{}", rights(free));
        // On RISC-V the heap is never executable.
        let end = libc::syscall(libc::SYS_brk, 0) as usize;
        let end = end.next_multiple_of(PAGE);
        libc::syscall(libc::SYS_brk, end + PAGE);
        let old = rights(ptr::with_exposed_provenance_mut(end));
        let executes = if cfg!(target_arch = "aarch64") {
            "rwxp"
        } else {
            "rw-p"
        };
        println!("the heap as it should be: {}", old == executes);
    }
}

/// MAP_GROWSDOWN, PROT_GROWSDOWN, PROT_GROWSUP.
unsafe fn stacks() {
    unsafe {
        let fd = file(c"file", 2);
        let grows = |what: &str, flags: c_int, fd| {
            tell_ok(what, map(1, BOTH, flags | MAP_GROWSDOWN, fd) != MAP_FAILED);
        };
        grows("private stack", MAP_PRIVATE | MAP_ANONYMOUS, -1);
        grows("shared stack", MAP_SHARED | MAP_ANONYMOUS, -1);
        grows("private file as a stack", MAP_PRIVATE, fd);
        grows("shared file as a stack", MAP_SHARED, fd);
        let reader = libc::open(c"file".as_ptr(), O_RDONLY);
        grows("a file that is only read", MAP_SHARED, reader);
        grows("a folder", MAP_PRIVATE, libc::open(c".".as_ptr(), O_RDONLY));
        let three = map(3, BOTH, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        let change = |what: &str, page: usize, len, rights| {
            let place = three.wrapping_byte_add(page * PAGE);
            tell(what, libc::mprotect(place, len, rights));
        };
        change("down, no stack", 1, PAGE, PROT_READ | GROWSDOWN);
        change("up", 1, PAGE, PROT_READ | GROWSUP);
        change("both", 1, PAGE, PROT_READ | GROWSDOWN | GROWSUP);
        change("both of nothing", 1, 0, PROT_READ | GROWSDOWN | GROWSUP);
        change("nothing", 1, 0, 0x4000_0000);
        change("nothing, with a direction", 1, 0, PROT_READ | GROWSUP);
        change("an unknown right", 1, PAGE, 0x4000_0000);
        libc::munmap(three.wrapping_byte_add(PAGE), PAGE);
        for (what, direction) in [("down", GROWSDOWN), ("up", GROWSUP)] {
            change(what, 1, PAGE, PROT_READ | direction);
            change(what, 1, 2 * PAGE, PROT_READ | direction);
        }
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN;
        let stack = map(4, BOTH, flags, -1);
        let third = stack.wrapping_byte_add(2 * PAGE);
        tell("stack", libc::mprotect(third, PAGE, PROT_READ | GROWSDOWN));
        for page in 0..4 {
            println!("{page}: {}", rights(stack.wrapping_byte_add(page * PAGE)));
        }
        tell("up", libc::mprotect(third, PAGE, PROT_READ | GROWSUP));
    }
}

/// madvise(2) on locked memory.
unsafe fn locked() {
    unsafe {
        let page = map(2, BOTH, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        let own = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as c_int;
        let advise = |what: &str| {
            for advice in [libc::MADV_WILLNEED, libc::MADV_COLD, libc::MADV_PAGEOUT] {
                tell(
                    &format!("{what} {advice}"),
                    libc::madvise(page, 2 * PAGE, advice),
                );
                let pieces = [(page, PAGE), (page.wrapping_byte_add(PAGE), PAGE)];
                let done = libc::syscall(libc::SYS_process_madvise, own, &pieces, 2, advice, 0);
                tell(&format!("{what} {advice}, of a process"), done);
            }
        };
        advise("free");
        libc::mlock(page.wrapping_byte_add(PAGE), PAGE);
        advise("half locked");
        libc::mlock(page, PAGE);
        advise("locked");
        libc::munlock(page, 2 * PAGE);
        libc::munmap(page.wrapping_byte_add(PAGE), PAGE);
        advise("a hole");
        libc::mlock(page, PAGE);
        advise("locked before a hole");
    }
}

/// MADV_REMOVE requires write access to the file, not to the memory.
unsafe fn holes() {
    unsafe {
        let fd = file(c"file", 2);
        let reader = libc::open(c"file".as_ptr(), O_RDONLY);
        for (what, rights, flags, fd) in [
            ("read", PROT_READ, MAP_SHARED, fd),
            ("none", PROT_NONE, MAP_SHARED, fd),
            ("opened for reading", PROT_READ, MAP_SHARED, reader),
            ("private", BOTH, MAP_PRIVATE, fd),
            ("anonymous", PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1),
        ] {
            libc::pwrite(fd, c"full".as_ptr().cast(), 4, 0);
            let place = map(1, rights, flags, fd);
            tell(what, libc::madvise(place, PAGE, libc::MADV_REMOVE));
            let mut byte = 0_u8;
            libc::pread(fd, (&raw mut byte).cast(), 1, 0);
            println!("{byte}");
        }
    }
}
