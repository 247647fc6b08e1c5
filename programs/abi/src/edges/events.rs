//! Pages of pipes; values that eventfd, timerfd, signalfd and epoll refuse, or report only once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::{fs, mem, ptr, thread};

use libc::{EPOLLET, EPOLLIN, EPOLLONESHOT, c_int};

use super::{USER, become_user};
use crate::tell;

/// A user's pipes stay below the hard limit of pages, and none grows beyond it.
pub unsafe fn pages_of_pipes() {
    let setting = "/proc/sys/fs/pipe-user-pages-hard";
    fs::write(setting, "64").expect("a setting of root's");
    let status = crate::in_child(|| unsafe {
        become_user(USER);
        let mut ends = [0; 2];
        let mut made = 0;
        while made < 100 && libc::pipe(ends.as_mut_ptr()) == 0 {
            made += 1;
        }
        tell("the next", libc::pipe(ends.as_mut_ptr()));
        println!("pipes: {made}");
        tell(
            "larger",
            libc::fcntl(ends[0], libc::F_SETPIPE_SZ, 128 * 1024),
        );
        tell("smaller", libc::fcntl(ends[0], libc::F_SETPIPE_SZ, 4096));
    });
    crate::tell_end("user", status);
    fs::write(setting, "0").expect("a setting of root's");
}

unsafe fn write_number(what: &str, file: c_int, value: u64) {
    tell(what, unsafe {
        libc::write(file, (&raw const value).cast(), 8) as i64
    });
}

/// The extreme values of an eventfd, a distant timer, and buffers too small for a record.
pub unsafe fn descriptors() {
    unsafe {
        let event = libc::eventfd(0, libc::EFD_NONBLOCK);
        write_number("nothing", event, 0);
        write_number("all ones", event, u64::MAX);
        write_number("the most", event, u64::MAX - 1);
        write_number("one more", event, 1);
        write_number("nothing more", event, 0);

        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
        let mut setting: libc::itimerspec = mem::zeroed();
        setting.it_value.tv_sec = 1000;
        tell(
            "armed",
            libc::timerfd_settime(timer, 0, &setting, ptr::null_mut()),
        );
        let mut left: libc::itimerspec = mem::zeroed();
        libc::timerfd_gettime(timer, &mut left);
        println!("far off: {}", (900..=1000).contains(&left.it_value.tv_sec));

        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let signals = libc::signalfd(-1, &set, libc::SFD_NONBLOCK);
        libc::raise(libc::SIGUSR1);
        for len in [0, 1, 127, 128] {
            let mut record = [0u8; 128];
            let got = libc::read(signals, record.as_mut_ptr().cast(), len) as i64;
            tell(&format!("room for {len}"), got);
        }
    }
}

/// How often each kind of interest reports the same readiness; a set cannot contain itself.
pub unsafe fn epoll() {
    unsafe {
        let set = libc::epoll_create1(0);
        let event = libc::eventfd(1, libc::EFD_NONBLOCK);
        let control = |what: &str, action, file, events: c_int| {
            let mut wanted = libc::epoll_event {
                events: events as u32,
                u64: 7,
            };
            tell(what, libc::epoll_ctl(set, action, file, &mut wanted));
        };
        let wait = |what: &str| {
            let mut got: libc::epoll_event = mem::zeroed();
            let first = libc::epoll_wait(set, &mut got, 1, 0);
            let second = libc::epoll_wait(set, &mut got, 1, 0);
            println!("{what}: {first}, then {second}");
        };
        control("itself", libc::EPOLL_CTL_ADD, set, EPOLLIN);
        control("added", libc::EPOLL_CTL_ADD, event, EPOLLIN);
        wait("level");
        control("edge", libc::EPOLL_CTL_MOD, event, EPOLLIN | EPOLLET);
        wait("edge");
        write_number("another edge", event, 1);
        wait("edge again");
        control("once", libc::EPOLL_CTL_MOD, event, EPOLLIN | EPOLLONESHOT);
        wait("once");
        control(
            "rearmed",
            libc::EPOLL_CTL_MOD,
            event,
            EPOLLIN | EPOLLONESHOT,
        );
        wait("rearmed");
    }
}

/// One of several waiters gets an EPOLLONESHOT member, however often that becomes ready meanwhile,
/// and again each time that it is rearmed.
pub unsafe fn told_once() {
    const ROUNDS: usize = 3000;
    static ONE: u64 = 1;
    unsafe {
        let set = libc::epoll_create1(0);
        let event = libc::eventfd(1, libc::EFD_NONBLOCK);
        let want = |action, round: usize| {
            let mut wanted = libc::epoll_event {
                events: (EPOLLIN | EPOLLONESHOT) as u32,
                u64: round as u64,
            };
            libc::epoll_ctl(set, action, event, &mut wanted)
        };
        let told = [const { AtomicU32::new(0) }; ROUNDS];
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut got: libc::epoll_event = mem::zeroed();
                    while !is_over.load(SeqCst) {
                        if libc::epoll_wait(set, &mut got, 1, 20) == 1 {
                            told[got.u64 as usize].fetch_add(1, SeqCst);
                        }
                    }
                });
            }
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    libc::write(event, (&raw const ONE).cast(), 8);
                    thread::yield_now();
                }
            });
            want(libc::EPOLL_CTL_ADD, 0);
            for (round, told) in told.iter().enumerate() {
                want(libc::EPOLL_CTL_MOD, round);
                while told.load(SeqCst) == 0 {
                    thread::yield_now();
                }
            }
            is_over.store(true, SeqCst);
        });
        // The first round was armed twice.
        let twice = told[1..].iter().filter(|told| told.load(SeqCst) > 1);
        println!("told twice: {}", twice.count());
    }
}
