//! The contents of a channel: a ring of bytes with marks, and how it is read.

use super::charged::Charged;
use super::{Found, Reading};
use crate::errno::{Errno, Result};
use crate::fs::inode::Time;
use crate::fs::io::Sink;
use crate::fs::ring::Ring;
use crate::net::address::Name;
use crate::net::control_message::Ancillary;
use crate::net::oob::Urgent;
use crate::net::sending::Stall;
use alloc::collections::VecDeque;

/// A range of bytes, counted from the first byte ever written, that is a record or has ancillary
/// data.
pub(super) struct Mark {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) ancillary: Ancillary,
    pub(super) from: Name,
}

/// The contents of a channel.
pub struct Bytes {
    /// The bytes.
    pub ring: Ring,
    /// The number of bytes ever read.
    pub read: u64,
    /// The urgent byte.
    pub urgent: Option<Urgent>,
    /// The number of bytes at the end that wait for more, and are not sent.
    pub unsent: usize,
    /// Since when the writer lacks room, in ticks, and the number of bytes that had been read by
    /// then.
    pub stall: Option<Stall>,
    /// The arrival time of the last bytes, if it is requested.
    pub(super) arrived: Option<Time>,
    pub(super) marks: VecDeque<Mark>,
    /// The charges for the bytes.
    pub(super) charged: Charged,
}

impl Bytes {
    /// The number of bytes ever written.
    pub fn written(&self) -> u64 {
        self.read + self.ring.len() as u64
    }

    /// The record that a read which skips `skip` bytes finds.
    pub(super) fn record_after(&self, skip: usize) -> Option<&Mark> {
        let at = match skip {
            0 => 0,
            _ => {
                let from = self.read + skip as u64;
                self.marks.partition_point(|mark| mark.end <= from)
            }
        };
        self.marks.get(at)
    }

    /// Makes room for one more mark.
    pub(super) fn reserve(&mut self) -> Result<()> {
        self.marks.try_reserve(1).map_err(|_| Errno::ENOBUFS)
    }

    /// Removes the first mark if all its bytes were read.
    pub(super) fn pop_read(&mut self) -> Option<Mark> {
        let read = self.read;
        self.marks.pop_front_if(|mark| mark.end <= read)
    }

    /// Removes one byte; those before it move up.
    pub fn remove(&mut self, at: u64) {
        self.ring.remove((at - self.read) as usize);
        self.read += 1;
        for mark in self.marks.iter_mut().take_while(|mark| mark.start <= at) {
            mark.start += 1;
            mark.end += u64::from(mark.end <= at);
        }
    }

    pub(super) fn mark(&mut self, start: u64, ancillary: Ancillary, from: Name) {
        let end = self.written();
        self.marks.push_back(Mark {
            start,
            end,
            ancillary,
            from,
        });
    }
}

pub(super) fn read_record(
    bytes: &mut Bytes,
    to: &mut Sink,
    reading: Reading,
) -> Result<Option<Found>> {
    let from = bytes.read + reading.skip as u64;
    let Some(mark) = bytes.record_after(reading.skip) else {
        return Ok(None);
    };
    let before = from.saturating_sub(mark.start) as usize;
    let whole = (mark.end - mark.start) as usize - before;
    let room = to.left();
    let count = bytes.ring.peek_present(to, reading.skip, whole)?;
    if count < whole.min(room) {
        // The place in the kernel found no memory.
        return Err(Errno::ENOMEM);
    }
    if reading.peek {
        return Ok(Some(Found {
            count,
            whole,
            before,
            ancillary: mark.ancillary.copy()?,
            from: mark.from.clone(),
            ..Found::default()
        }));
    }
    bytes.ring.consume(whole);
    bytes.read += whole as u64;
    Ok(bytes.marks.pop_front().map(|mark| Found {
        count,
        whole,
        ancillary: mark.ancillary,
        from: mark.from,
        ..Found::default()
    }))
}

pub(super) fn read_stream(
    bytes: &mut Bytes,
    to: &mut Sink,
    reading: Reading,
    inline: bool,
) -> Result<Option<Found>> {
    // The urgent byte is not read in line, unless SO_OOBINLINE is set.
    let mut skip = usize::from(bytes.is_at_mark() && !inline);
    if !reading.peek {
        bytes.skip(core::mem::take(&mut skip));
    }
    skip += reading.skip;
    if bytes.sent() <= skip {
        return Ok(None);
    }
    to.truncate(bytes.until_mark(skip));
    let at = bytes.read + skip as u64;
    // The read ends at data that cannot be returned together with the data before.
    let mut end = u64::MAX;
    for mark in bytes.marks.iter().filter(|mark| mark.end > at) {
        if reading.credentials && mark.start > at && mark.ancillary.credentials.is_some() {
            end = mark.start;
            break;
        }
        if mark.ancillary.rights.is_some() || reading.credentials {
            end = mark.end;
            break;
        }
    }
    to.truncate(usize::try_from(end - at).unwrap_or(usize::MAX));
    let count = bytes.ring.peek_present(to, skip, usize::MAX)?;
    let reached = at + count as u64;
    // A read without room for a byte gets the control message of the first byte.
    let beyond = reached.max(at + 1);
    // As on Linux, bytes that arrived separately are one message by now, with the time of the last.
    let mut ancillary = Ancillary {
        arrived: bytes.arrived,
        ..Ancillary::default()
    };
    for mark in bytes
        .marks
        .iter_mut()
        .take_while(|mark| mark.start < beyond)
        .filter(|mark| mark.end > at)
    {
        ancillary.credentials = ancillary.credentials.or(mark.ancillary.credentials);
        if mark.ancillary.rights.is_some() {
            ancillary.rights = if reading.peek {
                mark.ancillary.copy()?.rights
            } else {
                mark.ancillary.rights.take()
            };
        }
    }
    if !reading.peek {
        bytes.skip(count);
    }
    let marked = bytes.urgent.is_some_and(|urgent| urgent.at == reached);
    Ok(Some(Found {
        count,
        marked,
        whole: count,
        ancillary,
        ..Found::default()
    }))
}
