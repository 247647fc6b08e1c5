//! Processes, threads, signals, timers.

use std::{mem, ptr};

use libc::{EAGAIN, ENFILE, ENOSPC, SIGCHLD, c_int, c_long, pid_t};

use super::{Starved, close};
use crate::path;

pub unsafe fn run(starved: &Starved) {
    unsafe {
        forks(starved);
        execs(starved);
        timers(starved);
        identities(starved);
        signals(starved);
        futexes(starved);
        tracing(starved);
        filters(starved);
    }
}

/// Waits for a child, if there is one, which ends well.
unsafe fn reap(child: c_long) -> bool {
    unsafe {
        let mut status = 0;
        match child {
            -1 => libc::waitpid(-1, &mut status, 0) == -1,
            child => libc::waitpid(child as pid_t, &mut status, 0) == child as pid_t && status == 0,
        }
    }
}

unsafe fn forks(starved: &Starved) {
    unsafe {
        for (name, flags) in [
            ("fork", 0),
            ("clone files", libc::CLONE_FILES | libc::CLONE_FS),
            ("clone vfork", libc::CLONE_VFORK),
            ("clone io", libc::CLONE_IO | libc::CLONE_SYSVSEM),
        ] {
            starved.each(
                name,
                &[EAGAIN, ENOSPC],
                || {
                    let child = libc::syscall(libc::SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
                    if child == 0 {
                        libc::_exit(0);
                    }
                    child
                },
                |child| reap(child),
            );
        }
        let mut pidfd = -1;
        let told: *mut c_int = &mut pidfd;
        starved.each(
            "clone pidfd",
            &[EAGAIN, ENFILE],
            || {
                *told = -1;
                let child =
                    libc::syscall(libc::SYS_clone, libc::CLONE_PIDFD | SIGCHLD, 0, told, 0, 0);
                if child == 0 {
                    libc::_exit(0);
                }
                child
            },
            |child| (child == -1 || close((*told).into())) && reap(child),
        );
    }
}

/// A program that cannot begin, after the old one has ended, is killed. The count goes on in the
/// new one, whose faults at least succeed.
unsafe fn execs(starved: &Starved) {
    const ALLOCATIONS: u32 = 150;
    std::fs::write("script", "#! /proc/self/exe nothing\n").expect("a file");
    unsafe {
        libc::chmod(path(c"script"), 0o700);
        for (name, program) in [("execve", c"/proc/self/exe"), ("execve script", c"script")] {
            starved.each_child(name, ALLOCATIONS, &[ENFILE], |nth| {
                let status = crate::in_child(|| {
                    let arguments = [path(c"abi"), path(c"nothing"), ptr::null()];
                    Starved::new("").arm(nth);
                    libc::execve(path(program), arguments.as_ptr(), arguments[2..].as_ptr());
                    libc::_exit(*libc::__errno_location());
                });
                match status {
                    libc::SIGKILL | libc::SIGSEGV => 0,
                    status if libc::WIFEXITED(status) => libc::WEXITSTATUS(status),
                    _ => status | 0x1000,
                }
            });
        }
        libc::unlink(path(c"script"));
    }
}

unsafe fn timers(starved: &Starved) {
    unsafe {
        let mut timer = -1;
        let made: *mut c_int = &mut timer;
        starved.each(
            "timer_create",
            &[EAGAIN],
            || libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, 0usize, made),
            |result| result == -1 || libc::syscall(libc::SYS_timer_delete, *made) == 0,
        );
        libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, 0usize, made);
        let mut when: libc::itimerspec = mem::zeroed();
        when.it_value.tv_sec = 1000;
        starved.each(
            "timer_settime",
            &[],
            || libc::syscall(libc::SYS_timer_settime, timer, 0, &when, 0usize),
            |_| {
                let never: libc::itimerspec = mem::zeroed();
                libc::syscall(libc::SYS_timer_settime, timer, 0, &never, 0usize) == 0
            },
        );
        libc::syscall(libc::SYS_timer_delete, timer);
        let mut when: libc::itimerval = mem::zeroed();
        when.it_value.tv_sec = 1000;
        starved.each(
            "setitimer",
            &[],
            || libc::setitimer(libc::ITIMER_REAL, &when, ptr::null_mut()).into(),
            |_| libc::setitimer(libc::ITIMER_REAL, &mem::zeroed(), ptr::null_mut()) == 0,
        );
        let short = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1000,
        };
        starved.each(
            "nanosleep",
            &[],
            || libc::nanosleep(&short, ptr::null_mut()).into(),
            |_| true,
        );
    }
}

unsafe fn identities(starved: &Starved) {
    unsafe {
        let groups: Vec<libc::gid_t> = (0..1000).collect();
        let count = || libc::getgroups(0, ptr::null_mut());
        starved.each(
            "setgroups",
            &[],
            || libc::setgroups(1000, groups.as_ptr()).into(),
            |result| {
                count() == if result == 0 { 1000 } else { 0 }
                    && libc::setgroups(0, ptr::null()) == 0
            },
        );
        starved.each(
            "setresgid",
            &[EAGAIN],
            || libc::setresgid(5, 5, 0).into(),
            |_| libc::setresgid(0, 0, 0) == 0,
        );
        starved.each(
            "setresuid",
            &[EAGAIN],
            || libc::setresuid(5, 5, 0).into(),
            |_| libc::setresuid(0, 0, 0) == 0,
        );
        let mut cpus: libc::cpu_set_t = mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&cpus), &mut cpus);
        starved.each(
            "sched_setaffinity",
            &[],
            || libc::sched_setaffinity(0, size_of_val(&cpus), &cpus).into(),
            |_| true,
        );
        starved.each(
            "sched_setscheduler",
            &[],
            || {
                let mut one: libc::sched_param = mem::zeroed();
                one.sched_priority = 1;
                libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_RR, &one)
            },
            |_| {
                let zero: libc::sched_param = mem::zeroed();
                libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER, &zero) == 0
            },
        );
        starved.each(
            "PR_SET_NAME",
            &[],
            || libc::prctl(libc::PR_SET_NAME, path(c"abi")).into(),
            |_| true,
        );
        starved.each(
            "membarrier",
            &[],
            || libc::syscall(libc::SYS_membarrier, 16, 0, 0),
            |_| true,
        );
    }
}

unsafe fn signals(starved: &Starved) {
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        let signal = libc::SIGRTMIN() + 2;
        libc::sigaddset(&mut set, signal);
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let take = |which: c_int| {
            let mut one: libc::sigset_t = mem::zeroed();
            libc::sigaddset(&mut one, which);
            libc::sigtimedwait(&one, ptr::null_mut(), &now)
        };
        let value = libc::sigval {
            sival_ptr: ptr::null_mut(),
        };
        starved.each(
            "sigqueue",
            &[EAGAIN],
            || libc::sigqueue(libc::getpid(), signal, value).into(),
            |result| take(signal) == if result == 0 { signal } else { -1 },
        );
        // A signal that is no real-time one arrives even without memory.
        starved.each(
            "kill",
            &[],
            || libc::kill(libc::getpid(), libc::SIGUSR1).into(),
            |result| result == 0 && take(libc::SIGUSR1) == libc::SIGUSR1,
        );
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
        extern "C" fn nothing(_signal: c_int) {}
        let handler = nothing as extern "C" fn(c_int);
        libc::signal(libc::SIGUSR1, handler as usize);
        starved.each(
            "handled signal",
            &[],
            || libc::kill(libc::getpid(), libc::SIGUSR1).into(),
            |_| true,
        );
        libc::signal(libc::SIGUSR1, libc::SIG_DFL);
    }
}

unsafe fn futexes(starved: &Starved) {
    unsafe {
        let word = 0u32;
        let soon = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1000,
        };
        let timed_out = |result: c_long| match result {
            -1 if *libc::__errno_location() == libc::ETIMEDOUT => 0,
            result => result,
        };
        for (name, operation) in [("futex wait", 0), ("futex wait private", 128)] {
            starved.each(
                name,
                &[],
                || timed_out(libc::syscall(libc::SYS_futex, &word, operation, 0, &soon)),
                |_| true,
            );
        }
        let mut lock = 0u32;
        let at: *mut u32 = &mut lock;
        // FUTEX_LOCK_PI and FUTEX_UNLOCK_PI.
        starved.each(
            "futex lock",
            &[],
            || libc::syscall(libc::SYS_futex, at, 6, 0, 0usize),
            |result| {
                result == -1 && *at == 0 || libc::syscall(libc::SYS_futex, at, 7, 0, 0usize) == 0
            },
        );
        let many = [[0u64, &raw const word as u64, 2]; 100];
        let until = [0u64, 1];
        starved.each(
            "futex_waitv",
            &[],
            || {
                timed_out(libc::syscall(
                    libc::SYS_futex_waitv,
                    many.as_ptr(),
                    100,
                    0,
                    &until,
                    libc::CLOCK_MONOTONIC,
                ))
            },
            |_| true,
        );
    }
}

unsafe fn tracing(starved: &Starved) {
    unsafe {
        let child = crate::sleeper();
        let mut status = 0;
        let free = |result: c_long, status: *mut c_int| {
            result == -1 || {
                libc::waitpid(child, status, libc::__WALL);
                libc::ptrace(libc::PTRACE_DETACH, child, 0, 0) == 0
            }
        };
        starved.each(
            "PTRACE_ATTACH",
            &[],
            || libc::ptrace(libc::PTRACE_ATTACH, child, 0, 0),
            |result| free(result, &mut status),
        );
        starved.each(
            "PTRACE_SEIZE",
            &[],
            || libc::ptrace(libc::PTRACE_SEIZE, child, 0, 0),
            |result| {
                result == -1
                    || libc::ptrace(libc::PTRACE_INTERRUPT, child, 0, 0) == 0
                        && free(result, &mut status)
            },
        );
        let (mut here, there) = ([0u8; 9000], [1u8; 9000]);
        let local = libc::iovec {
            iov_base: here.as_mut_ptr().cast(),
            iov_len: 9000,
        };
        let remote = libc::iovec {
            iov_base: there.as_ptr() as *mut _,
            iov_len: 9000,
        };
        starved.each(
            "process_vm_readv",
            &[],
            || libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) as c_long,
            |_| true,
        );
        starved.each(
            "pidfd_getfd",
            &[ENFILE],
            || {
                let file = libc::syscall(libc::SYS_pidfd_open, child, 0);
                let got = if file == -1 {
                    -1
                } else {
                    libc::syscall(libc::SYS_pidfd_getfd, file, 0, 0)
                };
                let kept = *libc::__errno_location();
                close(file);
                *libc::__errno_location() = kept;
                got
            },
            close,
        );
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
}

/// Filters of seccomp cannot be removed: a child has them.
unsafe fn filters(starved: &Starved) {
    unsafe {
        let status = crate::in_child(|| {
            let filter = [libc::sock_filter {
                code: 6,
                jt: 0,
                jf: 0,
                k: 0x7fff_0000,
            }; 40];
            let program = libc::sock_fprog {
                len: 40,
                filter: filter.as_ptr().cast_mut(),
            };
            let again = Starved::new(&starved.only);
            again.each_growing(
                "seccomp",
                &[EAGAIN],
                || libc::syscall(libc::SYS_seccomp, 1, 0, &program),
                |_| true,
            );
            again.each_growing(
                "seccomp listener",
                &[EAGAIN, ENFILE],
                || libc::syscall(libc::SYS_seccomp, 1, 8, &program),
                close,
            );
        });
        if status != 0 {
            println!("seccomp: {status:#x}");
        }
    }
}
