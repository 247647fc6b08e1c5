//! Names of sockets, and their addresses as programs see them.

use super::packet::Link;
use crate::errno::{Errno, Result};
use crate::mm::user::{UserPtr, UserSlice};
use alloc::sync::Arc;
use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use linux_raw_sys::net::{AF_INET, AF_INET6, AF_UNIX, AF_UNSPEC};

/// The size of the longest address (`struct sockaddr_storage`).
const MAX: usize = 128;
/// The size of the family field.
pub const FAMILY: usize = 2;
/// `sizeof(struct sockaddr_in)`
const SIZE_V4: usize = 16;
/// `sizeof(struct sockaddr_in6)`, and the same without its scope, which may be omitted.
pub const SIZE_V6: usize = 28;
const SIZE_V6_SHORT: usize = 24;

/// A socket's name.
#[derive(Clone, Default)]
pub enum Name {
    /// The socket has no name.
    #[default]
    Unnamed,
    /// The name of a Unix socket: `sun_path` as it was given. A path ends with a zero byte, an
    /// abstract name begins with one.
    Unix(Arc<[u8]>),
    /// An address and a port.
    Inet(SocketAddr),
    /// A netlink port, and the groups that its socket has joined.
    Netlink(u32, u32),
    /// A link-layer address.
    Link(Link),
}

/// An address: `struct sockaddr` of any family.
#[derive(Clone, Copy)]
pub struct Address {
    bytes: [u8; MAX],
    len: usize,
}

impl Address {
    /// Copies an address from the program. EINVAL if it is too long, EFAULT.
    pub fn read(address: usize, len: u32) -> Result<Self> {
        let len = len as i32;
        if len < 0 || len as usize > MAX {
            return Err(Errno::EINVAL);
        }
        let mut bytes = [0; MAX];
        UserSlice::new(address, len as usize).copy_in(&mut bytes[..len as usize])?;
        Ok(Address {
            bytes,
            len: len as usize,
        })
    }

    fn new(family: u32, rest: &[u8]) -> Self {
        let mut bytes = [0; MAX];
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        let len = 2 + rest.len().min(MAX - 2);
        bytes[2..len].copy_from_slice(&rest[..len - 2]);
        Address { bytes, len }
    }

    /// The address for a socket of family `domain` with this name.
    pub fn of(name: &Name, domain: u32) -> Self {
        match name {
            Name::Unix(path) => Self::new(domain, path),
            Name::Inet(socket) => Self::of_inet(*socket, domain),
            Name::Netlink(port, groups) => {
                let mut rest = [0; 10];
                rest[2..6].copy_from_slice(&port.to_ne_bytes());
                rest[6..].copy_from_slice(&groups.to_ne_bytes());
                Self::new(domain, &rest)
            }
            Name::Link(link) => {
                let (rest, len) = link.address();
                Self::new(domain, &rest[..len])
            }
            Name::Unnamed if domain == AF_UNIX => Self::new(domain, &[]),
            Name::Unnamed => Self::of_inet(SocketAddr::new(unspecified(domain), 0), domain),
        }
    }

    fn of_inet(socket: SocketAddr, domain: u32) -> Self {
        let mut rest = [0; SIZE_V6 - 2];
        rest[..2].copy_from_slice(&socket.port().to_be_bytes());
        if domain == AF_INET6 {
            let (ip, scope) = match socket {
                SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
                SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
            };
            rest[6..22].copy_from_slice(&ip.octets());
            rest[22..].copy_from_slice(&scope.to_ne_bytes());
            return Self::new(domain, &rest);
        }
        if let IpAddr::V4(ip) = socket.ip() {
            rest[2..6].copy_from_slice(&ip.octets());
        }
        Self::new(domain, &rest[..SIZE_V4 - 2])
    }

    /// Its family.
    pub fn family(&self) -> u32 {
        u16::from_ne_bytes([self.bytes[0], self.bytes[1]]).into()
    }

    /// The length in bytes, including the family.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes after the family.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[2.min(self.len)..self.len]
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The IP address and port, for a socket of family `domain`; an IPv4-mapped IPv6 address is
    /// returned as IPv4. EINVAL, EAFNOSUPPORT.
    pub fn inet(&self, domain: u32) -> Result<SocketAddr> {
        let named = self.laid_out_as(domain)?;
        self.check_family(&[domain])?;
        Ok(named)
    }

    /// Like [`inet`](Self::inet), but the family may also be AF_UNSPEC.
    pub fn inet_or_unspecified(&self, domain: u32) -> Result<SocketAddr> {
        let named = self.laid_out_as(domain)?;
        self.check_family(&[domain, AF_UNSPEC])?;
        Ok(named)
    }

    /// Like [`inet`](Self::inet), for bind(2), which accepts IPv4's "any" address with AF_UNSPEC.
    pub fn inet_to_bind(&self, domain: u32) -> Result<SocketAddr> {
        let named = self.laid_out_as(domain)?;
        if domain != AF_INET || !named.ip().is_unspecified() {
            self.check_family(&[domain])?;
        }
        self.check_family(&[domain, AF_UNSPEC])?;
        Ok(named)
    }

    fn check_family(&self, taken: &[u32]) -> Result<()> {
        match taken.contains(&self.family()) {
            true => Ok(()),
            false => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// The IP address and port, read from the positions of an address of family `domain` regardless
    /// of the actual family. EINVAL if it is too short.
    pub fn laid_out_as(&self, domain: u32) -> Result<SocketAddr> {
        let least = if domain == AF_INET6 {
            SIZE_V6_SHORT
        } else {
            SIZE_V4
        };
        if self.len < least {
            return Err(Errno::EINVAL);
        }
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        if domain == AF_INET {
            let ip = [self.bytes[4], self.bytes[5], self.bytes[6], self.bytes[7]];
            return Ok(SocketAddrV4::new(ip.into(), port).into());
        }
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.bytes[8..24]);
        let ip = Ipv6Addr::from(octets);
        Ok(match ip.to_ipv4_mapped() {
            Some(v4) => SocketAddrV4::new(v4, port).into(),
            None => SocketAddrV6::new(ip, port, 0, 0).into(),
        })
    }

    /// Whether connect ends a connection (AF_UNSPEC).
    pub fn is_unspecified(&self) -> bool {
        self.len >= 2 && self.family() == AF_UNSPEC
    }

    /// Writes the address to the program, truncated to the length at `len`, where its full length
    /// is written. A null `address` skips it.
    pub fn write(&self, address: usize, len: usize) -> Result<()> {
        match address {
            0 => Ok(()),
            _ => self.put(address, len),
        }
    }

    /// Like [`write`](Self::write), but not even a null address is skipped.
    pub fn put(&self, address: usize, len: usize) -> Result<()> {
        let room = UserPtr::<i32>::new(len).read()?;
        let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
        UserSlice::new(address, room.min(self.len)).copy_out(self.bytes())?;
        UserPtr::new(len).write(&(self.len as u32))
    }
}

/// The unspecified ("any") address.
pub fn unspecified(domain: u32) -> IpAddr {
    if domain == AF_INET6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        core::net::Ipv4Addr::UNSPECIFIED.into()
    }
}
