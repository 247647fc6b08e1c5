//! What sockets there are (NETLINK_SOCK_DIAG), as ss(8) asks.

use super::answer::{Answer, MULTI};
use crate::errno::{Errno, Result};
use crate::net::inet::ports::{self, Ports};
use crate::net::name::{Name, unspecified};
use crate::net::socket::Socket;
use crate::net::unix;
use core::net::{IpAddr, SocketAddr};
use linux_raw_sys::net::{AF_INET, AF_INET6, AF_UNIX, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_UDPLITE};

/// SOCK_DIAG_BY_FAMILY
pub const BY_FAMILY: u16 = 20;
/// Bytes of the requests `struct inet_diag_req_v2` and `struct unix_diag_req`.
const INET_REQUEST: usize = 56;
const UNIX_REQUEST: usize = 24;
/// Attributes (`enum` of UNIX_DIAG_), and the bits that ask for them.
const UNIX_NAME: u16 = 0;
const UNIX_QUEUE: u16 = 4;
/// States, as all families number them.
const ESTABLISHED: u8 = 1;
const CLOSED: u8 = 7;
const LISTENS: u8 = 10;
/// Bytes of an answer after which it is sent.
const BATCH: usize = 4096;

/// Answers a dump, piece by piece, each handed to `send`. EINVAL for a request that is none, ENOENT for another family.
pub fn dump(
    answer: &mut Answer,
    body: &[u8],
    mut send: impl FnMut(&mut Answer) -> Result<()>,
) -> Result<()> {
    let family = body.first().copied().unwrap_or(0).into();
    let mut told = Ok(());
    let mut each = |answer: &mut Answer| {
        if told.is_ok() && answer.bytes.len() >= BATCH {
            told = send(answer);
            answer.bytes.clear();
        }
        told.is_ok()
    };
    match family {
        AF_INET | AF_INET6 => {
            let request = body.get(..INET_REQUEST).ok_or(Errno::EINVAL)?;
            let states = u32::from_ne_bytes([request[4], request[5], request[6], request[7]]);
            ports_of(request[1])?.each(|socket| {
                let wanted = socket.base().domain == family && states >> socket.state() & 1 != 0;
                if wanted && each(answer) {
                    put_inet(answer, &**socket);
                }
            });
        }
        AF_UNIX => {
            let request = body.get(..UNIX_REQUEST).ok_or(Errno::EINVAL)?;
            let word = |at: usize| request[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
            let (states, shown) = (word(4), word(12));
            unix::each(|socket| {
                if states >> unix_state(&**socket) & 1 != 0 && each(answer) {
                    put_unix(answer, &**socket, shown);
                }
            });
        }
        _ => return Err(Errno::ENOENT),
    }
    told
}

/// The ports of a protocol; ENOENT.
fn ports_of(protocol: u8) -> Result<&'static Ports> {
    const TCP: u32 = IPPROTO_TCP as u32;
    const UDP: u32 = IPPROTO_UDP as u32;
    const UDP_LITE: u32 = IPPROTO_UDPLITE as u32;
    match protocol.into() {
        TCP => Ok(&ports::TCP),
        UDP => Ok(&ports::UDP),
        UDP_LITE => Ok(&ports::UDP_LITE),
        _ => Err(Errno::ENOENT),
    }
}

/// `struct inet_diag_msg`
fn put_inet(answer: &mut Answer, socket: &dyn Socket) {
    let base = socket.base();
    let address = |name: Name| match name {
        Name::Inet(address) => address,
        _ => SocketAddr::new(unspecified(base.domain), 0),
    };
    let (own, peer) = (
        address(socket.name()),
        address(socket.peer().unwrap_or_default()),
    );
    let (received, sent) = socket.waiting().unwrap_or_default();
    let mut message = [0; 72];
    message[0] = base.domain as u8;
    message[1] = socket.state();
    message[4..6].copy_from_slice(&own.port().to_be_bytes());
    message[6..8].copy_from_slice(&peer.port().to_be_bytes());
    put_ip(&mut message[8..24], own.ip(), base.domain);
    put_ip(&mut message[24..40], peer.ip(), base.domain);
    message[44..52].copy_from_slice(&base.number.to_ne_bytes());
    message[56..60].copy_from_slice(&(received as u32).to_ne_bytes());
    message[60..64].copy_from_slice(&(sent as u32).to_ne_bytes());
    message[64..68].copy_from_slice(&base.user.to_ne_bytes());
    message[68..72].copy_from_slice(&(base.number as u32).to_ne_bytes());
    answer.begin(BY_FAMILY, MULTI, &message);
    answer.end();
}

fn put_ip(to: &mut [u8], ip: IpAddr, domain: u32) {
    match ip {
        IpAddr::V4(ip) if domain == AF_INET6 => to.copy_from_slice(&ip.to_ipv6_mapped().octets()),
        IpAddr::V4(ip) => to[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => to.copy_from_slice(&ip.octets()),
    }
}

fn unix_state(socket: &dyn Socket) -> u8 {
    if socket.is_listening() {
        LISTENS
    } else if socket.peer().is_ok() {
        ESTABLISHED
    } else {
        CLOSED
    }
}

/// `struct unix_diag_msg`, and what of it is asked for.
fn put_unix(answer: &mut Answer, socket: &dyn Socket, shown: u32) {
    let base = socket.base();
    let mut message = [0; 16];
    message[0] = AF_UNIX as u8;
    message[1] = base.kind as u8;
    message[2] = unix_state(socket);
    message[4..8].copy_from_slice(&(base.number as u32).to_ne_bytes());
    message[8..16].copy_from_slice(&base.number.to_ne_bytes());
    answer.begin(BY_FAMILY, MULTI, &message);
    if let Name::Unix(name) = socket.name()
        && shown & 1 << UNIX_NAME != 0
    {
        answer.attribute(UNIX_NAME, name.strip_suffix(b"\0").unwrap_or(&name));
    }
    if shown & 1 << UNIX_QUEUE != 0 {
        let (received, sent) = socket.waiting().unwrap_or_default();
        let mut queue = [0; 8];
        queue[..4].copy_from_slice(&(received as u32).to_ne_bytes());
        queue[4..].copy_from_slice(&(sent as u32).to_ne_bytes());
        answer.attribute(UNIX_QUEUE, &queue);
    }
    answer.end();
}
