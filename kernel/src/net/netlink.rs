//! Netlink: what programs ask to learn the interfaces and their addresses (NETLINK_ROUTE).

use super::channel::{Channel, Kind};
use super::interface::{FLAGS, HARDWARE, INDEX, MTU, QUEUE};
use super::message::Ancillary;
use super::name::{Address, Name};
use super::socket::{Base, Outgoing, Received, Socket, SocketFile};
use super::stream::{self, Manner};
use super::wait::Wait;
use super::{DATAGRAM, RAW};
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::io::{Sink, Source};
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::mm::heap::try_arc;
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::sync::atomic::{AtomicU32, Ordering::*};
use linux_raw_sys::net::{AF_INET, AF_INET6, AF_NETLINK, AF_UNSPEC, MSG_OOB};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The only protocol there is.
const ROUTE: u32 = 0;
/// The most bytes of requests in one message.
const MAX_REQUEST: usize = 4096;

/// Kinds of messages (`include/uapi/linux/{netlink,rtnetlink}.h`).
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// The first kind that is no request to the routes; every fourth from 18 on asks.
const LAST: u16 = 0x7f;
/// Flags: the answer is in several parts; an answer is wanted; all of them are.
const MULTI: u16 = 2;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;
/// IFF_LOWER_UP
const LOWER_UP: u32 = 0x1_0000;
/// IFA_F_PERMANENT and RT_SCOPE_HOST.
const PERMANENT: u8 = 0x80;
const HOST: u8 = 254;

/// `struct nlmsghdr`
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct Header {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
}

/// Bytes of a header.
const HEADER: usize = size_of::<Header>();

/// A socket.
struct Netlink {
    base: Base,
    inbox: Arc<Channel>,
    port: AtomicU32,
}

/// A new socket.
pub fn new(kind: u32, protocol: u32) -> Result<Arc<dyn Socket>> {
    if !matches!(kind, DATAGRAM | RAW) {
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    if protocol != ROUTE {
        return Err(Errno::EPROTONOSUPPORT);
    }
    let base = Base::new(AF_NETLINK, kind, protocol)?;
    let room = WaitSource::new()?;
    let limit = base.options.receive_buffer();
    let inbox = Channel::new(&base.reader, Kind::Records, limit, &base.readable, &room)?;
    Ok(try_arc(Netlink {
        base,
        inbox,
        port: AtomicU32::new(0),
    })?)
}

/// Puts `bytes` into a netlink socket, for its owner to receive.
///
/// # Errors
/// ENOTSOCK, EINVAL: it is none; ENOBUFS.
pub fn tell(file: &File, bytes: &[u8]) -> Result<()> {
    of(file)?.post(bytes)
}

/// The netlink socket that an open file is; ENOTSOCK or EINVAL.
fn of(file: &File) -> Result<Arc<Netlink>> {
    let file = file.ops_as::<SocketFile>().ok_or(Errno::ENOTSOCK)?;
    let socket: Arc<dyn Any + Send + Sync> = file.socket().clone();
    socket.downcast().map_err(|_| Errno::EINVAL)
}

/// Whether an open file can be told something; ENOTSOCK or EINVAL.
pub fn check(file: &File) -> Result<()> {
    of(file).map(|_| ())
}

/// Messages being written.
struct Answer {
    bytes: Vec<u8>,
    start: usize,
    request: Header,
    port: u32,
}

impl Answer {
    fn new(request: Header, port: u32) -> Result<Self> {
        let mut bytes = Vec::new();
        bytes.try_reserve(512).map_err(|_| Errno::ENOBUFS)?;
        Ok(Answer {
            bytes,
            start: 0,
            request,
            port,
        })
    }

    fn begin(&mut self, kind: u16, flags: u16, fixed: &[u8]) {
        self.start = self.bytes.len();
        let header = Header {
            len: 0,
            kind,
            flags,
            sequence: self.request.sequence,
            port: self.port,
        };
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(fixed);
    }

    /// Adds an attribute, whose length and kind come first, filled up to a multiple of 4 bytes.
    fn attribute(&mut self, kind: u16, data: &[u8]) {
        let len = (4 + data.len()) as u16;
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(data);
        let end = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(end, 0);
    }

    fn end(&mut self) {
        let len = (self.bytes.len() - self.start) as u32;
        self.bytes[self.start..self.start + 4].copy_from_slice(&len.to_ne_bytes());
    }

    /// RTM_NEWLINK for `lo`: `struct ifinfomsg` and attributes IFLA_*.
    fn link(&mut self, flags: u16) {
        let mut fixed = [0; 16];
        fixed[2..4].copy_from_slice(&HARDWARE.to_ne_bytes());
        fixed[4..8].copy_from_slice(&INDEX.to_ne_bytes());
        fixed[8..12].copy_from_slice(&(FLAGS | LOWER_UP).to_ne_bytes());
        self.begin(NEW_LINK, flags, &fixed);
        self.attribute(3, b"lo\0");
        self.attribute(13, &QUEUE.to_ne_bytes());
        self.attribute(16, &[0]);
        self.attribute(4, &MTU.to_ne_bytes());
        self.attribute(6, b"noqueue\0");
        self.attribute(1, &[0; 6]);
        self.attribute(2, &[0; 6]);
        self.end();
    }

    /// RTM_NEWADDR: `struct ifaddrmsg` and attributes IFA_*.
    fn address(&mut self, family: u32, bits: u8, ip: &[u8]) {
        let mut fixed = [family as u8, bits, PERMANENT, HOST, 0, 0, 0, 0];
        fixed[4..].copy_from_slice(&INDEX.to_ne_bytes());
        self.begin(NEW_ADDRESS, MULTI, &fixed);
        self.attribute(1, ip);
        if family == AF_INET {
            self.attribute(2, ip);
            self.attribute(3, b"lo\0");
        }
        self.end();
    }

    /// What came of the request: 0, or an error.
    fn result(&mut self, error: u16) {
        let mut fixed = [0; 4 + HEADER];
        fixed[..4].copy_from_slice(&(-i32::from(error)).to_ne_bytes());
        fixed[4..].copy_from_slice(self.request.as_bytes());
        self.begin(ERROR, 0, &fixed);
        self.end();
    }
}

impl Netlink {
    /// The port, which is the process's number unless another socket was bound to something else.
    fn port(&self) -> u32 {
        if self.port.load(Acquire) == 0 {
            let port = if self.base.number % 2 == 0 {
                current().process_id() as u32
            } else {
                self.base.number as u32 | 1 << 31
            };
            _ = self.port.compare_exchange(0, port, AcqRel, Acquire);
        }
        self.port.load(Acquire)
    }

    fn post(&self, bytes: &[u8]) -> Result<()> {
        let mut data = Source::kernel(bytes);
        let (name, all) = (Name::Netlink(0), usize::MAX);
        self.inbox
            .write_record(&mut data, Ancillary::default(), name, all, &Wait::NEVER)
            .map(|_| ())
            .map_err(|_| Errno::ENOBUFS)
    }

    fn answer(&self, request: Header, body: &[u8]) -> Result<()> {
        let mut answer = Answer::new(request, self.port())?;
        let dump = request.flags & DUMP != 0;
        let family = body.first().map_or(AF_UNSPEC, |&family| family.into());
        match request.kind {
            GET_LINK => answer.link(if dump { MULTI } else { 0 }),
            GET_ADDRESS if dump => {
                if matches!(family, AF_UNSPEC | AF_INET) {
                    answer.address(AF_INET, 8, &Ipv4Addr::LOCALHOST.octets());
                }
                if matches!(family, AF_UNSPEC | AF_INET6) {
                    answer.address(AF_INET6, 128, &Ipv6Addr::LOCALHOST.octets());
                }
            }
            // Of routes, neighbours and their like there are none.
            NEW_LINK..=LAST if request.kind % 4 == 2 && dump => {}
            NEW_LINK | SET_LINK | NEW_ADDRESS => answer.result(0),
            _ => answer.result(Errno::EOPNOTSUPP.0),
        }
        if !answer.bytes.is_empty() {
            self.post(&answer.bytes)?;
        }
        if dump {
            answer.bytes.clear();
            answer.begin(DONE, MULTI, &[0; 4]);
            answer.end();
            self.post(&answer.bytes)?;
        } else if request.kind == GET_LINK && request.flags & ACKNOWLEDGE != 0 {
            answer.bytes.clear();
            answer.result(0);
            self.post(&answer.bytes)?;
        }
        Ok(())
    }
}

impl Socket for Netlink {
    fn base(&self) -> &Base {
        &self.base
    }

    fn bind(self: Arc<Self>, address: &Address) -> Result<()> {
        if address.family() != AF_NETLINK || address.len() < 12 {
            return Err(Errno::EINVAL);
        }
        let (port, _) = u32::read_from_prefix(&address.rest()[2..]).map_err(|_| Errno::EINVAL)?;
        if port == 0 {
            self.port();
        } else {
            self.port.store(port, Release);
        }
        Ok(())
    }

    fn connect(self: Arc<Self>, _address: &Address, _wait: &Wait) -> Result<()> {
        self.port();
        Ok(())
    }

    fn name(&self) -> Name {
        Name::Netlink(self.port.load(Acquire))
    }

    fn peer(&self) -> Result<Name> {
        Ok(Name::Netlink(0))
    }

    fn send(self: Arc<Self>, message: Outgoing, _wait: &Wait) -> Result<usize> {
        if message.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let len = message.data.left();
        if len > MAX_REQUEST {
            return Err(Errno::EMSGSIZE);
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| Errno::ENOBUFS)?;
        bytes.resize(len, 0);
        if message.data.take(&mut bytes)? != len {
            return Err(Errno::EFAULT);
        }
        let mut rest = &bytes[..];
        while let Ok((request, _)) = Header::read_from_prefix(rest) {
            let len = request.len as usize;
            if len < HEADER || len > rest.len() {
                break;
            }
            self.answer(request, &rest[HEADER..len])?;
            rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        }
        Ok(len)
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        stream::receive(&self.inbox, to, flags, Manner::RECORDS, || false, wait)
    }

    fn shutdown(&self, _read: bool, _write: bool) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn poll(&self, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.base.readable);
        }
        let mut events = Events::OUT;
        events.set(Events::IN, self.inbox.has_data());
        events
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        Ok((self.inbox.first_len(), 0))
    }

    /// Membership of groups and further answers (SOL_NETLINK): there is nothing to tell of, and no harm in asking.
    fn set_option(&self, _level: u32, _name: u32, _value: &[u8]) -> Result<()> {
        Ok(())
    }
}
