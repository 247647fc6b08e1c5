//! Where an IP socket is bound.

use super::is_local;
use super::ports::{Claim, Holder, Ports};
use crate::errno::{Errno, Result};
use crate::net::name::{Address, Name, unspecified};
use crate::net::socket::{Base, Socket};
use crate::sync::Mutex;
use alloc::sync::Weak;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering::*};
use linux_raw_sys::net::{SO_REUSEADDR, SO_REUSEPORT};

struct Bound {
    local: SocketAddr,
    claim: Claim,
}

/// The address and port of a socket.
pub struct Place {
    ports: &'static Ports,
    bound: Mutex<Option<Bound>>,
    /// IPV6_V6ONLY
    pub only_v6: AtomicBool,
}

impl Place {
    /// Not bound yet.
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
    pub fn bind(&self, address: &Address, base: &Base, socket: Weak<dyn Socket>) -> Result<()> {
        let at = address.inet(base.domain)?;
        if !at.ip().is_unspecified() && !is_local(at.ip()) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        self.check_family(at.ip(), base, Errno::EINVAL)?;
        if self.local().is_some() {
            return Err(Errno::EINVAL);
        }
        self.claim(at, base, socket)
    }

    /// Fails with `error` for an IPv4 address at a socket of IPv6 alone.
    pub fn check_family(&self, ip: IpAddr, base: &Base, error: Errno) -> Result<()> {
        let foreign = ip.is_ipv4() && unspecified(base.domain).is_ipv6();
        if foreign && self.only_v6.load(Acquire) {
            Err(error)
        } else {
            Ok(())
        }
    }

    fn claim(&self, at: SocketAddr, base: &Base, socket: Weak<dyn Socket>) -> Result<()> {
        let claim = self.ports.claim(
            at.port(),
            Holder {
                ip: at.ip(),
                only_v6: self.only_v6.load(Acquire),
                shares_address: base.options.is_on(SO_REUSEADDR),
                shares_port: base.options.is_on(SO_REUSEPORT),
                listens: false,
                number: base.number,
                socket,
            },
        )?;
        let local = SocketAddr::new(at.ip(), claim.port);
        // Who was faster stays; the other claim is given back without the lock.
        let fresh = Bound { local, claim };
        let mut bound = self.bound.lock();
        if bound.is_some() {
            drop(bound);
            drop(fresh);
            return Err(Errno::EINVAL);
        }
        *bound = Some(fresh);
        Ok(())
    }

    /// Gives it any port, if it has none.
    pub fn claim_any(&self, ip: IpAddr, base: &Base, socket: Weak<dyn Socket>) -> Result<()> {
        if self.local().is_some() {
            return Ok(());
        }
        match self.claim(SocketAddr::new(ip, 0), base, socket) {
            Err(Errno::EADDRINUSE) => Err(Errno::EADDRNOTAVAIL),
            _ if self.local().is_some() => Ok(()),
            done => done,
        }
    }

    /// Gives "any" address up for this one, with which it is connected.
    pub fn settle(&self, ip: IpAddr) {
        if let Some(bound) = &mut *self.bound.lock()
            && bound.local.ip().is_unspecified()
        {
            bound.local.set_ip(ip);
        }
    }

    /// Lets the port take connections.
    pub fn listen(&self) -> Result<()> {
        let bound = self.bound.lock();
        let bound = bound.as_ref().ok_or(Errno::EINVAL)?;
        self.ports.listen(&bound.claim)
    }

    /// Gives the port back.
    pub fn release(&self) {
        let bound = self.bound.lock().take();
        drop(bound);
    }

    /// The address and port, when it has them.
    pub fn local(&self) -> Option<SocketAddr> {
        self.bound.lock().as_ref().map(|bound| bound.local)
    }

    /// The same as a name.
    pub fn name(&self) -> Name {
        self.local().map_or(Name::Unnamed, Name::Inet)
    }
}
