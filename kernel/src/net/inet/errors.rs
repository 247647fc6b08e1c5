//! The queue of errors (IP_RECVERR): what became of datagrams that nobody took, to be received with
//! MSG_ERRQUEUE.

use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::net::address::{Address, Name};
use crate::net::channel::Found;
use crate::net::control_message::{Ancillary, Control};
use crate::net::socket::Received;
use crate::sync::Mutex;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use linux_raw_sys::net::{AF_INET, AF_INET6, MSG_ERRQUEUE, MSG_TRUNC};

use super::Header;
use super::icmp::Why;
use super::options::{IP, IPV6};

/// The options that ask for the queue, which are the kinds of its control messages too.
pub const IP_RECVERR: u32 = 11;
pub const IPV6_RECVERR: u32 = 25;
/// The most errors that wait.
const MOST: usize = 256;
/// The most bytes of a datagram that an error quotes, as an ICMP message does.
pub const QUOTED: usize = 520;

/// SO_EE_ORIGIN_ICMP and SO_EE_ORIGIN_ICMP6.
const BY_ICMP: u8 = 2;
const BY_ICMP_V6: u8 = 3;

/// An error report, as `struct sock_extended_err`.
#[derive(Clone, Copy)]
pub struct Report {
    /// The origin of the error.
    by: IpAddr,
    error: Errno,
    origin: u8,
    kind: u8,
    code: u8,
    info: u32,
}

impl Report {
    /// Nobody took the packet, says the machine `by`.
    pub fn refused(by: IpAddr, why: Why) -> Self {
        let (origin, [kind, code, at]) = match by {
            IpAddr::V4(_) => (BY_ICMP, why.type_and_code(true)),
            IpAddr::V6(_) => (BY_ICMP_V6, why.type_and_code(false)),
        };
        Report {
            by,
            error: match why {
                Why::Port => Errno::ECONNREFUSED,
                Why::Protocol if by.is_ipv4() => Errno::ENOPROTOOPT,
                Why::Protocol => Errno::EPROTO,
            },
            origin,
            kind,
            code,
            info: at.into(),
        }
    }

    /// The error that the next call fails with.
    pub fn error(&self) -> Errno {
        self.error
    }

    /// The control message: `struct sock_extended_err`, and the address that reported it.
    pub fn put(&self, control: &mut Control) -> Result<()> {
        let (level, kind, family) = match self.by {
            IpAddr::V4(_) => (IP, IP_RECVERR, AF_INET),
            IpAddr::V6(_) => (IPV6, IPV6_RECVERR, AF_INET6),
        };
        let mut data = [0; 16 + 28];
        data[..4].copy_from_slice(&u32::from(self.error.0).to_ne_bytes());
        data[4..7].copy_from_slice(&[self.origin, self.kind, self.code]);
        data[8..12].copy_from_slice(&self.info.to_ne_bytes());
        let offender = Address::of(&Name::Inet(SocketAddr::new(self.by, 0)), family);
        let end = 16 + offender.len();
        data[16..end].copy_from_slice(offender.bytes());
        control.put(level, kind, &data[..end])
    }
}

/// A report, the datagram that it is about, and where that was to go.
struct Waiting {
    report: Report,
    to: SocketAddr,
    quoted: Vec<u8>,
}

/// The queue.
pub struct Errors(Mutex<VecDeque<Waiting>>);

impl Errors {
    /// Without errors.
    pub const fn new() -> Self {
        Errors(Mutex::new(VecDeque::new()))
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The error that is first in the queue.
    pub fn first(&self) -> Option<Errno> {
        self.0.lock().front().map(|waiting| waiting.report.error())
    }

    /// Queues an error report for a datagram to `to`, which began with `quoted`; drops it when
    /// full.
    pub fn push(&self, report: Report, to: SocketAddr, quoted: Vec<u8>) {
        let mut queue = self.0.lock();
        if queue.len() < MOST && queue.try_reserve(1).is_ok() {
            queue.push_back(Waiting { report, to, quoted });
        }
    }

    /// Forgets all.
    pub fn clear(&self) {
        let gone = core::mem::take(&mut *self.0.lock());
        drop(gone);
    }

    /// Receives the first error; EAGAIN when there is none.
    pub fn receive(&self, to: &mut Sink) -> Result<Received> {
        let waiting = self.0.lock().pop_front().ok_or(Errno::EAGAIN)?;
        let count = to.left().min(waiting.quoted.len());
        to.put(&waiting.quoted[..count])?;
        let cut = if count < waiting.quoted.len() {
            MSG_TRUNC
        } else {
            0
        };
        Ok(Received {
            found: Found {
                count,
                whole: waiting.quoted.len(),
                ancillary: Ancillary {
                    header: Header::of_report(waiting.report),
                    ..Ancillary::default()
                },
                from: Name::Inet(waiting.to),
                ..Found::default()
            },
            flags: MSG_ERRQUEUE | cut,
            count,
        })
    }
}
