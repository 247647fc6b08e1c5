//! Ports, and which sockets have them.

use crate::errno::{Errno, Result};
use crate::hash::Keyed;
use crate::net::socket::Socket;
use crate::random;
use crate::sync::Mutex;
use crate::task::current;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::hash::{BuildHasher, BuildHasherDefault};
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use core::ptr;

/// Ports that are given to who asks for any (`net.ipv4.ip_local_port_range`).
const EPHEMERAL: RangeInclusive<u16> = 32768..=60999;
/// Below, ports need CAP_NET_BIND_SERVICE.
const UNPRIVILEGED: u16 = 1024;
const CAP_NET_BIND_SERVICE: u32 = 10;

/// A socket's hold on a port.
#[derive(Clone)]
pub struct Holder {
    /// The address that it is bound to.
    pub ip: IpAddr,
    /// It is bound to IPv6 alone.
    pub only_v6: bool,
    /// SO_REUSEADDR
    pub shares_address: bool,
    /// SO_REUSEPORT
    pub shares_port: bool,
    /// It takes connections.
    pub listens: bool,
    /// The socket's number.
    pub number: u64,
    /// The socket.
    pub socket: Weak<dyn Socket>,
}

impl Holder {
    /// Whether something sent to `ip` is for this socket; true also for what both "any" are.
    fn covers(&self, ip: IpAddr) -> bool {
        match (self.ip, ip) {
            (own, ip) if own == ip => true,
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !self.only_v6,
            (own, ip) => own.is_unspecified() && own.is_ipv4() == ip.is_ipv4(),
        }
    }

    fn overlaps(&self, other: &Holder) -> bool {
        self.covers(other.ip) || other.covers(self.ip)
    }

    fn conflicts(&self, other: &Holder) -> bool {
        let shared = self.shares_address && other.shares_address && !self.listens && !other.listens
            || self.shares_port && other.shares_port;
        self.overlaps(other) && !shared
    }
}

/// The ports of a protocol.
pub struct Ports(Mutex<BTreeMap<u16, Vec<Holder>>>);

/// TCP's ports.
pub static TCP: Ports = Ports(Mutex::new(BTreeMap::new()));
/// UDP's ports.
pub static UDP: Ports = Ports(Mutex::new(BTreeMap::new()));
/// UDP-Lite's ports.
pub static UDP_LITE: Ports = Ports(Mutex::new(BTreeMap::new()));

/// A port that a socket has until this goes.
pub struct Claim {
    ports: &'static Ports,
    /// The port.
    pub port: u16,
    number: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut ports = self.ports.0.lock();
        let Some(holders) = ports.get_mut(&self.port) else {
            return;
        };
        let at = holders
            .iter()
            .position(|holder| holder.number == self.number);
        let gone = at.map(|at| holders.swap_remove(at));
        if holders.is_empty() {
            ports.remove(&self.port);
        }
        drop(ports);
        drop(gone);
    }
}

/// A number for a sender: one that is the same each time.
fn spread(from: SocketAddr) -> usize {
    BuildHasherDefault::<Keyed>::default().hash_one(from) as usize
}

impl Ports {
    /// Gives `holder` the port, or for port 0 any free one of `range`, whose ends count where they are within the system's.
    /// EADDRINUSE, EACCES.
    pub fn claim(&'static self, port: u16, range: [u16; 2], holder: Holder) -> Result<Claim> {
        if port != 0 {
            let may = |who: &crate::task::credentials::Credentials| who.can(CAP_NET_BIND_SERVICE);
            if port < UNPRIVILEGED && !current().with_credentials(may) {
                return Err(Errno::EACCES);
            }
            return self.take(port, holder);
        }
        let mut bytes = [0; 2];
        random::fill(&mut bytes);
        let (least, most) = EPHEMERAL.into_inner();
        let within = |port: u16, or: u16| {
            if (least..=most).contains(&port) {
                port
            } else {
                or
            }
        };
        let (first, last) = (within(range[0], least), within(range[1], most));
        let mut count = u32::from(last - first) + 1;
        if ptr::eq(self, &TCP) && count > 1 {
            // As on Linux, where TCP chooses among pairs of an odd and an even port.
            count &= !1;
        }
        let start = u32::from(u16::from_ne_bytes(bytes)) % count;
        for step in 0..count {
            let port = first + ((start + step) % count) as u16;
            if self.0.lock().contains_key(&port) {
                continue;
            }
            match self.take(port, holder.clone()) {
                Err(Errno::EADDRINUSE) => {}
                done => return done,
            }
        }
        Err(Errno::EADDRINUSE)
    }

    fn take(&'static self, port: u16, holder: Holder) -> Result<Claim> {
        let number = holder.number;
        let mut ports = self.0.lock();
        let holders = ports.entry(port).or_default();
        if holders.iter().any(|other| other.conflicts(&holder)) {
            return Err(Errno::EADDRINUSE);
        }
        holders.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        holders.push(holder);
        Ok(Claim {
            ports: self,
            port,
            number,
        })
    }

    /// Lets the socket that has `claim` take connections. EADDRINUSE when another does already.
    pub fn listen(&self, claim: &Claim) -> Result<()> {
        let mut ports = self.0.lock();
        let holders = ports.get_mut(&claim.port).ok_or(Errno::EINVAL)?;
        let at = holders
            .iter()
            .position(|holder| holder.number == claim.number)
            .ok_or(Errno::EINVAL)?;
        let taken = holders.iter().enumerate().any(|(other, holder)| {
            let both = holder.shares_port && holders[at].shares_port;
            other != at && holder.listens && holder.overlaps(&holders[at]) && !both
        });
        if taken {
            return Err(Errno::EADDRINUSE);
        }
        holders[at].listens = true;
        Ok(())
    }

    /// The socket for what `from` sends to `to`: of those for which `rank` is not `None` the one with the greatest, where one
    /// that is bound to this very address comes first. Those that share the port (SO_REUSEPORT) share the senders too.
    pub fn find<R: Ord>(
        &self,
        to: SocketAddr,
        from: SocketAddr,
        rank: impl Fn(&Holder, &Arc<dyn Socket>) -> Option<R>,
    ) -> Option<Arc<dyn Socket>> {
        let mut candidates = Vec::new();
        {
            let ports = self.0.lock();
            let holders = ports.get(&to.port())?;
            candidates.try_reserve(holders.len()).ok()?;
            let covering = holders.iter().filter(|holder| holder.covers(to.ip()));
            candidates.extend(
                covering.filter_map(|holder| Some((holder.clone(), holder.socket.upgrade()?))),
            );
        }
        let ranked = candidates.into_iter().filter_map(|(holder, socket)| {
            let rank = rank(&holder, &socket)?;
            Some(((rank, holder.ip == to.ip()), holder.shares_port, socket))
        });
        let (mut best, mut key, mut shared) = (Vec::new(), None, false);
        for (rank, shares, socket) in ranked {
            let rank = Some(rank);
            if rank > key {
                best.clear();
            }
            if rank >= key {
                best.try_reserve(1).ok()?;
                best.push(socket);
                (key, shared) = (rank, shares);
            }
        }
        let last = best.len().checked_sub(1)?;
        let at = if shared {
            spread(from) % best.len()
        } else {
            last
        };
        Some(best.swap_remove(at))
    }

    /// Hands every socket that has a port to `show`.
    pub fn each(&self, mut show: impl FnMut(&Arc<dyn Socket>)) {
        let mut next = 0u32;
        while let Ok(from) = u16::try_from(next) {
            let found = {
                let ports = self.0.lock();
                let Some((&port, holders)) = ports.range(from..).next() else {
                    return;
                };
                next = u32::from(port) + 1;
                let mut sockets = Vec::new();
                if sockets.try_reserve(holders.len()).is_ok() {
                    sockets.extend(holders.iter().filter_map(|one| one.socket.upgrade()));
                }
                sockets
            };
            found.iter().for_each(&mut show);
        }
    }
}
