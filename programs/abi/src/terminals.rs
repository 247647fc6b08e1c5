//! Terminals: exclusive use, and which open files may get one as the controlling terminal.

use std::ffi::CStr;

use libc::{O_NOCTTY, O_RDONLY, O_RDWR, O_WRONLY, c_char, c_int};

use crate::{in_child, tell, tell_end, tell_ok};

const USER: u32 = 1004;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for (who, user) in [("root", 0), ("a user", USER)] {
            println!("{who}:");
            tell_end("exclusive", in_child(|| exclusive(user)));
            tell_end("only written", in_child(|| only_written(user)));
        }
        tell_end("kept", in_child(|| kept()));
    }
}

/// Opens a pseudo-terminal of a user: its master, and the path of its slave.
unsafe fn pair(user: u32) -> (c_int, [c_char; 64]) {
    unsafe {
        if user != 0 {
            libc::setgid(user);
            libc::setuid(user);
        }
        let master = libc::posix_openpt(O_RDWR | O_NOCTTY);
        libc::grantpt(master);
        libc::unlockpt(master);
        let mut name = [0; 64];
        libc::ptsname_r(master, name.as_mut_ptr(), name.len());
        (master, name)
    }
}

unsafe fn open(what: &str, path: *const c_char, flags: c_int) -> c_int {
    unsafe {
        let file = libc::open(path, flags);
        tell_ok(what, file >= 0);
        file
    }
}

/// Whether the process has a controlling terminal.
unsafe fn tell_own() {
    const OWN: &CStr = c"/dev/tty";
    unsafe { libc::close(open("its terminal", OWN.as_ptr(), O_RDWR)) };
}

unsafe fn exclusive(user: u32) {
    unsafe {
        let (_, name) = pair(user);
        let (path, flags) = (name.as_ptr(), O_RDWR | O_NOCTTY);
        let first = open("slave", path, flags);
        let second = open("another", path, flags);
        tell("exclusive", libc::ioctl(first, libc::TIOCEXCL as _));
        libc::close(open("a third", path, flags));
        libc::close(first);
        libc::close(open("without the first", path, flags));
        libc::close(second);
        let again = open("without any", path, flags);
        let mut is_exclusive = -1;
        tell(
            "get",
            libc::ioctl(again, libc::TIOCGEXCL as _, &mut is_exclusive),
        );
        println!("exclusive: {is_exclusive}");
    }
}

/// A file that is only written gives no controlling terminal.
unsafe fn only_written(user: u32) {
    unsafe {
        let (_, name) = pair(user);
        libc::setsid();
        let written = open("written", name.as_ptr(), O_WRONLY);
        tell_own();
        tell("taken", libc::ioctl(written, libc::TIOCSCTTY as _, 0));
        tell_own();
        let read = open("read", name.as_ptr(), O_RDONLY);
        tell_own();
        tell(
            "group",
            libc::c_int::from(libc::tcgetpgrp(read) == libc::getpid()),
        );
    }
}

/// Who leads no session takes no terminal from another, even as root.
unsafe fn kept() {
    unsafe {
        let (_, name) = pair(0);
        libc::setsid();
        let slave = open("slave", name.as_ptr(), O_RDWR);
        tell_own();
        let steal = || tell("stolen", libc::ioctl(slave, libc::TIOCSCTTY as _, 1));
        tell_end("a member", in_child(steal));
        tell_own();
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        let with_other = || {
            libc::setsid();
            let (_, name) = pair(0);
            open("another", name.as_ptr(), O_RDWR);
            steal();
            tell_own();
        };
        tell_end("who has one", in_child(with_other));
        tell_own();
        let alone = || {
            libc::setsid();
            steal();
            tell_own();
        };
        tell_end("who has none", in_child(alone));
        tell_own();
    }
}
