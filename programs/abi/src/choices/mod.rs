//! Arguments that are choices, by number or as flags: the result of each value.

mod effects;
mod files;

use std::ffi::CStr;
use std::ops::Range;
use std::{mem, ptr};

use libc::{
    AT_FDCWD, MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, O_CREAT, O_RDWR, PROT_READ, PROT_WRITE,
    c_int, c_long, c_uint, c_void,
};

use crate::{error, in_child, path, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        futexes();
        waits();
        files::memory_files();
        events();
        pipes();
        order();
        compared();
        effects::shared();
        effects::whiteouts();
        scheduled();
        machine();
        preferred();
        descriptors();
        files::paths();
        files::files();
        memory();
    }
}

const PAGE: usize = 4096;
/// Open flags whose bits depend on the architecture, from O_DIRECT on.
const VARYING: Range<u32> = 14..18;
/// Names in a tmpfs.
const IT: &CStr = c"/tmp/it";
const TWO: &CStr = c"/tmp/two";
const NONE: &CStr = c"/tmp/none";

/// The outcome of a call.
fn outcome(result: c_long) -> String {
    match result {
        -1 => error().to_owned(),
        0.. => "done".to_owned(),
        other => other.to_string(),
    }
}

/// Prints the result for each of `values`; consecutive ones with the same result as a range.
fn table(what: &str, values: impl Iterator<Item = u64>, mut call: impl FnMut(u64) -> c_long) {
    let mut all: Vec<(String, Vec<(usize, u64, u64)>)> = Vec::new();
    for (at, value) in values.enumerate() {
        let outcome = outcome(call(value));
        let known = all.iter_mut().find(|(known, _)| *known == outcome);
        match known.map(|(_, ranges)| (ranges.last().copied(), ranges)) {
            Some((Some((last, first, _)), ranges)) if last + 1 == at => {
                ranges.pop();
                ranges.push((at, first, value));
            }
            Some((_, ranges)) => ranges.push((at, value, value)),
            None => all.push((outcome, vec![(at, value, value)])),
        }
    }
    for (outcome, ranges) in all {
        let told = ranges.iter().map(|(_, first, last)| match first == last {
            true => format!(" {first:#x}"),
            false => format!(" {first:#x}..{last:#x}"),
        });
        println!("{what}: {outcome}:{}", told.collect::<String>());
    }
}

/// Prints the result for no flag, and for each of the lowest `count` bits alone.
fn bits(what: &str, count: u32, call: impl FnMut(u64) -> c_long) {
    let values = (0..count).map(|bit| 1u64 << bit);
    table(what, [0].into_iter().chain(values), call);
}

/// Prints the result for the first numbers, and for some large ones.
fn numbers(what: &str, count: u64, call: impl FnMut(u64) -> c_long) {
    table(what, (0..count).chain([0x7fff_ffff, 0xffff_ffff]), call);
}

/// A file of this length in the current folder.
unsafe fn file(name: &'static CStr, length: i64) -> c_int {
    unsafe {
        let file = libc::open(path(name), O_RDWR | O_CREAT, 0o644);
        libc::ftruncate(file, length);
        file
    }
}

unsafe fn closed(fd: c_long) -> c_long {
    if fd >= 0 {
        unsafe { libc::close(fd as c_int) };
    }
    fd
}

unsafe fn futexes() {
    unsafe {
        let words = [0u32; 4];
        let soon = [0i64, 1];
        let futex = |operation: u64, third: c_uint| {
            let (word, other) = (&raw const words[0], &raw const words[1]);
            // A timeout for those that wait, and a number for the others.
            let second = match operation & 127 {
                3..=5 | 12 => 1,
                _ => soon.as_ptr().addr(),
            };
            libc::syscall(libc::SYS_futex, word, operation, 0, second, other, third)
        };
        // Operations that nobody else waits for: without those that lock, except for the kinds that
        // refuse a clock.
        numbers("futex", 6, |operation| futex(operation, 0));
        table("futex", [9, 10, 12, 14, 15, 16].into_iter(), |operation| {
            futex(operation, 1)
        });
        table(
            "futex of a clock",
            (0..14).map(|command| command | 256),
            |operation| futex(operation, 1),
        );
        bits("futex, other bits", 12, |bit| futex(bit << 7 | 1, 1));
        let waiter = |flags: u64| [0u64, words.as_ptr().addr() as u64, flags];
        let monotonic = libc::CLOCK_MONOTONIC;
        let long_ago = [0i64, 1];
        bits("futex_waitv", 8, |flags| {
            libc::syscall(449, &waiter(2), 1, flags, &long_ago, monotonic)
        });
        bits("a word of futex_waitv", 33, |flags| {
            libc::syscall(449, &waiter(flags | 2), 1, 0, &long_ago, monotonic)
        });
        numbers("the clock of futex_waitv", 12, |clock| {
            libc::syscall(449, &waiter(2), 1, 0, &long_ago, clock)
        });
        bits("futex_wake", 33, |flags| {
            libc::syscall(454, &words, 1, 1, flags | 2)
        });
        bits("futex_wait", 33, |flags| {
            libc::syscall(455, &words, 0, 1, flags | 2, &long_ago, monotonic)
        });
        numbers("operation of FUTEX_WAKE_OP", 16, |operation| {
            let changed = [0u32; 1];
            let third = operation << 28 | 1 << 12;
            libc::syscall(libc::SYS_futex, &words, 5, 1, 1usize, &changed, third)
        });
    }
}

unsafe fn waits() {
    unsafe {
        let none = ptr::null_mut::<c_void>();
        bits("wait4", 32, |options| {
            libc::syscall(libc::SYS_wait4, -1, none, options, none)
        });
        bits("waitid", 32, |options| {
            libc::syscall(libc::SYS_waitid, 0, 0, none, options, none)
        });
        bits("waitid for an end", 32, |options| {
            libc::syscall(libc::SYS_waitid, 0, 0, none, options | 4, none)
        });
        numbers("kind of waitid", 6, |kind| {
            libc::syscall(libc::SYS_waitid, kind, 1, none, 5, none)
        });
    }
}

unsafe fn events() {
    unsafe {
        bits("epoll_create1", 32, |flags| {
            closed(libc::syscall(libc::SYS_epoll_create1, flags))
        });
        let set = libc::epoll_create1(0);
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        numbers("epoll_ctl", 6, |operation| {
            let mut event = libc::epoll_event { events: 1, u64: 0 };
            libc::epoll_ctl(set, operation as c_int, ends[0], &mut event).into()
        });
        let of_member = |operation: c_int, file: c_int, events: u64| {
            let mut event = libc::epoll_event {
                events: events as u32,
                u64: 0,
            };
            libc::epoll_ctl(set, operation, file, &mut event).into()
        };
        bits("an epoll event", 32, |events| {
            let result = of_member(1, ends[0], events);
            of_member(2, ends[0], 0);
            result
        });
        bits("an exclusive epoll event", 32, |events| {
            let result = of_member(1, ends[0], events | 1 << 28);
            of_member(2, ends[0], 0);
            result
        });
        of_member(1, ends[0], 0);
        bits("another epoll event", 32, |events| {
            of_member(3, ends[0], events)
        });
        let inner = libc::epoll_create1(0);
        bits("the event of a set", 32, |events| {
            let result = of_member(1, inner, events);
            of_member(2, inner, 0);
            result
        });
        bits("eventfd2", 32, |flags| {
            closed(libc::syscall(libc::SYS_eventfd2, 0, flags))
        });
        bits("signalfd4", 32, |flags| {
            closed(libc::syscall(libc::SYS_signalfd4, -1, &0u64, 8, flags))
        });
        bits("timerfd_create", 32, |flags| {
            closed(libc::syscall(
                libc::SYS_timerfd_create,
                libc::CLOCK_MONOTONIC,
                flags,
            ))
        });
        numbers("clock of timerfd_create", 12, |clock| {
            closed(libc::syscall(libc::SYS_timerfd_create, clock, 0))
        });
        let timer = libc::timerfd_create(libc::CLOCK_REALTIME, 0);
        bits("timerfd_settime", 32, |flags| {
            libc::syscall(libc::SYS_timerfd_settime, timer, flags, &[0u64; 4], 0)
        });
        bits("inotify_init1", 32, |flags| {
            closed(libc::syscall(libc::SYS_inotify_init1, flags))
        });
        let watcher = libc::inotify_init1(0);
        bits("inotify_add_watch", 32, |mask| {
            libc::inotify_add_watch(watcher, c"/".as_ptr(), mask as u32).into()
        });
        bits("another inotify_add_watch", 32, |mask| {
            libc::inotify_add_watch(watcher, c"/".as_ptr(), mask as u32 | 1).into()
        });
        for file in [set, inner, timer, watcher, ends[0], ends[1]] {
            libc::close(file);
        }
    }
}

unsafe fn pipes() {
    unsafe {
        let mut ends = [0; 2];
        let known = [0].into_iter().chain(
            (0..32)
                .filter(|bit| !VARYING.contains(bit))
                .map(|bit| 1 << bit),
        );
        table("pipe2", known, |flags| {
            let result = libc::pipe2(ends.as_mut_ptr(), flags as c_int);
            if result == 0 {
                libc::close(ends[0]);
                libc::close(ends[1]);
            }
            result.into()
        });
        let (mut other, none) = ([0; 2], ptr::null_mut::<c_void>());
        libc::pipe(ends.as_mut_ptr());
        libc::pipe(other.as_mut_ptr());
        libc::write(ends[1], [0u8; 256].as_ptr().cast(), 256);
        bits("tee", 32, |flags| {
            libc::syscall(libc::SYS_tee, ends[0], other[1], 1, flags)
        });
        bits("splice", 32, |flags| {
            libc::syscall(libc::SYS_splice, ends[0], none, other[1], none, 1, flags)
        });
        let piece = [[0u8; 1].as_ptr().addr(), 1];
        bits("vmsplice", 32, |flags| {
            libc::syscall(libc::SYS_vmsplice, ends[1], &piece, 1, flags)
        });
        for file in [ends, other].into_iter().flatten() {
            libc::close(file);
        }
        let (from, to) = (file(c"from", 64), file(c"to", 64));
        bits("copy_file_range", 32, |flags| {
            libc::syscall(libc::SYS_copy_file_range, from, none, to, none, 1, flags)
        });
        let piece = [[0u8; 4].as_ptr().addr(), 1];
        bits("preadv2", 32, |flags| {
            libc::syscall(libc::SYS_preadv2, from, &piece, 1, 0, 0, flags)
        });
        bits("pwritev2", 32, |flags| {
            libc::syscall(libc::SYS_pwritev2, to, &piece, 1, 0, 0, flags)
        });
        table("pwritev2", [0x20, 0x22, 0x30].into_iter(), |flags| {
            libc::syscall(libc::SYS_pwritev2, to, &piece, 1, 0, 0, flags)
        });
        // The positions of the bytes written with RWF_APPEND and RWF_NOAPPEND.
        let end = libc::open(path(c"to"), O_RDWR | libc::O_APPEND);
        for (flags, at) in [(0, 0), (0x20, 0), (0x20, 8), (0x10, 8), (0x30, 8)] {
            let done = libc::syscall(libc::SYS_pwritev2, end, &piece, 1, at, 0, flags);
            let length = libc::lseek(end, 0, libc::SEEK_END);
            println!(
                "appended with {flags:#x}: {}, {length} bytes",
                outcome(done)
            );
        }
        bits("sync_file_range", 32, |flags| {
            libc::syscall(libc::SYS_sync_file_range, to, 0, 1, flags)
        });
        numbers("posix_fadvise", 12, |advice| {
            libc::syscall(libc::SYS_fadvise64, to, 0, 1, advice)
        });
        bits("fallocate", 32, |mode| {
            libc::syscall(libc::SYS_fallocate, to, mode, 0, 1)
        });
        for file in [from, to, end] {
            libc::close(file);
        }
    }
}

unsafe fn order() {
    unsafe {
        bits("membarrier", 32, |command| {
            libc::syscall(libc::SYS_membarrier, command, 0, 0)
        });
        bits("flags of membarrier", 32, |flags| {
            libc::syscall(libc::SYS_membarrier, 1 << 7, flags, 0)
        });
        bits("flags of a plain membarrier", 32, |flags| {
            libc::syscall(libc::SYS_membarrier, 1, flags, 0)
        });
        let area = [0u32; 8];
        bits("rseq", 32, |flags| {
            libc::syscall(libc::SYS_rseq, &area, 32, flags | 4, 1)
        });
    }
}

unsafe fn compared() {
    unsafe {
        let own = libc::getpid();
        numbers("kcmp", 10, |kind| {
            libc::syscall(libc::SYS_kcmp, own, own, kind, 0, 0)
        });
    }
}

/// A `struct sched_attr`.
fn attributes(size: u32, policy: u32, flags: u64) -> [u64; 7] {
    let first = u64::from(size) | u64::from(policy) << 32;
    [first, flags, 0, 0, 0, 0, 0]
}

unsafe fn scheduled() {
    unsafe {
        bits("sched_setattr", 32, |flags| {
            libc::syscall(libc::SYS_sched_setattr, 0, &attributes(56, 0, 0), flags)
        });
        // A kernel may lack utilisation clamping: its flags are left out.
        let known = (0..40u32).filter(|bit| ![5, 6].contains(bit));
        table(
            "a flag of sched_setattr",
            known.map(|bit| 1 << bit),
            |flags| {
                let mut result = 0;
                in_child(|| {
                    result =
                        libc::syscall(libc::SYS_sched_setattr, 0, &attributes(56, 0, flags), 0);
                });
                libc::syscall(libc::SYS_sched_setattr, 0, &attributes(56, 0, flags), 0).min(result)
            },
        );
        numbers("policy of sched_setattr", 9, |policy| {
            libc::syscall(
                libc::SYS_sched_setattr,
                0,
                &attributes(48, policy as u32, 0),
                0,
            )
        });
        for (policy, flags) in [(3, 8), (3, 16), (3, 24), (3, 1), (0, 0)] {
            let result = libc::syscall(
                libc::SYS_sched_setattr,
                0,
                &attributes(48, policy, flags),
                0,
            );
            let now = libc::syscall(libc::SYS_sched_getscheduler, 0);
            println!(
                "policy {policy}, flags {flags}: {}, {now:#x}",
                outcome(result)
            );
        }
        libc::syscall(libc::SYS_sched_setattr, 0, &attributes(48, 0, 0), 0);
        bits("sched_getattr", 32, |flags| {
            let mut to = [0u64; 7];
            libc::syscall(libc::SYS_sched_getattr, 0, to.as_mut_ptr(), 56, flags)
        });
    }
}

unsafe fn machine() {
    unsafe {
        // No command that stops the machine.
        table("reboot", [1, 2, 3, 0xa1b2_c3d4].into_iter(), |command| {
            libc::syscall(libc::SYS_reboot, 0xfee1_deadu32, 672_274_793, command, 0)
        });
        let mut text = [0u8; 16];
        table(
            "syslog",
            [0, 1, 5, 6, 7, 8, 9, 10, 11, 12].into_iter(),
            |command| {
                let result = libc::klogctl(command as c_int, text.as_mut_ptr().cast(), 8);
                result.into()
            },
        );
        libc::klogctl(7, ptr::null_mut(), 0);
        for (command, length) in [
            (2, -1),
            (3, -1),
            (3, 0),
            (4, -1),
            (8, 0),
            (8, 9),
            (8, 1),
            (8, 7),
        ] {
            let result = libc::klogctl(command, text.as_mut_ptr().cast(), length);
            println!("syslog {command} of {length}: {}", outcome(result.into()));
        }
        println!(
            "syslog 3 to nowhere: {}",
            outcome(libc::klogctl(3, ptr::null_mut(), 8).into())
        );
    }
}

unsafe fn preferred() {
    unsafe {
        numbers("ioprio_get", 5, |kind| {
            libc::syscall(libc::SYS_ioprio_get, kind, 0)
        });
        numbers("ioprio_set", 5, |kind| {
            libc::syscall(libc::SYS_ioprio_set, kind, 0, 0)
        });
        for level in [0, 1, 7, 8, 64, 0x1fff] {
            numbers(&format!("class of ioprio_set at {level}"), 9, |class| {
                let result = libc::syscall(libc::SYS_ioprio_set, 1, 0, class << 13 | level);
                libc::syscall(libc::SYS_ioprio_set, 1, 0, 0);
                result
            });
        }
    }
}

unsafe fn descriptors() {
    unsafe {
        bits("close_range", 32, |flags| {
            libc::syscall(libc::SYS_close_range, 500, 600, flags)
        });
        let own = libc::getpid();
        bits("pidfd_open", 32, |flags| {
            closed(libc::syscall(libc::SYS_pidfd_open, own, flags))
        });
        let fd = libc::syscall(libc::SYS_pidfd_open, own, 0);
        bits("pidfd_send_signal", 32, |flags| {
            libc::syscall(libc::SYS_pidfd_send_signal, fd, 0, 0, flags)
        });
        bits("pidfd_getfd", 32, |flags| {
            closed(libc::syscall(libc::SYS_pidfd_getfd, fd, 0, flags))
        });
        bits("process_madvise", 32, |flags| {
            libc::syscall(
                libc::SYS_process_madvise,
                fd,
                ptr::null::<u8>(),
                0,
                20,
                flags,
            )
        });
        numbers("advice of process_madvise", 25, |advice| {
            libc::syscall(
                libc::SYS_process_madvise,
                fd,
                ptr::null::<u8>(),
                0,
                advice,
                0,
            )
        });
        bits("process_mrelease", 8, |flags| {
            let result = libc::syscall(448, fd, flags);
            // A kernel may lack the call.
            if error() == "ENOSYS" {
                *libc::__errno_location() = libc::EINVAL
            }
            result
        });
        bits("dup3", 32, |flags| {
            closed(libc::syscall(libc::SYS_dup3, 0, 500, flags))
        });
        closed(fd);
    }
}

unsafe fn memory() {
    unsafe {
        let map = |kind: c_int| {
            libc::mmap(
                ptr::null_mut(),
                PAGE,
                PROT_READ | PROT_WRITE,
                kind | MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let page = map(MAP_PRIVATE);
        bits("mlock2", 32, |flags| {
            libc::syscall(libc::SYS_mlock2, page, PAGE, flags)
        });
        bits("mlockall", 32, |flags| {
            let result = libc::syscall(libc::SYS_mlockall, flags);
            libc::munlockall();
            result
        });
        table("mlockall", [3, 5, 6, 7].into_iter(), |flags| {
            let result = libc::syscall(libc::SYS_mlockall, flags);
            libc::munlockall();
            result
        });
        bits("mremap", 32, |flags| {
            let page = map(MAP_PRIVATE);
            let result = libc::syscall(libc::SYS_mremap, page, PAGE, PAGE, flags, 0);
            libc::munmap(page, PAGE);
            if result > 0 { 0 } else { result }
        });
        table("mremap", [3, 5, 6, 7].into_iter(), |flags| {
            let (page, other) = (map(MAP_PRIVATE), map(MAP_PRIVATE));
            let result = libc::syscall(libc::SYS_mremap, page, PAGE, PAGE, flags, other);
            if result > 0 { 0 } else { result }
        });
        bits("msync", 32, |flags| {
            libc::syscall(libc::SYS_msync, page, PAGE, flags)
        });
        table("msync", [3, 5, 6, 7].into_iter(), |flags| {
            libc::syscall(libc::SYS_msync, page, PAGE, flags)
        });
        // A kernel may lack some: 12, 13, 25; 100 and 101 take memory away.
        let known = (0..24)
            .chain([24, 26, 27, 99, 102])
            .filter(|advice| ![12, 13].contains(advice));
        table("madvise", known.clone(), |advice| {
            libc::syscall(libc::SYS_madvise, map(MAP_PRIVATE), PAGE, advice)
        });
        table("madvise of shared memory", known, |advice| {
            libc::syscall(libc::SYS_madvise, map(MAP_SHARED), PAGE, advice)
        });
        // PROT_BTI and PROT_MTE, which only some CPUs have.
        const OF_CPU: u64 = 0x30;
        bits("rights of mprotect", 32, |rights| {
            let page = map(MAP_PRIVATE);
            libc::syscall(libc::SYS_mprotect, page, PAGE, rights & !OF_CPU)
        });
        tell_end(
            "sealed",
            in_child(|| {
                let page = map(MAP_PRIVATE);
                let result = libc::syscall(462, page, PAGE, 1);
                tell(
                    "mseal with a flag",
                    if result == -1 && error() == "ENOSYS" {
                        0
                    } else {
                        result + 1
                    },
                );
            }),
        );
        let stack = [0usize, 0, 0];
        bits("sigaltstack", 32, |flags| {
            let mut given = stack;
            let room = vec![0u8; 65536].leak();
            given[0] = room.as_ptr().addr();
            given[1] = flags as usize;
            given[2] = 65536;
            libc::syscall(libc::SYS_sigaltstack, &given, 0)
        });
    }
}
