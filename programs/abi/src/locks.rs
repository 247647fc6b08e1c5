//! Record locks on several ranges: how they merge, split and are reported, and the requests that
//! are refused. Leases, and signals about files.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::{F_RDLCK, F_UNLCK, F_WRLCK, O_CREAT, O_RDWR, c_int};

use crate::{in_child, path, tell, tell_end};

fn lock(kind: c_int, start: i64, len: i64) -> libc::flock {
    // SAFETY: all zeroes is a valid lock.
    let mut lock: libc::flock = unsafe { mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    (lock.l_start, lock.l_len) = (start, len);
    lock
}

fn set(file: c_int, kind: c_int, start: i64, len: i64) {
    let lock = lock(kind, start, len);
    // SAFETY: the lock outlives the call.
    let result = unsafe { libc::fcntl(file, libc::F_SETLK, &lock) };
    if result != 0 {
        tell("lock", result);
    }
}

/// Prints the locks that another process sees, from the start on, range by range.
fn seen_by_another(what: &str, file: c_int) {
    let status = in_child(|| {
        let mut from = 0;
        let mut said = String::new();
        loop {
            let mut asked = lock(F_WRLCK, from, 0);
            // SAFETY: the lock outlives the call.
            unsafe { libc::fcntl(file, libc::F_GETLK, &mut asked) };
            if asked.l_type as c_int == F_UNLCK {
                break;
            }
            let kind = if asked.l_type as c_int == F_RDLCK {
                "read"
            } else {
                "write"
            };
            said += &format!(" {kind} {}+{}", asked.l_start, asked.l_len);
            if asked.l_len == 0 {
                break;
            }
            from = asked.l_start + asked.l_len;
        }
        println!("{what}:{said}");
    });
    if status != 0 {
        tell_end(what, status);
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    let file = unsafe { libc::open(path(c"locks"), O_RDWR | O_CREAT, 0o644) };
    set(file, F_WRLCK, 10, 5);
    set(file, F_WRLCK, 1, 5);
    set(file, F_RDLCK, 30, 5);
    seen_by_another("three apart", file);
    set(file, F_RDLCK, 5, 6);
    seen_by_another("one across two", file);
    set(file, F_WRLCK, 1, 40);
    seen_by_another("one over all", file);
    set(file, F_UNLCK, 15, 5);
    seen_by_another("a gap", file);
    set(file, F_UNLCK, 2, 2);
    set(file, F_RDLCK, 35, 0);
    seen_by_another("two gaps and an end", file);
    set(file, F_WRLCK, 2, 2);
    seen_by_another("one gap closed", file);
    set(file, F_UNLCK, 0, 0);
    seen_by_another("none", file);
    refused(file);
    contended();
    many(file);
    held_by_itself(file);
    exchanged();
    circles(file);
    closed();
    leases();
    told_of_data();
    told_of_room();
}

/// Several threads repeatedly take the same lock, each by its own open file: none waits for ever.
fn contended() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 1000;
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let work = || {
        // SAFETY: the path is NUL-terminated, and the lock outlives the calls.
        unsafe {
            let file = libc::open(path(c"locks"), O_RDWR);
            for _ in 0..ROUNDS {
                libc::fcntl(file, libc::F_OFD_SETLKW, &lock(F_WRLCK, 0, 1));
                // The lock excludes other threads here.
                let count = COUNT.load(Relaxed);
                std::hint::spin_loop();
                COUNT.store(count + 1, Relaxed);
                libc::fcntl(file, libc::F_OFD_SETLK, &lock(F_UNLCK, 0, 1));
            }
            libc::close(file);
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(work)));
    println!("locked {} times", COUNT.load(Relaxed));
}

/// Many locks are listed, and then replaced by a single one, atomically.
fn many(file: c_int) {
    const COUNT: i64 = 2000;
    (0..COUNT).for_each(|place| set(file, F_WRLCK, 2 * place, 1));
    // SAFETY: every pointer passed is to a live value of the right type; the child ends by
    // _exit.
    unsafe {
        let mut stat: libc::stat = mem::zeroed();
        libc::fstat(file, &mut stat);
        let inode = format!(":{} ", stat.st_ino);
        let listed = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        let lines = listed.lines().filter(|line| line.contains(&inode));
        println!("listed {}", lines.count());
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let other = libc::fork();
        if other == 0 {
            libc::write(ends[1], c"x".as_ptr().cast(), 1);
            // A place above all locks: it is free until the single lock is taken.
            let wanted = lock(F_WRLCK, 2 * COUNT, 1);
            while libc::fcntl(file, libc::F_SETLK, &wanted) == 0 {
                libc::fcntl(file, libc::F_SETLK, &lock(F_UNLCK, 2 * COUNT, 1));
            }
            println!("shut out");
            let among = |place: i64| libc::fcntl(file, libc::F_SETLK, &lock(F_WRLCK, place, 1));
            let taken = (0..2 * COUNT).filter(|&place| among(place) == 0).count();
            println!("taken among them {taken}");
            libc::_exit(0);
        }
        libc::read(ends[0], (&raw mut ends).cast(), 1);
        libc::fcntl(file, libc::F_SETLKW, &lock(F_WRLCK, 0, 0));
        libc::waitpid(other, std::ptr::null_mut(), 0);
    }
    seen_by_another("many are one", file);
    set(file, F_UNLCK, 0, 0);
}

/// F_OFD_GETLK with F_UNLCK reports the locks of the open file itself.
fn held_by_itself(file: c_int) {
    // SAFETY: every pointer passed is to a live value of the right type.
    let ask = |what: &str, command, first, len| unsafe {
        let mut asked = lock(F_UNLCK, first, len);
        tell(what, libc::fcntl(file, command, &mut asked));
        let (start, len, process) = (asked.l_start, asked.l_len, asked.l_pid);
        println!("  {} {start}+{len} of {process}", asked.l_type);
    };
    // SAFETY: as above.
    unsafe {
        libc::fcntl(file, libc::F_OFD_SETLK, &lock(F_RDLCK, 10, 5));
        libc::fcntl(file, libc::F_OFD_SETLK, &lock(F_WRLCK, 20, 5));
        ask("its first", libc::F_OFD_GETLK, 0, 0);
        ask("its second", libc::F_OFD_GETLK, 16, 5);
        ask("between them", libc::F_OFD_GETLK, 15, 5);
        ask("after them", libc::F_OFD_GETLK, 25, 0);
        ask("of a process", libc::F_GETLK, 0, 0);
        libc::fcntl(file, libc::F_OFD_SETLK, &lock(F_UNLCK, 0, 0));
        set(file, F_WRLCK, 10, 5);
        ask("its process's", libc::F_OFD_GETLK, 0, 0);
        set(file, F_UNLCK, 0, 0);
    }
}

/// flock releases the lock of the other type before it takes or waits for one.
fn exchanged() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        let files = [0; 3].map(|_| libc::open(path(c"locks"), O_RDWR));
        let now = |what: &str, file: c_int, operation| {
            tell(what, libc::flock(file, operation | libc::LOCK_NB))
        };
        let shared = || {
            files[..2]
                .iter()
                .for_each(|&file| now("shared", file, libc::LOCK_SH))
        };
        shared();
        now("exclusive beside another", files[0], libc::LOCK_EX);
        now("which has the other alone", files[1], libc::LOCK_EX);
        now("a third", files[2], libc::LOCK_SH);
        now("shared again", files[1], libc::LOCK_SH);
        now("with a third", files[2], libc::LOCK_SH);
        libc::flock(files[2], libc::LOCK_UN);
        shared();
        std::thread::scope(|scope| {
            for &file in &files[..2] {
                scope.spawn(move || {
                    tell("both get it", libc::flock(file, libc::LOCK_EX));
                    libc::flock(file, libc::LOCK_UN);
                });
            }
        });
        files.iter().for_each(|&file| _ = libc::close(file));
    }
}

/// A descriptor is closed while a thread waits for a lock by it: the lock is released at once.
fn closed() {
    const AT: i64 = 200;
    // SAFETY: every pointer passed is to a live value of the right type; children end by
    // _exit.
    unsafe {
        let file = libc::open(path(c"locks"), O_RDWR);
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let mut byte = 0u8;
        let holder = libc::fork();
        if holder == 0 {
            set(file, F_WRLCK, AT, 1);
            libc::write(ends[1], c"x".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        libc::read(ends[0], (&raw mut byte).cast(), 1);
        let wait = || {
            tell(
                "closed meanwhile",
                libc::fcntl(file, libc::F_SETLKW, &lock(F_WRLCK, AT, 1)),
            );
        };
        std::thread::scope(|scope| {
            scope.spawn(wait);
            // Gives the thread time to wait. If it does not wait yet, it finds no descriptor.
            libc::usleep(100_000);
            libc::close(file);
            libc::kill(holder, libc::SIGKILL);
        });
        libc::waitpid(holder, std::ptr::null_mut(), 0);
        let other = libc::fork();
        if other == 0 {
            let file = libc::open(path(c"locks"), O_RDWR);
            tell(
                "free for others",
                libc::fcntl(file, libc::F_SETLK, &lock(F_WRLCK, AT, 1)),
            );
            libc::_exit(0);
        }
        libc::waitpid(other, std::ptr::null_mut(), 0);
    }
}

/// A waiter that has got its lock but has not run yet waits for nobody, so waiting for it is no
/// deadlock.
fn circles(file: c_int) {
    const ROUNDS: usize = 100;
    let mut done = 0;
    for _ in 0..ROUNDS {
        // SAFETY: every pointer passed is to a live value of the right type; the child ends by
        // _exit.
        unsafe {
            let mut ends = [0; 2];
            libc::pipe(ends.as_mut_ptr());
            set(file, F_WRLCK, 100, 1);
            let child = libc::fork();
            if child == 0 {
                set(file, F_WRLCK, 101, 1);
                libc::write(ends[1], c"x".as_ptr().cast(), 1);
                libc::fcntl(file, libc::F_SETLKW, &lock(F_WRLCK, 100, 1));
                libc::_exit(0);
            }
            let mut byte = 0u8;
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            let stat = format!("/proc/{child}/stat");
            while !std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S ")) {
                std::thread::yield_now();
            }
            set(file, F_UNLCK, 100, 1);
            if libc::fcntl(file, libc::F_SETLKW, &lock(F_WRLCK, 101, 1)) == 0 {
                done += 1;
            }
            libc::waitpid(child, std::ptr::null_mut(), 0);
            set(file, F_UNLCK, 0, 0);
            libc::close(ends[0]);
            libc::close(ends[1]);
        }
    }
    println!("no circle {done} times of {ROUNDS}");
}

fn refused(file: c_int) {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        let mut odd = lock(F_UNLCK, 0, 1);
        tell("who holds none", libc::fcntl(file, libc::F_GETLK, &mut odd));
        odd = lock(99, 0, 1);
        tell(
            "an odd kind asked",
            libc::fcntl(file, libc::F_GETLK, &mut odd),
        );
        tell("an odd kind set", libc::fcntl(file, libc::F_SETLK, &odd));
        odd = lock(F_WRLCK, -1, 1);
        tell("before the start", libc::fcntl(file, libc::F_SETLK, &odd));
        odd = lock(F_WRLCK, 5, -10);
        tell("a length before it", libc::fcntl(file, libc::F_SETLK, &odd));
        odd = lock(F_WRLCK, i64::MAX, 2);
        tell("beyond the end", libc::fcntl(file, libc::F_SETLK, &odd));
        odd = lock(F_WRLCK, 0, 1);
        odd.l_pid = 1;
        tell(
            "of a file, for a process",
            libc::fcntl(file, libc::F_OFD_SETLK, &odd),
        );
    }
}

/// F_SETSIG and F_GETSIG, which crate `libc` lacks for musl.
const SET_SIGNAL: c_int = 10;
const GET_SIGNAL: c_int = 11;
/// A real-time signal that neither C library reserves.
const REAL_TIME: c_int = 35;

/// The last signal about [`LEASE`].
static SIGNAL: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);
/// The file with a lease.
static LEASE: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(-1);

extern "C" fn give_back(signal: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let file = LEASE.load(relaxed);
    // SAFETY: the kernel passes a complete siginfo, which holds the descriptor for such a code.
    unsafe {
        let told = signal != libc::SIGIO && (&raw const *info).cast::<i32>().add(6).read() == file;
        SIGNAL.store(if told { -signal } else { signal }, relaxed);
        libc::fcntl(file, libc::F_SETLEASE, F_UNLCK);
    }
}

/// An open for writing breaks all leases before it waits for the first.
fn several() {
    // SAFETY: every pointer passed is to a live value of the right type.
    let asked = || unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        let readers = [0; 2].map(|_| libc::open(path(c"leased"), libc::O_RDONLY));
        for reader in readers {
            tell("  lease", libc::fcntl(reader, libc::F_SETLEASE, F_RDLCK));
        }
        let flags = libc::O_WRONLY | libc::O_NONBLOCK;
        tell("  open", libc::open(path(c"leased"), flags));
        for reader in readers {
            tell("  it is", libc::fcntl(reader, libc::F_GETLEASE));
        }
    };
    println!("all are asked at once");
    in_child(asked);
}

/// Leases: the conditions to take one, and the effect of an open by another process.
fn leases() {
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = give_back as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGIO, &action, std::ptr::null_mut());
        libc::sigaction(REAL_TIME, &action, std::ptr::null_mut());
        let writer = libc::open(path(c"leased"), O_RDWR | O_CREAT, 0o644);
        let reader = libc::open(path(c"leased"), libc::O_RDONLY);
        let set = |file, kind: c_int| libc::fcntl(file, libc::F_SETLEASE, kind);
        tell("none to begin with", libc::fcntl(reader, libc::F_GETLEASE));
        tell("to read what is open to write", set(reader, F_RDLCK));
        tell("to write what is open elsewhere", set(writer, F_WRLCK));
        tell("none to give back", set(reader, F_UNLCK));
        tell("an odd kind", set(reader, 9));
        libc::close(reader);
        tell("to read by who can write", set(writer, F_RDLCK));
        tell("to write", set(writer, F_WRLCK));
        tell("it is", libc::fcntl(writer, libc::F_GETLEASE));
        LEASE.store(writer, relaxed);
        let open = |flags| {
            let status = in_child(|| {
                let file = libc::open(path(c"leased"), flags);
                if file < 0 {
                    tell("open", file);
                }
                libc::_exit(i32::from(file < 0));
            });
            println!("opened {} signal {}", status == 0, SIGNAL.swap(0, relaxed));
        };
        open(libc::O_RDONLY);
        tell("it is", libc::fcntl(writer, libc::F_GETLEASE));
        tell("its signal", libc::fcntl(writer, SET_SIGNAL, REAL_TIME));
        println!("is it: {}", libc::fcntl(writer, GET_SIGNAL) == REAL_TIME);
        set(writer, F_WRLCK);
        open(libc::O_WRONLY);
        libc::close(writer);
        several();
        let reader = libc::open(path(c"leased"), libc::O_RDONLY);
        LEASE.store(reader, relaxed);
        tell("to read", set(reader, F_RDLCK));
        open(libc::O_RDONLY);
        tell("it is still", libc::fcntl(reader, libc::F_GETLEASE));
        open(libc::O_WRONLY);
    }
}

/// Signals for data to read, and their receivers.
fn told_of_data() {
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        LEASE.store(ends[0], relaxed);
        tell("nobody", libc::fcntl(ends[0], libc::F_GETOWN));
        tell(
            "nobody of that number",
            libc::fcntl(ends[0], libc::F_SETOWN, 0x3f_ffff),
        );
        tell("no such signal", libc::fcntl(ends[0], SET_SIGNAL, 65));
        libc::fcntl(ends[0], libc::F_SETOWN, libc::getpid());
        println!(
            "this process: {}",
            libc::fcntl(ends[0], libc::F_GETOWN) == libc::getpid()
        );
        let flags = libc::fcntl(ends[0], libc::F_GETFL);
        tell(
            "signals from now on",
            libc::fcntl(ends[0], libc::F_SETFL, flags | libc::O_ASYNC),
        );
        libc::write(ends[1], c"x".as_ptr().cast(), 1);
        println!("signal {}", SIGNAL.swap(0, relaxed));
        libc::fcntl(ends[0], SET_SIGNAL, REAL_TIME);
        libc::write(ends[1], c"x".as_ptr().cast(), 1);
        println!("told which: {}", SIGNAL.swap(0, relaxed) < 0);
        libc::fcntl(ends[0], libc::F_SETFL, flags);
        libc::write(ends[1], c"x".as_ptr().cast(), 1);
        println!("no more: {}", SIGNAL.swap(0, relaxed));
    }
}

/// Signals about a socket: room is signalled only to a writer that lacked it.
fn told_of_room() {
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
        // SAFETY: every pointer passed is to a live value of the right type.
        unsafe {
            let mut ends = [0; 2];
            libc::socketpair(
                libc::AF_UNIX,
                kind | libc::SOCK_NONBLOCK,
                0,
                ends.as_mut_ptr(),
            );
            LEASE.store(ends[0], relaxed);
            libc::fcntl(ends[0], libc::F_SETOWN, libc::getpid());
            let flags = libc::fcntl(ends[0], libc::F_GETFL);
            libc::fcntl(ends[0], libc::F_SETFL, flags | libc::O_ASYNC);
            let mut bytes = [0_u8; 4096];
            let mut read = |end: c_int| libc::read(end, bytes.as_mut_ptr().cast(), bytes.len());
            let write = |end: c_int| libc::write(end, [7_u8; 4096].as_ptr().cast(), 4096);
            let told = |what| println!("{what}: signal {}", SIGNAL.swap(0, relaxed));
            write(ends[0]);
            read(ends[1]);
            told("read by the other end");
            write(ends[1]);
            told("written by the other end");
            read(ends[0]);
            told("read by this one");
            while write(ends[0]) > 0 {}
            told("full");
            while read(ends[1]) > 0 {}
            told("empty again");
            write(ends[0]);
            read(ends[1]);
            told("and once more");
            libc::close(ends[1]);
            told("closed");
            libc::close(ends[0]);
        }
    }
}
