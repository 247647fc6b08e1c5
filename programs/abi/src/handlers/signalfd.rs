//! signalfd(2).

use super::*;

pub unsafe fn descriptor() {
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut set, SIGUSR1);
        libc::sigaddset(&mut set, QUEUED);
        libc::sigaddset(&mut set, libc::SIGKILL);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        let file = libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
        tell("odd flags", libc::signalfd(-1, &set, 1));
        tell("of what is none", libc::signalfd(0, &set, 0));
        tell("of nothing", libc::signalfd(99, &set, 0));
        tell(
            "a short set",
            libc::syscall(libc::SYS_signalfd4, -1, &set, 4, 0),
        );
        let info = fdinfo(file);
        println!(
            "{}",
            info.lines()
                .find(|line| line.starts_with("sigmask"))
                .unwrap_or("no mask")
        );
        let mut got: [libc::signalfd_siginfo; 3] = mem::zeroed();
        let size = mem::size_of::<libc::signalfd_siginfo>();
        let mut read = |what: &str, bytes: usize| {
            tell(
                what,
                libc::read(file, got.as_mut_ptr().cast(), bytes) as i64,
            )
        };
        read("nothing", size);
        read("too little", size - 1);
        libc::sigqueue(
            libc::getpid(),
            QUEUED,
            libc::sigval {
                sival_ptr: ptr::without_provenance_mut(5),
            },
        );
        libc::raise(SIGUSR1);
        libc::kill(libc::getpid(), SIGUSR1);
        read("three at most", size * 3);
        for one in &got {
            println!(
                "{} code {} own {} value {}",
                one.ssi_signo == SIGUSR1 as u32,
                one.ssi_code,
                one.ssi_pid == libc::getpid() as u32,
                one.ssi_int
            );
        }
        libc::sigdelset(&mut set, SIGUSR1);
        tell(
            "changed",
            libc::c_int::from(libc::signalfd(file, &set, 0) == file),
        );
        libc::raise(SIGUSR1);
        tell(
            "not asked for",
            libc::read(file, got.as_mut_ptr().cast(), size) as i64,
        );
        let mut poll = libc::pollfd {
            fd: file,
            events: libc::POLLIN,
            revents: 0,
        };
        tell("nothing there", libc::poll(&mut poll, 1, 0));
        ready(file);
    }
}

/// F_SETSIG selects the signal that reports a file's readiness.
unsafe fn ready(file: c_int) {
    const F_SETSIG: c_int = 10;
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        libc::fcntl(ends[0], F_SETSIG, QUEUED);
        libc::fcntl(ends[0], libc::F_SETOWN, libc::getpid());
        libc::fcntl(ends[0], libc::F_SETFL, libc::O_ASYNC);
        libc::write(ends[1], c"x".as_ptr().cast(), 1);
        let mut got: libc::signalfd_siginfo = mem::zeroed();
        let size = mem::size_of_val(&got);
        let count = libc::read(file, (&raw mut got).cast(), size);
        tell("ready", count as i64);
        println!(
            "code {} band {:#x} file {} pid {} value {} address {}",
            got.ssi_code,
            got.ssi_band,
            got.ssi_fd == ends[0],
            got.ssi_pid,
            got.ssi_int,
            got.ssi_addr
        );
        ends.iter().for_each(|&end| _ = libc::close(end));
    }
}

/// The content of /proc/self/fdinfo for a file.
fn fdinfo(file: c_int) -> String {
    std::fs::read_to_string(format!("/proc/self/fdinfo/{file}")).unwrap_or_default()
}
