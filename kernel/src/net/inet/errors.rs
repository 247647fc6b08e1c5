//! The error queue (IP_RECVERR): reports about datagrams that were not delivered, received with
//! MSG_ERRQUEUE.

use crate::errno::{Errno, Result};
use crate::fs::inode::Time;
use crate::fs::io::Sink;
use crate::net::STREAM;
use crate::net::address::{Address, Name};
use crate::net::channel::Found;
use crate::net::control_message::{Ancillary, Control};
use crate::net::socket::{Base, Received};
use crate::net::timestamping::{Asked, Moment};
use crate::sync::Mutex;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use linux_raw_sys::net::{AF_INET, AF_INET6, MSG_ERRQUEUE, MSG_TRUNC};

use super::Header;
use super::icmp::Why;
use super::options::{IP, IPV6};

/// The options that enable the queue, which are also the types of its control messages.
pub const IP_RECVERR: u32 = 11;
pub const IPV6_RECVERR: u32 = 25;
/// The maximum length of the queue.
const MOST: usize = 256;
/// The maximum number of bytes of a datagram that an error quotes, as in an ICMP message.
pub const QUOTED: usize = 520;

/// SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6 and SO_EE_ORIGIN_TIMESTAMPING.
const BY_ICMP: u8 = 2;
const BY_ICMP_V6: u8 = 3;
const BY_STAMPING: u8 = 4;
/// The overhead of an entry in Linux's queue, in addition to its bytes.
const OVERHEAD: usize = 768;
/// The size of the link-layer header of Ethernet and lo.
const LINK_HEAD: usize = 14;

/// An error report, as `struct sock_extended_err`.
#[derive(Clone, Copy)]
pub struct Report {
    /// The family of the socket that receives it.
    domain: u32,
    /// The reporting address, if known.
    by: Option<IpAddr>,
    error: Errno,
    origin: u8,
    kind: u8,
    code: u8,
    info: u32,
    data: u32,
    /// Whether the error is also reported to a program that has not enabled the queue.
    ends: bool,
}

impl Report {
    /// A report that the machine `by` refused the packet.
    pub fn refused(by: IpAddr, why: Why) -> Self {
        let (origin, [kind, code, at]) = match by {
            IpAddr::V4(_) => (BY_ICMP, why.type_and_code(true)),
            IpAddr::V6(_) => (BY_ICMP_V6, why.type_and_code(false)),
        };
        Report {
            domain: if by.is_ipv4() { AF_INET } else { AF_INET6 },
            by: Some(by),
            error: match why {
                Why::Port => Errno::ECONNREFUSED,
                Why::Protocol if by.is_ipv4() => Errno::ENOPROTOOPT,
                Why::Protocol => Errno::EPROTO,
            },
            origin,
            kind,
            code,
            info: at.into(),
            data: 0,
            ends: true,
        }
    }

    /// A report of the machine `by` by an ICMP message.
    pub fn told(by: IpAddr, [kind, code]: [u8; 2], info: u32) -> Self {
        let (domain, origin) = match by {
            IpAddr::V4(_) => (AF_INET, BY_ICMP),
            IpAddr::V6(_) => (AF_INET6, BY_ICMP_V6),
        };
        let (error, ends) = meaning(by.is_ipv4(), kind, code);
        Report {
            domain,
            by: Some(by),
            error,
            origin,
            kind,
            code,
            info: if error == Errno::EMSGSIZE { info } else { 0 },
            data: 0,
            ends,
        }
    }

    /// A report that a socket of the family `domain` sent the message with this key.
    fn sent(domain: u32, by: Option<IpAddr>, moment: Moment, key: u32) -> Self {
        Report {
            domain,
            by,
            error: Errno::ENOMSG,
            origin: BY_STAMPING,
            kind: 0,
            code: 0,
            info: moment as u32,
            data: key,
            ends: false,
        }
    }

    /// The error of the next call.
    pub fn error(&self) -> Option<Errno> {
        (self.origin != BY_STAMPING).then_some(self.error)
    }

    /// Whether the error is also reported to a program that has not enabled the queue.
    pub fn ends(&self) -> bool {
        self.ends
    }

    /// The control message: `struct sock_extended_err`, and the address that reported it.
    pub fn put(&self, control: &mut Control) -> Result<()> {
        let (level, kind, len) = match self.domain {
            AF_INET => (IP, IP_RECVERR, 16),
            _ => (IPV6, IPV6_RECVERR, 28),
        };
        let mut data = [0; 16 + 28];
        data[..4].copy_from_slice(&u32::from(self.error.0).to_ne_bytes());
        data[4..7].copy_from_slice(&[self.origin, self.kind, self.code]);
        data[8..12].copy_from_slice(&self.info.to_ne_bytes());
        data[12..16].copy_from_slice(&self.data.to_ne_bytes());
        let end = 16 + len;
        if let Some(by) = self.by {
            let offender = Address::of(&Name::Inet(SocketAddr::new(by, 0)), self.domain);
            data[16..end].copy_from_slice(offender.bytes());
        }
        control.put(level, kind, &data[..end])
    }
}

/// The meaning of an ICMP message for a program, and whether it is reported without having been
/// requested (Linux's `icmp_err_convert`, `icmpv6_err_convert`).
pub fn meaning(v4: bool, kind: u8, code: u8) -> (Errno, bool) {
    match (v4, kind, code) {
        (true, 3, 0 | 11) => (Errno::ENETUNREACH, false),
        (true, 3, 1 | 12) => (Errno::EHOSTUNREACH, false),
        (true, 3, 2) => (Errno::ENOPROTOOPT, true),
        (true, 3, 3) => (Errno::ECONNREFUSED, true),
        (true, 3, 4) => (Errno::EMSGSIZE, false),
        (true, 3, 5) => (Errno::EOPNOTSUPP, false),
        (true, 3, 6 | 9) => (Errno::ENETUNREACH, true),
        (true, 3, 7) => (Errno::EHOSTDOWN, true),
        (true, 3, 8) => (Errno::ENONET, true),
        (true, 3, _) => (Errno::EHOSTUNREACH, true),
        (false, 1, 0) => (Errno::ENETUNREACH, false),
        (false, 1, 1 | 5 | 6) => (Errno::EACCES, true),
        (false, 1, 4) => (Errno::ECONNREFUSED, true),
        (false, 1, _) => (Errno::EHOSTUNREACH, false),
        (false, 2, _) => (Errno::EMSGSIZE, false),
        (true, 12, _) | (false, 4, _) => (Errno::EPROTO, true),
        _ => (Errno::EHOSTUNREACH, false),
    }
}

/// A queued report, with the parts of its datagram that it quotes.
struct Waiting {
    report: Report,
    /// The destination of the datagram.
    to: Name,
    /// The fields of its header that are reported.
    header: Header,
    /// The time at which it was sent.
    at: Option<Time>,
    quoted: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// The number of quoted bytes.
    bytes: usize,
}

/// A sent message, for reports of its timestamps.
pub struct Sent<'a> {
    /// The requested timestamps.
    pub asked: Asked,
    /// The source and the destination.
    pub ends: [SocketAddr; 2],
    /// Its header.
    pub header: Header,
    /// The packet; `None` for a connection.
    pub packet: Option<&'a [u8]>,
}

/// The queue.
pub struct Errors(Mutex<Queue>);

impl Errors {
    /// An empty queue.
    pub const fn new() -> Self {
        Errors(Mutex::new(Queue {
            waiting: VecDeque::new(),
            bytes: 0,
        }))
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.0.lock().waiting.is_empty()
    }

    /// The approximate memory of the queue in bytes.
    pub fn held(&self) -> usize {
        let queue = self.0.lock();
        queue.bytes + queue.waiting.len() * size_of::<Waiting>()
    }

    /// The first error in the queue.
    pub fn first(&self) -> Option<Errno> {
        self.0.lock().waiting.front()?.report.error()
    }

    /// Queues an error report for a datagram to `to`, which began with `quoted`; drops it if the
    /// queue is full.
    pub fn push(&self, report: Report, to: SocketAddr, quoted: Vec<u8>) {
        let waiting = Waiting {
            report,
            to: Name::Inet(to),
            header: Header::of_report(report),
            at: None,
            quoted,
        };
        self.add(waiting, MOST * (OVERHEAD + QUOTED));
    }

    /// Queues reports of a message's timestamps, as far as its socket has room for them.
    pub fn push_sent(&self, base: &Base, sent: &Sent) {
        let connection = base.kind == STREAM;
        let packet = sent.packet.filter(|_| sent.asked.quotes());
        // As on Linux, IPv6 reports the header whether it was requested or not.
        let [from, to] = sent.ends;
        let reported = packet.is_some() && (from.is_ipv6() || sent.asked.reports_header());
        for moment in sent.asked.moments(connection) {
            let by = reported.then_some(from.ip());
            let report = Report::sent(base.domain, by, moment, sent.asked.key);
            let mut header = Header::of_report(report);
            if reported {
                header = sent.header.alone();
                header.set_ends(from.ip(), to);
                header.report = Some(report);
            }
            let Ok(quoted) = framed(packet, to) else {
                return;
            };
            let waiting = Waiting {
                report,
                to: Name::Unnamed,
                header,
                at: Some(Time::now()),
                quoted,
            };
            self.add(waiting, base.options.receive_buffer());
        }
    }

    fn add(&self, waiting: Waiting, limit: usize) {
        let mut queue = self.0.lock();
        let held = queue.bytes + queue.waiting.len() * OVERHEAD;
        let fits = held + OVERHEAD + waiting.quoted.len() <= limit && queue.waiting.len() < MOST;
        if fits && queue.waiting.try_reserve(1).is_ok() {
            queue.bytes += waiting.quoted.len();
            queue.waiting.push_back(waiting);
        }
    }

    /// Removes all reports.
    pub fn clear(&self) {
        let gone = core::mem::take(&mut *self.0.lock());
        drop(gone);
    }

    /// Receives the first error; EAGAIN if there is none.
    pub fn receive(&self, to: &mut Sink) -> Result<Received> {
        let waiting = {
            let mut queue = self.0.lock();
            let waiting = queue.waiting.pop_front().ok_or(Errno::EAGAIN)?;
            queue.bytes -= waiting.quoted.len();
            waiting
        };
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
                    header: waiting.header,
                    arrived: waiting.at,
                    ..Ancillary::default()
                },
                from: waiting.to,
                ..Found::default()
            },
            flags: MSG_ERRQUEUE | cut,
            count,
        })
    }
}

/// A packet to `to` as lo sends it.
fn framed(packet: Option<&[u8]>, to: SocketAddr) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(packet) = packet else {
        return Ok(bytes);
    };
    let room = bytes.try_reserve_exact(LINK_HEAD + packet.len());
    room.map_err(|_| Errno::ENOBUFS)?;
    bytes.resize(LINK_HEAD - 2, 0);
    bytes.extend_from_slice(if to.is_ipv4() {
        &[0x08, 0]
    } else {
        &[0x86, 0xdd]
    });
    bytes.extend_from_slice(packet);
    Ok(bytes)
}
