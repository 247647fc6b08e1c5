//! Transfers of many bytes, to compare with the cost of a copy in a program.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use super::{Row, bytes};
use crate::meter::{Done, Meter};
use crate::sys::{all, call, fork, memory_file, name, owned, pipe, wait};

const LARGE: usize = 64 << 20;

pub const ROWS: &[Row] = &[
    bytes(
        COPY,
        LARGE,
        1,
        copy,
        "a program copies N bytes by itself: the ideal",
    ),
    bytes(
        "pread",
        LARGE,
        1,
        pread,
        "pread64 of N bytes of a file in memory",
    ),
    bytes(
        "pwrite",
        LARGE,
        1,
        pwrite,
        "pwrite64 of N bytes of a file in memory, over others",
    ),
    bytes(
        "write_new",
        LARGE,
        1,
        write_new,
        "write of N bytes to an empty file in memory",
    ),
    bytes(
        "sendfile",
        LARGE,
        1,
        sendfile,
        "sendfile of N bytes from one file in memory to another",
    ),
    bytes(
        "copy_file_range",
        LARGE,
        1,
        copy_range,
        "copy_file_range of N bytes in memory",
    ),
    bytes(
        "splice",
        LARGE,
        0,
        splice,
        "splice of N bytes of a file to a pipe and on to /dev/null",
    ),
    bytes(
        "pipe",
        LARGE,
        2,
        through_pipe,
        "N bytes through a pipe, 64 KiB at a time",
    ),
    bytes(
        "unix_stream",
        LARGE,
        2,
        unix_stream,
        "N bytes through Unix sockets, 32 KiB at a time",
    ),
    bytes(
        "tcp_stream",
        LARGE,
        2,
        tcp_stream,
        "N bytes through TCP on loopback, 32 KiB at a time",
    ),
    bytes(
        "sendfile_tcp",
        LARGE,
        0,
        sendfile_tcp,
        "sendfile of N bytes to TCP, received as MSG_TRUNC",
    ),
    bytes(
        "process_vm_readv",
        LARGE,
        1,
        vm_read,
        "process_vm_readv of N bytes of one's own",
    ),
    bytes("getrandom", 1 << 20, 0, getrandom, "getrandom of N bytes"),
    bytes("zero", LARGE, 0, zero, "read of N bytes of /dev/zero"),
    bytes(
        "exec",
        1 << 20,
        1,
        exec,
        "vfork, execve with N bytes of arguments, exit, wait",
    ),
    bytes(
        "pty",
        1 << 20,
        2,
        pty,
        "N bytes written to a terminal and read of its master, 512 at a time",
    ),
];

/// The row to compare others with.
pub const COPY: &str = "copy";

/// A program's buffer with all pages present.
fn buffer(meter: &Meter) -> Vec<u8> {
    vec![1; meter.size()]
}

fn copy(meter: &mut Meter) -> Done {
    let (from, mut to) = (buffer(meter), buffer(meter));
    meter.transfers(|| {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        Ok(())
    })
}

/// A file in memory with all pages present.
fn file(meter: &Meter) -> io::Result<File> {
    let file = memory_file(meter.size())?;
    let content = buffer(meter);
    all(content.len(), |left| {
        let done = content.len() - left;
        call!(
            SYS_pwrite64,
            file.as_raw_fd(),
            content[done..].as_ptr(),
            left,
            done
        )
    })?;
    Ok(file)
}

fn pread(meter: &mut Meter) -> Done {
    let (file, mut to) = (file(meter)?, buffer(meter));
    let bytes = to.len();
    meter.transfers(|| call!(SYS_pread64, file.as_raw_fd(), to.as_mut_ptr(), bytes, 0).map(drop))
}

fn pwrite(meter: &mut Meter) -> Done {
    let (file, from) = (file(meter)?, buffer(meter));
    meter
        .transfers(|| call!(SYS_pwrite64, file.as_raw_fd(), from.as_ptr(), from.len(), 0).map(drop))
}

fn write_new(meter: &mut Meter) -> Done {
    let (file, from) = (memory_file(0)?, buffer(meter));
    meter.batches(
        1,
        || file.set_len(0),
        || call!(SYS_pwrite64, file.as_raw_fd(), from.as_ptr(), from.len(), 0).map(drop),
    )
}

fn sendfile(meter: &mut Meter) -> Done {
    let (from, to, bytes) = (file(meter)?, file(meter)?, meter.size());
    meter.transfers(|| {
        call!(SYS_lseek, to.as_raw_fd(), 0, libc::SEEK_SET)?;
        let mut at = 0i64;
        let (to, from) = (to.as_raw_fd(), from.as_raw_fd());
        all(bytes, |left| {
            call!(SYS_sendfile, to, from, &raw mut at, left)
        })
    })
}

fn copy_range(meter: &mut Meter) -> Done {
    let (from, to, bytes) = (file(meter)?, file(meter)?, meter.size());
    meter.transfers(|| {
        let (mut here, mut there) = (0i64, 0i64);
        let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
        all(bytes, |left| {
            call!(
                SYS_copy_file_range,
                from,
                &raw mut here,
                to,
                &raw mut there,
                left,
                0
            )
        })
    })
}

fn splice(meter: &mut Meter) -> Done {
    let (from, bytes) = (file(meter)?, meter.size());
    let null = fs::OpenOptions::new().write(true).open("/dev/null")?;
    let [out, into] = pipe(CHUNK)?;
    let none = ptr::null::<u8>();
    meter.transfers(|| {
        let mut at = 0i64;
        all(bytes, |left| {
            let (from, into, chunk) = (from.as_raw_fd(), into.as_raw_fd(), left.min(CHUNK));
            let moved = call!(SYS_splice, from, &raw mut at, into, none, chunk, 0)?;
            let (out, null) = (out.as_raw_fd(), null.as_raw_fd());
            all(moved, |left| {
                call!(SYS_splice, out, none, null, none, left, 0)
            })?;
            Ok(moved)
        })
    })
}

/// The size of a single write, as large as a pipe's buffer.
const CHUNK: usize = 64 << 10;

/// Alternates writes and reads of `chunk` bytes.
fn through(meter: &mut Meter, chunk: usize, into: i32, out: i32) -> Done {
    let bytes = meter.size();
    let mut buffer = vec![1u8; chunk];
    meter.transfers(|| {
        all(bytes, |left| {
            let sent = call!(SYS_write, into, buffer.as_ptr(), left.min(chunk))?;
            all(sent, |left| call!(SYS_read, out, buffer.as_mut_ptr(), left))?;
            Ok(sent)
        })
    })
}

fn through_pipe(meter: &mut Meter) -> Done {
    let [out, into] = pipe(CHUNK)?;
    through(meter, CHUNK, into.as_raw_fd(), out.as_raw_fd())
}

fn unix_stream(meter: &mut Meter) -> Done {
    let (one, other) = UnixStream::pair()?;
    through(meter, CHUNK / 2, one.as_raw_fd(), other.as_raw_fd())
}

/// The two ends of a TCP connection.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    one.set_nodelay(true)?;
    Ok((one, listener.accept()?.0))
}

fn tcp_stream(meter: &mut Meter) -> Done {
    let (one, other) = connection()?;
    through(meter, CHUNK / 2, one.as_raw_fd(), other.as_raw_fd())
}

fn sendfile_tcp(meter: &mut Meter) -> Done {
    let (one, other) = connection()?;
    let (file, bytes) = (file(meter)?, meter.size());
    let none = ptr::null::<u8>();
    meter.transfers(|| {
        let mut at = 0i64;
        let (to, from, out) = (one.as_raw_fd(), file.as_raw_fd(), other.as_raw_fd());
        all(bytes, |left| {
            let sent = call!(SYS_sendfile, to, from, &raw mut at, left.min(CHUNK / 2))?;
            let flags = libc::MSG_TRUNC;
            all(sent, |left| {
                call!(SYS_recvfrom, out, none, left, flags, 0, 0)
            })?;
            Ok(sent)
        })
    })
}

fn vm_read(meter: &mut Meter) -> Done {
    let (mut from, mut to) = (buffer(meter), buffer(meter));
    let vector = |buffer: &mut [u8]| libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let (here, there) = (vector(&mut to), vector(&mut from));
    let pid = std::process::id();
    meter.transfers(|| {
        call!(
            SYS_process_vm_readv,
            pid,
            &raw const here,
            1,
            &raw const there,
            1,
            0
        )
        .map(drop)
    })
}

fn getrandom(meter: &mut Meter) -> Done {
    let mut to = buffer(meter);
    meter.transfers(|| call!(SYS_getrandom, to.as_mut_ptr(), to.len(), 0).map(drop))
}

fn zero(meter: &mut Meter) -> Done {
    let (zero, mut to) = (File::open("/dev/zero")?, buffer(meter));
    meter.transfers(|| {
        all(to.len(), |left| {
            call!(SYS_read, zero.as_raw_fd(), to.as_mut_ptr(), left)
        })
    })
}

fn exec(meter: &mut Meter) -> Done {
    const WORD: usize = 1 << 10;
    let path = name("/proc/self/exe".into());
    let words: Vec<_> = (0..meter.size())
        .step_by(WORD)
        .map(|at| name("x".repeat((meter.size() - at).min(WORD) - 1)))
        .collect();
    let first = [c"sizes", c"--nothing"].map(|word| word.as_ptr());
    let rest = words.iter().map(|word| word.as_ptr());
    let list: Vec<_> = first.into_iter().chain(rest).chain([ptr::null()]).collect();
    let environment = [ptr::null::<u8>()];
    meter.repeat(1, |_| {
        let child = || {
            let _ = call!(
                SYS_execve,
                path.as_ptr(),
                list.as_ptr(),
                environment.as_ptr()
            );
        };
        wait(fork(child)? as isize)
    })
}

fn pty(meter: &mut Meter) -> Done {
    let master = File::options().read(true).write(true).open("/dev/ptmx")?;
    let unlock = 0i32;
    call!(
        SYS_ioctl,
        master.as_raw_fd(),
        libc::TIOCSPTLCK,
        &raw const unlock
    )?;
    let flags = libc::O_RDWR | libc::O_NOCTTY;
    let slave: OwnedFd = owned(call!(
        SYS_ioctl,
        master.as_raw_fd(),
        libc::TIOCGPTPEER,
        flags
    )?);
    through(meter, 512, slave.as_raw_fd(), master.as_raw_fd())
}
