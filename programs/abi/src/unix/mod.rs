//! Unix sockets: addresses, connections, records, descriptors and credentials in flight.

mod passed;

pub use passed::send_with;

use std::mem;
use std::ptr;

use libc::{
    AF_UNIX, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, POLLIN, POLLOUT,
    POLLRDHUP, SHUT_WR, SO_ACCEPTCONN, SO_ERROR, SO_PASSCRED, SO_PEERCRED, SO_RCVTIMEO, SO_SNDBUF,
    SO_TYPE, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_SEQPACKET, SOCK_STREAM, SOL_SOCKET,
    c_int, sockaddr_un, socklen_t,
};

use crate::pipes::ready;
use crate::{in_child, tell, tell_end};

/// The size of a buffer for control messages.
const CONTROL: usize = 256;

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        kinds();
        streams();
        ends();
        names();
        connections();
        datagrams();
        room();
        disconnected();
        records();
        passed::rights();
        passed::unheard();
        passed::credentials();
        options();
    }
}

pub fn pair(kind: c_int) -> [c_int; 2] {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors.
    let result = unsafe { libc::socketpair(AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    if result != 0 {
        tell("socketpair", result);
    }
    ends
}

pub fn send(file: c_int, bytes: &[u8], flags: c_int) -> i64 {
    // SAFETY: pointer and length are of the buffer.
    unsafe { libc::send(file, bytes.as_ptr().cast(), bytes.len(), flags) as i64 }
}

/// Receives a message and prints it.
pub fn receive(what: &str, file: c_int, length: usize, flags: c_int) {
    let mut bytes = vec![0u8; length];
    // SAFETY: pointer and length are of the buffer.
    let count = unsafe { libc::recv(file, bytes.as_mut_ptr().cast(), length, flags) };
    match usize::try_from(count) {
        Ok(count) => {
            let shown = &bytes[..count.min(length)];
            println!("{what}: {count} {:?}", String::from_utf8_lossy(shown));
        }
        Err(_) => tell(what, -1),
    }
}

pub fn option(file: c_int, name: c_int) -> c_int {
    let (mut value, mut length) = (0, mem::size_of::<c_int>() as socklen_t);
    // SAFETY: pointer and length are of the value.
    let result =
        unsafe { libc::getsockopt(file, SOL_SOCKET, name, (&raw mut value).cast(), &mut length) };
    if result == 0 { value } else { -1 }
}

pub fn set<T>(file: c_int, level: c_int, name: c_int, value: T) -> c_int {
    let length = mem::size_of::<T>() as socklen_t;
    // SAFETY: pointer and length are of the value.
    unsafe { libc::setsockopt(file, level, name, (&raw const value).cast(), length) }
}

fn address(path: &[u8]) -> (sockaddr_un, socklen_t) {
    // SAFETY: all zeroes is a valid address.
    let mut address: sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = AF_UNIX as _;
    for (to, &from) in address.sun_path.iter_mut().zip(path) {
        *to = from as _;
    }
    (address, 2 + path.len() as socklen_t)
}

unsafe fn bind(file: c_int, path: &[u8]) -> c_int {
    let (address, length) = address(path);
    unsafe { libc::bind(file, (&raw const address).cast(), length) }
}

unsafe fn connect(file: c_int, path: &[u8]) -> c_int {
    let (address, length) = address(path);
    unsafe { libc::connect(file, (&raw const address).cast(), length) }
}

/// Prints an address that getsockname or getpeername returns.
unsafe fn name(
    what: &str,
    file: c_int,
    call: unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut socklen_t) -> c_int,
) {
    let (mut address, _) = address(b"");
    let mut length = mem::size_of::<sockaddr_un>() as socklen_t;
    let result = unsafe { call(file, (&raw mut address).cast(), &mut length) };
    if result != 0 {
        return tell(what, result);
    }
    let path: Vec<u8> = address.sun_path[..(length as usize).saturating_sub(2)].to_vec();
    println!("{what}: {length} {:?}", String::from_utf8_lossy(&path));
}

unsafe fn kinds() {
    unsafe {
        tell("an odd kind", libc::socket(AF_UNIX, 9, 0));
        tell("no kind", libc::socket(AF_UNIX, 0, 0));
        tell("an odd protocol", libc::socket(AF_UNIX, SOCK_STREAM, 7));
        tell("an odd family", libc::socket(45, SOCK_STREAM, 0));
        tell("no family", libc::socket(99, SOCK_STREAM, 0));
        tell("odd flags", libc::socket(AF_UNIX, SOCK_STREAM | 0x100, 0));
        tell(
            "pair without memory",
            libc::socketpair(AF_UNIX, SOCK_STREAM, 0, ptr::null_mut()),
        );
        for kind in [SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET] {
            let [a, b] = pair(kind | SOCK_CLOEXEC | SOCK_NONBLOCK);
            println!(
                "kind {kind}: {} {} {} {}",
                option(a, SO_TYPE),
                option(a, libc::SO_DOMAIN),
                libc::fcntl(a, libc::F_GETFD),
                libc::fcntl(a, libc::F_GETFL) & libc::O_NONBLOCK != 0
            );
            receive("nothing yet", b, 10, 0);
            name("its name", a, libc::getsockname);
            name("its peer", a, libc::getpeername);
            tell("seek", libc::lseek(a, 0, libc::SEEK_SET));
            let mut stat: libc::stat = mem::zeroed();
            libc::fstat(a, &mut stat);
            println!("mode {:o} size {}", stat.st_mode, stat.st_size);
            libc::close(a);
            libc::close(b);
        }
        tell("what is no socket", libc::listen(1, 1));
        tell("what is closed", libc::listen(77, 1));
    }
}

unsafe fn streams() {
    unsafe {
        let [a, b] = pair(SOCK_STREAM);
        tell("send", send(a, b"hello ", 0));
        tell("write", libc::write(a, c"world".as_ptr().cast(), 5) as i64);
        receive("peek", b, 8, MSG_PEEK);
        receive("a part", b, 3, 0);
        let mut waiting = 0;
        libc::ioctl(b, libc::FIONREAD as _, &mut waiting);
        println!("waiting {waiting}");
        receive("the rest", b, 100, 0);
        receive("no more", b, 100, MSG_DONTWAIT);
        send(a, b"abc", 0);
        receive("of no length", b, 0, 0);
        let child = libc::fork();
        if child == 0 {
            send(a, b"def", 0);
            libc::_exit(0);
        }
        receive("all of six", b, 6, MSG_WAITALL);
        libc::waitpid(child, ptr::null_mut(), 0);
        ready("idle", a, POLLIN | POLLOUT | POLLRDHUP);
        let block = vec![7u8; 1 << 20];
        let sent = send(a, &block, MSG_DONTWAIT);
        println!("a full one took some: {}", sent > 100_000 && sent < 1 << 20);
        tell("and no more", send(a, b"x", MSG_DONTWAIT));
        ready("full", a, POLLOUT);
        let mut total = 0;
        let mut bytes = vec![0u8; 70_000];
        while total < sent {
            total += libc::recv(b, bytes.as_mut_ptr().cast(), bytes.len(), 0) as i64;
        }
        println!("all came back: {}", total == sent);
        ready("emptied", a, POLLOUT);
        tell(
            "sent from nowhere",
            libc::send(a, ptr::dangling::<u8>().cast(), 5, 0) as i64,
        );
        send(a, b"12345", 0);
        tell(
            "received to nowhere",
            libc::recv(b, ptr::dangling_mut::<u8>().cast(), 5, 0) as i64,
        );
        receive("it is still there", b, 5, MSG_DONTWAIT);
    }
}

unsafe fn ends() {
    unsafe {
        let [a, b] = pair(SOCK_STREAM);
        send(a, b"last", 0);
        tell("no more writing", libc::shutdown(a, libc::SHUT_WR));
        tell("send after it", send(a, b"x", MSG_NOSIGNAL));
        ready("the other end", b, POLLIN | POLLOUT | POLLRDHUP);
        receive("what was sent", b, 10, 0);
        receive("the end", b, 10, 0);
        tell("the other way", send(b, b"back", 0));
        receive("it came", a, 10, 0);
        tell("an odd way", libc::shutdown(a, 7));
        libc::close(b);
        ready("closed", a, POLLIN | POLLOUT | POLLRDHUP);
        receive("the end here too", a, 10, 0);
        let [a, b] = pair(SOCK_STREAM);
        send(a, b"unread", 0);
        send(b, b"one", 0);
        libc::close(b);
        receive("sent before the close", a, 10, 0);
        receive("closed with unread data", a, 10, 0);
        receive("then the end", a, 10, 0);
        tell("send to nobody", send(a, b"x", 0));
        let [a, b] = pair(SOCK_STREAM);
        libc::close(b);
        tell_end(
            "without ignoring it",
            in_child(|| {
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                tell("no signal", send(a, b"x", MSG_NOSIGNAL));
                send(a, b"x", 0);
            }),
        );
        let [a, b] = pair(SOCK_STREAM);
        tell("no more reading", libc::shutdown(a, libc::SHUT_RD));
        receive("at once", a, 10, 0);
        tell("nobody listens", send(b, b"x", 0));
        let [a, b] = pair(SOCK_STREAM);
        let child = libc::fork();
        if child == 0 {
            libc::close(a);
            libc::close(b);
            libc::_exit(0);
        }
        libc::waitpid(child, ptr::null_mut(), 0);
        tell("a copy was closed", send(a, b"x", 0));
        libc::close(a);
        receive("after the close", b, 10, 0);
    }
}

unsafe fn names() {
    unsafe {
        let a = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        libc::unlink(c"socket".as_ptr());
        tell("no path", bind(a, b""));
        let mut length = mem::size_of::<sockaddr_un>() as socklen_t;
        let (mut own, _) = address(b"x");
        libc::getsockname(a, (&raw mut own).cast(), &mut length);
        println!("and yet an abstract name: {length} {}", own.sun_path[0]);
        let a = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        tell("a path", bind(a, b"socket"));
        name("its name", a, libc::getsockname);
        tell("once more", bind(a, b"socket2"));
        let mut stat: libc::stat = mem::zeroed();
        libc::stat(c"socket".as_ptr(), &mut stat);
        println!(
            "a socket: {}",
            stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
        );
        tell("opened", libc::open(c"socket".as_ptr(), libc::O_RDWR));
        let b = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        tell("taken", bind(b, b"socket"));
        tell("no folder", bind(b, b"nowhere/socket"));
        tell("too long", bind(b, &[b'x'; 109]));
        tell("listens nameless", libc::listen(b, 1));
        tell("nobody listens", connect(b, b"socket"));
        libc::close(a);
        tell("nobody is there", connect(b, b"socket"));
        tell("no path there", connect(b, b"socket2"));
        libc::close(libc::open(
            c"plain".as_ptr(),
            libc::O_CREAT | libc::O_RDWR,
            0o600,
        ));
        tell("no socket there", connect(b, b"plain"));
        tell("an abstract name", bind(b, b"\0stile-test"));
        name("its name", b, libc::getsockname);
        let c = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        tell("the same", bind(c, b"\0stile-test"));
        tell("a longer one", bind(c, b"\0stile-test\0"));
        libc::close(b);
        let d = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        tell("free again", bind(d, b"\0stile-test"));
        let (mut other, length) = address(b"\0x");
        other.sun_family = libc::AF_INET as _;
        let e = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        tell(
            "of another family",
            libc::bind(e, (&raw const other).cast(), length),
        );
        tell("too short", libc::bind(e, (&raw const other).cast(), 1));
        tell(
            "no address",
            libc::bind(e, ptr::dangling::<u8>().cast(), 10),
        );
        libc::unlink(c"socket".as_ptr());
    }
}

unsafe fn connections() {
    unsafe {
        for kind in [SOCK_STREAM, SOCK_SEQPACKET] {
            let server = libc::socket(AF_UNIX, kind | SOCK_NONBLOCK, 0);
            bind(server, b"\0stile-server");
            tell(
                "accept too early",
                libc::accept(server, ptr::null_mut(), ptr::null_mut()),
            );
            tell("listen", libc::listen(server, 1));
            println!("listening {}", option(server, SO_ACCEPTCONN));
            ready("nobody yet", server, POLLIN | POLLOUT);
            tell(
                "accept nobody",
                libc::accept(server, ptr::null_mut(), ptr::null_mut()),
            );
            receive("read of it", server, 1, 0);
            let a = libc::socket(AF_UNIX, kind | SOCK_NONBLOCK, 0);
            ready("not connected", a, POLLIN | POLLOUT);
            tell("sent too early", send(a, b"x", MSG_NOSIGNAL));
            receive("received too early", a, 1, 0);
            name("nor a peer", a, libc::getpeername);
            tell("connect", connect(a, b"\0stile-server"));
            tell("connect again", connect(a, b"\0stile-server"));
            name("the peer", a, libc::getpeername);
            tell("sent before accept", send(a, b"early", 0));
            let b = libc::socket(AF_UNIX, kind | SOCK_NONBLOCK, 0);
            bind(b, b"\0stile-client");
            tell("a second", connect(b, b"\0stile-server"));
            let c = libc::socket(AF_UNIX, kind | SOCK_NONBLOCK, 0);
            tell("a third", connect(c, b"\0stile-server"));
            let other = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
            tell("of another kind", connect(other, b"\0stile-server"));
            ready("somebody", server, POLLIN | POLLOUT);
            let first = libc::accept(server, ptr::null_mut(), ptr::null_mut());
            receive("it was kept", first, 10, 0);
            name("its name", first, libc::getsockname);
            name("its peer", first, libc::getpeername);
            println!(
                "not blocking: {}",
                libc::fcntl(first, libc::F_GETFL) & libc::O_NONBLOCK != 0
            );
            tell("the third again", connect(c, b"\0stile-server"));
            let second = libc::accept4(
                server,
                ptr::null_mut(),
                ptr::null_mut(),
                SOCK_NONBLOCK | SOCK_CLOEXEC,
            );
            name("a named peer", second, libc::getpeername);
            receive("nothing", second, 1, 0);
            libc::close(server);
            receive("never accepted", c, 1, 0);
            receive("and then", c, 1, 0);
            tell("nobody now", connect(other, b"\0stile-server"));
            for file in [a, b, c, other, first, second] {
                libc::close(file);
            }
        }
        let server = libc::socket(AF_UNIX, SOCK_STREAM, 0);
        bind(server, b"\0stile-server");
        libc::listen(server, 0);
        let child = libc::fork();
        if child == 0 {
            for _ in 0..20 {
                let client = libc::socket(AF_UNIX, SOCK_STREAM, 0);
                if connect(client, b"\0stile-server") != 0 {
                    libc::_exit(1);
                }
                send(client, b"q", 0);
                let mut answer = [0u8];
                libc::recv(client, answer.as_mut_ptr().cast(), 1, 0);
                libc::close(client);
            }
            libc::_exit(0);
        }
        let mut served = 0;
        for _ in 0..20 {
            let client = libc::accept(server, ptr::null_mut(), ptr::null_mut());
            let mut question = [0u8];
            served += libc::recv(client, question.as_mut_ptr().cast(), 1, 0);
            send(client, b"a", 0);
            libc::close(client);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        println!("served {served}, client {status}");
    }
}

/// An unread datagram whose receiver disconnects or closes.
unsafe fn disconnected() {
    unsafe {
        let [a, b] = pair(SOCK_DGRAM);
        tell("unread", send(a, b"lost", 0));
        let nobody: libc::sa_family_t = libc::AF_UNSPEC as _;
        let size = size_of_val(&nobody) as socklen_t;
        let left = libc::connect(b, (&raw const nobody).cast(), size);
        tell("its reader leaves", left);
        ready("its sender", a, POLLIN | POLLOUT);
        receive("an error", a, 10, MSG_DONTWAIT);
        receive("none more", a, 10, MSG_DONTWAIT);
        receive("nothing is left", b, 10, MSG_DONTWAIT);
        let [a, b] = pair(SOCK_DGRAM);
        tell("unread", send(a, b"lost", 0));
        libc::close(b);
        ready("its sender", a, POLLIN | POLLOUT);
        receive("no error", a, 10, MSG_DONTWAIT);
        tell("refused", send(a, b"more", 0));
        tell("not connected", send(a, b"more", 0));
    }
}

/// Many small datagrams fill the sender's buffer, whoever receives them.
unsafe fn room() {
    unsafe {
        let [a, b] = pair(SOCK_DGRAM);
        tell("buffer", set(a, SOL_SOCKET, SO_SNDBUF, 0));
        let fill = |file: c_int| (0..1000).take_while(move |_| send(file, b"x", MSG_DONTWAIT) == 1);
        let count = fill(a).count();
        println!("few: {}", (2..20).contains(&count));
        ready("full", a, POLLOUT);
        let queued = || {
            let mut number = 0;
            libc::ioctl(a, libc::TIOCOUTQ as _, &mut number);
            number
        };
        println!("with their heads: {}", queued() > 100 * count as c_int);
        receive("one", b, 8, MSG_PEEK);
        tell("a peek takes none", send(a, b"x", MSG_DONTWAIT));
        receive("one", b, 8, 0);
        println!("one more: {}", fill(a).count());
        for _ in 0..count {
            receive("one", b, 8, 0);
        }
        println!("left: {}", queued());
        ready("empty", a, POLLOUT);
        tell("one", send(a, b"x", MSG_DONTWAIT));
        libc::close(b);
        println!("of nobody: {}", queued());
        libc::close(a);

        let to = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
        bind(to, b"\0stile-room");
        let from = [(); 2].map(|()| libc::socket(AF_UNIX, SOCK_DGRAM, 0));
        for file in from {
            tell("connect", connect(file, b"\0stile-room"));
        }
        println!(
            "for all: {} {}",
            fill(from[0]).count(),
            fill(from[1]).count()
        );
        for file in [to, from[0], from[1]] {
            libc::close(file);
        }
        let [a, b] = pair(SOCK_DGRAM);
        set(a, SOL_SOCKET, SO_SNDBUF, 0);
        fill(a).count();
        std::thread::scope(|scope| {
            let sent = scope.spawn(move || send(a, b"later", 0));
            libc::usleep(200_000);
            println!("waits: {}", !sent.is_finished());
            for _ in 0..count {
                receive("one", b, 8, 0);
            }
            tell("sent", sent.join().unwrap_or(-1));
        });
        fill(a).count();
        tell("shut", libc::shutdown(a, SHUT_WR));
        tell("none more", send(a, b"x", MSG_DONTWAIT | MSG_NOSIGNAL));
        libc::close(a);
        libc::close(b);
    }
}

unsafe fn datagrams() {
    unsafe {
        let [a, b] = pair(SOCK_DGRAM);
        for text in [&b"one"[..], b"", b"three"] {
            tell("datagram", send(a, text, 0));
        }
        let mut waiting = 0;
        libc::ioctl(b, libc::FIONREAD as _, &mut waiting);
        println!("waiting {waiting}");
        receive("cut off", b, 2, 0);
        receive("empty", b, 10, 0);
        receive("its whole length", b, 2, MSG_TRUNC);
        receive("no more", b, 10, MSG_DONTWAIT);
        tell("one that is lost", send(a, b"lost", 0));
        tell(
            "nowhere to put it",
            libc::recv(b, ptr::without_provenance_mut(8), 4, 0) as i64,
        );
        ready("and it is gone", b, POLLIN);
        tell("too long", send(a, &vec![0; 1 << 20], 0));
        let mut count = 0;
        while send(a, b"x", MSG_DONTWAIT) == 1 {
            count += 1;
        }
        println!("until it is full {count}");
        ready("full", a, POLLOUT);
        receive("one out", b, 10, 0);
        ready("room for one", a, POLLOUT);
        libc::close(b);
        tell("nobody", send(a, b"x", 0));
        tell("nor later", send(a, b"x", 0));
        let server = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
        bind(server, b"\0stile-datagrams");
        let client = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
        tell("no destination", send(client, b"x", 0));
        bind(client, b"\0stile-sender");
        let (to, length) = address(b"\0stile-datagrams");
        let sent = libc::sendto(
            client,
            c"named".as_ptr().cast(),
            5,
            0,
            (&raw const to).cast(),
            length,
        );
        tell("sendto", sent as i64);
        let (mut from, _) = address(b"");
        let mut from_length = mem::size_of::<sockaddr_un>() as socklen_t;
        let mut bytes = [0u8; 10];
        let got = libc::recvfrom(
            server,
            bytes.as_mut_ptr().cast(),
            10,
            0,
            (&raw mut from).cast(),
            &mut from_length,
        );
        println!("recvfrom: {got} from {from_length}");
        tell(
            "answer",
            libc::sendto(
                server,
                c"back".as_ptr().cast(),
                4,
                0,
                (&raw const from).cast(),
                from_length,
            ) as i64,
        );
        receive("it came", client, 10, MSG_DONTWAIT);
        tell("connect", connect(client, b"\0stile-datagrams"));
        tell("then send", send(client, b"y", 0));
        receive("it came", server, 10, MSG_DONTWAIT);
        tell("connect back", connect(server, b"\0stile-sender"));
        let stranger = libc::socket(AF_UNIX, SOCK_DGRAM, 0);
        let sent = libc::sendto(
            stranger,
            c"x".as_ptr().cast(),
            1,
            0,
            (&raw const to).cast(),
            length,
        );
        tell("a stranger", sent as i64);
        tell("listen", libc::listen(server, 1));
    }
}

unsafe fn records() {
    unsafe {
        let [a, b] = pair(SOCK_SEQPACKET);
        send(a, b"first", 0);
        send(a, b"second", 0);
        receive("a record", b, 100, 0);
        receive("cut off", b, 3, 0);
        receive("no more", b, 100, MSG_DONTWAIT);
        send(a, b"third", 0);
        libc::shutdown(a, libc::SHUT_WR);
        receive("the last", b, 100, 0);
        receive("the end", b, 100, 0);
    }
}

unsafe fn options() {
    unsafe {
        let [a, b] = pair(SOCK_STREAM);
        for (what, name) in [
            ("error", SO_ERROR),
            ("accepts", SO_ACCEPTCONN),
            ("passes credentials", SO_PASSCRED),
            ("send buffer", libc::SO_SNDBUF),
            ("receive buffer", libc::SO_RCVBUF),
            ("reuse", libc::SO_REUSEADDR),
            ("an odd one", 999),
        ] {
            println!("{what}: {}", option(a, name));
        }
        tell("smaller", set(a, SOL_SOCKET, libc::SO_SNDBUF, 10_000));
        println!("it is {}", option(a, libc::SO_SNDBUF));
        tell("tiny", set(a, SOL_SOCKET, libc::SO_SNDBUF, 0));
        println!("it is {}", option(a, libc::SO_SNDBUF));
        tell("huge", set(a, SOL_SOCKET, libc::SO_RCVBUF, 1 << 30));
        println!("it is {}", option(a, libc::SO_RCVBUF));
        tell("too short", set(a, SOL_SOCKET, libc::SO_SNDBUF, 0u8));
        tell("an odd one", set(a, SOL_SOCKET, 999, 0));
        tell("of another level", set(a, 6, 1, 0));
        let soon = libc::timeval {
            tv_sec: 0,
            tv_usec: 10_000,
        };
        tell("a time limit", set(b, SOL_SOCKET, SO_RCVTIMEO, soon));
        receive("in time", b, 1, 0);
        let odd = libc::timeval {
            tv_sec: 0,
            tv_usec: 1_000_000,
        };
        tell("an odd time", set(b, SOL_SOCKET, SO_RCVTIMEO, odd));
        let mut bytes = [0u8; 12];
        let mut pieces = [1usize, 2, 3].map(|length| libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: length,
        });
        let mut many: [libc::mmsghdr; 3] = mem::zeroed();
        for (message, piece) in many.iter_mut().zip(&mut pieces) {
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
        }
        let [a, b] = pair(SOCK_DGRAM);
        tell("three at once", libc::sendmmsg(a, many.as_mut_ptr(), 3, 0));
        let none = ptr::null_mut();
        let got = libc::recvmmsg(b, many.as_mut_ptr(), 3, MSG_DONTWAIT as _, none);
        tell("received", got);
        println!("of {:?}", many.map(|message| message.msg_len));
        let got = libc::recvmmsg(b, many.as_mut_ptr(), 3, MSG_DONTWAIT as _, none);
        tell("no more", got);
    }
}
