//! The names of core files (`core_pattern` and `core_uses_pid` in `/proc/sys/kernel`).

use core::fmt;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use alloc::vec::Vec;
use linux_raw_sys::general::RLIMIT_CORE;

use super::clock::{self, SECOND};
use super::{current, rlimit, uts};
use crate::arch::cpu;
use crate::errno::{Errno, Result};
use crate::fs::Path;
use crate::mm::heap::{try_format, try_vec};
use crate::sync::Mutex;

/// The maximum size of a pattern (CORENAME_MAX_SIZE), with its final zero.
const MAX: usize = 128;

/// Whether the process's number is appended to a name that does not contain it.
pub static USES_PID: AtomicI32 = AtomicI32::new(0);

static PATTERN: Mutex<[u8; MAX]> = Mutex::new({
    let mut text = [0; MAX];
    text.split_at_mut(4).0.copy_from_slice(b"core");
    text
});

/// Calls `f` with the pattern.
pub fn with_pattern<T>(f: impl FnOnce(&[u8]) -> T) -> T {
    let pattern = *PATTERN.lock();
    f(uts::without_zeroes(&pattern))
}

/// Writes a line into the pattern from `at` on.
///
/// # Errors
/// EINVAL: the pattern names a program that would get the file by a pipe.
pub fn write_pattern(bytes: &[u8], at: u64) -> Result<()> {
    let mut pattern = PATTERN.lock();
    let mut new = *pattern;
    uts::write_line(&mut new, bytes, at);
    if new[0] == b'|' {
        return Err(Errno::EINVAL);
    }
    *pattern = new;
    Ok(())
}

/// The name of the core file of the current process, which `signal` ends.
pub fn make(signal: u32) -> Result<Vec<u8>> {
    let pattern = *PATTERN.lock();
    let (thread, mut name) = (current(), Name(Vec::new()));
    let (process, mut has_pid) = (thread.process(), false);
    let mut rest = uts::without_zeroes(&pattern).iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            name.push(&[*byte])?;
            continue;
        }
        let ids = || thread.with_credentials(|who| [who.uid, who.gid]);
        match rest.next() {
            Some(b'%') => name.push(b"%")?,
            Some(which @ (b'p' | b'P')) => {
                has_pid |= *which == b'p';
                name.put(process.pid())?;
            }
            Some(b'i' | b'I') => name.put(thread.tid())?,
            Some(b'u') => name.put(ids()[0])?,
            Some(b'g') => name.put(ids()[1])?,
            Some(b'd') => name.put(super::with_space(|space| space.dumpable()))?,
            Some(b's') => name.put(signal)?,
            Some(b't') => name.put(clock::realtime_ns() / SECOND)?,
            Some(b'h') => name.part(uts::without_zeroes(&uts::names()[0]))?,
            Some(b'e') => name.part(uts::without_zeroes(&thread.name()))?,
            Some(which @ (b'f' | b'E')) => {
                let path = program()?;
                let last = path.rsplit(|byte| *byte == b'/').next();
                let whole = *which == b'E';
                name.part(last.filter(|_| !whole).unwrap_or(&path))?;
            }
            Some(b'c') => name.put(rlimit(RLIMIT_CORE))?,
            Some(b'C') => name.put(cpu::this().index())?,
            _ => {}
        }
    }
    if !has_pid && USES_PID.load(Relaxed) != 0 {
        name.push(b".")?;
        name.put(process.pid())?;
    }
    Ok(name.0)
}

/// The path of the program.
fn program() -> Result<Vec<u8>> {
    let file = current().process().program();
    let root: Path = current().fs().root();
    match file {
        Some(file) => Ok(file.path().text(&root)?.0),
        None => try_vec(b"(unknown)"),
    }
}

struct Name(Vec<u8>);

impl Name {
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let room = self.0.try_reserve(bytes.len());
        room.map_err(|_| Errno::ENOMEM)?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn put(&mut self, value: impl fmt::Display) -> Result<()> {
        self.push(try_format(format_args!("{value}"))?.as_bytes())
    }

    /// Appends a text as a single component of the path, whatever it contains.
    fn part(&mut self, text: &[u8]) -> Result<()> {
        let start = self.0.len();
        self.push(text)?;
        let added = &mut self.0[start..];
        let slashes = added.iter_mut().filter(|byte| **byte == b'/');
        slashes.for_each(|byte| *byte = b'!');
        match added {
            [] => self.push(b"!")?,
            [first @ b'.'] | [first @ b'.', b'.'] => *first = b'!',
            _ => {}
        }
        Ok(())
    }
}
