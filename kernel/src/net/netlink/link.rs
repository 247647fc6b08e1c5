//! Requests to change an interface or one of its addresses. `lo` cannot be changed, so for it they
//! succeed only if they ask for the present state.

use super::attributes::{Attributes, find};
use super::reply::{Header, REPLACE};
use crate::errno::{Errno, Result};
use crate::net::ether::Interface;
use crate::net::ether::interface as cards;
use crate::net::interface::{self, INDEX, MTU, NAME, QUEUE};
use alloc::sync::Arc;
use core::net::{Ipv4Addr, Ipv6Addr};
use linux_raw_sys::net::{AF_INET, AF_INET6};
use zerocopy::{FromBytes, Immutable};

/// NLM_F_EXCL and NLM_F_CREATE.
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
/// IFLA_MTU, IFLA_IFNAME, IFLA_TXQLEN, IFLA_GROUP, IFLA_EXT_MASK.
const IFLA_MTU: u16 = 4;
const IFLA_NAME: u16 = 3;
const IFLA_QUEUE: u16 = 13;
const IFLA_GROUP: u16 = 27;
const IFLA_EXT_MASK: u16 = 29;
/// IFA_ADDRESS and IFA_LOCAL.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// `struct ifinfomsg`
#[repr(C)]
#[derive(FromBytes, Immutable)]
struct Info {
    family: u16,
    hardware: u16,
    index: i32,
    flags: u32,
    change: u32,
}

/// An interface identified by a request.
pub struct Named<'a> {
    info: Info,
    attributes: &'a [u8],
}

impl<'a> Named<'a> {
    /// EINVAL if the body is too short.
    pub fn read(body: &'a [u8]) -> Result<Self> {
        let (info, attributes) = Info::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
        Ok(Named { info, attributes })
    }

    /// The interface with a card that it identifies.
    pub fn card(&self) -> Option<&'static Arc<Interface>> {
        if self.info.index > 0 {
            return cards::by_index(self.info.index as u32);
        }
        cards::by_name(find(self.attributes, IFLA_NAME)?)
    }

    /// Whether it identifies `lo`; `None` if it identifies none.
    fn is_lo(&self) -> Option<bool> {
        if self.info.index > 0 {
            return Some(self.info.index as u32 == INDEX);
        }
        let name = find(self.attributes, IFLA_NAME)?;
        Some(is_name(name))
    }

    /// ENODEV for another interface, EINVAL for none.
    pub fn check(&self) -> Result<()> {
        match self.is_lo() {
            Some(true) => Ok(()),
            Some(false) if self.card().is_some() => Ok(()),
            Some(false) => Err(Errno::ENODEV),
            None => Err(Errno::EINVAL),
        }
    }

    /// RTM_SETLINK: EOPNOTSUPP for a value that differs from the present one.
    pub fn set(&self) -> Result<()> {
        self.check()?;
        let Info { flags, change, .. } = self.info;
        if let Some(card) = self.card() {
            return super::cards::set_link(card, flags, change, self.attributes);
        }
        if flags | change != 0 {
            let change = if change == 0 { u32::MAX } else { change };
            interface::check_flags(flags & change | interface::FLAGS & !change)?;
        }
        let is_so = |(kind, data): (u16, &[u8])| match kind {
            IFLA_NAME => is_name(data),
            IFLA_MTU => data == MTU.to_ne_bytes(),
            IFLA_QUEUE => data == QUEUE.to_ne_bytes(),
            IFLA_EXT_MASK => true,
            _ => false,
        };
        match Attributes(self.attributes).all(is_so) {
            true => Ok(()),
            false => Err(Errno::EOPNOTSUPP),
        }
    }

    /// RTM_NEWLINK: for `lo` as RTM_SETLINK, but EEXIST with NLM_F_EXCL, and EOPNOTSUPP with
    /// NLM_F_REPLACE. For another link EOPNOTSUPP, or ENODEV without NLM_F_CREATE.
    pub fn make(&self, request: Header) -> Result<()> {
        if self.info.index < 0 {
            return Err(Errno::EINVAL);
        }
        let named = self.is_lo();
        if named == Some(true) || self.card().is_some() {
            return match request.flags {
                flags if flags & EXCLUSIVE != 0 => Err(Errno::EEXIST),
                flags if flags & REPLACE != 0 => Err(Errno::EOPNOTSUPP),
                _ => self.set(),
            };
        }
        let of_group = named.is_none() && find(self.attributes, IFLA_GROUP).is_some();
        match request.flags & CREATE {
            0 if !of_group => Err(Errno::ENODEV),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}

/// Whether an attribute, with or without a final zero, is the name of `lo`.
fn is_name(given: &[u8]) -> bool {
    let name = NAME.split(|&byte| byte == 0).next();
    given.split(|&byte| byte == 0).next() == name
}

/// RTM_NEWADDR and RTM_DELADDR. For `lo`: EEXIST for an existing address, unless it may be
/// replaced; EOPNOTSUPP for another one, and for deletion. ENODEV if the interface does not exist.
pub fn change_address(request: Header, body: &[u8]) -> Result<()> {
    // `struct ifaddrmsg`
    let ([family, bits, _, _], rest) =
        <[u8; 4]>::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
    let (index, attributes) = u32::read_from_prefix(rest).map_err(|_| Errno::EINVAL)?;
    if let Some(card) = cards::by_index(index) {
        return super::cards::change_address(card, request, [family, bits], attributes);
    }
    let local = find(attributes, IFA_LOCAL);
    let (own, whole, given) = match u32::from(family) {
        AF_INET => (&Ipv4Addr::LOCALHOST.octets()[..], [8, 32], local),
        AF_INET6 => {
            let given = local.or_else(|| find(attributes, IFA_ADDRESS));
            (&Ipv6Addr::LOCALHOST.octets()[..], [128, 128], given)
        }
        _ => return Err(Errno::EOPNOTSUPP),
    };
    let given = given.filter(|given| given.len() == own.len() && bits <= whole[1]);
    let given = given.ok_or(Errno::EINVAL)?;
    if index != INDEX {
        return Err(Errno::ENODEV);
    }
    match given == own && bits == whole[0] && request.kind.is_multiple_of(4) {
        false => Err(Errno::EOPNOTSUPP),
        true if request.flags & (EXCLUSIVE | REPLACE) == REPLACE => Ok(()),
        true => Err(Errno::EEXIST),
    }
}
