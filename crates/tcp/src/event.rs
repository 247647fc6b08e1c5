//! Events that a connection reports to its user, and the arguments that the user passes.

use bitflags::bitflags;

/// Why a connection ended, or the error reported to its program (SO_ERROR).
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

/// What ICMP reports about a segment that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The network is unreachable, or there is no route.
    Network,
    /// The host is unreachable, or access is prohibited.
    Host,
    /// The protocol is unreachable.
    Protocol,
    /// The port is unreachable.
    Port,
    /// The path only carries segments of this MSS (RFC 1191, RFC 8201).
    TooBig(u16),
}

bitflags! {
    /// A set of events.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Events: u8 {
        /// The connection is established.
        const CONNECTED = 1;
        /// Bytes can be read.
        const READABLE = 1 << 1;
        /// The peer has acknowledged bytes, which can be freed in the send queue, or has opened its
        /// window.
        const WRITABLE = 1 << 2;
        /// There is an error for the program.
        const ERROR = 1 << 3;
        /// The peer sends no more data: end of file follows the readable bytes.
        const ENDED = 1 << 4;
        /// The connection is over, and can be dropped once everything that [`Connection::transmit`]
        /// still returns is sent.
        ///
        /// [`Connection::transmit`]: crate::Connection::transmit
        const CLOSED = 1 << 5;
        /// The urgent pointer has moved (SIGURG).
        const URGENT = 1 << 6;
    }
}
