//! The ends of a channel: whether the reader and the writer are closed, and the error that the
//! reader gets.

use super::{Bytes, Channel, Kind};
use crate::errno::{Errno, Result};
use crate::sync::SleepMutexGuard;
use core::sync::atomic::Ordering::*;

/// The writer will write no more.
const FINISHED: u32 = 1;
/// The reader will read no more.
const UNHEARD: u32 = 2;
/// The reader is closed.
const DEAD: u32 = 4;
/// The connection was reset by the writer.
const RESET: u32 = 8;
/// The writer is gone, and the reader was not notified.
const ABANDONED: u32 = 16;

impl Channel {
    /// Ends writing. Bytes that were held back are sent.
    pub fn finish(&self) {
        self.finish_with((self.kind == Kind::Tcp).then(|| self.bytes.lock()));
    }

    /// Like [`finish`](Self::finish), for a system call that does not close the writer.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub fn shut_writer(&self) -> Result<()> {
        let bytes = (self.kind == Kind::Tcp).then(|| self.lock()).transpose()?;
        self.finish_with(bytes);
        Ok(())
    }

    fn finish_with(&self, bytes: Option<SleepMutexGuard<'_, Bytes>>) {
        if let Some(mut bytes) = bytes {
            self.state.fetch_or(FINISHED, AcqRel);
            bytes.unsent = 0;
            self.publish(&mut bytes);
        }
        self.end(FINISHED);
    }

    /// Ends reading.
    pub fn shut_reader(&self) {
        self.end(UNHEARD);
    }

    /// Closes the reader: the waiting data will not be received, and no more arrives, since writers
    /// check the state under the lock.
    pub fn die(&self) {
        self.end(UNHEARD | DEAD);
        self.drop_all(self.bytes.lock());
    }

    /// Like [`die`](Self::die), for a system call that does not close the reader.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub fn kill_reader(&self) -> Result<()> {
        self.end(UNHEARD | DEAD);
        self.purge()
    }

    /// Ends writing: no more data arrives, and the reader gets `error` once it has read the waiting
    /// data. Does not wake threads.
    pub fn end_by(&self, error: Errno) {
        self.error.store(error.0.into(), Release);
        self.state.fetch_or(RESET | UNHEARD | DEAD, AcqRel);
    }

    /// Wakes the reader and the writers, whatever changed.
    pub fn notify(&self) {
        self.readable.notify();
        self.writable.notify();
    }

    /// Drops waiting data. Writers that wait for room are not woken.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub fn purge(&self) -> Result<()> {
        self.drop_all(self.lock()?);
        Ok(())
    }

    fn drop_all(&self, mut bytes: SleepMutexGuard<'_, Bytes>) {
        let (marks, left) = (core::mem::take(&mut bytes.marks), bytes.ring.len());
        bytes.ring.consume(left);
        bytes.read += left as u64;
        bytes.urgent = None;
        bytes.unsent = 0;
        self.publish(&mut bytes);
        drop(bytes);
        drop(marks);
    }

    /// Makes the reader's next call fail.
    pub fn fail(&self, error: Errno) {
        self.error.store(error.0.into(), Release);
        self.state.fetch_or(RESET, AcqRel);
        self.notify();
    }

    /// The error for the reader, which is returned once.
    pub fn take_error(&self) -> Option<Errno> {
        if !self.has_error() {
            return None;
        }
        let error = self.error.swap(0, AcqRel);
        (error != 0).then_some(Errno(error as u16))
    }

    /// Like [`take_error`](Self::take_error), for a read, which sees the end in place of EPIPE.
    pub fn take_read_error(&self) -> Option<Errno> {
        let of_sending = self.error.load(Acquire) == Errno::EPIPE.0.into();
        if of_sending { None } else { self.take_error() }
    }

    /// Whether there is an error to report.
    pub fn has_error(&self) -> bool {
        self.error.load(Acquire) != 0
    }

    fn end(&self, how: u32) {
        self.state.fetch_or(how, AcqRel);
        self.notify();
    }

    /// Whether the writer has finished.
    pub fn is_finished(&self) -> bool {
        self.state.load(Acquire) & FINISHED != 0
    }

    /// Whether an error was reported to its reader: the connection no longer exists.
    pub fn is_reset(&self) -> bool {
        self.state.load(Acquire) & RESET != 0
    }

    /// Whether the reader is closed.
    pub fn is_dead(&self) -> bool {
        self.state.load(Acquire) & DEAD != 0
    }

    /// Whether either end is gone.
    pub fn is_ended(&self) -> bool {
        self.state.load(Acquire) & (FINISHED | UNHEARD) != 0
    }

    /// Whether writing is no longer possible.
    pub(super) fn takes_nothing(&self) -> bool {
        self.state.load(Acquire) & (FINISHED | UNHEARD | ABANDONED) != 0
    }

    /// Ends the writer silently, and drops unsent bytes. Does not wake threads.
    pub fn abandon(&self, mut bytes: SleepMutexGuard<'_, Bytes>) {
        self.state.fetch_or(ABANDONED, AcqRel);
        bytes.drop_unsent();
        self.publish(&mut bytes);
    }

    /// Whether the writer ended silently.
    pub fn is_abandoned(&self) -> bool {
        self.state.load(Acquire) & ABANDONED != 0
    }
}
