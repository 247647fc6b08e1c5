//! The interface, its addresses, and the routes to them (NETLINK_ROUTE).

use super::attributes::find;
use super::cards::{self, Flush};
use super::link::{self, Named};
use super::reply::{DUMP, Header, MULTI, Reply};
use crate::errno::{Errno, Result};
use crate::net::ether::interface;
use crate::net::inet::{is_broadcast, is_local};
use crate::net::interface::{FLAGS, HARDWARE, INDEX, MTU, QUEUE};
use crate::net::mib::{Event, of};
use crate::task::{current, require};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use linux_raw_sys::general::CAP_NET_ADMIN;
use linux_raw_sys::net::{AF_INET, AF_INET6, AF_UNSPEC};
use zerocopy::IntoBytes;

/// Kinds of messages (`include/uapi/linux/rtnetlink.h`).
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOUR: u16 = 28;
const DELETE_NEIGHBOUR: u16 = 29;
const GET_NEIGHBOUR: u16 = 30;
const NEW_RULE: u16 = 32;
const GET_RULE: u16 = 34;
/// Requests that change something; others get EOPNOTSUPP.
const _: () = {
    let handled = [
        NEW_LINK as u64,
        SET_LINK as u64,
        NEW_ADDRESS as u64,
        DELETE_ADDRESS as u64,
        NEW_ROUTE as u64,
        DELETE_ROUTE as u64,
        NEW_NEIGHBOUR as u64,
        DELETE_NEIGHBOUR as u64,
    ];
    assert!(abi::options::ROUTE.is_handled_by(&handled));
};
/// The last kind of requests about routing; every fourth from 18 on only reads.
const LAST: u16 = 0x7f;
/// IFF_LOWER_UP
const LOWER_UP: u32 = 0x1_0000;
/// IFA_F_PERMANENT, and IFAPROT_KERNEL_LO.
const PERMANENT: u8 = 0x80;
const KERNEL_LO: u8 = 1;
/// RT_SCOPE_HOST, RT_SCOPE_LINK and RT_SCOPE_UNIVERSE.
const HOST: u8 = 254;
const LINK: u8 = 253;
const UNIVERSE: u8 = 0;
/// RTN_LOCAL and RTN_BROADCAST, and RTPROT_KERNEL.
const TO_LOCAL: u8 = 2;
const TO_ALL: u8 = 3;
const BY_KERNEL: u8 = 2;
const BY_NOBODY: u8 = 0;
/// Routing tables, in the order in which the kernel searches them.
const LOCAL: u8 = 255;
const MAIN: u8 = 254;
const RULES: [(u32, u8); 3] = [(0, LOCAL), (32766, MAIN), (32767, 253)];
/// RTM_F_LOOKUP_TABLE: the table in which a route was found is requested.
const ASKS_TABLE: u32 = 0x1000;
/// The table and the origin of permanent routes.
const OWN: [u8; 2] = [LOCAL, BY_KERNEL];
/// RTM_F_CLONED and RTCF_LOCAL: for IPv4, the result of a look-up, a route to this machine.
const FOUND: u32 = 0x200;
const FOUND_LOCAL: u32 = 0x8000_0000;
/// RTCF_BROADCAST: a broadcast route.
const FOUND_BROADCAST: u32 = 0x1000_0000;
/// The size of `struct rtmsg`, and the attribute for a destination.
const ROUTE: usize = 12;
const DESTINATION: u16 = 1;

/// Answers a request; true if that was a dump, whose end must follow. EPERM without the right to
/// make changes, EOPNOTSUPP for unknown requests.
pub fn handle(reply: &mut Reply, request: Header, body: &[u8], flush: &mut Flush) -> Result<bool> {
    // The flags have another meaning for requests that create something.
    let dump = request.kind % 4 == 2 && request.flags & DUMP != 0;
    let family = body.first().map_or(AF_UNSPEC, |&family| family.into());
    if request.kind % 4 != 2 {
        require(CAP_NET_ADMIN)?;
    }
    match request.kind {
        GET_LINK if dump => {
            reply.link(MULTI);
            interface::all().for_each(|card| reply.card(card, MULTI));
        }
        GET_LINK => match Named::read(body)?.card() {
            Some(card) => reply.card(card, 0),
            None => {
                Named::read(body)?.check()?;
                reply.link(0);
            }
        },
        GET_ADDRESS if dump => {
            if matches!(family, AF_UNSPEC | AF_INET) {
                reply.address(AF_INET, 8, &Ipv4Addr::LOCALHOST.octets());
            }
            if matches!(family, AF_UNSPEC | AF_INET6) {
                reply.address(AF_INET6, 128, &Ipv6Addr::LOCALHOST.octets());
            }
            reply.card_addresses(family);
        }
        GET_ROUTE if dump => {
            reply.routes(family);
            reply.card_routes(family, flush)?;
        }
        GET_NEIGHBOUR if dump => reply.neighbours(family, flush)?,
        GET_ROUTE => reply.route_to(body)?,
        GET_RULE if dump => reply.rules(family),
        // There are no other objects of these kinds.
        NEW_LINK..=LAST if dump => {}
        NEW_LINK => Named::read(body)?.make(request)?,
        SET_LINK => Named::read(body)?.set()?,
        DELETE_LINK => {
            Named::read(body)?.check()?;
            return Err(Errno::EOPNOTSUPP);
        }
        NEW_ADDRESS | DELETE_ADDRESS => link::change_address(request, body)?,
        NEW_ROUTE => cards::add_route(request, body)?,
        DELETE_ROUTE => cards::remove_route(body)?,
        NEW_NEIGHBOUR | DELETE_NEIGHBOUR => cards::change_neighbour(request, body)?,
        _ => return Err(Errno::EOPNOTSUPP),
    }
    Ok(dump)
}

impl Reply {
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
        self.attribute(17, &[0]);
        self.attribute(27, &[0; 4]);
        self.attribute(4, &MTU.to_ne_bytes());
        self.attribute(6, b"noqueue\0");
        self.attribute(1, &[0; 6]);
        self.attribute(2, &[0; 6]);
        // Packets and bytes received and sent; none was dropped.
        let both = |event| of(event, false) + of(event, true);
        let mut counts = [0u64; 25];
        counts[..2].fill(both(Event::Packets));
        counts[2..4].fill(both(Event::Octets));
        self.attribute(23, counts.as_bytes());
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
        } else {
            self.attribute(11, &[KERNEL_LO]);
        }
        self.attribute(8, &u32::from(PERMANENT).to_ne_bytes());
        // Valid and preferred for ever, since boot.
        self.attribute(6, [u32::MAX, u32::MAX, 0, 0].as_bytes());
        self.end();
    }

    /// The routes to this machine's addresses.
    fn routes(&mut self, family: u32) {
        let own = Ipv4Addr::LOCALHOST.octets();
        if matches!(family, AF_UNSPEC | AF_INET) {
            for (to, bits, kind, scope) in [
                ([127, 0, 0, 0], 8, TO_LOCAL, HOST),
                (own, 32, TO_LOCAL, HOST),
                ([127, 255, 255, 255], 32, TO_ALL, LINK),
            ] {
                self.route(OWN, [AF_INET as u8, bits, kind, scope], &to, MULTI, 0);
                self.attribute(7, &own);
                self.end();
            }
        }
        if matches!(family, AF_UNSPEC | AF_INET6) {
            let to = Ipv6Addr::LOCALHOST.octets();
            let which = [AF_INET6 as u8, 128, TO_LOCAL, UNIVERSE];
            self.route(OWN, which, &to, MULTI, 0);
            self.put_metric();
            self.end();
        }
    }

    /// RTM_NEWROUTE: `struct rtmsg` and attributes RTA_*; the caller ends the message.
    fn route(
        &mut self,
        [table, origin]: [u8; 2],
        [family, bits, kind, scope]: [u8; 4],
        to: &[u8],
        part: u16,
        flags: u32,
    ) {
        let mut fixed = [family, bits, 0, 0, table, origin, scope, kind, 0, 0, 0, 0];
        fixed[8..].copy_from_slice(&flags.to_ne_bytes());
        self.begin(NEW_ROUTE, part, &fixed);
        self.attribute(15, &u32::from(table).to_ne_bytes());
        self.attribute(DESTINATION, to);
        self.attribute(4, &INDEX.to_ne_bytes());
    }

    /// RTA_SRC, and its bits in `struct rtmsg`.
    fn put_any_source(&mut self) {
        self.fixed()[2] = 128;
        self.attribute(2, &[0; 16]);
    }

    /// RTA_PRIORITY and RTA_PREF of a route of IPv6.
    fn put_metric(&mut self) {
        self.attribute(6, &[0; 4]);
        self.attribute(20, &[0]);
    }

    /// The route to an address. EINVAL if none is given, ENETUNREACH.
    fn route_to(&mut self, body: &[u8]) -> Result<()> {
        let to = destination(body).ok_or(Errno::EINVAL)?;
        if !is_local(to) {
            let user = current().with_credentials(|who| who.euid);
            return self.way_to(to, user);
        }
        match to {
            IpAddr::V4(ip) => {
                let (kind, flags) = match is_broadcast(to) {
                    true => (TO_ALL, FOUND | FOUND_LOCAL | FOUND_BROADCAST),
                    false => (TO_LOCAL, FOUND | FOUND_LOCAL),
                };
                let which = [AF_INET as u8, 32, kind, UNIVERSE];
                let asked = body.get(8..12).and_then(|flags| flags.try_into().ok());
                let asks = asked.map_or(0, u32::from_ne_bytes) & ASKS_TABLE != 0;
                let table = if asks { LOCAL } else { MAIN };
                self.route([table, BY_NOBODY], which, &ip.octets(), 0, flags);
                self.attribute(7, &Ipv4Addr::LOCALHOST.octets());
                let user = current().with_credentials(|who| who.euid);
                self.attribute(25, &user.to_ne_bytes());
            }
            IpAddr::V6(ip) => {
                let which = [AF_INET6 as u8, 128, TO_LOCAL, UNIVERSE];
                self.route(OWN, which, &ip.octets(), 0, 0);
                // The source prefix has 128 bits too.
                self.put_any_source();
                self.attribute(7, &ip.octets());
                self.put_metric();
            }
        }
        self.end();
        Ok(())
    }

    /// RTM_NEWRULE: the tables that are searched, in order.
    fn rules(&mut self, family: u32) {
        for (of, count) in [(AF_INET, 3), (AF_INET6, 2)] {
            for (priority, table) in RULES.into_iter().take(count) {
                if family == AF_UNSPEC || family == of {
                    let fixed = [of as u8, 0, 0, 0, table, 0, 0, 1, 0, 0, 0, 0];
                    self.begin(NEW_RULE, MULTI, &fixed);
                    self.attribute(15, &u32::from(table).to_ne_bytes());
                    self.attribute(14, &[0xff; 4]);
                    self.attribute(6, &priority.to_ne_bytes());
                    self.end();
                }
            }
        }
    }
}

/// The address in a request for a route.
fn destination(body: &[u8]) -> Option<IpAddr> {
    let data = find(body.get(ROUTE..)?, DESTINATION)?;
    let v4 = || <[u8; 4]>::try_from(data).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(data).map(IpAddr::from);
    v4().or_else(|_| v6()).ok()
}
