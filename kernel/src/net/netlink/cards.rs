//! Interfaces with a card, their addresses, routes and neighbours (NETLINK_ROUTE).

use super::attributes::{Attributes, find};
use super::reply::{Header, MULTI, REPLACE, Reply};
use crate::errno::{Errno, Result};
use crate::net::ether::addresses::{self, Address};
use crate::net::ether::interface::{self as cards, HARDWARE, Interface, QUEUE};
use crate::net::ether::{neighbours, routing};
use crate::net::interface;
use alloc::sync::Arc;
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::Ordering::Relaxed;
use ip::Mac;
use ip::neighbours::{Shown, State};
use ip::routes::{Kind, Prefix, Route};
use linux_raw_sys::net::{AF_INET, AF_INET6, AF_UNSPEC};
use zerocopy::{FromBytes, IntoBytes};

/// Kinds of messages.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_NEIGHBOUR: u16 = 28;
/// The main routing table, and the scopes and types of routes.
const MAIN: u8 = 254;
const UNSPEC: u8 = 0;
/// IFA_F_PERMANENT
const PERMANENT: u8 = 0x80;
/// Attributes of addresses: IFA_ADDRESS, IFA_LOCAL, IFA_LABEL, IFA_BROADCAST, IFA_CACHEINFO,
/// IFA_FLAGS.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
/// Attributes of routes.
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_TABLE: u16 = 15;
const RTA_PREF: u16 = 20;
const RTA_UID: u16 = 25;
const RTAX_MTU: u16 = 2;
/// The metric of an IPv6 route for which none is given.
const METRIC_V6: u32 = 1024;
/// RTM_F_CLONED: the result of a route look-up.
const FOUND: u32 = 0x200;
/// Attributes of neighbours.
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_CACHEINFO: u16 = 3;

/// The address in an attribute, of the given family.
fn ip(family: u32, data: &[u8]) -> Result<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(data).map(IpAddr::from).ok();
    let v6 = || <[u8; 16]>::try_from(data).map(IpAddr::from).ok();
    let ip = match family {
        AF_INET => v4(),
        AF_INET6 => v6(),
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    ip.ok_or(Errno::EINVAL)
}

fn number(data: &[u8]) -> Result<u32> {
    u32::read_from_bytes(data).map_err(|_| Errno::EINVAL)
}

fn family(ip: IpAddr) -> u32 {
    match ip {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

fn is_of(wanted: u32, ip: IpAddr) -> bool {
    wanted == AF_UNSPEC || wanted == family(ip)
}

/// RTM_SETLINK for an interface: flags, and attributes. EOPNOTSUPP for values that cannot be
/// changed.
pub fn set_link(
    interface: &Arc<Interface>,
    flags: u32,
    change: u32,
    attributes: &[u8],
) -> Result<()> {
    for (kind, data) in Attributes(attributes) {
        match kind {
            // IFLA_MTU
            4 => interface.set_mtu(number(data)?)?,
            // IFLA_IFNAME, IFLA_TXQLEN, IFLA_ADDRESS, IFLA_EXT_MASK: only with their present
            // values.
            3 if cards::by_name(data).is_some_and(|one| one.index == interface.index) => {}
            13 if data == QUEUE.to_ne_bytes() => {}
            1 if data == interface.mac.0 => {}
            29 => {}
            _ => return Err(Errno::EOPNOTSUPP),
        }
    }
    if flags | change != 0 {
        let change = if change == 0 { u32::MAX } else { change };
        interface::change_flags(interface, flags & change | interface.flags() & !change)?;
    }
    Ok(())
}

/// RTM_NEWADDR and RTM_DELADDR for an interface with a card.
///
/// # Errors
/// EEXIST, EADDRNOTAVAIL, EINVAL, EOPNOTSUPP.
pub fn change_address(
    interface: &Arc<Interface>,
    request: Header,
    [of, bits]: [u8; 2],
    attributes: &[u8],
) -> Result<()> {
    let of = u32::from(of);
    let local = find(attributes, IFA_LOCAL).or_else(|| find(attributes, IFA_ADDRESS));
    let ip = ip(of, local.ok_or(Errno::EINVAL)?)?;
    if request.kind != NEW_ADDRESS {
        return addresses::remove(interface, ip);
    }
    let mut address = Address::new(ip, bits)?;
    for (kind, data) in Attributes(attributes) {
        match kind {
            // A different peer address would make a point-to-point link.
            IFA_ADDRESS if self::ip(of, data)? != ip => return Err(Errno::EOPNOTSUPP),
            IFA_BROADCAST => {
                let all = <[u8; 4]>::try_from(data).map_err(|_| Errno::EINVAL)?;
                address.broadcast = Some(Ipv4Addr::from(all));
            }
            // Lifetimes other than for ever, and flags, are not supported.
            IFA_CACHEINFO if data.get(4..8) != Some(&[0xff; 4]) => return Err(Errno::EOPNOTSUPP),
            IFA_LOCAL | IFA_ADDRESS | IFA_LABEL | IFA_CACHEINFO | IFA_FLAGS => {}
            _ => return Err(Errno::EOPNOTSUPP),
        }
    }
    match addresses::add(interface, address) {
        Err(Errno::EEXIST) if request.flags & REPLACE != 0 => Ok(()),
        done => done,
    }
}

/// The fields of `struct rtmsg`, and the attributes of a route.
struct Asked {
    route: Route,
    /// Whether kind, metric and gateway must match those of the route.
    has_metric: bool,
}

fn read_route(body: &[u8]) -> Result<Asked> {
    let (fixed, attributes) = <[u8; 12]>::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
    let [
        of,
        bits,
        source_bits,
        service,
        mut table,
        origin,
        scope,
        kind,
        ..,
    ] = fixed;
    let of = u32::from(of);
    let any: IpAddr = match of {
        AF_INET => Ipv4Addr::UNSPECIFIED.into(),
        AF_INET6 => core::net::Ipv6Addr::UNSPECIFIED.into(),
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    if source_bits != 0 || service != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let kind = match kind {
        0 | 1 => Kind::Unicast,
        6 => Kind::Blackhole,
        7 => Kind::Unreachable,
        8 => Kind::Prohibit,
        _ => return Err(Errno::EOPNOTSUPP),
    };
    let mut route = Route {
        to: Prefix::of(any, bits).ok_or(Errno::EINVAL)?,
        kind,
        via: None,
        interface: 0,
        source: None,
        metric: if of == AF_INET6 { METRIC_V6 } else { 0 },
        origin,
        scope,
        mtu: None,
    };
    let mut has_metric = false;
    for (kind, data) in Attributes(attributes) {
        match kind {
            RTA_DST => {
                let to = ip(of, data)?;
                let prefix = Prefix::of(to, bits).ok_or(Errno::EINVAL)?;
                if prefix.ip != to && of == AF_INET {
                    return Err(Errno::EINVAL);
                }
                route.to = prefix;
            }
            RTA_OIF => route.interface = number(data)?,
            RTA_GATEWAY => route.via = Some(ip(of, data)?),
            RTA_PRIORITY => (route.metric, has_metric) = (number(data)?, true),
            RTA_PREFSRC => route.source = Some(ip(of, data)?),
            RTA_TABLE => table = u8::try_from(number(data)?).map_err(|_| Errno::EOPNOTSUPP)?,
            RTA_METRICS => {
                for (name, value) in Attributes(data) {
                    match name {
                        RTAX_MTU => route.mtu = Some(number(value)?).filter(|&mtu| mtu > 0),
                        _ => return Err(Errno::EOPNOTSUPP),
                    }
                }
            }
            RTA_PREF => {}
            _ => return Err(Errno::EOPNOTSUPP),
        }
    }
    match table {
        MAIN | UNSPEC => Ok(Asked { route, has_metric }),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// RTM_NEWROUTE.
///
/// # Errors
/// EEXIST, ENODEV, ENETDOWN, ENETUNREACH, EINVAL, EOPNOTSUPP.
pub fn add_route(request: Header, body: &[u8]) -> Result<()> {
    let Asked { mut route, .. } = read_route(body)?;
    if route.kind != Kind::Unicast {
        route.interface = 0;
    } else if route.interface != 0 {
        let interface = cards::by_index(route.interface);
        let interface = interface.ok_or(match route.interface {
            interface::INDEX => Errno::EOPNOTSUPP,
            _ => Errno::ENODEV,
        })?;
        if !interface.is_up() {
            return Err(Errno::ENETDOWN);
        }
    } else {
        let via = route.via.ok_or(Errno::ENODEV)?;
        route.interface = routing::find(via, None)?.interface.index;
    }
    if let Some(source) = route.source
        && !crate::net::inet::is_local(source)
    {
        return Err(Errno::EINVAL);
    }
    interface::check_gateway(&route)?;
    routing::add(route, request.flags & REPLACE != 0)
}

/// RTM_DELROUTE.
///
/// # Errors
/// ESRCH, EINVAL, EOPNOTSUPP.
pub fn remove_route(body: &[u8]) -> Result<()> {
    let Asked { route, has_metric } = read_route(body)?;
    routing::remove(route.to, |other| {
        (route.interface == 0 || route.interface == other.interface)
            && (route.via.is_none() || route.via == other.via)
            && (!has_metric || route.metric == other.metric)
    })
}

/// RTM_NEWNEIGH and RTM_DELNEIGH.
///
/// # Errors
/// ENODEV, ENOENT, EINVAL.
pub fn change_neighbour(request: Header, body: &[u8]) -> Result<()> {
    let (fixed, attributes) = <[u8; 12]>::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
    let [of, _, _, _, a, b, c, d, state, _, _, _] = fixed;
    let index = u32::from_ne_bytes([a, b, c, d]);
    let interface = cards::by_index(index).ok_or(Errno::ENODEV)?;
    let to = find(attributes, NDA_DST).ok_or(Errno::EINVAL)?;
    let to = ip(of.into(), to)?;
    if request.kind != NEW_NEIGHBOUR {
        return neighbours::remove(index, to);
    }
    let mac = find(attributes, NDA_LLADDR).ok_or(Errno::EOPNOTSUPP)?;
    let mac = Mac(mac.try_into().map_err(|_| Errno::EINVAL)?);
    let state = match u32::from(state) {
        0x80 => State::Permanent,
        0x02 => State::Reachable,
        0x04 | 0x08 => State::Stale,
        _ => return Err(Errno::EOPNOTSUPP),
    };
    neighbours::set(interface, to, mac, state)
}

impl Reply {
    /// RTM_NEWLINK for an interface: `struct ifinfomsg` and attributes IFLA_*.
    pub fn card(&mut self, interface: &Interface, part: u16) {
        let flags = interface.flags();
        let mut fixed = [0; 16];
        fixed[2..4].copy_from_slice(&HARDWARE.to_ne_bytes());
        fixed[4..8].copy_from_slice(&interface.index.to_ne_bytes());
        fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
        self.begin(NEW_LINK, part, &fixed);
        self.attribute(3, &interface.name()[..5]);
        self.attribute(13, &QUEUE.to_ne_bytes());
        // IF_OPER_UP, IF_OPER_DOWN
        let carrier = flags & 0x1_0000 != 0;
        self.attribute(16, &[if carrier { 6 } else { 2 }]);
        self.attribute(17, &[0]);
        self.attribute(27, &[0; 4]);
        self.attribute(4, &interface.mtu().to_ne_bytes());
        // IFLA_MIN_MTU, IFLA_MAX_MTU, IFLA_CARRIER
        self.attribute(50, &cards::LEAST_MTU.to_ne_bytes());
        self.attribute(51, &interface.most_mtu.to_ne_bytes());
        self.attribute(33, &[carrier.into()]);
        self.attribute(6, b"noqueue\0");
        self.attribute(1, &interface.mac.0);
        self.attribute(2, &[0xff; 6]);
        let counts = &interface.counts;
        let mut stats = [0u64; 25];
        for (place, count) in [
            (0, &counts.received),
            (1, &counts.sent),
            (2, &counts.received_bytes),
            (3, &counts.sent_bytes),
            (6, &counts.received_dropped),
            (7, &counts.sent_dropped),
            (8, &counts.multicast),
        ] {
            stats[place] = count.load(Relaxed);
        }
        self.attribute(23, stats.as_bytes());
        self.end();
    }

    /// RTM_NEWADDR for the addresses of all interfaces with a card.
    pub fn card_addresses(&mut self, wanted: u32) {
        for interface in cards::all() {
            for at in 0.. {
                let address = interface.addresses.lock().get(at).copied();
                let Some(address) = address else { break };
                if is_of(wanted, address.ip) {
                    self.card_address(interface, &address);
                }
            }
        }
    }

    fn card_address(&mut self, interface: &Interface, address: &Address) {
        let mut fixed = [
            family(address.ip) as u8,
            address.bits,
            PERMANENT,
            address.scope,
            0,
            0,
            0,
            0,
        ];
        fixed[4..].copy_from_slice(&interface.index.to_ne_bytes());
        self.begin(NEW_ADDRESS, MULTI, &fixed);
        match address.ip {
            IpAddr::V4(ip) => {
                self.attribute(IFA_ADDRESS, &ip.octets());
                self.attribute(IFA_LOCAL, &ip.octets());
                if let Some(all) = address.broadcast {
                    self.attribute(IFA_BROADCAST, &all.octets());
                }
                self.attribute(IFA_LABEL, &interface.name()[..5]);
            }
            IpAddr::V6(ip) => self.attribute(IFA_ADDRESS, &ip.octets()),
        }
        self.attribute(IFA_FLAGS, &u32::from(PERMANENT).to_ne_bytes());
        self.attribute(IFA_CACHEINFO, [u32::MAX, u32::MAX, 0, 0].as_bytes());
        self.end();
    }

    fn address_attribute(&mut self, kind: u16, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => self.attribute(kind, &ip.octets()),
            IpAddr::V6(ip) => self.attribute(kind, &ip.octets()),
        }
    }

    /// RTM_NEWROUTE for all routes of interfaces with a card; `flush` sends what is there.
    ///
    /// # Errors
    /// ENOMEM, and the errors of `flush`.
    pub fn card_routes(&mut self, wanted: u32, flush: &mut Flush) -> Result<()> {
        for route in routing::sorted()? {
            if is_of(wanted, route.to.ip) {
                self.card_route(&route, MULTI, 0, None);
                if self.is_full() {
                    flush(self)?;
                }
            }
        }
        Ok(())
    }

    /// The route to an address that is not this machine's.
    ///
    /// # Errors
    /// As [`routing::find`].
    pub fn way_to(&mut self, to: IpAddr, user: u32) -> Result<()> {
        let way = routing::find(to, None)?;
        let route = Route {
            to: Prefix::of(to, if to.is_ipv4() { 32 } else { 128 }).ok_or(Errno::EINVAL)?,
            kind: Kind::Unicast,
            via: Some(way.hop).filter(|&hop| hop != to),
            interface: way.interface.index,
            source: Some(way.source),
            metric: 0,
            origin: UNSPEC,
            scope: 0,
            mtu: None,
        };
        self.card_route(&route, 0, if to.is_ipv4() { FOUND } else { 0 }, Some(user));
        Ok(())
    }

    fn card_route(&mut self, route: &Route, part: u16, flags: u32, user: Option<u32>) {
        let of = family(route.to.ip) as u8;
        let kind = route.kind as u8;
        let (bits, scope) = (route.to.bits, route.scope);
        let mut fixed = [of, bits, 0, 0, MAIN, route.origin, scope, kind, 0, 0, 0, 0];
        fixed[8..].copy_from_slice(&flags.to_ne_bytes());
        self.begin(NEW_ROUTE, part, &fixed);
        self.attribute(RTA_TABLE, &u32::from(MAIN).to_ne_bytes());
        if bits > 0 {
            self.address_attribute(RTA_DST, route.to.ip);
        }
        if route.metric != 0 {
            self.attribute(RTA_PRIORITY, &route.metric.to_ne_bytes());
        }
        if let Some(source) = route.source {
            self.address_attribute(RTA_PREFSRC, source);
        }
        if let Some(via) = route.via {
            self.address_attribute(RTA_GATEWAY, via);
        }
        if route.interface != 0 {
            self.attribute(RTA_OIF, &route.interface.to_ne_bytes());
        }
        if let Some(mtu) = route.mtu {
            let mut metric = [8, 0, RTAX_MTU as u8, 0, 0, 0, 0, 0];
            metric[4..].copy_from_slice(&mtu.to_ne_bytes());
            self.attribute(RTA_METRICS, &metric);
        }
        if let Some(user) = user {
            self.attribute(RTA_UID, &user.to_ne_bytes());
        }
        self.end();
    }

    /// RTM_NEWNEIGH for all neighbours.
    ///
    /// # Errors
    /// ENOMEM, and the errors of `flush`.
    pub fn neighbours(&mut self, wanted: u32, flush: &mut Flush) -> Result<()> {
        let now = crate::net::ether::now();
        for shown in neighbours::all()? {
            if is_of(wanted, shown.key.ip) {
                self.neighbour(&shown, now);
                if self.is_full() {
                    flush(self)?;
                }
            }
        }
        Ok(())
    }

    fn neighbour(&mut self, shown: &Shown, now: u64) {
        let mut fixed = [
            family(shown.key.ip) as u8,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            shown.state as u8,
            0,
            0,
            1,
        ];
        fixed[4..8].copy_from_slice(&shown.key.interface.to_ne_bytes());
        self.begin(NEW_NEIGHBOUR, MULTI, &fixed);
        self.address_attribute(NDA_DST, shown.key.ip);
        if let Some(mac) = shown.mac {
            self.attribute(NDA_LLADDR, &mac.0);
        }
        // In hundredths of a second.
        let age = |then: u64| (now.saturating_sub(then) / 10_000_000) as u32;
        let ages = [
            age(shown.confirmed),
            age(shown.changed),
            age(shown.changed),
            0,
        ];
        self.attribute(NDA_CACHEINFO, ages.as_bytes());
        self.end();
    }
}

/// Sends the part of a reply that is complete.
pub type Flush<'a> = dyn FnMut(&mut Reply) -> Result<()> + 'a;
