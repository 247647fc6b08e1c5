//! /dev/trace: the lines that system-call tracing writes, as one stream.

use super::file::{File, FileOps};
use super::io::Sink;
use super::poll::{Events, PollTable, WaitSource};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};

/// The number of bytes that may wait for the reader. A traced thread waits for room.
const CAPACITY: usize = 64 * 1024;

/// An open /dev/trace.
pub struct Stream {
    lines: Mutex<VecDeque<u8>>,
    readable: Arc<WaitSource>,
    writable: Arc<WaitSource>,
}

/// The stream, while it is open.
static STREAM: Mutex<Weak<Stream>> = Mutex::new(Weak::new());

/// Opens the stream, which all openers share.
pub fn open() -> Result<Arc<dyn FileOps>> {
    if let Some(stream) = STREAM.lock().upgrade() {
        return Ok(stream);
    }
    let mut lines = VecDeque::new();
    lines
        .try_reserve_exact(CAPACITY)
        .map_err(|_| Errno::ENOMEM)?;
    let (readable, writable) = (WaitSource::new()?, WaitSource::new()?);
    let stream = try_arc(Stream {
        lines: Mutex::new(lines),
        readable,
        writable,
    })?;
    *STREAM.lock() = Arc::downgrade(&stream);
    Ok(stream)
}

/// Adds a line, or drops it if the stream is not open. May sleep.
pub fn write(line: &[u8]) {
    let Some(stream) = STREAM.lock().upgrade() else {
        return;
    };
    let line = &line[..line.len().min(CAPACITY)];
    loop {
        {
            let mut lines = stream.lines.lock();
            if lines.len() + line.len() <= CAPACITY {
                lines.extend(line);
                break;
            }
        }
        // There may be no reader any more: a signal ends the wait, and the line is lost.
        if stream
            .writable
            .wait(|| stream.lines.lock().len() + line.len() <= CAPACITY)
            .is_err()
        {
            return;
        }
    }
    stream.readable.notify();
}

impl FileOps for Stream {
    fn is_stream(&self) -> bool {
        true
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        loop {
            let mut chunk = [0; 1024];
            let count = {
                let mut lines = self.lines.lock();
                let count = lines.len().min(chunk.len()).min(to.left());
                for (place, byte) in chunk.iter_mut().zip(lines.drain(..count)) {
                    *place = byte;
                }
                count
            };
            if count > 0 || to.left() == 0 {
                self.writable.notify();
                return to.put(&chunk[..count]);
            }
            if file.flags().nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.readable.wait(|| !self.lines.lock().is_empty())?;
        }
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.readable);
        }
        let mut events = Events::empty();
        events.set(Events::IN, !self.lines.lock().is_empty());
        events
    }
}
