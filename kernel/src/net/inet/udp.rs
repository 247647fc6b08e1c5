//! UDP: datagrams, which are lost where there is no room for them.

use super::options::Options;
use super::place::Place;
use super::ports::{Holder, Ports};
use super::{Header, reached, source};
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::mm::heap::try_arc;
use crate::net::DATAGRAM;
use crate::net::channel::Channel;
use crate::net::message::Control;
use crate::net::name::{Address, Name, unspecified};
use crate::net::socket::{Base, Outgoing, Received, Socket};
use crate::net::stream;
use crate::net::wait::Wait;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering::*};
use linux_raw_sys::net::*;

/// The most bytes of a datagram: what a packet's length can say, without the headers of UDP and IPv4.
const MAX: usize = 65535 - 8 - 20;
/// States as /proc/net/udp shows them.
const CONNECTED: u8 = 1;
const UNCONNECTED: u8 = 7;

/// A socket.
pub struct Udp {
    base: Base,
    place: Place,
    options: Options,
    inbox: Arc<Channel>,
    peer: Mutex<Option<SocketAddr>>,
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
        let inbox = Channel::new(true, limit, &base.readable, &room)?;
        try_arc(Udp {
            base,
            place: Place::new(ports),
            options: Options::new(),
            inbox,
            peer: Mutex::new(None),
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
        self.place.claim_any(any, &self.base, weak)?;
        let own = self.place.local().ok_or(Errno::EINVAL)?;
        let ip = if own.ip().is_unspecified() {
            from
        } else {
            own.ip()
        };
        Ok((to, SocketAddr::new(ip, own.port())))
    }
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
        self.place.bind(address, &self.base, weak)
    }

    fn connect(self: Arc<Self>, address: &Address, _wait: &Wait) -> Result<()> {
        if address.is_unspecified() {
            *self.peer.lock() = None;
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
        let len = message.data.left();
        if len > MAX {
            return Err(Errno::EMSGSIZE);
        }
        let connected = self.connected_to();
        let to = match &message.to {
            Some(address) => address.inet(self.base.domain)?,
            None => connected.ok_or(Errno::EDESTADDRREQ)?,
        };
        if let Some(error) = self.inbox.take_error() {
            return Err(error);
        }
        if self.mute.load(Acquire) {
            return Err(Errno::EPIPE);
        }
        let (to, from) = self.route(to)?;
        let found = self
            .place
            .ports()
            .find(to, |_: &Holder, socket| rank(socket, from));
        let Some(target) = found.and_then(|socket| socket.downcast::<Udp>()) else {
            let len = message.data.discard()?;
            if connected.is_some() {
                self.inbox.fail(Errno::ECONNREFUSED);
            }
            return Ok(len);
        };
        let mut ancillary = message.ancillary;
        ancillary.header.complete(&self.options, to);
        let sent = target.inbox.write_record(
            message.data,
            ancillary,
            Name::Inet(from),
            usize::MAX,
            &Wait::NEVER,
        );
        match sent {
            Err(Errno::EFAULT) => Err(Errno::EFAULT),
            // Without room it is lost.
            _ => Ok(len),
        }
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if flags & MSG_ERRQUEUE != 0 {
            return Err(Errno::EAGAIN);
        }
        if let Some(error) = self.inbox.take_error() {
            return Err(error);
        }
        let deaf = || self.deaf.load(Acquire);
        stream::receive(&self.inbox, to, flags, false, deaf, wait)
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
        events.set(Events::ERROR, self.inbox.has_error());
        events
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        Ok((self.inbox.first_len(), 0))
    }

    fn take_error(&self) -> Option<Errno> {
        self.inbox.take_error()
    }

    fn options_changed(&self) {
        let limit = self.base.options.receive_buffer();
        self.inbox.set_limit(limit);
    }

    fn option(&self, level: u32, name: u32) -> Result<Vec<u8>> {
        let (base, place) = (&self.base, &self.place);
        self.options.get(base, place, level, name, self.state())
    }

    fn set_option(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        let (base, place) = (&self.base, &self.place);
        self.options.set(base, place, level, name, value)
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
