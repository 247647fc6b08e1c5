//! The ports of netlink sockets: at most one socket of a protocol has a given port.

use super::Netlink;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::random;
use crate::sync::Mutex;
use crate::task::current;
use alloc::sync::{Arc, Weak};

/// The sockets by protocol and port.
static PORTS: Mutex<HashMap<(u32, u32), Weak<Netlink>>> = Mutex::new(hash::new());
/// The first port for further sockets of a process.
const FURTHER: u32 = 1 << 31;

/// The claim of a socket on a port, which is released when this is dropped.
pub struct Claim {
    protocol: u32,
    /// The port.
    pub port: u32,
}

impl Claim {
    /// Claims a port for `socket`.
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

    /// Claims the process's number as the port or, if another socket has that, any further port.
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

/// The socket with that port.
pub fn holder(protocol: u32, port: u32) -> Option<Arc<Netlink>> {
    let found = PORTS.lock().get(&(protocol, port)).cloned();
    found?.upgrade()
}
