//! Ports, and which sockets have them.

use crate::errno::{Errno, Result};
use crate::hash::{Keyed, Lists};
use crate::net::socket::Socket;
use crate::random;
use crate::sync::Mutex;
use crate::task::current;
use crate::task::sched::cond_resched_killable;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::hash::{BuildHasher, BuildHasherDefault};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::RangeInclusive;
use core::ptr;
use radix::Radix;

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
    /// SO_REUSEPORT, with other sockets of the same user.
    pub shares_port: bool,
    /// Whose the socket is.
    pub user: u32,
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

    /// Whether both share their port, which nobody can make another user's socket do.
    fn shares_with(&self, other: &Holder) -> bool {
        self.shares_port && other.shares_port && self.user == other.user
    }

    fn conflicts(&self, other: &Holder) -> bool {
        let shared = self.shares_address && other.shares_address && !self.listens && !other.listens;
        self.overlaps(other) && !shared && !self.shares_with(other)
    }
}

/// Who has a port, by the address that they are bound to.
type Held = Lists<IpAddr, Holder>;

/// Those who may receive what is sent to `ip`.
fn covering(held: &Held, ip: IpAddr) -> impl Iterator<Item = &Holder> {
    let any = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let addresses = any.into_iter().filter(move |&any| any != ip).chain([ip]);
    let bound = addresses.flat_map(|ip| held.of(&ip));
    bound.filter(move |holder| holder.covers(ip))
}

/// The first of those whose addresses overlap with that of `holder` for which `is` is true.
fn overlapping<'a>(
    held: &'a Held,
    holder: &Holder,
    is: impl Fn(&Holder) -> bool,
) -> Option<&'a Holder> {
    if holder.ip.is_unspecified() {
        let mut all = held.all();
        all.find(|other| holder.overlaps(other) && is(other))
    } else {
        covering(held, holder.ip).find(|other| is(other))
    }
}

/// The ports of a protocol.
pub struct Ports(Mutex<Radix<Held>>);

/// TCP's ports.
pub static TCP: Ports = Ports(Mutex::new(Radix::new()));
/// UDP's ports.
pub static UDP: Ports = Ports(Mutex::new(Radix::new()));
/// UDP-Lite's ports.
pub static UDP_LITE: Ports = Ports(Mutex::new(Radix::new()));
/// The identifiers of ping sockets.
pub static PING: Ports = Ports(Mutex::new(Radix::new()));

/// A port that a socket has until this goes.
pub struct Claim {
    ports: &'static Ports,
    /// The port.
    pub port: u16,
    /// The address that it is bound to.
    ip: IpAddr,
    number: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut ports = self.ports.0.lock();
        let port = self.port.into();
        let Some(held) = ports.get_mut(port) else {
            return;
        };
        let gone = held.take(&self.ip, |one| one.number == self.number);
        if held.len() == 0 {
            ports.remove_range(port, port, &mut drop);
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
            let guarded = port < UNPRIVILEGED && !ptr::eq(self, &PING);
            if guarded && !current().with_credentials(may) {
                return Err(Errno::EACCES);
            }
            return self.take(port, holder);
        }
        let mut bytes = [0; 2];
        random::fill(&mut bytes);
        let (least, most) = if ptr::eq(self, &PING) {
            (1, u16::MAX)
        } else {
            EPHEMERAL.into_inner()
        };
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
            cond_resched_killable()?;
            let port = first + ((start + step) % count) as u16;
            if self.0.lock().get(port.into()).is_some() {
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
        let (ip, number) = (holder.ip, holder.number);
        self.enter(port, holder)?;
        Ok(Claim {
            ports: self,
            port,
            ip,
            number,
        })
    }

    fn enter(&self, port: u16, holder: Holder) -> Result<()> {
        let mut ports = self.0.lock();
        let Some(held) = ports.get_mut(port.into()) else {
            let mut fresh = Lists::new();
            fresh.push(holder.ip, holder)?;
            return match ports.insert(port.into(), fresh) {
                Ok(_) => Ok(()),
                Err(_) => Err(Errno::ENOMEM),
            };
        };
        let taken = overlapping(held, &holder, |other| other.conflicts(&holder));
        if taken.is_some() {
            return Err(Errno::EADDRINUSE);
        }
        held.push(holder.ip, holder)
    }

    /// Lets the socket that has `claim` take connections. EADDRINUSE when another does already.
    pub fn listen(&self, claim: &Claim) -> Result<()> {
        let mut ports = self.0.lock();
        let held = ports.get_mut(claim.port.into()).ok_or(Errno::EINVAL)?;
        let is_own = |holder: &&Holder| holder.number == claim.number;
        let own = held.of(&claim.ip).iter().find(is_own);
        let own = own.ok_or(Errno::EINVAL)?.clone();
        let taken = overlapping(held, &own, |holder| {
            holder.number != own.number && holder.listens && !holder.shares_with(&own)
        });
        if taken.is_some() {
            return Err(Errno::EADDRINUSE);
        }
        let mut same = held.of_mut(&claim.ip).iter_mut();
        if let Some(holder) = same.find(|holder| holder.number == own.number) {
            holder.listens = true;
        }
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
            let held = ports.get(to.port().into())?;
            let holders = || covering(held, to.ip());
            candidates.try_reserve(holders().count()).ok()?;
            candidates.extend(
                holders().filter_map(|holder| Some((holder.clone(), holder.socket.upgrade()?))),
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
}
