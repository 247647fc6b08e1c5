//! Locked memory, how it is counted, and the memory that limits count.

use std::{fs, ptr};

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_GROWSDOWN, MAP_LOCKED, MAP_NONBLOCK, MAP_POPULATE, MAP_PRIVATE,
    MAP_SHARED, MCL_CURRENT, MCL_FUTURE, MREMAP_DONTUNMAP, MREMAP_MAYMOVE, PROT_NONE, PROT_READ,
    PROT_WRITE, c_int, c_void,
};

use crate::{in_child, tell, tell_end, tell_ok};

const PAGE: usize = 4096;
const USER: u32 = 1234;
const BOTH: c_int = PROT_READ | PROT_WRITE;
const MLOCK_ONFAULT: u32 = 1;
const MCL_ONFAULT: c_int = 4;

/// Runs this part.
pub fn run() {
    let parts: [(&str, unsafe fn()); 13] = [
        ("new mappings", future),
        ("on fault", on_fault),
        ("the heap", heap),
        ("other places", moved),
        ("segments", segments),
        ("a ring", ring),
        ("a limit", limited),
        ("a stack", grown),
        ("no locks", forbidden),
        ("no rights", inaccessible),
        ("kinds", kinds),
        ("data", data),
        ("the machine's count", counted),
    ];
    for (what, part) in parts {
        println!("{what}:");
        // SAFETY: every pointer passed is to a live value or mapping.
        tell_end("end", in_child(|| unsafe { part() }));
    }
}

unsafe fn map(pages: usize, rights: c_int, flags: c_int) -> *mut c_void {
    let flags = MAP_ANONYMOUS | flags;
    // C libraries return their own errors.
    let at = unsafe { libc::syscall(libc::SYS_mmap, 0, pages * PAGE, rights, flags, -1, 0) };
    ptr::with_exposed_provenance_mut(at as usize)
}

/// The value in KiB of `name` in /proc/self/status.
fn status(name: &str) -> i64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.and_then(|number| number.parse().ok()).unwrap_or(-1)
}

/// Prints the number of present pages, of up to 32.
unsafe fn present(what: &str, at: *mut c_void, pages: usize) {
    let mut answer = [0u8; 32];
    unsafe { libc::mincore(at, pages * PAGE, answer.as_mut_ptr()) };
    let count = answer.iter().filter(|byte| **byte & 1 != 0).count();
    println!("{what}: {count} of {pages}");
}

unsafe fn future() {
    unsafe {
        for (what, flags) in [("all", MCL_FUTURE), ("on fault", MCL_FUTURE | MCL_ONFAULT)] {
            tell(what, libc::mlockall(flags));
            for more in [0, MAP_POPULATE, MAP_POPULATE | MAP_NONBLOCK, MAP_LOCKED] {
                let before = status("VmLck:");
                let at = map(16, BOTH, MAP_PRIVATE | more);
                present("new", at, 16);
                println!("locked {} kB", status("VmLck:") - before);
                libc::munmap(at, 16 * PAGE);
            }
            let at = map(16, PROT_NONE, MAP_PRIVATE);
            present("without rights", at, 16);
        }
        tell("none", libc::munlockall());
        println!("locked {} kB", status("VmLck:"));
        for more in [0, MAP_POPULATE, MAP_POPULATE | MAP_NONBLOCK, MAP_LOCKED] {
            present("new", map(16, BOTH, MAP_PRIVATE | more), 16);
        }
        println!("locked {} kB", status("VmLck:"));
        for flags in [0, MCL_ONFAULT, 8, MCL_CURRENT | 8] {
            tell("flags", libc::mlockall(flags));
        }
    }
}

unsafe fn mlock2(at: *mut c_void, pages: usize, flags: u32) {
    let locked = unsafe { libc::syscall(libc::SYS_mlock2, at, pages * PAGE, flags) };
    tell("mlock2", locked);
}

/// A range, the end of which cannot be accessed, is locked and populated up to there.
unsafe fn inaccessible() {
    unsafe {
        let file = libc::memfd_create(c"short".as_ptr(), 0);
        libc::ftruncate(file, 2 * PAGE as i64);
        let short = libc::mmap(ptr::null_mut(), 4 * PAGE, BOTH, MAP_SHARED, file, 0);
        let none = map(4, BOTH, MAP_PRIVATE);
        libc::mprotect(none.byte_add(2 * PAGE), 2 * PAGE, PROT_NONE);
        let hole = map(4, BOTH, MAP_PRIVATE);
        libc::munmap(hole.byte_add(2 * PAGE), PAGE);
        libc::mprotect(hole.byte_add(3 * PAGE), PAGE, PROT_NONE);
        let read = map(4, BOTH, MAP_PRIVATE);
        libc::mprotect(read.byte_add(2 * PAGE), 2 * PAGE, PROT_READ);
        for (what, at) in [
            ("file", short),
            ("none", none),
            ("hole", hole),
            ("read", read),
        ] {
            for advice in [libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE] {
                tell(what, libc::madvise(at, 4 * PAGE, advice));
                present(what, at, 2);
            }
            libc::madvise(at, 2 * PAGE, libc::MADV_DONTNEED);
            mlock2(at, 4, 0);
            mlock2(at.byte_add(PAGE), 1, MLOCK_ONFAULT);
            mlock2(at.byte_add(3 * PAGE), 1, 0);
            println!("locked {} kB", status("VmLck:"));
            libc::munlockall();
        }
    }
}

unsafe fn on_fault() {
    unsafe {
        let at = map(16, BOTH, MAP_PRIVATE);
        at.cast::<u8>().write(1);
        mlock2(at, 16, MLOCK_ONFAULT);
        present("on fault", at, 16);
        at.cast::<u8>().add(5 * PAGE).write(1);
        present("one more", at, 16);
        println!("locked {} kB", status("VmLck:"));
        mlock2(at, 8, 0);
        present("at once", at, 16);
        println!("locked {} kB", status("VmLck:"));
        tell("all", libc::mlockall(MCL_CURRENT | MCL_ONFAULT));
        present("all on fault", at, 16);
        tell("all", libc::mlockall(MCL_CURRENT));
        present("all at once", at, 16);
        tell("unlock", libc::munlockall());
        mlock2(at, 16, MLOCK_ONFAULT);
        tell("unlock", libc::munlock(at, 16 * PAGE));
        println!("locked {} kB", status("VmLck:"));
        mlock2(at, 16, 2);
    }
}

/// Grows the heap; prints how many of the new pages are present, or that it did not move.
unsafe fn brk(what: &str, pages: usize) {
    unsafe {
        let old = libc::syscall(libc::SYS_brk, 0) as usize;
        let new = libc::syscall(libc::SYS_brk, old + pages * PAGE) as usize;
        if new == old {
            return println!("{what}: not moved");
        }
        let first = old.next_multiple_of(PAGE);
        present(what, ptr::with_exposed_provenance_mut(first), pages);
    }
}

unsafe fn heap() {
    unsafe {
        brk("heap", 16);
        tell("all", libc::mlockall(MCL_FUTURE));
        let before = status("VmLck:");
        brk("heap", 16);
        println!("locked {} kB", status("VmLck:") - before);
        tell("on fault", libc::mlockall(MCL_FUTURE | MCL_ONFAULT));
        brk("heap", 16);
        println!("locked {} kB", status("VmLck:") - before);
        tell("none", libc::munlockall());
        brk("heap", 16);
        limit(libc::RLIMIT_MEMLOCK as u32, 16 * PAGE);
        become_user();
        tell("all", libc::mlockall(MCL_FUTURE));
        brk("heap", 32);
        brk("heap", 8);
    }
}

unsafe fn moved() {
    unsafe {
        for (what, flags) in [("at once", 0), ("on fault", MLOCK_ONFAULT)] {
            let at = map(8, BOTH, MAP_PRIVATE);
            mlock2(at, 8, flags);
            let at = libc::mremap(at, 8 * PAGE, 32 * PAGE, MREMAP_MAYMOVE);
            tell_ok("longer", at != MAP_FAILED);
            present(what, at, 32);
            println!("locked {} kB", status("VmLck:"));
            let flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
            let other = libc::mremap(at, 32 * PAGE, 32 * PAGE, flags);
            tell_ok("left", other != MAP_FAILED);
            println!("locked {} kB", status("VmLck:"));
            libc::munmap(other, 32 * PAGE);
            println!("locked {} kB", status("VmLck:"));
        }
    }
}

unsafe fn limit(what: u32, bytes: usize) {
    let limit = libc::rlimit {
        rlim_cur: bytes as u64,
        rlim_max: bytes as u64,
    };
    unsafe { libc::setrlimit(what as _, &limit) };
}

unsafe fn become_user() {
    unsafe { libc::setresuid(USER, USER, USER) };
}

/// Attaches a segment of 16 pages at `address` with `flags`.
unsafe fn attach(what: &str, address: *mut c_void, flags: c_int) -> *mut c_void {
    unsafe {
        let segment = libc::shmget(libc::IPC_PRIVATE, 16 * PAGE, 0o600);
        let at = libc::shmat(segment, address, flags);
        tell_ok(what, at != MAP_FAILED);
        libc::shmctl(segment, libc::IPC_RMID, ptr::null_mut());
        if at != MAP_FAILED {
            present(what, at, 16);
            println!("locked {} kB", status("VmLck:"));
        }
        at
    }
}

/// The ring of an aio context must fit into the limit on locked memory, but is not locked.
unsafe fn ring() {
    unsafe {
        limit(libc::RLIMIT_MEMLOCK as u32, 16 * PAGE);
        become_user();
        let mut contexts = [0usize; 2];
        tell("all", libc::mlockall(MCL_FUTURE));
        let before = status("VmLck:");
        for (context, events) in contexts.iter_mut().zip([1, 10_000]) {
            tell("made", libc::syscall(libc::SYS_io_setup, events, context));
        }
        println!("locked {} kB", status("VmLck:") - before);
    }
}

/// An attached segment is a new mapping like others.
unsafe fn segments() {
    unsafe {
        let nowhere = ptr::null_mut();
        tell("on fault", libc::mlockall(MCL_FUTURE | MCL_ONFAULT));
        libc::shmdt(attach("on fault", nowhere, 0));
        tell("all", libc::mlockall(MCL_FUTURE));
        libc::shmdt(attach("to be read", nowhere, libc::SHM_RDONLY));
        let first = attach("first", nowhere, 0);
        attach("in its place", first, libc::SHM_REMAP);
        // Leaves some pages for the program itself.
        limit(libc::RLIMIT_MEMLOCK as u32, 28 * PAGE);
        become_user();
        attach("at the limit", nowhere, 0);
        attach("where one is", first, 0);
        attach("in its place", first, libc::SHM_REMAP);
        libc::shmdt(first);
        attach("below the limit", nowhere, 0);
        tell("none", libc::munlockall());
        attach("not locked", nowhere, 0);
    }
}

unsafe fn limited() {
    unsafe {
        limit(libc::RLIMIT_MEMLOCK as u32, 16 * PAGE);
        become_user();
        let at = map(16, BOTH, MAP_PRIVATE);
        tell("sixteen", libc::mlock(at, 16 * PAGE));
        tell("again", libc::mlock(at, 8 * PAGE));
        tell_ok(
            "longer",
            libc::mremap(at, 16 * PAGE, 17 * PAGE, MREMAP_MAYMOVE) != MAP_FAILED,
        );
        tell_ok(
            "mapped",
            map(1, BOTH, MAP_PRIVATE | MAP_LOCKED) != MAP_FAILED,
        );
        tell("future", libc::mlockall(MCL_FUTURE));
        tell_ok("mapped", map(1, BOTH, MAP_PRIVATE) != MAP_FAILED);
        tell("eight", libc::munlock(at, 8 * PAGE));
        tell_ok("mapped", map(8, BOTH, MAP_PRIVATE) != MAP_FAILED);
        tell_ok("mapped", map(1, BOTH, MAP_PRIVATE) != MAP_FAILED);
        tell("current", libc::mlockall(MCL_CURRENT));
    }
}

/// A locked stack grows up to the limit on locked memory.
unsafe fn grown() {
    unsafe {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | libc::MAP_FIXED_NOREPLACE;
        let wish = ptr::with_exposed_provenance_mut(0x4000_0000);
        let at = libc::mmap(wish, 16 * PAGE, BOTH, flags, -1, 0);
        tell_ok("a stack", at == wish);
        limit(libc::RLIMIT_MEMLOCK as u32, 17 * PAGE);
        become_user();
        tell("lock", libc::mlock(at, 16 * PAGE));
        for pages in [1, 2] {
            at.wrapping_byte_sub(pages * PAGE)
                .cast::<u8>()
                .write_volatile(1);
            println!("it grew: {} kB are locked", status("VmLck:"));
        }
    }
}

unsafe fn forbidden() {
    unsafe {
        tell("future", libc::mlockall(MCL_FUTURE));
        limit(libc::RLIMIT_MEMLOCK as u32, 0);
        become_user();
        tell_ok("new", map(1, BOTH, MAP_PRIVATE) != MAP_FAILED);
        tell_ok(
            "asked for",
            map(1, BOTH, MAP_PRIVATE | MAP_LOCKED) != MAP_FAILED,
        );
        tell("none", libc::munlockall());
        tell_ok(
            "asked for",
            map(1, BOTH, MAP_PRIVATE | MAP_LOCKED) != MAP_FAILED,
        );
        tell("future", libc::mlockall(MCL_FUTURE));
        let at = map(1, BOTH, MAP_PRIVATE);
        tell("mlock", libc::mlock(at, PAGE));
    }
}

unsafe fn kinds() {
    let counts = || ["VmData:", "VmStk:", "VmLck:"].map(status);
    for (what, rights, flags) in [
        ("private", BOTH, MAP_PRIVATE),
        ("shared", BOTH, MAP_SHARED),
        ("to be read", PROT_READ, MAP_PRIVATE),
        ("a stack", BOTH, MAP_PRIVATE | MAP_GROWSDOWN),
        ("locked", BOTH, MAP_PRIVATE | MAP_LOCKED),
    ] {
        let before = counts();
        let at = unsafe { map(64, rights, flags) };
        let after = counts();
        let more = [0, 1, 2].map(|place| after[place] - before[place]);
        println!("{what}: {more:?}");
        unsafe { libc::mprotect(at, 32 * PAGE, PROT_READ | PROT_WRITE) };
        let after = counts();
        let more = [0, 1, 2].map(|place| after[place] - before[place]);
        println!("half of it written: {more:?}");
        unsafe { libc::munmap(at, 64 * PAGE) };
        println!("none: {}", counts() == before);
    }
}

unsafe fn data() {
    unsafe {
        let read = map(64, PROT_READ, MAP_PRIVATE);
        let written = map(8, BOTH, MAP_PRIVATE);
        limit(
            libc::RLIMIT_DATA as u32,
            status("VmData:") as usize * 1024 + 16 * PAGE,
        );
        tell_ok("too long", map(64, BOTH, MAP_PRIVATE) != MAP_FAILED);
        tell_ok("shared", map(64, BOTH, MAP_SHARED) != MAP_FAILED);
        tell("written", libc::mprotect(read, 64 * PAGE, BOTH));
        let longer = libc::mremap(written, 8 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
        tell_ok("longer", longer != MAP_FAILED);
        let longer = libc::mremap(read, 64 * PAGE, 80 * PAGE, MREMAP_MAYMOVE);
        tell_ok("to be read", longer != MAP_FAILED);
        brk("heap", 64);
        tell_ok("short", map(16, BOTH, MAP_PRIVATE) != MAP_FAILED);
        tell_ok("one more", map(1, BOTH, MAP_PRIVATE) != MAP_FAILED);
    }
}

/// The count of locked pages in /proc/meminfo. Linux folds in per-CPU counts after a while.
unsafe fn counted() {
    const PAGES: usize = 2048;
    let near = |wanted: i64| {
        (0..500).any(|_| {
            // SAFETY: the call only waits.
            unsafe { libc::usleep(20_000) };
            (machine("Mlocked:") - wanted).abs() < 1024
        })
    };
    unsafe {
        let before = machine("Mlocked:");
        let at = map(PAGES, BOTH, MAP_PRIVATE);
        tell("mlock", libc::mlock(at, PAGES * PAGE));
        tell("8 MiB more", near(before + 8192));
        tell("cannot be evicted", machine("Unevictable:") >= 7168);
        tell("munlock", libc::munlock(at, PAGES * PAGE));
        tell("as before", near(before));
    }
}

/// The value in KiB of a line of /proc/meminfo.
fn machine(name: &str) -> i64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.and_then(|number| number.parse().ok()).unwrap_or(-1)
}
