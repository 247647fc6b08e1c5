//! Counts in /proc and statfs(2): memory by kind, context switches, processes, inodes.

use std::ffi::CStr;
use std::mem;
use std::ptr;

use libc::c_int;

use crate::{in_child, tell, tell_end};

const PAGE: usize = 4096;
/// The number of attempts of a part that other processes may disturb.
const TRIES: usize = 10;

/// Runs this part.
pub fn run() {
    // SAFETY: the mappings are this program's own, and every structure passed is complete.
    unsafe {
        memory();
        machine();
        tell_end("a CPU's time", in_child(cpu_time));
        interrupts();
        inodes();
    }
}

/// The value in KiB of a line of /proc/self/status.
fn status(name: &str) -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches([':', '\t', ' '])
        .split(' ')
        .next()?
        .parse()
        .ok()
}

fn statm() -> [i64; 7] {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut fields = text
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(-1));
    std::array::from_fn(|_| fields.next().unwrap_or(-1))
}

unsafe fn memory() {
    unsafe {
        let names = [
            "VmPeak", "VmSize", "VmLck", "VmHWM", "VmRSS", "RssAnon", "RssFile", "RssShmem",
            "VmData", "VmStk", "VmExe", "VmLib", "VmPTE", "VmSwap",
        ];
        for name in names {
            println!("{name}: {}", status(name).is_some());
        }
        let sum = |names: &[&str]| names.iter().filter_map(|name| status(name)).sum::<i64>();
        println!(
            "sum: {}",
            sum(&["RssAnon", "RssFile", "RssShmem"]) == sum(&["VmRSS"])
        );
        // Shows how much a mapping of 1 MiB adds, in eighths of a MiB.
        let eighths = |before: i64, after: i64| (after - before) / 128;
        let map = |rights: c_int, flags: c_int| {
            let size = 1 << 20;
            let at = libc::mmap(ptr::null_mut(), size, rights, flags | 0x20, -1, 0);
            at.cast::<u8>()
        };
        for (what, rights, flags) in [
            ("private", 3, libc::MAP_PRIVATE),
            ("shared", 3, libc::MAP_SHARED),
            ("read only", 1, libc::MAP_PRIVATE),
            ("instructions", 5, libc::MAP_PRIVATE),
        ] {
            let kinds = ["VmSize", "VmData", "VmStk", "VmExe", "VmLib"];
            let before = kinds.map(|kind| status(kind).unwrap_or(0));
            let fields = statm();
            let at = map(rights, flags);
            let after = kinds.map(|kind| status(kind).unwrap_or(0));
            let now = statm();
            let grown: Vec<_> = (0..5)
                .map(|kind| eighths(before[kind], after[kind]))
                .collect();
            println!("{what}: {grown:?}");
            let grown: Vec<_> = [0, 3, 5].map(|at| (now[at] - fields[at]) / 32).to_vec();
            println!("  {grown:?}");
            if rights & 2 != 0 {
                let kinds = ["VmRSS", "RssAnon", "RssShmem"];
                let before = kinds.map(|kind| status(kind).unwrap_or(0));
                let fields = statm();
                for page in 0..256 {
                    *at.add(page * PAGE) = 1;
                }
                let after = kinds.map(|kind| status(kind).unwrap_or(0));
                let now = statm();
                let grown: Vec<_> = (0..3)
                    .map(|kind| eighths(before[kind], after[kind]))
                    .collect();
                println!("  touched: {grown:?}, {}", (now[2] - fields[2]) / 32);
            }
            libc::munmap(at.cast(), 1 << 20);
        }
        // The peak does not fall.
        let before = status("VmPeak").unwrap_or(0);
        let size = 64 << 20;
        let at = libc::mmap(ptr::null_mut(), size, 0, 0x22, -1, 0);
        let with = status("VmPeak").unwrap_or(0);
        libc::munmap(at, size);
        let after = status("VmPeak").unwrap_or(0);
        println!(
            "peak: {}, stays: {}",
            with >= before + (60 << 10),
            after >= with
        );
        println!(
            "more than the size: {}",
            after > status("VmSize").unwrap_or(0) + (60 << 10)
        );
    }
}

/// A number of /proc/stat.
fn stat(name: &str) -> i64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(-1)
}

/// A CPU's time in programs, idle time and total time, in hundredths of a second.
fn cpu(cpu: usize) -> [i64; 3] {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let name = format!("cpu{cpu} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    let fields: Vec<i64> = line
        .unwrap_or_default()
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(-1))
        .collect();
    [fields[0] + fields[2], fields[3], fields.iter().sum()]
}

/// The CPU time of a busy program counts for its CPU.
fn cpu_time() {
    let used = || {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the time outlives the call.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec * 100 + time.tv_nsec / 10_000_000
    };
    // SAFETY: all zeroes is an empty set, and the set is valid for the call.
    let last = unsafe {
        let last = libc::sysconf(libc::_SC_NPROCESSORS_ONLN) as usize - 1;
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(last, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        last
    };
    let busy = || -> Vec<i64> { (0..=last).map(|number| cpu(number)[0]).collect() };
    let (began, before) = (used(), busy());
    // If the host delays the machine, the CPU may be charged less than the thread itself, and other
    // CPUs for unrelated work; the share of the latter falls as this thread goes on.
    let is_enough = |grown: &[i64]| {
        let (own, others) = grown.split_last().unwrap_or((&0, &[]));
        *own >= 50 && others.iter().all(|other| 2 * other < *own)
    };
    let mut grown = Vec::new();
    while !is_enough(&grown) && used() < began + 2000 {
        grown = busy()
            .iter()
            .zip(&before)
            .map(|(now, then)| now - then)
            .collect();
    }
    let own = grown.pop().unwrap_or(0);
    println!("it was busy: {}", own >= 50);
    println!("others less: {}", grown.iter().all(|other| 2 * other < own));
    let [busy, idle, all] = cpu(last);
    println!("all of its time: {}", all >= busy + idle);
    let rests = || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        cpu(last)[1] >= idle + 20
    };
    println!("it rests meanwhile: {}", (0..50).any(|_| rests()));
}

/// Interrupts are counted, for each CPU and in total.
fn interrupts() {
    let sum = || -> i64 {
        let text = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
        let words = text.split_whitespace();
        words.filter_map(|word| word.parse::<i64>().ok()).sum()
    };
    let first = || {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("intr "));
        let number = line.and_then(|line| line.split(' ').next()?.parse().ok());
        number.unwrap_or(-1i64)
    };
    let (before, all) = (sum(), first());
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    println!(
        "interrupts: {}, altogether: {}",
        sum() - before >= 10,
        first() - all >= 10
    );
}

fn machine() {
    // Other processes may fork meanwhile.
    let counted = (0..TRIES).find_map(|_| {
        let (switches, made) = (stat("ctxt "), stat("processes "));
        for _ in 0..20 {
            in_child(|| {});
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let (more, forks) = (stat("ctxt ") - switches, stat("processes ") - made);
        Some(more >= 20).filter(|_| (20..40).contains(&forks))
    });
    println!(
        "switches: {}, processes: {}",
        counted == Some(true),
        counted.is_some()
    );
    let made = stat("processes ");
    std::thread::spawn(|| {}).join().expect("it ends");
    println!("a thread counts: {}", stat("processes ") > made);
    println!("running: {}", stat("procs_running ") >= 1);
    tell("blocked", stat("procs_blocked ").min(0));
}

/// statfs(2) of a tmpfs with limits.
unsafe fn inodes() {
    unsafe {
        libc::mkdir(c"/tmp/counted".as_ptr(), 0o755);
        let mount = |options: &CStr| {
            tell(
                options.to_str().expect("ASCII"),
                libc::mount(
                    c"none".as_ptr(),
                    c"/tmp/counted".as_ptr(),
                    c"tmpfs".as_ptr(),
                    0,
                    options.as_ptr().cast(),
                ),
            );
        };
        let show = |what: &str| {
            let mut told: libc::statfs = mem::zeroed();
            libc::statfs(c"/tmp/counted".as_ptr(), &mut told);
            println!(
                "{what}: {} {} {} blocks of {}, {} {} inodes",
                told.f_blocks,
                told.f_bfree,
                told.f_bavail,
                told.f_bsize,
                told.f_files,
                told.f_ffree
            );
        };
        mount(c"size=1m,nr_inodes=100");
        show("empty");
        std::fs::write("/tmp/counted/file", vec![7; 5 * PAGE]).expect("room");
        show("a file of five pages");
        std::fs::create_dir("/tmp/counted/folder").expect("room");
        show("a folder");
        libc::symlink(c"file".as_ptr(), c"/tmp/counted/link".as_ptr());
        libc::link(
            c"/tmp/counted/file".as_ptr(),
            c"/tmp/counted/other".as_ptr(),
        );
        show("links");
        for name in ["file", "other", "link"] {
            std::fs::remove_file(format!("/tmp/counted/{name}")).expect("it is there");
        }
        show("without");
        libc::umount(c"/tmp/counted".as_ptr());
        libc::rmdir(c"/tmp/counted".as_ptr());
    }
}
