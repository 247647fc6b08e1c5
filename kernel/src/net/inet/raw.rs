//! Raw sockets, which send and receive whole packets of a protocol, and ping sockets, through which
//! the groups of `ping_group_range` send echo requests.

use super::bind::Place;
use super::errors::{IP_RECVERR, IPV6_RECVERR, QUOTED, Report, Sent};
use super::icmp::{self, Why};
use super::mailbox::Mailbox;
use super::options::{IP, IPV6, Options};
use super::packet::{ICMP, ICMP_V6, MOST, Packet, Route, add, fold, pseudo};
use super::{
    Header, check_broadcast, check_device, check_leaving, hears, is_broadcast, is_local, ports,
    reached, sender, source,
};
use crate::errno::{Errno, Result};
use crate::fs::io::{Sink, Source};
use crate::fs::poll::{Events, PollTable};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_arc;
use crate::net::address::{Address, FAMILY, Name, SIZE_V6, unspecified};
use crate::net::channel::{Found, Kind};
use crate::net::control_message::{Ancillary, Control};
use crate::net::options::{bytes, number};
use crate::net::socket::{Base, Outgoing, Received, Socket, copied};
use crate::net::wait::Wait;
use crate::net::{DATAGRAM, RAW};
use crate::sync::Mutex;
use crate::task::sched::cond_resched_killable;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::*};
use linux_raw_sys::net::{AF_INET, AF_INET6, IPPROTO_RAW, MSG_OOB, SO_REUSEADDR};
use zerocopy::IntoBytes;

/// Levels of options: of all raw sockets, and of ICMPv6.
const SOL_RAW: u32 = 255;
const SOL_ICMP_V6: u32 = 58;
/// ICMP_FILTER and ICMPV6_FILTER, IP_HDRINCL, IPV6_CHECKSUM and IPV6_HDRINCL.
const FILTER: u32 = 1;
const IP_HDRINCL: u32 = 3;
const IPV6_CHECKSUM: u32 = 7;
const IPV6_HDRINCL: u32 = 36;
/// States as shown in /proc/net/raw.
const CONNECTED: u8 = 1;
const UNCONNECTED: u8 = 7;
/// The number of protocol numbers (`IPPROTO_MAX`), some of which no packet has.
pub const PROTOCOLS: usize = 263;

/// The raw sockets of a protocol, by number.
type Members = HashMap<u64, Weak<Raw>>;

/// The raw sockets by family and protocol.
static ALL: Mutex<HashMap<(u32, u32), Members>> = Mutex::new(hash::new());
/// The number of sockets of each protocol, for readers without the lock.
static COUNTS: [AtomicUsize; PROTOCOLS] = [const { AtomicUsize::new(0) }; PROTOCOLS];

/// A raw socket, or a ping socket.
pub struct Raw {
    base: Base,
    place: Place,
    options: Options,
    mail: Mailbox,
    peer: Mutex<Option<SocketAddr>>,
    /// Whether sent bytes begin with the packet's header (IP_HDRINCL).
    with_header: AtomicBool,
    /// The offset of the checksum in an IPv6 payload (IPV6_CHECKSUM); negative for none.
    checksum: AtomicI32,
    /// Whether it was disconnected: as on Linux, a raw socket then receives nothing any more.
    unheard: AtomicBool,
    /// A bit for each type of ICMP messages that is filtered out (ICMP_FILTER).
    filter: Mutex<[u32; 8]>,
}

impl Raw {
    /// Creates a raw socket of a protocol.
    pub fn new(domain: u32, protocol: u32) -> Result<Arc<Self>> {
        let raw = Self::unlisted(domain, RAW, protocol)?;
        let mut all = ALL.lock();
        all.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let members = all.get_or_insert_with((domain, protocol), Members::default);
        members.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        members.insert(raw.base.number, Arc::downgrade(&raw));
        COUNTS[protocol as usize].fetch_add(1, AcqRel);
        drop(all);
        Ok(raw)
    }

    /// Creates a ping socket.
    pub fn ping(domain: u32, protocol: u32) -> Result<Arc<Self>> {
        Self::unlisted(domain, DATAGRAM, protocol)
    }

    fn unlisted(domain: u32, kind: u32, protocol: u32) -> Result<Arc<Self>> {
        let base = Base::new(domain, kind, protocol)?;
        // As on Linux, all of them share their addresses, and ping sockets their identifiers.
        base.options.turn_on(SO_REUSEADDR);
        let sums = kind == RAW && (domain, protocol) == (AF_INET6, ICMP_V6.into());
        try_arc(Raw {
            mail: Mailbox::new(&base, Kind::Records)?,
            base,
            place: Place::new(&ports::PING),
            options: Options::new(domain),
            peer: Mutex::new(None),
            with_header: AtomicBool::new(kind == RAW && protocol == IPPROTO_RAW as u32),
            checksum: AtomicI32::new(if sums { 2 } else { -1 }),
            unheard: AtomicBool::new(false),
            filter: Mutex::new([0; 8]),
        })
    }

    fn is_raw(&self) -> bool {
        self.base.kind == RAW
    }

    fn connected_to(&self) -> Option<SocketAddr> {
        *self.peer.lock()
    }

    fn is_v6(&self) -> bool {
        self.base.domain == AF_INET6
    }

    /// Whether its packets are ICMP messages.
    fn is_icmp(&self) -> bool {
        let icmp = if self.is_v6() { ICMP_V6 } else { ICMP };
        self.base.protocol == icmp.into()
    }

    /// Whether it receives packets between these addresses.
    fn is_between(&self, own: IpAddr, peer: IpAddr) -> bool {
        if self.unheard.load(Acquire) {
            return false;
        }
        let bound = self.place.local().map(|local| local.ip());
        let at = bound.is_none_or(|ip| ip.is_unspecified() || ip == own);
        at && self.connected_to().is_none_or(|to| to.ip() == peer) && hears(&self.base, peer)
    }

    fn is_filtered(&self, packet: &Packet) -> bool {
        let kinds = if self.is_v6() { 256 } else { 32 };
        let kind = icmp::kind(packet).map_or(0, usize::from);
        self.is_icmp() && kind < kinds && self.filter.lock()[kind / 32] >> (kind % 32) & 1 != 0
    }

    /// Whether the socket accepts a packet of its protocol.
    fn takes(&self, packet: &Packet) -> bool {
        let damaged = self.is_v6() && self.checksum.load(Acquire) >= 0 && packet.sum() != 0;
        self.is_between(packet.route.to, packet.route.from) && !damaged && !self.is_filtered(packet)
    }

    /// Receives a packet, or the part of it that it sees.
    fn take(&self, packet: &Packet, seen: &[u8]) {
        let ancillary = Ancillary {
            header: packet.header,
            ..Ancillary::default()
        };
        let from = SocketAddr::new(packet.route.from, 0);
        // The kernel's own memory can always be read, so packets are only dropped for lack of room.
        _ = self.mail.take(&mut Source::kernel(seen), ancillary, from);
    }

    /// The error for an IPv4 address on an IPv6 socket.
    fn foreign(&self, error: Errno) -> Errno {
        if self.is_raw() { error } else { Errno::EINVAL }
    }

    /// The destination of a message.
    fn target(&self, address: Option<&Address>) -> Result<IpAddr> {
        let Some(address) = address else {
            let to = self.connected_to().ok_or(Errno::EDESTADDRREQ)?;
            return Ok(to.ip());
        };
        let to = match self.is_raw() {
            true => address.inet_or_unspecified(self.base.domain)?,
            false => self.whole(address)?.inet(self.base.domain)?,
        };
        let port = u32::from(to.port());
        let is_header = self.base.protocol == IPPROTO_RAW as u32;
        if self.is_raw() && self.is_v6() && port != 0 && port != self.base.protocol && !is_header {
            return Err(Errno::EINVAL);
        }
        Ok(to.ip())
    }

    /// An IPv6 address for a ping socket, including its scope. EINVAL without that.
    fn whole<'a>(&self, address: &'a Address) -> Result<&'a Address> {
        match self.is_v6() && address.len() < SIZE_V6 {
            true => Err(Errno::EINVAL),
            false => Ok(address),
        }
    }

    /// The source and destination of a packet to `to`.
    fn route_of_packet(self: &Arc<Self>, to: IpAddr) -> Result<Route> {
        if self.is_v6() && to.is_ipv4() {
            return Err(self.foreign(Errno::ENETUNREACH));
        }
        // A socket that is connected to a mapped address cannot send to others.
        if self.is_v6() && self.place.local().is_some_and(|own| own.is_ipv4()) {
            return Err(Errno::EAFNOSUPPORT);
        }
        if self.is_v6() && !self.is_raw() && to.is_unspecified() {
            return Err(Errno::ENETUNREACH);
        }
        self.route(to)
    }

    /// The source and destination of a packet to `to`, for either family.
    fn route(self: &Arc<Self>, to: IpAddr) -> Result<Route> {
        let to = reached(to);
        let mut from = source(to)?;
        if !self.is_raw() {
            let any = unspecified(self.base.domain);
            let how = self.options.binding();
            let weak = Arc::downgrade(self);
            self.place.claim_any(any, &self.base, how, weak)?;
        }
        if let Some(own) = self.place.local() {
            from = sender(own.ip(), from);
        }
        check_broadcast(&self.base, to)?;
        check_leaving(from, to)?;
        check_device(&self.base, to)?;
        Ok(Route {
            from,
            to,
            protocol: self.base.protocol as u8,
        })
    }

    /// The packet for a message through a raw socket.
    fn packet(&self, mut body: Vec<u8>, route: Route, header: Header) -> Result<Packet> {
        if self.with_header.load(Acquire) {
            return Packet::written(body, route.from);
        }
        if self.is_icmp() && body.len() < 2 {
            // Linux's filter reads the message's type and code from the program's memory.
            return Err(Errno::EFAULT);
        }
        if let Ok(at) = usize::try_from(self.checksum.load(Acquire)) {
            let len = body.len();
            let field = body.get_mut(at..at + 2).ok_or(Errno::EINVAL)?;
            field.fill(0);
            let sum = fold(add(pseudo(&route, len), &body));
            body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        Packet::new(route, header, &[&body], true)
    }

    /// The packet of an echo request, whose identifier is the socket's own. EINVAL for any other
    /// message.
    fn request(&self, body: &[u8], route: Route, header: Header) -> Result<Packet> {
        let (head, rest) = body.split_first_chunk().ok_or(Errno::EINVAL)?;
        let mut head: [u8; icmp::HEAD] = *head;
        let kind = if self.is_v6() {
            icmp::ECHO_V6
        } else {
            icmp::ECHO
        };
        if head[..2] != [kind, 0] {
            return Err(Errno::EINVAL);
        }
        let own = self.place.local().ok_or(Errno::EINVAL)?;
        head[4..6].copy_from_slice(&own.port().to_be_bytes());
        icmp::seal(&route, &mut head, rest);
        Packet::new(route, header, &[&head, rest], true)
    }

    /// Reports that a packet, which it may have sent, has no receiver.
    fn report_error(&self, packet: &Packet, why: Why) {
        self.report(
            &Report::refused(packet.route.to, why),
            packet.route.to,
            packet.seen(),
        );
    }

    /// Receives a report about a packet to `to`, of which raw sockets see `seen`.
    fn report(&self, report: &Report, to: IpAddr, mut seen: &[u8]) {
        let option = if self.is_v6() {
            (IPV6, IPV6_RECVERR)
        } else {
            (IP, IP_RECVERR)
        };
        let (to, report) = (SocketAddr::new(to, 0), *report);
        if self.options.is_on(option.0, option.1) {
            seen = &seen[..seen.len().min(QUOTED)];
            if let Ok(quoted) = copied(&mut Source::kernel(seen), QUOTED) {
                self.mail.report(report, to, quoted);
            }
        } else if self.connected_to().is_some()
            && report.ends()
            && let Some(error) = report.error()
        {
            self.mail.inbox.fail(error);
        }
    }
}

/// Begins or ends to treat all packets as seen: there are packet sockets.
pub fn see_all(on: bool) {
    for count in &COUNTS {
        match on {
            true => count.fetch_add(1, AcqRel),
            false => count.fetch_sub(1, AcqRel),
        };
    }
}

/// Whether there is a raw socket for a protocol, or a packet socket.
pub fn is_seen(protocol: u8) -> bool {
    COUNTS[usize::from(protocol)].load(Acquire) != 0
}

/// Passes every raw socket of a family and protocol to `act`, without the lock.
fn members(family: u32, protocol: u32, mut act: impl FnMut(&Arc<Raw>)) {
    let mut found = Vec::new();
    {
        let all = ALL.lock();
        let Some(members) = all.get(&(family, protocol)) else {
            return;
        };
        if found.try_reserve(members.len()).is_err() {
            return;
        }
        found.extend(members.values().cloned());
    }
    // One after the other: a socket that is still referenced keeps its messages.
    for raw in &found {
        if cond_resched_killable().is_err() {
            return;
        }
        if let Some(raw) = raw.upgrade() {
            act(&raw);
        }
    }
}

fn family(packet: &Packet) -> u32 {
    match packet.route.to {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

/// Passes a copy of a packet to each raw socket that accepts it, and returns whether there was one.
pub fn deliver(packet: &Packet) -> bool {
    let mut taken = false;
    if is_seen(packet.route.protocol) {
        members(family(packet), packet.route.protocol.into(), |raw| {
            if raw.takes(packet) {
                raw.take(packet, packet.seen());
                taken = true;
            }
        });
    }
    taken
}

/// A packet has no receiver: reports the error to its sender.
pub fn refused(packet: &Packet, why: Why) {
    let Route { from, to, protocol } = packet.route;
    if is_seen(protocol) {
        members(family(packet), protocol.into(), |raw| {
            if raw.is_between(from, to) {
                raw.report_error(packet, why);
            }
        });
    }
}

/// Handles another machine's report about a packet to `to`: its senders are notified.
pub fn told(report: &Report, told: &ip::icmp::Report, to: IpAddr) {
    let (from, inner) = (told.inner.source, &told.inner);
    let family = if to.is_ipv4() { AF_INET } else { AF_INET6 };
    let take = |raw: &Arc<Raw>, seen: &[u8]| raw.report(report, to, seen);
    if is_seen(inner.protocol) {
        members(family, inner.protocol.into(), |raw| {
            if raw.is_between(from, to) {
                let start = if to.is_ipv4() { 0 } else { inner.at };
                take(raw, &told.quoted[start..]);
            }
        });
    }
    if !matches!(inner.protocol, ICMP | ICMP_V6) {
        return;
    }
    let Some(head) = told.quoted.get(inner.at..inner.at + icmp::HEAD) else {
        return;
    };
    let own = SocketAddr::new(from, u16::from_be_bytes([head[4], head[5]]));
    let of_family = |socket: &Arc<dyn Socket>| (socket.base().domain == family).then_some(());
    let found = ports::PING.find(own, SocketAddr::new(to, 0), |_| true, of_family);
    if let Ok(Some(ping)) = found.map(|found| found?.downcast::<Raw>()) {
        take(&ping, &told.quoted[inner.at..]);
    }
}

/// Passes an echo reply to the ping socket with its identifier.
pub fn echoed(packet: &Packet) {
    let body = packet.body();
    let ident = u16::from_be_bytes([body[4], body[5]]);
    let to = SocketAddr::new(packet.route.to, ident);
    let from = SocketAddr::new(packet.route.from, 0);
    let takes = |socket: &Arc<dyn Socket>| {
        let base = socket.base();
        (base.domain == family(packet) && hears(base, from.ip())).then_some(())
    };
    let found = ports::PING.find(to, from, |_| true, takes);
    if let Ok(Some(ping)) = found.map(|found| found?.downcast::<Raw>()) {
        ping.take(packet, body);
    }
}

impl Socket for Raw {
    fn base(&self) -> &Base {
        &self.base
    }

    fn bind(self: Arc<Self>, address: &Address) -> Result<()> {
        let weak = Arc::downgrade(&self);
        let how = self.options.binding();
        let at = match (self.is_raw(), self.is_v6()) {
            (false, _) => self.whole(address)?.inet_to_bind(self.base.domain)?,
            // As on Linux, the family does not matter.
            (true, false) => address.laid_out_as(AF_INET)?,
            (true, true) => address.inet(AF_INET6).or(Err(Errno::EINVAL))?,
        };
        if self.is_v6() && at.is_ipv4() {
            return Err(self.foreign(Errno::EADDRNOTAVAIL));
        }
        if !self.is_raw() && is_broadcast(at.ip()) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if !self.is_raw() {
            return self.place.bind(address, &self.base, how, weak);
        }
        if !at.ip().is_unspecified() && !is_local(at.ip()) && !how.free {
            return Err(Errno::EADDRNOTAVAIL);
        }
        if self.connected_to().is_some() {
            return Err(Errno::EINVAL);
        }
        self.place.set_local_ip(at.ip());
        Ok(())
    }

    fn connect(self: Arc<Self>, address: &Address, _wait: &Wait) -> Result<()> {
        if address.is_unspecified() {
            *self.peer.lock() = None;
            self.place.disconnect(false);
            self.unheard.store(self.is_raw(), Release);
            return Ok(());
        }
        if self.is_v6() && address.len() >= FAMILY && address.family() != AF_INET6 {
            return Err(Errno::EAFNOSUPPORT);
        }
        let given = address.inet(self.base.domain)?;
        if self.is_v6() && !self.is_raw() && given.is_ipv4() {
            return Err(Errno::ENETUNREACH);
        }
        let Route { from, to, .. } = self.route(given.ip())?;
        if self.is_raw() && self.place.local().is_none() {
            self.place.set_local_ip(unspecified(self.base.domain));
        }
        self.place.bind_any_to(from);
        *self.peer.lock() = Some(SocketAddr::new(to, given.port()));
        Ok(())
    }

    /// For a raw socket, the protocol takes the place of a port.
    fn name(&self) -> Name {
        if !self.is_raw() {
            return self.place.name();
        }
        let local = self.place.local();
        let ip = local.map_or(unspecified(self.base.domain), |local| local.ip());
        let port = match self.unheard.load(Acquire) {
            true => 0,
            false => self.base.protocol as u16,
        };
        Name::Inet(SocketAddr::new(ip, port))
    }

    fn peer(&self) -> Result<Name> {
        let peer = self.connected_to().filter(|peer| peer.port() != 0);
        Ok(Name::Inet(peer.ok_or(Errno::ENOTCONN)?))
    }

    fn destination(&self) -> Name {
        self.connected_to().map_or_else(Name::default, Name::Inet)
    }

    fn send(self: Arc<Self>, message: Outgoing, _wait: &Wait) -> Result<usize> {
        let len = message.data.left();
        if len > MOST {
            return Err(Errno::EMSGSIZE);
        }
        if message.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if !self.is_raw() && len < icmp::HEAD {
            return Err(Errno::EINVAL);
        }
        let to = self.target(message.to.as_ref())?;
        if !self.is_raw() || self.with_header.load(Acquire) {
            self.mail.check_send()?;
        }
        let mut route = self.route_of_packet(to)?;
        let mut header = message.ancillary.header;
        header.mark.get_or_insert(self.base.options.mark());
        header.complete(&self.options, SocketAddr::new(route.to, 0));
        if let Some(from) = header.from {
            route.from = from;
        }
        let body = copied(message.data, MOST)?;
        let packet = if self.is_raw() {
            self.packet(body, route, header.alone())?
        } else {
            self.request(&body, route, header.alone())?
        };
        let stamping = &self.base.options.stamping;
        if let Some(asked) = stamping.of_datagram(header.stamps) {
            let sent = Sent {
                asked,
                ends: [route.from, route.to].map(|ip| SocketAddr::new(ip, 0)),
                header,
                packet: Some(packet.bytes()),
            };
            self.mail.report_sent(&self.base, &sent);
        }
        let from_any = self.with_header.load(Acquire) || self.options.is_transparent();
        packet.go(from_any)?;
        Ok(len)
    }

    fn receive(&self, to: &mut Sink, flags: u32, wait: &Wait) -> Result<Received> {
        self.mail.receive(to, flags, 0, wait)
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
        self.mail.held()
    }

    fn drops(&self) -> u32 {
        self.mail.inbox.drops()
    }

    fn take_error(&self) -> Option<Errno> {
        self.mail.inbox.take_error()
    }

    fn options_changed(&self) {
        self.mail.options_changed(&self.base);
    }

    fn option(&self, level: u32, name: u32) -> Result<Vec<u8>> {
        if self.is_raw()
            && let Some(value) = self.own_option(level, name)
        {
            return value;
        }
        let (base, place) = (&self.base, &self.place);
        self.options.get(base, place, level, name, self.state())
    }

    fn set_option(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        if self.is_raw()
            && let Some(done) = self.set_own_option(level, name, value)
        {
            return done;
        }
        let (base, place) = (&self.base, &self.place);
        self.options.set(base, place, level, name, value)?;
        self.mail.option_set(&self.options, level, name);
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

/// An option that only raw sockets have.
enum Own {
    Filter,
    Header,
    Checksum,
}

impl Raw {
    /// The option of this level and name; `None` for options that other sockets have too.
    fn own(&self, level: u32, name: u32) -> Option<Result<Own>> {
        let (v6, of_icmp) = (self.is_v6(), self.is_icmp());
        let filters = if v6 { SOL_ICMP_V6 } else { SOL_RAW };
        Some(match (level, name) {
            (IP, IP_HDRINCL) if !v6 => Ok(Own::Header),
            (SOL_RAW | IPV6, IPV6_HDRINCL) if v6 => Ok(Own::Header),
            (SOL_RAW | IPV6, IPV6_CHECKSUM) if v6 => Ok(Own::Checksum),
            (SOL_ICMP_V6, _) if v6 && !of_icmp => Err(Errno::EOPNOTSUPP),
            (_, FILTER) if level == filters && of_icmp => Ok(Own::Filter),
            (_, FILTER) if level == filters => Err(Errno::EOPNOTSUPP),
            (SOL_RAW, _) => Err(Errno::ENOPROTOOPT),
            _ => return None,
        })
    }

    fn own_option(&self, level: u32, name: u32) -> Option<Result<Vec<u8>>> {
        let own = self.own(level, name)?;
        Some(own.and_then(|own| match own {
            Own::Filter if self.is_v6() => bytes(*self.filter.lock()),
            Own::Filter => bytes(self.filter.lock()[0]),
            Own::Header => bytes(u32::from(self.with_header.load(Acquire))),
            Own::Checksum => bytes(self.checksum.load(Acquire)),
        }))
    }

    fn set_own_option(&self, level: u32, name: u32, value: &[u8]) -> Option<Result<()>> {
        let own = self.own(level, name)?;
        Some(own.and_then(|own| self.set_own(&own, level, value)))
    }

    fn set_own(&self, own: &Own, level: u32, value: &[u8]) -> Result<()> {
        match own {
            Own::Filter => {
                let mut filter = self.filter.lock();
                let most = if self.is_v6() { 32 } else { 4 };
                let len = value.len().min(most);
                filter.as_mut_bytes()[..len].copy_from_slice(&value[..len]);
            }
            Own::Header => {
                let on = number(value)? != 0;
                self.with_header.store(on, Release);
            }
            Own::Checksum => {
                let at = number(value)?;
                let fixed = self.base.protocol == ICMP_V6.into() && level == IPV6;
                if fixed || at > 0 && at % 2 != 0 {
                    return Err(Errno::EINVAL);
                }
                self.checksum.store(at.max(-1), Release);
            }
        }
        Ok(())
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.mail.inbox.die();
        if !self.is_raw() {
            return;
        }
        let key = (self.base.domain, self.base.protocol);
        let mut all = ALL.lock();
        let Some(members) = all.get_mut(&key) else {
            return;
        };
        if members.remove(&self.base.number).is_some() {
            COUNTS[self.base.protocol as usize].fetch_sub(1, AcqRel);
        }
        if members.is_empty() {
            all.remove(&key);
        }
    }
}
