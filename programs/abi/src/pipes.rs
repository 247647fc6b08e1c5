//! Pipes, poll, select, epoll and related calls: readiness, partial transfers, refusals.

use std::mem;
use std::ptr;

use libc::{
    EFD_NONBLOCK, EFD_SEMAPHORE, O_NONBLOCK, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT,
    POLLRDHUP, c_int, c_short, pollfd,
};

use crate::doing::await_state;
use crate::{in_child, tell, tell_end};

fn pipe(flags: c_int) -> [c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::pipe2(ends.as_mut_ptr(), flags) };
    ends
}

fn read(file: c_int, length: usize) -> i64 {
    let mut bytes = vec![0u8; length];
    // SAFETY: pointer and length are of the buffer.
    unsafe { libc::read(file, bytes.as_mut_ptr().cast(), length) as i64 }
}

fn write(file: c_int, length: usize) -> i64 {
    let bytes = vec![1u8; length];
    // SAFETY: pointer and length are of the buffer.
    unsafe { libc::write(file, bytes.as_ptr().cast(), length) as i64 }
}

/// Prints the events that poll reports at once for a descriptor.
pub fn ready(what: &str, file: c_int, events: c_short) {
    let mut entry = pollfd {
        fd: file,
        events,
        revents: 0,
    };
    // SAFETY: the entry outlives the call.
    let count = unsafe { libc::poll(&mut entry, 1, 0) };
    let names = [
        (POLLIN, "in"),
        (POLLOUT, "out"),
        (POLLERR, "error"),
        (POLLHUP, "hung-up"),
        (POLLNVAL, "invalid"),
        (POLLRDHUP, "read-hung-up"),
    ];
    let names: Vec<_> = names
        .iter()
        .filter(|(bit, _)| entry.revents & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    println!("{what}: {count} [{}]", names.join(" "));
}

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        transfers();
        readiness();
        selecting();
        tell_end("high descriptors", in_child(|| selecting_high()));
        events();
        alone();
        signals();
    }
}

unsafe fn transfers() {
    unsafe {
        let ends = pipe(O_NONBLOCK);
        tell("read of an empty pipe", read(ends[0], 10));
        tell("write", write(ends[1], 100));
        tell("a short read", read(ends[0], 1000));
        tell("write of more than it holds", write(ends[1], 200_000));
        tell("write to a full pipe", write(ends[1], 1));
        tell("a small write is whole or nothing", {
            read(ends[0], 100);
            write(ends[1], 4096)
        });
        tell("room for a page", {
            read(ends[0], 4096);
            write(ends[1], 4096)
        });
        tell("write to the reading end", write(ends[0], 1));
        tell("read of the writing end", read(ends[1], 1));
        tell("its size", libc::fcntl(ends[0], libc::F_GETPIPE_SZ));
        let mut waiting: c_int = 0;
        libc::ioctl(ends[0], libc::FIONREAD as _, &mut waiting);
        println!("waiting {waiting}");
        libc::close(ends[1]);
        let mut total = 0;
        while let length @ 1.. = read(ends[0], 5000) {
            total += length;
        }
        println!("all {total}, then the end");
        let ends = pipe(0);
        libc::close(ends[0]);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        tell("write without a reader", write(ends[1], 1));
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        tell_end(
            "the same by default",
            in_child(|| {
                write(ends[1], 1);
            }),
        );
        tell("odd flags", libc::pipe2([0; 2].as_mut_ptr(), 1));
    }
}

unsafe fn readiness() {
    unsafe {
        let ends = pipe(O_NONBLOCK);
        ready("an empty pipe's reader", ends[0], POLLIN);
        ready("its writer", ends[1], POLLOUT);
        write(ends[1], 200_000);
        ready("a full pipe's reader", ends[0], POLLIN);
        ready("its writer", ends[1], POLLOUT);
        let other = libc::dup(ends[1]);
        libc::close(ends[1]);
        ready("one writer gone", ends[0], POLLIN);
        libc::close(other);
        ready("both gone", ends[0], POLLIN);
        while read(ends[0], 65536) > 0 {}
        ready("emptied", ends[0], POLLIN);
        let ends = pipe(0);
        libc::close(ends[0]);
        ready("a writer without a reader", ends[1], POLLOUT);
        ready("what is closed", 77, POLLIN);
        ready("what is left out", -1, POLLIN);
        ready(
            "a file",
            libc::open(c"/proc/self/exe".as_ptr(), libc::O_RDONLY),
            POLLIN | POLLOUT,
        );
        let start = std::time::Instant::now();
        tell("poll of nothing", libc::poll(ptr::null_mut(), 0, 30));
        println!("took its time: {}", start.elapsed().as_millis() >= 30);
        let late = pipe(0);
        let child = libc::fork();
        if child == 0 {
            libc::usleep(30_000);
            write(late[1], 1);
            libc::_exit(0);
        }
        let mut entry = pollfd {
            fd: late[0],
            events: POLLIN,
            revents: 0,
        };
        tell("poll, woken", libc::poll(&mut entry, 1, -1));
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

unsafe fn selecting() {
    unsafe {
        let ends = pipe(0);
        write(ends[1], 1);
        let mut sets: [libc::fd_set; 2] = mem::zeroed();
        libc::FD_SET(ends[0], &mut sets[0]);
        libc::FD_SET(ends[1], &mut sets[1]);
        let mut time = libc::timeval {
            tv_sec: 1,
            tv_usec: 0,
        };
        let [readers, writers] = &mut sets;
        tell(
            "select",
            libc::select(ends[1] + 1, readers, writers, ptr::null_mut(), &mut time),
        );
        println!(
            "both: {} {}",
            libc::FD_ISSET(ends[0], &sets[0]),
            libc::FD_ISSET(ends[1], &sets[1])
        );
        let closed = libc::dup(0);
        libc::close(closed);
        libc::FD_SET(closed, &mut sets[0]);
        tell(
            "select of what is closed",
            libc::select(
                closed + 1,
                &mut sets[0],
                ptr::null_mut(),
                ptr::null_mut(),
                &mut time,
            ),
        );
        let mut time = libc::timeval {
            tv_sec: 0,
            tv_usec: -1,
        };
        tell(
            "an odd time",
            libc::select(
                0,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                &mut time,
            ),
        );
        tell(
            "a negative count",
            libc::select(
                -1,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            ),
        );
    }
}

/// Sets larger than libc's, for descriptors from 1,024 on.
unsafe fn selecting_high() {
    unsafe {
        let ends = pipe(0);
        write(ends[1], 1);
        let limit = libc::rlimit {
            rlim_cur: 4096,
            rlim_max: 4096,
        };
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        let select = |what: &str, count: c_int, readers: &[usize], writers: &[usize]| {
            let mut sets = [[0u64; 64]; 2];
            for (set, members) in sets.iter_mut().zip([readers, writers]) {
                for &fd in members {
                    set[fd / 64] |= 1 << (fd % 64);
                }
            }
            let time = [0u64; 2];
            let [read, write] = &mut sets;
            let none = ptr::null_mut::<u64>();
            let (time, mask) = (time.as_ptr(), ptr::null::<u64>());
            let number = libc::SYS_pselect6;
            tell(
                what,
                libc::syscall(number, count, read, write, none, time, mask),
            );
            for set in sets {
                let left = (0..4096).filter(|fd| set[fd / 64] & 1 << (fd % 64) != 0);
                println!("left: {:?}", left.collect::<Vec<_>>());
            }
        };
        let reader = ends[0] as usize;
        select("beyond the table", 2000, &[reader, 63, 1500], &[700]);
        select("beyond it alone", 2000, &[reader, 64, 1500], &[700]);
        libc::dup2(ends[0], 1500);
        libc::dup2(ends[1], 1501);
        libc::dup2(ends[1], 1030);
        select("high ones", 1502, &[1500, 1501, reader], &[1501, 1030]);
        select("cut off", 1501, &[1500, 1501], &[1501, 1030]);
        select("closed", 1501, &[1200], &[]);
        select("far beyond", 4096, &[1500, 2047], &[]);
        select("past the end", 4096, &[1500, 2048, 4000], &[]);
        select("more than any", c_int::MAX, &[1500, 2048, 4000], &[]);
        libc::close(1500);
        libc::close(1501);
        tell_end(
            "a smaller table",
            in_child(|| select("in a child", 4096, &[reader, 2047], &[3000])),
        );
    }
}

unsafe fn events() {
    unsafe {
        let counter = libc::eventfd(5, EFD_NONBLOCK);
        let mut value = 0u64;
        tell(
            "eventfd",
            libc::read(counter, (&raw mut value).cast(), 8) as i64,
        );
        println!("value {value}");
        tell(
            "empty",
            libc::read(counter, (&raw mut value).cast(), 8) as i64,
        );
        tell("a short read", read(counter, 4));
        let semaphore = libc::eventfd(2, EFD_NONBLOCK | EFD_SEMAPHORE);
        let taken = (0..3)
            .take_while(|_| libc::read(semaphore, (&raw mut value).cast(), 8) == 8)
            .count();
        println!("semaphore {taken}");

        let poller = libc::epoll_create1(0);
        let ends = pipe(O_NONBLOCK);
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 42,
        };
        tell(
            "epoll, added",
            libc::epoll_ctl(poller, libc::EPOLL_CTL_ADD, ends[0], &mut event),
        );
        tell(
            "added again",
            libc::epoll_ctl(poller, libc::EPOLL_CTL_ADD, ends[0], &mut event),
        );
        tell(
            "what is absent",
            libc::epoll_ctl(poller, libc::EPOLL_CTL_MOD, ends[1], &mut event),
        );
        let mut found: [libc::epoll_event; 4] = mem::zeroed();
        tell(
            "nothing yet",
            libc::epoll_wait(poller, found.as_mut_ptr(), 4, 0),
        );
        write(ends[1], 1);
        tell(
            "ready",
            libc::epoll_wait(poller, found.as_mut_ptr(), 4, 1000),
        );
        println!("data {}", { found[0].u64 });
        tell(
            "level-triggered",
            libc::epoll_wait(poller, found.as_mut_ptr(), 4, 0),
        );
        event.events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        libc::epoll_ctl(poller, libc::EPOLL_CTL_MOD, ends[0], &mut event);
        tell(
            "edge-triggered",
            libc::epoll_wait(poller, found.as_mut_ptr(), 4, 0),
        );
        tell("once", libc::epoll_wait(poller, found.as_mut_ptr(), 4, 0));
        tell(
            "removed",
            libc::epoll_ctl(poller, libc::EPOLL_CTL_DEL, ends[0], ptr::null_mut()),
        );
        tell(
            "into itself",
            libc::epoll_ctl(poller, libc::EPOLL_CTL_ADD, poller, &mut event),
        );
        forgotten();
    }
}

/// A removed member leaves nothing behind, whether the set or the member is closed first.
unsafe fn forgotten() {
    unsafe {
        const TIMES: usize = 20_000;
        let add = libc::EPOLL_CTL_ADD;
        let mut event: libc::epoll_event = mem::zeroed();
        event.events = libc::EPOLLIN as u32;
        let mut system: libc::sysinfo = mem::zeroed();
        let mut free = || {
            libc::sysinfo(&mut system);
            i64::from(system.mem_unit) * system.freeram as i64
        };
        let before = free();
        let counter = libc::eventfd(0, 0);
        for _ in 0..TIMES {
            let set = libc::epoll_create1(0);
            libc::epoll_ctl(set, add, counter, &mut event);
            libc::close(set);
        }
        tell_kept("by sets", before - free());
        let set = libc::epoll_create1(0);
        let before = free();
        for _ in 0..TIMES {
            let counter = libc::eventfd(0, 0);
            libc::epoll_ctl(set, add, counter, &mut event);
            libc::close(counter);
        }
        tell_kept("by members", before - free());
    }
}

/// Prints whether memory was lost, beyond what the kernel may cache.
fn tell_kept(what: &str, bytes: i64) {
    println!("memory kept {what}: {}", bytes > 4 << 20);
}

/// EPOLLEXCLUSIVE: an event wakes one of the waiting sets, not all.
unsafe fn alone() {
    unsafe {
        const WAITERS: usize = 4;
        let [from, to] = pipe(0);
        let mut event: libc::epoll_event = mem::zeroed();
        event.events = (libc::EPOLLIN | libc::EPOLLEXCLUSIVE) as u32;
        let mut sets = [0; WAITERS];
        for set in &mut sets {
            *set = libc::epoll_create1(0);
            libc::epoll_ctl(*set, libc::EPOLL_CTL_ADD, from, &mut event);
        }
        let [done, tell_done] = pipe(0);
        let children = sets.map(|set| {
            let child = libc::fork();
            if child == 0 {
                let mut event: libc::epoll_event = mem::zeroed();
                let count = libc::epoll_wait(set, &mut event, 1, -1);
                write(tell_done, count as usize);
                libc::_exit(0);
            }
            child
        });
        for child in children {
            await_state(child, "S");
        }
        for turn in 1..=WAITERS {
            write(to, 1);
            println!("woken {}", read(done, 10));
            let asleep = children.iter().filter(|&&child| sleeps(child)).count();
            println!("asleep after {turn}: {asleep}");
            read(from, 1);
        }
        for child in children {
            libc::waitpid(child, ptr::null_mut(), 0);
        }
        let (add, change) = (libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD);
        tell(
            "changed",
            libc::epoll_ctl(sets[0], change, from, &mut event),
        );
        tell(
            "of a set",
            libc::epoll_ctl(sets[0], add, sets[1], &mut event),
        );
        event.events |= libc::EPOLLONESHOT as u32;
        tell("and once", libc::epoll_ctl(sets[0], add, to, &mut event));
    }
}

/// Whether a process sleeps.
fn sleeps(process: c_int) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.contains(") S ")
}

unsafe fn signals() {
    unsafe {
        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        let zero = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        libc::timerfd_settime(
            timer,
            0,
            &libc::itimerspec {
                it_interval: zero,
                it_value: time,
            },
            ptr::null_mut(),
        );
        tell("timerfd", read(timer, 8));
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let signals = libc::signalfd(-1, &set, 0);
        libc::raise(libc::SIGUSR1);
        tell("signalfd", read(signals, 128));
    }
}
