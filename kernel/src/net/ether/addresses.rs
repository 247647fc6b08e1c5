//! The addresses of interfaces, and the routes that follow from them.

use super::interface::Interface;
use super::{neighbours, routing};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::sync::Mutex;
use alloc::sync::Arc;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use ip::routes::{Kind, Prefix, Route};

/// The maximum number of addresses of an interface.
const MOST: usize = 256;
/// Scopes (`RT_SCOPE_`): universe, link.
pub const UNIVERSE: u8 = 0;
pub const LINK: u8 = 253;
/// RTPROT_KERNEL
const BY_KERNEL: u8 = 2;
/// The metric of the kernel's IPv6 routes, and that of Linux for prefix routes.
const METRIC_V6: u32 = 256;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// The prefix length of its network.
    pub bits: u8,
    /// The broadcast address of the network.
    pub broadcast: Option<Ipv4Addr>,
    /// Its scope.
    pub scope: u8,
}

impl Address {
    /// An address with Linux's defaults. EINVAL if the prefix is too long, or no host can have the
    /// address.
    pub fn new(ip: IpAddr, bits: u8) -> Result<Self> {
        let network = Prefix::of(ip, bits).ok_or(Errno::EINVAL)?;
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            return Err(Errno::EINVAL);
        }
        let broadcast = match network.ip {
            IpAddr::V4(first) if bits < 31 => {
                let rest = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
                Some(Ipv4Addr::from(u32::from(first) | rest))
            }
            _ => None,
        };
        let scope = match ip {
            IpAddr::V6(ip) if ::ip::v6::is_link_local(ip) => LINK,
            _ => UNIVERSE,
        };
        Ok(Address {
            ip,
            bits,
            broadcast,
            scope,
        })
    }

    /// Its network.
    pub fn network(&self) -> Option<Prefix> {
        Prefix::of(self.ip, self.bits)
    }
}

/// The meaning of an address on this machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// An address of the machine.
    Host,
    /// The broadcast address of a network.
    Broadcast,
}

/// The addresses of all interfaces, each with the number of interfaces that have it.
static OWN: Mutex<HashMap<IpAddr, (Own, usize)>> = Mutex::new(hash::new());
/// The number of addresses, for readers without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The meaning of an address on this machine, if an interface with a card has it.
pub fn own(ip: IpAddr) -> Option<Own> {
    if COUNT.load(Acquire) == 0 {
        return None;
    }
    if ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Some(Own::Broadcast);
    }
    OWN.lock().get(&ip).map(|own| own.0)
}

fn enter(ip: IpAddr, what: Own) -> Result<()> {
    let mut own = OWN.lock();
    own.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    let known = own.get_or_insert_with(ip, || (what, 0));
    known.1 += 1;
    COUNT.store(own.len(), Release);
    Ok(())
}

fn leave(ip: IpAddr) {
    let mut own = OWN.lock();
    let is_last = own.get_mut(&ip).is_some_and(|known| {
        known.1 -= 1;
        known.1 == 0
    });
    if is_last {
        own.remove(&ip);
    }
    COUNT.store(own.len(), Release);
}

fn connected(interface: &Interface, address: &Address) -> Option<Route> {
    let to = address.network()?;
    let v4 = address.ip.is_ipv4();
    (address.bits < if v4 { 32 } else { 128 }).then_some(Route {
        to,
        kind: Kind::Unicast,
        via: None,
        interface: interface.index,
        source: v4.then_some(address.ip),
        metric: if v4 { 0 } else { METRIC_V6 },
        origin: BY_KERNEL,
        scope: if v4 { LINK } else { UNIVERSE },
        mtu: None,
    })
}

/// Adds an address to an interface.
///
/// # Errors
/// EEXIST: the interface has it already. ENOMEM, ENOBUFS: it has too many.
pub fn add(interface: &Arc<Interface>, address: Address) -> Result<()> {
    let mut addresses = interface.addresses.lock();
    if addresses.iter().any(|other| other.ip == address.ip) {
        return Err(Errno::EEXIST);
    }
    if addresses.len() >= MOST {
        return Err(Errno::ENOBUFS);
    }
    addresses.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    enter(address.ip, Own::Host)?;
    if let Some(all) = address.broadcast
        && let Err(error) = enter(all.into(), Own::Broadcast)
    {
        leave(address.ip);
        return Err(error);
    }
    addresses.push(address);
    drop(addresses);
    if interface.is_up() {
        bring_route(interface, &address);
    }
    routing::changed();
    Ok(())
}

fn bring_route(interface: &Interface, address: &Address) {
    if let Some(route) = connected(interface, address) {
        // The route may exist because of another address of the network.
        _ = routing::add(route, false);
    }
}

/// Removes an address from an interface, with the routes that depend on it.
///
/// # Errors
/// EADDRNOTAVAIL: the interface does not have it.
pub fn remove(interface: &Interface, ip: IpAddr) -> Result<()> {
    let mut addresses = interface.addresses.lock();
    let at = addresses.iter().position(|address| address.ip == ip);
    let gone = addresses.remove(at.ok_or(Errno::EADDRNOTAVAIL)?);
    let another = addresses
        .iter()
        .copied()
        .find(|address| address.network() == gone.network());
    drop(addresses);
    leave(ip);
    if let Some(all) = gone.broadcast {
        leave(all.into());
    }
    if let Some(route) = connected(interface, &gone) {
        _ = routing::remove(route.to, |other| {
            other.interface == interface.index && other.origin == BY_KERNEL
        });
    }
    routing::forget_source(ip);
    if let Some(another) = another.filter(|_| interface.is_up()) {
        bring_route(interface, &another);
    }
    routing::changed();
    Ok(())
}

/// The interface was set up: adds its link-local address, and the routes of its addresses.
pub(super) fn link_local(interface: &Arc<Interface>) -> Result<()> {
    let address = Address::new(interface.mac.link_local().into(), 64)?;
    match add(interface, address) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(error) => return Err(error),
    }
    let mut at = 0;
    loop {
        let address = interface.addresses.lock().get(at).copied();
        let Some(address) = address else { break };
        bring_route(interface, &address);
        at += 1;
    }
    routing::changed();
    Ok(())
}

/// The interface was set down: removes its routes and neighbours, and its IPv6 addresses, as on
/// Linux.
pub(super) fn went_down(interface: &Arc<Interface>) {
    loop {
        let addresses = interface.addresses.lock();
        let v6 = addresses.iter().find(|address| address.ip.is_ipv6());
        let Some(ip) = v6.map(|address| address.ip) else {
            break;
        };
        drop(addresses);
        _ = remove(interface, ip);
    }
    routing::forget_interface(interface.index);
    neighbours::forget_interface(interface.index);
    routing::changed();
}

/// The source address of packets to `to` through `hop`, if the route does not specify one: one of
/// the hop's network, or else the first.
pub fn source_for(interface: &Interface, to: IpAddr, hop: IpAddr) -> Option<IpAddr> {
    let addresses = interface.addresses.lock();
    let wants_link = match to {
        IpAddr::V6(to) => ip::v6::is_link_local(to),
        IpAddr::V4(_) => false,
    };
    let mut fitting = addresses.iter().filter(|address| {
        address.ip.is_ipv4() == to.is_ipv4()
            && (to.is_ipv4() || (address.scope == LINK) == wants_link)
    });
    let near = |address: &&Address| address.network().is_some_and(|network| network.has(hop));
    let first = fitting.clone().next();
    fitting.find(near).or(first).map(|address| address.ip)
}

/// Whether an address is a group of which this machine is a member: those of all hosts, and the
/// solicited-node groups of its addresses.
pub fn is_joined(interface: &Interface, ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip == Ipv4Addr::new(224, 0, 0, 1),
        IpAddr::V6(ip) => {
            let all: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let looks = |address: &Address| match address.ip {
                IpAddr::V6(own) => ::ip::v6::solicited_node(own) == ip,
                IpAddr::V4(_) => false,
            };
            ip == all || interface.addresses.lock().iter().any(looks)
        }
    }
}
