//! The ports of netlink sockets: at most one socket of a protocol has a given port.

use super::Netlink;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::random;
use crate::sync::Mutex;
use crate::task::current;
use alloc::sync::{Arc, Weak};

/// The sockets by their protocols and ports.
static PORTS: Mutex<HashMap<(u32, u32), Weak<Netlink>>> = Mutex::new(hash::new());
/// Ports for sockets beside a process's first are from here on.
const FURTHER: u32 = 1 << 31;

/// A port that a socket has until this goes.
pub struct Claim {
    protocol: u32,
    /// The port.
    pub port: u32,
}

impl Claim {
    /// Takes that port for `socket`.
    ///
    /// # Errors
    /// EADDRINUSE, ENOMEM.
    pub fn new(socket: &Arc<Netlink>, port: u32) -> Result<Self> {
        let protocol = socket.base.protocol;
        let mut ports = PORTS.lock();
        ports.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if ports.get(&(protocol, port)).is_some() {
            return Err(Errno::EADDRINUSE);
        }
        ports.insert((protocol, port), Arc::downgrade(socket));
        Ok(Claim { protocol, port })
    }

    /// Takes the port that is the process's number or, where another socket has that, any of those
    /// further on.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn any(socket: &Arc<Netlink>) -> Result<Self> {
        let mut port = current().process_id() as u32;
        loop {
            match Self::new(socket, port) {
                Err(Errno::EADDRINUSE) => port = random::u64() as u32 | FURTHER,
                done => return done,
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let gone = PORTS.lock().remove(&(self.protocol, self.port));
        drop(gone);
    }
}

/// The socket that has that port.
pub fn holder(protocol: u32, port: u32) -> Option<Arc<Netlink>> {
    let found = PORTS.lock().get(&(protocol, port)).cloned();
    found?.upgrade()
}
