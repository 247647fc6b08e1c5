//! Results of ioctls that are written to memory: of terminals, also after their hang-up, and of
//! descriptors opened with O_PATH; locked System V segments.

use std::ptr;

use libc::{O_NOCTTY, O_NONBLOCK, O_PATH, O_RDWR, c_int};

use crate::{in_child, tell, tell_end};

const GET_LOCK: u32 = 0x8004_5439;
const SET_LOCK: u32 = 0x4004_5431;
const GET_PACKETS: u32 = 0x8004_5438;
const GET_PEER: u32 = 0x5441;
const GET_EXCLUSIVE: u32 = 0x8004_5440;
const FIOQSIZE: u32 = 0x5460;
const FIGETBSZ: u32 = 2;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        terminals();
        path();
        let roots = libc::shmget(libc::IPC_PRIVATE, 4 * KIB, 0o600);
        tell("root's", lock(roots));
        tell_end("segments", in_child(|| segments(roots)));
        tell("root's", remove(roots));
    }
}

unsafe fn ask(what: &str, fd: c_int, request: u32) {
    unsafe {
        let mut answer = [0u16; 64];
        let result = libc::ioctl(fd, request as _, &mut answer);
        tell(what, result);
        if result >= 0 {
            println!("{:?}", &answer[..4]);
        }
    }
}

/// The answers of a terminal's two ends, and of a slave whose master is closed.
unsafe fn terminals() {
    unsafe {
        let master = libc::open(c"/dev/ptmx".as_ptr(), O_RDWR | O_NOCTTY | O_NONBLOCK);
        ask("locked", master, GET_LOCK);
        libc::ioctl(master, SET_LOCK as _, &mut 0);
        ask("unlocked", master, GET_LOCK);
        let slave = libc::ioctl(master, GET_PEER as _, O_RDWR | O_NOCTTY | O_NONBLOCK);
        let size = libc::winsize {
            ws_row: 25,
            ws_col: 80,
            ws_xpixel: 1,
            ws_ypixel: 2,
        };
        libc::ioctl(slave, libc::TIOCSWINSZ as _, &size);
        libc::write(master, c"line\n".as_ptr().cast(), 5);
        libc::write(slave, c"out".as_ptr().cast(), 3);
        for (end, fd) in [("master", master), ("slave", slave)] {
            println!("{end}");
            ask("packets", fd, GET_PACKETS);
            ask("to read", fd, libc::FIONREAD as u32);
            ask("to send", fd, libc::TIOCOUTQ as u32);
            ask("exclusive", fd, GET_EXCLUSIVE);
            ask("size", fd, libc::TIOCGWINSZ as u32);
        }
        libc::close(master);
        println!("hung up");
        for (what, request) in [
            ("size", libc::TIOCGWINSZ as u32),
            ("modes", libc::TCGETS as u32),
            ("to send", libc::TIOCOUTQ as u32),
            ("to read", libc::FIONREAD as u32),
            ("group", libc::TIOCGPGRP as u32),
            ("new group", libc::TIOCSPGRP as u32),
            ("session", libc::TIOCGSID as u32),
            ("nothing like it", 0x5499),
            ("kept at exec", libc::FIONCLEX as u32),
        ] {
            ask(what, slave, request);
        }
        libc::close(slave);
    }
}

unsafe fn path() {
    unsafe {
        let fd = libc::open(c"/".as_ptr(), O_PATH);
        for (what, request) in [
            ("path: to read", libc::FIONREAD as u32),
            ("path: waits", libc::FIONBIO as u32),
            ("path: closed at exec", libc::FIOCLEX as u32),
            ("path: block", FIGETBSZ),
            ("path: size", FIOQSIZE),
            ("path: modes", libc::TCGETS as u32),
        ] {
            ask(what, fd, request);
        }
        libc::close(fd);
    }
}

const KIB: usize = 1024;

unsafe fn lock(id: c_int) -> c_int {
    unsafe { libc::shmctl(id, libc::SHM_LOCK, ptr::null_mut()) }
}

unsafe fn remove(id: c_int) -> c_int {
    unsafe { libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()) }
}

/// Segments of an ordinary user with a limit on locked memory.
unsafe fn segments(roots: c_int) {
    unsafe {
        let limit = |bytes: u64| {
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: 128 * KIB as u64,
            };
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit)
        };
        let new = |len: usize| libc::shmget(libc::IPC_PRIVATE, len, 0o600);
        let unlock = |id: c_int| libc::shmctl(id, libc::SHM_UNLOCK, ptr::null_mut());
        libc::setuid(1000);
        tell("of another", lock(roots));
        tell("unlock of another", unlock(roots));
        let (small, large) = (new(40 * KIB), new(128 * KIB));
        limit(64 * KIB as u64);
        tell("small", lock(small));
        tell("again", lock(small));
        tell("too large", lock(large));
        limit(128 * KIB as u64);
        tell("too many", lock(large));
        tell("unlock", unlock(small));
        tell("now", lock(large));
        tell("no more", lock(small));
        tell("remove", remove(large));
        tell("removed", lock(small));
        limit(0);
        tell("no limit left", lock(small));
        tell("unlock", unlock(small));
        tell("remove", remove(small));
    }
}
