//! Refused arguments and their errors; flags that change the effect of a call.

use std::{mem, ptr};

use libc::{
    AF_INET, AF_UNIX, O_APPEND, O_CREAT, O_RDWR, SCHED_FIFO, SOCK_DGRAM, SOCK_STREAM, c_int,
};

use crate::{in_child, path, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        scheduling();
        threads();
        files();
        sockets();
        handlers();
        times();
        places();
        settings();
    }
}

unsafe fn scheduling() {
    const RESET: c_int = 0x4000_0000;
    unsafe {
        tell(
            "no place for a parameter",
            libc::syscall(libc::SYS_sched_getparam, 0, 0),
        );
        tell(
            "no parameter",
            libc::syscall(libc::SYS_sched_setparam, 0, 0),
        );
        tell(
            "priority of nobody",
            libc::syscall(libc::SYS_getpriority, 0, -1),
        );
        tell(
            "nice of nobody",
            libc::syscall(libc::SYS_setpriority, 0, -1, 1),
        );
        let status = in_child(|| {
            let policy = |what: &str| tell(what, libc::syscall(libc::SYS_sched_getscheduler, 0));
            let ten = 10u32;
            tell(
                "not for children",
                libc::syscall(libc::SYS_sched_setscheduler, 0, SCHED_FIFO | RESET, &ten),
            );
            policy("its own");
            in_child(|| policy("a child's"));
            libc::syscall(libc::SYS_sched_setparam, 0, &ten);
            policy("its own with another priority");
            libc::syscall(libc::SYS_sched_setscheduler, 0, SCHED_FIFO, &ten);
            in_child(|| policy("a child's, inherited"));
            libc::syscall(libc::SYS_sched_setscheduler, 0, RESET, &0u32);
            libc::setpriority(libc::PRIO_PROCESS, 0, -5);
            in_child(|| tell("a child's nice", libc::syscall(libc::SYS_getpriority, 0, 0)));
        });
        tell_end("scheduling", status);
    }
}

unsafe fn threads() {
    unsafe {
        in_child(|| {
            libc::setuid(77);
            let groups = libc::syscall(libc::SYS_setgroups, -1, 0);
            tell("too many groups, without the right", groups);
        });
        let status = in_child(|| {
            extern "C" fn handler(_: c_int) {}
            libc::signal(libc::SIGUSR1, handler as *const () as usize);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let own = libc::syscall(libc::SYS_gettid) as c_int;
                    tell("kill by a thread's number", libc::kill(own, libc::SIGUSR1));
                    let mut info: libc::siginfo_t = mem::zeroed();
                    info.si_code = libc::SI_QUEUE;
                    let signal = libc::SIGUSR1;
                    tell(
                        "with a value",
                        libc::syscall(libc::SYS_rt_sigqueueinfo, own, signal, &info),
                    );
                });
            });
        });
        tell_end("threads", status);
    }
}

unsafe fn files() {
    unsafe {
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        let mut byte = 0u8;
        let at = (&raw mut byte).cast();
        tell(
            "write at a place of a pipe",
            libc::pwrite(pipe[0], at, 1, 0) as i64,
        );
        tell(
            "read at a place of a pipe",
            libc::pread(pipe[1], at, 1, 0) as i64,
        );
        libc::write(pipe[1], at, 1);
        let file = libc::open(path(c"appended"), O_CREAT | O_RDWR | O_APPEND, 0o644);
        let spliced = libc::splice(pipe[0], ptr::null_mut(), file, ptr::null_mut(), 1, 0);
        tell("splice to what is appended to", spliced as i64);
        let null = libc::open(path(c"/dev/null"), O_RDWR);
        tell("fsync of a device", libc::fsync(null));
        for device in [c"/dev/null", c"/dev/zero", c"/dev/full", c"/dev/urandom"] {
            let file = libc::open(path(device), O_RDWR);
            tell("a place in a device", libc::lseek(file, 5, libc::SEEK_SET));
            tell("read there", libc::pread(file, at, 1, 7) as i64);
        }
        let how = [0u64, 0, 2 /* RESOLVE_NO_MAGICLINKS */];
        let create = [O_CREAT as u64, 0o644, 2];
        let exe = c"/proc/self/exe".as_ptr();
        tell(
            "no magic links",
            libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, exe, &how, 24),
        );
        tell(
            "nor to create",
            libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, exe, &create, 24),
        );
    }
}

unsafe fn sockets() {
    unsafe {
        let mut pair = [0; 2];
        let mut make = |what: &str, family, kind| {
            tell(what, libc::socketpair(family, kind, 0, pair.as_mut_ptr()));
        };
        make("a pair of no family", 0, SOCK_STREAM);
        make("a pair of an odd family", 45, SOCK_STREAM);
        make("a pair of TCP", AF_INET, SOCK_STREAM);
        make("a pair of UDP", AF_INET, SOCK_DGRAM);
        make("a pair", AF_UNIX, SOCK_STREAM);
        let socket = libc::socket(AF_INET, SOCK_STREAM, 0);
        for (name, level) in [("odd", 500), ("UDP", 17), ("TCP", 6), ("IP", 0)] {
            let (mut value, mut len) = (0u32, 4);
            let at = (&raw mut value).cast();
            tell(
                &format!("get: level {name}"),
                libc::getsockopt(socket, level, 9999, at, &mut len),
            );
            tell(
                &format!("set: level {name}"),
                libc::setsockopt(socket, level, 9999, at, 4),
            );
        }
    }
}

unsafe fn handlers() {
    extern "C" fn handler(_: c_int) {}
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaction(libc::SIGUSR1, &action, ptr::null_mut());
        libc::raise(libc::SIGUSR1);
        let mut after: libc::sigaction = mem::zeroed();
        libc::sigaction(libc::SIGUSR1, ptr::null(), &mut after);
        let flags = libc::SA_RESETHAND | libc::SA_SIGINFO | libc::SA_NODEFER;
        println!(
            "once: default {}, flags {}",
            after.sa_sigaction == 0,
            after.sa_flags & flags == flags
        );
    }
}

unsafe fn times() {
    unsafe {
        for (name, personality) in [("taken", 0), ("left alone", 0x0400_0000)] {
            libc::personality(personality);
            let mut time = [0i64, 1000];
            libc::syscall(libc::SYS_pselect6, 0, 0, 0, 0, &mut time, 0);
            println!("the time is {name}: {}", time == [0, 1000]);
        }
        libc::personality(0);
    }
}

/// Machine-wide settings, which are changed and restored.
unsafe fn settings() {
    let set = |name: &str, value: &str| {
        let place = format!("/proc/sys/kernel/{name}");
        let before = std::fs::read_to_string(&place).unwrap_or_default();
        println!("{name} {value}: {}", std::fs::write(&place, value).is_ok());
        move || _ = std::fs::write(place, before)
    };
    unsafe {
        let domain = set("domainname", "a.domain");
        let mut names: libc::utsname = mem::zeroed();
        libc::uname(&mut names);
        let bytes: &[u8; 65] = &*names.domainname.as_ptr().cast();
        println!("in uname: {}", bytes.starts_with(b"a.domain\0"));
        domain();
        let largest = set("shmmax", "8192");
        tell("8193 bytes", libc::shmget(libc::IPC_PRIVATE, 8193, 0o600));
        largest();
        set("pid_max", "300")();
        let most = set("pid_max", "400");
        let mut highest = 0;
        for _ in 0..400 {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(0);
            }
            libc::waitpid(child, ptr::null_mut(), 0);
            highest = highest.max(child);
        }
        println!("numbers below it: {}", (300..400).contains(&highest));
        most();
        for (what, kind, len) in [
            ("no such command", 100, 0),
            ("level 0", 8, 0),
            ("level 9", 8, 9),
            ("level 7", 8, 7),
        ] {
            tell(
                what,
                libc::syscall(libc::SYS_syslog, kind, ptr::null::<u8>(), len) as i64,
            );
        }
        let status = in_child(|| {
            libc::setuid(1000);
            tell(
                "unprivileged",
                libc::syscall(libc::SYS_syslog, 10, 0, 0) as i64,
            );
        });
        tell_end("child", status);
        let none = ptr::null::<libc::c_char>();
        let times = ptr::null::<libc::timespec>();
        let changed = libc::syscall(libc::SYS_utimensat, libc::AT_FDCWD, none, times, 0);
        tell("times of nothing", changed as i64);
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let mut mark: c_int = 9;
        const SIOCATMARK: u64 = 0x8905;
        tell("mark", libc::ioctl(socket, SIOCATMARK as _, &mut mark));
        println!("{mark}");
        tell("nowhere", libc::ioctl(socket, SIOCATMARK as _, 0));
        let random = libc::open(path(c"/dev/urandom"), libc::O_RDONLY);
        const RNDGETENTCNT: u64 = 0x8004_5200;
        tell("entropy", libc::ioctl(random, RNDGETENTCNT as _, &mut mark));
        let told = std::fs::read_to_string("/proc/sys/kernel/random/entropy_avail");
        println!(
            "as told: {}",
            told.unwrap_or_default().trim() == mark.to_string()
        );
        libc::close(libc::open(path(c"grows"), libc::O_CREAT, 0o600));
        let status = in_child(|| {
            let limit = libc::rlimit {
                rlim_cur: 100,
                rlim_max: 100,
            };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            tell("up to the limit", libc::truncate(path(c"grows"), 100));
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            tell("beyond", libc::truncate(path(c"grows"), 101));
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            libc::truncate(path(c"grows"), 101);
        });
        tell_end("by default", status);
    }
}

unsafe fn places() {
    unsafe {
        let status = in_child(|| {
            libc::mkdir(path(c"root"), 0o755);
            libc::chroot(path(c"root"));
            let mut text = [0u8; 256];
            let len = libc::syscall(libc::SYS_getcwd, text.as_mut_ptr(), text.len());
            println!(
                "outside of the root: {} {}",
                len > 0,
                text.starts_with(b"(unreachable)/")
            );
            libc::chdir(path(c"/"));
            let len = libc::syscall(libc::SYS_getcwd, text.as_mut_ptr(), text.len());
            println!("in it: {len} {}", text.starts_with(b"/\0"));
        });
        tell_end("places", status);
    }
}
