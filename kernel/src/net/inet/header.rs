//! What a datagram's header would say: programs can set it, and ask for it beside the bytes.

use super::options::{IP, IPV6, Options};
use crate::errno::Result;
use crate::net::interface::INDEX;
use crate::net::message::Control;
use core::net::{IpAddr, SocketAddr};
use zerocopy::IntoBytes;

/// Names of options that ask for a field, and of the control messages that carry it
/// (`include/uapi/linux/{in,in6}.h`).
const IP_TOS: u32 = 1;
const IP_TTL: u32 = 2;
const IP_PKTINFO: u32 = 8;
const IP_RECVTTL: u32 = 12;
const IP_RECVTOS: u32 = 13;
const IPV6_UNICAST_HOPS: u32 = 16;
const IPV6_RECVPKTINFO: u32 = 49;
const IPV6_PKTINFO: u32 = 50;
const IPV6_RECVHOPLIMIT: u32 = 51;
const IPV6_HOPLIMIT: u32 = 52;
const IPV6_RECVTCLASS: u32 = 66;
const IPV6_TCLASS: u32 = 67;

/// Hops that a packet is allowed where nothing else is said.
const HOPS: i32 = 64;

/// The fields.
#[derive(Clone, Copy, Default)]
pub struct Header {
    hops: Option<i32>,
    class: Option<i32>,
    to: Option<IpAddr>,
}

impl Header {
    /// Takes a field that a control message sets; others are left, and -1 leaves it to the options.
    pub fn set(&mut self, level: u32, kind: u32, value: i32) {
        match (level, kind) {
            _ if value < 0 => {}
            (IP, IP_TTL) | (IPV6, IPV6_HOPLIMIT) => self.hops = Some(value),
            (IP, IP_TOS) | (IPV6, IPV6_TCLASS) => self.class = Some(value),
            _ => {}
        }
    }

    /// What was not set is as the sender's options have it.
    pub fn complete(&mut self, options: &Options, to: SocketAddr) {
        let [hops, class] = if to.is_ipv4() {
            [(IP, IP_TTL), (IP, IP_TOS)]
        } else {
            [(IPV6, IPV6_UNICAST_HOPS), (IPV6, IPV6_TCLASS)]
        };
        let value = |(level, name)| options.value(level, name);
        let allowed = || Some(value(hops)).filter(|&hops| hops >= 0).unwrap_or(HOPS);
        self.hops.get_or_insert_with(allowed);
        self.class.get_or_insert_with(|| value(class));
        self.to = Some(to.ip());
    }

    /// Tells a program the fields that its options ask for.
    pub fn put(&self, options: &Options, control: &mut Control) -> Result<()> {
        let asked = |level, name| options.value(level, name) > 0;
        let (hops, class) = (self.hops.unwrap_or(HOPS), self.class.unwrap_or(0));
        match self.to {
            Some(IpAddr::V6(to)) if asked(IPV6, IPV6_RECVPKTINFO) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&to.octets());
                info[16..].copy_from_slice(&INDEX.to_ne_bytes());
                control.put(IPV6, IPV6_PKTINFO, &info)?;
            }
            Some(IpAddr::V4(to)) if asked(IP, IP_PKTINFO) => {
                let mut info = [0; 12];
                info[..4].copy_from_slice(&INDEX.to_ne_bytes());
                info[4..8].copy_from_slice(&to.octets());
                info[8..].copy_from_slice(&to.octets());
                control.put(IP, IP_PKTINFO, &info)?;
            }
            _ => {}
        }
        if self.to.is_some_and(|to| to.is_ipv6()) {
            if asked(IPV6, IPV6_RECVHOPLIMIT) {
                control.put(IPV6, IPV6_HOPLIMIT, hops.as_bytes())?;
            }
            if asked(IPV6, IPV6_RECVTCLASS) {
                control.put(IPV6, IPV6_TCLASS, class.as_bytes())?;
            }
            return Ok(());
        }
        if asked(IP, IP_RECVTTL) {
            control.put(IP, IP_TTL, hops.as_bytes())?;
        }
        if asked(IP, IP_RECVTOS) {
            control.put(IP, IP_TOS, &[class as u8])?;
        }
        Ok(())
    }
}
