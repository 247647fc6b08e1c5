//! Descriptors, and waits for many of them.

use std::os::fd::AsRawFd;
use std::ptr;

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{call, eventfd, many};

pub const ROWS: &[Row] = &[
    among("dup_close", 10_000, dup_close, "dup and close with N open"),
    among(
        "close_range",
        10_000,
        close_range,
        "close_range of N, by descriptor",
    ),
    among(
        "poll",
        10_000,
        poll,
        "ppoll of N that are not ready, by descriptor",
    ),
    among(
        "select",
        10_000,
        select,
        "pselect6 of N that are not ready, by descriptor",
    ),
    among(
        "open_close",
        10_000,
        open_close,
        "openat and close of a file that is open N times",
    ),
];

fn dup_close(meter: &mut Meter) -> Done {
    let open = many(meter.size(), |_| eventfd(0))?;
    let one = open[0].as_raw_fd();
    meter.repeat(EACH, |_| {
        let fd = call!(SYS_dup, one)?;
        call!(SYS_close, fd).map(drop)
    })
}

fn close_range(meter: &mut Meter) -> Done {
    let size = meter.size();
    let one = eventfd(0)?;
    let first = one.as_raw_fd() + 1;
    meter.batches(
        size,
        || (0..size).try_for_each(|_| call!(SYS_dup, one.as_raw_fd()).map(drop)),
        || call!(SYS_close_range, first, first + size as i32 - 1, 0).map(drop),
    )
}

fn poll(meter: &mut Meter) -> Done {
    let size = meter.size();
    let open = many(size, |_| eventfd(0))?;
    let entry = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries: Vec<_> = open.iter().map(|fd| entry(fd.as_raw_fd())).collect();
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut poll = || {
        call!(
            SYS_ppoll,
            entries.as_mut_ptr(),
            size,
            &raw const at_once,
            0,
            0
        )
    };
    meter.batches(
        size * EACH,
        || Ok(()),
        || (0..EACH).try_for_each(|_| poll().map(drop)),
    )
}

fn select(meter: &mut Meter) -> Done {
    let size = meter.size();
    let open = many(size, |_| eventfd(0))?;
    let end = open[size - 1].as_raw_fd() as usize + 1;
    let mut set = vec![0u64; end.div_ceil(64)];
    let mut select = || {
        for fd in &open {
            let fd = fd.as_raw_fd() as usize;
            set[fd / 64] |= 1 << (fd % 64);
        }
        let at_once = [0i64; 2];
        let none = ptr::null::<u8>();
        call!(
            SYS_pselect6,
            end,
            set.as_mut_ptr(),
            none,
            none,
            at_once.as_ptr(),
            none
        )
    };
    meter.batches(
        size * EACH,
        || Ok(()),
        || (0..EACH).try_for_each(|_| select().map(drop)),
    )
}

fn open_close(meter: &mut Meter) -> Done {
    let path = c"file";
    let flags = libc::O_RDWR | libc::O_CREAT;
    let open = || call!(SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600);
    many(meter.size(), |_| open())?;
    meter.repeat(EACH, |_| call!(SYS_close, open()?).map(drop))
}
