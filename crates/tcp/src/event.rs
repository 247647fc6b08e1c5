//! What a connection reports to its user, and what the user passes to it.

use bitflags::bitflags;

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

bitflags! {
    /// A set of things that happened.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Events: u8 {
        /// The connection is established.
        const CONNECTED = 1;
        /// Bytes can be read.
        const READABLE = 1 << 1;
        /// The peer has acknowledged bytes, which the send queue can let go, or opened its window.
        const WRITABLE = 1 << 2;
        /// There is an error for the program.
        const ERROR = 1 << 3;
        /// The peer sends no more: end of file after what can be read.
        const ENDED = 1 << 4;
        /// The connection is over and may be forgotten, once what [`Connection::transmit`] still
        /// has is sent.
        ///
        /// [`Connection::transmit`]: crate::Connection::transmit
        const CLOSED = 1 << 5;
        /// The urgent pointer has moved (SIGURG).
        const URGENT = 1 << 6;
    }
}
