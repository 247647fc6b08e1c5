//! Ends of threads and processes, and notifications of them.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::{hint, mem, ptr, thread};

use libc::c_int;

use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: children end by _exit, and every pointer passed is to a live value.
    unsafe {
        tell_end("the first before another", in_child(|| ends_first()));
        tell_end("another before the first", in_child(|| ends_last()));
        at_once();
        tell_end("both", in_child(|| leads_twice()));
        tell_end("a group that has ended", in_child(|| joins_zombie()));
        counted();
    }
}

unsafe fn end_thread(code: c_int) -> ! {
    unsafe { libc::syscall(libc::SYS_exit, code) };
    unreachable!()
}

unsafe fn ends_first() {
    unsafe {
        let process = libc::getpid();
        thread::spawn(move || {
            let path = format!("/proc/{process}/task/{process}/status");
            let is_zombie = |text: String| text.lines().any(|line| line.starts_with("State:\tZ"));
            while !std::fs::read_to_string(&path).is_ok_and(is_zombie) {
                thread::yield_now();
            }
            end_thread(5);
        });
        end_thread(3);
    }
}

unsafe fn ends_last() {
    unsafe {
        let (told, tid) = std::sync::mpsc::channel();
        thread::spawn(move || {
            told.send(libc::gettid()).unwrap();
            end_thread(5);
        });
        let path = format!("/proc/self/task/{}", tid.recv().unwrap_or(0));
        while std::fs::exists(&path).unwrap_or(false) {
            thread::yield_now();
        }
        end_thread(3);
    }
}

/// Spins until `word` has a value.
fn spin(word: &AtomicU32, value: u32) {
    while word.load(SeqCst) != value {
        hint::spin_loop();
    }
}

/// Two threads exit at once: the process gets the status of one of them.
unsafe fn at_once() {
    static STEP: AtomicU32 = AtomicU32::new(0);
    unsafe {
        let mut strange = 0;
        for _ in 0..300 {
            let end = in_child(|| {
                thread::spawn(|| {
                    STEP.store(1, SeqCst);
                    spin(&STEP, 2);
                    end_thread(5);
                });
                spin(&STEP, 1);
                STEP.store(2, SeqCst);
                end_thread(3);
            });
            strange += i32::from(end != 3 << 8 && end != 5 << 8);
        }
        tell("other statuses than theirs", strange);
    }
}

/// A process becomes the leader of a group by setsid, or by its parent's setpgid, but not by both.
unsafe fn leads_twice() {
    unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let page = libc::mmap(ptr::null_mut(), 4096, rights, kind, -1, 0);
        let step = &*page.cast::<AtomicU32>();
        let mut both = 0;
        for round in 0..1000 {
            step.store(0, SeqCst);
            let child = libc::fork();
            if child == 0 {
                step.store(1, SeqCst);
                spin(step, 2);
                libc::_exit(i32::from(libc::setsid() > 0));
            }
            spin(step, 1);
            step.store(2, SeqCst);
            (0..round % 100).for_each(|_| hint::spin_loop());
            let moved = libc::setpgid(child, child) == 0;
            let mut status = 0;
            libc::waitpid(child, &mut status, 0);
            both += i32::from(moved && libc::WEXITSTATUS(status) == 1);
        }
        tell("both", both);
    }
}

/// Joins a process group whose only member is a zombie.
unsafe fn joins_zombie() {
    unsafe {
        let leader = libc::fork();
        if leader == 0 {
            libc::setpgid(0, 0);
            libc::_exit(0);
        }
        let mut info = mem::zeroed();
        let options = libc::WEXITED | libc::WNOWAIT;
        libc::waitid(libc::P_PID, leader as u32, &mut info, options);
        tell("join", libc::setpgid(0, leader));
        tell(
            "wait",
            i32::from(libc::waitpid(leader, ptr::null_mut(), 0) == leader),
        );
        println!("in it: {}", libc::getpgrp() == leader);
    }
}

/// Zombies count against threads-max.
unsafe fn counted() {
    const MAX: &str = "/proc/sys/kernel/threads-max";
    const MORE: usize = 60;
    unsafe {
        let before = std::fs::read_to_string(MAX).unwrap_or_default();
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let all = load.split([' ', '/']).nth(4).unwrap_or_default();
        let all: usize = all.parse().unwrap_or(0);
        _ = std::fs::write(MAX, (all + MORE).to_string());
        let ended = || {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(0);
            }
            let mut info = mem::zeroed();
            let options = libc::WEXITED | libc::WNOWAIT;
            child > 0 && libc::waitid(libc::P_PID, child as u32, &mut info, options) == 0
        };
        let made = (0..4 * MORE).take_while(|_| ended()).count();
        println!("so many: {}", (MORE / 2..2 * MORE).contains(&made));
        (0..MORE / 2).for_each(|_| _ = libc::wait(ptr::null_mut()));
        println!("one more: {}", ended());
        _ = std::fs::write(MAX, before);
        while libc::wait(ptr::null_mut()) > 0 {}
    }
}
