//! The link-layer addresses of neighbours, resolved when they are needed.

use super::interface::{self, Interface};
use super::{addresses, now, output};
use crate::errno::{Errno, Result};
use crate::hash::Keyed;
use crate::mm::virtio_net::{Checksum, Frame};
use crate::sync::Mutex;
use crate::task::clock;
use crate::task::spawn_kernel;
use crate::task::wait_queue::WaitQueue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering::*};
use ip::neighbours::{Due, Key, Neighbours, Resolved, Said, Shown, State};
use ip::{Mac, arp, ethernet, icmp, ndp, protocol, v6};

/// A packet that waits for a neighbour's link-layer address.
pub(super) struct Waiting {
    pub frame: Frame,
    pub kind: u16,
    pub checksum: Option<Checksum>,
}

static ALL: Mutex<Neighbours<Waiting, Keyed>> = Mutex::new(Neighbours::new(Keyed));
/// When the thread checks again, in ns.
static ARMED: AtomicU64 = AtomicU64::new(u64::MAX);
static CHANGED: WaitQueue = WaitQueue::new();

/// Starts the thread that retries and expires entries.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub fn init() -> Result<()> {
    spawn_kernel("neighbours", run, 0).map(drop)
}

fn run(_: usize) -> ! {
    loop {
        let due = ALL.lock().next_timer().unwrap_or(u64::MAX);
        ARMED.store(due, SeqCst);
        let earlier = || ALL.lock().next_timer().is_some_and(|next| next < due);
        let deadline = (due != u64::MAX).then(|| clock::monotonic_deadline(due));
        // A timeout is no error.
        _ = CHANGED.wait_interruptible(earlier, deadline);
        loop {
            let due = ALL.lock().on_timer(now());
            match due {
                None => break,
                Some(Due::Ask(key, to)) => ask(key, to),
                Some(Due::Failed(key, lost)) => fail(key, lost),
            }
        }
    }
}

/// The table has changed: the thread may have to check earlier.
fn look() {
    let next = ALL.lock().next_timer();
    if next.is_some_and(|next| next < ARMED.load(SeqCst)) {
        CHANGED.wake_all();
    }
}

/// Sends a packet to a neighbour, once its link-layer address is known.
pub(super) fn send(interface: &Interface, hop: IpAddr, packet: Waiting) {
    let key = Key {
        interface: interface.index,
        ip: hop,
    };
    let resolved = ALL.lock().resolve(now(), key, packet);
    match resolved {
        Resolved::Send(mac, packet) => transmit(interface, mac, packet),
        Resolved::Ask => ask(key, None),
        Resolved::Waits(None) => {}
        Resolved::Waits(Some(_)) | Resolved::Lost(_) => interface.drop_sent(),
    }
    look();
}

pub(super) fn transmit(interface: &Interface, to: Mac, packet: Waiting) {
    let Waiting {
        mut frame,
        kind,
        checksum,
    } = packet;
    match frame.prepend(&ethernet::header(to, interface.mac, kind)) {
        Ok(()) => interface.transmit(frame, checksum),
        Err(_) => interface.drop_sent(),
    }
}

/// Solicits a neighbour's link-layer address, by multicast or from the address `to` that it had.
fn ask(key: Key, to: Option<Mac>) {
    let Some(interface) = interface::by_index(key.interface) else {
        return;
    };
    match key.ip {
        IpAddr::V4(ip) => {
            let source = addresses::source_for(interface, key.ip, key.ip);
            let Some(IpAddr::V4(sender_ip)) = source else {
                return;
            };
            let packet = arp::Packet {
                operation: arp::Operation::Request,
                sender: interface.mac,
                sender_ip,
                target: Mac::default(),
                target_ip: ip,
            };
            send_arp(interface, &packet, to.unwrap_or(Mac::BROADCAST));
        }
        IpAddr::V6(ip) => {
            let source = addresses::source_for(interface, key.ip, key.ip);
            let group = v6::solicited_node(ip);
            let (to, card) = match to {
                Some(card) => (ip, card),
                None => (group, Mac::of_group_v6(group)),
            };
            if let Some(source) = source {
                let mut message = ndp::ask(ip, interface.mac);
                icmp::seal(&mut message, source, to.into());
                send_message(interface, source, to.into(), card, &message);
            }
        }
    }
}

fn send_arp(interface: &Interface, packet: &arp::Packet, to: Mac) {
    let Ok(mut frame) = Frame::new(ethernet::HEADER) else {
        return interface.drop_sent();
    };
    let pushed = frame.push(&packet.bytes());
    let packet = Waiting {
        frame,
        kind: ethernet::ARP,
        checksum: None,
    };
    match pushed {
        Ok(()) => transmit(interface, to, packet),
        Err(_) => interface.drop_sent(),
    }
}

/// Sends a message of neighbour discovery.
fn send_message(interface: &Interface, from: IpAddr, to: IpAddr, card: Mac, message: &[u8]) {
    let carried = output::Carried {
        from,
        to,
        protocol: protocol::ICMP_V6,
        hops: ndp::HOPS,
        class: 0,
        whole: true,
    };
    if let Ok(frame) = output::framed(&carried, &[message]) {
        let packet = Waiting {
            frame,
            kind: ethernet::IPV6,
            checksum: None,
        };
        transmit(interface, card, packet);
    }
}

/// Handles a received ARP packet.
pub(super) fn receive_arp(interface: &Interface, packet: &[u8]) {
    let Ok(packet) = arp::Packet::parse(packet) else {
        return;
    };
    let is_ours = addresses::own(packet.target_ip.into()) == Some(addresses::Own::Host);
    let is_own = addresses::own(packet.sender_ip.into()).is_some();
    let is_request = packet.operation == arp::Operation::Request;
    if !packet.sender_ip.is_unspecified() && !is_own {
        let said = Said {
            solicited: !is_request && packet.target == interface.mac,
            overrides: true,
            creates: is_request && is_ours,
        };
        learn(
            interface,
            packet.sender_ip.into(),
            Some(packet.sender),
            said,
        );
    }
    if is_request && is_ours {
        send_arp(interface, &packet.reply(interface.mac), packet.sender);
    }
}

/// Handles a received message of neighbour discovery, which was validated.
pub(super) fn receive_ndp(
    interface: &Interface,
    message: &[u8],
    hops: u8,
    from: IpAddr,
    to: IpAddr,
) {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (from, to) else {
        return;
    };
    match ndp::Message::parse(message, hops, source, destination) {
        Ok(ndp::Message::Solicitation { target, card }) => {
            if addresses::own(target.into()) != Some(addresses::Own::Host) {
                return;
            }
            let said = Said {
                solicited: false,
                overrides: true,
                creates: true,
            };
            if !source.is_unspecified() {
                learn(interface, from, card, said);
            }
            // A host that checks whether an address is free has no address itself, so the answer
            // goes to all nodes.
            let all = core::net::Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let (to, solicited) = match source.is_unspecified() {
                true => (all, false),
                false => (source, true),
            };
            let mut answer = ndp::answer(target, interface.mac, solicited);
            icmp::seal(&mut answer, target.into(), to.into());
            match (to.is_multicast(), card) {
                (true, _) => {
                    let card = Mac::of_group_v6(to);
                    send_message(interface, target.into(), to.into(), card, &answer);
                }
                (false, Some(card)) => {
                    send_message(interface, target.into(), to.into(), card, &answer);
                }
                (false, None) => {}
            }
        }
        Ok(ndp::Message::Advertisement {
            target,
            card,
            solicited,
            overrides,
        }) => {
            let said = Said {
                solicited,
                overrides,
                creates: false,
            };
            learn(interface, target.into(), card, said);
        }
        _ => {}
    }
}

fn learn(interface: &Interface, ip: IpAddr, card: Option<Mac>, said: Said) {
    let key = Key {
        interface: interface.index,
        ip,
    };
    let learnt = ALL.lock().learn(now(), key, card, said);
    if let Some((mac, packets)) = learnt {
        for packet in packets {
            transmit(interface, mac, packet);
        }
    }
    look();
}

/// Confirms the reachability of a neighbour through which a connection made progress.
pub fn confirm(interface: u32, ip: IpAddr) {
    ALL.lock().confirm(now(), Key { interface, ip });
}

/// A neighbour does not answer: reports this to the senders of the lost packets.
fn fail(key: Key, lost: Vec<Waiting>) {
    for packet in lost {
        if let Some(interface) = interface::by_index(key.interface) {
            interface.drop_sent();
        }
        super::input::unreachable(packet.frame.bytes());
    }
}

/// Removes the neighbours of an interface.
pub(super) fn forget_interface(index: u32) {
    loop {
        let gone = ALL.lock().remove_one_of(index);
        if gone.is_none() {
            return;
        }
    }
}

/// The entries of all neighbours.
///
/// # Errors
/// ENOMEM.
pub fn all() -> Result<Vec<Shown>> {
    let mut shown = Vec::new();
    shown
        .try_reserve_exact(ip::neighbours::MOST)
        .map_err(|_| Errno::ENOMEM)?;
    shown.extend(ALL.lock().iter().take(ip::neighbours::MOST));
    heapsort::sort_by_key(&mut shown, |one| (one.key.interface, one.key.ip));
    Ok(shown)
}

/// Sets a neighbour's link-layer address for the administrator.
///
/// # Errors
/// ENOBUFS.
pub fn set(interface: &Arc<Interface>, ip: IpAddr, mac: Mac, state: State) -> Result<()> {
    let key = Key {
        interface: interface.index,
        ip,
    };
    let waiting = ALL.lock().set(now(), key, mac, state);
    for packet in waiting.map_err(|_| Errno::ENOBUFS)? {
        transmit(interface, mac, packet);
    }
    look();
    Ok(())
}

/// Removes a neighbour.
///
/// # Errors
/// ENOENT.
pub fn remove(interface: u32, ip: IpAddr) -> Result<()> {
    let gone = ALL.lock().remove(&Key { interface, ip });
    gone.map(drop).ok_or(Errno::ENOENT)
}
