//! Unix sockets.

mod bound;
mod connected;
pub mod datagram;
pub mod inflight;
mod sent;

use super::socket::Socket;
use super::{DATAGRAM, RAW, SEQPACKET, STREAM};
use crate::errno::{Errno, Result};
use alloc::sync::Arc;
use connected::Connected;
use datagram::Datagram;
pub use sent::Charge;

/// Creates a socket. As on Linux, a raw one is a datagram socket.
pub fn new(kind: u32, protocol: u32) -> Result<Arc<dyn Socket>> {
    check(protocol)?;
    match kind {
        STREAM | SEQPACKET => Ok(Connected::new(kind)?),
        DATAGRAM | RAW => Ok(Datagram::new()?),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// Creates two connected sockets.
pub fn pair(kind: u32, protocol: u32) -> Result<[Arc<dyn Socket>; 2]> {
    check(protocol)?;
    match kind {
        STREAM | SEQPACKET => {
            let [a, b] = Connected::pair(kind)?;
            Ok([a, b])
        }
        DATAGRAM | RAW => {
            let [a, b] = Datagram::pair()?;
            Ok([a, b])
        }
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

fn check(protocol: u32) -> Result<()> {
    // PF_UNIX is accepted as a protocol.
    if protocol <= 1 {
        Ok(())
    } else {
        Err(Errno::EPROTONOSUPPORT)
    }
}
