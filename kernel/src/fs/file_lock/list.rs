//! The lines of /proc/locks, generated as they are read, since only memory limits how many locks
//! programs have.

use super::super::device;
use super::super::file::FileOps;
use super::super::inode::Key;
use super::super::seq_file::Text;
use super::super::seq_records::{self, Records};
use super::context::{self, Context};
use super::{Lock, Owner};
use crate::errno::Result;
use crate::put;
use crate::sync::SleepMutex;
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// Opens the file: a line for each lock, and after those of an inode one for each lock that is
/// waited for there.
///
/// # Errors
/// ENOMEM.
pub fn open() -> Result<Arc<dyn FileOps>> {
    seq_records::open(List(SleepMutex::new(Cursor::default())))
}

struct List(SleepMutex<Cursor>);

/// The progress in the list.
#[derive(Default)]
struct Cursor {
    /// The number of lines generated, and the last of them.
    place: u64,
    line: Vec<u8>,
    /// The number of the last lock.
    number: usize,
    /// The next inodes of a shard in reverse order, and the one before them.
    shard: usize,
    keys: Vec<Key>,
    before: Option<Key>,
    /// The present inode, its next locks, and the one before them.
    key: Option<Key>,
    locks: vec::IntoIter<Lock>,
    last: Option<Lock>,
    /// The number of the next waiter.
    waits_from: u64,
}

impl Records for List {
    fn next(&self, place: u64, text: &mut Text) -> Result<Option<u64>> {
        let mut cursor = self.0.lock();
        // The last line, for which there was no room, is requested again; the first always has
        // room.
        let again = place != 0 && place + 1 == cursor.place;
        if place == 0 || !again && place != cursor.place {
            *cursor = Cursor::default();
        }
        while cursor.place <= place {
            if !cursor.advance()? {
                return Ok(None);
            }
        }
        text.push(&cursor.line);
        Ok(Some(cursor.place))
    }
}

impl Cursor {
    /// Generates the next line; false if there is none.
    fn advance(&mut self) -> Result<bool> {
        let mut text = Text::default();
        while !self.put_next(&mut text)? {
            if !self.next_inode()? {
                return Ok(false);
            }
            cond_resched_killable()?;
        }
        self.line = text.read_all()?;
        self.place += 1;
        Ok(true)
    }

    /// Writes the next line of the inode; false if it has no more.
    fn put_next(&mut self, text: &mut Text) -> Result<bool> {
        let Some(context) = self.key.and_then(Context::find) else {
            return Ok(false);
        };
        if self.locks.as_slice().is_empty() {
            self.locks = context.after(self.last.as_ref())?.into_iter();
        }
        if let Some(lock) = self.locks.next() {
            self.number += 1;
            put!(text, "{}: ", self.number);
            put_line(text, &context.shown, &lock);
            self.last = Some(lock);
            return Ok(true);
        }
        let wait = context.next_wait(self.waits_from);
        if let Some((number, wanted)) = &wait {
            put!(text, "{}: -> ", self.number);
            put_line(text, &context.shown, wanted);
            self.waits_from = number + 1;
        }
        Ok(wait.is_some())
    }

    /// Moves on to the next inode, or to the next shard; false if there is none.
    fn next_inode(&mut self) -> Result<bool> {
        if self.keys.is_empty() {
            let Some(keys) = context::keys_after(self.shard, self.before)? else {
                return Ok(false);
            };
            self.keys = keys;
        }
        self.key = self.keys.pop();
        self.before = self.key;
        if self.key.is_none() {
            self.shard += 1;
        }
        (self.last, self.waits_from) = (None, 0);
        Ok(true)
    }
}

fn put_line(text: &mut Text, (device, inode): &Key, lock: &Lock) {
    let (kind, process) = match lock.owner {
        Owner::Flock(_) => ("FLOCK ", lock.process),
        Owner::OpenFile(_) => ("OFDLCK", -1),
        Owner::Process(_) => ("POSIX ", lock.process),
    };
    let way = if lock.exclusive { "WRITE" } else { "READ " };
    let (major, minor) = device::split(*device);
    put!(
        text,
        "{kind} ADVISORY  {way} {process} {major:02x}:{minor:02x}:{inode} {} ",
        lock.first
    );
    // The last byte that a file can have, or beyond.
    if lock.last >= i64::MAX as u64 {
        text.push(b"EOF\n");
    } else {
        put!(text, "{}\n", lock.last);
    }
}
