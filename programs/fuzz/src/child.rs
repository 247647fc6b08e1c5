//! The process that a random program runs in: an ordinary user's, with files of its own in its
//! folder, and descriptors of many kinds.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::symlink;

use crate::arena;

/// Where descriptors are while they are made, above those that a program has.
const ABOVE: i32 = 100;
/// How long a call may block, in µs, before a signal ends it.
const BLOCK: i64 = 100_000;

/// Prepares this process: its folder, which is the current one, its user and limits, and its
/// descriptors, which have the same numbers on every kernel.
pub fn prepare(user: u32, port: u16) {
    let folder = CString::new(".").expect("a path");
    // SAFETY: calls of the C library, whose arguments are numbers and a string.
    unsafe {
        libc::setsid();
        libc::umask(0o022);
        assert_eq!(libc::chown(folder.as_ptr(), user, user), 0);
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setgid(user), 0);
        assert_eq!(libc::setuid(user), 0);
        libc::prctl(libc::PR_SET_DUMPABLE, 1);
    }
    make_files();
    open_descriptors(port);
    limit();
}

/// Lets blocked calls end with EINTR.
pub fn end_blocked_calls() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        let time = libc::timeval {
            tv_sec: 0,
            tv_usec: BLOCK as _,
        };
        let timer = libc::itimerval {
            it_interval: time,
            it_value: time,
        };
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
    }
}

fn limit() {
    let limits = [
        (libc::RLIMIT_NOFILE, 128),
        (libc::RLIMIT_MEMLOCK, 1 << 20),
        (libc::RLIMIT_AS, 1 << 30),
        (libc::RLIMIT_FSIZE, 1 << 20),
        (libc::RLIMIT_SIGPENDING, 100),
        (libc::RLIMIT_MSGQUEUE, 200_000),
        (libc::RLIMIT_NPROC, 50),
        (libc::RLIMIT_NICE, 0),
        (libc::RLIMIT_RTPRIO, 0),
        (libc::RLIMIT_CORE, 0),
    ];
    for (which, value) in limits {
        let limit = libc::rlimit {
            rlim_cur: value,
            rlim_max: value,
        };
        // SAFETY: the call reads the structure.
        assert_eq!(unsafe { libc::setrlimit(which, &limit) }, 0, "setrlimit");
    }
}

fn make_files() {
    for (index, name) in ["f0", "f1", "f2", "f3"].iter().enumerate() {
        fs::write(name, vec![b'a' + index as u8; index * 3000]).expect("a file");
    }
    for name in ["d0", "d1", "d1/d2"] {
        fs::create_dir(name).expect("a folder");
    }
    fs::write("d0/f0", "in a folder").expect("a file");
    for (target, name) in [("f0", "l0"), ("d0", "l1"), ("l2", "l2")] {
        symlink(target, name).expect("a link");
    }
    let fifo = CString::new("fifo").expect("a path");
    // SAFETY: the call reads the path.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o644) }, 0);
}

/// Checks the result of a call of the C library that makes a descriptor.
fn made(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "a descriptor: {}", std::io::Error::last_os_error());
    // SAFETY: it was made just now.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn open(path: &str, flags: i32) -> OwnedFd {
    let path = CString::new(path).expect("a path");
    // SAFETY: the call reads the path.
    made(unsafe { libc::open(path.as_ptr(), flags, 0o644) })
}

fn socket(family: i32, kind: i32) -> OwnedFd {
    // SAFETY: the arguments are numbers.
    made(unsafe { libc::socket(family, kind | libc::SOCK_NONBLOCK, 0) })
}

fn pair(kind: i32) -> [OwnedFd; 2] {
    let mut fds = [0; 2];
    // SAFETY: the call writes two descriptors.
    assert_eq!(
        unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) },
        0
    );
    fds.map(made)
}

/// An IPv4 address of the machine itself.
fn local(port: u16) -> libc::sockaddr_in {
    // SAFETY: all zeros are a value.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as _;
    address.sin_port = port.to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    address
}

/// Binds to a port, which a connection of an earlier run may still have.
fn bind(fd: &OwnedFd, port: u16) {
    let on = 1i32;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_REUSEADDR);
    // SAFETY: the call reads a number.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const on).cast(), 4) };
    assert_eq!(done, 0, "setsockopt");
    let (address, len) = (local(port), size_of::<libc::sockaddr_in>() as u32);
    // SAFETY: the call reads the address.
    let done = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    assert_eq!(done, 0, "bind");
}

fn connect(fd: &OwnedFd, port: u16) {
    let (address, len) = (local(port), size_of::<libc::sockaddr_in>() as u32);
    // SAFETY: the call reads the address.
    let done = unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) };
    assert_eq!(done, 0, "connect");
}

/// A listening socket, and a connection to it.
fn connection(port: u16) -> [OwnedFd; 3] {
    // SAFETY: the arguments are numbers.
    let [listener, client] =
        [0; 2].map(|_| made(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) }));
    bind(&listener, port);
    // SAFETY: a descriptor of this function.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 4) }, 0);
    connect(&client, port);
    // SAFETY: the call is told of no memory.
    let server = made(unsafe {
        libc::accept(
            listener.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    });
    [listener, client, server]
}

/// All descriptors of a program, from 0 on; those that would block are set not to, but for some.
fn descriptors(port: u16) -> Vec<OwnedFd> {
    let (read, write) = (libc::O_RDONLY, libc::O_RDWR);
    let mut all: Vec<OwnedFd> = (0..3).map(|_| open("/dev/null", write)).collect();
    all.extend([open("f0", write), open("f1", read), open("d0", read)]);
    let mut pipe = [0; 2];
    // SAFETY: the call writes two descriptors.
    assert_eq!(
        unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK) },
        0
    );
    all.extend(pipe.map(made));
    all.extend(pair(libc::SOCK_STREAM | libc::SOCK_NONBLOCK));
    all.extend(pair(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK));
    all.extend(pair(libc::SOCK_SEQPACKET));
    let empty = 0u64;
    let memory = CString::new("memory").expect("a name");
    // SAFETY: the calls read an empty set and strings.
    unsafe {
        all.push(made(libc::eventfd(3, libc::EFD_NONBLOCK)));
        all.push(made(libc::epoll_create1(0)));
        all.push(made(libc::timerfd_create(
            libc::CLOCK_MONOTONIC,
            libc::TFD_NONBLOCK,
        )));
        all.push(made(libc::memfd_create(
            memory.as_ptr(),
            libc::MFD_ALLOW_SEALING,
        )));
        all.push(made(libc::inotify_init1(libc::IN_NONBLOCK)));
        all.push(made(libc::signalfd(
            -1,
            (&raw const empty).cast(),
            libc::SFD_NONBLOCK,
        )));
        all.push(made(
            libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) as i32,
        ));
    }
    all.extend([
        open("f2", libc::O_PATH),
        open("/dev/zero", write),
        open("/dev/full", write),
    ]);
    let datagrams = [0, 1].map(|_| socket(libc::AF_INET, libc::SOCK_DGRAM));
    bind(&datagrams[0], port);
    connect(&datagrams[1], port);
    all.extend(datagrams);
    all.extend(connection(port));
    all.push(socket(libc::AF_INET, libc::SOCK_STREAM));
    all.push(socket(libc::AF_INET6, libc::SOCK_DGRAM));
    all.push(socket(libc::AF_UNIX, libc::SOCK_STREAM));
    all.push(socket(libc::AF_NETLINK, libc::SOCK_RAW));
    all.push(open("/dev/ptmx", write | libc::O_NOCTTY | libc::O_NONBLOCK));
    all.extend([
        open("f3", libc::O_WRONLY | libc::O_APPEND),
        open("fifo", write),
    ]);
    all.extend([
        open(".", read),
        open("d1", libc::O_PATH | libc::O_DIRECTORY),
    ]);
    all
}

fn open_descriptors(port: u16) {
    // Their numbers do not depend on what is open now, nor on the order in which they are made.
    let high: Vec<i32> = descriptors(port)
        .into_iter()
        .map(|fd| {
            // SAFETY: the descriptor is this function's own.
            made(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, ABOVE) }).into_raw_fd()
        })
        .collect();
    for (number, fd) in (0..).zip(&high) {
        // SAFETY: nothing else in this process uses these numbers any more.
        assert_eq!(unsafe { libc::dup2(*fd, number) }, number);
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, high.len() as u32, u32::MAX, 0) };
    arena::map_file(3);
}
