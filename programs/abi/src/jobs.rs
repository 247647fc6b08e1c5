//! Sessions, the controlling terminal and job control.

use std::{mem, ptr};

use libc::{
    O_NOCTTY, O_RDWR, SIGCONT, SIGHUP, SIGTTIN, SIGTTOU, WCONTINUED, WNOHANG, WUNTRACED, c_int,
};

use crate::{in_child, path, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        tell_end("without a terminal", in_child(|| without()));
        tell_end("groups", in_child(|| with_terminal(groups)));
        tell_end("refused", in_child(|| with_terminal(refused)));
        tell_end("typed ahead", in_child(|| with_terminal(typed)));
        tell_end("modes", in_child(|| with_terminal(modes)));
        tell_end("keys", in_child(|| with_terminal(keys)));
        tell_end("hung up", in_child(|| hung_up()));
        tell_end("given up", in_child(|| with_terminal(given_up)));
        orphaned();
        stopped();
        nothing();
    }
}

/// Reads zero bytes where there is no data: a reader that blocks is killed.
unsafe fn nothing() {
    unsafe {
        let (master, name) = open_pair();
        let slave = libc::open(name.as_ptr(), O_RDWR | O_NOCTTY);
        let (mut pipe, mut stream, mut datagram) = ([0; 2], [0; 2], [0; 2]);
        libc::pipe(pipe.as_mut_ptr());
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, stream.as_mut_ptr());
        libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, datagram.as_mut_ptr());
        let inotify = libc::inotify_init1(0);
        let event = libc::eventfd(0, 0);
        for (what, fd) in [
            ("nothing of a terminal", slave),
            ("nothing of its master", master),
            ("nothing of a pipe", pipe[0]),
            ("nothing of a stream", stream[0]),
            ("nothing of datagrams", datagram[0]),
            ("nothing of a watch", inotify),
            ("nothing of events", event),
        ] {
            let end = in_child(|| {
                // Only this read blocks.
                libc::alarm(if fd == inotify { 1 } else { 60 });
                tell(what, libc::read(fd, ptr::null_mut(), 0) as i64);
            });
            tell_end(what, end);
        }
    }
}

/// Opens a pseudo-terminal: its master, and the path of its slave.
unsafe fn open_pair() -> (c_int, [libc::c_char; 64]) {
    let mut name = [0; 64];
    unsafe {
        let master = libc::open(path(c"/dev/ptmx"), O_RDWR | O_NOCTTY);
        libc::grantpt(master);
        libc::unlockpt(master);
        libc::ptsname_r(master, name.as_mut_ptr(), name.len());
        (master, name)
    }
}

unsafe fn without() {
    unsafe {
        libc::setsid();
        tell("its own terminal", libc::open(path(c"/dev/tty"), O_RDWR));
        tell("a group of none", libc::tcgetpgrp(0) != 5000);
        let (master, name) = open_pair();
        let slave = libc::open(name.as_ptr(), O_RDWR | O_NOCTTY);
        tell("not asked for", libc::open(path(c"/dev/tty"), O_RDWR));
        tell("group of another's", libc::tcgetpgrp(slave));
        tell("group of the master", libc::tcgetpgrp(master));
        tell("session of another's", libc::tcgetsid(slave));
        let group = libc::getpid();
        tell("set a group", libc::ioctl(slave, libc::TIOCSPGRP, &group));
        tell_end(
            "no leader",
            in_child(|| {
                tell("take it", libc::ioctl(slave, libc::TIOCSCTTY, 0));
            }),
        );
        tell("take it", libc::ioctl(slave, libc::TIOCSCTTY, 0));
        tell("again", libc::ioctl(slave, libc::TIOCSCTTY, 0));
        tell_end(
            "another session",
            in_child(|| {
                libc::setsid();
                tell("take it", libc::ioctl(slave, libc::TIOCSCTTY, 0));
                tell("by force", libc::ioctl(slave, libc::TIOCSCTTY, 1));
            }),
        );
        tell("the group of a lost one", libc::tcgetpgrp(slave));
    }
}

/// Creates a session whose controlling terminal it opens, and runs `work`.
unsafe fn with_terminal(work: unsafe fn(c_int, c_int)) {
    unsafe {
        libc::setsid();
        let (master, name) = open_pair();
        let slave = libc::open(name.as_ptr(), O_RDWR);
        libc::signal(SIGHUP, libc::SIG_IGN);
        work(master, slave);
    }
}

/// Starts a child in its own process group that runs `work`.
unsafe fn member(work: impl FnOnce()) -> c_int {
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::setpgid(0, 0);
            work();
            libc::_exit(0);
        }
        libc::setpgid(child, child);
        child
    }
}

unsafe fn tell_state(what: &str, child: c_int, options: c_int) {
    let mut status = 0;
    let found = unsafe { libc::waitpid(child, &mut status, options) };
    if found != child {
        tell(what, found);
    } else if libc::WIFSTOPPED(status) {
        println!("{what}: stopped {}", libc::WSTOPSIG(status));
    } else if libc::WIFCONTINUED(status) {
        println!("{what}: continued");
    } else {
        tell_end(what, status);
    }
}

unsafe fn groups(_: c_int, slave: c_int) {
    unsafe {
        println!(
            "own {} {}",
            libc::tcgetpgrp(slave) == libc::getpid(),
            libc::tcgetsid(slave) == libc::getpid()
        );
        let mut byte = 0u8;
        let at = (&raw mut byte).cast();
        let child = member(|| {
            libc::read(slave, at, 1);
        });
        tell_state("reads in the background", child, WUNTRACED);
        libc::kill(child, SIGCONT);
        tell_state("and again", child, WUNTRACED);
        libc::kill(child, libc::SIGKILL);
        tell_state("killed", child, 0);
        tell_state(
            "ignores it",
            member(|| {
                libc::signal(SIGTTIN, libc::SIG_IGN);
                tell("read", libc::read(slave, at, 1) as i64);
            }),
            0,
        );
        tell_state(
            "writes",
            member(|| {
                tell("write", libc::write(slave, c"x".as_ptr().cast(), 1) as i64);
            }),
            WUNTRACED,
        );
        let mut modes: libc::termios = mem::zeroed();
        libc::tcgetattr(slave, &mut modes);
        modes.c_lflag |= libc::TOSTOP;
        tell("to stop", libc::tcsetattr(slave, libc::TCSANOW, &modes));
        let child = member(|| {
            libc::write(slave, c"x".as_ptr().cast(), 1);
        });
        tell_state("writes in the background", child, WUNTRACED);
        libc::kill(child, libc::SIGKILL);
        tell_state("killed", child, 0);
        tell_state(
            "ignores that",
            member(|| {
                libc::signal(SIGTTOU, libc::SIG_IGN);
                tell("write", libc::write(slave, c"x".as_ptr().cast(), 1) as i64);
            }),
            0,
        );
        let child = member(|| {
            libc::tcsetattr(slave, libc::TCSANOW, &modes);
        });
        tell_state("sets modes in the background", child, WUNTRACED);
        libc::kill(child, libc::SIGKILL);
        tell_state("killed", child, 0);
        let child = member(|| {
            libc::tcsetpgrp(slave, libc::getpid());
        });
        tell_state("takes the foreground", child, WUNTRACED);
        libc::kill(child, libc::SIGKILL);
        tell_state("killed", child, 0);
        let child = member(|| {
            libc::signal(SIGTTOU, libc::SIG_IGN);
            tell("to the foreground", libc::tcsetpgrp(slave, libc::getpid()));
        });
        tell_state("may", child, 0);
        println!("a group that is gone {}", libc::tcgetpgrp(slave) == child);
    }
}

unsafe fn refused(master: c_int, slave: c_int) {
    unsafe {
        tell("no such group", libc::tcsetpgrp(slave, 77777));
        tell("a negative one", libc::tcsetpgrp(slave, -1));
        let parent = libc::getppid();
        tell(
            "another session's",
            libc::tcsetpgrp(slave, libc::getpgid(parent)),
        );
        tell(
            "of a file",
            libc::tcsetpgrp(libc::open(path(c"/dev/null"), O_RDWR), 1),
        );
        tell(
            "session",
            libc::tcgetsid(libc::open(path(c"/dev/null"), O_RDWR)),
        );
        println!(
            "by the master {}",
            libc::tcgetpgrp(master) == libc::getpid()
        );
        tell("exclusive", libc::ioctl(slave, libc::TIOCEXCL as _));
        let mut name = [0; 64];
        libc::ptsname_r(master, name.as_mut_ptr(), name.len());
        tell_end(
            "a user",
            in_child(|| {
                libc::chmod(name.as_ptr(), 0o666);
                libc::setuid(1000);
                tell("opens it", libc::open(name.as_ptr(), O_RDWR | O_NOCTTY));
            }),
        );
        tell("shared", libc::ioctl(slave, libc::TIOCNXCL as _));
        locked(master, slave);
        let mut number: c_int = -1;
        tell(
            "number",
            libc::ioctl(master, 0x8004_5430u32 as _, &mut number),
        );
        println!("{}", number >= 0);
        let mut locked: c_int = -1;
        tell(
            "locked",
            libc::ioctl(master, 0x8004_5439u32 as _, &mut locked),
        );
        println!("{locked}");
        let peer = libc::ioctl(master, 0x5441, O_RDWR | O_NOCTTY);
        println!("peer {} {}", peer >= 0, libc::isatty(peer));
        tell("queued", libc::ioctl(slave, libc::TIOCOUTQ, &mut number));
        println!("{number}");
        tell("break", libc::tcsendbreak(slave, 0));
        tell("drain", libc::tcdrain(slave));
        tell("flow", libc::tcflow(slave, libc::TCOON));
        tell("odd flow", libc::tcflow(slave, 9));
        tell("flush", libc::tcflush(slave, libc::TCIOFLUSH));
        tell("odd flush", libc::tcflush(slave, 9));
    }
}

/// Locked settings (TIOCSLCKTRMIOS), and the soft carrier (TIOCSSOFTCAR).
unsafe fn locked(master: c_int, slave: c_int) {
    const GET_SOFT: u32 = 0x5419;
    const SET_SOFT: u32 = 0x541a;
    const GET_LOCKED: u32 = 0x5456;
    const SET_LOCKED: u32 = 0x5457;
    const GET_DEVICE: u32 = 0x8004_5432;
    unsafe {
        let mut name = [0; 64];
        libc::ptsname_r(master, name.as_mut_ptr(), name.len());
        let mut status: libc::stat = mem::zeroed();
        libc::stat(name.as_ptr(), &mut status);
        for (what, file) in [("slave", slave), ("master", master)] {
            let mut number: c_int = -1;
            let mut ask = |what: &str, request: u32| {
                tell(what, libc::ioctl(file, request as _, &mut number));
                number
            };
            println!("{what}: soft carrier {}", ask("get", GET_SOFT));
            for soft in [7, 0] {
                tell("set", libc::ioctl(file, SET_SOFT as _, &soft));
                println!("{}", ask("get", GET_SOFT));
            }
            let device = ask("device", GET_DEVICE);
            println!("{}", device as u64 == status.st_rdev);
        }
        tell("nowhere", libc::ioctl(slave, SET_SOFT as _, 8));
        let mut usual: libc::termios = mem::zeroed();
        libc::tcgetattr(slave, &mut usual);
        // The kernel's `struct termios`: 19 control characters after the line discipline.
        let mut all = [0xffu8; 64];
        tell("locked", libc::ioctl(master, GET_LOCKED as _, &mut all));
        println!("{:?} {:?}", &all[..36], &all[36..40]);
        let mut some = [0u8; 64];
        some[12] = libc::ECHO as u8;
        some[17 + libc::VERASE] = 1;
        tell("lock", libc::ioctl(slave, SET_LOCKED as _, &some));
        let mut modes = usual;
        modes.c_lflag &= !(libc::ECHO | libc::ECHOE);
        modes.c_cc[libc::VERASE] = 1;
        modes.c_cc[libc::VKILL] = 2;
        tell("change", libc::tcsetattr(slave, libc::TCSANOW, &modes));
        libc::tcgetattr(slave, &mut modes);
        let [erase, kill] = [libc::VERASE, libc::VKILL].map(|at| modes.c_cc[at]);
        println!("{:#x} {erase} {kill}", modes.c_lflag);
        libc::ioctl(slave, GET_LOCKED as _, &mut all);
        println!("{}", all[..36] == some[..36]);
        tell_end(
            "a user",
            in_child(|| {
                libc::setuid(1000);
                tell("locked", libc::ioctl(slave, GET_LOCKED as _, &mut all));
                tell("lock", libc::ioctl(slave, SET_LOCKED as _, &some));
            }),
        );
        tell("unlock", libc::ioctl(slave, SET_LOCKED as _, &[0u8; 64]));
        libc::tcsetattr(slave, libc::TCSANOW, &usual);
        tell_end(
            "by the master",
            in_child(|| {
                libc::setsid();
                tell("its", libc::ioctl(master, libc::TIOCSCTTY as _, 0));
                libc::ioctl(slave, libc::TIOCNOTTY as _);
                let (master, _) = open_pair();
                tell("a new one's", libc::ioctl(master, libc::TIOCSCTTY as _, 0));
                tell(
                    "it is there",
                    i64::from(libc::open(path(c"/dev/tty"), O_RDWR) >= 0),
                );
            }),
        );
    }
}

/// TIOCSTI, as root.
unsafe fn typed(_: c_int, slave: c_int) {
    unsafe {
        for byte in b"typed\n" {
            tell("type", libc::ioctl(slave, libc::TIOCSTI, byte));
        }
        let mut line = [0u8; 16];
        let read = libc::read(slave, line.as_mut_ptr().cast(), line.len());
        tell("read", read as i64);
        println!("{:?}", std::str::from_utf8(&line[..read.max(0) as usize]));
        libc::setuid(1000);
        tell("a user's", libc::ioctl(slave, libc::TIOCSTI, b"x"));
    }
}

/// The echo and the input of typed bytes, by the terminal's modes.
unsafe fn modes(master: c_int, slave: c_int) {
    unsafe {
        let mut usual: libc::termios = mem::zeroed();
        libc::tcgetattr(slave, &mut usual);
        let all = |from: c_int, end: u8| {
            let mut bytes = Vec::new();
            let mut byte = 0u8;
            while libc::read(from, (&raw mut byte).cast(), 1) == 1 {
                bytes.push(byte);
                if byte == end {
                    break;
                }
            }
            bytes
        };
        let (canonical, extproc) = (libc::ICANON, libc::EXTPROC);
        for (name, input, on, off, text) in [
            ("rubout", 0, libc::ECHOPRT, 0, &b"abc\x7f\x7fd\n"[..]),
            ("all of it", 0, libc::ECHOPRT, 0, b"ab\x7f\x7fc\n"),
            ("a word", 0, libc::ECHOPRT, 0, b"one two\x17x\n"),
            ("the line", 0, libc::ECHOPRT, 0, b"xyz\x15u\n"),
            ("killed", 0, libc::ECHOPRT, libc::ECHOKE, b"xyz\x7f\x15u\n"),
            (
                "UTF-8",
                libc::IUTF8,
                libc::ECHOPRT,
                0,
                "aß\x7f€\x7fb\n".as_bytes(),
            ),
            ("reprint", 0, libc::ECHOPRT, 0, b"ab\x7f\x12c\n"),
            ("literal", 0, libc::ECHOPRT, 0, b"ab\x7f\x16\x03c\n"),
            ("ended", 0, libc::ECHOPRT, 0, b"ab\x7f\n"),
            ("erased", 0, 0, libc::ECHOE, b"one two\x7f\x17u\n"),
            ("marks", libc::PARMRK, 0, 0, b"a\xffb\n"),
            (
                "marks outside of lines",
                libc::PARMRK,
                0,
                canonical,
                b"a\xffb#",
            ),
            ("no marks", 0, 0, 0, b"a\xffb\n"),
            ("elsewhere", 0, extproc, 0, b"ab\x7f\x03\x16\x13c\x04\r#"),
            ("elsewhere, lower", libc::IUCLC, extproc, 0, b"AB#"),
            ("outside of lines", 0, 0, canonical, b"a\nb\rc\t\x01#"),
            ("plainly", 0, 0, canonical | libc::ECHOCTL, b"a\nb\rc\x01#"),
            ("returns", libc::INLCR, 0, canonical, b"a\nb\rc#"),
        ] {
            let mut modes = usual;
            modes.c_iflag |= input;
            modes.c_lflag = modes.c_lflag & !off | on;
            libc::tcsetattr(slave, libc::TCSANOW, &modes);
            libc::write(master, text.as_ptr().cast(), text.len());
            let end = text[text.len() - 1];
            let read = all(slave, end);
            libc::write(slave, c"|".as_ptr().cast(), 1);
            let shown = all(master, b'|');
            println!("{name}: {} {}", read.escape_ascii(), shown.escape_ascii());
        }
        let mut modes = usual;
        modes.c_lflag |= extproc;
        libc::tcsetattr(slave, libc::TCSANOW, &modes);
        libc::write(master, c"\x04".as_ptr().cast(), 1);
        tell(
            "the end",
            libc::read(slave, [0u8; 4].as_mut_ptr().cast(), 4) as i64,
        );
        libc::write(master, c"ab".as_ptr().cast(), 2);
        let mut watched = libc::pollfd {
            fd: slave,
            events: libc::POLLIN,
            revents: 0,
        };
        tell("readable", libc::poll(&mut watched, 1, -1));
        let mut count = 0;
        while count < 2 {
            libc::ioctl(slave, libc::FIONREAD, &mut count);
        }
        libc::tcsetattr(slave, libc::TCSANOW, &usual);
        tell("counted", libc::ioctl(slave, libc::FIONREAD, &mut count));
        println!("{count}");
        let mut bytes = [0u8; 4];
        tell(
            "a line",
            libc::read(slave, bytes.as_mut_ptr().cast(), 4) as i64,
        );
    }
}

/// Characters that send signals to the foreground group.
unsafe fn keys(master: c_int, slave: c_int) {
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGWINCH] {
            libc::sigaddset(&mut set, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        // An ignored signal does not stay pending.
        extern "C" fn handler(_: c_int) {}
        libc::signal(libc::SIGWINCH, handler as *const () as usize);
        for key in [3u8, 28, 26] {
            libc::write(master, (&raw const key).cast(), 1);
            let mut info: libc::siginfo_t = mem::zeroed();
            tell("signal", libc::sigwaitinfo(&set, &mut info));
            println!("code {:#x} by {}", info.si_code, info.si_pid());
        }
        let size = libc::winsize {
            ws_row: 5,
            ws_col: 6,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tell("size", libc::ioctl(master, libc::TIOCSWINSZ, &size));
        let mut info: libc::siginfo_t = mem::zeroed();
        tell("signal", libc::sigwaitinfo(&set, &mut info));
        println!("code {:#x}", info.si_code);
        tell(
            "the same size",
            libc::ioctl(master, libc::TIOCSWINSZ, &size),
        );
        let now: libc::timespec = mem::zeroed();
        tell("nothing", libc::sigtimedwait(&set, &mut info, &now));
        let mut modes: libc::termios = mem::zeroed();
        libc::tcgetattr(slave, &mut modes);
        modes.c_lflag |= libc::NOFLSH;
        libc::tcsetattr(slave, libc::TCSANOW, &modes);
        libc::write(master, c"kept\x03\n".as_ptr().cast(), 6);
        tell("signal", libc::sigwaitinfo(&set, &mut info));
        let mut line = [0u8; 16];
        tell(
            "kept",
            libc::read(slave, line.as_mut_ptr().cast(), 16) as i64,
        );
        tell(
            "sent by the master",
            libc::ioctl(master, 0x4004_5436, libc::SIGQUIT),
        );
        tell("signal", libc::sigwaitinfo(&set, &mut info));
    }
}

/// The exit of a session leader, and the close of a master.
unsafe fn hung_up() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let (master, name) = open_pair();
        let leader = libc::fork();
        if leader == 0 {
            libc::setsid();
            let _slave = libc::open(name.as_ptr(), O_RDWR);
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigaddset(&mut set, SIGHUP);
            libc::sigaddset(&mut set, SIGCONT);
            libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
            if libc::fork() == 0 {
                libc::write(ends[1], c"r".as_ptr().cast(), 1);
                tell("the foreground", libc::sigwaitinfo(&set, ptr::null_mut()));
                // The terminal is taken away after the signal.
                let mut terminal = libc::open(path(c"/dev/tty"), O_RDWR);
                for _ in 0..1000 {
                    if terminal < 0 {
                        break;
                    }
                    libc::close(terminal);
                    libc::usleep(10_000);
                    terminal = libc::open(path(c"/dev/tty"), O_RDWR);
                }
                tell("its terminal", terminal);
                libc::write(ends[1], c"x".as_ptr().cast(), 1);
                libc::_exit(0);
            }
            let mut byte = 0u8;
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            libc::_exit(3);
        }
        let mut status = 0;
        libc::waitpid(leader, &mut status, 0);
        let mut byte = 0u8;
        libc::read(ends[0], (&raw mut byte).cast(), 1);
        tell_end("leader", status);
        // On Linux reads of the master are EIO once nobody has the slave open.
        let mut poll = libc::pollfd {
            fd: master,
            events: libc::POLLIN,
            revents: 0,
        };
        libc::poll(&mut poll, 1, -1);
        println!("hung up: {}", poll.revents & libc::POLLHUP != 0);
        tell_end(
            "a lost master",
            in_child(|| {
                libc::setsid();
                let (master, name) = open_pair();
                let slave = libc::open(name.as_ptr(), O_RDWR);
                let mut set: libc::sigset_t = mem::zeroed();
                libc::sigaddset(&mut set, SIGHUP);
                libc::sigaddset(&mut set, SIGCONT);
                libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
                libc::close(master);
                tell("first", libc::sigwaitinfo(&set, ptr::null_mut()));
                tell("then", libc::sigwaitinfo(&set, ptr::null_mut()));
                let mut byte = 0u8;
                tell("read", libc::read(slave, (&raw mut byte).cast(), 1) as i64);
                tell("write", libc::write(slave, c"x".as_ptr().cast(), 1) as i64);
            }),
        );
    }
}

unsafe fn given_up(_: c_int, slave: c_int) {
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::signal(SIGHUP, libc::SIG_DFL);
        libc::sigaddset(&mut set, SIGHUP);
        libc::sigaddset(&mut set, SIGCONT);
        libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut());
        tell("give up", libc::ioctl(slave, libc::TIOCNOTTY as _));
        tell("first", libc::sigwaitinfo(&set, ptr::null_mut()));
        tell("then", libc::sigwaitinfo(&set, ptr::null_mut()));
        tell("again", libc::ioctl(slave, libc::TIOCNOTTY as _));
        tell("its own", libc::open(path(c"/dev/tty"), O_RDWR));
        tell("take it", libc::ioctl(slave, libc::TIOCSCTTY, 0));
    }
}

/// A stopped process group that becomes orphaned gets SIGHUP and SIGCONT.
unsafe fn orphaned() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let leader = libc::fork();
        if leader == 0 {
            libc::setsid();
            let middle = libc::fork();
            if middle == 0 {
                libc::setpgid(0, 0);
                extern "C" fn hup(_: c_int) {
                    let text = b"told it hung up\n";
                    // SAFETY: pointer and length are of the text.
                    unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
                }
                libc::signal(SIGHUP, hup as *const () as usize);
                libc::raise(libc::SIGSTOP);
                libc::write(ends[1], c"x".as_ptr().cast(), 1);
                // In an orphaned group, stop signals of the terminal have no effect.
                libc::raise(libc::SIGTSTP);
                libc::write(ends[1], c"y".as_ptr().cast(), 1);
                libc::_exit(0);
            }
            let mut status = 0;
            libc::waitpid(middle, &mut status, WUNTRACED);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(leader, &mut status, 0);
        let mut bytes = [0u8; 2];
        libc::read(ends[0], bytes.as_mut_ptr().cast(), 1);
        libc::read(ends[0], bytes.as_mut_ptr().add(1).cast(), 1);
        println!("{:?}", std::str::from_utf8(&bytes));
    }
}

/// Stops as a parent sees them by waitpid.
unsafe fn stopped() {
    unsafe {
        // In the parent's group, which may be orphaned, the terminal's stop signals would have no
        // effect.
        let child = member(|| {
            loop {
                libc::pause();
            }
        });
        for signal in [libc::SIGSTOP, libc::SIGTSTP, SIGTTIN, SIGTTOU] {
            libc::kill(child, signal);
            tell_state("stop", child, WUNTRACED);
            tell_state("once only", child, WUNTRACED | WNOHANG);
            libc::kill(child, SIGCONT);
            tell_state("on", child, WCONTINUED);
            tell_state("once only", child, WCONTINUED | WNOHANG);
        }
        libc::kill(child, libc::SIGSTOP);
        let mut info: libc::siginfo_t = mem::zeroed();
        tell(
            "kept",
            libc::waitid(
                libc::P_PID,
                child as _,
                &mut info,
                libc::WSTOPPED | libc::WNOWAIT,
            ),
        );
        println!("code {} status {}", info.si_code, info.si_status());
        tell(
            "taken",
            libc::waitid(libc::P_PID, child as _, &mut info, libc::WSTOPPED),
        );
        let mut info: libc::siginfo_t = mem::zeroed();
        tell(
            "no more",
            libc::waitid(libc::P_PID, child as _, &mut info, libc::WSTOPPED | WNOHANG),
        );
        println!("signal {}", info.si_signo);
        tell(
            "nothing to wait for",
            libc::waitid(libc::P_PID, child as _, &mut info, WNOHANG),
        );
        tell(
            "an odd kind",
            libc::waitid(9, child as _, &mut info, libc::WEXITED),
        );
        libc::kill(child, libc::SIGKILL);
        tell(
            "of a group",
            libc::waitid(libc::P_PGID, child as _, &mut info, libc::WEXITED),
        );
        println!("code {} status {}", info.si_code, info.si_status());
    }
}
