//! Delivery of datagrams to sockets, and of errors about sent datagrams.

use super::super::errors::Report;
use super::super::icmp::{self, Why};
use super::super::packet::{Packet, Route};
use super::super::ports::{self, Ports};
use super::super::{hears, is_broadcast};
use super::Udp;
use crate::errno::Result;
use crate::fs::io::Source;
use crate::net::address::Name;
use crate::net::control_message::Ancillary;
use crate::net::socket::Socket;
use crate::task::sched::cond_resched_killable;
use alloc::sync::{Arc, Weak};
use core::net::SocketAddr;

/// The socket that receives datagrams from `from` to `to`.
///
/// # Errors
/// ENOMEM, EINTR.
pub(super) fn receiver(
    ports: &Ports,
    to: SocketAddr,
    from: SocketAddr,
) -> Result<Option<Arc<Udp>>> {
    let found = ports.find(to, from, |_| true, |socket| rank(socket, from))?;
    Ok(found.and_then(|socket| socket.downcast()))
}

/// The socket, if it still exists and receives datagrams from `from` to the broadcast address `to`.
pub(super) fn broadcast_receiver(
    socket: &Weak<dyn Socket>,
    to: SocketAddr,
    from: SocketAddr,
) -> Option<Arc<Udp>> {
    let socket = socket.upgrade()?;
    rank(&socket, from)?;
    // A connected socket has replaced "any" by an address of its own.
    let udp: Arc<Udp> = socket.downcast()?;
    let own = udp.place.local()?.ip();
    (own.is_unspecified() || own == to.ip()).then_some(udp)
}

/// Passes another machine's report about a datagram, of which it quotes the beginning, to the
/// sender, if that exists.
pub fn report(report: &Report, from: SocketAddr, to: SocketAddr, quoted: &[u8]) -> bool {
    let sender = receiver(&ports::UDP, from, to).ok().flatten();
    if let Some(sender) = &sender {
        sender.told(report, to, quoted);
    }
    sender.is_some()
}

/// Receives a datagram that a raw socket or another machine sent.
pub fn receive(packet: &Packet) {
    let Route { from, to, .. } = packet.route;
    let Ok(([source, destination], bytes)) = ip::udp::parse(from, to, packet.body()) else {
        return;
    };
    let (from, to) = (
        SocketAddr::new(from, source),
        SocketAddr::new(to, destination),
    );
    let mut header = packet.header;
    header.set_to(to);
    let take = |target: &Udp| {
        let ancillary = Ancillary {
            header,
            ..Ancillary::default()
        };
        // The kernel's own memory can always be read, so datagrams are only dropped for lack of
        // room.
        _ = target
            .mail
            .take(&mut Source::kernel(bytes), ancillary, from);
    };
    if is_broadcast(to.ip()) {
        for target in ports::UDP.holders(to) {
            if cond_resched_killable().is_err() {
                return;
            }
            if let Some(target) = broadcast_receiver(&target, to, from) {
                take(&target);
            }
        }
        return;
    }
    match receiver(&ports::UDP, to, from) {
        Ok(Some(target)) => take(&target),
        Ok(None) => icmp::refuse(packet, Why::Port),
        // Without memory the datagram is lost.
        Err(_) => {}
    }
}

/// How well a socket fits a datagram from `from`: one that is connected to the sender is best; one
/// that is connected elsewhere does not accept it.
fn rank(socket: &Arc<dyn Socket>, from: SocketAddr) -> Option<(bool, bool)> {
    let base = socket.base();
    if !hears(base, from.ip()) {
        return None;
    }
    let here = base.options.prefers_this_cpu();
    match socket.peer() {
        Ok(Name::Inet(peer)) if peer == from => Some((true, here)),
        Ok(_) => None,
        Err(_) => Some((false, here)),
    }
}
