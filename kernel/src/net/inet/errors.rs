//! The queue of errors (IP_RECVERR): what became of datagrams that nobody took, to be received with MSG_ERRQUEUE.

use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::net::channel::Found;
use crate::net::message::{Ancillary, Control};
use crate::net::name::{Address, Name};
use crate::net::socket::Received;
use crate::sync::Mutex;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use linux_raw_sys::net::{AF_INET, AF_INET6, MSG_ERRQUEUE, MSG_TRUNC};

use super::Header;
use super::options::{IP, IPV6};

/// The options that ask for the queue, which are the kinds of its control messages too.
pub const IP_RECVERR: u32 = 11;
pub const IPV6_RECVERR: u32 = 25;
/// The most errors that wait.
const MOST: usize = 256;
/// The most bytes of a datagram that an error quotes, as an ICMP message does.
pub const QUOTED: usize = 520;

/// That nobody has a port, as ICMP says it: origin, type and code of `struct sock_extended_err`.
const UNREACHABLE_V4: [u8; 3] = [2, 3, 3];
const UNREACHABLE_V6: [u8; 3] = [3, 1, 4];

/// A datagram that was refused, and where it was to go.
struct Refused {
    to: SocketAddr,
    quoted: Vec<u8>,
}

/// The queue.
pub struct Errors(Mutex<VecDeque<Refused>>);

impl Errors {
    /// Without errors.
    pub const fn new() -> Self {
        Errors(Mutex::new(VecDeque::new()))
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// A datagram to `to`, which began so, was refused. Without room nobody is told.
    pub fn push(&self, to: SocketAddr, quoted: Vec<u8>) {
        let mut queue = self.0.lock();
        if queue.len() < MOST && queue.try_reserve(1).is_ok() {
            queue.push_back(Refused { to, quoted });
        }
    }

    /// Forgets all.
    pub fn clear(&self) {
        let gone = core::mem::take(&mut *self.0.lock());
        drop(gone);
    }

    /// Receives the first error; EAGAIN when there is none.
    pub fn receive(&self, to: &mut Sink) -> Result<Received> {
        let refused = self.0.lock().pop_front().ok_or(Errno::EAGAIN)?;
        let count = to.left().min(refused.quoted.len());
        to.put(&refused.quoted[..count])?;
        let cut = if count < refused.quoted.len() {
            MSG_TRUNC
        } else {
            0
        };
        Ok(Received {
            found: Found {
                count,
                whole: refused.quoted.len(),
                ancillary: Ancillary {
                    header: Header::refused(refused.to.ip()),
                    ..Ancillary::default()
                },
                from: Name::Inet(refused.to),
                ..Found::default()
            },
            flags: MSG_ERRQUEUE | cut,
            count,
        })
    }
}

/// Tells a program that the machine `by` refused a datagram: `struct sock_extended_err`, and the address of who says so.
pub fn put(by: IpAddr, control: &mut Control) -> Result<()> {
    let (level, kind, family, says) = match by {
        IpAddr::V4(_) => (IP, IP_RECVERR, AF_INET, UNREACHABLE_V4),
        IpAddr::V6(_) => (IPV6, IPV6_RECVERR, AF_INET6, UNREACHABLE_V6),
    };
    let mut data = [0; 16 + 28];
    data[..4].copy_from_slice(&u32::from(Errno::ECONNREFUSED.0).to_ne_bytes());
    data[4..7].copy_from_slice(&says);
    let offender = Address::of(&Name::Inet(SocketAddr::new(by, 0)), family);
    let end = 16 + offender.len();
    data[16..end].copy_from_slice(offender.bytes());
    control.put(level, kind, &data[..end])
}
