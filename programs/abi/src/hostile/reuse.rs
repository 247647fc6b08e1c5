//! Reused process IDs: requests for the ended process do not reach the new one.

use std::ffi::CString;
use std::{fs, ptr};

use libc::{O_NOCTTY, O_RDWR, O_WRONLY};

use super::become_user;
use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and children end by
    // _exit or a signal.
    unsafe {
        foreground();
        settings();
        owner();
    }
}

/// A new pipe.
fn pipe() -> [i32; 2] {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    ends
}

/// Reads a number from the pipe.
unsafe fn receive(from: i32) -> i32 {
    let mut number = 0;
    unsafe { libc::read(from, (&raw mut number).cast(), size_of::<i32>()) };
    number
}

unsafe fn send(to: i32, number: i32) {
    unsafe { libc::write(to, (&raw const number).cast(), size_of::<i32>()) };
}

/// Starts a child that waits for signals, with the given process ID, or any for 0.
unsafe fn sleeper(number: i32) -> i32 {
    // `struct clone_args`: exit_signal, set_tid and set_tid_size.
    let mut arguments = [0u64; 11];
    arguments[4] = libc::SIGCHLD as u64;
    if number != 0 {
        (arguments[8], arguments[9]) = ((&raw const number) as u64, 1);
    }
    unsafe {
        let child = libc::syscall(libc::SYS_clone3, &arguments, size_of_val(&arguments));
        if child == 0 {
            libc::setpgid(0, 0);
            loop {
                libc::pause();
            }
        }
        child as i32
    }
}

unsafe fn end(child: i32) -> i32 {
    let mut status = 0;
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
    status
}

/// A terminal's foreground group has ended; root's new group with the same ID gets no signals from
/// the terminal's keys.
unsafe fn foreground() {
    let (named, go) = (pipe(), pipe());
    unsafe {
        let user = libc::fork();
        if user == 0 {
            become_user();
            let master = libc::open(c"/dev/ptmx".as_ptr(), O_RDWR | O_NOCTTY);
            let mut name = [0; 64];
            libc::unlockpt(master);
            libc::ptsname_r(master, name.as_mut_ptr(), name.len());
            let leader = libc::fork();
            if leader == 0 {
                libc::setsid();
                let slave = libc::open(name.as_ptr(), O_RDWR);
                libc::signal(libc::SIGTTOU, libc::SIG_IGN);
                let group = sleeper(0);
                libc::setpgid(group, group);
                tell("foreground", libc::tcsetpgrp(slave, group));
                end(group);
                send(named[1], group);
                loop {
                    libc::pause();
                }
            }
            receive(go[0]);
            tell("^C", libc::write(master, c"\x03".as_ptr().cast(), 1) as i64);
            end(leader);
            libc::_exit(0);
        }
        let group = receive(named[0]);
        let job = sleeper(group);
        libc::setpgid(job, job);
        println!("root's job has the number: {}", job == group);
        send(go[1], 0);
        libc::waitpid(user, ptr::null_mut(), 0);
        tell_end("root's job", end(job));
    }
}

/// An open file of procfs belongs to the process that had the ID when it was opened.
unsafe fn settings() {
    let (named, go) = (pipe(), pipe());
    const FILES: [&str; 3] = ["oom_score_adj", "coredump_filter", "comm"];
    unsafe {
        let user = libc::fork();
        if user == 0 {
            let status = in_child(|| {
                become_user();
                libc::prctl(libc::PR_SET_DUMPABLE, 1);
                let child = sleeper(0);
                let files = FILES.map(|file| {
                    let path = CString::new(format!("/proc/{child}/{file}")).expect("no zero");
                    libc::open(path.as_ptr(), O_WRONLY)
                });
                end(child);
                send(named[1], child);
                receive(go[0]);
                for (name, file) in FILES.iter().zip(files) {
                    tell(name, libc::write(file, c"1000".as_ptr().cast(), 4) as i64);
                }
            });
            tell_end("user", status);
            libc::_exit(0);
        }
        let number = receive(named[0]);
        let other = sleeper(number);
        println!("root's process has the number: {}", other == number);
        send(go[1], 0);
        libc::waitpid(user, ptr::null_mut(), 0);
        let adjusted = fs::read_to_string(format!("/proc/{other}/oom_score_adj"));
        println!("adjusted: {:?}", adjusted.unwrap_or_default().trim());
        end(other);
    }
}

/// The owner of a file's signals has ended; a new process or group with its ID gets no signals.
unsafe fn owner() {
    let ends = pipe();
    unsafe {
        libc::fcntl(ends[0], libc::F_SETFL, libc::O_ASYNC);
        for sign in [1, -1] {
            let first = sleeper(0);
            libc::setpgid(first, first);
            tell("owner", libc::fcntl(ends[0], libc::F_SETOWN, sign * first));
            let named = libc::fcntl(ends[0], libc::F_GETOWN) == sign * first;
            println!("it is the first: {named}");
            end(first);
            tell("ended", libc::fcntl(ends[0], libc::F_GETOWN));
            let second = sleeper(first);
            libc::setpgid(second, second);
            println!("the second has the number: {}", second == first);
            tell("not its", libc::fcntl(ends[0], libc::F_GETOWN));
            libc::write(ends[1], c"x".as_ptr().cast(), 1);
            tell_end("second", end(second));
        }
    }
}
