//! Objects that hold one another, in chains as long as a program likes, which end at once: sockets
//! in flight over one another, connections in one another's backlogs, filters, processes, mounts.

use std::ffi::CStr;
use std::mem;

use libc::{AF_UNIX, SOCK_STREAM, c_int};

use super::rights::send;
use crate::{in_child, tell, tell_end, tell_ok};

/// Deeper than any stack would bear.
const DEPTH: usize = 2_000;
/// Processes and mounts, of which each takes more.
const FEW: usize = 300;

/// Runs this part.
pub fn run() {
    // SAFETY: each is called in a process of its own, with a folder to itself.
    unsafe {
        tell_end("in flight", in_child(|| ends(|held| in_flight(held))));
        tell_end("in backlogs", in_child(|| ends(|held| in_backlogs(held))));
        tell_end("filters", in_child(|| filters()));
        tell_end("processes", in_child(|| processes()));
        tell_end("stacked", in_child(|| mounts(c".")));
        tell_end("nested", in_child(|| mounts(c"d")));
    }
}

/// Lets `chain` put a descriptor at the end of a chain, whose begin it returns, and closes that:
/// whether the descriptor is closed, too.
unsafe fn ends(chain: impl FnOnce(c_int) -> c_int) {
    let mut pipe = [-1; 2];
    // SAFETY: there is room for two descriptors, and one to poll.
    unsafe {
        libc::pipe(pipe.as_mut_ptr());
        let begin = chain(pipe[1]);
        let mut waiting = libc::pollfd {
            fd: pipe[0],
            events: libc::POLLIN,
            revents: 0,
        };
        tell("held", libc::poll(&mut waiting, 1, 0));
        tell("the begin goes", libc::close(begin));
        tell("the end went", libc::poll(&mut waiting, 1, 60_000));
    }
}

/// Sends `held` over a socket, which is then sent over the next.
unsafe fn in_flight(mut held: c_int) -> c_int {
    let mut sent = 0;
    for _ in 0..DEPTH {
        let mut pair = [-1; 2];
        // SAFETY: there is room for two descriptors.
        unsafe {
            libc::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.as_mut_ptr());
            sent += send(pair[0], &[held]);
            libc::close(held);
            libc::close(pair[0]);
        }
        held = pair[1];
    }
    println!("sent {sent}");
    held
}

/// Sends `held` over a connection that nobody accepts, and the socket that listens over the next.
unsafe fn in_backlogs(mut held: c_int) -> c_int {
    let mut sent = 0;
    for _ in 0..DEPTH {
        // SAFETY: the address is a live value, and as long as is told.
        unsafe {
            let mut address: libc::sockaddr_un = mem::zeroed();
            address.sun_family = AF_UNIX as u16;
            let place = (&raw mut address).cast::<libc::sockaddr>();
            let listens = libc::socket(AF_UNIX, SOCK_STREAM, 0);
            // The kernel chooses a name.
            libc::bind(listens, place, mem::size_of_val(&address.sun_family) as u32);
            libc::listen(listens, 1);
            let mut len = mem::size_of_val(&address) as u32;
            libc::getsockname(listens, place, &mut len);
            let connects = libc::socket(AF_UNIX, SOCK_STREAM, 0);
            libc::connect(connects, place, len);
            sent += send(connects, &[held]);
            libc::close(held);
            libc::close(connects);
            held = listens;
        }
    }
    println!("sent {sent}");
    held
}

/// A thread with many filters of system calls.
unsafe fn filters() {
    const SET_FILTER: usize = 1;
    let allow = libc::sock_filter {
        code: 6,
        jt: 0,
        jf: 0,
        k: 0x7fff_0000,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: (&raw const allow).cast_mut(),
    };
    // SAFETY: the program lives as long as the calls.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let add = |_| libc::syscall(libc::SYS_seccomp, SET_FILTER, 0, &raw const program);
        println!("refused {}", -(0..DEPTH).map(add).sum::<i64>());
    }
}

/// Processes, each the child of the one before, which are killed at once.
unsafe fn processes() {
    let mut pipe = [-1; 2];
    // SAFETY: there is room for two descriptors and a byte.
    unsafe {
        libc::pipe(pipe.as_mut_ptr());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        let first = libc::fork();
        if first == 0 {
            libc::setpgid(0, 0);
            for _ in 1..FEW {
                if libc::fork() != 0 {
                    loop {
                        libc::pause();
                    }
                }
            }
            libc::write(pipe[1], c"x".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        let mut byte = 0u8;
        tell(
            "the last is there",
            libc::read(pipe[0], (&raw mut byte).cast(), 1) as i64,
        );
        tell("killed", libc::kill(-first, libc::SIGKILL));
        let mut ended = 0;
        while libc::wait(std::ptr::null_mut()) > 0 {
            ended += 1;
        }
        println!("{ended} ended");
    }
}

/// Mounts on one another, or within one another, which are unmounted at once.
unsafe fn mounts(at: &CStr) {
    let count = || std::fs::read_to_string("/proc/self/mountinfo").map(|text| text.lines().count());
    // SAFETY: the names are NUL-terminated; the options are not looked at.
    unsafe {
        let (kind, top) = (c"tmpfs".as_ptr(), c"/tmp/top".as_ptr());
        libc::mkdir(top, 0o755);
        let before = count().unwrap_or(0);
        tell("mount", libc::mount(kind, top, kind, 0, std::ptr::null()));
        libc::chdir(top);
        let mut failed = 0;
        for _ in 1..FEW {
            libc::mkdir(at.as_ptr(), 0o755);
            failed += libc::mount(kind, at.as_ptr(), kind, 0, std::ptr::null()) & 1;
            libc::chdir(at.as_ptr());
        }
        println!("{} more, {failed} failed", count().unwrap_or(0) - before);
        libc::chdir(c"/".as_ptr());
        let mut times = 0;
        while libc::umount2(top, libc::MNT_DETACH) == 0 {
            times += 1;
        }
        println!("unmounted {}", times > 0);
        tell_ok("as before", count().unwrap_or(0) == before);
        tell("top goes", libc::rmdir(top));
    }
}
