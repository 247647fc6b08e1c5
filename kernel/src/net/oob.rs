//! Out-of-band bytes (MSG_OOB): one byte of a connection is urgent, its position is the mark, and a
//! read ends there.

use super::channel::{Bytes, Channel, Kind};
use super::socket::Received;
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::fs::sigio;
use linux_raw_sys::net::{MSG_OOB, MSG_PEEK, MSG_TRUNC};

/// The urgent byte.
#[derive(Clone, Copy)]
pub struct Urgent {
    /// Its position, counted from the first byte ever written.
    pub at: u64,
    /// Whether the byte was received with MSG_OOB.
    pub taken: bool,
}

impl Bytes {
    /// Makes the byte that was written last urgent; the previous urgent byte becomes an ordinary
    /// one again, or is removed if it was taken.
    pub fn make_last_urgent(&mut self, kind: Kind, inline: bool) {
        if self.is_at_mark() && kind == Kind::Tcp && !inline {
            self.skip(1);
        }
        if let Some(urgent) = self.urgent
            && urgent.taken
            && kind != Kind::Tcp
        {
            self.remove(urgent.at);
        }
        let last = self.written() - 1;
        let taken = false;
        self.urgent = Some(Urgent { at: last, taken });
    }

    /// Whether the next byte is urgent.
    pub fn is_at_mark(&self) -> bool {
        self.urgent.is_some_and(|urgent| urgent.at == self.read)
    }

    /// The number of bytes from `skip` on that can be read before the mark, which is always sent.
    pub fn until_mark(&self, skip: usize) -> usize {
        let from = self.read + skip as u64;
        match self.urgent {
            Some(urgent) if urgent.at > from => (urgent.at - from) as usize,
            _ => self.sent().saturating_sub(skip),
        }
    }

    /// Removes bytes; the mark is removed with its byte.
    pub fn skip(&mut self, count: usize) {
        self.ring.consume(count);
        self.read += count as u64;
        self.urgent = self.urgent.filter(|urgent| urgent.at >= self.read);
    }

    /// The number of readable bytes for FIONREAD: over TCP those before the mark, else all but an
    /// urgent byte that was taken.
    pub fn waiting(&self, kind: Kind, inline: bool) -> usize {
        match self.urgent {
            Some(urgent) if kind == Kind::Tcp && !inline => (urgent.at - self.read) as usize,
            Some(urgent) if urgent.taken => self.sent() - 1,
            _ => self.sent(),
        }
    }
}

impl Channel {
    /// Receives the urgent byte. EINVAL if there is none, or it is read in line.
    pub fn receive_urgent(&self, to: &mut Sink, flags: u32) -> Result<Received> {
        let mut bytes = self.lock()?;
        let urgent = bytes
            .urgent
            .filter(|urgent| !urgent.taken && !self.is_inline());
        let urgent = urgent.ok_or(Errno::EINVAL)?;
        let room = to.left();
        let mut byte = [0];
        let skip = (urgent.at - bytes.read) as usize;
        bytes.ring.peek(&mut Sink::kernel(&mut byte), skip)?;
        if flags & MSG_PEEK == 0 {
            bytes.urgent = Some(Urgent {
                taken: true,
                ..urgent
            });
            self.publish(&mut bytes);
        }
        drop(bytes);
        let count = to.put(&byte)?;
        Ok(Received {
            flags: if room == 0 {
                MSG_OOB | MSG_TRUNC
            } else {
                MSG_OOB
            },
            count,
            ..Received::default()
        })
    }

    /// Notifies the reader's owner of an urgent byte (SIGURG).
    pub fn notify_urgent(&self) {
        if let Some(file) = self.reader().file() {
            sigio::notify_urgent(&file);
        }
    }
}
