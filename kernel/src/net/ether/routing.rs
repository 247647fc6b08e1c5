//! The route of a packet.

use super::addresses::{Own, source_for};
use super::interface::{self, Interface};
use super::now;
use crate::errno::{Errno, Result};
use crate::hash::Keyed;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicU32, Ordering::*};
use ip::paths::Paths;
use ip::routes::{Kind, Prefix, Refused, Route, Routes};

static ROUTES: Mutex<Routes<Keyed>> = Mutex::new(Routes::new(Keyed));
static PATHS: Mutex<Paths<Keyed>> = Mutex::new(Paths::new(Keyed));
/// Changes with every change of routes.
static GENERATION: AtomicU32 = AtomicU32::new(1);

/// A resolved route.
#[derive(Clone)]
pub struct Way {
    /// The interface.
    pub interface: Arc<Interface>,
    /// The neighbour to which packets are sent.
    pub hop: IpAddr,
    /// The source address, if the sender has none.
    pub source: IpAddr,
    /// The MTU.
    pub mtu: u32,
    /// The generation of routes in which it was found.
    pub generation: u32,
}

/// The routes have changed: cached ones must be looked up again.
pub fn changed() {
    GENERATION.fetch_add(1, AcqRel);
}

/// The generation of routes: a route of another generation must be looked up again.
pub fn generation() -> u32 {
    GENERATION.load(Acquire)
}

/// The route to an address that is not this machine's; `from` is the sender's address, if it has
/// one.
///
/// # Errors
/// ENETUNREACH, also for an IPv4 source address that is not this machine's, since no sender may use
/// the address of another (Linux's `FLOWI_FLAG_ANYSRC`; its IPv6 does not check this).
/// EHOSTUNREACH, EINVAL, EACCES, as the route says.
pub fn find(to: IpAddr, from: Option<IpAddr>) -> Result<Way> {
    let is_own = |ip| super::addresses::own(ip) == Some(Own::Host);
    match from {
        Some(ip) if ip.is_ipv4() && !ip.is_unspecified() && !is_own(ip) => Err(Errno::ENETUNREACH),
        _ => find_for_any(to, from),
    }
}

/// The same for a sender that may use any address (IP_TRANSPARENT, IP_HDRINCL).
///
/// # Errors
/// As [`find`].
pub fn find_for_any(to: IpAddr, from: Option<IpAddr>) -> Result<Way> {
    let generation = generation();
    let works = |index| interface::by_index(index).filter(|interface| interface.is_up());
    let found = ROUTES
        .lock()
        .find_by(to, |route| {
            works(route.interface).is_some() || route.interface == 0
        })
        .copied();
    let (interface, route) = match found {
        Some(route) => match route.kind {
            Kind::Unreachable => return Err(Errno::EHOSTUNREACH),
            Kind::Prohibit => return Err(Errno::EACCES),
            Kind::Blackhole => return Err(Errno::EINVAL),
            _ => (works(route.interface), Some(route)),
        },
        // If the sender has an address, broadcasts leave by its interface.
        None if to == IpAddr::V4(Ipv4Addr::BROADCAST) => (of_address(from), None),
        None => (None, None),
    };
    let interface = interface.ok_or(Errno::ENETUNREACH)?.clone();
    let is_direct = to.is_multicast() || super::addresses::own(to).is_some();
    let hop = route.and_then(|route| route.via).filter(|_| !is_direct);
    let hop = hop.unwrap_or(to);
    let told = route.and_then(|route| route.source);
    let source = told.or_else(|| source_for(&interface, to, hop));
    let mut mtu = interface.mtu();
    if let Some(most) = route.and_then(|route| route.mtu) {
        mtu = mtu.min(most);
    }
    if let Some(most) = PATHS.lock().mtu(now(), to) {
        mtu = mtu.min(most);
    }
    Ok(Way {
        interface,
        hop,
        source: from.or(source).ok_or(Errno::EADDRNOTAVAIL)?,
        mtu,
        generation,
    })
}

fn of_address(ip: Option<IpAddr>) -> Option<&'static Arc<Interface>> {
    let has = |interface: &&Arc<Interface>| {
        let addresses = interface.addresses.lock();
        interface.is_up() && ip.is_none_or(|ip| addresses.iter().any(|own| own.ip == ip))
    };
    interface::all().find(has)
}

/// Adds a route.
///
/// # Errors
/// EEXIST, ENOMEM.
pub fn add(route: Route, replace: bool) -> Result<()> {
    let added = ROUTES.lock().add(route, replace);
    changed();
    added.map_err(|error| match error {
        Refused::Exists => Errno::EEXIST,
        Refused::NoMemory => Errno::ENOMEM,
    })
}

/// Removes a route.
///
/// # Errors
/// ESRCH.
pub fn remove(to: Prefix, is_it: impl Fn(&Route) -> bool) -> Result<()> {
    let gone = ROUTES.lock().remove(to, is_it);
    changed();
    gone.map(drop).ok_or(Errno::ESRCH)
}

/// All routes, in order.
///
/// # Errors
/// ENOMEM.
pub fn sorted() -> Result<Vec<Route>> {
    ROUTES.lock().sorted().map_err(|_| Errno::ENOMEM)
}

/// The route to an address.
pub fn route_to(to: IpAddr) -> Option<Route> {
    let works = |route: &Route| interface::by_index(route.interface).is_some_and(|one| one.is_up());
    ROUTES
        .lock()
        .find_by(to, |route| route.interface == 0 || works(route))
        .copied()
}

/// Removes the routes of an interface.
pub(super) fn forget_interface(index: u32) {
    forget(|route| route.interface == index);
}

/// Removes the routes with a given source address.
pub(super) fn forget_source(ip: IpAddr) {
    forget(|route| route.source == Some(ip));
}

fn forget(is_gone: impl Fn(&Route) -> bool) {
    loop {
        let mut routes = ROUTES.lock();
        let Some(to) = routes
            .iter()
            .find(|route| is_gone(route))
            .map(|route| route.to)
        else {
            return;
        };
        routes.remove(to, &is_gone);
    }
}

/// A packet of `sent` bytes to an address was too big for its path, whose MTU was reported as
/// `told`.
pub fn too_big(to: IpAddr, told: u32, sent: u32) {
    if PATHS.lock().learn(now(), to, told, sent).is_some() {
        changed();
    }
}
