//! Asynchronous I/O by Linux's own calls (io_submit(2)).

use std::mem;
use std::ptr::{self, null_mut};

use libc::{O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, c_int, c_long};

use crate::{in_child, path, tell, tell_end};

/// A call that some libcs do not know.
const IO_PGETEVENTS: c_long = 292;

/// Operations of a request.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const POLL_OF_NOTHING: u16 = 4;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;

/// `struct iocb`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    operation: u16,
    priority: u16,
    fd: c_int,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: c_int,
}

/// `struct io_event`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    second: i64,
}

unsafe fn setup(count: u32, context: &mut usize) -> c_long {
    unsafe { libc::syscall(libc::SYS_io_setup, count, context) }
}

unsafe fn destroy(context: usize) -> c_long {
    unsafe { libc::syscall(libc::SYS_io_destroy, context) }
}

unsafe fn submit(context: usize, requests: &[*const Request]) -> c_long {
    let count = requests.len();
    unsafe { libc::syscall(libc::SYS_io_submit, context, count, requests.as_ptr()) }
}

/// Calls io_getevents for at least `least` results, with a timeout in milliseconds; prints them.
unsafe fn events(what: &str, context: usize, least: c_long, most: c_long, milliseconds: i64) {
    unsafe {
        let mut events = [Event::default(); 8];
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: milliseconds * 1_000_000,
        };
        let call = libc::SYS_io_getevents;
        let count = libc::syscall(call, context, least, most, &mut events, &time);
        tell(what, count);
        for event in &events[..count.max(0) as usize] {
            let (data, result, second) = (event.data, event.result, event.second);
            println!("  {data} {result} {second} {}", event.request != 0);
        }
    }
}

fn request(data: u64, operation: u16, fd: c_int, bytes: &mut [u8], offset: i64) -> Request {
    Request {
        data,
        operation,
        fd,
        buffer: bytes.as_mut_ptr() as u64,
        length: bytes.len() as u64,
        offset,
        ..Request::default()
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type, or meant to be invalid.
    unsafe {
        let mut context = 0;
        contexts(&mut context);
        let file = libc::open(path(c"aio"), O_RDWR | O_CREAT | O_TRUNC, 0o600);
        transfers(context, file);
        refusals(context, file);
        notified(context, file);
        tell("destroy", destroy(context));
        tell("again", destroy(context));
        tell("submit", submit(context, &[]));
        events("get", context, 0, 1, 0);
        ended();
    }
}

/// A context ends with the memory at its name, and makes room for another at once.
unsafe fn ended() {
    let asked = || std::fs::read_to_string("/proc/sys/fs/aio-nr").unwrap_or_default();
    let before = asked();
    let status = in_child(|| unsafe {
        let mut context = 0;
        tell("a child's", setup(1000, &mut context));
        println!("counted: {}", asked() != before);
    });
    tell_end("child", status);
    println!("counted no longer: {}", asked() == before);
}

unsafe fn contexts(context: &mut usize) {
    unsafe {
        tell("none", setup(0, context));
        tell("too many", setup(1 << 20, context));
        tell("far too many", setup(u32::MAX, context));
        let nowhere = libc::syscall(libc::SYS_io_setup, 1, ptr::dangling::<u8>());
        tell("nowhere", nowhere);
        let mut taken = 1;
        tell("taken", setup(1, &mut taken));
        tell("setup", setup(16, context));
        println!("a name: {}", *context != 0);
        events("nothing", *context, 0, 1, 0);
        events("nothing in time", *context, 1, 1, 1);
        events("less than the least", *context, 2, 1, 0);
        events("negative", *context, -1, 1, 0);
        events("no context", 0, 0, 1, 0);
        tell("no context", destroy(0));
    }
}

unsafe fn transfers(context: usize, file: c_int) {
    unsafe {
        let mut one = *b"hello world";
        let mut two = [0u8; 32];
        let write = request(1, PWRITE, file, &mut one, 3);
        let mut read = request(2, PREAD, file, &mut two, 0);
        let sync = Request {
            data: 3,
            operation: FSYNC,
            fd: file,
            ..Request::default()
        };
        read.key = 7;
        tell("three", submit(context, &[&write, &read, &sync]));
        println!("key {}", (&raw const read.key).read_volatile());
        events("one", context, 1, 1, 1000);
        events("two", context, 2, 8, 1000);
        println!("{:?}", String::from_utf8_lossy(&two[..14]));
        tell("position", libc::lseek(file, 0, libc::SEEK_CUR));
        let pieces = [
            libc::iovec {
                iov_base: two.as_mut_ptr().cast(),
                iov_len: 2,
            },
            libc::iovec {
                iov_base: two.as_mut_ptr().add(8).cast(),
                iov_len: 4,
            },
        ];
        for (data, operation) in [(4, PREADV), (5, PWRITEV)] {
            let many = Request {
                buffer: pieces.as_ptr() as u64,
                length: 2,
                ..request(data, operation, file, &mut [], 5)
            };
            tell("pieces", submit(context, &[&many]));
            events("pieces", context, 1, 8, 1000);
        }
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let into = request(6, PWRITE, ends[1], &mut one, 0);
        let from = request(7, PREAD, ends[0], &mut two, 0);
        tell("pipe", submit(context, &[&into, &from]));
        events("pipe", context, 2, 8, 1000);
    }
}

unsafe fn refusals(context: usize, file: c_int) {
    unsafe {
        let mut bytes = [0u8; 8];
        let fine = request(8, PREAD, file, &mut bytes, 0);
        let only_read = libc::open(path(c"aio"), O_RDONLY);
        let bad = [
            ("descriptor", request(0, PREAD, -1, &mut bytes, 0)),
            ("to write", request(0, PWRITE, only_read, &mut bytes, 0)),
            (
                "operation",
                request(0, POLL_OF_NOTHING, file, &mut bytes, 0),
            ),
            (
                "reserved",
                Request {
                    reserved: 1,
                    ..fine
                },
            ),
            (
                "length",
                Request {
                    length: u64::MAX,
                    ..fine
                },
            ),
            (
                "flags",
                Request {
                    rw_flags: 1 << 30,
                    ..fine
                },
            ),
            (
                "eventfd",
                Request {
                    flags: 1,
                    eventfd: file,
                    ..fine
                },
            ),
        ];
        for (what, bad) in &bad {
            tell(what, submit(context, &[bad]));
        }
        appended(context);
        // The valid requests before the first invalid one are submitted.
        tell("until", submit(context, &[&fine, &bad[0].1, &fine]));
        events("until", context, 0, 8, 0);
        let nowhere = Request { buffer: 8, ..fine };
        tell("to nowhere", submit(context, &[&nowhere]));
        events("to nowhere", context, 0, 8, 0);
        tell("request nowhere", submit(context, &[ptr::dangling()]));
        let negative = libc::syscall(libc::SYS_io_submit, context, -1isize, null_mut::<u8>());
        tell("negative", negative);
        tell(
            "list nowhere",
            libc::syscall(libc::SYS_io_submit, context, 1, null_mut::<u8>()),
        );
        let mut event = Event::default();
        let cancel = libc::SYS_io_cancel;
        tell("cancel", libc::syscall(cancel, context, &fine, &mut event));
        tell(
            "cancel nowhere",
            libc::syscall(cancel, context, null_mut::<u8>(), &mut event),
        );
    }
}

/// Each flag of preadv2(2) and pwritev2(2), on a file opened with O_APPEND.
unsafe fn appended(context: usize) {
    unsafe {
        let flags = libc::O_CREAT | libc::O_RDWR | libc::O_APPEND;
        let file = libc::open(path(c"appended"), flags, 0o600);
        let mut bytes = *b"01234567";
        libc::write(file, bytes.as_ptr().cast(), bytes.len());
        for operation in [PREAD, PWRITE] {
            for bit in 0..8 {
                let flagged = Request {
                    rw_flags: 1 << bit,
                    ..request(9, operation, file, &mut bytes, 2)
                };
                tell(
                    &format!("operation {operation}, flag {bit}"),
                    submit(context, &[&flagged]),
                );
                events("done", context, 0, 8, 0);
                println!("  {}", libc::lseek(file, 0, libc::SEEK_END));
            }
        }
        libc::close(file);
    }
}

unsafe fn notified(context: usize, file: c_int) {
    unsafe {
        let eventfd = libc::eventfd(0, 0);
        let mut bytes = [0u8; 4];
        let told = Request {
            flags: 1,
            eventfd,
            ..request(9, PREAD, file, &mut bytes, 0)
        };
        tell("told", submit(context, &[&told, &told]));
        let mut count = 0u64;
        let length = mem::size_of_val(&count);
        libc::read(eventfd, (&raw mut count).cast(), length);
        println!("count {count}");
        let mut got = [Event::default(); 4];
        let mask: u64 = 1 << 9;
        let masked = [&raw const mask as usize, 8];
        let call = IO_PGETEVENTS;
        let none = null_mut::<u8>();
        tell(
            "masked",
            libc::syscall(call, context, 1, 1, &mut got, none, &masked),
        );
        let wrong = [&raw const mask as usize, 4];
        tell(
            "wrong mask",
            libc::syscall(call, context, 1, 1, &mut got, none, &wrong),
        );
        tell(
            "no mask",
            libc::syscall(call, context, 1, 4, &mut got, none, none),
        );
        // A signal ends the wait.
        let mut action: libc::sigaction = mem::zeroed();
        extern "C" fn nothing(_: c_int) {}
        action.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGALRM, &action, null_mut());
        let every = libc::timeval {
            tv_sec: 0,
            tv_usec: 50_000,
        };
        let mut timer = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        libc::setitimer(libc::ITIMER_REAL, &timer, null_mut());
        tell(
            "signal",
            libc::syscall(libc::SYS_io_getevents, context, 1, 1, &mut got, none),
        );
        timer.it_value.tv_usec = 0;
        libc::setitimer(libc::ITIMER_REAL, &timer, null_mut());
    }
}
