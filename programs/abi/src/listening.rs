//! The properties that an accepted socket inherits from the listener; and the inodes of sockets:
//! their owners and permissions, and those of a socket's path.

use std::{mem, ptr};

use libc::{
    AF_INET, AF_INET6, AF_UNIX, IPPROTO_TCP, SOCK_STREAM, SOL_SOCKET, TCP_CONGESTION, c_int,
};

use crate::inet::{self, own_port};
use crate::options::value;
use crate::unix::set;
use crate::{error, in_child, path, tell, tell_end};

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        for family in [AF_UNIX, AF_INET, AF_INET6] {
            inherited(family);
        }
        congestion();
        inodes();
        tell_end("whose", in_child(|| owners()));
    }
}

/// Options of SOL_SOCKET with a value that differs from the default, and options with a time.
const NUMBERS: [(c_int, c_int); 23] = [
    (1, 1),
    (2, 1),
    (5, 1),
    (6, 1),
    (7, 9000),
    (8, 9000),
    (9, 1),
    (10, 1),
    (12, 5),
    (15, 1),
    (16, 1),
    (18, 9),
    (29, 1),
    (35, 1),
    (36, 7),
    (37, 16),
    (40, 1),
    (43, 1),
    (44, 1),
    (45, 1),
    (46, 30),
    (74, 0),
    (75, 1),
];
const TIMES: [c_int; 2] = [20, 21];

/// A listener of the family, and its address.
unsafe fn listener(family: c_int) -> (c_int, libc::sockaddr_un, u32) {
    unsafe {
        let server = libc::socket(family, SOCK_STREAM, 0);
        let mut name: libc::sockaddr_un = mem::zeroed();
        let mut length = 2;
        if family == AF_UNIX {
            name.sun_family = AF_UNIX as u16;
            libc::bind(server, (&raw const name).cast(), length);
            length = size_of_val(&name) as u32;
            libc::getsockname(server, (&raw mut name).cast(), &mut length);
        } else {
            inet::bind(server, family, 0x7f00_0001, 0);
        }
        libc::listen(server, 5);
        (server, name, length)
    }
}

/// Connects a socket; returns the accepted end.
unsafe fn connect(family: c_int, server: c_int, name: &libc::sockaddr_un, length: u32) -> c_int {
    unsafe {
        let client = libc::socket(family, SOCK_STREAM, 0);
        match family {
            AF_UNIX => libc::connect(client, (&raw const *name).cast(), length),
            _ => inet::connect(client, family, 0x7f00_0001, own_port(server)),
        };
        client
    }
}

unsafe fn inherited(family: c_int) {
    unsafe {
        let tell_both = |name: c_int, set: c_int| {
            let (server, address, length) = listener(family);
            match name {
                20 | 21 => crate::unix::set(server, SOL_SOCKET, name, [i64::from(set), 0]),
                25 => crate::unix::set(server, SOL_SOCKET, name, *b"lo\0\0"),
                13 => crate::unix::set(server, SOL_SOCKET, name, [1, set]),
                _ => crate::unix::set(server, SOL_SOCKET, name, set),
            };
            let client = connect(family, server, &address, length);
            let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
            let bytes = |file| {
                let mut bytes = [0u8; 16];
                let mut length = 16;
                let room = bytes.as_mut_ptr().cast();
                match libc::getsockopt(file, SOL_SOCKET, name, room, &mut length) {
                    0 => format!("{:x?}", &bytes[..length as usize]),
                    _ => error().to_string(),
                }
            };
            println!("{family} {name}: {} {}", bytes(server), bytes(accepted));
            for file in [server, client, accepted] {
                libc::close(file);
            }
        };
        for (name, number) in NUMBERS {
            tell_both(name, number);
        }
        for name in TIMES {
            tell_both(name, 3);
        }
        tell_both(13, 4);
        tell_both(25, 0);
    }
}

/// The congestion control algorithm, by name.
unsafe fn congestion() {
    unsafe {
        let named = |file| {
            let mut name = [0u8; 16];
            let mut length = 16;
            let room = name.as_mut_ptr().cast();
            libc::getsockopt(file, IPPROTO_TCP, TCP_CONGESTION, room, &mut length);
            let text = String::from_utf8_lossy(&name).replace('\0', "");
            format!("{text} [{length}]")
        };
        for name in ["reno", "cubic", "cubicX", "renoreno", "c", "", "reno\0X"] {
            let file = libc::socket(AF_INET, SOCK_STREAM, 0);
            let (at, length) = (name.as_ptr().cast(), name.len() as u32);
            let result = libc::setsockopt(file, IPPROTO_TCP, TCP_CONGESTION, at, length);
            let result = if result == 0 { "ok" } else { error() };
            println!("{name:?}: {result}, {}", named(file));
            libc::close(file);
        }
        let (server, address, length) = listener(AF_INET);
        let name = c"reno";
        libc::setsockopt(server, IPPROTO_TCP, TCP_CONGESTION, name.as_ptr().cast(), 4);
        let client = connect(AF_INET, server, &address, length);
        let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
        println!("accepted: {}", named(accepted));
        for file in [server, client, accepted] {
            libc::close(file);
        }
        for (family, name) in [(AF_INET, 2), (AF_INET6, -2), (AF_UNIX, 2), (AF_UNIX, -1)] {
            let file = libc::socket(family, SOCK_STREAM, 0);
            tell("rehash", set(file, SOL_SOCKET, 74, name));
            println!("{}", value(file, SOL_SOCKET, 74));
            libc::close(file);
        }
    }
}

unsafe fn tell_inode(what: &str, file: c_int) {
    unsafe {
        let mut stat: libc::stat = mem::zeroed();
        libc::fstat(file, &mut stat);
        println!("{what}: {:o} {} {}", stat.st_mode, stat.st_uid, stat.st_gid);
    }
}

/// fchmod(2) and fchown(2) of sockets, and the mode of the inode that bind(2) creates.
unsafe fn inodes() {
    unsafe {
        for (at, mode) in [0o600, 0o777, 0o4755, 0].into_iter().enumerate() {
            let file = libc::socket(AF_UNIX, SOCK_STREAM, 0);
            tell_inode("new", file);
            tell("mode", libc::fchmod(file, mode));
            tell_inode("changed", file);
            let name = path([c"a", c"b", c"c", c"d"][at]);
            let mut address: libc::sockaddr_un = mem::zeroed();
            address.sun_family = AF_UNIX as u16;
            ptr::copy_nonoverlapping(name, address.sun_path.as_mut_ptr(), 2);
            let size = size_of_val(&address) as u32;
            tell("bind", libc::bind(file, (&raw const address).cast(), size));
            let mut stat: libc::stat = mem::zeroed();
            libc::stat(name, &mut stat);
            println!("named: {:o}", stat.st_mode);
            tell("owner", libc::fchown(file, 7, 8));
            tell_inode("changed", file);
            libc::unlink(name);
            libc::close(file);
        }
    }
}

/// A socket belongs to the process that accepted it, not to the one that connected; and an ordinary
/// user changes only their own.
unsafe fn owners() {
    unsafe {
        let (server, address, length) = listener(AF_UNIX);
        let child = libc::fork();
        if child == 0 {
            libc::setresgid(2000, 2000, 2000);
            libc::setresuid(1000, 1000, 1000);
            let client = connect(AF_UNIX, server, &address, length);
            tell_inode("connected", client);
            tell("own", libc::fchmod(client, 0o640));
            tell("another's", libc::fchmod(server, 0o640));
            tell("given away", libc::fchown(client, 0, 0));
            libc::_exit(0);
        }
        libc::waitpid(child, ptr::null_mut(), 0);
        let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
        tell_inode("accepted", accepted);
        tell_inode("listens", server);
    }
}
