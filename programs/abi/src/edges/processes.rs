//! State and permissions that exec, new credentials, tracing and scheduling keep, drop or refuse.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use std::{fs, mem, ptr, thread};

use libc::{
    CLONE_FILES, CLONE_VFORK, F_GETFD, O_CLOEXEC, PR_GET_PDEATHSIG, PR_SET_PDEATHSIG, SIGCHLD,
    SIGTRAP, SIGUSR1, c_int,
};

use super::USER;
use crate::{in_child, path, tell, tell_end, tell_ok};

/// PR_SET_PDEATHSIG survives exec, and is cleared by a change of credentials.
pub unsafe fn death_signal() {
    let now = || unsafe {
        let mut signal: c_int = -1;
        libc::prctl(PR_GET_PDEATHSIG, &mut signal);
        signal
    };
    unsafe {
        libc::prctl(PR_SET_PDEATHSIG, SIGUSR1);
        libc::setresuid(!0, 0, !0);
        println!("the same user: {}", now());
        libc::setresuid(!0, USER, !0);
        println!("another: {}", now());
    }
}

/// exec unshares the descriptor table before it closes descriptors.
pub unsafe fn shared_descriptors() {
    unsafe {
        let file = libc::open(path(c"/dev/null"), O_CLOEXEC);
        let words = [c"true".as_ptr(), ptr::null()];
        let flags = CLONE_FILES | CLONE_VFORK | SIGCHLD;
        let child = libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0);
        if child == 0 {
            libc::execv(c"/bin/true".as_ptr(), words.as_ptr());
            libc::_exit(1);
        }
        let mut status = 0;
        libc::waitpid(child as i32, &mut status, 0);
        tell_end("the program", status);
        tell("the descriptor", libc::fcntl(file, F_GETFD));
    }
}

/// Which tracees may be interrupted, and how a tracer tells a system-call stop from a breakpoint.
pub unsafe fn tracing() {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            loop {
                libc::getppid();
            }
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        let none = ptr::null_mut::<u8>();
        let request = |request, data: usize| {
            let data = ptr::without_provenance_mut::<u8>(data);
            libc::ptrace(request, child, none, data)
        };
        tell("not seized", request(libc::PTRACE_INTERRUPT, 0));
        for (what, options) in [("plain", 0), ("good", libc::PTRACE_O_TRACESYSGOOD as usize)] {
            tell("options", request(libc::PTRACE_SETOPTIONS, options));
            request(libc::PTRACE_SYSCALL, 0);
            libc::waitpid(child, &mut status, 0);
            println!(
                "{what}: SIGTRAP with {:#x}",
                libc::WSTOPSIG(status) ^ SIGTRAP
            );
        }
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
        tell("nobody", request(libc::PTRACE_INTERRUPT, 0));
    }
}

/// No thread is created beyond the system-wide limit.
pub unsafe fn most_threads() {
    const SETTING: &str = "/proc/sys/kernel/threads-max";
    let before = fs::read_to_string(SETTING).unwrap_or_default();
    let set = |what: &str, value: &str| tell_ok(what, fs::write(SETTING, value).is_ok());
    static LEAVE: AtomicBool = AtomicBool::new(false);
    let wait = || {
        while !LEAVE.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    };
    let threads: Vec<_> = (0..30).map(|_| thread::spawn(wait)).collect();
    set("0", "0");
    set("19", "19");
    tell_ok("a process", in_child(|| ()) == 0);
    set("20", "20");
    // SAFETY: no process is created.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a child that should not exist.
        unsafe { libc::_exit(0) };
    }
    tell("a process more", child);
    set("as before", before.trim());
    tell_ok("a process again", in_child(|| ()) == 0);
    LEAVE.store(true, SeqCst);
    threads.into_iter().for_each(|thread| _ = thread.join());
}

/// Among waiters of one priority, a thread that was lowered to it comes first, and one that was
/// raised to it last.
pub unsafe fn moved() {
    let schedule = |who: i32, priority: i32| unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            who,
            libc::SCHED_FIFO,
            &priority,
        )
    };
    unsafe {
        let mut one: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(0, &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &one);
        tell("first in, first out", schedule(0, 50));
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        for (what, priority) in [("down", 30), ("up", 10)] {
            // The children run once this process waits.
            let [stays, moves] = [b"s", b"m"].map(|name| {
                let child = libc::fork();
                if child == 0 {
                    libc::write(ends[1], name.as_ptr().cast(), 1);
                    libc::_exit(0);
                }
                child
            });
            for (who, priority) in [(moves, priority), (stays, 20), (moves, 20)] {
                schedule(who, priority);
            }
            for child in [stays, moves] {
                libc::waitpid(child, ptr::null_mut(), 0);
            }
            let mut order = [0; 2];
            libc::read(ends[0], order.as_mut_ptr().cast(), 2);
            println!("{what}: {}", String::from_utf8_lossy(&order));
        }
    }
}
