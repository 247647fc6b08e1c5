//! UDP: datagrams, which are lost where there is no room for them.

use super::bind::Place;
use super::coverage::Coverage;
use super::errors::{IP_RECVERR, IPV6_RECVERR, QUOTED, Report, Sent};
use super::icmp::{self, Why};
use super::mailbox::Mailbox;
use super::options::{IP, IPV6, IPV6_MTU, Options, UDP, UDP_LITE};
use super::packet::{HEAD_V4, HEAD_V6, ICMP, ICMP_V6, Packet, Route, add, fold, pseudo};
use super::ports::{self, Ports};
use super::udp_memory;
use super::{
    Header, check_broadcast, check_device, check_leaving, hears, is_broadcast, leaves, raw,
    reached, sender, source,
};
use crate::errno::{Errno, Result};
use crate::fs::io::{Sink, Source};
use crate::fs::poll::{Events, PollTable};
use crate::mm::heap::try_arc;
use crate::net::DATAGRAM;
use crate::net::address::{Address, FAMILY, Name, unspecified};
use crate::net::channel::{Found, Kind};
use crate::net::control_message::{Ancillary, Control};
use crate::net::ether::routing::{self, Way};
use crate::net::ether::{self, Carried};
use crate::net::interface::MTU;
use crate::net::mib::{self, Event};
use crate::net::socket::{Base, Outgoing, Received, Socket, copied};
use crate::net::wait::Wait;
use crate::sync::{Mutex, SleepMutex};
use crate::task::sched::cond_resched_killable;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use linux_raw_sys::net::*;

/// The most bytes of a datagram: what a packet's length can say, without the headers of UDP and
/// IPv4; IPv6 does not count its own.
const MAX: usize = 65535 - 8;
const MAX_V4: usize = MAX - HEAD_V4;
/// The most that IPv6 sends in one piece.
const MAX_WHOLE: usize = MTU as usize - HEAD - HEAD_V6;
/// Bytes of UDP's header.
const HEAD: usize = super::UDP_HEAD;
/// UDP_CORK
const CORK: u32 = 1;
/// UDP_NO_CHECK6_TX and UDP_NO_CHECK6_RX: datagrams over IPv6 are sent, and received, without a
/// checksum.
const UNSUMMED_SENT: u32 = 101;
const UNSUMMED_RECEIVED: u32 = 102;
/// IPV6_MTU_DISCOVER and IPV6_DONTFRAG, and the values of the former that let nothing be
/// fragmented.
const IPV6_MTU_DISCOVER: u32 = 23;
const IPV6_DONTFRAG: u32 = 62;
const IP_MTU_DISCOVER: u32 = 10;
const DISCOVERS: core::ops::RangeInclusive<i32> = 2..=3;
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
    coverage: Coverage,
    mail: Mailbox,
    peer: Mutex<Option<SocketAddr>>,
    /// The begun datagram, to which more will be added (MSG_MORE, UDP_CORK).
    begun: SleepMutex<Option<Begun>>,
    /// Its bytes, for those who look without the lock.
    begun_bytes: AtomicUsize,
}

impl Udp {
    /// A socket that is bound to nothing, of a protocol whose ports are `ports`.
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

    /// The address that a message names; `None` leaves it to the peer.
    fn named(&self, address: &Address) -> Result<Option<SocketAddr>> {
        if self.base.domain == AF_INET {
            return address.inet_or_unspecified(AF_INET).map(Some);
        }
        match address.family() {
            _ if address.len() < FAMILY => Err(Errno::EINVAL),
            // As on Linux IPv6 has no way to a mapped address.
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

    /// The address that `to` stands for: a socket that is bound to a mapped address reaches others
    /// of these alone.
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

    /// The address that connect(2) names, which may be of IPv4 at a socket of IPv6 too.
    fn named_peer(&self, address: &Address) -> Result<SocketAddr> {
        match (self.base.domain, address.family()) {
            (AF_INET6, AF_INET) if self.place.only_v6.load(Relaxed) => Err(Errno::EAFNOSUPPORT),
            (AF_INET6, AF_INET) => address.inet(AF_INET),
            (domain, _) => address.inet(domain),
        }
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
        let ip = sender(own.ip(), from);
        check_leaving(ip, to.ip())?;
        check_device(&self.base, to.ip())?;
        Ok((to, SocketAddr::new(ip, own.port())))
    }
}

impl Udp {
    /// Delivers a datagram, and a copy of it to raw sockets.
    fn deliver(
        &self,
        data: &mut Source,
        ancillary: Ancillary,
        to: SocketAddr,
        from: SocketAddr,
    ) -> Result<usize> {
        if leaves(to.ip()) {
            return self.send_out(data, ancillary.header, to, from);
        }
        let protocol = self.base.protocol as u8;
        let icmp = if to.is_ipv4() { ICMP } else { ICMP_V6 };
        let seen = raw::is_seen(protocol) || raw::is_seen(icmp);
        let stamping = &self.base.options.stamping;
        let asked = stamping.of_datagram(ancillary.header.stamps);
        if !seen && asked.is_none() {
            return self.hand_over(data, ancillary, to, from, None);
        }
        let bytes = copied(data, MAX)?;
        let packet = packet(&bytes, protocol, ancillary.header, [from, to])?;
        if let Some(asked) = asked {
            let sent = Sent {
                asked,
                ends: [from, to],
                header: ancillary.header,
                packet: Some(packet.bytes()),
            };
            self.mail.report_sent(&self.base, &sent);
        }
        raw::deliver(&packet);
        let data = &mut Source::kernel(&bytes);
        self.hand_over(data, ancillary, to, from, seen.then_some(&packet))
    }

    /// The way to another machine.
    fn way(&self, to: IpAddr, from: IpAddr) -> Result<Way> {
        match self.options.is_transparent() {
            true => routing::find_for_any(to, Some(from)),
            false => routing::find(to, Some(from)),
        }
    }

    /// Sends a datagram, or several of UDP_SEGMENT, to another machine, or to all of a network.
    fn send_out(
        &self,
        data: &mut Source,
        header: Header,
        to: SocketAddr,
        from: SocketAddr,
    ) -> Result<usize> {
        // Its checksum is UDP's own only where all is covered; nobody out there is known to speak
        // it.
        if self.is_lite() {
            return Err(Errno::ENETUNREACH);
        }
        let way = self.way(to.ip(), from.ip())?;
        let bytes = copied(data, MAX)?;
        if let Some(asked) = self.base.options.stamping.of_datagram(header.stamps) {
            let packet = packet(&bytes, self.base.protocol as u8, header, [from, to])?;
            let sent = Sent {
                asked,
                ends: [from, to],
                header,
                packet: Some(packet.bytes()),
            };
            self.mail.report_sent(&self.base, &sent);
        }
        let summed = match to {
            SocketAddr::V4(_) => !self.base.options.is_on(SO_NO_CHECK),
            SocketAddr::V6(_) => !header.unsummed,
        };
        let (discover, head) = match to {
            SocketAddr::V4(_) => (self.options.value(IP, IP_MTU_DISCOVER), HEAD_V4),
            SocketAddr::V6(_) => (self.options.value(IPV6, IPV6_MTU_DISCOVER), HEAD_V6),
        };
        let never_cut = DISCOVERS.contains(&discover) || header.whole == Some(true);
        let step = header.segment.map_or(bytes.len().max(1), usize::from);
        let mut datagrams = bytes.chunks(step);
        let mut next = Some(datagrams.next().unwrap_or_default());
        while let Some(datagram) = next {
            let fits = head + HEAD + datagram.len() <= way.mtu as usize;
            let carried = Carried {
                from: from.ip(),
                to: to.ip(),
                protocol: self.base.protocol as u8,
                hops: if to.ip().is_multicast() {
                    1
                } else {
                    header.hop_limit()
                },
                class: header.class(),
                whole: never_cut || fits && discover != 0,
            };
            let udp = ip::udp::header(from, to, datagram, summed);
            ether::send(&way, &carried, &[&udp, datagram])?;
            self.count(Event::Sent, to);
            next = datagrams.next();
        }
        if is_broadcast(to.ip()) {
            self.hand_to_all(&bytes, header.alone(), to, from)?;
        }
        Ok(bytes.len())
    }

    /// Delivers a datagram whose copy `packet` raw sockets have seen.
    fn hand_over(
        &self,
        data: &mut Source,
        ancillary: Ancillary,
        to: SocketAddr,
        from: SocketAddr,
        packet: Option<&Packet>,
    ) -> Result<usize> {
        let len = data.left();
        let head = if to.is_ipv4() { HEAD_V4 } else { HEAD_V6 };
        mib::packet(to.is_ipv6(), head + HEAD + len);
        self.count(Event::Sent, to);
        if is_broadcast(to.ip()) {
            let bytes = copied(data, MAX)?;
            self.hand_to_all(&bytes, ancillary.header, to, from)?;
            return Ok(len);
        }
        let Some(target) = receiver(self.place.ports(), to, from) else {
            self.refused(data, to)?;
            if let Some(packet) = packet {
                icmp::refuse(packet, Why::Port);
            }
            return Ok(len);
        };
        target.take_segments(data, ancillary, from)?;
        Ok(len)
    }

    /// Delivers a datagram for a broadcast address to every socket that receives there.
    fn hand_to_all(
        &self,
        bytes: &[u8],
        header: Header,
        to: SocketAddr,
        from: SocketAddr,
    ) -> Result<()> {
        let mut taken = false;
        for target in self.place.ports().holders(to) {
            cond_resched_killable()?;
            if let Some(target) = broadcast_receiver(&target, to, from) {
                let ancillary = Ancillary {
                    header,
                    ..Ancillary::default()
                };
                target.take_segments(&mut Source::kernel(bytes), ancillary, from)?;
                taken = true;
            }
        }
        if !taken {
            self.count(Event::Ignored, to);
        }
        Ok(())
    }

    /// Receives the bytes of one call: a datagram, or several of UDP_SEGMENT.
    fn take_segments(
        &self,
        data: &mut Source,
        ancillary: Ancillary,
        from: SocketAddr,
    ) -> Result<()> {
        let header = ancillary.header;
        match header.segment {
            Some(bytes) if data.left() > bytes.into() => {
                self.take_many(data, header, bytes.into(), from)
            }
            _ => {
                let header = header.alone();
                let ancillary = Ancillary {
                    header,
                    ..ancillary
                };
                self.take(data, ancillary, from)
            }
        }
    }

    /// Receives a datagram; without room it is lost.
    fn take(&self, data: &mut Source, ancillary: Ancillary, from: SocketAddr) -> Result<()> {
        let uncovered = !self.coverage.takes(ancillary.header.covered);
        let damaged =
            uncovered || ancillary.header.unsummed && !self.options.is_on(UDP, UNSUMMED_RECEIVED);
        let taken = if damaged {
            data.discard()?;
            self.mail.inbox.count_drop();
            false
        } else {
            self.mail.take(data, ancillary, from)?
        };
        let event = if taken {
            Event::Received
        } else {
            Event::Overflows
        };
        self.count(event, from);
        Ok(())
    }

    fn count(&self, event: Event, other: SocketAddr) {
        mib::datagram(event, self.is_lite(), other.is_ipv6());
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
            let data = &mut Source::kernel(one);
            self.take(data, with(header.alone()), from)?;
        }
        Ok(())
    }

    /// No socket has port `to`: the sender gets the error if it is connected there, or if it set
    /// IP_RECVERR.
    fn refused(&self, data: &mut Source, to: SocketAddr) -> Result<()> {
        self.count(Event::NoPorts, to);
        let asked = if to.is_ipv4() {
            self.options.is_on(IP, IP_RECVERR)
        } else {
            self.options.is_on(IPV6, IPV6_RECVERR)
        };
        let report = Report::refused(to.ip(), Why::Port);
        if asked {
            self.mail.report(report, to, copied(data, QUOTED)?);
        } else if self.connected_to().is_some() {
            self.mail.inbox.fail(Errno::ECONNREFUSED);
        }
        data.discard().map(|_| ())
    }

    /// As [`report`].
    fn told(&self, report: &Report, to: SocketAddr, quoted: &[u8]) {
        let asked = match to.is_ipv4() {
            true => self.options.is_on(IP, IP_RECVERR),
            false => self.options.is_on(IPV6, IPV6_RECVERR),
        };
        if asked {
            let quoted = &quoted[..quoted.len().min(QUOTED)];
            if let Ok(quoted) = copied(&mut Source::kernel(quoted), QUOTED) {
                self.mail.report(*report, to, quoted);
            }
        } else if self.connected_to().is_some()
            && report.ends()
            && let Some(error) = report.error()
        {
            self.mail.inbox.fail(error);
        }
    }

    /// EMSGSIZE for more bytes than a datagram to `to` can have.
    fn check_len(&self, whole: Option<bool>, len: usize, to: SocketAddr) -> Result<()> {
        let whole = DISCOVERS.contains(&self.options.value(IPV6, IPV6_MTU_DISCOVER))
            || whole.unwrap_or_else(|| self.options.is_on(IPV6, IPV6_DONTFRAG));
        let most = match to {
            SocketAddr::V4(_) => MAX_V4,
            SocketAddr::V6(_) if whole => self.longest_whole(),
            SocketAddr::V6(_) => MAX,
        };
        if len > most {
            Err(Errno::EMSGSIZE)
        } else {
            Ok(())
        }
    }

    /// The most that IPv6 sends in one piece, as far as IPV6_MTU lets it.
    fn longest_whole(&self) -> usize {
        match self.options.value(IPV6, IPV6_MTU) as usize {
            0 => MAX_WHOLE,
            packet => MAX_WHOLE.min(packet - HEAD - HEAD_V6),
        }
    }

    /// EINVAL for more datagrams at once than can be, and for any without a checksum; EIO for those
    /// of UDP-Lite.
    fn check_segments(&self, header: &Header, to: SocketAddr, len: usize) -> Result<()> {
        let Some(bytes) = header.segment else {
            return Ok(());
        };
        let unsummed = match to {
            SocketAddr::V4(_) => self.base.options.is_on(SO_NO_CHECK),
            SocketAddr::V6(_) => header.unsummed,
        };
        if unsummed || len > usize::from(bytes) * MAX_SEGMENTS {
            return Err(Errno::EINVAL);
        }
        if self.is_lite() {
            return Err(Errno::EIO);
        }
        Ok(())
    }

    /// The begun datagram has so many bytes now.
    fn count_begun(&self, bytes: usize) {
        let before = self.begun_bytes.swap(bytes, Relaxed);
        udp_memory::changed(before, bytes);
    }

    /// Sends the begun datagram, if there is one.
    fn finish(&self, begun: Option<Begun>) -> Result<()> {
        let Some(begun) = begun else { return Ok(()) };
        self.count_begun(0);
        self.check_segments(&begun.header, begun.to, begun.bytes.len())?;
        let ancillary = Ancillary {
            header: begun.header,
            ..Ancillary::default()
        };
        let mut data = Source::kernel(&begun.bytes);
        self.deliver(&mut data, ancillary, begun.to, begun.from)
            .map(|_| ())
    }
}

/// The level of an option: UDP's and UDP-Lite's are the same.
fn option_level(level: u32) -> u32 {
    if level == UDP_LITE { UDP } else { level }
}

/// Adds what is sent to a datagram. ENOBUFS, EFAULT.
fn append(bytes: &mut Vec<u8>, data: &mut Source) -> Result<()> {
    let (start, len) = (bytes.len(), data.left());
    if !udp_memory::is_free(start + len) {
        return Err(Errno::ENOBUFS);
    }
    bytes.try_reserve(len).map_err(|_| Errno::ENOBUFS)?;
    bytes.resize(start + len, 0);
    if data.take(&mut bytes[start..])? != len {
        return Err(Errno::EFAULT);
    }
    Ok(())
}

/// The socket that receives datagrams from `from` to `to`.
fn receiver(ports: &Ports, to: SocketAddr, from: SocketAddr) -> Option<Arc<Udp>> {
    let found = ports.find(to, from, |_| true, |socket| rank(socket, from));
    found.and_then(|socket| socket.downcast())
}

/// The socket, if it still exists and receives datagrams from `from` to the broadcast address `to`.
fn broadcast_receiver(
    socket: &Weak<dyn Socket>,
    to: SocketAddr,
    from: SocketAddr,
) -> Option<Arc<Udp>> {
    let socket = socket.upgrade()?;
    rank(&socket, from)?;
    // A connected socket exchanged "any" for an address of its own.
    let udp: Arc<Udp> = socket.downcast()?;
    let own = udp.place.local()?.ip();
    (own.is_unspecified() || own == to.ip()).then_some(udp)
}

/// The packet that a datagram would be.
fn packet(
    bytes: &[u8],
    protocol: u8,
    header: Header,
    [from, to]: [SocketAddr; 2],
) -> Result<Packet> {
    let route = Route {
        from: from.ip(),
        to: to.ip(),
        protocol,
    };
    let mut head = [0; HEAD];
    head[..2].copy_from_slice(&from.port().to_be_bytes());
    head[2..4].copy_from_slice(&to.port().to_be_bytes());
    let len = HEAD + bytes.len();
    head[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    let sum = fold(add(add(pseudo(&route, len), &head), bytes));
    head[6..].copy_from_slice(&sum.to_be_bytes());
    Packet::new(route, header.alone(), &[&head, bytes], true)
}

/// A machine has said something of a datagram, of which it quotes this: its sender learns that, if
/// there is one.
pub fn report(report: &Report, from: SocketAddr, to: SocketAddr, quoted: &[u8]) -> bool {
    let sender = receiver(&ports::UDP, from, to);
    if let Some(sender) = &sender {
        sender.told(report, to, quoted);
    }
    sender.is_some()
}

/// A datagram arrives that a raw socket sent, or another machine.
pub fn receive(packet: &Packet) {
    let Some((head, bytes)) = packet.body().split_first_chunk::<HEAD>() else {
        return;
    };
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let Route { from, to, .. } = packet.route;
    let unsummed = word(6) == 0 && to.is_ipv4();
    let whole = usize::from(word(4)) == packet.body().len();
    if !whole || !unsummed && packet.sum() != 0 {
        return;
    }
    let (from, to) = (SocketAddr::new(from, word(0)), SocketAddr::new(to, word(2)));
    let mut header = packet.header;
    header.set_to(to);
    let take = |target: &Udp| {
        let ancillary = Ancillary {
            header,
            ..Ancillary::default()
        };
        // The kernel's own bytes can always be read, so only datagrams without room are lost.
        _ = target
            .mail
            .take(&mut Source::kernel(bytes), ancillary, from);
    };
    if is_broadcast(to.ip()) {
        for target in ports::UDP.holders(to) {
            if cond_resched_killable().is_err() {
                return;
            }
            if let Some(target) = broadcast_receiver(&target, to, from) {
                take(&target);
            }
        }
        return;
    }
    match receiver(&ports::UDP, to, from) {
        Some(target) => take(&target),
        None => icmp::refuse(packet, Why::Port),
    }
}

/// How well a socket fits a datagram from `from`: one connected to there is best; one connected
/// elsewhere does not take it.
fn rank(socket: &Arc<dyn Socket>, from: SocketAddr) -> Option<(bool, bool)> {
    let base = socket.base();
    if !hears(base, from.ip()) {
        return None;
    }
    let here = base.options.prefers_this_cpu();
    match socket.peer() {
        Ok(Name::Inet(peer)) if peer == from => Some((true, here)),
        Ok(_) => None,
        Err(_) => Some((false, here)),
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
        // IPv6 alone looks at the address of a further part.
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
        // Where connect(2) or an earlier part asked, the option no longer matters.
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
        // As on Linux an error that waits stays where there is nothing to send.
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
            // As on Linux nothing of it is sent.
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
            // As on Linux the option does not tell what becomes of the datagram.
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
