//! The interface and its addresses (NETLINK_ROUTE).

use super::answer::{Answer, DUMP, Header, MULTI};
use crate::errno::{Errno, Result};
use crate::net::interface::{FLAGS, HARDWARE, INDEX, MTU, QUEUE};
use crate::task::require;
use core::net::{Ipv4Addr, Ipv6Addr};
use linux_raw_sys::general::CAP_NET_ADMIN;
use linux_raw_sys::net::{AF_INET, AF_INET6, AF_UNSPEC};

/// Kinds of messages (`include/uapi/linux/rtnetlink.h`).
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// The last kind that asks something of the routes; every fourth from 18 on only asks to be told.
const LAST: u16 = 0x7f;
/// IFF_LOWER_UP
const LOWER_UP: u32 = 0x1_0000;
/// IFA_F_PERMANENT and RT_SCOPE_HOST.
const PERMANENT: u8 = 0x80;
const HOST: u8 = 254;

/// Answers a request. EPERM for who may change nothing, EOPNOTSUPP for what cannot be changed.
pub fn answer(answer: &mut Answer, request: Header, body: &[u8]) -> Result<()> {
    let dump = request.flags & DUMP != 0;
    let family = body.first().map_or(AF_UNSPEC, |&family| family.into());
    if request.kind % 4 != 2 {
        require(CAP_NET_ADMIN)?;
    }
    match request.kind {
        GET_LINK => answer.link(if dump { MULTI } else { 0 }),
        GET_ADDRESS if dump => {
            if matches!(family, AF_UNSPEC | AF_INET) {
                answer.address(AF_INET, 8, &Ipv4Addr::LOCALHOST.octets());
            }
            if matches!(family, AF_UNSPEC | AF_INET6) {
                answer.address(AF_INET6, 128, &Ipv6Addr::LOCALHOST.octets());
            }
        }
        // Of routes, neighbours and their like there are none.
        NEW_LINK..=LAST if request.kind % 4 == 2 && dump => {}
        // The interface is as it shall be already.
        NEW_LINK | SET_LINK => {}
        NEW_ADDRESS => return Err(Errno::EEXIST),
        _ => return Err(Errno::EOPNOTSUPP),
    }
    Ok(())
}

impl Answer {
    /// RTM_NEWLINK for `lo`: `struct ifinfomsg` and attributes IFLA_*.
    fn link(&mut self, flags: u16) {
        let mut fixed = [0; 16];
        fixed[2..4].copy_from_slice(&HARDWARE.to_ne_bytes());
        fixed[4..8].copy_from_slice(&INDEX.to_ne_bytes());
        fixed[8..12].copy_from_slice(&(FLAGS | LOWER_UP).to_ne_bytes());
        self.begin(NEW_LINK, flags, &fixed);
        self.attribute(3, b"lo\0");
        self.attribute(13, &QUEUE.to_ne_bytes());
        self.attribute(16, &[0]);
        self.attribute(4, &MTU.to_ne_bytes());
        self.attribute(6, b"noqueue\0");
        self.attribute(1, &[0; 6]);
        self.attribute(2, &[0; 6]);
        self.end();
    }

    /// RTM_NEWADDR: `struct ifaddrmsg` and attributes IFA_*.
    fn address(&mut self, family: u32, bits: u8, ip: &[u8]) {
        let mut fixed = [family as u8, bits, PERMANENT, HOST, 0, 0, 0, 0];
        fixed[4..].copy_from_slice(&INDEX.to_ne_bytes());
        self.begin(NEW_ADDRESS, MULTI, &fixed);
        self.attribute(1, ip);
        if family == AF_INET {
            self.attribute(2, ip);
            self.attribute(3, b"lo\0");
        }
        self.end();
    }
}
