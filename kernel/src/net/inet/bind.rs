//! The address that an IP socket is bound to.

use super::connections::{self, End, Port, Tuple};
use super::ports::{Claim, Holder, Kept, Ports};
use super::{is_broadcast, is_local};
use crate::errno::{Errno, Result};
use crate::net::address::{Address, Name, unspecified};
use crate::net::socket::{Base, Socket};
use crate::sync::Mutex;
use alloc::sync::Weak;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering::*};
use linux_raw_sys::net::{SO_REUSEADDR, SO_REUSEPORT};

struct Bound {
    local: SocketAddr,
    /// Whether bind(2) was given the address and the port, which are kept when a connection is
    /// dissolved.
    given: [bool; 2],
    /// The claim on the port; `None` until one is needed.
    claim: Option<Claim>,
}

/// How a socket is to be bound, according to its options.
#[derive(Clone, Copy, Default)]
pub struct Binding {
    /// The lowest and the highest port that may be chosen; 0 for the system's range.
    pub ports: [u16; 2],
    /// Whether the address need not be this machine's (IP_FREEBIND and its kin).
    pub free: bool,
    /// Whether no port is chosen before it is needed (IP_BIND_ADDRESS_NO_PORT).
    pub late: bool,
}

/// The address and port of a socket.
pub struct Place {
    ports: &'static Ports,
    bound: Mutex<Option<Bound>>,
    /// IPV6_V6ONLY
    pub only_v6: AtomicBool,
}

impl Place {
    /// An unbound socket.
    pub const fn new(ports: &'static Ports) -> Self {
        Place {
            ports,
            bound: Mutex::new(None),
            only_v6: AtomicBool::new(false),
        }
    }

    /// The ports of its protocol.
    pub fn ports(&self) -> &'static Ports {
        self.ports
    }

    /// bind(2)
    pub fn bind(
        &self,
        address: &Address,
        base: &Base,
        how: Binding,
        socket: Weak<dyn Socket>,
    ) -> Result<()> {
        let at = address.inet_to_bind(base.domain)?;
        if !at.ip().is_unspecified() && !is_local(at.ip()) && !how.free {
            return Err(Errno::EADDRNOTAVAIL);
        }
        self.check_family(at.ip(), base, Errno::EINVAL)?;
        if self.has_port() {
            return Err(Errno::EINVAL);
        }
        let given = [!at.ip().is_unspecified(), at.port() != 0];
        if how.late && at.port() == 0 {
            return self.take(Bound {
                local: at,
                given,
                claim: None,
            });
        }
        self.claim(at, given, how.ports, base, socket)
    }

    /// Sets the address, without a port.
    pub fn set_local_ip(&self, ip: IpAddr) {
        *self.bound.lock() = Some(Bound {
            local: SocketAddr::new(ip, 0),
            given: [!ip.is_unspecified(), false],
            claim: None,
        });
    }

    /// Fails with `error` for an IPv4 address if the socket is for IPv6 only.
    pub fn check_family(&self, ip: IpAddr, base: &Base, error: Errno) -> Result<()> {
        let foreign = ip.is_ipv4() && unspecified(base.domain).is_ipv6();
        if foreign && self.only_v6.load(Acquire) {
            Err(error)
        } else {
            Ok(())
        }
    }

    /// The properties of the socket as a holder of a port at `ip`.
    fn holder(&self, ip: IpAddr, base: &Base) -> Holder {
        Holder {
            ip,
            only_v6: self.only_v6.load(Acquire),
            shares_address: base.options.is_on(SO_REUSEADDR),
            shares_port: base.options.is_on(SO_REUSEPORT),
            user: base.user(),
            listens: false,
            waits: false,
        }
    }

    fn claim(
        &self,
        at: SocketAddr,
        given: [bool; 2],
        range: [u16; 2],
        base: &Base,
        socket: Weak<dyn Socket>,
    ) -> Result<()> {
        let holder = self.holder(at.ip(), base);
        let claim = self.ports.claim(at.port(), range, holder, &socket)?;
        if base.options.prefers_cpu() {
            self.ports.disable_hashing(&claim);
        }
        let local = SocketAddr::new(at.ip(), claim.port);
        self.take(Bound {
            local,
            given,
            claim: Some(claim),
        })
    }

    /// Stores the claim on a port. If there is one already, that is kept; the new one is dropped
    /// without the lock.
    fn take(&self, fresh: Bound) -> Result<()> {
        let mut bound = self.bound.lock();
        if bound.as_ref().is_some_and(|bound| bound.claim.is_some()) {
            drop(bound);
            drop(fresh);
            return Err(Errno::EINVAL);
        }
        *bound = Some(fresh);
        Ok(())
    }

    /// Claims any port, if the socket has none.
    pub fn claim_any(
        &self,
        ip: IpAddr,
        base: &Base,
        how: Binding,
        socket: Weak<dyn Socket>,
    ) -> Result<()> {
        if self.has_port() {
            return Ok(());
        }
        let (at, given) = match &*self.bound.lock() {
            // The number of a released port is only used by getsockname(2).
            Some(bound) if !bound.given[1] => (SocketAddr::new(bound.local.ip(), 0), bound.given),
            Some(bound) => (bound.local, bound.given),
            None => (SocketAddr::new(ip, 0), [false; 2]),
        };
        match self.claim(at, given, how.ports, base, socket) {
            _ if self.has_port() => Ok(()),
            Err(Errno::EADDRINUSE) => Err(Errno::EADDRNOTAVAIL),
            done => done,
        }
    }

    /// Creates the end of a connection to `peer`: from the port that bind(2) was given, or from one
    /// that this chooses, at the bound address, or at `ip`.
    ///
    /// # Errors
    /// EADDRNOTAVAIL: such a connection exists, or one exists from each port. ENOMEM.
    pub fn begin_connection(
        &self,
        [ip, peer]: [IpAddr; 2],
        to_port: u16,
        base: &Base,
        how: Binding,
        socket: Weak<dyn Socket>,
    ) -> Result<End> {
        let peer = SocketAddr::new(peer, to_port);
        connections::expire();
        let (at, given, claimed) = match &*self.bound.lock() {
            Some(bound) => (bound.local, bound.given, bound.claim.is_some()),
            None => (SocketAddr::new(ip, 0), [false; 2], false),
        };
        let from = if given[0] && !is_broadcast(at.ip()) {
            at.ip()
        } else {
            ip
        };
        let tuple = |port| Tuple {
            local: SocketAddr::new(from, port),
            peer,
        };
        if claimed {
            self.leave_broadcast(from)?;
            return End::enter(tuple(at.port()), Port::Given, base.domain);
        }
        let (claim, end) = self.ports.connect_from(
            how.ports,
            self.holder(from, base),
            &socket,
            |port| connections::is_free(&tuple(port), Port::Chosen),
            |port| End::enter(tuple(port), Port::Chosen, base.domain),
        )?;
        let local = SocketAddr::new(from, claim.port);
        self.take(Bound {
            local,
            given,
            claim: Some(claim),
        })?;
        Ok(end)
    }

    /// Replaces a broadcast address by this one, since no connection begins there. As on Linux,
    /// this is not undone if the connection fails.
    fn leave_broadcast(&self, ip: IpAddr) -> Result<()> {
        if let Some(bound) = &mut *self.bound.lock()
            && is_broadcast(bound.local.ip())
        {
            if let Some(claim) = &mut bound.claim {
                self.ports.move_claim(claim, ip)?;
            }
            bound.local.set_ip(ip);
        }
        Ok(())
    }

    /// Keeps the port for the end of a connection at `ip` that waits without a socket.
    pub fn keep(&self, ip: IpAddr) -> Option<Kept> {
        let bound = self.bound.lock();
        let claim = bound.as_ref()?.claim.as_ref()?;
        self.ports.keep_waiting(claim, ip).ok()
    }

    fn has_port(&self) -> bool {
        let bound = self.bound.lock();
        bound.as_ref().is_some_and(|bound| bound.claim.is_some())
    }

    /// Ends a connection, or an attempt: only the address and port that bind(2) was given are kept;
    /// if `keeps` (TCP), the number of the port is kept too.
    pub fn disconnect(&self, keeps: bool) {
        let mut place = self.bound.lock();
        let Some(bound) = &mut *place else { return };
        let [address, port] = bound.given;
        let gone = if port { None } else { bound.claim.take() };
        if !address {
            let any = match bound.local.ip() {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            bound.local.set_ip(any);
        }
        if !port && !keeps {
            bound.local.set_port(0);
            if !address {
                *place = None;
            }
        }
        drop(place);
        drop(gone);
    }

    /// Replaces the "any" address by this one, with which the socket is connected.
    pub fn bind_any_to(&self, ip: IpAddr) {
        if let Some(bound) = &mut *self.bound.lock()
            && bound.local.ip().is_unspecified()
        {
            bound.local.set_ip(ip);
        }
    }

    /// The socket is connected, and no longer receives from every sender.
    pub fn disable_hashing(&self) {
        let bound = self.bound.lock();
        if let Some(claim) = bound.as_ref().and_then(|bound| bound.claim.as_ref()) {
            self.ports.disable_hashing(claim);
        }
    }

    /// The socket may have a preferred CPU from now on.
    pub fn cpu_preference_changed(&self, base: &Base) {
        if base.options.prefers_cpu() {
            self.disable_hashing();
        }
    }

    /// Makes the port accept connections.
    pub fn listen(&self) -> Result<()> {
        let bound = self.bound.lock();
        let bound = bound.as_ref().ok_or(Errno::EINVAL)?;
        let claim = bound.claim.as_ref().ok_or(Errno::EINVAL)?;
        self.ports.listen(claim)
    }

    /// The address and port, if it has them.
    pub fn local(&self) -> Option<SocketAddr> {
        self.bound.lock().as_ref().map(|bound| bound.local)
    }

    /// The name, made of that address and port.
    pub fn name(&self) -> Name {
        self.local().map_or(Name::Unnamed, Name::Inet)
    }
}
