//! UDP: datagrams, which are dropped if there is no room for them.

mod input;
mod send;

pub use input::{receive, report};
use send::append;

use super::bind::Place;
use super::coverage::Coverage;
use super::mailbox::Mailbox;
use super::options::{Options, UDP, UDP_LITE};
use super::packet::{HEAD_V4, HEAD_V6};
use super::ports::Ports;
use super::{
    Header, check_broadcast, check_device, check_leaving, leaves, reached, sender, source,
};
use crate::errno::{Errno, Result};
use crate::fs::io::Sink;
use crate::fs::poll::{Events, PollTable};
use crate::mm::heap::try_arc;
use crate::net::DATAGRAM;
use crate::net::address::{Address, FAMILY, Name, unspecified};
use crate::net::channel::{Found, Kind};
use crate::net::control_message::Control;
use crate::net::interface::MTU;
use crate::net::socket::{Base, Outgoing, Received, Socket};
use crate::net::wait::Wait;
use crate::sync::{Mutex, SleepMutex};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use linux_raw_sys::net::*;

/// The maximum size of a datagram: that of a packet without the headers of UDP and IPv4; IPv6 does
/// not count its own header.
const MAX: usize = 65535 - 8;
const MAX_V4: usize = MAX - HEAD_V4;
/// The maximum that IPv6 sends without fragmenting.
const MAX_WHOLE: usize = MTU as usize - HEAD - HEAD_V6;
/// The size of UDP's header.
const HEAD: usize = super::UDP_HEAD;
/// UDP_CORK
const CORK: u32 = 1;
/// UDP_NO_CHECK6_TX and UDP_NO_CHECK6_RX: IPv6 datagrams are sent, and received, without a
/// checksum.
const UNSUMMED_SENT: u32 = 101;
const UNSUMMED_RECEIVED: u32 = 102;
/// IPV6_MTU_DISCOVER and IPV6_DONTFRAG, and the values of the former that forbid fragmentation.
const IPV6_MTU_DISCOVER: u32 = 23;
const IPV6_DONTFRAG: u32 = 62;
const IP_MTU_DISCOVER: u32 = 10;
const DISCOVERS: core::ops::RangeInclusive<i32> = 2..=3;
/// The maximum number of datagrams of one send (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 128;
/// States as shown in /proc/net/udp.
const CONNECTED: u8 = 1;
const UNCONNECTED: u8 = 7;

/// The beginning of a datagram.
struct Begun {
    to: SocketAddr,
    from: SocketAddr,
    header: Header,
    bytes: Vec<u8>,
}

/// A UDP or UDP-Lite socket.
pub struct Udp {
    base: Base,
    place: Place,
    options: Options,
    coverage: Coverage,
    mail: Mailbox,
    peer: Mutex<Option<SocketAddr>>,
    /// The begun datagram, to which more will be added (MSG_MORE, UDP_CORK).
    begun: SleepMutex<Option<Begun>>,
    /// Its size, for readers without the lock.
    begun_bytes: AtomicUsize,
}

impl Udp {
    /// Creates an unbound socket of a protocol whose ports are `ports`.
    pub fn new(domain: u32, protocol: u32, ports: &'static Ports) -> Result<Arc<Self>> {
        let base = Base::new(domain, DATAGRAM, protocol)?;
        try_arc(Udp {
            mail: Mailbox::new(&base, Kind::Datagrams)?,
            base,
            place: Place::new(ports),
            options: Options::new(domain),
            coverage: Coverage::new(),
            peer: Mutex::new(None),
            begun: SleepMutex::new(None),
            begun_bytes: AtomicUsize::new(0),
        })
    }

    fn is_lite(&self) -> bool {
        self.base.protocol != IPPROTO_UDP as u32
    }

    fn connected_to(&self) -> Option<SocketAddr> {
        *self.peer.lock()
    }

    /// The address given with a message; `None` means the peer.
    fn named(&self, address: &Address) -> Result<Option<SocketAddr>> {
        if self.base.domain == AF_INET {
            return address.inet_or_unspecified(AF_INET).map(Some);
        }
        match address.family() {
            _ if address.len() < FAMILY => Err(Errno::EINVAL),
            // As on Linux, IPv6 has no route to a mapped address.
            AF_UNSPEC if self.connected_to().is_some_and(|to| to.is_ipv4()) => {
                Err(Errno::ENETUNREACH)
            }
            AF_UNSPEC => Ok(None),
            AF_INET if self.place.only_v6.load(Relaxed) => Err(Errno::ENETUNREACH),
            AF_INET => address.inet(AF_INET).map(Some),
            AF_INET6 => self.reached_from_here(address.inet(AF_INET6)?).map(Some),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The address to use for `to`: a socket that is bound to a mapped address only reaches mapped
    /// addresses.
    fn reached_from_here(&self, to: SocketAddr) -> Result<SocketAddr> {
        let bound = self.place.local().map(|local| local.ip());
        match bound {
            Some(IpAddr::V4(_)) if to.ip() == Ipv6Addr::UNSPECIFIED => {
                Ok((Ipv4Addr::LOCALHOST, to.port()).into())
            }
            Some(IpAddr::V4(_)) if to.is_ipv6() => Err(Errno::EAFNOSUPPORT),
            _ => Ok(to),
        }
    }

    /// The address given to connect(2), which may be an IPv4 one for an IPv6 socket, too.
    fn named_peer(&self, address: &Address) -> Result<SocketAddr> {
        match (self.base.domain, address.family()) {
            (AF_INET6, AF_INET) if self.place.only_v6.load(Relaxed) => Err(Errno::EAFNOSUPPORT),
            (AF_INET6, AF_INET) => address.inet(AF_INET),
            (domain, _) => address.inet(domain),
        }
    }

    /// The destination and the source of a datagram to `to`.
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
        let ip = sender(own.ip(), from);
        check_leaving(ip, to.ip())?;
        check_device(&self.base, to.ip())?;
        Ok((to, SocketAddr::new(ip, own.port())))
    }
}

/// The level of an option: those of UDP and UDP-Lite are the same.
fn option_level(level: u32) -> u32 {
    if level == UDP_LITE { UDP } else { level }
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
            self.place.disconnect(false);
            return Ok(());
        }
        let given = self.named_peer(address)?;
        let port = given.port().max(1);
        let (mut to, from) = self.route(SocketAddr::new(given.ip(), port))?;
        check_broadcast(&self.base, to.ip())?;
        if leaves(to.ip()) {
            self.way(to.ip(), from.ip())?;
        }
        to.set_port(given.port());
        self.place.bind_any_to(from.ip());
        self.place.disable_hashing();
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
        let mut begun = self.begun.lock_killable()?;
        let len = message.data.left();
        if len > usize::from(u16::MAX) {
            return Err(Errno::EMSGSIZE);
        }
        let connected = self.connected_to();
        // Only IPv6 checks the address of a further part.
        let looks = begun.is_none() || self.base.domain == AF_INET6;
        let named = match message.to.filter(|_| looks) {
            Some(address) => self.named(&address)?,
            None => None,
        };
        let to = match (&*begun, named) {
            (Some(begun), Some(SocketAddr::V4(_))) if begun.to.is_ipv6() => {
                return Err(Errno::EINVAL);
            }
            (Some(begun), _) => begun.to,
            (None, Some(to)) => to,
            (None, None) => connected.ok_or(Errno::EDESTADDRREQ)?,
        };
        let (to, mut from) = self.route(to)?;
        // If connect(2) or an earlier part checked it, the option no longer matters.
        if begun.is_none() && named.is_some() {
            check_broadcast(&self.base, to.ip())?;
        }
        let mut ancillary = message.ancillary;
        ancillary.header.complete(&self.options, to);
        ancillary
            .header
            .mark
            .get_or_insert(self.base.options.mark());
        ancillary.header.covered = self.coverage.of_sent(len);
        ancillary.header.unsummed = to.is_ipv6() && self.options.is_on(UDP, UNSUMMED_SENT);
        let whole = ancillary.header.whole;
        self.check_len(
            whole,
            len + begun.as_ref().map_or(0, |begun| begun.bytes.len()),
            to,
        )?;
        // As on Linux, a pending error is kept if there is nothing to send.
        self.mail.check_send()?;
        if let Some(ip) = ancillary.header.from {
            if ip.is_ipv4() != to.is_ipv4() {
                return Err(Errno::EINVAL);
            }
            from.set_ip(ip);
        }
        let corked = message.flags & MSG_MORE != 0 || self.options.value(UDP, CORK) != 0;
        if !corked && begun.is_none() {
            drop(begun);
            self.check_segments(&ancillary.header, to, len)?;
            return self.deliver(message.data, ancillary, to, from);
        }
        let datagram = begun.get_or_insert_with(|| Begun {
            to,
            from,
            header: ancillary.header,
            bytes: Vec::new(),
        });
        if let Err(error) = append(&mut datagram.bytes, message.data) {
            // As on Linux, none of it is sent.
            *begun = None;
            self.count_begun(0);
            return Err(error);
        }
        self.count_begun(datagram.bytes.len());
        if !corked {
            self.finish(begun.take())?;
        }
        Ok(len)
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        let options = &self.base.options;
        let mut received = self
            .mail
            .receive(to, flags, options.peek_skip(flags), wait)?;
        if received.found.before > 0 {
            received.flags |= MSG_TRUNC;
            if flags & MSG_TRUNC != 0 {
                received.count = received.found.whole + received.found.before;
            }
        }
        options.went_past(flags, received.count);
        Ok(received)
    }

    fn put_header(&self, found: &Found, control: &mut Control) -> Result<()> {
        found.ancillary.header.put(&self.options, control)
    }

    fn shutdown(&self, read: bool, write: bool) -> Result<()> {
        let connected = self.connected_to();
        self.mail.shutdown(read, write);
        connected.map(|_| ()).ok_or(Errno::ENOTCONN)
    }

    fn poll(&self, table: Option<&mut PollTable>) -> Events {
        self.mail.poll(&self.base, table)
    }

    fn waiting(&self) -> Result<(usize, usize)> {
        Ok((self.mail.inbox.first_len()?, 0))
    }

    fn held(&self) -> usize {
        self.mail.held() + self.begun_bytes.load(Relaxed)
    }

    fn drops(&self) -> u32 {
        self.mail.inbox.drops()
    }

    fn take_error(&self) -> Option<Errno> {
        self.mail.inbox.take_error()
    }

    fn incoming_cpu(&self) -> Option<u32> {
        self.connected_to().and_then(|_| self.mail.inbox.cpu())
    }

    fn set_incoming_cpu(&self) {
        self.mail.inbox.forget_cpu();
        self.place.cpu_preference_changed(&self.base);
    }

    fn options_changed(&self) {
        self.mail.options_changed(&self.base);
    }

    fn option(&self, level: u32, name: u32) -> Result<Vec<u8>> {
        let level = option_level(level);
        if self.is_lite()
            && let Some(value) = self.coverage.get(level, name)
        {
            return value;
        }
        let (base, place) = (&self.base, &self.place);
        self.options.get(base, place, level, name, self.state())
    }

    fn set_option(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        let level = option_level(level);
        if self.is_lite()
            && let Some(done) = self.coverage.set(level, name, value)
        {
            return done;
        }
        let (base, place) = (&self.base, &self.place);
        self.options.set(base, place, level, name, value)?;
        self.mail.option_set(&self.options, level, name);
        if (level, name) == (UDP, CORK) && self.options.value(UDP, CORK) == 0 {
            let begun = self.begun.lock_killable()?.take();
            // As on Linux, setting the option does not report what happens to the datagram.
            _ = self.finish(begun);
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
        self.count_begun(0);
        self.mail.inbox.die();
    }
}
