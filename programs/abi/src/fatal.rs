//! Signals that end a process at once, even in a wait that only fatal signals interrupt, and those
//! that stay pending until a thread takes them.

use std::{mem, ptr};

use libc::{POLLIN, SIGCONT, SIGKILL, SIGSTOP, SIGTERM, c_int, c_long};

use crate::{in_child, sleeper, tell_end};

/// Milliseconds after which the child of vfork exits anyway.
const LONG: c_int = 20_000;

/// Runs this part.
pub fn run() {
    // SAFETY: children only do what is written here.
    unsafe {
        waiting_for_vfork("SIGTERM in vfork", || {});
        waiting_for_vfork("handled", || {
            libc::signal(SIGTERM, nothing as *const () as usize);
        });
        waiting_for_vfork("blocked", || block());
        asked_for();
        stopped();
        traced();
    }
}

extern "C" fn nothing(_: c_int) {}

unsafe fn block() {
    unsafe {
        let set = terminate();
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
    }
}

fn terminate() -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, SIGTERM);
        set
    }
}

/// A process waits for its vfork child, which sends it SIGTERM. The child reports which came first:
/// the end of its parent, or its own timeout.
unsafe fn waiting_for_vfork(what: &str, prepare: impl Fn()) {
    unsafe {
        let (mut parents_end, mut heard) = ([0; 2], [0; 2]);
        libc::pipe(parents_end.as_mut_ptr());
        libc::pipe(heard.as_mut_ptr());
        let parent = libc::fork();
        if parent == 0 {
            libc::close(parents_end[1]);
            prepare();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let child = libc::syscall(libc::SYS_clone, c_long::from(flags), 0, 0, 0, 0);
            if child == 0 {
                let patience = if what == "SIGTERM in vfork" { LONG } else { 0 };
                libc::kill(libc::getppid(), SIGTERM);
                let mut entry = libc::pollfd {
                    fd: parents_end[0],
                    events: POLLIN,
                    revents: 0,
                };
                let known = libc::poll(&mut entry, 1, patience) as u8;
                libc::write(heard[1], (&raw const known).cast(), 1);
                libc::_exit(0);
            }
            libc::_exit(7);
        }
        let mut status = 0;
        libc::waitpid(parent, &mut status, 0);
        tell_end(what, status);
        libc::close(parents_end[1]);
        let mut known = 9u8;
        libc::read(heard[0], (&raw mut known).cast(), 1);
        println!("  its child knew of the end: {known}");
        for file in [parents_end[0], heard[0], heard[1]] {
            libc::close(file);
        }
    }
}

/// A signal for which a thread waits does not end the process.
unsafe fn asked_for() {
    let status = in_child(|| unsafe {
        block();
        libc::kill(libc::getpid(), SIGTERM);
        let long = libc::timespec {
            tv_sec: 60,
            tv_nsec: 0,
        };
        let got = libc::sigtimedwait(&terminate(), ptr::null_mut(), &long);
        libc::_exit(got);
    });
    tell_end("asked for", status);
}

/// A stopped process ends only after SIGCONT.
unsafe fn stopped() {
    unsafe {
        let child = sleeper();
        libc::kill(child, SIGSTOP);
        let mut status = 0;
        libc::waitpid(child, &mut status, libc::WUNTRACED);
        println!("stopped: {}", libc::WIFSTOPPED(status));
        libc::kill(child, SIGTERM);
        println!(
            "ends meanwhile: {}",
            libc::waitpid(child, &mut status, libc::WNOHANG)
        );
        libc::kill(child, SIGCONT);
        libc::waitpid(child, &mut status, 0);
        tell_end("goes on", status);
    }
}

/// A tracer sees the signal first, and may suppress it.
unsafe fn traced() {
    unsafe {
        let child = sleeper();
        let none = ptr::null_mut::<u8>();
        libc::ptrace(libc::PTRACE_SEIZE, child, none, none);
        libc::kill(child, SIGTERM);
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        println!(
            "the tracer sees {}",
            libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == SIGTERM
        );
        libc::ptrace(libc::PTRACE_CONT, child, none, none);
        libc::kill(child, SIGKILL);
        libc::waitpid(child, &mut status, 0);
        tell_end("it was kept away", status);
    }
}
