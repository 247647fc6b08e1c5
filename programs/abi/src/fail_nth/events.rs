//! Descriptors that tell of events, and waiting.

use std::{mem, ptr};

use libc::{ENFILE, ENOSPC, O_CREAT, O_RDWR, c_int, c_long};

use super::{Starved, close};
use crate::path;

pub unsafe fn run(starved: &Starved) {
    unsafe {
        makes(starved);
        epoll(starved);
        inotify(starved);
        polls(starved);
        tables(starved);
        aio(starved);
    }
}

unsafe fn makes(starved: &Starved) {
    let also = [ENFILE];
    unsafe {
        let mut ends = [-1; 2];
        let made: *mut c_int = ends.as_mut_ptr();
        starved.each(
            "pipe2",
            &also,
            || libc::pipe2(made, 0).into(),
            |result| {
                let [one, other] = mem::replace(&mut *made.cast::<[c_int; 2]>(), [-1; 2]);
                match result {
                    0 => libc::close(one) == 0 && libc::close(other) == 0,
                    _ => one == -1 && other == -1,
                }
            },
        );
        starved.each("eventfd", &also, || libc::eventfd(0, 0).into(), close);
        let clock = libc::CLOCK_MONOTONIC;
        starved.each(
            "timerfd_create",
            &also,
            || libc::timerfd_create(clock, 0).into(),
            close,
        );
        let timer = libc::timerfd_create(clock, 0);
        let mut when: libc::itimerspec = mem::zeroed();
        when.it_value.tv_sec = 1000;
        starved.each(
            "timerfd_settime",
            &[],
            || libc::timerfd_settime(timer, 0, &when, ptr::null_mut()).into(),
            |_| libc::timerfd_settime(timer, 0, &mem::zeroed(), ptr::null_mut()) == 0,
        );
        libc::close(timer);
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR1);
        starved.each(
            "signalfd",
            &also,
            || libc::signalfd(-1, &set, 0).into(),
            close,
        );
        starved.each(
            "epoll_create",
            &also,
            || libc::epoll_create1(0).into(),
            close,
        );
        starved.each(
            "inotify_init",
            &also,
            || libc::inotify_init1(0).into(),
            close,
        );
        starved.each(
            "pidfd_open",
            &also,
            || libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0),
            close,
        );
    }
}

unsafe fn epoll(starved: &Starved) {
    unsafe {
        let set = libc::epoll_create1(0);
        let event = libc::eventfd(1, 0);
        let other = libc::epoll_create1(0);
        let mut wanted = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 5,
        };
        for (name, file) in [("epoll_ctl", event), ("epoll_ctl nested", other)] {
            starved.each(
                name,
                &[ENOSPC],
                || libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, file, &mut wanted).into(),
                |result| {
                    let added =
                        libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, file, ptr::null_mut()) == 0;
                    added == (result == 0)
                },
            );
        }
        libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, event, &mut wanted);
        starved.each(
            "epoll_ctl change",
            &[],
            || {
                wanted.u64 += 1;
                libc::epoll_ctl(set, libc::EPOLL_CTL_MOD, event, &mut wanted).into()
            },
            |_| true,
        );
        let mut found = [libc::epoll_event { events: 0, u64: 0 }; 8];
        starved.each(
            "epoll_wait",
            &[],
            || libc::epoll_wait(set, found.as_mut_ptr(), 8, 1).into(),
            |result| result == 1 || result == -1,
        );
        libc::eventfd_write(event, 1);
        let mut value = 0;
        libc::eventfd_read(event, &mut value);
        starved.each(
            "epoll_wait asleep",
            &[],
            || libc::epoll_wait(set, found.as_mut_ptr(), 8, 1).into(),
            |_| true,
        );
        [set, event, other]
            .iter()
            .for_each(|&file| _ = libc::close(file));
    }
}

unsafe fn inotify(starved: &Starved) {
    unsafe {
        let watcher = libc::inotify_init1(libc::IN_NONBLOCK);
        libc::mkdir(path(c"watched"), 0o700);
        let mut watch = -1;
        let number: *mut c_int = &mut watch;
        starved.each(
            "inotify_add_watch",
            &[ENOSPC],
            || {
                *number = libc::inotify_add_watch(watcher, path(c"watched"), libc::IN_CREATE);
                (*number).into()
            },
            |result| result == -1 || libc::inotify_rm_watch(watcher, *number) == 0,
        );
        libc::inotify_add_watch(watcher, path(c"watched"), libc::IN_CREATE | libc::IN_DELETE);
        let mut room = [0u8; 4096];
        // An event that there is no room for is lost.
        starved.each(
            "watched creat",
            &[ENOSPC, ENFILE],
            || libc::open(path(c"watched/new"), O_CREAT | O_RDWR, 0o600).into(),
            |result| {
                while libc::read(watcher, room.as_mut_ptr().cast(), room.len()) > 0 {}
                let there = libc::unlink(path(c"watched/new")) == 0;
                while libc::read(watcher, room.as_mut_ptr().cast(), room.len()) > 0 {}
                close(result) && there == (result != -1)
            },
        );
        libc::close(watcher);
        libc::rmdir(path(c"watched"));
    }
}

unsafe fn polls(starved: &Starved) {
    unsafe {
        let event = libc::eventfd(1, 0);
        let idle = libc::eventfd(0, 0);
        let one = libc::pollfd {
            fd: idle,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut many = vec![one; 600];
        starved.each(
            "poll",
            &[],
            || libc::poll(many.as_mut_ptr(), 600, 1).into(),
            |_| true,
        );
        many[599].fd = event;
        starved.each(
            "poll ready",
            &[],
            || libc::poll(many.as_mut_ptr(), 600, 1).into(),
            |result| result == 1 || result == -1,
        );
        let far = libc::fcntl(event, libc::F_DUPFD, 900);
        let mut set: libc::fd_set = mem::zeroed();
        starved.each(
            "select",
            &[],
            || {
                libc::FD_SET(far, &mut set);
                libc::select(
                    far + 1,
                    &mut set,
                    ptr::null_mut(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
                .into()
            },
            |_| true,
        );
        [event, idle, far]
            .iter()
            .for_each(|&file| _ = libc::close(file));
    }
}

/// Tables of descriptors that grow, or are copied.
unsafe fn tables(starved: &Starved) {
    unsafe {
        let limit = libc::rlimit {
            rlim_cur: 1 << 20,
            rlim_max: 1 << 20,
        };
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        let mut next = 1000;
        starved.each(
            "F_DUPFD",
            &[],
            || {
                next += 64;
                libc::fcntl(0, libc::F_DUPFD, next).into()
            },
            close,
        );
        starved.each(
            "dup2",
            &[],
            || {
                next += 64;
                libc::dup2(0, next).into()
            },
            close,
        );
        starved.each(
            "unshare files",
            &[],
            || libc::unshare(libc::CLONE_FILES).into(),
            |_| true,
        );
        starved.each(
            "unshare fs",
            &[],
            || libc::unshare(libc::CLONE_FS).into(),
            |_| true,
        );
    }
}

unsafe fn aio(starved: &Starved) {
    unsafe {
        let mut context = 0usize;
        let at: *mut usize = &mut context;
        let destroy = |at: *mut usize| libc::syscall(libc::SYS_io_destroy, *at) == 0;
        starved.each(
            "io_setup",
            &[libc::EAGAIN],
            || {
                *at = 0;
                libc::syscall(libc::SYS_io_setup, 8, at)
            },
            |result| if result == -1 { *at == 0 } else { destroy(at) },
        );
        *at = 0;
        libc::syscall(libc::SYS_io_setup, 8, at);
        let file = libc::open(path(c"aio"), O_CREAT | O_RDWR, 0o600);
        let bytes = [3u8; 5000];
        // IOCB_CMD_PWRITE.
        let mut block = [0u64; 8];
        block[2] = 1 | (file as u64) << 32;
        block[3] = bytes.as_ptr() as u64;
        block[4] = bytes.len() as u64;
        let mut list = [block.as_mut_ptr()];
        let mut events = [[0u64; 4]; 2];
        let submit = || -> c_long { libc::syscall(libc::SYS_io_submit, *at, 1, list.as_mut_ptr()) };
        starved.each("io_submit", &[libc::EAGAIN], submit, |result| {
            let got = libc::syscall(
                libc::SYS_io_getevents,
                *at,
                0,
                2,
                events.as_mut_ptr(),
                0usize,
            );
            got == result.max(0)
        });
        destroy(at);
        libc::close(file);
        libc::unlink(path(c"aio"));
    }
}
