//! The ports of netlink sockets: of the sockets of a protocol, one has a port.

use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::random;
use crate::sync::Mutex;
use crate::task::current;

/// The ports that sockets have, with their protocols.
static PORTS: Mutex<HashMap<(u32, u32), ()>> = Mutex::new(hash::new());
/// Ports for sockets beside a process's first are from here on.
const FURTHER: u32 = 1 << 31;

/// A port that a socket has until this goes.
pub struct Claim {
    protocol: u32,
    /// The port.
    pub port: u32,
}

impl Claim {
    /// Takes that port.
    ///
    /// # Errors
    /// EADDRINUSE, ENOMEM.
    pub fn new(protocol: u32, port: u32) -> Result<Self> {
        let mut ports = PORTS.lock();
        ports.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        match ports.insert((protocol, port), ()) {
            None => Ok(Claim { protocol, port }),
            Some(()) => Err(Errno::EADDRINUSE),
        }
    }

    /// Takes the port that is the process's number or, where another socket has that, any of those
    /// further on.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn any(protocol: u32) -> Result<Self> {
        let mut port = current().process_id() as u32;
        loop {
            match Self::new(protocol, port) {
                Err(Errno::EADDRINUSE) => port = random::u64() as u32 | FURTHER,
                done => return done,
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        PORTS.lock().remove(&(self.protocol, self.port));
    }
}
