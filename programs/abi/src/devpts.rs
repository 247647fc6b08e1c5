//! Several devpts mounts: each has its own terminals, numbered from 0.

use std::ffi::{CStr, CString};
use std::{fs, mem, ptr};

use libc::{O_NOCTTY, O_RDWR, c_int};

use crate::{error, in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, and children end by
    // _exit.
    unsafe {
        let _others: Vec<c_int> = (0..3).map(|_| open(c"/dev/ptmx")).collect();
        let first = listed("/dev/pts").len();
        libc::mkdir(c"p".as_ptr(), 0o755);
        tell("mount", mount(c"p", c"max=2,ptmxmode=666"));
        println!("{:?}", listed("p"));
        numbers();
        println!("{:?}", listed("p"));
        println!("as before: {}", listed("/dev/pts").len() == first);
        tell_end("a terminal of its own", in_child(|| controlling()));
        held();
        beside();
        bound();
    }
}

unsafe fn open(name: &CStr) -> c_int {
    unsafe { libc::open(name.as_ptr(), O_RDWR | O_NOCTTY) }
}

unsafe fn mount(at: &CStr, options: &CStr) -> c_int {
    let (none, kind) = (c"none".as_ptr(), c"devpts".as_ptr());
    unsafe { libc::mount(none, at.as_ptr(), kind, 0, options.as_ptr().cast()) }
}

fn listed(folder: &str) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten();
    let names = names.filter_map(|name| name.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

unsafe fn number(what: &str, master: c_int) -> c_int {
    unsafe {
        let mut number = -1;
        if master < 0 {
            println!("{what}: {}", error());
        } else {
            libc::ioctl(master, libc::TIOCGPTN, &mut number);
            println!("{what}: {number}");
        }
        number
    }
}

/// The path of an open file, relative to the working directory if it is below that.
fn link(file: c_int) -> String {
    let path = fs::read_link(format!("/proc/self/fd/{file}")).unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    let path = path.strip_prefix(here).map(Into::into).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

/// The attributes of a slave.
unsafe fn told(what: &str, slave: c_int) {
    unsafe {
        let mut stat: libc::stat = mem::zeroed();
        if slave < 0 {
            return println!("{what}: {}", error());
        }
        libc::fstat(slave, &mut stat);
        let mut name = [0; 128];
        let named = libc::ttyname_r(slave, name.as_mut_ptr(), name.len());
        let name = CStr::from_ptr(name.as_ptr()).to_string_lossy();
        let name = if named == 0 { &*name } else { "none" };
        let short = name.rsplit_once('/').map_or(name, |(_, last)| last);
        println!("{what}: {} {:x} {short}", link(slave), stat.st_rdev);
        tell("  a terminal", libc::isatty(slave));
    }
}

unsafe fn passes(master: c_int, slave: c_int) {
    unsafe {
        libc::write(slave, c"word\n".as_ptr().cast(), 5);
        // The line may arrive in parts.
        let (mut line, mut byte) = (Vec::new(), 0u8);
        while libc::read(master, (&raw mut byte).cast(), 1) == 1 {
            line.push(byte);
            if byte == b'\n' {
                break;
            }
        }
        println!("  {line:?}");
    }
}

unsafe fn peer(master: c_int) -> c_int {
    unsafe { libc::ioctl(master, libc::TIOCGPTPEER as _, O_RDWR | O_NOCTTY) }
}

/// Two terminals are possible here (`max`), whatever the other mount has.
unsafe fn numbers() {
    unsafe {
        let master = open(c"p/ptmx");
        number("the first", master);
        println!("{} {:?}", link(master), listed("p"));
        let locked = open(c"p/0");
        told("locked", locked);
        tell("unlock", libc::unlockpt(master));
        let slave = open(c"p/0");
        told("opened", slave);
        passes(master, slave);
        let peer = peer(master);
        told("the peer", peer);
        passes(master, peer);
        let [one, other] = [c"p", c"/dev/pts"].map(|name| {
            let mut stat: libc::stat = mem::zeroed();
            libc::stat(name.as_ptr(), &mut stat);
            stat.st_dev
        });
        println!("one file system: {}", one == other);
        let second = open(c"p/ptmx");
        number("the second", second);
        number("a third", open(c"p/ptmx"));
        println!("{:?}", listed("p"));
        let elsewhere = open(c"/dev/ptmx");
        tell("elsewhere", (elsewhere >= 0) as c_int);
        libc::close(elsewhere);
        libc::close(slave);
        libc::close(peer);
        libc::close(master);
        println!("{:?}", listed("p"));
        let again = open(c"p/ptmx");
        number("again", again);
        told("what is not there", open(c"p/7"));
        // Only nodes inside the devpts are its terminals.
        libc::unlockpt(again);
        let device = libc::makedev(136, 0);
        libc::mknod(c"node".as_ptr(), libc::S_IFCHR | 0o600, device);
        told("a node", open(c"node"));
        libc::close(again);
        libc::close(second);
    }
}

/// The controlling terminal of a session.
unsafe fn controlling() {
    unsafe {
        libc::setsid();
        let master = open(c"p/ptmx");
        libc::unlockpt(master);
        let slave = libc::open(c"p/0".as_ptr(), O_RDWR);
        told("its terminal", slave);
        let own = open(c"/dev/tty");
        tell("that of /dev/tty", (own >= 0) as c_int);
        passes(master, own);
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let field = stat
            .split(") ")
            .last()
            .and_then(|rest| rest.split(' ').nth(4));
        println!("number {field:?}");
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        libc::close(master);
        passes(slave, slave);
    }
}

/// Terminals that outlive their mount.
unsafe fn held() {
    unsafe {
        let master = open(c"p/ptmx");
        libc::unlockpt(master);
        tell("busy", libc::umount(c"p".as_ptr()));
        tell("detached", libc::umount2(c"p".as_ptr(), libc::MNT_DETACH));
        number("still", master);
        let peer = peer(master);
        tell("its peer", (peer >= 0) as c_int);
        passes(master, peer);
        libc::close(peer);
        libc::close(master);
    }
}

/// A `ptmx` node elsewhere opens the devpts on the `pts` beside it.
unsafe fn beside() {
    unsafe {
        let device = libc::makedev(5, 2);
        libc::mkdir(c"d".as_ptr(), 0o755);
        libc::mknod(c"d/ptmx".as_ptr(), libc::S_IFCHR | 0o666, device);
        number("nothing beside", open(c"d/ptmx"));
        libc::mkdir(c"d/pts".as_ptr(), 0o755);
        number("a folder beside", open(c"d/ptmx"));
        tell("mount", mount(c"d/pts", c"ptmxmode=666"));
        let master = open(c"d/ptmx");
        number("beside", master);
        println!("{} {:?}", link(master), listed("d/pts"));
        libc::unlockpt(master);
        let file = peer(master);
        told("the peer", file);
        let inside = open(c"d/pts/ptmx");
        number("inside", inside);
        libc::symlink(c"d/ptmx".as_ptr(), c"by-link".as_ptr());
        let linked = open(c"by-link");
        number("by a link", linked);
        libc::symlink(c"d/pts/ptmx".as_ptr(), c"link".as_ptr());
        let linked = open(c"link");
        number("by a link to the inner one", linked);
        println!("{:?}", listed("d/pts"));
    }
}

/// The same devpts, bound elsewhere.
unsafe fn bound() {
    unsafe {
        let bind = |from: &CStr, to: &CStr| {
            let none = ptr::null();
            libc::mount(from.as_ptr(), to.as_ptr(), none, libc::MS_BIND, none.cast())
        };
        libc::mkdir(c"e".as_ptr(), 0o755);
        libc::mkdir(c"e/pts".as_ptr(), 0o755);
        fs::write("e/ptmx", "").expect("a file");
        tell("bind", bind(c"d/pts", c"e/pts"));
        tell("bind", bind(c"d/pts/ptmx", c"e/ptmx"));
        let master = open(c"e/ptmx");
        number("by the bound one", master);
        libc::unlockpt(master);
        let file = peer(master);
        told("the peer", file);
        let master = open(c"e/pts/ptmx");
        number("inside", master);
        libc::unlockpt(master);
        told("the peer", peer(master));
        fs::write("alone", "").expect("a file");
        tell("bind", bind(c"d/pts/ptmx", c"alone"));
        let master = open(c"alone");
        number("alone", master);
        libc::unlockpt(master);
        told("the peer", peer(master));
        fs::write("device", "").expect("a file");
        tell("bind", bind(c"d/ptmx", c"device"));
        let name = CString::new("device").expect("no zero");
        let master = open(&name);
        number("the device, bound", master);
        libc::unlockpt(master);
        told("the peer", peer(master));
    }
}
