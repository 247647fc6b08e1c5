//! Descriptors and credentials that Unix sockets pass.

use super::*;

/// Sends bytes with one control message.
pub unsafe fn send_with(
    file: c_int,
    bytes: &[u8],
    (level, kind): (c_int, c_int),
    data: &[u8],
) -> i64 {
    unsafe {
        let mut control = [0u64; CONTROL / 8];
        let mut piece = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(data.len() as u32) as _;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = level;
        (*head).cmsg_type = kind;
        (*head).cmsg_len = libc::CMSG_LEN(data.len() as u32) as _;
        ptr::copy_nonoverlapping(data.as_ptr(), libc::CMSG_DATA(head), data.len());
        libc::sendmsg(file, &message, 0) as i64
    }
}

/// A descriptor that nobody can receive any more is closed when its receiver closes, even if the
/// sender is open, or was sent itself.
pub(super) unsafe fn unheard() {
    unsafe {
        for (kind, name) in [
            (SOCK_STREAM, "stream"),
            (SOCK_DGRAM, "datagram"),
            (SOCK_SEQPACKET, "seqpacket"),
        ] {
            for itself in [false, true] {
                let [a, b] = pair(kind);
                let mut ends = [-1; 2];
                libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK);
                send_files(a, b"x", &[ends[1], a][..1 + usize::from(itself)]);
                libc::close(ends[1]);
                if itself {
                    libc::close(a);
                }
                libc::close(b);
                let mut byte = 0u8;
                let count = libc::read(ends[0], (&raw mut byte).cast(), 1);
                tell(&format!("the pipe sent by {name}"), count as i64);
                if !itself {
                    tell("more", send(a, b"y", MSG_NOSIGNAL));
                    libc::close(a);
                }
                libc::close(ends[0]);
            }
        }
    }
}

unsafe fn send_files(file: c_int, bytes: &[u8], files: &[c_int]) -> i64 {
    let data: Vec<u8> = files.iter().flat_map(|file| file.to_ne_bytes()).collect();
    unsafe { send_with(file, bytes, (SOL_SOCKET, libc::SCM_RIGHTS), &data) }
}

/// Receives with `room` bytes for control messages, prints the message, and returns the
/// descriptors.
unsafe fn receive_files(what: &str, file: c_int, room: usize, flags: c_int) -> Vec<c_int> {
    unsafe {
        let mut control = [0u64; CONTROL / 8];
        let mut bytes = [0u8; 32];
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = room as _;
        let count = libc::recvmsg(file, &mut message, flags | MSG_DONTWAIT);
        if count < 0 {
            tell(what, -1);
            return Vec::new();
        }
        let mut files = Vec::new();
        let mut said = String::new();
        let mut head = libc::CMSG_FIRSTHDR(&message);
        while !head.is_null() {
            let length = (*head).cmsg_len as usize - 16;
            match (*head).cmsg_type {
                libc::SCM_RIGHTS => {
                    let data = libc::CMSG_DATA(head).cast::<c_int>();
                    files.extend((0..length / 4).map(|at| data.add(at).read_unaligned()));
                }
                libc::SCM_CREDENTIALS => {
                    let who = libc::CMSG_DATA(head).cast::<libc::ucred>().read_unaligned();
                    let own = who.pid == libc::getpid();
                    said = format!(", by {} {} {}", own, who.uid, who.gid);
                }
                _ => said = ", odd".into(),
            }
            head = libc::CMSG_NXTHDR(&message, head);
        }
        println!(
            "{what}: {:?} files {}{said} control {} flags {:#x}",
            String::from_utf8_lossy(&bytes[..count as usize]),
            files.len(),
            message.msg_controllen,
            message.msg_flags,
        );
        files
    }
}

pub(super) unsafe fn rights() {
    unsafe {
        let [a, b] = pair(SOCK_STREAM);
        let [reads, writes] = pair(SOCK_STREAM);
        tell("two files", send_files(a, b"files", &[reads, writes]));
        let got = receive_files("they came", b, CONTROL, libc::MSG_CMSG_CLOEXEC);
        println!(
            "closed by exec: {}",
            libc::fcntl(got[0], libc::F_GETFD) == libc::FD_CLOEXEC
        );
        send(got[1], b"through", 0);
        receive("the same socket", reads, 10, MSG_DONTWAIT);
        send(a, b"before ", 0);
        send_files(a, b"with ", &[reads]);
        send(a, b"after", 0);
        receive_files("joined up to the files", b, CONTROL, 0);
        receive_files("then the rest", b, CONTROL, 0);
        send_files(a, b"peek", &[reads]);
        receive_files("peek", b, CONTROL, MSG_PEEK);
        receive_files("no room", b, 0, 0);
        send_files(a, b"room for one", &[reads, writes]);
        receive_files("room for one", b, 20, 0);
        send_files(a, b"read", &[reads]);
        receive("plain", b, 10, 0);
        tell("a bad one", send_files(a, b"x", &[77]));
        tell(
            "nothing came",
            send_with(a, b"x", (SOL_SOCKET, 99), &[0; 4]),
        );
        receive_files("empty", b, CONTROL, 0);
        // Both ends of a connection wait in each other's queue, where nobody can receive them.
        for _ in 0..100 {
            let [c, d] = pair(SOCK_STREAM);
            send_files(c, b"c", &[d]);
            send_files(d, b"d", &[c]);
            libc::close(c);
            libc::close(d);
        }
        // A long chain: closing the last closes all.
        let mut last = pair(SOCK_STREAM);
        for _ in 0..5000 {
            let next = pair(SOCK_STREAM);
            send_files(next[0], b"x", &last);
            libc::close(last[0]);
            libc::close(last[1]);
            last = next;
        }
        libc::close(last[0]);
        libc::close(last[1]);
        println!("a chain ended");
        let many = vec![reads; 253];
        let mut all = vec![0u64; 300];
        let mut piece = libc::iovec {
            iov_base: all.as_mut_ptr().cast(),
            iov_len: 1,
        };
        let mut control = vec![0u64; 200];
        for count in [253usize, 254] {
            let mut message: libc::msghdr = mem::zeroed();
            message.msg_iov = &mut piece;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(count as u32 * 4) as _;
            let head = libc::CMSG_FIRSTHDR(&message);
            (*head).cmsg_level = SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(count as u32 * 4) as _;
            for at in 0..count {
                libc::CMSG_DATA(head)
                    .cast::<c_int>()
                    .add(at)
                    .write(many[at.min(252)]);
            }
            tell(
                &format!("{count} files"),
                libc::sendmsg(a, &message, 0) as i64,
            );
        }
    }
}

pub(super) unsafe fn credentials() {
    unsafe {
        let [a, b] = pair(SOCK_STREAM);
        send(a, b"unknown", 0);
        set(b, SOL_SOCKET, SO_PASSCRED, 1);
        receive_files("sent before", b, CONTROL, 0);
        send(a, b"known", 0);
        receive_files("sent after", b, CONTROL, 0);
        let who = libc::ucred {
            pid: libc::getpid(),
            uid: 12,
            gid: 34,
        };
        let bytes: [u8; 12] = mem::transmute(who);
        tell(
            "as another user",
            send_with(a, b"faked", (SOL_SOCKET, libc::SCM_CREDENTIALS), &bytes),
        );
        receive_files("it came", b, CONTROL, 0);
        let nobody = libc::ucred {
            pid: 0x3f_ffff,
            ..who
        };
        let nobody: [u8; 12] = mem::transmute(nobody);
        tell(
            "as nobody",
            send_with(a, b"faked", (SOL_SOCKET, libc::SCM_CREDENTIALS), &nobody),
        );
        tell_end(
            "unprivileged",
            in_child(|| {
                libc::setuid(1000);
                tell(
                    "as another user",
                    send_with(a, b"faked", (SOL_SOCKET, libc::SCM_CREDENTIALS), &bytes),
                );
                send(a, b"child", 0);
            }),
        );
        receive_files("of the child", b, CONTROL, 0);
        let mut peer: libc::ucred = mem::zeroed();
        let mut length = mem::size_of::<libc::ucred>() as socklen_t;
        libc::getsockopt(
            a,
            SOL_SOCKET,
            SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut length,
        );
        println!(
            "the peer is this: {} {}",
            peer.pid == libc::getpid(),
            peer.uid
        );
        let [a, b] = pair(SOCK_DGRAM);
        set(b, SOL_SOCKET, SO_PASSCRED, 1);
        send(a, b"datagram", 0);
        receive_files("of a datagram", b, CONTROL, 0);
        send_files(a, b"both", &[a]);
        receive_files("with a file", b, CONTROL, 0);
    }
}
