//! Netlink messages: a header, a fixed part, and attributes.

use crate::errno::{Errno, Result};
use alloc::vec::Vec;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Kinds of messages: the result of a request, and the end of a dump.
const ERROR: u16 = 2;
pub const DONE: u16 = 3;
/// The first kind of messages that are requests (NLMSG_MIN_TYPE).
pub const LEAST: u16 = 0x10;
/// Flags: the message is a request; the reply has several parts; an acknowledgement is requested;
/// all objects are requested; the acknowledgement omits the body of the request.
pub const REQUEST: u16 = 1;
pub const MULTI: u16 = 2;
pub const ACKNOWLEDGE: u16 = 4;
pub const DUMP: u16 = 0x300;
/// A request may replace an existing object (NLM_F_REPLACE).
pub const REPLACE: u16 = 0x100;
const CAPPED: u16 = 0x100;

/// `struct nlmsghdr`
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
pub struct Header {
    /// The length in bytes, including the header.
    pub len: u32,
    /// The kind of message.
    pub kind: u16,
    /// NLM_F_ flags.
    pub flags: u16,
    /// The sequence number of the request, repeated in the reply.
    pub sequence: u32,
    /// The requester.
    pub port: u32,
}

/// The size from which the rest of a dump goes into another reply.
pub const BATCH: usize = 4096;
/// The room of a reply: while it is shorter than a batch, it has more room than a message needs.
const ROOM: usize = 2 * BATCH;

/// The size of a header.
pub const HEADER: usize = size_of::<Header>();

/// The result of a request.
pub enum Acknowledgement<'a> {
    /// The request was executed.
    Done,
    /// The request failed; its body is included in the error.
    Failed(Errno, &'a [u8]),
    /// The request failed; its body is omitted (NETLINK_CAP_ACK).
    Short(Errno),
}

/// Messages being written.
pub struct Reply {
    /// The messages written so far.
    pub bytes: Vec<u8>,
    start: usize,
    request: Header,
    port: u32,
}

impl Reply {
    /// A reply to a request of the socket with this port.
    pub fn new(request: Header, port: u32) -> Result<Self> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(ROOM).map_err(|_| Errno::ENOBUFS)?;
        Ok(Reply {
            bytes,
            start: 0,
            request,
            port,
        })
    }

    /// Whether the rest of a dump must go into another reply.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH
    }

    /// Begins a message.
    pub fn begin(&mut self, kind: u16, flags: u16, fixed: &[u8]) {
        self.start = self.bytes.len();
        let header = Header {
            len: 0,
            kind,
            flags,
            sequence: self.request.sequence,
            port: self.port,
        };
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(fixed);
    }

    /// The fixed part after the header of the message that was begun.
    pub fn fixed(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start + HEADER..]
    }

    /// Adds an attribute, which begins with its length and kind, padded to a multiple of 4 bytes.
    pub fn attribute(&mut self, kind: u16, data: &[u8]) {
        let len = (4 + data.len()) as u16;
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(data);
        let end = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(end, 0);
    }

    /// Ends a message.
    pub fn end(&mut self) {
        let len = (self.bytes.len() - self.start) as u32;
        self.bytes[self.start..self.start + 4].copy_from_slice(&len.to_ne_bytes());
    }

    /// Acknowledges the request.
    pub fn acknowledge(&mut self, how: Acknowledgement) {
        let (error, flags, body) = match how {
            Acknowledgement::Done => (0, CAPPED, &[][..]),
            Acknowledgement::Short(error) => (error.0, CAPPED, &[][..]),
            Acknowledgement::Failed(error, body) => (error.0, 0, body),
        };
        let mut fixed = [0; 4 + HEADER];
        fixed[..4].copy_from_slice(&(-i32::from(error)).to_ne_bytes());
        fixed[4..].copy_from_slice(self.request.as_bytes());
        self.begin(ERROR, flags, &fixed);
        self.bytes.extend_from_slice(body);
        let end = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(end, 0);
        self.end();
    }

    /// Ends a dump.
    pub fn done(&mut self) {
        self.begin(DONE, MULTI, &[0; 4]);
        self.end();
    }
}
