//! Moving data between pipes and files inside the kernel: amounts, waits and refusals.

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::thread;
use std::{fs, ptr};

use libc::{O_NONBLOCK, O_RDONLY, O_RDWR, SPLICE_F_NONBLOCK, c_int};

use crate::{error, inet, path, tell};

fn pipe(flags: c_int) -> [c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::pipe2(ends.as_mut_ptr(), flags) };
    ends
}

fn splice(from: c_int, to: c_int, len: usize, flags: u32) -> i64 {
    // SAFETY: no offsets are passed.
    unsafe { libc::splice(from, ptr::null_mut(), to, ptr::null_mut(), len, flags) as i64 }
}

fn vmsplice(pipe: c_int, bytes: &mut [u8], flags: u32) -> i64 {
    let piece = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the I/O vector refers to the slice.
    unsafe { libc::vmsplice(pipe, &piece, 1, flags) as i64 }
}

fn read(file: c_int, len: usize) -> i64 {
    let mut bytes = vec![0u8; len];
    // SAFETY: the buffer has room for `len` bytes.
    unsafe { libc::read(file, bytes.as_mut_ptr().cast(), len) as i64 }
}

/// Runs this part.
pub fn run() {
    // Aligned pages, so that a pipe takes as many bytes as it has pages for.
    let mut memory = vec![[0u8; 4096]; 49];
    let start = memory.as_flattened_mut().as_mut_ptr();
    let skip = start.align_offset(4096);
    let bytes = &mut memory.as_flattened_mut()[skip..skip + 48 * 4096];
    (0..bytes.len()).for_each(|at| bytes[at] = (at / 4096) as u8);
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        amounts(bytes);
        full_and_empty(bytes);
        sockets();
        kinds();
        beside_a_writer(bytes);
        beside_a_reader();
        round(bytes);
        waits(bytes);
    }
}

/// More than a pipe holds is moved in parts, each at once.
unsafe fn amounts(bytes: &mut [u8]) {
    unsafe {
        let ends = pipe(0);
        let file = libc::open(path(c"spliced"), O_RDWR | libc::O_CREAT, 0o600);
        let mut left = &mut *bytes;
        while !left.is_empty() {
            let taken = vmsplice(ends[1], left, 0);
            tell("vmsplice of all", taken);
            tell("to the file", splice(ends[0], file, taken as usize, 0));
            left = &mut left[taken as usize..];
        }
        tell("size", libc::lseek(file, 0, libc::SEEK_CUR));
        let mut last = [0u8];
        libc::pread(file, last.as_mut_ptr().cast(), 1, 48 * 4096 - 1);
        println!("the last byte {}", last[0]);
        libc::lseek(file, 0, libc::SEEK_SET);
        tell("the file to a pipe", splice(file, ends[1], 1 << 20, 0));
        tell("position", libc::lseek(file, 0, libc::SEEK_CUR));
        let other = pipe(0);
        tell("pipe to pipe", splice(ends[0], other[1], 1 << 20, 0));
        tell("read", read(other[0], 1 << 20));
        let zero = libc::open(path(c"/dev/zero"), O_RDONLY);
        tell("zeroes", splice(zero, ends[1], 100, 0));
        let null = libc::open(path(c"/dev/null"), libc::O_WRONLY);
        tell("to nowhere", splice(ends[0], null, 1000, 0));
        tell("nothing", splice(ends[0], ends[0], 0, 0));
        let mut out = [0u8; 100];
        libc::write(ends[1], bytes.as_ptr().cast(), 50);
        tell("vmsplice out", vmsplice(ends[0], &mut out, 0));
        libc::lseek(file, 0, libc::SEEK_SET);
        let sent = libc::sendfile(ends[1], file, ptr::null_mut(), 1 << 20);
        tell("sendfile to a pipe", sent as i64);
        libc::close(file);
    }
}

unsafe fn full_and_empty(bytes: &mut [u8]) {
    unsafe {
        let (full, empty) = (pipe(0), pipe(0));
        tell("fill", vmsplice(full[1], bytes, 0));
        let now = SPLICE_F_NONBLOCK;
        tell("more", vmsplice(full[1], &mut bytes[..1], now));
        tell("from the empty one", splice(empty[0], full[1], 1, now));
        tell("tee from it", libc::tee(empty[0], full[1], 1, now) as i64);
        let zero = libc::open(path(c"/dev/zero"), O_RDONLY);
        tell("to the full one", splice(zero, full[1], 1, now));
        tell(
            "out of the empty one",
            vmsplice(empty[0], &mut bytes[..1], now),
        );
        libc::fcntl(full[1], libc::F_SETFL, O_NONBLOCK);
        tell("its own flag", splice(zero, full[1], 1, 0));
        libc::close(empty[1]);
        tell("the end", splice(empty[0], full[1], 1, 0));
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let ends = pipe(0);
        libc::close(ends[0]);
        tell("nobody reads", splice(zero, ends[1], 1, 0));
        tell("nor this", vmsplice(ends[1], &mut bytes[..1], 0));
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Bytes for which a socket has no room stay in the pipe.
unsafe fn sockets() {
    unsafe {
        let mut ends = [0; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
        libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr());
        let through = pipe(O_NONBLOCK);
        let chunk = [7u8; 1000];
        let (mut written, mut moved) = (0, 0);
        for _ in 0..2000 {
            written += libc::write(through[1], chunk.as_ptr().cast(), 1000).max(0) as i64;
            match splice(through[0], ends[0], 1000, 0) {
                count @ 1.. => moved += count,
                _ => break,
            }
        }
        let mut waiting: c_int = 0;
        libc::ioctl(through[0], libc::FIONREAD as _, &mut waiting);
        println!("none is lost: {}", written == moved + i64::from(waiting));
    }
}

/// The kinds of files that can be spliced; none of these calls waits.
unsafe fn kinds() {
    unsafe {
        let (ends, other) = (pipe(0), pipe(0));
        let mut mask = std::mem::zeroed();
        libc::sigemptyset(&mut mask);
        let files = [
            ("a folder", libc::open(path(c"/"), O_RDONLY)),
            ("eventfd", libc::eventfd(0, 0)),
            ("epoll", libc::epoll_create1(0)),
            ("signalfd", libc::signalfd(-1, &mask, 0)),
            ("timerfd", libc::timerfd_create(libc::CLOCK_REALTIME, 0)),
            ("inotify", libc::inotify_init1(0)),
            ("a place", libc::open(path(c"/"), libc::O_PATH)),
            (
                "a socket",
                libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0),
            ),
            ("its own other end", ends[0]),
        ];
        for (name, file) in files {
            tell(name, splice(file, ends[1], 1, 0));
        }
        libc::write(other[1], c"x".as_ptr().cast(), 1);
        for (name, file) in &files[1..6] {
            println!("to {name}:");
            tell(" ", splice(other[0], *file, 1, 0));
        }
        let file = libc::open(path(c"spliced"), O_RDWR);
        tell("file to file", splice(file, file, 1, 0));
        tell("odd flags", splice(file, ends[1], 1, 16));
        let mut offset = 0;
        let out = libc::sendfile(file, ends[0], ptr::null_mut(), 1);
        tell("sendfile from a pipe", out as i64);
        let out = libc::sendfile(file, ends[0], &mut offset, 1);
        tell("at a place", out as i64);
        libc::unlink(path(c"spliced"));
    }
}

fn stream(flags: c_int) -> [c_int; 2] {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | flags;
    // SAFETY: the array has room for two descriptors.
    unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    ends
}

/// The two ends of a TCP connection, on which splice(2) waits whatever its flags.
unsafe fn connection() -> [c_int; 2] {
    unsafe {
        let server = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        inet::bind(server, libc::AF_INET, 0x7f00_0001, 0);
        libc::listen(server, 1);
        let client = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        inet::connect(client, libc::AF_INET, 0x7f00_0001, inet::own_port(server));
        let accepted = libc::accept(server, ptr::null_mut(), ptr::null_mut());
        libc::close(server);
        [client, accepted]
    }
}

fn write(file: c_int, bytes: &[u8]) -> i64 {
    // SAFETY: the buffer is live.
    unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) as i64 }
}

/// The result of a thread that moves data.
type Moved = thread::JoinHandle<Result<i64, &'static str>>;

/// Starts a thread, and returns once it sleeps or has ended.
fn start(act: impl FnOnce() -> i64 + Send + 'static) -> Moved {
    static THREAD: AtomicI32 = AtomicI32::new(0);
    THREAD.store(0, SeqCst);
    let handle = thread::spawn(|| {
        // SAFETY: the call takes no argument.
        THREAD.store(unsafe { libc::gettid() }, SeqCst);
        let done = act();
        (done >= 0).then_some(done).ok_or_else(error)
    });
    loop {
        thread::yield_now();
        let stat = format!("/proc/self/task/{}/stat", THREAD.load(SeqCst));
        let stat = fs::read_to_string(stat).unwrap_or_default();
        let sleeps = stat
            .rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with(['S', 'D']));
        if sleeps || handle.is_finished() {
            return handle;
        }
    }
}

/// Bytes from a socket stay together in the pipe, even if others write to it.
unsafe fn beside_a_writer(bytes: &[u8]) {
    unsafe {
        let (ends, socket) = (pipe(O_NONBLOCK), connection());
        let splices = start(move || splice(socket[0], ends[1], 1000, 0));
        let others = bytes.to_vec();
        let writes = start(move || write(ends[1], &others));
        write(socket[1], &[200; 1000]);
        println!("splice beside a writer: {:?}", splices.join().unwrap());
        let written = writes.join().unwrap().unwrap_or(0);
        let mut all = vec![0u8; 1 << 16];
        let got = libc::read(ends[0], all.as_mut_ptr().cast(), all.len()) as i64;
        println!("the writer's are there as well: {}", got == written + 1000);
        println!("and the others: {}", all[..1000] == [200; 1000]);
    }
}

/// Bytes that one call sends from a pipe are not sent by another.
unsafe fn beside_a_reader() {
    unsafe {
        let (ends, socket) = (pipe(0), stream(0));
        let file = libc::open(path(c"spliced"), O_RDWR | libc::O_CREAT, 0o600);
        libc::fcntl(socket[0], libc::F_SETFL, O_NONBLOCK);
        while write(socket[0], &[1; 4096]) > 0 {}
        libc::fcntl(socket[0], libc::F_SETFL, 0);
        write(ends[1], &[2; 100]);
        let first = start(move || splice(ends[0], socket[0], 100, 0));
        let second = start(move || splice(ends[0], file, 100, SPLICE_F_NONBLOCK));
        let third = start(move || vmsplice(ends[0], &mut [0; 100], SPLICE_F_NONBLOCK));
        read(socket[1], 1 << 20);
        println!("splice to the socket: {:?}", first.join().unwrap());
        println!("nothing to the file: {:?}", second.join().unwrap());
        println!("nothing to memory: {:?}", third.join().unwrap());
        libc::close(file);
        libc::unlink(path(c"spliced"));
    }
}

/// Threads move data between two pipes in both directions; nothing is lost or duplicated.
fn round(bytes: &[u8]) {
    let (one, other) = (pipe(O_NONBLOCK), pipe(O_NONBLOCK));
    write(one[1], &bytes[..20000]);
    write(other[1], &bytes[..30000]);
    let moves = |from: c_int, to: c_int| {
        thread::spawn(move || {
            for len in 1..2000 {
                splice(from, to, len, 0);
            }
        })
    };
    let threads = [
        moves(one[0], other[1]),
        moves(other[0], one[1]),
        moves(one[0], other[1]),
        moves(other[0], one[1]),
    ];
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let left = read(one[0], 1 << 16).max(0) + read(other[0], 1 << 16).max(0);
    tell("left after going round", left);
}

/// The side that decides whether a call waits.
unsafe fn waits(bytes: &mut [u8]) {
    unsafe {
        let (full, never, empty) = (pipe(0), pipe(O_NONBLOCK), pipe(0));
        vmsplice(full[1], bytes, 0);
        vmsplice(never[1], bytes, 0);
        tell("from what never waits", splice(never[0], full[1], 1, 0));
        tell("tee from it", libc::tee(never[0], full[1], 1, 0) as i64);
        tell("to what never waits", splice(empty[0], never[1], 1, 0));
        tell("tee to it", libc::tee(empty[0], never[1], 1, 0) as i64);
        libc::close(empty[1]);
        let now = SPLICE_F_NONBLOCK;
        tell(
            "tee of the end",
            libc::tee(empty[0], full[1], 1, now) as i64,
        );
        let zero = libc::open(path(c"/dev/zero"), O_RDONLY);
        let sent = libc::sendfile(never[1], zero, ptr::null_mut(), 1);
        tell("sendfile to a full pipe", sent as i64);
        let room = pipe(0);
        write(room[1], b"x");
        let sent = libc::sendfile(room[1], never[0], ptr::null_mut(), 1);
        tell("from a pipe to a pipe", sent as i64);
        let sent = libc::sendfile(room[1], room[0], ptr::null_mut(), 1);
        tell("from a pipe to itself", sent as i64);
        tell(
            "from a socket at once",
            splice(stream(0)[0], room[1], 1, now),
        );
    }
}
