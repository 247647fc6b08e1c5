//! Sockets. Data for this machine is not put into packets: a connection is two channels, and a
//! datagram goes directly into the channel of the receiving socket. Data for other machines leaves
//! by an interface of `ether`.

pub mod address;
pub mod backlog;
pub mod channel;
pub mod control_message;
pub mod ether;
mod filter;
pub mod inet;
pub mod interface;
pub mod mib;
pub mod netlink;
mod oob;
pub mod options;
pub mod packet;
pub mod proc_net;
pub mod scm_rights;
mod sending;
mod snmp;
pub mod socket;
pub mod socket_table;
pub mod stream;
pub mod timestamping;
pub mod unix;
pub mod wait;

use crate::errno::{Errno, Result};
use alloc::sync::Arc;
use linux_raw_sys::net::{AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX};
use socket::Socket;

/// Kinds of sockets (`enum sock_type`).
pub const STREAM: u32 = 1;
/// Datagrams.
pub const DATAGRAM: u32 = 2;
/// Access to lower protocols.
pub const RAW: u32 = 3;
/// Records over a connection.
pub const SEQPACKET: u32 = 5;

/// Starts the services that sockets always need.
pub fn init() {
    unix::inflight::init().expect("memory for a thread of the kernel");
}

/// Creates a socket.
pub fn new(domain: u32, kind: u32, protocol: u32) -> Result<Arc<dyn Socket>> {
    match domain {
        AF_UNIX => unix::new(kind, protocol),
        AF_INET | AF_INET6 => inet::new(domain, kind, protocol),
        AF_NETLINK => netlink::new(kind, protocol),
        AF_PACKET => packet::new(kind, protocol),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

/// Creates two connected sockets.
pub fn pair(domain: u32, kind: u32, protocol: u32) -> Result<[Arc<dyn Socket>; 2]> {
    match domain {
        AF_UNIX => unix::pair(kind, protocol),
        AF_INET | AF_INET6 => inet::new(domain, kind, protocol).and(Err(Errno::EOPNOTSUPP)),
        AF_NETLINK => netlink::new(kind, protocol).and(Err(Errno::EOPNOTSUPP)),
        AF_PACKET => packet::new(kind, protocol).and(Err(Errno::EOPNOTSUPP)),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}
