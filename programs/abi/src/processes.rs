//! Processes: waits, groups and sessions, descriptors and memory across fork and exec, limits.

use std::ffi::CString;
use std::mem;
use std::ptr;

use crate::{in_child, path, tell, tell_end, tell_ok};

/// Runs this part.
pub fn run() {
    // SAFETY: children end by _exit, and every structure passed is complete.
    unsafe {
        waiting();
        groups();
        execs();
        identity();
        limits();
        namespaces();
        memory();
    }
}

/// How many of many children could be reaped before SIGCHLD was pending.
unsafe fn untold() -> i32 {
    unsafe {
        let mut signals: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut signals, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &signals, ptr::null_mut());
        let mut count = 0;
        for _ in 0..300 {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(0);
            }
            while libc::waitpid(child, ptr::null_mut(), libc::WNOHANG) == 0 {
                libc::sched_yield();
            }
            let now = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let told = libc::sigtimedwait(&signals, ptr::null_mut(), &now);
            count += i32::from(told != libc::SIGCHLD);
        }
        libc::sigprocmask(libc::SIG_UNBLOCK, &signals, ptr::null_mut());
        count
    }
}

/// How often waits for a child were interrupted by its SIGCHLD.
unsafe fn interrupted() -> i32 {
    extern "C" fn ignore(_: i32) {}
    unsafe {
        let before = libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        libc::sigaction(libc::SIGCHLD, &action, ptr::null_mut());
        let mut count = 0;
        for _ in 0..300 {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(0);
            }
            while libc::waitpid(child, ptr::null_mut(), 0) != child {
                count += 1;
            }
        }
        libc::signal(libc::SIGCHLD, before);
        count
    }
}

unsafe fn waiting() {
    unsafe {
        let mut status = 0;
        tell("wait without children", libc::waitpid(-1, &mut status, 0));
        let (mut gate, mut byte) = ([0; 2], 0u8);
        libc::pipe(gate.as_mut_ptr());
        let child = libc::fork();
        if child == 0 {
            libc::read(gate[0], (&raw mut byte).cast(), 1);
            libc::_exit(9);
        }
        tell("not yet", libc::waitpid(child, &mut status, libc::WNOHANG));
        libc::write(gate[1], (&raw const byte).cast(), 1);
        println!(
            "the right child: {}",
            libc::waitpid(child, &mut status, 0) == child
        );
        tell_end("it", status);
        tell("again", libc::waitpid(child, &mut status, 0));
        tell(
            "odd options",
            libc::waitpid(child, &mut status, 0x7000_0000),
        );
        let mut info: libc::siginfo_t = mem::zeroed();
        let child = libc::fork();
        if child == 0 {
            libc::_exit(7);
        }
        let (p_pid, id) = (libc::P_PID, child as libc::id_t);
        tell(
            "waitid, kept",
            libc::waitid(p_pid, id, &mut info, libc::WEXITED | libc::WNOWAIT),
        );
        println!(
            "status {} signal {} code {}",
            info.si_status(),
            info.si_signo,
            info.si_code
        );
        tell("waitid", libc::waitid(p_pid, id, &mut info, libc::WEXITED));
        tell("waited for before its end was told", untold());
        tell("waits that their child's end interrupted", interrupted());
        let mut usage: libc::rusage = mem::zeroed();
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        println!(
            "wait4: {}",
            libc::wait4(child, &mut status, 0, &mut usage) == child
        );
        tell_end(
            "killed",
            in_child(|| {
                libc::kill(libc::getpid(), libc::SIGKILL);
            }),
        );
        tell_end("aborted", in_child(|| libc::abort()));
        tell_end("a status is a byte", in_child(|| libc::_exit(0x1234)));
        println!(
            "vfork: {}",
            std::process::Command::new("true")
                .status()
                .is_ok_and(|status| status.success())
        );
    }
}

unsafe fn groups() {
    unsafe {
        tell_end(
            "groups",
            in_child(|| {
                let own = libc::getpid();
                tell("setpgid", libc::setpgid(0, 0));
                println!("leads its group: {}", libc::getpgrp() == own);
                tell_end(
                    "a session",
                    in_child(|| {
                        println!("setsid: {}", libc::setsid() == libc::getpid());
                        tell("setpgid of a session's leader", libc::setpgid(0, 0));
                    }),
                );
                tell_end(
                    "setsid of a group's leader",
                    in_child(|| {
                        libc::setpgid(0, 0);
                        tell("it", libc::setsid());
                    }),
                );
                tell("group of nobody", libc::getpgid(0x3f_ffff));
                tell("into a group of nobody", libc::setpgid(0, 0x3f_ffff));
            }),
        );
        let leader = libc::fork();
        if leader == 0 {
            libc::setpgid(0, 0);
            for _ in 0..3 {
                if libc::fork() == 0 {
                    loop {
                        libc::pause();
                    }
                }
            }
            libc::usleep(50_000);
            libc::kill(0, libc::SIGTERM);
            loop {
                libc::pause();
            }
        }
        let mut status = 0;
        libc::waitpid(leader, &mut status, 0);
        tell_end("a group that is killed", status);
    }
}

unsafe fn execs() {
    unsafe {
        let program = |words: &[&str]| -> Vec<CString> {
            words
                .iter()
                .map(|word| CString::new(*word).unwrap())
                .collect()
        };
        let exec = |words: &[&str]| {
            let words = program(words);
            let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
            pointers.push(ptr::null());
            let none = [ptr::null()];
            libc::execve(pointers[0], pointers.as_ptr(), none.as_ptr())
        };
        tell("exec of nothing", exec(&["/nosuch"]));
        tell("exec of a folder", exec(&["/tmp"]));
        let file = libc::open(path(c"text"), libc::O_WRONLY | libc::O_CREAT, 0o600);
        tell("exec without x", exec(&["text"]));
        libc::fchmod(file, 0o700);
        tell("exec of an empty file", {
            libc::close(file);
            exec(&["text"])
        });
        std::fs::write("text", "neither\n").unwrap();
        tell("exec of text", exec(&["text"]));
        tell("exec below a file", exec(&["text/x"]));
        tell_end(
            "exec keeps descriptors but those that close",
            in_child(|| {
                libc::dup2(1, 20);
                libc::fcntl(libc::dup2(1, 21), libc::F_SETFD, libc::FD_CLOEXEC);
                exec(&[
                    "/bin/sh",
                    "-c",
                    "[ -e /proc/self/fd/20 ] && [ ! -e /proc/self/fd/21 ] && exit 6",
                ]);
            }),
        );
        tell_end(
            "exec resets handlers and keeps what is ignored",
            in_child(|| {
                libc::signal(libc::SIGUSR1, libc::SIG_IGN);
                exec(&["/bin/sh", "-c", "kill -USR1 $$; kill -USR2 $$"]);
            }),
        );
    }
}

unsafe fn identity() {
    unsafe {
        println!(
            "parent: {}",
            in_child(|| libc::_exit(i32::from(libc::getppid() <= 1))) == 0
        );
        println!(
            "ids {} {} {} {}",
            libc::getuid(),
            libc::geteuid(),
            libc::getgid(),
            libc::getegid()
        );
        tell_end(
            "another user",
            in_child(|| {
                tell("setgid", libc::setgid(1000));
                tell("setuid", libc::setuid(1000));
                println!("ids {} {}", libc::getuid(), libc::geteuid());
                tell("back", libc::setuid(0));
                tell("a signal to PID 1", libc::kill(1, 0));
                tell("a file of root", libc::open(path(c"text"), libc::O_RDONLY));
                let own = libc::open(path(c"/proc/self/status"), libc::O_RDONLY);
                println!("its own in /proc: {}", own >= 0);
                let own = libc::access(path(c"/proc/self/status"), libc::R_OK);
                tell("may read it", own);
                tell("chown of it", libc::chown(path(c"/proc/self/status"), 0, 0));
            }),
        );
        let mut name: [libc::c_char; 16] = [0; 16];
        libc::prctl(libc::PR_SET_NAME, c"a name that is too long".as_ptr());
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        println!("name {:?}", std::ffi::CStr::from_ptr(name.as_ptr()));
        println!("umask {:o} {:o}", libc::umask(0o77), libc::umask(0o22));
    }
}

unsafe fn limits() {
    unsafe {
        tell_end(
            "few descriptors",
            in_child(|| {
                let limit = libc::rlimit {
                    rlim_cur: 5,
                    rlim_max: 5,
                };
                tell("setrlimit", libc::setrlimit(libc::RLIMIT_NOFILE, &limit));
                let last = (0..10).fold(0, |_, _| libc::dup(0));
                tell("dup", last);
            }),
        );
        tell_end(
            "little memory",
            in_child(|| {
                let limit = libc::rlimit {
                    rlim_cur: 64 << 20,
                    rlim_max: 64 << 20,
                };
                libc::setrlimit(libc::RLIMIT_AS, &limit);
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let area = libc::mmap(ptr::null_mut(), 128 << 20, libc::PROT_READ, flags, -1, 0);
                tell("mmap", if area == libc::MAP_FAILED { -1 } else { 0 });
            }),
        );
        let mut limit: libc::rlimit = mem::zeroed();
        tell(
            "an unknown limit",
            libc::syscall(libc::SYS_prlimit64, 0, 99, ptr::null::<u8>(), &mut limit),
        );
    }
}

/// The namespaces of the process, which it may enter again.
unsafe fn own_namespaces() {
    const GET_USERS: libc::c_ulong = 0xb701;
    const GET_PARENT: libc::c_ulong = 0xb702;
    const GET_KIND: libc::c_ulong = 0xb703;
    const GET_OWNER: libc::c_ulong = 0xb704;
    use std::os::unix::fs::MetadataExt;
    unsafe {
        for directory in ["/proc/self/ns", "/proc/thread-self/ns"] {
            let about = std::fs::metadata(directory).expect("it is there");
            println!("{directory}: {:o} {}", about.mode(), about.nlink());
        }
        let listed = std::fs::read_dir("/proc/self/ns").expect("it is there");
        let mut names: Vec<_> = listed
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap_or_default())
            .collect();
        names.sort();
        let owner = in_child(|| {
            libc::setuid(1234);
            for of in ["self", "1"] {
                let path = format!("/proc/{of}/ns/uts");
                println!("{of}: {:?}", std::fs::read_link(path).map_err(|e| e.kind()));
            }
            let path = CString::new("/proc/self/ns/uts").expect("no zero");
            let file = libc::open(path.as_ptr(), libc::O_RDONLY);
            tell("a user's setns", libc::setns(file, 0));
        });
        tell_end("a user", owner);
        for name in names {
            let path = format!("/proc/self/ns/{name}");
            println!(
                "{name}: {:?}",
                std::fs::read_link(&path).unwrap_or_default()
            );
            let about = std::fs::metadata(&path).expect("it can be followed");
            let all = (about.mode(), about.nlink(), about.size(), about.uid());
            println!(" {} {all:?}", about.ino());
            let path = CString::new(path).expect("no zero");
            tell_ok(
                " opened for writing",
                libc::open(path.as_ptr(), libc::O_WRONLY) >= 0,
            );
            tell(" changed", libc::chmod(path.as_ptr(), 0o777));
            let file = libc::open(path.as_ptr(), libc::O_RDONLY);
            let mut owner = 7u32;
            tell(" read", libc::read(file, (&raw mut owner).cast(), 4) as i64);
            tell(" kind", libc::ioctl(file, GET_KIND as _));
            tell(" parent", libc::ioctl(file, GET_PARENT as _));
            tell(" owner", libc::ioctl(file, GET_OWNER as _, &raw mut owner));
            let users = libc::ioctl(file, GET_USERS as _);
            tell_ok(" users", users >= 0);
            libc::close(users);
            tell(" unknown", libc::ioctl(file, 0xb7ff as _));
            tell(" setns of another kind", libc::setns(file, libc::CLONE_FS));
            // Entering a mount namespace changes the root and the working directory; Stile does not
            // do that.
            if name != "mnt" {
                tell(" setns", libc::setns(file, 0));
            }
            libc::close(file);
        }
    }
}

/// Namespaces that a user may not create, and invalid flags.
unsafe fn namespaces() {
    unsafe {
        let file = libc::open(path(c"/dev/null"), libc::O_RDONLY);
        tell("setns of nothing", libc::setns(-1, 0));
        tell("setns of a device", libc::setns(file, 0));
        own_namespaces();
        libc::close(file);
        let status = in_child(|| {
            libc::setuid(1234);
            tell("a user's mounts", libc::unshare(libc::CLONE_NEWNS));
            tell("a user's names", libc::unshare(libc::CLONE_NEWUTS));
            let flags = (libc::CLONE_NEWPID | libc::SIGCHLD) as usize;
            tell(
                "a user's numbers",
                libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0),
            );
        });
        tell_end("the user", status);
    }
}

/// /proc/PID/mem.
unsafe fn memory() {
    unsafe {
        static CONSTANT: [u8; 5] = *b"still";
        let name = format!("/proc/{}/mem\0", libc::getpid());
        let memory = libc::open(name.as_ptr().cast(), libc::O_RDWR);
        let mut word = *b"hello";
        let mut copy = [0u8; 5];
        let at = |bytes: *const u8| bytes as libc::off_t;
        let read = |from, to: &mut [u8; 5]| libc::pread(memory, to.as_mut_ptr().cast(), 5, from);
        tell("read", read(at(word.as_ptr()), &mut copy) as i64);
        println!("{}", String::from_utf8_lossy(&copy));
        let new = c"howdy".as_ptr().cast();
        tell(
            "write",
            libc::pwrite(memory, new, 5, at((&raw mut word).cast())) as i64,
        );
        println!(
            "{}",
            String::from_utf8_lossy((&raw const word).read_volatile().as_slice())
        );
        let constant = at((&raw const CONSTANT).cast());
        tell(
            "write what is constant",
            libc::pwrite(memory, new, 5, constant) as i64,
        );
        println!(
            "{}",
            String::from_utf8_lossy((&raw const CONSTANT).read_volatile().as_slice())
        );
        tell("read of nothing", read(8, &mut copy) as i64);
        let status = in_child(|| {
            libc::setuid(1234);
            tell(
                "of another's",
                libc::open(name.as_ptr().cast(), libc::O_RDONLY),
            );
        });
        tell_end("the user", status);
    }
}
