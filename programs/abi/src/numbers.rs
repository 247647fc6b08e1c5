//! Thread IDs in place of process IDs, and threads of one process with different users.

use std::ptr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;

use libc::{F_GETOWN, F_SETOWN, RLIMIT_NOFILE, c_int};

use crate::{in_child, tell, tell_end};

const USER: u32 = 1234;
const OTHER: u32 = 1235;

const PRIO_PROCESS: c_int = 0;
const PRIO_PGRP: c_int = 1;
const PRIO_USER: c_int = 2;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for (what, work) in [
            ("numbers", asked as unsafe fn()),
            ("limits", limits),
            ("owners", owners),
            ("signals", signals),
            ("priorities", priorities),
            ("priorities of a user", of_user),
            ("priorities of the ended", of_ended),
            ("forks at once", at_once),
        ] {
            tell_end(what, in_child(|| work()));
        }
    }
}

fn tid() -> c_int {
    // SAFETY: the call takes no argument.
    unsafe { libc::syscall(libc::SYS_gettid) as c_int }
}

/// Changes the user of only the calling thread.
unsafe fn become_user(user: u32) {
    unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) };
}

/// Runs `work` in a second thread of user `user`.
fn in_thread<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let work = || {
            // SAFETY: no pointer is passed.
            unsafe { become_user(user) };
            work()
        };
        scope.spawn(work).join().expect("it ends")
    })
}

/// Calls that take a process ID.
unsafe fn asked() {
    unsafe {
        let (group, session) = (libc::getpgrp(), libc::getsid(0));
        let asks = || {
            let own = tid();
            tell("group", (libc::getpgid(own) == group) as c_int);
            tell("session", (libc::getsid(own) == session) as c_int);
            tell("to its own group", libc::setpgid(own, 0));
            tell("to another", libc::setpgid(own, group));
            tell("to that of a thread", libc::setpgid(0, own));
            tell("group of nobody", libc::getpgid(77777));
            tell("session of nobody", libc::getsid(77777));
            tell("of a negative number", libc::getpgid(-1));
            tell("of another", libc::getsid(-1));
            tell("group -1", libc::setpgid(own, -1));
            own
        };
        let other = in_thread(0, asks);
        let (told, number) = channel();
        let (end, ends) = channel::<()>();
        let child = libc::fork();
        if child == 0 {
            let lives = move || {
                told.send(tid()).expect("it is heard");
                ends.recv().expect("a word");
            };
            let second = thread::spawn(lives);
            let number = number.recv().expect("a number");
            // Calls made by the parent of the process.
            let parent = libc::fork();
            if parent == 0 {
                tell(
                    "another's thread",
                    (libc::getpgid(number) == group) as c_int,
                );
                tell("moved", libc::setpgid(number, 0));
                libc::_exit(0);
            }
            libc::waitpid(parent, ptr::null_mut(), 0);
            tell("moved, by the first", libc::setpgid(number, 0));
            end.send(()).expect("it is heard");
            second.join().expect("it ends");
            libc::_exit(0);
        }
        libc::waitpid(child, ptr::null_mut(), 0);
        println!("numbers are positive: {}", other > 0);
    }
}

unsafe fn limit(what: &str, number: c_int) {
    unsafe {
        let (mut limit, none) = ([0u64; 2], ptr::null::<u64>());
        let done = libc::syscall(libc::SYS_prlimit64, number, RLIMIT_NOFILE, none, &mut limit);
        tell(what, done);
        let same = [limit[0], limit[1]];
        if done == 0 {
            limit[0] -= 1;
            tell(
                &format!("{what}, set"),
                libc::syscall(libc::SYS_prlimit64, number, RLIMIT_NOFILE, &limit, none),
            );
            libc::syscall(libc::SYS_prlimit64, number, RLIMIT_NOFILE, &same, none);
        }
    }
}

/// prlimit(2) checks the target thread's credentials.
unsafe fn limits() {
    unsafe {
        let first = libc::getpid();
        let (told, number) = channel();
        let (end, ends) = channel::<()>();
        thread::scope(|scope| {
            let user = move || {
                become_user(USER);
                limit("a user's thread of itself", tid());
                limit("of 0", 0);
                limit("of the first", first);
                told.send(tid()).expect("it is heard");
                ends.recv().expect("a word");
            };
            let user = scope.spawn(user);
            let number = number.recv().expect("a number");
            limit("the first of it", number);
            limit("of nobody", 77777);
            limit("of a negative number", -1);
            // Called by the thread's own user, and by another user without permission.
            in_thread(USER, || limit("the same user's", number));
            in_thread(OTHER, || limit("another user's", number));
            end.send(()).expect("it is heard");
            user.join().expect("it ends");
        });
    }
}

/// `struct f_owner_ex`.
type Owner = [c_int; 2];
const SETOWN_EX: c_int = 15;
const GETOWN_EX: c_int = 16;
const TID: c_int = 0;
const PID: c_int = 1;
const GROUP: c_int = 2;

unsafe fn pair() -> [c_int; 2] {
    let mut pair = [0; 2];
    unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) };
    pair
}

/// The owner of a file by F_GETOWN and F_GETOWN_EX after it was set.
unsafe fn owners() {
    unsafe {
        let [file, _] = pair();
        let first = libc::getpid();
        let told = |what: &str, done: c_int, number: c_int| {
            tell(what, done);
            let mut owner: Owner = [9; 2];
            let one = libc::fcntl(file, F_GETOWN);
            libc::fcntl(file, GETOWN_EX, &mut owner);
            let name = |id: c_int| match id {
                0 => "nobody",
                id if id == number => "it",
                id if id == -number => "its group",
                _ => "another",
            };
            println!("  {} {} {}", name(one), owner[0], name(owner[1]));
        };
        in_thread(0, || {
            for (what, number) in [("its thread", tid()), ("itself", first)] {
                println!("{what}");
                told("owner", libc::fcntl(file, F_SETOWN, number), number);
                told("a group", libc::fcntl(file, F_SETOWN, -number), number);
                for kind in [TID, PID, GROUP, 3] {
                    let owner: Owner = [kind, number];
                    told(
                        &format!("kind {kind}"),
                        libc::fcntl(file, SETOWN_EX, &owner),
                        number,
                    );
                }
            }
        });
        told("nobody", libc::fcntl(file, F_SETOWN, 77777), first);
        told("no group", libc::fcntl(file, F_SETOWN, -77777), first);
        told("0", libc::fcntl(file, F_SETOWN, 0), first);
    }
}

static TAKEN_BY: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(_: c_int) {
    TAKEN_BY.store(tid(), SeqCst);
}

/// The receiver of a file's SIGIO: the credentials of the thread that set the owner decide.
unsafe fn signals() {
    unsafe {
        libc::setpgid(0, 0);
        let first = libc::getpid();
        libc::signal(libc::SIGIO, note as *const () as usize);
        let (told, number) = channel();
        let (end, ends) = channel::<()>();
        thread::scope(|scope| {
            let user = move || {
                become_user(USER);
                told.send(tid()).expect("it is heard");
                ends.recv().expect("a word");
            };
            let user = scope.spawn(user);
            let second = number.recv().expect("a number");
            let sent = |what: &str, owner: Owner, comes: bool| {
                let [file, other] = pair();
                TAKEN_BY.store(0, SeqCst);
                let done = libc::fcntl(file, SETOWN_EX, &owner);
                tell(what, done);
                libc::ioctl(file, libc::FIOASYNC as _, &1);
                libc::write(other, c"x".as_ptr().cast(), 1);
                // A signal that may not be sent is not waited for: it would come at once.
                let tries = if comes { 3000 } else { 1 };
                let taken = (0..tries).find_map(|_| {
                    libc::usleep(20_000);
                    Some(TAKEN_BY.load(SeqCst)).filter(|&taken| taken != 0)
                });
                let taken = taken.unwrap_or(0);
                let name = match taken {
                    0 => "nobody",
                    // Which thread gets it is not defined.
                    _ if owner[0] == PID => "the process",
                    taken if taken == second => "the second",
                    taken if taken == first => "the first",
                    _ => "another",
                };
                println!("  {name}");
                libc::close(file);
                libc::close(other);
            };
            for by in [0, USER, OTHER] {
                in_thread(by, || {
                    println!("by {by}");
                    let mask = [u64::MAX];
                    let none = ptr::null_mut::<u64>();
                    libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, &mask, none, 8);
                    // The second thread belongs to the user.
                    let (root, user) = (by == 0, by != OTHER);
                    sent("to the second", [TID, second], user);
                    sent("to the first", [TID, first], root);
                    sent("to the process", [PID, first], root);
                    sent("to the second's", [PID, second], user);
                    sent("to the group", [GROUP, libc::getpgrp()], root);
                });
            }
            end.send(()).expect("it is heard");
            user.join().expect("it ends");
        });
    }
}

unsafe fn nice(number: c_int) -> i64 {
    unsafe { 20 - libc::syscall(libc::SYS_getpriority, PRIO_PROCESS, number) }
}

const SYS_IOPRIO_SET: i64 = 30;
const SYS_IOPRIO_GET: i64 = 31;

unsafe fn io(which: c_int, who: c_int) -> i64 {
    unsafe { libc::syscall(SYS_IOPRIO_GET, which, who) }
}

unsafe fn set_io(what: &str, which: c_int, who: c_int, level: c_int) {
    tell(what, unsafe {
        libc::syscall(SYS_IOPRIO_SET, which, who, 2 << 13 | level)
    });
}

/// Priorities of threads, and of processes in a group, some of which belong to another user.
unsafe fn priorities() {
    unsafe {
        libc::setpgid(0, 0);
        let first = libc::getpid();
        let (told, number) = channel();
        let (end, ends) = channel::<()>();
        thread::scope(|scope| {
            let user = move || {
                become_user(USER);
                told.send(tid()).expect("it is heard");
                ends.recv().expect("a word");
            };
            let user = scope.spawn(user);
            let second = number.recv().expect("a number");
            let shown = |what: &str| {
                println!("{what}: {} {}", nice(first), nice(second));
                println!("  {:x} {:x}", io(1, first), io(1, second));
            };
            let user_number = USER as c_int;
            let set = |what: &str, which: c_int, who: c_int, to: c_int| {
                tell(what, libc::syscall(libc::SYS_setpriority, which, who, to));
                shown("  they are");
            };
            set("of the user", PRIO_USER, user_number, 5);
            let asked = libc::syscall(libc::SYS_getpriority, PRIO_USER, user_number);
            tell("asked for", asked);
            set("of the group", PRIO_PGRP, 0, 3);
            let asked = libc::syscall(libc::SYS_getpriority, PRIO_PGRP, 0);
            tell("asked for", asked);
            set_io("input and output of the user", 3, user_number, 5);
            shown("  they are");
            set_io("of the group", 2, 0, 3);
            shown("  they are");
            // Not all of the group belong to this user: the first does not, the second does.
            in_thread(USER, || {
                set("by the user: the group", PRIO_PGRP, 0, 10);
                set("  nicer", PRIO_PGRP, 0, 1);
                set("  of its own", PRIO_USER, 0, 12);
                set_io("  input and output of the group", 2, 0, 6);
                shown("  they are");
                set_io("  of its own", 3, 0, 7);
                shown("  they are");
                println!("  {:x} {:x}", io(2, 0), io(3, 0));
            });
            in_thread(OTHER, || {
                set("by another", PRIO_USER, user_number, 15);
                set("  one of them", PRIO_PROCESS, second, 15);
                set_io("  input and output", 3, user_number, 1);
                set_io("  of one", 1, second, 1);
            });
            end.send(()).expect("it is heard");
            user.join().expect("it ends");
        });
        for which in [PRIO_PGRP, PRIO_USER] {
            let none = libc::syscall(libc::SYS_getpriority, which, 77777);
            tell("of nobody", none);
            let none = libc::syscall(libc::SYS_setpriority, which, 77777, 1);
            tell("set", none);
        }
        tell(
            "negative",
            libc::syscall(libc::SYS_getpriority, PRIO_PGRP, -1),
        );
    }
}

/// The first thread belongs to the user, the second does not.
unsafe fn of_user() {
    unsafe {
        libc::setpgid(0, 0);
        let first = libc::getpid();
        let (told, number) = channel();
        let (end, ends) = channel::<()>();
        thread::scope(|scope| {
            let root = move || {
                told.send(tid()).expect("it is heard");
                ends.recv().expect("a word");
            };
            let root = scope.spawn(root);
            let second = number.recv().expect("a number");
            become_user(USER);
            let set = |what: &str, which: c_int, who: c_int, to: c_int| {
                tell(what, libc::syscall(libc::SYS_setpriority, which, who, to));
                println!("  {} {}", nice(first), nice(second));
            };
            set("the group", PRIO_PGRP, 0, 5);
            set("  nicer", PRIO_PGRP, 0, 1);
            set("  its own", PRIO_USER, 0, 7);
            set("  one of root's", PRIO_PROCESS, second, 7);
            set_io("input and output of the group", 2, 0, 6);
            println!("  {:x} {:x}", io(1, first), io(1, second));
            set_io("of its own", 3, 0, 4);
            println!("  {:x} {:x}", io(1, first), io(1, second));
            end.send(()).expect("it is heard");
            root.join().expect("it ends");
        });
    }
}

/// A zombie in its own process group.
unsafe fn of_ended() {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::setpgid(0, 0);
            libc::setpriority(PRIO_PROCESS as _, 0, 4);
            libc::syscall(SYS_IOPRIO_SET, 1, 0, 2 << 13 | 6);
            become_user(USER);
            libc::_exit(0);
        }
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOWAIT;
        libc::waitid(libc::P_PID, child as u32, &mut info, options);
        let all = [
            (PRIO_PROCESS, child),
            (PRIO_PGRP, child),
            (PRIO_USER, USER as c_int),
        ];
        let ask = || {
            for (which, who) in all {
                let asked = libc::syscall(libc::SYS_getpriority, which, who);
                tell("nice", asked);
                println!("  {:x}", io(which + 1, who));
            }
        };
        ask();
        let set = || {
            for (at, (which, who)) in all.into_iter().enumerate() {
                let to = 10 + at as c_int;
                tell("set", libc::syscall(libc::SYS_setpriority, which, who, to));
                set_io("set", which + 1, who, 1);
            }
            ask();
        };
        tell_end(
            "by another",
            in_child(|| {
                become_user(OTHER);
                set();
            }),
        );
        set();
        libc::waitpid(child, ptr::null_mut(), 0);
    }
}

/// Concurrent forks of much memory do not exceed RLIMIT_NPROC.
unsafe fn at_once() {
    const THREADS: usize = 4;
    const LEN: usize = 32 << 20;
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(ptr::null_mut(), LEN, rights, flags, -1, 0);
        libc::setresuid(OTHER, OTHER, OTHER);
        // The first thread, the others, and one child.
        let most = THREADS as u64 + 2;
        let (together, counts) = (Barrier::new(THREADS), Barrier::new(THREADS));
        let made = AtomicI32::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    let limit = [most, most];
                    let none = ptr::null::<u64>();
                    libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NPROC, &limit, none);
                    for round in 0..10 {
                        together.wait();
                        let child = libc::fork();
                        if child == 0 {
                            // Stays until all have tried.
                            libc::_exit(libc::pause());
                        }
                        made.fetch_add(c_int::from(child > 0), SeqCst);
                        if counts.wait().is_leader() {
                            println!("round {round}: {}", made.swap(0, SeqCst));
                        }
                        if child > 0 {
                            libc::kill(child, libc::SIGKILL);
                            libc::waitpid(child, ptr::null_mut(), 0);
                        }
                    }
                });
            }
        });
    }
}
