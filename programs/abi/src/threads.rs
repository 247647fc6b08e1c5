//! Semaphore undo values that threads and processes share (CLONE_SYSVSEM), and the children that
//! waits find (__WNOTHREAD, __WCLONE, __WALL).

use std::sync::mpsc::channel;
use std::{ptr, thread};

use libc::{
    IPC_CREAT, IPC_PRIVATE, IPC_RMID, P_ALL, P_PID, SIGCHLD, WEXITED, WNOHANG, WNOWAIT, c_int,
    c_long, c_short, pid_t,
};

use crate::{error, in_child, tell, tell_end};

const CLONE_SYSVSEM: c_int = 0x4_0000;
const KCMP_SYSVSEM: c_int = 6;
const WNOTHREAD: c_int = 0x2000_0000;
const WALL: c_int = 0x4000_0000;
const WCLONE: c_int = 0x8000_0000_u32 as c_int;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and children end by _exit.
    unsafe {
        undone();
        for (what, work) in [
            ("a child of the first", of_first as unsafe fn()),
            ("a child of another", of_other),
            ("a traced one", traced),
            ("clones", clones),
        ] {
            tell_end(what, in_child(|| work()));
        }
    }
}

/// Clones this process with `flags`, and runs `work` in the child; returns its process ID.
unsafe fn clone(flags: c_int, work: impl FnOnce()) -> pid_t {
    unsafe {
        let none = 0 as c_long;
        let flags = flags as c_long;
        let child = libc::syscall(libc::SYS_clone, flags, none, none, none, none);
        if child == 0 {
            work();
            libc::_exit(0);
        }
        child as pid_t
    }
}

unsafe fn wait(pid: pid_t, options: c_int) -> pid_t {
    unsafe { libc::waitpid(pid, ptr::null_mut(), options) }
}

/// The time at which SEM_UNDO takes effect.
unsafe fn undone() {
    unsafe {
        let set = libc::semget(IPC_PRIVATE, 1, IPC_CREAT | 0o600);
        let reset = || libc::semctl(set, 0, libc::SETVAL, 100);
        let value = |what: &str| tell(what, libc::semctl(set, 0, libc::GETVAL));
        let take = |count: c_short| {
            let sem_flg = libc::SEM_UNDO as c_short;
            let mut one = libc::sembuf {
                sem_num: 0,
                sem_op: -count,
                sem_flg,
            };
            libc::semop(set, &mut one, 1);
        };
        let same = |what: &str, one: pid_t, other: pid_t| {
            let none = 0 as c_long;
            let result = libc::syscall(libc::SYS_kcmp, one, other, KCMP_SYSVSEM, none, none);
            println!(
                "{what}: {}",
                if result == 0 { "the same" } else { "another" }
            );
        };
        reset();
        for (what, flags) in [("apart", 0), ("shared", CLONE_SYSVSEM)] {
            let maker = || {
                let own = libc::getpid();
                take(1);
                let child = clone(flags | SIGCHLD, || {
                    take(10);
                    same("both", own, libc::getpid());
                });
                wait(child, 0);
                value("after the child");
            };
            tell_end(what, in_child(maker));
            value("after both");
            let child_last = |told: c_int| {
                let (mut go, mut byte) = ([0; 2], 0_u8);
                libc::pipe(go.as_mut_ptr());
                clone(flags | SIGCHLD, || {
                    libc::close(go[1]);
                    // Waits until its creator has ended.
                    libc::read(go[0], (&raw mut byte).cast(), 1);
                    take(10);
                    let left = libc::semctl(set, 0, libc::GETVAL);
                    libc::write(told, (&raw const left).cast(), 4);
                });
                take(1);
            };
            let mut ends = [0; 2];
            libc::pipe(ends.as_mut_ptr());
            tell_end(
                what,
                in_child(|| {
                    libc::close(ends[0]);
                    child_last(ends[1]);
                }),
            );
            libc::close(ends[1]);
            let mut left: c_int = 0;
            libc::read(ends[0], (&raw mut left).cast(), 4);
            println!("the maker is gone: {left}");
            // Waits until the last of them has ended.
            libc::read(ends[0], (&raw mut left).cast(), 4);
            libc::close(ends[0]);
            value("after both");
        }
        tell_end(
            "unshared",
            in_child(|| {
                take(5);
                value("taken");
                tell("unshare", libc::unshare(CLONE_SYSVSEM));
                value("given back");
                tell("once more", libc::unshare(CLONE_SYSVSEM));
                value("nothing to give");
            }),
        );
        tell_end(
            "threads",
            in_child(|| {
                let by_thread = |work: &(dyn Fn() + Sync)| {
                    thread::scope(|scope| _ = scope.spawn(work).join());
                };
                by_thread(&|| take(3));
                value("after a thread");
                by_thread(&|| {
                    libc::unshare(CLONE_SYSVSEM);
                    value("the others' stands");
                    take(7);
                    value("its own");
                    libc::unshare(CLONE_SYSVSEM);
                    value("given back");
                });
                value("after a thread apart");
            }),
        );
        value("after the process");
        libc::semctl(set, 0, IPC_RMID);
    }
}

/// Prints which child a call has found: `child`, another or none.
fn tell_found(what: &str, child: pid_t, found: pid_t) {
    match found {
        -1 => println!("{what}: {}", error()),
        0 => println!("{what}: none yet"),
        _ if found == child => println!("{what}: it"),
        _ => println!("{what}: another"),
    }
}

/// Waits until a child has ended, without reaping it.
unsafe fn ended(child: pid_t) {
    unsafe {
        let mut info = std::mem::zeroed();
        libc::waitid(P_PID, child as u32, &mut info, WEXITED | WNOWAIT);
    }
}

unsafe fn of_first() {
    unsafe {
        let child = clone(SIGCHLD, || ());
        ended(child);
        let other = move || {
            tell_found("by another", child, wait(child, WNOHANG | WNOTHREAD));
            tell_found("any, by another", child, wait(-1, WNOTHREAD));
            let mut info = std::mem::zeroed();
            let options = WEXITED | WNOTHREAD | WNOWAIT;
            tell(
                "waitid, by another",
                libc::waitid(P_ALL, 0, &mut info, options),
            );
            let options = WEXITED | WNOWAIT;
            tell("of all threads", libc::waitid(P_ALL, 0, &mut info, options));
        };
        thread::spawn(other).join().unwrap();
        tell_found("by the first", child, wait(-1, WNOTHREAD));
        tell_found("again", child, wait(-1, WNOTHREAD));
    }
}

unsafe fn of_other() {
    unsafe {
        let ((made, child), (end, ends)) = (channel(), channel::<()>());
        let other = thread::spawn(move || {
            let children = [(); 2].map(|()| clone(SIGCHLD, || ()));
            children.iter().for_each(|&child| ended(child));
            made.send(children).unwrap();
            ends.recv().unwrap();
            tell_found("by its maker", children[0], wait(-1, WNOTHREAD));
        });
        let children = child.recv().unwrap();
        tell_found(
            "by the first",
            children[0],
            wait(children[0], WNOHANG | WNOTHREAD),
        );
        tell_found("any", children[0], wait(-1, WNOHANG | WNOTHREAD));
        end.send(()).unwrap();
        other.join().unwrap();
        // A joined thread may not have ended yet for the kernel.
        while wait(-1, WNOHANG | WNOTHREAD | WALL) == -1 {
            thread::yield_now();
        }
        tell_found("left to the first", children[1], wait(-1, WNOHANG));
    }
}

unsafe fn traced() {
    unsafe {
        let ((made, child), (end, ends)) = (channel(), channel::<()>());
        let other = thread::spawn(move || {
            let child = clone(SIGCHLD, || {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                libc::kill(libc::getpid(), libc::SIGSTOP);
            });
            let mut status = 0;
            tell_found(
                "by its maker",
                child,
                libc::waitpid(child, &mut status, WNOTHREAD),
            );
            println!("stopped: {}", libc::WIFSTOPPED(status));
            made.send(child).unwrap();
            ends.recv().unwrap();
            libc::kill(child, libc::SIGKILL);
            tell_found("its end", child, wait(child, WNOTHREAD));
        });
        let child = child.recv().unwrap();
        tell_found("by the first", child, wait(child, WNOHANG | WNOTHREAD));
        tell_found("by all", child, wait(child, WNOHANG));
        end.send(()).unwrap();
        other.join().unwrap();
    }
}

/// A child whose end sends no signal, and one whose end sends another than SIGCHLD.
unsafe fn clones() {
    unsafe {
        for signal in [0, libc::SIGCONT, SIGCHLD] {
            println!("signal {}", signal == SIGCHLD);
            let child = clone(signal, || ());
            let mut info = std::mem::zeroed();
            let options = WEXITED | WNOWAIT | WALL;
            tell("all", libc::waitid(P_ALL, 0, &mut info, options));
            if signal != SIGCHLD {
                tell_found("neither", child, wait(-1, WNOHANG));
            }
            tell_found("clones", child, wait(-1, WCLONE));
            tell_found("all", child, wait(-1, WALL));
        }
    }
}
