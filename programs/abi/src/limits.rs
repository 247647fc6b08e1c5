//! Enforced limits (locked memory, CPU time, queued signals), and locked memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{mem, ptr};

use libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_LOCKED, MAP_PRIVATE, MAP_SHARED, MCL_CURRENT, MCL_FUTURE,
    PROT_READ, PROT_WRITE, c_int, c_void,
};

use crate::{in_child, tell, tell_end};

const PAGE: usize = 4096;
const USER: u32 = 1234;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and every mapping outlives
    // its use.
    unsafe {
        locked();
        advice();
        memory();
        cpu_time();
        signals();
        replaced();
        descriptors();
        tell_end("many descriptors", in_child(|| many_descriptors()));
    }
}

/// Descriptors up to the highest possible number, far apart; a child has them too.
unsafe fn many_descriptors() {
    const MOST: c_int = 1 << 20;
    unsafe {
        let limit = libc::rlimit {
            rlim_cur: MOST as u64,
            rlim_max: MOST as u64,
        };
        tell("limit", libc::setrlimit(libc::RLIMIT_NOFILE, &limit));
        let is_open = |fd| libc::fcntl(fd, libc::F_GETFD);
        // Farther apart than Stile allocates in one piece, and several in one piece.
        let places = [65_535, 65_536, 65_600, 131_071, 262_144, 700_000, MOST - 1];
        for fd in places {
            println!("dup to {fd}: {}", libc::dup2(0, fd) == fd);
        }
        tell("dup beyond", libc::dup2(0, MOST));
        let dup = |from: c_int| i64::from(libc::fcntl(0, libc::F_DUPFD_CLOEXEC, from));
        tell("the next", dup(262_144));
        tell("the next of a part", dup(65_535));
        tell("after the last", dup(MOST - 1));
        tell("not used", is_open(700_001));
        tell("flags of the next", is_open(262_145));
        let child = || {
            let count = places.iter().filter(|fd| is_open(**fd) == 0).count();
            println!("a child has {count}");
            let all = libc::syscall(libc::SYS_close_range, 262_144, u32::MAX, 4);
            tell("close_range marks", all);
            tell("marked", is_open(MOST - 1));
            tell("not marked", is_open(65_536));
            let all = libc::syscall(libc::SYS_close_range, 65_536, u32::MAX, 0);
            tell("close_range", all);
            tell("closed", is_open(MOST - 1));
            tell("not closed", is_open(65_535));
        };
        tell_end("child", in_child(child));
        tell("still open", is_open(MOST - 1));
        // So many that no lock is held while all are copied.
        for _ in 0..5000 {
            libc::dup(0);
        }
        let count = || {
            let fds = std::fs::read_dir("/proc/self/fd").expect("a folder");
            fds.count()
        };
        let before = count();
        tell_end(
            "child",
            in_child(|| println!("as many: {}", count() == before)),
        );
        tell("close", libc::close(MOST - 1));
        tell("twice", libc::close(MOST - 1));
    }
}

unsafe fn map(pages: usize, flags: c_int) -> *mut c_void {
    let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags);
    // C libraries return their own errors.
    let at = unsafe { libc::syscall(libc::SYS_mmap, 0, pages * PAGE, rights, flags, -1, 0) };
    ptr::with_exposed_provenance_mut(at as usize)
}

/// Prints the KiB of locked memory.
fn tell_locked(what: &str) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmLck:"));
    println!("{what}: {}", line.unwrap_or_default().trim());
}

unsafe fn locked() {
    unsafe {
        let at = map(8, MAP_PRIVATE);
        tell_locked("to begin with");
        tell("mlock", libc::mlock(at, 4 * PAGE));
        tell_locked("four pages");
        tell("of them again", libc::mlock(at.byte_add(PAGE), 2 * PAGE));
        tell_locked("four pages");
        tell(
            "when touched",
            libc::syscall(libc::SYS_mlock2, at.byte_add(6 * PAGE), PAGE, 1),
        );
        tell_locked("five pages");
        tell("munlock", libc::munlock(at.byte_add(PAGE), PAGE));
        tell_locked("four pages");
        let status = in_child(|| tell_locked("none in a child"));
        tell_end("child", status);
        tell("msync", libc::msync(at, PAGE, libc::MS_SYNC));
        tell(
            "msync that forgets",
            libc::msync(at, PAGE, libc::MS_SYNC | libc::MS_INVALIDATE),
        );
        tell(
            "of what is not locked",
            libc::msync(at.byte_add(PAGE), PAGE, libc::MS_INVALIDATE),
        );
        tell("munlockall", libc::munlockall());
        tell_locked("none");
        let mapped = map(2, MAP_PRIVATE | MAP_LOCKED);
        tell_locked("mapped so");
        libc::munmap(mapped, 2 * PAGE);
        tell_locked("unmapped");
        tell("from now on", libc::mlockall(MCL_FUTURE));
        map(3, MAP_PRIVATE);
        tell_locked("three pages");
        libc::munlockall();
        tell("only when touched", libc::mlockall(4));
        tell("nothing", libc::mlockall(0));
    }
}

unsafe fn advice() {
    unsafe {
        let own = map(2, MAP_PRIVATE);
        let shared = map(2, MAP_SHARED);
        for (name, advice) in [
            ("free", libc::MADV_FREE),
            ("wipe on fork", libc::MADV_WIPEONFORK),
            ("need not", libc::MADV_DONTNEED),
        ] {
            println!("{name}");
            tell("  private", libc::madvise(own, PAGE, advice));
            tell("  shared", libc::madvise(shared, PAGE, advice));
            libc::mlock(own, PAGE);
            tell("  locked", libc::madvise(own, 2 * PAGE, advice));
            libc::munlock(own, PAGE);
        }
        let nothing = libc::mmap(ptr::null_mut(), 0, PROT_READ, MAP_SHARED, -1, 0);
        tell(
            "no file, no length",
            if nothing == MAP_FAILED { -1 } else { 0 },
        );
    }
}

unsafe fn limit(kind: u32, soft: u64, hard: u64) {
    let limit = libc::rlimit {
        rlim_cur: soft as _,
        rlim_max: hard as _,
    };
    unsafe { libc::setrlimit(kind as _, &limit) };
}

unsafe fn memory() {
    unsafe {
        let work = |pages: u64| {
            move || {
                limit(
                    libc::RLIMIT_MEMLOCK as u32,
                    pages * PAGE as u64,
                    pages * PAGE as u64,
                );
                libc::setresuid(USER, USER, USER);
                let at = map(8, MAP_PRIVATE);
                tell("two pages", libc::mlock(at, 2 * PAGE));
                tell("the same", libc::mlock(at, 2 * PAGE));
                tell("two more", libc::mlock(at.byte_add(4 * PAGE), 2 * PAGE));
                tell("munlock", libc::munlock(at, PAGE));
                let mapped = map(3, MAP_PRIVATE | MAP_LOCKED);
                tell("three mapped", if mapped == MAP_FAILED { -1 } else { 0 });
                tell("all", libc::mlockall(MCL_CURRENT));
                tell("all that come", libc::mlockall(MCL_FUTURE));
                let mapped = map(4, MAP_PRIVATE);
                tell("four come", if mapped == MAP_FAILED { -1 } else { 0 });
            }
        };
        tell_end("three may be locked", in_child(work(3)));
        tell_end("none may be locked", in_child(work(0)));
    }
}

unsafe fn cpu_time() {
    extern "C" fn warned(_: c_int) {
        static IS_WARNED: AtomicBool = AtomicBool::new(false);
        let text = b"warned\n";
        // The signal repeats each second.
        if !IS_WARNED.swap(true, Relaxed) {
            // SAFETY: pointer and length are of the text.
            unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
        }
    }
    unsafe {
        let status = in_child(|| {
            libc::signal(libc::SIGXCPU, warned as *const () as usize);
            limit(libc::RLIMIT_CPU as u32, 1, 5);
            // A child has the same limit, and its own CPU time.
            let status = in_child(|| {
                loop {
                    std::hint::spin_loop();
                }
            });
            tell_end("over the hard limit", status);
            limit(libc::RLIMIT_CPU as u32, 5, 5);
        });
        tell_end("the parent", status);
        let status = in_child(|| {
            limit(libc::RLIMIT_CPU as u32, 1, 100);
            libc::setrlimit(
                libc::RLIMIT_CORE,
                &libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                },
            );
            loop {
                std::hint::spin_loop();
            }
        });
        tell_end("over the soft limit", status);
    }
}

unsafe fn signals() {
    unsafe {
        let status = in_child(|| {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&mut set);
            libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            limit(libc::RLIMIT_SIGPENDING as u32, 0, 0);
            libc::setresuid(USER, USER, USER);
            let (own, signal) = (libc::getpid(), libc::SIGRTMIN());
            tell(
                "to a thread",
                libc::syscall(libc::SYS_tgkill, own, own, signal),
            );
            tell("with a value", libc::sigqueue(own, signal, mem::zeroed()));
            tell("by kill", libc::kill(own, signal));
            tell(
                "an ordinary one",
                libc::syscall(libc::SYS_tgkill, own, own, libc::SIGUSR1),
            );
        });
        tell_end("no signal may be queued", status);
    }
}

/// A mapping or a move that replaces memory does not count it against the limits.
unsafe fn replaced() {
    const MIB: usize = 1 << 20;
    let map = |at: *mut c_void, len: usize, flags| {
        let (rights, flags) = (PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE | flags);
        let fails = unsafe { libc::mmap(at, len, rights, flags, -1, 0) } == MAP_FAILED;
        if fails { -1 } else { 0 }
    };
    let all = in_child(|| unsafe {
        let at = self::map(16 * MIB / PAGE, MAP_PRIVATE);
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = text
            .split(' ')
            .next()
            .and_then(|pages| pages.parse::<usize>().ok());
        let most = pages.unwrap_or_default() * PAGE + MIB;
        limit(libc::RLIMIT_AS as u32, most as u64, most as u64);
        tell("8 MiB more", map(ptr::null_mut(), 8 * MIB, 0));
        tell("in place of 16", map(at, 16 * MIB, libc::MAP_FIXED));
        tell(
            "of 8 of 16",
            map(at.byte_add(8 * MIB), 16 * MIB, libc::MAP_FIXED),
        );
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let target = at.byte_add(8 * MIB);
        let moved = libc::mremap(at, 4 * MIB, 8 * MIB, flags, target);
        tell("a move over 8", if moved == target { 0 } else { -1 });
        let moved = libc::mremap(target, 8 * MIB, 16 * MIB, libc::MREMAP_MAYMOVE);
        tell("that grows", if moved == MAP_FAILED { -1 } else { 0 });
    });
    tell_end("RLIMIT_AS", all);
    let data = in_child(|| unsafe {
        let at = self::map(200 * MIB / PAGE, MAP_PRIVATE);
        limit(libc::RLIMIT_DATA as u32, 256 << 20, 256 << 20);
        tell("100 MiB more", map(ptr::null_mut(), 100 * MIB, 0));
        tell("in place of 200", map(at, 200 * MIB, libc::MAP_FIXED));
        tell("in place of large", map(at, 200 * MIB, libc::MAP_FIXED));
    });
    tell_end("RLIMIT_DATA", data);
}

/// Errors that open(2) reports before the lack of a free descriptor, and after it.
unsafe fn descriptors() {
    let status = in_child(|| unsafe {
        let open = |what: &str, path: *const libc::c_char, flags: c_int| {
            tell(what, libc::openat(libc::AT_FDCWD, path, flags, 0o600));
        };
        let (bad, long) = (ptr::without_provenance(8), [b'a'; 5000]);
        let (null, none) = (c"/dev/null".as_ptr(), c"/no/such".as_ptr());
        limit(libc::RLIMIT_NOFILE as u32, 3, 3);
        open("a file", null, libc::O_RDONLY);
        open("none", none, libc::O_RDONLY);
        open("the empty path", c"".as_ptr(), libc::O_RDONLY);
        open("no path", bad, libc::O_RDONLY);
        open("a long path", long.as_ptr().cast(), libc::O_RDONLY);
        open("a new directory", bad, libc::O_CREAT | libc::O_DIRECTORY);
        open("unnamed, to read", bad, libc::O_TMPFILE);
        open("unnamed", none, libc::O_TMPFILE | libc::O_RDWR);
        tell("from nowhere", libc::openat(99, c"x".as_ptr(), 0));
    });
    tell_end("no descriptor is free", status);
}
