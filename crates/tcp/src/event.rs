//! What the outside learns of a connection, and tells it.

use core::ops::{BitOr, BitOrAssign};

/// Why a connection ended, or what its program is to be told (SO_ERROR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// ECONNREFUSED.
    ConnectionRefused,
    /// ECONNRESET.
    ConnectionReset,
    /// EPIPE.
    BrokenPipe,
    /// ETIMEDOUT.
    TimedOut,
    /// EHOSTUNREACH.
    HostUnreachable,
    /// ENETUNREACH.
    NetworkUnreachable,
    /// ENOPROTOOPT.
    ProtocolUnreachable,
    /// ENOTCONN.
    NotConnected,
}

/// What ICMP says of a segment that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The network, or there is no route.
    Network,
    /// The host, or it is forbidden.
    Host,
    /// The protocol.
    Protocol,
    /// The port.
    Port,
    /// The path takes segments of this MSS only (RFC 1191, RFC 8201).
    TooBig(u16),
}

/// A set of things that happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u8);

impl Events {
    /// Nothing.
    pub const NONE: Events = Events(0);
    /// The connection is established.
    pub const CONNECTED: Events = Events(1);
    /// Bytes can be read.
    pub const READABLE: Events = Events(2);
    /// The peer has acknowledged bytes, which the send queue can let go, or opened its window.
    pub const WRITABLE: Events = Events(4);
    /// There is an error for the program.
    pub const ERROR: Events = Events(8);
    /// The peer sends no more: end of file after what can be read.
    pub const ENDED: Events = Events(16);
    /// The connection is over and may be forgotten, once what [`Connection::transmit`] still has is
    /// sent.
    ///
    /// [`Connection::transmit`]: crate::Connection::transmit
    pub const CLOSED: Events = Events(32);
    /// The urgent pointer has moved (SIGURG).
    pub const URGENT: Events = Events(64);

    /// Whether all of `events` are in the set.
    pub const fn has(self, events: Events) -> bool {
        self.0 & events.0 == events.0
    }
}

impl BitOr for Events {
    type Output = Events;

    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

impl BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Events) {
        self.0 |= other.0;
    }
}
