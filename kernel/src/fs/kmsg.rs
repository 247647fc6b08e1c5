//! /dev/kmsg: the kernel's log, one record at a time.

use super::file::{File, FileOps, OpenFlags, Whence};
use super::io::{Sink, Source};
use super::poll::{Events, PollTable, WaitSource};
use super::seq_file::Text;
use crate::arch::{cpu, smp};
use crate::errno::{Errno, Result};
use crate::log::{self, Found, Place};
use crate::mm::heap::try_arc;
use crate::put;
use crate::sync::{Mutex, Once};
use crate::syscall::syslog;
use alloc::sync::Arc;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Relaxed, Release},
};

/// Notifies readers that wait for records, once there was one.
static MORE: Once<Arc<WaitSource>> = Once::new();

/// The source that is notified of new records.
pub fn more() -> Result<&'static Arc<WaitSource>> {
    MORE.try_call_once(WaitSource::new)
}

/// Whether the log has records for which readers have not been woken yet.
static UNWOKEN: AtomicBool = AtomicBool::new(false);

/// The log has a new record. Its writer may hold any spin lock, so readers are woken in an
/// interrupt, which is taken when no lock is held (Linux's irq_work).
pub fn logged() {
    if MORE.get().is_some() {
        UNWOKEN.store(true, Release);
        smp::kick(cpu::this().index());
    }
}

/// Wakes readers that wait for a record. Called in an interrupt.
pub fn interrupt() {
    if UNWOKEN.load(Relaxed)
        && UNWOKEN.swap(false, AcqRel)
        && let Some(more) = MORE.get()
    {
        more.notify();
    }
}

/// An open /dev/kmsg, with the position of the next record.
struct Kmsg(Mutex<Place>);

/// The maximum size of a written record.
const LONGEST: usize = 1024;
/// The facility of messages that programs write without a facility: LOG_USER.
const USER: u32 = 1 << 3;

/// Opens the log.
pub fn open(flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
    if flags.readable() {
        syslog::check(syslog::READ_ALL)?;
    }
    let (first, _) = log::bounds();
    Ok(try_arc(Kmsg(Mutex::new(first)))?)
}

impl Kmsg {
    /// Takes the next record and its text, with its position.
    fn take(&self, text: &mut [u8; log::LONGEST]) -> (Place, Found) {
        let mut place = self.0.lock();
        let (here, found) = (*place, log::look(*place, text));
        match found {
            Found::Record { next, .. } => *place = next,
            Found::Gone => *place = log::bounds().0,
            Found::Nothing => {}
        }
        (here, found)
    }
}

impl FileOps for Kmsg {
    fn is_stream(&self) -> bool {
        true
    }

    fn has_places(&self) -> bool {
        true
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        let more = more()?;
        let mut bytes = [0; log::LONGEST];
        loop {
            let (place, found) = self.take(&mut bytes);
            match found {
                Found::Gone => return Err(Errno::EPIPE),
                Found::Record { head, len, .. } => {
                    let (number, time) = (place.number, head.time / 1000);
                    let mut text = Text::default();
                    put!(text, "{},{number},{time},-;", head.priority);
                    put_escaped(&mut text, &bytes[..len]);
                    text.push(b"\n");
                    let text = text.read_all()?;
                    if text.len() > to.left() {
                        return Err(Errno::EINVAL);
                    }
                    return to.put(&text);
                }
                Found::Nothing if file.flags().nonblocking() => return Err(Errno::EAGAIN),
                Found::Nothing => more.wait(|| log::bounds().1 > place)?,
            }
        }
    }

    fn write(&self, _file: &File, from: &mut Source, _position: u64) -> Result<usize> {
        let mut bytes = [0; LONGEST];
        let all = from.left();
        if all > LONGEST {
            return Err(Errno::EINVAL);
        }
        if from.take(&mut bytes)? < all {
            return Err(Errno::EFAULT);
        }
        let line = &bytes[..all];
        let (priority, text) = match prefix(line) {
            Some((priority, text)) if priority >> 3 != 0 => (priority, text),
            Some((level, text)) => (USER | level, text),
            None => (USER | log::LEVELS[1].load(Relaxed) as u32 & 7, line),
        };
        log::user_line(priority, text.strip_suffix(b"\n").unwrap_or(text));
        Ok(all)
    }

    /// Only to the first record, to the first since the log was cleared, and to the end.
    fn seek(&self, _file: &File, _position: u64, offset: i64, whence: Whence) -> Result<u64> {
        if offset != 0 {
            return Err(Errno::ESPIPE);
        }
        let (first, end) = log::bounds();
        *self.0.lock() = match whence {
            Whence::Set => first,
            Whence::Data => syslog::cleared().max(first),
            Whence::End => end,
            _ => return Err(Errno::EINVAL),
        };
        Ok(0)
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        match (table, more()) {
            (Some(table), Ok(more)) => table.add(more),
            (Some(table), Err(_)) => table.fail(),
            _ => {}
        }
        let place = *self.0.lock();
        let (first, end) = log::bounds();
        if place < first {
            (Events::IN | Events::ERROR | Events::PRIORITY).with_normal()
        } else if place < end {
            Events::IN.with_normal()
        } else {
            Events::empty()
        }
    }
}

/// The number in angle brackets at the beginning of a line, and the rest.
fn prefix(line: &[u8]) -> Option<(u32, &[u8])> {
    let rest = line.strip_prefix(b"<")?;
    let end = rest.iter().position(|&byte| byte == b'>')?;
    let number = core::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((number, &rest[end + 1..]))
}

/// Adds text with non-printable bytes escaped.
fn put_escaped(text: &mut Text, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b' '..=b'~' if byte != b'\\' => text.push(&[byte]),
            _ => put!(text, "\\x{byte:02x}"),
        }
    }
}
