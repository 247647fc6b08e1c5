//! Long texts of /proc, many of them kept open: each holds at most a page of text.

use std::fs::{self, File};
use std::io::Read;

use super::become_user;
use crate::{in_child, tell_end};

/// The number of locks on a file, on every other byte, and how often their list is opened.
const LOCKS: i64 = 10_000;
const OPEN: usize = 100;
/// The tolerated loss of memory in KiB; the full texts would take 40 MiB.
const LITTLE: i64 = 10 << 10;

fn available() -> i64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Runs this part.
pub fn run() {
    // SAFETY: the name is NUL-terminated.
    let file = unsafe { libc::open(c"/tmp/locked".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o666) };
    let status = in_child(|| {
        become_user();
        for at in 0..LOCKS {
            let lock = libc::flock {
                l_type: libc::F_WRLCK as _,
                l_whence: libc::SEEK_SET as _,
                l_start: 2 * at,
                l_len: 1,
                l_pid: 0,
            };
            // SAFETY: the lock is live.
            if unsafe { libc::fcntl(file, libc::F_SETLK, &lock) } != 0 {
                return println!("no lock");
            }
        }
        let before = available();
        let mut byte = [0];
        let mut open: Vec<File> = (0..OPEN)
            .filter_map(|_| {
                let mut locks = File::open("/proc/locks").ok()?;
                locks.read_exact(&mut byte).ok()?;
                Some(locks)
            })
            .collect();
        println!("open: {}", open.len());
        println!(
            "memory: {}",
            if available() + LITTLE < before {
                "much"
            } else {
                "little"
            }
        );
        let mut rest = String::new();
        let whole = open
            .pop()
            .is_some_and(|mut locks| locks.read_to_string(&mut rest).is_ok());
        let numbers = rest.lines().skip(1).enumerate();
        let wrong = numbers.filter(|(at, line)| !line.starts_with(&format!("{}: ", at + 2)));
        println!(
            "whole: {whole}, {} lines, {} wrong",
            rest.lines().count(),
            wrong.count()
        );
    });
    tell_end("the user", status);
}
