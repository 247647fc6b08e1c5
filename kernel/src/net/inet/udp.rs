//! UDP: datagrams, which are lost where there is no room for them.

use super::errors::{Errors, IP_RECVERR, IPV6_RECVERR, QUOTED};
use super::options::{IP, IPV6, Options, UDP};
use super::place::Place;
use super::ports::{Holder, Ports};
use super::{Header, reached, source};
use crate::errno::{Errno, Result};
use crate::fs::io::{Sink, Source};
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::mm::heap::try_arc;
use crate::net::DATAGRAM;
use crate::net::channel::{Channel, Kind};
use crate::net::message::{Ancillary, Control};
use crate::net::name::{Address, Name, unspecified};
use crate::net::socket::{Base, Outgoing, Received, Socket};
use crate::net::stream::{self, Manner};
use crate::net::wait::Wait;
use crate::sync::{Mutex, SleepMutex};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering::*};
use linux_raw_sys::net::*;

/// The most bytes of a datagram: what a packet's length can say, without the headers of UDP and IPv4.
const MAX: usize = 65535 - 8 - 20;
/// UDP_CORK
const CORK: u32 = 1;
/// The most datagrams that one send makes (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 128;
/// States as /proc/net/udp shows them.
const CONNECTED: u8 = 1;
const UNCONNECTED: u8 = 7;

/// The beginning of a datagram.
struct Begun {
    to: SocketAddr,
    from: SocketAddr,
    header: Header,
    bytes: Vec<u8>,
}

/// A socket.
pub struct Udp {
    base: Base,
    place: Place,
    options: Options,
    inbox: Arc<Channel>,
    errors: Errors,
    peer: Mutex<Option<SocketAddr>>,
    /// What was sent of a datagram that is not whole yet (MSG_MORE, UDP_CORK).
    begun: SleepMutex<Option<Begun>>,
    /// It reads, or sends, no more.
    deaf: AtomicBool,
    mute: AtomicBool,
}

impl Udp {
    /// One that is bound to nothing, of a protocol whose ports are `ports`.
    pub fn new(domain: u32, protocol: u32, ports: &'static Ports) -> Result<Arc<Self>> {
        let base = Base::new(domain, DATAGRAM, protocol)?;
        let room = WaitSource::new()?;
        let limit = base.options.receive_buffer();
        let inbox = Channel::new(&base.reader, Kind::Records, limit, &base.readable, &room)?;
        try_arc(Udp {
            base,
            place: Place::new(ports),
            options: Options::new(domain),
            inbox,
            errors: Errors::new(),
            peer: Mutex::new(None),
            begun: SleepMutex::new(None),
            deaf: AtomicBool::new(false),
            mute: AtomicBool::new(false),
        })
    }

    fn connected_to(&self) -> Option<SocketAddr> {
        *self.peer.lock()
    }

    /// Where a datagram to `to` goes, and where it comes from.
    fn route(self: &Arc<Self>, to: SocketAddr) -> Result<(SocketAddr, SocketAddr)> {
        if to.port() == 0 {
            return Err(Errno::EINVAL);
        }
        let to = SocketAddr::new(reached(to.ip()), to.port());
        self.place
            .check_family(to.ip(), &self.base, Errno::ENETUNREACH)?;
        let from = source(to.ip())?;
        let weak = Arc::downgrade(self);
        let any = unspecified(self.base.domain);
        let how = self.options.binding();
        self.place.claim_any(any, &self.base, how, weak)?;
        let own = self.place.local().ok_or(Errno::EINVAL)?;
        let ip = if own.ip().is_unspecified() {
            from
        } else {
            own.ip()
        };
        Ok((to, SocketAddr::new(ip, own.port())))
    }
}

impl Udp {
    /// Sends a datagram to whoever is there.
    fn deliver(
        &self,
        data: &mut Source,
        ancillary: Ancillary,
        to: SocketAddr,
        from: SocketAddr,
    ) -> Result<usize> {
        let len = data.left();
        let found = self
            .place
            .ports()
            .find(to, from, |_: &Holder, socket| rank(socket, from));
        let Some(target) = found.and_then(|socket| socket.downcast::<Udp>()) else {
            self.refused(data, to)?;
            return Ok(len);
        };
        match ancillary.header.segment {
            Some(bytes) if len > bytes.into() => {
                target.take_many(data, ancillary.header, bytes.into(), from)?;
            }
            _ => {
                let header = ancillary.header.alone();
                target.take(
                    data,
                    Ancillary {
                        header,
                        ..ancillary
                    },
                    from,
                )?;
            }
        }
        Ok(len)
    }

    /// Receives a datagram; without room it is lost.
    fn take(&self, data: &mut Source, ancillary: Ancillary, from: SocketAddr) -> Result<()> {
        let (sender, all) = (Name::Inet(from), usize::MAX);
        let received = self
            .inbox
            .write_record(data, ancillary, sender, all, &Wait::NEVER);
        match received {
            Err(Errno::EFAULT) => Err(Errno::EFAULT),
            Err(_) => {
                self.inbox.lose();
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// Receives datagrams of `bytes` each, together where the program takes them so.
    fn take_many(
        &self,
        data: &mut Source,
        header: Header,
        bytes: usize,
        from: SocketAddr,
    ) -> Result<()> {
        let with = |header| Ancillary {
            header,
            ..Ancillary::default()
        };
        if Header::takes_many(&self.options) {
            return self.take(data, with(header), from);
        }
        let all = copied(data, usize::MAX)?;
        for one in all.chunks(bytes) {
            self.take(&mut Source::kernel(one), with(header.alone()), from)?;
        }
        Ok(())
    }

    /// Nobody has the port `to`: the sender is told where it is connected to there, or asked to be told.
    fn refused(&self, data: &mut Source, to: SocketAddr) -> Result<()> {
        let asked = if to.is_ipv4() {
            self.options.is_on(IP, IP_RECVERR)
        } else {
            self.options.is_on(IPV6, IPV6_RECVERR)
        };
        if asked {
            self.errors.push(to, copied(data, QUOTED)?);
        }
        data.discard()?;
        if asked || self.connected_to().is_some() {
            self.inbox.fail(Errno::ECONNREFUSED);
        }
        Ok(())
    }

    /// Receives an error, after which the next is due.
    fn receive_error(&self, to: &mut Sink) -> Result<Received> {
        let received = self.errors.receive(to);
        if received.is_ok() {
            self.inbox.take_error();
            if !self.errors.is_empty() {
                self.inbox.fail(Errno::ECONNREFUSED);
            }
        }
        received
    }

    /// EINVAL for more datagrams at once than can be.
    fn check_segments(&self, header: &Header, len: usize) -> Result<()> {
        match header.segment {
            Some(bytes) if len > usize::from(bytes) * MAX_SEGMENTS => Err(Errno::EINVAL),
            _ => Ok(()),
        }
    }

    /// Sends what was begun, if something was.
    fn finish(&self, begun: Option<Begun>) -> Result<()> {
        let Some(begun) = begun else { return Ok(()) };
        let ancillary = Ancillary {
            header: begun.header,
            ..Ancillary::default()
        };
        let mut data = Source::kernel(&begun.bytes);
        self.deliver(&mut data, ancillary, begun.to, begun.from)
            .map(|_| ())
    }
}

/// The first bytes of what is sent, `most` of them.
fn copied(data: &mut Source, most: usize) -> Result<Vec<u8>> {
    let (mut bytes, len) = (Vec::new(), data.left().min(most));
    bytes.try_reserve_exact(len).map_err(|_| Errno::ENOBUFS)?;
    bytes.resize(len, 0);
    if data.take(&mut bytes)? < len {
        return Err(Errno::EFAULT);
    }
    Ok(bytes)
}

/// How well a socket fits a datagram from `from`: one that is connected to there is best, one that is connected elsewhere
/// does not take it.
fn rank(socket: &Arc<dyn Socket>, from: SocketAddr) -> Option<bool> {
    match socket.peer() {
        Ok(Name::Inet(peer)) if peer == from => Some(true),
        Ok(_) => None,
        Err(_) => Some(false),
    }
}

impl Socket for Udp {
    fn base(&self) -> &Base {
        &self.base
    }

    fn bind(self: Arc<Self>, address: &Address) -> Result<()> {
        let weak = Arc::downgrade(&self);
        let how = self.options.binding();
        self.place.bind(address, &self.base, how, weak)
    }

    fn connect(self: Arc<Self>, address: &Address, _wait: &Wait) -> Result<()> {
        if address.is_unspecified() {
            *self.peer.lock() = None;
            self.place.dissolve(false);
            return Ok(());
        }
        let given = address.inet(self.base.domain)?;
        let port = given.port().max(1);
        let (mut to, from) = self.route(SocketAddr::new(given.ip(), port))?;
        to.set_port(given.port());
        self.place.settle(from.ip());
        *self.peer.lock() = Some(to);
        Ok(())
    }

    fn name(&self) -> Name {
        self.place.name()
    }

    fn peer(&self) -> Result<Name> {
        let peer = self.connected_to().ok_or(Errno::ENOTCONN)?;
        Ok(Name::Inet(peer))
    }

    fn send(self: Arc<Self>, message: Outgoing, _wait: &Wait) -> Result<usize> {
        if message.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut begun = self.begun.lock();
        let len = message.data.left();
        if len + begun.as_ref().map_or(0, |begun| begun.bytes.len()) > MAX {
            return Err(Errno::EMSGSIZE);
        }
        let connected = self.connected_to();
        let to = match (&*begun, &message.to) {
            (Some(begun), _) => begun.to,
            (_, Some(address)) => address.inet(self.base.domain)?,
            _ => connected.ok_or(Errno::EDESTADDRREQ)?,
        };
        if let Some(error) = self.inbox.take_error() {
            return Err(error);
        }
        if self.mute.load(Acquire) {
            return Err(Errno::EPIPE);
        }
        let (to, mut from) = self.route(to)?;
        let mut ancillary = message.ancillary;
        ancillary.header.complete(&self.options, to);
        self.check_segments(&ancillary.header, len)?;
        if let Some(ip) = ancillary.header.from {
            from.set_ip(ip);
        }
        let corked = message.flags & MSG_MORE != 0 || self.options.value(UDP, CORK) != 0;
        if !corked && begun.is_none() {
            drop(begun);
            return self.deliver(message.data, ancillary, to, from);
        }
        let datagram = begun.get_or_insert_with(|| Begun {
            to,
            from,
            header: ancillary.header,
            bytes: Vec::new(),
        });
        let start = datagram.bytes.len();
        datagram
            .bytes
            .try_reserve(len)
            .map_err(|_| Errno::ENOBUFS)?;
        datagram.bytes.resize(start + len, 0);
        if message.data.take(&mut datagram.bytes[start..])? != len {
            datagram.bytes.truncate(start);
            return Err(Errno::EFAULT);
        }
        if !corked {
            self.finish(begun.take())?;
        }
        Ok(len)
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if flags & MSG_ERRQUEUE != 0 {
            return self.receive_error(to);
        }
        if let Some(error) = self.inbox.take_error() {
            return Err(error);
        }
        let deaf = || self.deaf.load(Acquire);
        stream::receive(&self.inbox, to, flags, Manner::RECORDS, deaf, wait)
    }

    fn put_header(&self, header: &Header, control: &mut Control) -> Result<()> {
        header.put(&self.options, control)
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        let connected = self.connected_to();
        self.deaf.fetch_or(read, AcqRel);
        self.mute.fetch_or(write, AcqRel);
        self.base.readable.notify();
        connected.map(|_| ()).ok_or(Errno::ENOTCONN)
    }

    fn poll(&self, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.base.readable);
        }
        let (deaf, mute) = (self.deaf.load(Acquire), self.mute.load(Acquire));
        let mut events = Events::OUT;
        events.set(Events::IN, self.inbox.has_data() || deaf);
        events.set(Events::READ_HANG_UP, deaf);
        events.set(Events::HANG_UP, deaf && mute);
        let error = self.inbox.has_error() || !self.errors.is_empty();
        events.set(Events::ERROR, error);
        let also = self.base.options.is_on(SO_SELECT_ERR_QUEUE);
        events.set(Events::PRIORITY, also && !self.errors.is_empty());
        events
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        Ok((self.inbox.first_len(), 0))
    }

    fn take_error(&self) -> Option<Errno> {
        self.inbox.take_error()
    }

    fn incoming_cpu(&self) -> Option<u32> {
        self.connected_to().and_then(|_| self.inbox.cpu())
    }

    fn options_changed(&self) {
        let options = &self.base.options;
        self.inbox.set_limit(options.receive_buffer());
        self.inbox.set_wants_times(options.wants_times());
    }

    fn option(&self, level: u32, name: u32) -> Result<Vec<u8>> {
        let (base, place) = (&self.base, &self.place);
        self.options.get(base, place, level, name, self.state())
    }

    fn set_option(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        let (base, place) = (&self.base, &self.place);
        self.options.set(base, place, level, name, value)?;
        if matches!((level, name), (IP, IP_RECVERR) | (IPV6, IPV6_RECVERR))
            && !self.options.is_on(level, name)
        {
            self.errors.clear();
        }
        if (level, name) == (UDP, CORK) && self.options.value(UDP, CORK) == 0 {
            let begun = self.begun.lock().take();
            self.finish(begun)?;
        }
        Ok(())
    }

    fn state(&self) -> u8 {
        if self.connected_to().is_some() {
            CONNECTED
        } else {
            UNCONNECTED
        }
    }
}

impl Drop for Udp {
    fn drop(&mut self) {
        self.inbox.die();
    }
}
