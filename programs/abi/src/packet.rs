//! Pseudo-terminals in packet mode (TIOCPKT), and the settings of a new one.

use std::{mem, ptr};

use libc::{
    O_NOCTTY, O_NONBLOCK, O_RDWR, POLLIN, POLLOUT, POLLPRI, TCIOFF, TCION, TCOOFF, TCOON, c_int,
    c_void,
};

use crate::{error, in_child, path, tell, tell_end};

/// The request for the packet mode.
const TIOCGPKT: libc::Ioctl = 0x8004_5438_u32 as libc::Ioctl;
/// EXTPROC: the other end edits the line.
const EXTPROC: libc::tcflag_t = 0o200_000;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        let pair = Pair::open();
        pair.settings();
        pair.without_packets();
        pair.packets();
        pair.flushed();
        pair.typed();
        tell_end("signals", in_child(|| pair.interrupted()));
        tell("off", libc::ioctl(pair.master, libc::TIOCPKT, &0));
        pair.write(b"plain");
        pair.read("plain", 100);
        tell("of the slave", libc::ioctl(pair.slave, libc::TIOCPKT, &1));
        tell("on", libc::ioctl(pair.master, libc::TIOCPKT, &1));
        pair.write(b"last");
        libc::close(pair.slave);
        pair.read("last", 100);
        pair.read("closed", 100);
    }
}

struct Pair {
    master: c_int,
    slave: c_int,
}

impl Pair {
    unsafe fn open() -> Self {
        unsafe {
            let master = libc::open(path(c"/dev/ptmx"), O_RDWR | O_NOCTTY | O_NONBLOCK);
            libc::grantpt(master);
            libc::unlockpt(master);
            let mut name = [0; 64];
            libc::ptsname_r(master, name.as_mut_ptr(), name.len());
            let slave = libc::open(name.as_ptr(), O_RDWR | O_NOCTTY);
            Pair { master, slave }
        }
    }

    /// Waits until output of the slave has reached the master: only on Linux this takes a moment.
    unsafe fn wait(&self) {
        let mut entry = libc::pollfd {
            fd: self.master,
            events: POLLIN,
            revents: 0,
        };
        unsafe { libc::poll(&mut entry, 1, 300) };
    }

    /// Prints the events of the master, and then reads from it.
    unsafe fn read(&self, what: &str, room: usize) {
        unsafe {
            self.wait();
            let mut entry = libc::pollfd {
                fd: self.master,
                events: POLLIN | POLLPRI | POLLOUT,
                revents: 0,
            };
            libc::poll(&mut entry, 1, 0);
            let mut bytes = [0u8; 256];
            let count = libc::read(self.master, bytes.as_mut_ptr().cast(), room);
            match usize::try_from(count) {
                Ok(count) => println!("{what}: {:#x} {:?}", entry.revents, &bytes[..count]),
                Err(_) => println!("{what}: {:#x} {}", entry.revents, error()),
            }
        }
    }

    unsafe fn write(&self, bytes: &[u8]) {
        unsafe { libc::write(self.slave, bytes.as_ptr().cast::<c_void>(), bytes.len()) };
    }

    unsafe fn type_in(&self, bytes: &[u8]) {
        unsafe { libc::write(self.master, bytes.as_ptr().cast::<c_void>(), bytes.len()) };
    }

    unsafe fn change(&self, change: impl FnOnce(&mut libc::termios)) -> libc::termios {
        unsafe {
            let mut settings: libc::termios = mem::zeroed();
            libc::tcgetattr(self.slave, &mut settings);
            change(&mut settings);
            libc::tcsetattr(self.slave, libc::TCSANOW, &settings);
            libc::tcgetattr(self.slave, &mut settings);
            settings
        }
    }

    unsafe fn settings(&self) {
        unsafe {
            let settings = self.change(|_| {});
            let [i, o, c, l] = [
                settings.c_iflag,
                settings.c_oflag,
                settings.c_cflag,
                settings.c_lflag,
            ];
            println!("modes: {i:#x} {o:#x} {c:#x} {l:#x}");
            let settings = self.change(|settings| {
                settings.c_cflag |= libc::HUPCL | libc::PARENB;
                settings.c_cflag &= !(libc::CSIZE | libc::CREAD);
            });
            println!("of a line: {:#x}", settings.c_cflag);
            self.change(|settings| settings.c_cflag &= !libc::HUPCL);
        }
    }

    unsafe fn is_packets(&self) {
        unsafe {
            let mut on: c_int = 7;
            tell("asked", libc::ioctl(self.master, TIOCGPKT, &mut on));
            println!("packets: {on}");
        }
    }

    unsafe fn without_packets(&self) {
        unsafe {
            self.is_packets();
            libc::tcflow(self.slave, TCOOFF);
            libc::tcflow(self.slave, TCOON);
            self.read("without", 100);
            tell(
                "nowhere",
                libc::ioctl(self.master, libc::TIOCPKT, ptr::null::<c_int>()),
            );
            tell("on", libc::ioctl(self.master, libc::TIOCPKT, &1));
            self.is_packets();
            self.read("nothing", 100);
        }
    }

    unsafe fn packets(&self) {
        unsafe {
            self.write(b"hello\n");
            self.read("no room", 0);
            self.read("one byte", 1);
            self.read("three", 3);
            self.read("the rest", 100);
            for (what, action) in [
                ("stopped", TCOOFF),
                ("stopped again", TCOOFF),
                ("started", TCOON),
                ("started again", TCOON),
                ("other's output stopped", TCIOFF),
                ("and started", TCION),
            ] {
                libc::tcflow(self.slave, action);
                self.read(what, 100);
            }
            libc::tcflow(self.slave, TCOOFF);
            libc::tcflow(self.slave, TCOON);
            self.read("stopped and started", 100);
            self.change(|settings| settings.c_iflag &= !libc::IXON);
            self.read("no flow", 100);
            self.change(|settings| settings.c_iflag |= libc::IXON);
            self.read("flow", 100);
            self.change(|settings| settings.c_cc[libc::VSTOP] = 1);
            self.read("another character", 100);
            self.change(|settings| settings.c_lflag &= !libc::ECHOE);
            self.read("nothing of that", 100);
            self.change(|settings| settings.c_cc[libc::VSTOP] = 0o23);
            self.change(|settings| settings.c_lflag |= EXTPROC);
            self.read("edited elsewhere", 100);
            self.change(|settings| settings.c_lflag &= !EXTPROC);
            self.read("edited here", 100);
            self.write(b"data");
            libc::tcflow(self.slave, TCOOFF);
            self.read("first what happened", 100);
            self.read("then the data", 100);
            libc::tcflow(self.slave, TCOON);
            libc::ioctl(self.master, libc::TIOCPKT, &0);
            libc::ioctl(self.master, libc::TIOCPKT, &1);
            self.read("forgotten", 100);
        }
    }

    unsafe fn flushed(&self) {
        unsafe {
            for (what, queue) in [
                ("input", libc::TCIFLUSH),
                ("output", libc::TCOFLUSH),
                ("both", libc::TCIOFLUSH),
            ] {
                self.write(b"lost");
                self.wait();
                libc::tcflush(self.slave, queue);
                self.read(what, 100);
                self.read("after it", 100);
            }
        }
    }

    /// Input written to the master: echo, flow control.
    unsafe fn typed(&self) {
        unsafe {
            self.type_in(b"a");
            self.read("echo", 100);
            self.type_in(b"\x13");
            self.read("stop", 100);
            self.type_in(b"\x11");
            self.read("start", 100);
        }
    }

    /// A signal discards output and input.
    unsafe fn interrupted(&self) {
        unsafe {
            libc::setsid();
            libc::signal(libc::SIGINT, libc::SIG_IGN);
            tell("terminal", libc::ioctl(self.slave, libc::TIOCSCTTY, 0));
            self.write(b"unread");
            self.wait();
            self.type_in(b"typed\x03");
            self.read("interrupted", 100);
            self.read("echo", 100);
            self.change(|settings| settings.c_lflag |= libc::NOFLSH);
            self.write(b"unread");
            self.wait();
            self.type_in(b"\x03");
            self.read("without flush", 100);
            self.read("echo", 100);
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
    }
}
