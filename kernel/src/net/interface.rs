//! The interfaces as ioctl(2) sees them, and `lo`, which is always up and has 127.0.0.1/8 and ::1.
//! Interfaces with a card are in `ether`.

use super::ether::addresses::{self, Address};
use super::ether::interface as cards;
use super::ether::{Interface, routing};
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use crate::task::require;
use alloc::sync::Arc;
use core::net::{IpAddr, Ipv4Addr};
use ip::routes::{Kind, Prefix, Route};
use linux_raw_sys::general::CAP_NET_ADMIN;
use linux_raw_sys::ioctl::*;
use linux_raw_sys::net::AF_INET;

/// The name of the interface, padded as in `struct ifreq`, and its index.
pub const NAME: [u8; 16] = *b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
pub const INDEX: u32 = 1;
/// IFF_UP, IFF_LOOPBACK and IFF_RUNNING.
pub const FLAGS: u32 = 0x49;
/// The flags that can be changed on other interfaces: IFF_UP, IFF_DEBUG, IFF_NOTRAILERS, IFF_NOARP,
/// IFF_PROMISC, IFF_ALLMULTI, IFF_MULTICAST, IFF_PORTSEL, IFF_AUTOMEDIA and IFF_DYNAMIC.
const CHANGEABLE: u32 = 0xf3a5;
/// The MTU, and the length of the queue.
pub const MTU: u32 = 65536;
pub const QUEUE: u32 = 1000;
/// The hardware type (ARPHRD_LOOPBACK).
pub const HARDWARE: u16 = 772;
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 0, 0, 0);
/// The requests whose structure begins with the interface's name.
const NAMED: [u32; 15] = [
    SIOCGIFFLAGS,
    SIOCSIFFLAGS,
    SIOCGIFADDR,
    SIOCSIFADDR,
    SIOCGIFDSTADDR,
    SIOCGIFBRDADDR,
    SIOCGIFNETMASK,
    SIOCSIFNETMASK,
    SIOCSIFBRDADDR,
    SIOCSIFMTU,
    SIOCGIFMETRIC,
    SIOCGIFMTU,
    SIOCGIFHWADDR,
    SIOCGIFINDEX,
    SIOCGIFTXQLEN,
];
const _: () = {
    let mut handled = [0; NAMED.len() + 2];
    let mut at = 0;
    while at < NAMED.len() {
        handled[at] = NAMED[at] as u64;
        at += 1;
    }
    handled[at] = SIOCGIFNAME as u64;
    handled[at + 1] = SIOCGIFCONF as u64;
    assert!(abi::options::INTERFACE.is_handled_by(&handled));
};
/// `sizeof(struct ifreq)`: a name, and 24 bytes of data.
const REQUEST: usize = 40;
const ASKED: usize = 16;

/// Control operations on interfaces.
pub fn ioctl(request: u32, argument: usize) -> Result<usize> {
    let asked = argument.wrapping_add(ASKED);
    if request == SIOCGIFCONF {
        // `struct ifconf` has a length, and an address of the same size.
        let room = UserPtr::<i32>::new(argument).read()?;
        let to = UserPtr::<usize>::new(argument.wrapping_add(8)).read()?;
        let len = configuration(room, to, REQUEST)?;
        return UserPtr::new(argument).write(&(len as i32)).map(|()| 0);
    }
    if request == SIOCGIFNAME {
        let index = UserPtr::<u32>::new(asked).read()?;
        let name = match index {
            INDEX => Some(NAME),
            index => cards::by_index(index).map(|interface| interface.name()),
        };
        let name = name.ok_or(Errno::ENODEV)?;
        return UserPtr::new(argument).write(&name).map(|()| 0);
    }
    if matches!(request, SIOCADDRT | SIOCDELRT) {
        return change_route(request == SIOCADDRT, argument).map(|()| 0);
    }
    if !NAMED.contains(&request) {
        return Err(Errno::ENOTTY);
    }
    let name = UserPtr::<[u8; 16]>::new(argument).read()?;
    match request {
        SIOCSIFFLAGS | SIOCSIFMTU => require(CAP_NET_ADMIN)?,
        SIOCSIFADDR | SIOCSIFNETMASK | SIOCSIFBRDADDR => {
            require(CAP_NET_ADMIN)?;
            let family = UserPtr::<u16>::new(asked).read()?;
            if u32::from(family) != AF_INET {
                return Err(Errno::EINVAL);
            }
        }
        _ => {}
    }
    if !name.starts_with(b"lo\0") {
        let interface = cards::by_name(&name).ok_or(Errno::ENODEV)?;
        return of_card(interface, request, asked).map(|()| 0);
    }
    match request {
        SIOCGIFFLAGS => UserPtr::new(asked).write(&(FLAGS as u16))?,
        SIOCGIFADDR | SIOCGIFDSTADDR => UserPtr::new(asked).write(&v4(Ipv4Addr::LOCALHOST))?,
        SIOCGIFBRDADDR => UserPtr::new(asked).write(&v4(Ipv4Addr::UNSPECIFIED))?,
        SIOCGIFNETMASK => UserPtr::new(asked).write(&v4(NETMASK))?,
        SIOCGIFMETRIC => UserPtr::new(asked).write(&0u32)?,
        SIOCGIFMTU => UserPtr::new(asked).write(&MTU)?,
        SIOCGIFINDEX => UserPtr::new(asked).write(&INDEX)?,
        SIOCGIFTXQLEN => UserPtr::new(asked).write(&QUEUE)?,
        SIOCGIFHWADDR => {
            let mut address = [0u8; 16];
            address[..2].copy_from_slice(&HARDWARE.to_ne_bytes());
            UserPtr::new(asked).write(&address)?;
        }
        SIOCSIFFLAGS => check_flags(UserPtr::<u16>::new(asked).read()?.into())?,
        SIOCSIFADDR => check_address(asked, Ipv4Addr::LOCALHOST)?,
        SIOCSIFMTU if UserPtr::<u32>::new(asked).read()? == MTU => {}
        SIOCSIFMTU | SIOCSIFBRDADDR => return Err(Errno::EOPNOTSUPP),
        _ => check_address(asked, NETMASK)?,
    }
    Ok(0)
}

/// EOPNOTSUPP for flags that the interface does not have, since they cannot be changed.
pub fn check_flags(wanted: u32) -> Result<()> {
    match (wanted ^ FLAGS) & CHANGEABLE {
        0 => Ok(()),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// EOPNOTSUPP for an address at `asked` that differs from the interface's own.
fn check_address(asked: usize, own: Ipv4Addr) -> Result<()> {
    let given = UserPtr::<[u8; 16]>::new(asked).read()?;
    match given[4..8] == own.octets() {
        true => Ok(()),
        false => Err(Errno::EOPNOTSUPP),
    }
}

/// `struct sockaddr_in` without a port.
fn v4(ip: Ipv4Addr) -> [u8; 16] {
    let mut address = [0; 16];
    address[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
    address[4..8].copy_from_slice(&ip.octets());
    address
}

/// A request about an interface with a card.
fn of_card(interface: &Arc<Interface>, request: u32, asked: usize) -> Result<()> {
    let first = || {
        let addresses = interface.addresses.lock();
        let v4 = addresses.iter().find(|address| address.ip.is_ipv4());
        v4.copied()
    };
    let known = || first().ok_or(Errno::EADDRNOTAVAIL);
    let put = |ip| UserPtr::new(asked).write(&v4(ip));
    match request {
        SIOCGIFFLAGS => UserPtr::new(asked).write(&(interface.flags() as u16)),
        SIOCSIFFLAGS => {
            let wanted = u32::from(UserPtr::<u16>::new(asked).read()?);
            change_flags(interface, wanted)
        }
        SIOCGIFADDR | SIOCGIFDSTADDR => put(of_v4(known()?.ip)),
        SIOCGIFBRDADDR => put(known()?.broadcast.unwrap_or(Ipv4Addr::UNSPECIFIED)),
        SIOCGIFNETMASK => put(mask(known()?.bits)),
        SIOCGIFMETRIC => UserPtr::new(asked).write(&0u32),
        SIOCGIFMTU => UserPtr::new(asked).write(&interface.mtu()),
        SIOCSIFMTU => interface.set_mtu(UserPtr::<u32>::new(asked).read()?),
        SIOCGIFINDEX => UserPtr::new(asked).write(&interface.index),
        SIOCGIFTXQLEN => UserPtr::new(asked).write(&cards::QUEUE),
        SIOCGIFHWADDR => {
            let mut address = [0u8; 16];
            address[..2].copy_from_slice(&cards::HARDWARE.to_ne_bytes());
            address[2..8].copy_from_slice(&interface.mac.0);
            UserPtr::new(asked).write(&address)
        }
        SIOCSIFADDR => set_address(interface, first(), read_v4(asked)?),
        SIOCSIFNETMASK => {
            let bits = bits_of(read_v4(asked)?)?;
            let old = known()?;
            replace(interface, old, Address::new(old.ip, bits)?)
        }
        // SIOCSIFBRDADDR
        _ => {
            let (old, all) = (known()?, read_v4(asked)?);
            let broadcast = Some(all).filter(|all| !all.is_unspecified());
            replace(interface, old, Address { broadcast, ..old })
        }
    }
}

/// Sets an interface up or down. EOPNOTSUPP for other flags than it has.
pub fn change_flags(interface: &Arc<Interface>, wanted: u32) -> Result<()> {
    const IFF_UP: u32 = 1;
    let settled = CHANGEABLE & !IFF_UP;
    if (wanted ^ interface.flags()) & settled != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    interface.set_up(wanted & IFF_UP != 0)
}

fn of_v4(ip: IpAddr) -> Ipv4Addr {
    match ip {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

fn read_v4(asked: usize) -> Result<Ipv4Addr> {
    let given = UserPtr::<[u8; 16]>::new(asked).read()?;
    Ok([given[4], given[5], given[6], given[7]].into())
}

fn mask(bits: u8) -> Ipv4Addr {
    u32::MAX
        .checked_shl(32 - u32::from(bits))
        .unwrap_or(0)
        .into()
}

/// The prefix length of a mask; EINVAL for an invalid one.
fn bits_of(mask: Ipv4Addr) -> Result<u8> {
    let mask = u32::from(mask);
    match mask.leading_ones() + mask.trailing_zeros() {
        32 => Ok(mask.leading_ones() as u8),
        _ if mask == 0 => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// SIOCSIFADDR: the address replaces the first one, with the network of its class, and the
/// interface is set up.
fn set_address(interface: &Arc<Interface>, old: Option<Address>, ip: Ipv4Addr) -> Result<()> {
    if let Some(old) = old {
        addresses::remove(interface, old.ip)?;
    }
    if ip.is_unspecified() {
        return Ok(());
    }
    let bits = match ip.octets()[0] {
        ..128 => 8,
        128..192 => 16,
        _ => 24,
    };
    addresses::add(interface, Address::new(ip.into(), bits)?)?;
    interface.set_up(true)
}

fn replace(interface: &Arc<Interface>, old: Address, new: Address) -> Result<()> {
    if old != new {
        addresses::remove(interface, old.ip)?;
        addresses::add(interface, new)?;
    }
    Ok(())
}

/// The size of `struct rtentry`, and the offsets of the fields in use.
const ROUTE: usize = 120;
const ROUTE_TO: usize = 8;
const ROUTE_VIA: usize = 24;
const ROUTE_MASK: usize = 40;
const ROUTE_FLAGS: usize = 56;
const ROUTE_METRIC: usize = 80;
const ROUTE_DEVICE: usize = 88;
/// RTF_UP, RTF_GATEWAY, RTF_HOST and RTF_REJECT.
const RTF_GATEWAY: u16 = 2;
const RTF_HOST: u16 = 4;
const RTF_REJECT: u16 = 0x200;
/// RTPROT_BOOT
const BY_BOOT: u8 = 3;

/// SIOCADDRT and SIOCDELRT, for IPv4.
fn change_route(adds: bool, argument: usize) -> Result<()> {
    require(CAP_NET_ADMIN)?;
    let asked = UserPtr::<[u8; ROUTE]>::new(argument).read()?;
    let ip = |at: usize| -> Result<Ipv4Addr> {
        let family = u16::from_ne_bytes([asked[at], asked[at + 1]]);
        match (u32::from(family), &asked[at + 4..at + 8]) {
            (AF_INET, &[a, b, c, d]) => Ok(Ipv4Addr::new(a, b, c, d)),
            (0, &[0, 0, 0, 0]) => Ok(Ipv4Addr::UNSPECIFIED),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    };
    let flags = u16::from_ne_bytes([asked[ROUTE_FLAGS], asked[ROUTE_FLAGS + 1]]);
    let bits = match flags & RTF_HOST != 0 {
        true => 32,
        false => bits_of(ip(ROUTE_MASK)?)?,
    };
    let dest = ip(ROUTE_TO)?;
    let to = Prefix::of(dest.into(), bits)
        .filter(|to| to.ip == dest)
        .ok_or(Errno::EINVAL)?;
    let via = (flags & RTF_GATEWAY != 0)
        .then(|| ip(ROUTE_VIA))
        .transpose()?;
    let mut device = [0; 8];
    device.copy_from_slice(&asked[ROUTE_DEVICE..ROUTE_DEVICE + 8]);
    let interface = match (usize::from_ne_bytes(device), via) {
        _ if flags & RTF_REJECT != 0 => None,
        (0, Some(via)) => Some(routing::find(via.into(), None)?.interface),
        (0, None) => return Err(Errno::ENODEV),
        (name, _) => {
            let name = UserPtr::<[u8; 16]>::new(name).read()?;
            Some(cards::by_name(&name).ok_or(Errno::ENODEV)?.clone())
        }
    };
    let index = interface.as_ref().map_or(0, |interface| interface.index);
    // As on Linux, the field is the metric plus one.
    let metric = u16::from_ne_bytes([asked[ROUTE_METRIC], asked[ROUTE_METRIC + 1]]);
    let metric = u32::from(metric.saturating_sub(1));
    if !adds {
        return routing::remove(to, |route| {
            (index == 0 || route.interface == index)
                && via.is_none_or(|via| route.via == Some(via.into()))
                && (metric == 0 || route.metric == metric)
        });
    }
    if let Some(interface) = &interface
        && !interface.is_up()
    {
        return Err(Errno::ENETDOWN);
    }
    let kind = match flags & RTF_REJECT != 0 {
        true => Kind::Unreachable,
        false => Kind::Unicast,
    };
    let route = Route {
        to,
        kind,
        via: via.map(IpAddr::V4),
        interface: index,
        source: None,
        metric,
        origin: BY_BOOT,
        scope: if via.is_some() {
            addresses::UNIVERSE
        } else {
            addresses::LINK
        },
        mtu: None,
    };
    check_gateway(&route)?;
    routing::add(route, false)
}

/// ENETUNREACH for a route whose gateway is not itself on a link.
pub fn check_gateway(route: &Route) -> Result<()> {
    let Some(via) = route.via else { return Ok(()) };
    let near = routing::route_to(via).ok_or(Errno::ENETUNREACH)?;
    match near.via.is_none() && (near.interface == route.interface || route.interface == 0) {
        true => Ok(()),
        false => Err(Errno::ENETUNREACH),
    }
}

/// SIOCGIFCONF: writes the interfaces into `room` bytes of the program, as structures of `request`
/// bytes; returns the number of bytes written or needed.
///
/// # Errors
/// EFAULT.
pub fn configuration(room: i32, to: usize, request: usize) -> Result<usize> {
    let mut done = 0;
    let mut put = |name: &[u8; 16], ip| -> Result<()> {
        let at = to.wrapping_add(done);
        if to != 0 {
            if room < (done + request) as i32 {
                return Ok(());
            }
            UserPtr::new(at).write(name)?;
            UserPtr::new(at.wrapping_add(ASKED)).write(&v4(ip))?;
            let rest = request - 2 * ASKED;
            UserSlice::new(at.wrapping_add(2 * ASKED), rest).copy_out(&[0; ASKED][..rest])?;
        }
        done += request;
        Ok(())
    };
    put(&NAME, Ipv4Addr::LOCALHOST)?;
    for interface in cards::all() {
        let mut at = 0;
        loop {
            let address = interface.addresses.lock().get(at).copied();
            let Some(address) = address else { break };
            if let IpAddr::V4(ip) = address.ip {
                put(&interface.name(), ip)?;
            }
            at += 1;
        }
    }
    Ok(done)
}
