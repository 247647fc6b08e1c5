//! Resource usage of threads and processes: page faults, memory, context switches, I/O, and
//! permission to see a program's addresses.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, hint, mem, ptr, thread};

use crate::{in_child, tell_end};

const PAGE: usize = 4096;
/// The number of touched pages in tests of faults.
const PAGES: usize = 64;
/// More than other usage meanwhile, in KiB.
const LARGE: i64 = 16 << 10;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        faults();
        memory();
        switches();
        places();
        transfers();
    }
    delays();
}

unsafe fn usage(who: i32) -> libc::rusage {
    unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    }
}

/// Maps private memory in small pages, none of them present.
unsafe fn map(len: usize, flags: i32) -> *mut u8 {
    unsafe {
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let place = libc::mmap(ptr::null_mut(), len, 3, flags, -1, 0).cast::<u8>();
        libc::madvise(place.cast(), len, libc::MADV_NOHUGEPAGE);
        place
    }
}

unsafe fn write_to(place: *mut u8, len: usize) {
    for at in (0..len).step_by(PAGE) {
        // SAFETY: the caller has mapped it.
        unsafe { place.add(at).write_volatile(1) };
    }
}

/// A field of a `stat` file of /proc, numbered as in proc(5).
fn field(stat: &str, number: usize) -> u64 {
    let stat = fs::read_to_string(stat).unwrap_or_default();
    let rest = stat.rsplit(") ").next().unwrap_or("");
    let field = rest.split_whitespace().nth(number - 3).unwrap_or("");
    field.parse().unwrap_or(u64::MAX)
}

/// Prints the number of faults of `work`, or whether it is about `PAGES`.
unsafe fn count(what: &str, who: i32, work: impl FnOnce()) {
    unsafe {
        let before = usage(who);
        work();
        let after = usage(who);
        let faults = after.ru_minflt - before.ru_minflt;
        let seems = match faults {
            0..32 => "few".to_owned(),
            64..96 => "one a page".to_owned(),
            other => other.to_string(),
        };
        let major = after.ru_majflt - before.ru_majflt;
        println!("{what}: {seems}, {major}");
    }
}

unsafe fn faults() {
    unsafe {
        let len = PAGES * PAGE;
        let place = map(len, 0);
        count("written", libc::RUSAGE_SELF, || write_to(place, len));
        count("written again", libc::RUSAGE_SELF, || write_to(place, len));
        let place = map(len, 0);
        count("read", libc::RUSAGE_THREAD, || {
            (0..len)
                .step_by(PAGE)
                .for_each(|at| crate::touch(place.add(at)));
        });
        count("then written", libc::RUSAGE_THREAD, || write_to(place, len));
        let place = map(len, 0);
        let mut zeroes = fs::File::open("/dev/zero").expect("/dev/zero");
        count("read into", libc::RUSAGE_SELF, || {
            _ = zeroes.read(std::slice::from_raw_parts_mut(place, len));
        });
        count("populated", libc::RUSAGE_SELF, || {
            map(len, libc::MAP_POPULATE);
        });
        count("by another thread", libc::RUSAGE_SELF, || {
            _ = thread::spawn(move || write_to(map(len, 0), len)).join();
        });
        count("not by this one", libc::RUSAGE_THREAD, || {
            _ = thread::spawn(move || write_to(map(len, 0), len)).join();
        });
        let told = field("/proc/self/stat", 10);
        let own = usage(libc::RUSAGE_SELF).ru_minflt as u64;
        println!("stat: {}", told > 4 * 64 && told <= own);
        let of_thread = field("/proc/thread-self/stat", 10);
        println!("stat of a thread: {}", of_thread + 64 < told);
        println!("major: {}", field("/proc/self/stat", 12));
        let before = field("/proc/self/stat", 11);
        count("by a child", libc::RUSAGE_CHILDREN, || {
            in_child(|| {
                let first = usage(libc::RUSAGE_SELF).ru_minflt;
                println!("a child begins anew: {}", first < 64);
                write_to(map(len, 0), len);
            });
        });
        let after = field("/proc/self/stat", 11);
        println!("stat of children: {}", after - before >= 64);
        println!("major: {}", field("/proc/self/stat", 13));
    }
}

/// A line of /proc/self/status, in KiB.
fn status(name: &str) -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_whitespace().nth(1));
    value.and_then(|value| value.parse().ok()).unwrap_or(-1)
}

/// Whether `kib` is about `more` above `before`.
fn is_about(kib: i64, before: i64, more: i64) -> bool {
    (kib - before - more).abs() < LARGE / 4
}

unsafe fn memory() {
    unsafe {
        let len = LARGE as usize * 1024;
        let before = usage(libc::RUSAGE_SELF).ru_maxrss;
        println!("status: {}", is_about(status("VmHWM"), before, 0));
        let place = map(len, 0);
        println!("untouched: {}", is_about(usage(0).ru_maxrss, before, 0));
        write_to(place, len);
        println!("touched: {}", is_about(usage(0).ru_maxrss, before, LARGE));
        println!("status: {}", is_about(status("VmRSS"), before, LARGE));
        libc::munmap(place.cast(), len);
        println!("unmapped: {}", is_about(usage(0).ru_maxrss, before, LARGE));
        println!("status: {}", is_about(status("VmHWM"), before, LARGE));
        println!("but: {}", is_about(status("VmRSS"), before, 0));
        let place = map(len, 0);
        write_to(place, len);
        libc::madvise(place.cast(), len, libc::MADV_DONTNEED);
        println!("again: {}", is_about(usage(0).ru_maxrss, before, LARGE));
        println!("a thread: {}", is_about(usage(1).ru_maxrss, before, LARGE));
        _ = fs::write("/proc/self/clear_refs", "5");
        println!("cleared: {}", is_about(status("VmHWM"), before, 0));
        in_child(|| println!("a child's: {}", is_about(usage(0).ru_maxrss, before, 0)));
        println!("children: {}", is_about(usage(-1).ru_maxrss, before, 0));
        let child = libc::fork();
        if child == 0 {
            write_to(map(2 * len, 0), 2 * len);
            libc::_exit(0);
        }
        let mut used: libc::rusage = mem::zeroed();
        libc::wait4(child, ptr::null_mut(), 0, &mut used);
        println!(
            "of a child: {}",
            is_about(used.ru_maxrss, before, 2 * LARGE)
        );
        println!(
            "children: {}",
            is_about(usage(-1).ru_maxrss, before, 2 * LARGE)
        );
        println!(
            "not its parent's: {}",
            is_about(usage(0).ru_maxrss, before, 0)
        );
        in_child(|| {
            write_to(map(len, 0), len);
            let none = [ptr::null()];
            let arguments = [c"abi".as_ptr(), c"exec".as_ptr(), ptr::null()];
            libc::execve(
                c"/proc/self/exe".as_ptr(),
                arguments.as_ptr(),
                none.as_ptr(),
            );
        });
    }
}

unsafe fn switches() {
    unsafe {
        // Other programs run on other CPUs, or not for long.
        libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &[1u64]);
        // On a slow machine the time of a sleep may be over already.
        let slept = (0..20).any(|_| {
            let before = usage(libc::RUSAGE_THREAD).ru_nvcsw;
            for _ in 0..5 {
                let short = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 20_000_000,
                };
                libc::nanosleep(&short, ptr::null_mut());
            }
            usage(libc::RUSAGE_THREAD).ru_nvcsw - before == 5
        });
        println!("slept: {slept}");
        let after = usage(libc::RUSAGE_THREAD);
        println!(
            "messages: {}, signals: {}",
            after.ru_msgrcv, after.ru_nsignals
        );
        let status = status("voluntary_ctxt_switches");
        println!(
            "status: {}",
            status >= after.ru_nvcsw && status < after.ru_nvcsw + 20
        );
        let yields = || {
            let before = usage(libc::RUSAGE_THREAD);
            (0..1000).for_each(|_| _ = libc::sched_yield());
            let after = usage(libc::RUSAGE_THREAD);
            (
                after.ru_nivcsw - before.ru_nivcsw,
                after.ru_nvcsw - before.ru_nvcsw,
            )
        };
        let other = thread::spawn(yields);
        let own = yields();
        let other = other.join().unwrap_or_default();
        println!("yielded: {}", own.0 + other.0 >= 100);
        println!(
            "all of a process: {}",
            usage(0).ru_nivcsw >= own.0 + other.0
        );
        libc::syscall(libc::SYS_sched_setaffinity, 0, 8, &[u64::MAX]);
    }
}

/// The start and the end of the first mapping whose line in `/proc/self/maps` ends with `end`.
fn mapping(end: &str) -> (u64, u64) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let line = maps.lines().find(|line| line.ends_with(end)).unwrap_or("");
    let range = line.split(' ').next().unwrap_or("");
    let (start, end) = range.split_once('-').unwrap_or(("0", "0"));
    let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
    (number(start), number(end))
}

unsafe fn places() {
    unsafe {
        let stat = "/proc/self/stat";
        let own = run as fn() as usize as u64;
        let [code, code_end] = [26, 27].map(|number| field(stat, number));
        println!("code: {}", code < own && own < code_end);
        let stack = mapping("[stack]");
        println!("stack: {}", (stack.0..stack.1).contains(&field(stat, 28)));
        println!("registers: {} {}", field(stat, 29), field(stat, 30));
        println!("waits: {}", field(stat, 35));
        let [data, data_end] = [45, 46].map(|number| field(stat, number));
        println!("data: {}", code <= data && data < data_end);
        static mut WRITTEN: u64 = 1;
        let written = &raw mut WRITTEN as usize as u64;
        hint::black_box(written);
        println!("of it: {}", data <= written && written < data_end);
        let heap = field(stat, 47);
        println!("heap: {}", data_end <= heap && heap <= libc::sbrk(0) as u64);
        let [from, to, environment, last] = [48, 49, 50, 51].map(|number| field(stat, number));
        let inside = |place: u64| stack.0 <= place && place <= stack.1;
        println!(
            "arguments: {}",
            inside(from) && from < to && to <= environment
        );
        println!("environment: {}", environment <= last && inside(last));
        let told = |what: &str, path: &str| {
            let seen = [26, 27, 28, 35, 45, 46, 47, 48, 49, 50, 51, 52].map(|at| field(path, at));
            println!("{what}: {seen:?}");
        };
        let parent = format!("/proc/{}/stat", libc::getpid());
        let child = libc::fork();
        if child == 0 {
            libc::setresuid(1000, 1000, 1000);
            libc::_exit(3);
        }
        let mut info: libc::siginfo_t = mem::zeroed();
        let options = libc::WEXITED | libc::WNOWAIT;
        libc::waitid(libc::P_PID, child as _, &mut info, options);
        told("of who has ended", &format!("/proc/{child}/stat"));
        tell_end(
            "as somebody",
            in_child(|| {
                libc::setresuid(2000, 2000, 2000);
                told("of root's", &parent);
                told("of who has ended", &format!("/proc/{child}/stat"));
                let io = fs::read("/proc/1/io");
                println!(
                    "transfers: {:?}",
                    io.map(drop).map_err(|error| error.kind())
                );
            }),
        );
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

/// The numbers in an `io` file of /proc.
fn io(path: &str) -> Vec<i64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let numbers = text.lines().filter_map(|line| line.split(": ").nth(1));
    numbers.map(|number| number.parse().unwrap_or(-1)).collect()
}

unsafe fn transfers() {
    unsafe {
        let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let names = text.lines().filter_map(|line| line.split(':').next());
        println!("{:?}", names.collect::<Vec<_>>());
        // Reads of the counters themselves disappear in the division by `unit`.
        let seen = |what: &str, unit: i64, work: &mut dyn FnMut()| {
            let before = io("/proc/thread-self/io");
            work();
            let after = io("/proc/thread-self/io");
            let more: Vec<_> = after
                .iter()
                .zip(&before)
                .map(|(a, b)| (a - b) / unit)
                .collect();
            println!("{what}: {:?}", &more[..4]);
        };
        let mut zeroes = fs::File::open("/dev/zero").expect("/dev/zero");
        let mut nothing = fs::File::create("/dev/null").expect("/dev/null");
        let mut buffer = [0; 4096];
        seen("read", 4096 * 10, &mut || {
            (0..10).for_each(|_| _ = zeroes.read(&mut buffer));
        });
        seen("written", 4096 * 10, &mut || {
            (0..10).for_each(|_| _ = nothing.write(&buffer));
        });
        seen("calls", 1000, &mut || {
            (0..1000).for_each(|_| _ = zeroes.read(&mut buffer[..1]));
            (0..1000).for_each(|_| _ = nothing.write(&buffer[..1]));
        });
        seen("by pieces", 4096 * 10, &mut || {
            let piece = libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: 2048,
            };
            for _ in 0..10 {
                libc::readv(3, &[piece, piece] as *const _, 2);
                libc::writev(4, &[piece, piece] as *const _, 2);
            }
        });
        let mut pair = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
        seen("failed", 1000, &mut || {
            libc::fcntl(pair[0], libc::F_SETFL, libc::O_NONBLOCK);
            (0..1000).for_each(|_| _ = libc::read(pair[0], buffer.as_mut_ptr().cast(), 1));
            (0..1000).for_each(|_| _ = libc::read(99, buffer.as_mut_ptr().cast(), 1));
        });
        seen("sent", 1000, &mut || {
            for _ in 0..1000 {
                libc::send(pair[0], buffer.as_ptr().cast(), 1, 0);
                libc::recv(pair[1], buffer.as_mut_ptr().cast(), 1, 0);
            }
        });
        let before = io("/proc/self/io")[3];
        _ = thread::spawn(move || {
            (0..1000).for_each(|_| _ = nothing.write(b"x"));
        })
        .join();
        in_child(|| {
            let mut nothing = fs::File::create("/dev/null").expect("/dev/null");
            (0..1000).for_each(|_| _ = nothing.write(b"x"));
        });
        println!(
            "by a thread and a child: {}",
            (io("/proc/self/io")[3] - before) / 1000
        );
    }
}

/// The run time and the wait time of a thread in ns, and its number of time slices.
fn schedstat(path: &str) -> Vec<u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .map(|field| field.parse().unwrap_or(u64::MAX))
        .collect()
}

/// The time that a thread waits for its CPU, beside another thread that computes there.
fn delays() {
    const MS: u64 = 1_000_000;
    let done = Arc::new(AtomicBool::new(false));
    // SAFETY: all zeroes is an empty set, and the set is valid for the call.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(0, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
    }
    let own = "/proc/thread-self/schedstat";
    let begin = schedstat(own);
    println!("schedstat: {} fields", begin.len());
    let grown = || {
        let now = schedstat(own);
        [0, 1, 2].map(|at| now[at] - begin[at])
    };
    let hog = thread::spawn({
        let done = done.clone();
        move || while !done.load(Relaxed) {}
    });
    while {
        let [ran, waited, turns] = grown();
        ran < 5 * MS || waited < 50 * MS || turns < 4
    } {}
    println!("it ran and waited by turns");
    done.store(true, Relaxed);
    _ = hog.join();
    let mut after = grown();
    let slept = (0..20).any(|_| {
        let before = after;
        thread::sleep(Duration::from_millis(10));
        after = grown();
        after[2] > before[2]
    });
    println!("sleep is a turn: {slept}");
    let first = schedstat("/proc/self/schedstat");
    println!("of its process: {}", first[0] >= after[0]);
}
