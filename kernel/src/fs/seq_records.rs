//! Files that are read record by record, like those of Linux's seq_file. A read generates whole
//! records, at most a page of them, and the next read continues after the last one, whatever
//! changed meanwhile. If a read had no room for a part of a record, the next read gets it.

use super::file::{File, FileOps, Whence, seek_in};
use super::io::{Sink, Source};
use super::seq_file::Text;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_arc;
use crate::sync::SleepMutex;
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;

/// The source of a file's records.
pub trait Records: Send + Sync + 'static {
    /// Writes the record at `place`, or the next one; returns the position after it, or `None` if
    /// there are no more.
    ///
    /// # Errors
    /// Those of the file.
    fn next(&self, place: u64, text: &mut Text) -> Result<Option<u64>>;

    /// The error of a write, which is always refused: EIO unless it is a file of a process.
    fn write_error(&self) -> Errno {
        Errno::EIO
    }
}

/// Writes a record as [`Records::next`] does.
pub type Next = fn(u64, &mut Text) -> Result<Option<u64>>;

impl Records for Next {
    fn next(&self, place: u64, text: &mut Text) -> Result<Option<u64>> {
        self(place, text)
    }
}

/// Opens a file of records.
///
/// # Errors
/// ENOMEM.
pub fn open(records: impl Records) -> Result<Arc<dyn FileOps>> {
    Ok(try_arc(Opened {
        records,
        state: SleepMutex::new(State::default()),
    })?)
}

struct Opened<R> {
    records: R,
    state: SleepMutex<State>,
}

/// The progress of reading.
#[derive(Default)]
struct State {
    /// The position of the next byte.
    position: u64,
    /// Generated records, and how many of their bytes were read.
    made: Text,
    read: usize,
    /// The position of the next record.
    place: u64,
}

impl State {
    /// Copies the rest of the generated records.
    fn give(&mut self, to: &mut Sink) -> Result<usize> {
        let count = self.made.read(to, self.read as u64)?;
        self.read += count;
        self.position += count as u64;
        Ok(count)
    }

    /// Generates records for `wanted` bytes, as far as they fit in a page; the first always does.
    fn make(&mut self, records: &impl Records, wanted: usize) -> Result<()> {
        self.made = Text::default();
        self.read = 0;
        while self.made.len() < wanted {
            let before = self.made.len();
            let next = records.next(self.place, &mut self.made)?;
            self.made.check()?;
            let Some(next) = next else { break };
            if before > 0 && self.made.len() > PAGE_SIZE {
                self.made.truncate(before);
                break;
            }
            self.place = next;
        }
        Ok(())
    }

    /// Seeks to a position, from the start on, since the length of records is unknown.
    fn go_to(&mut self, records: &impl Records, position: u64) -> Result<()> {
        *self = State::default();
        while self.position < position {
            self.make(records, 1)?;
            let len = self.made.len() as u64;
            if len == 0 {
                break;
            }
            self.read = len.min(position - self.position) as usize;
            self.position += self.read as u64;
            cond_resched_killable()?;
        }
        self.position = position;
        Ok(())
    }
}

impl<R: Records> FileOps for Opened<R> {
    fn is_written_in_order(&self) -> bool {
        true
    }

    fn write(&self, _file: &File, _from: &mut Source, _position: u64) -> Result<usize> {
        Err(self.records.write_error())
    }

    /// The end is unknown.
    fn seek(&self, _file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        match whence {
            Whence::Set | Whence::Current => seek_in(0, position, offset, whence),
            _ => Err(Errno::EINVAL),
        }
    }

    fn read(&self, _file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        let mut state = self.state.lock_killable()?;
        if position == 0 || position != state.position {
            let gone = state.go_to(&self.records, position);
            gone.inspect_err(|_| *state = State::default())?;
        }
        let kept = state.give(to)?;
        if to.left() == 0 || state.read < state.made.len() {
            return Ok(kept);
        }
        let made = state.make(&self.records, to.left());
        match made.and_then(|()| state.give(to)) {
            Ok(count) => Ok(kept + count),
            Err(_) if kept > 0 => Ok(kept),
            Err(error) => Err(error),
        }
    }
}
