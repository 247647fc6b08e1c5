//! Which thread of a parent decides about SIGCHLD, and gets it: the one that made the child.

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::{mem, ptr, thread};

use libc::{SIG_BLOCK, SIG_UNBLOCK, SIGCHLD, SIGKILL, SIGSTOP, c_int, pid_t, sigset_t};

use crate::doing::told_in_call;
use crate::{in_child, tell_end};

/// Runs this part; each case is a process of its own.
pub fn run() {
    let cases: [(&str, fn()); 6] = [
        ("a thread waits for its child", waited_for),
        ("its child stops", stopped),
        ("it traces its child", traced),
        ("only the first thread blocks it", not_kept),
        ("the thread has a handler", handled),
        ("the thread has ended", ended),
    ];
    for (what, case) in cases {
        println!("{what}:");
        tell_end("end", in_child(case));
    }
}

fn set() -> sigset_t {
    // SAFETY: all zeroes is an empty set.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigaddset(&mut set, SIGCHLD);
        set
    }
}

/// Blocks or unblocks SIGCHLD for this thread.
fn mask(how: c_int) {
    // SAFETY: the set is valid.
    unsafe { libc::pthread_sigmask(how, &set(), ptr::null_mut()) };
}

/// Makes a child that runs `work` once this thread's call of fork(3), which blocks all signals
/// meanwhile, is over.
fn make(work: impl FnOnce()) -> pid_t {
    let mut gate = [0; 2];
    // SAFETY: the buffers are as long as the calls are told.
    unsafe {
        libc::pipe(gate.as_mut_ptr());
        let child = libc::fork();
        if child == 0 {
            libc::read(gate[0], [0u8; 1].as_mut_ptr().cast(), 1);
            work();
            libc::_exit(0);
        }
        libc::write(gate[1], b"g".as_ptr().cast(), 1);
        child
    }
}

/// Makes a child that runs `work` when this thread, which blocks SIGCHLD, waits for it. Prints the
/// signal that the thread gets within half a minute, and what it says of the child.
fn take(work: fn()) {
    mask(SIG_BLOCK);
    // SAFETY: the calls take no argument.
    let own = unsafe { format!("{}/task/{}/syscall", libc::getpid(), libc::gettid()) };
    let child = make(|| {
        told_in_call(&own, libc::SYS_rt_sigtimedwait);
        work();
    });
    let within = libc::timespec {
        tv_sec: 30,
        tv_nsec: 0,
    };
    // SAFETY: the set and the time are valid, and the kernel fills the information.
    unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        let number = libc::sigtimedwait(&set(), &mut info, &within);
        println!(
            "signal {number}, code {}, of the child: {}",
            info.si_code,
            info.si_pid() == child
        );
    }
    end(child);
}

fn end(child: pid_t) {
    // SAFETY: the child is this process's own.
    unsafe {
        libc::kill(child, SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

fn in_thread(work: fn()) {
    thread::spawn(work).join().expect("it ends");
}

fn waited_for() {
    in_thread(|| take(|| ()));
}

fn stopped() {
    // SAFETY: the call takes no pointer.
    in_thread(|| take(|| unsafe { _ = libc::raise(SIGSTOP) }));
}

fn traced() {
    in_thread(|| {
        // SAFETY: the calls take no pointer that is used.
        take(|| unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(SIGSTOP);
        });
    });
}

fn not_kept() {
    mask(SIG_BLOCK);
    in_thread(|| {
        mask(SIG_UNBLOCK);
        let child = make(|| ());
        // SAFETY: the child is this process's own.
        unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    });
    // SAFETY: the kernel fills the set.
    unsafe {
        let mut pending: sigset_t = mem::zeroed();
        libc::sigpending(&mut pending);
        println!("pending: {}", libc::sigismember(&pending, SIGCHLD));
    }
}

static HANDLED_BY: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(_number: c_int) {
    // SAFETY: the call takes no argument.
    HANDLED_BY.store(unsafe { libc::gettid() }, SeqCst);
}

fn handle() {
    // SAFETY: the handler only stores a number.
    unsafe { libc::signal(SIGCHLD, note as *const () as usize) };
}

/// Waits for the handler, and returns the thread that called it.
fn handler() -> i32 {
    while HANDLED_BY.load(SeqCst) == 0 {
        thread::yield_now();
    }
    HANDLED_BY.load(SeqCst)
}

fn handled() {
    handle();
    in_thread(|| {
        let child = make(|| ());
        // SAFETY: the call takes no argument.
        println!("its own: {}", handler() == unsafe { libc::gettid() });
        end(child);
    });
}

fn ended() {
    handle();
    let child = thread::spawn(|| {
        make(|| {
            // SAFETY: the call only waits.
            unsafe { libc::pause() };
        })
    });
    let child = child.join().expect("it ends");
    // SAFETY: the child is this process's own, and the call takes no argument.
    unsafe {
        libc::kill(child, SIGKILL);
        println!("the first one's: {}", handler() == libc::getpid());
    }
    end(child);
}
