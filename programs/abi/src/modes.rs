//! Settings that belong to a process, to a thread or to an open file; and two threads that change
//! different ones at once, without losing a change.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{ptr, thread};

use libc::{F_GETFL, FIOASYNC, FIONBIO, O_ASYNC, O_NONBLOCK, c_int, c_ulong};

use crate::{in_child, tell, tell_end};

const PR_SET_IO_FLUSHER: c_int = 57;
const PR_GET_IO_FLUSHER: c_int = 58;
const PR_SET_MDWE: c_int = 65;
const PR_GET_MDWE: c_int = 66;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        tell_end("a thread's", in_child(|| of_thread()));
        tell_end("a process's", in_child(|| of_process()));
        tell_end("flags of a file", in_child(|| file_flags()));
        memory_map();
    }
}

unsafe fn prctl(option: c_int, a: c_ulong, b: c_ulong) -> c_int {
    unsafe { libc::prctl(option, a, b, 0 as c_ulong, 0 as c_ulong) }
}

/// `abi modes`, as the next program: prints its settings.
pub fn after_exec() {
    // SAFETY: no pointer is passed.
    unsafe { shown("the next program") };
}

unsafe fn shown(who: &str) {
    unsafe {
        tell(
            &format!("{who}: memory errors"),
            prctl(libc::PR_MCE_KILL_GET, 0, 0),
        );
        tell(&format!("{who}: reclaims"), prctl(PR_GET_IO_FLUSHER, 0, 0));
    }
}

/// PR_MCE_KILL and PR_SET_IO_FLUSHER.
unsafe fn of_thread() {
    unsafe {
        let set = || {
            tell("early", prctl(libc::PR_MCE_KILL, 1, 1));
            tell("flusher", prctl(PR_SET_IO_FLUSHER, 1, 0));
            shown("itself");
            let child = thread::spawn(|| shown("its thread"));
            child.join().expect("it ends");
            tell_end("its child", in_child(|| shown("its child")));
            let begins = || {
                let arguments = [c"abi", c"modes", c"exec"].map(|text| text.as_ptr());
                let [program, part, word] = arguments;
                let arguments = [program, part, word, ptr::null()];
                libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr());
            };
            tell_end("its program", in_child(begins));
            tell("late", prctl(libc::PR_MCE_KILL, 1, 0));
            shown("itself");
        };
        thread::spawn(set).join().expect("it ends");
        shown("the first");
    }
}

/// PR_SET_MDWE, and at the same time PR_SET_THP_DISABLE.
unsafe fn of_process() {
    unsafe {
        static STOPS: AtomicBool = AtomicBool::new(false);
        let other = thread::spawn(|| {
            let mut lost = 0;
            while !STOPS.load(Relaxed) {
                for on in [1, 0] {
                    prctl(libc::PR_SET_THP_DISABLE, on, 0);
                    lost += c_int::from(prctl(libc::PR_GET_THP_DISABLE, 0, 0) != on as c_int);
                }
            }
            lost
        });
        tell("refuse", prctl(PR_SET_MDWE, 1, 0));
        for _ in 0..1000 {
            prctl(PR_SET_MDWE, 1, 0);
        }
        let lost = (0..1000).filter(|_| prctl(PR_GET_MDWE, 0, 0) != 1).count();
        STOPS.store(true, Relaxed);
        println!("lost: {lost} {}", other.join().unwrap_or(-1));
    }
}

/// FIONBIO, and at the same time FIOASYNC.
unsafe fn file_flags() {
    const ROUNDS: usize = 20_000;
    unsafe {
        let mut pair = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
        let file = pair[0];
        let turns = move |request, flag: c_int| {
            let lost = |round: &usize| {
                let on = (round % 2) as c_int;
                libc::ioctl(file, request, &on);
                libc::fcntl(file, F_GETFL) & flag != on * flag
            };
            (0..ROUNDS).filter(lost).count()
        };
        let other = thread::spawn(move || turns(FIOASYNC as _, O_ASYNC));
        let own = turns(FIONBIO as _, O_NONBLOCK);
        println!("lost: {own} {:?}", other.join().ok());
    }
}

/// PR_SET_MM: missing privileges are reported before invalid arguments.
unsafe fn memory_map() {
    unsafe {
        let set = |kind: c_ulong, a: c_ulong, b: c_ulong, c: c_ulong| {
            tell(
                &format!("{kind}: {a} {b} {c}"),
                libc::prctl(libc::PR_SET_MM, kind, a, b, c),
            );
        };
        let user = || {
            libc::setresuid(1000, 1000, 1000);
            for kind in [0, 1, 3, 12, 13, 99] {
                set(kind, 0, 0, 0);
                set(kind, 1, 1, 0);
                set(kind, 1, 0, 1);
            }
        };
        tell_end("a user", in_child(user));
        for kind in [0, 1, 3, 99] {
            set(kind, 0, 0, 0);
            set(kind, 0, 1, 0);
        }
    }
}
