//! Transfers to and from addresses beyond user space: EFAULT at once, whatever the file holds, and
//! before any wait.

use std::ptr;

use crate::tell;

/// The end of `access_ok` in Debian's Linux 6.12: on arm64 it is at 52 bits on any CPU.
fn end() -> usize {
    if cfg!(target_arch = "aarch64") {
        return 1 << 52;
    }
    match std::fs::read_to_string("/proc/cpuinfo") {
        Ok(text) if text.contains("sv57") => 1 << 56,
        Ok(text) if text.contains("sv48") => 1 << 47,
        _ => 1 << 38,
    }
}

/// The maximum number of bytes that one call transfers (MAX_RW_COUNT).
const MOST: usize = 0x7fff_f000;

/// Runs this part.
pub fn run() {
    // SAFETY: no address passed is of this program's memory, except where said.
    unsafe {
        nothing_to_move();
        order();
        waiting();
        vectors();
        sockets();
        others();
    }
}

/// Ranges: a description, the address and the length.
fn ranges() -> [(&'static str, usize, usize); 12] {
    let end = end();
    [
        ("one byte, to the end", end - 1, 1),
        ("nothing, at the end", end, 0),
        ("nothing, beyond the end", end + 1, 0),
        ("one byte, at the end", end, 1),
        ("two bytes, past the end", end - 1, 2),
        ("most bytes, past the end", end + 1 - MOST, MOST),
        ("more bytes, past the end", end - MOST, MOST + 1),
        ("around zero", usize::MAX - 3, 8),
        ("at 4096, to the end", 4096, end - 4096),
        ("at 4096, past the end", 4096, end - 4095),
        ("at 4096, half of all", 4096, 1 << 63),
        ("at 4096, all", 4096, usize::MAX),
    ]
}

unsafe fn read(fd: i32, at: usize, len: usize) -> isize {
    unsafe { libc::syscall(libc::SYS_read, fd, at, len) as isize }
}

unsafe fn write(fd: i32, at: usize, len: usize) -> isize {
    unsafe { libc::syscall(libc::SYS_write, fd, at, len) as isize }
}

/// Files whose transfers access no byte.
unsafe fn nothing_to_move() {
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        let empty = libc::memfd_create(c"empty".as_ptr(), 0);
        for (what, at, len) in ranges() {
            tell(&format!("read null, {what}"), read(null, at, len) as i64);
            tell(&format!("write null, {what}"), write(null, at, len) as i64);
            tell(
                &format!("read the end, {what}"),
                read(empty, at, len) as i64,
            );
            let got = libc::syscall(libc::SYS_pread64, empty, at, len, 0);
            tell(&format!("pread the end, {what}"), got);
            let put = libc::syscall(libc::SYS_pwrite64, null, at, len, 0);
            tell(&format!("pwrite null, {what}"), put);
        }
        libc::close(null);
        libc::close(empty);
    }
}

/// Errors that come before EFAULT.
unsafe fn order() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        tell("read the wrong end", read(ends[1], usize::MAX, 1) as i64);
        tell("write the wrong end", write(ends[0], usize::MAX, 1) as i64);
        tell("read no file", read(-1, usize::MAX, 1) as i64);
        let place = libc::syscall(libc::SYS_pread64, ends[0], usize::MAX, 1, 0);
        tell("pread a pipe", place);
        let place = libc::syscall(libc::SYS_pwrite64, ends[1], usize::MAX, 1, 0);
        tell("pwrite a pipe", place);
        let place = libc::syscall(libc::SYS_pread64, ends[0], usize::MAX, 1, -1i64);
        tell("pread before the start", place);
        let sent = libc::syscall(libc::SYS_sendto, -1, usize::MAX, 1, 0, 0, 0);
        tell("sendto no file", sent);
        let got = libc::syscall(libc::SYS_recvfrom, ends[0], usize::MAX, 1, 0, 0, 0);
        tell("recvfrom a pipe", got);
        let flags = libc::syscall(libc::SYS_getrandom, usize::MAX, 1, 64);
        tell("getrandom with unknown flags", flags);
        ends.iter().for_each(|&end| _ = libc::close(end));
    }
}

/// Calls that would block.
unsafe fn waiting() {
    unsafe {
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        tell("read a pipe", read(ends[0], usize::MAX - 4096, 1) as i64);
        let none: *const u8 = ptr::null();
        let sets = libc::epoll_create1(0);
        let at = usize::MAX - 4096;
        for (what, at, count) in [("above", at, 1), ("many", end() - 16, 2), ("none", at, 0)] {
            let got = libc::syscall(libc::SYS_epoll_pwait, sets, at, count, 0, none, 8);
            tell(&format!("epoll_pwait {what}"), got);
        }
        let got = libc::syscall(libc::SYS_epoll_pwait, -1, at, 1, 0, none, 8);
        tell("epoll_pwait no file", got);
        libc::close(sets);
        let mut pair = [0; 2];
        libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
        let got = libc::syscall(libc::SYS_recvfrom, pair[0], at, 1, 0, 0, 0);
        tell("recvfrom", got);
        ends.iter()
            .chain(&pair)
            .for_each(|&end| _ = libc::close(end));
    }
}

/// I/O vectors, all of whose elements are checked first.
unsafe fn vectors() {
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let byte = 7u8;
        let good = [ptr::from_ref(&byte).addr(), 1];
        let call = |call, fd: i32, pieces: &[[usize; 2]]| -> i64 {
            libc::syscall(call, fd, pieces.as_ptr(), pieces.len(), 0)
        };
        for (what, at, len) in ranges() {
            let (one, two) = ([[at, len]], [good, [at, len]]);
            tell(
                &format!("readv null, {what}"),
                call(libc::SYS_readv, null, &one),
            );
            tell(
                &format!("writev null, {what}"),
                call(libc::SYS_writev, null, &one),
            );
            tell(&format!("two, {what}"), call(libc::SYS_writev, null, &two));
            let two = [[at, len], good];
            tell(
                &format!("the first, {what}"),
                call(libc::SYS_readv, null, &two),
            );
        }
        let two = [good, [usize::MAX - 4096, 1]];
        tell("to a pipe", call(libc::SYS_writev, ends[1], &two));
        tell("vmsplice", call(libc::SYS_vmsplice, ends[1], &two));
        let mut held = 0;
        libc::ioctl(ends[0], libc::FIONREAD, &mut held);
        tell("in the pipe", held);
        tell("to the wrong end", call(libc::SYS_writev, ends[0], &two));
        tell("from the wrong end", call(libc::SYS_readv, ends[1], &two));
        tell(
            "from a place in a pipe",
            call(libc::SYS_preadv, ends[0], &two),
        );
        tell(
            "to a place in a pipe",
            call(libc::SYS_pwritev, ends[1], &two),
        );
        ends.iter().for_each(|&end| _ = libc::close(end));
        libc::close(null);
    }
}

unsafe fn sockets() {
    unsafe {
        let mut pair = [0; 2];
        let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK;
        libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr());
        for (what, at, len) in ranges().into_iter().filter(|(_, at, _)| *at >= end()) {
            let sent = libc::syscall(libc::SYS_sendto, pair[0], at, len, 0, 0, 0);
            tell(&format!("sendto, {what}"), sent);
            let got = libc::syscall(libc::SYS_recvfrom, pair[1], at, len, 0, 0, 0);
            tell(&format!("recvfrom, {what}"), got);
            let mut piece = libc::iovec {
                iov_base: ptr::without_provenance_mut(at),
                iov_len: len,
            };
            let mut header: libc::msghdr = std::mem::zeroed();
            (header.msg_iov, header.msg_iovlen) = (&mut piece, 1);
            tell(
                &format!("sendmsg, {what}"),
                libc::sendmsg(pair[0], &header, 0) as i64,
            );
            tell(
                &format!("recvmsg, {what}"),
                libc::recvmsg(pair[1], &mut header, 0) as i64,
            );
            // Receives what was sent, even if it is empty.
            while libc::recv(pair[1], ptr::null_mut(), 0, 0) >= 0 {}
        }
        pair.iter().for_each(|&end| _ = libc::close(end));
    }
}

unsafe fn others() {
    unsafe {
        for (what, at, len) in ranges().into_iter().filter(|(_, at, _)| *at >= end()) {
            let got = libc::syscall(libc::SYS_getrandom, at, len, 0);
            tell(&format!("getrandom, {what}"), got);
        }
        let (own, mut byte) = (libc::getpid(), 7u8);
        let at = ptr::from_mut(&mut byte).addr();
        let call = |pid: i32, local: [usize; 2], remote: [usize; 2]| -> i64 {
            let [local, remote] = [[local], [remote]];
            let (local, remote) = (local.as_ptr(), remote.as_ptr());
            libc::syscall(libc::SYS_process_vm_readv, pid, local, 1, remote, 1, 0)
        };
        tell("process_vm_readv", call(own, [at, 1], [at, 1]));
        tell("its own range", call(own, [usize::MAX, 1], [at, 1]));
        tell("its own length", call(own, [at, 1 << 63], [at, 1]));
        tell("the other's range", call(own, [at, 1], [usize::MAX, 1]));
        tell("the other's length", call(own, [at, 1], [at, 1 << 63]));
        tell("the other's long length", call(own, [at, 1], [at, 1 << 62]));
        tell("of nobody", call(0x3f_ffff, [at, 1], [at, 1]));
        tell(
            "its own of nobody",
            call(0x3f_ffff, [usize::MAX, 1], [at, 1]),
        );
        tell("nothing of nobody", call(0x3f_ffff, [at, 0], [at, 1]));
        tell("nothing from nobody", call(0x3f_ffff, [at, 1], [at, 0]));
    }
}
