//! Times system calls among 1 to 10,000 objects of a kind, and transfers of 1 byte to 64 MiB, on
//! any Linux-compatible kernel.
//!
//!     sizes [--quick] [ROW…]
//!     sizes --raise
//!     sizes --list
//!
//! `--raise` raises the kernel's limits and enables the loopback device, once, on a machine that
//! exists only for this program.
//!
//! It prints one line per row and size: `ROW SIZE least median objects|bytes COPIES about`, where
//! the figures are for one operation, in nanoseconds of the counter that programs can read, which
//! are instructions under QEMU's `-icount shift=0`. COPIES is the minimum number of times that each
//! byte is copied. A row that cannot be measured prints `-` and the reason instead of figures.
//!
//! Each size of a row has its own process and folder, so that it is not affected by others.

mod counter;
mod meter;
mod rows;
mod sys;

use std::path::Path;
use std::{env, fs, io, process};

use meter::{Done, Meter};
use rows::Row;
use sys::call;

/// The folder for the rows' files.
const FOLDER: &str = "/tmp/sizes";

/// The time in seconds, or in 10⁹ instructions, after which a size counts as hung.
const SECONDS: u32 = 100;

fn main() {
    let mut words: Vec<String> = env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        // The row `exec` executes this.
        Some("--nothing") => return,
        Some("--raise") => {
            raise_system_limits();
            if let Err(error) = sys::bring_loopback_up() {
                eprintln!("lo: {error}");
            }
            return;
        }
        Some("--list") => {
            for row in rows::all() {
                println!("{}: {}", row.name, row.about);
            }
            return;
        }
        _ => {}
    }
    let quick = words.first().is_some_and(|word| word == "--quick");
    words.drain(..usize::from(quick));
    let unknown = words
        .iter()
        .find(|word| rows::all().all(|row| row.name != **word));
    if let Some(word) = unknown {
        eprintln!("{word}: no row; `sizes --list` shows them all");
        process::exit(2);
    }
    raise_limits();
    for row in rows::all() {
        if words.is_empty() || words.iter().any(|word| word == row.name) {
            for size in row.sizes.each(quick) {
                measure_apart(row, size, quick);
            }
        }
    }
}

/// Raises the kernel's limits on the number of objects.
fn raise_system_limits() {
    for (name, value) in [
        ("fs/inotify/max_user_watches", "20000"),
        ("fs/inotify/max_queued_events", "20000"),
        ("fs/mqueue/queues_max", "20000"),
        ("fs/mqueue/msg_max", "20000"),
        ("kernel/msgmni", "32000"),
        ("kernel/msgmnb", "10000000"),
        ("kernel/sem", "32000 1000000000 500 32000"),
        ("kernel/keys/root_maxkeys", "1000000"),
        ("vm/max_map_count", "1000000"),
        ("vm/overcommit_memory", "1"),
    ] {
        sys::set_sysctl(name, value);
    }
}

/// Raises this process's limits.
fn raise_limits() {
    let limits = [
        (libc::RLIMIT_NOFILE, 50_000),
        (libc::RLIMIT_NPROC, u64::MAX),
        (libc::RLIMIT_SIGPENDING, u64::MAX),
        (libc::RLIMIT_MSGQUEUE, u64::MAX),
        (libc::RLIMIT_STACK, 64 << 20),
    ];
    for (limit, value) in limits {
        let pair = [value; 2];
        let _ = call!(SYS_prlimit64, 0, limit, pair.as_ptr(), 0);
    }
    // A row's orphans are reparented to this process.
    let _ = call!(SYS_prctl, libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/// Measures a row at one size in a process of its own.
fn measure_apart(row: &Row, size: usize, quick: bool) {
    let pid = sys::fork(|| {
        let _ = call!(SYS_setpgid, 0, 0);
        // SAFETY: sets a timer.
        unsafe { libc::alarm(SECONDS) };
        let line = measure(row, size, quick);
        println!("{line} {} {}", row.sizes, row.about);
    });
    let status = pid.and_then(|pid| {
        let mut status = 0i32;
        call!(SYS_wait4, pid, &raw mut status, 0, 0)?;
        let _ = call!(SYS_kill, -(pid as isize), libc::SIGKILL);
        Ok(status)
    });
    let reason = match status {
        Ok(0) => None,
        Ok(status) if libc::WIFSIGNALED(status) => {
            Some(format!("signal-{}", libc::WTERMSIG(status)))
        }
        Ok(status) => Some(format!("status-{}", libc::WEXITSTATUS(status))),
        Err(error) => Some(reason(&error)),
    };
    if let Some(reason) = reason {
        println!("{} {size} - {reason} {} {}", row.name, row.sizes, row.about);
    }
    while sys::wait(-1).is_ok() {}
    let _ = fs::remove_dir_all(FOLDER);
    // Lets the process that passes on the line run before the next row.
    sys::settle();
}

fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("errno-{number}"),
        None => format!("{:?}", error.kind()),
    }
}

/// The figures of a row at one size, or the reason why there are none.
fn measure(row: &Row, size: usize, quick: bool) -> String {
    let mut meter = Meter::new(size, if quick { 3 } else { 5 });
    let done = in_folder(Path::new(FOLDER)).and_then(|()| (row.run)(&mut meter));
    let figures = match done {
        Ok(()) => meter
            .least_and_median()
            .map(|(least, median)| format!("{least:.1} {median:.1}"))
            .unwrap_or("- nothing".into()),
        Err(error) => format!("- {}", reason(&error)),
    };
    format!("{} {size} {figures}", row.name)
}

/// Makes a folder and changes to it.
fn in_folder(path: &Path) -> Done {
    fs::create_dir_all(path)?;
    env::set_current_dir(path)
}
