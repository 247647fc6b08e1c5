//! Pidfds, and clone3.

use std::mem;
use std::ptr;

use crate::{in_child, sleeper, tell, tell_end, tell_ok};

/// Runs this part.
pub fn run() {
    // SAFETY: children end by _exit, and every structure passed is complete.
    unsafe {
        opening();
        ending();
        signalling();
        taking();
        cloning();
    }
}

unsafe fn open(pid: i32, flags: u32) -> i32 {
    unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) as i32 }
}

unsafe fn send(fd: i32, signal: i32, info: *const libc::siginfo_t, flags: u32) -> i64 {
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, info, flags) }
}

unsafe fn ready(fd: i32, wait: i32) -> libc::c_short {
    unsafe {
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        libc::poll(&mut poll, 1, wait);
        poll.revents
    }
}

unsafe fn opening() {
    unsafe {
        tell("of nobody", open(0x3f_ffff, 0));
        tell("of number 0", open(0, 0));
        tell("of a negative number", open(-1, 0));
        tell("with odd flags", open(libc::getpid(), 1));
        let own = open(libc::getpid(), 0);
        tell_ok("of itself", own >= 0);
        println!(
            "closes on exec: {}",
            libc::fcntl(own, libc::F_GETFD) == libc::FD_CLOEXEC
        );
        let mut byte = 0u8;
        tell("read", libc::read(own, (&raw mut byte).cast(), 1) as i32);
        println!("living, ready: {}", ready(own, 0));
        libc::close(own);
        let inner = std::thread::spawn(|| {
            let tid = libc::gettid();
            tell("of another thread", open(tid, 0));
            open(tid, libc::O_EXCL as u32)
        });
        let thread = inner.join().unwrap();
        tell_ok("of a thread alone", thread >= 0);
        println!("it ended: {}", ready(thread, -1) & libc::POLLIN);
        tell("a signal to it", send(thread, 0, ptr::null(), 0));
        libc::close(thread);
    }
}

unsafe fn ending() {
    unsafe {
        let child = sleeper();
        let fd = open(child, 0);
        let waiting = open(child, libc::O_NONBLOCK as u32);
        let mut info: libc::siginfo_t = mem::zeroed();
        let wait = |fd: i32, info: &mut libc::siginfo_t, options| {
            libc::waitid(libc::P_PIDFD, fd as libc::id_t, info, options)
        };
        tell(
            "not yet",
            wait(fd, &mut info, libc::WEXITED | libc::WNOHANG),
        );
        tell("without waiting", wait(waiting, &mut info, libc::WEXITED));
        tell("kill", send(fd, libc::SIGKILL, ptr::null(), 0));
        println!("ended, ready: {}", ready(fd, -1));
        tell("waitid", wait(fd, &mut info, libc::WEXITED));
        println!(
            "the right child: {}, status {} code {}",
            info.si_pid() == child,
            info.si_status(),
            info.si_code
        );
        println!("waited for, ready: {}", ready(fd, 0));
        tell("waitid again", wait(fd, &mut info, libc::WEXITED));
        tell("signal to the gone", send(fd, 0, ptr::null(), 0));
        tell("waitid of a pipe", wait(0, &mut info, libc::WEXITED));
        tell("waitid of nothing", wait(99, &mut info, libc::WEXITED));
        libc::close(fd);
        libc::close(waiting);
    }
}

unsafe fn signalling() {
    unsafe {
        let own = open(libc::getpid(), 0);
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let mut info: libc::siginfo_t = mem::zeroed();
        tell("an odd signal", send(own, 65, ptr::null(), 0));
        tell("odd flags", send(own, libc::SIGUSR1, ptr::null(), 8));
        tell("two targets", send(own, libc::SIGUSR1, ptr::null(), 3));
        tell("no pidfd", send(0, libc::SIGUSR1, ptr::null(), 0));
        tell("signal 0", send(own, 0, ptr::null(), 0));
        for flags in 0..3 {
            tell("signal", send(own, libc::SIGUSR1, ptr::null(), flags));
            wait_info(&set, &mut info);
            println!("{} code {}", info.si_signo, info.si_code);
        }
        info.si_code = -1;
        tell("with a value", send(own, libc::SIGUSR1, &info, 0));
        wait_info(&set, &mut info);
        println!("{} code {}", info.si_signo, info.si_code);
        tell("another number", send(own, libc::SIGUSR2, &info, 0));
        let child = sleeper();
        let fd = open(child, 0);
        info.si_code = 0;
        tell("as another", send(fd, libc::SIGUSR1, &info, 0));
        let folder = libc::open(c"/proc/self".as_ptr(), libc::O_DIRECTORY);
        tell("by a folder of /proc", send(folder, 0, ptr::null(), 0));
        send(fd, libc::SIGTERM, ptr::null(), 0);
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        tell_end("it", status);
        [own, fd, folder].iter().for_each(|fd| _ = libc::close(*fd));
    }
}

/// The raw call: glibc's `sigwaitinfo` changes the code of SI_TKILL.
unsafe fn wait_info(set: &libc::sigset_t, info: &mut libc::siginfo_t) {
    let forever = ptr::null::<libc::timespec>();
    unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, set, info, forever, 8) };
}

unsafe fn taking() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let child = libc::fork();
        if child == 0 {
            libc::dup2(ends[1], 50);
            libc::write(ends[1], c"r".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        let mut byte = 0u8;
        libc::read(ends[0], (&raw mut byte).cast(), 1);
        let fd = open(child, 0);
        let take = |fd: i32, number: i32, flags: u32| {
            libc::syscall(libc::SYS_pidfd_getfd, fd, number, flags)
        };
        tell("none there", take(fd, 49, 0));
        tell("with flags", take(fd, 50, 1));
        tell("of no pidfd", take(0, 50, 0));
        let taken = take(fd, 50, 0) as i32;
        tell_ok("taken", taken >= 0);
        println!("flags {}", libc::fcntl(taken, libc::F_GETFD));
        libc::write(taken, c"x".as_ptr().cast(), 1);
        libc::read(ends[0], (&raw mut byte).cast(), 1);
        println!("through it: {}", byte as char);
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut(), 0);
        tell("of the gone", take(fd, 50, 0));
        [fd, taken, ends[0], ends[1]]
            .iter()
            .for_each(|fd| _ = libc::close(*fd));
    }
}

/// `struct clone_args`, with room for future fields.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Arguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
    later: u64,
}

/// Calls clone3 with the first `size` bytes; the child exits at once with status 5.
unsafe fn clone3(arguments: &Arguments, size: usize) -> i64 {
    unsafe {
        let child = libc::syscall(libc::SYS_clone3, arguments, size);
        if child == 0 {
            libc::_exit(5);
        }
        child
    }
}

unsafe fn cloning() {
    unsafe {
        const WHOLE: usize = 88;
        let mut status = 0;
        let signal = libc::SIGCHLD as u64;
        let plain = Arguments {
            exit_signal: signal,
            ..Arguments::default()
        };
        tell("clone3, too small", clone3(&plain, 56));
        let child = clone3(&plain, WHOLE);
        println!(
            "clone3: {}",
            libc::waitpid(-1, &mut status, 0) as i64 == child
        );
        tell_end("it", status);
        let child = clone3(&plain, size_of::<Arguments>());
        println!(
            "longer: {}",
            libc::waitpid(-1, &mut status, 0) as i64 == child
        );
        let odd = |what: &str, arguments: Arguments| tell(what, clone3(&arguments, WHOLE));
        tell(
            "longer, not zero",
            clone3(&Arguments { later: 1, ..plain }, size_of::<Arguments>()),
        );
        odd(
            "a signal in the flags",
            Arguments {
                flags: signal,
                ..plain
            },
        );
        odd(
            "a large signal",
            Arguments {
                exit_signal: 65,
                ..plain
            },
        );
        odd(
            "a stack without size",
            Arguments {
                stack: 4096,
                ..plain
            },
        );
        odd(
            "a number without size",
            Arguments {
                set_tid: 8,
                ..plain
            },
        );
        odd(
            "handlers shared and cleared",
            Arguments {
                flags: (1 << 32) | (libc::CLONE_SIGHAND | libc::CLONE_VM) as u64,
                ..plain
            },
        );
        odd(
            "into no control group",
            Arguments {
                flags: 1 << 33,
                cgroup: 99,
                ..plain
            },
        );
        odd(
            "a bad place for the pidfd",
            Arguments {
                flags: libc::CLONE_PIDFD as u64,
                pidfd: 8,
                ..plain
            },
        );
        let mut fd = -1;
        let child = clone3(
            &Arguments {
                flags: libc::CLONE_PIDFD as u64,
                pidfd: (&raw mut fd) as u64,
                ..plain
            },
            WHOLE,
        );
        let mut info: libc::siginfo_t = mem::zeroed();
        libc::waitid(libc::P_PIDFD, fd as u32, &mut info, libc::WEXITED);
        println!("its pidfd: {}", info.si_pid() as i64 == child);
        libc::close(fd);
        choosing(plain, WHOLE);
        tell_end("handlers", in_child(|| cleared(plain, WHOLE)));
    }
}

unsafe fn choosing(plain: Arguments, size: usize) {
    unsafe {
        let numbers = [31_234, -5];
        let chosen = Arguments {
            set_tid: (&raw const numbers[0]) as u64,
            set_tid_size: 1,
            ..plain
        };
        tell("a number", clone3(&chosen, size));
        tell("taken", clone3(&chosen, size));
        libc::waitpid(31_234, ptr::null_mut(), 0);
        let negative = Arguments {
            set_tid: (&raw const numbers[1]) as u64,
            ..chosen
        };
        tell("a negative one", clone3(&negative, size));
        tell(
            "two",
            clone3(
                &Arguments {
                    set_tid_size: 2,
                    ..chosen
                },
                size,
            ),
        );
    }
}

extern "C" fn caught(_: i32) {}

/// CLONE_CLEAR_SIGHAND resets handlers, but not ignored signals.
unsafe fn cleared(plain: Arguments, size: usize) {
    unsafe {
        let flags = 1 << 32;
        libc::signal(libc::SIGUSR1, caught as *const () as libc::sighandler_t);
        libc::signal(libc::SIGUSR2, libc::SIG_IGN);
        let child = libc::syscall(libc::SYS_clone3, &Arguments { flags, ..plain }, size);
        if child == 0 {
            let mut action: libc::sigaction = mem::zeroed();
            libc::sigaction(libc::SIGUSR1, ptr::null(), &mut action);
            let default = action.sa_sigaction == libc::SIG_DFL;
            libc::sigaction(libc::SIGUSR2, ptr::null(), &mut action);
            let ignored = action.sa_sigaction == libc::SIG_IGN;
            libc::_exit(10 + default as i32 + 2 * ignored as i32);
        }
        let mut status = 0;
        libc::waitpid(child as i32, &mut status, 0);
        libc::_exit(libc::WEXITSTATUS(status));
    }
}
