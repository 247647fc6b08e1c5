//! The packet sockets that listen, by interface and protocol, and the frames that they see.

use super::{ALL, Key, Link, Packet, protocol_of};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::net::ether::Interface;
use crate::net::ether::interface::HARDWARE;
use crate::net::inet;
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use ip::ethernet::{self, HEADER, Mac};
use radix::Radix;

/// Types of packets (PACKET_HOST and so on): for this machine, for all, for a group, for another
/// machine, and from this machine.
const HOST: u8 = 0;
const BROADCAST: u8 = 1;
const MULTICAST: u8 = 2;
const OTHER_HOST: u8 = 3;
pub const OUTGOING: u8 = 4;

/// The sockets of each interface and protocol, by number; with protocol 0, all of the interface.
static LISTENING: Mutex<HashMap<Key, Radix<Weak<Packet>>>> = Mutex::new(hash::new());
/// Their number, for readers without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A frame that is seen.
pub struct Seen<'a> {
    /// What is known about it.
    pub link: Link,
    /// Its bytes, from the header on.
    pub bytes: &'a [u8],
}

/// Enters a socket. A protocol of 0 is none.
///
/// # Errors
/// ENOMEM.
pub(super) fn enter(key: Key, socket: &Arc<Packet>) -> Result<()> {
    if key.protocol == 0 {
        return Ok(());
    }
    if key.index != 0 {
        enter_in(key.of_interface(), socket)?;
    }
    let entered = enter_in(key, socket);
    match entered {
        Ok(true) if COUNT.fetch_add(1, AcqRel) == 0 => inet::raw::see_all(true),
        Ok(_) => {}
        Err(_) => _ = leave_from(&key.of_interface(), socket.base.number),
    }
    entered.map(drop)
}

/// Enters a socket in a list; false if it is there.
fn enter_in(key: Key, socket: &Arc<Packet>) -> Result<bool> {
    let number = socket.base.number as usize;
    let mut listening = LISTENING.lock();
    listening.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    let sockets = listening.get_or_insert_with(key, Radix::new);
    let added = sockets.insert(number, Arc::downgrade(socket));
    let is_empty = sockets.is_empty();
    if is_empty {
        listening.remove(&key);
    }
    drop(listening);
    let old = added.map_err(|_| Errno::ENOMEM)?;
    Ok(old.is_none())
}

/// Removes a socket.
pub(super) fn leave(key: Key, number: u64) {
    if key.protocol == 0 {
        return;
    }
    if key.index != 0 {
        leave_from(&key.of_interface(), number);
    }
    if leave_from(&key, number) && COUNT.fetch_sub(1, AcqRel) == 1 {
        inet::raw::see_all(false);
    }
}

/// Removes a socket from a list; false if it is not there.
fn leave_from(key: &Key, number: u64) -> bool {
    let (number, mut gone) = (number as usize, None);
    let mut listening = LISTENING.lock();
    let Some(sockets) = listening.get_mut(key) else {
        return false;
    };
    sockets.remove_range(number, number, &mut |socket| gone = Some(socket));
    if sockets.is_empty() {
        listening.remove(key);
    }
    drop(listening);
    gone.is_some()
}

/// An interface was set down: the sockets that listen to it alone get ENETDOWN.
pub fn went_down(index: u32) {
    let (key, mut next) = (Key { index, protocol: 0 }, 0);
    while let Some(socket) = next_of(&key, &mut next) {
        if let Some(socket) = socket.upgrade() {
            socket.inbox.fail(Errno::ENETDOWN);
        }
        cond_resched();
    }
}

/// Whether any socket listens.
#[inline]
pub fn is_used() -> bool {
    COUNT.load(Relaxed) != 0
}

/// The first socket of a key from number `next` on, which is then the number after it.
fn next_of(key: &Key, next: &mut usize) -> Option<Weak<Packet>> {
    let listening = LISTENING.lock();
    let sockets = listening.get(key)?;
    let number = sockets.next_item(*next)?;
    *next = number + 1;
    sockets.get(number).cloned()
}

/// Passes a frame to the sockets that listen, except the one with number `sender`. May sleep.
pub fn show(seen: &Seen, sender: u64) {
    let Link {
        index, protocol, ..
    } = seen.link;
    // As on Linux, only those that listen to all protocols see what is sent.
    let is_sent = seen.link.kind == OUTGOING;
    for protocol in [ALL, protocol]
        .into_iter()
        .take(if is_sent { 1 } else { 2 })
    {
        for index in [0, index] {
            let (key, mut next) = (Key { index, protocol }, 0);
            while let Some(socket) = next_of(&key, &mut next) {
                if let Some(socket) = socket.upgrade()
                    && socket.base.number != sender
                {
                    socket.take(seen);
                }
                cond_resched();
            }
        }
    }
}

/// The link-layer address from which a frame comes.
pub(super) fn source(bytes: &[u8]) -> Option<Mac> {
    ethernet::Frame::parse(bytes).ok().map(|frame| frame.source)
}

/// The type of a received packet, where `own` is the interface's address. `lo`, whose address is
/// zero, has no broadcasts.
pub(super) fn kind_of(bytes: &[u8], own: Mac) -> u8 {
    match ethernet::Frame::parse(bytes).map(|frame| frame.destination) {
        Ok(Mac::BROADCAST) if own != Mac::default() => BROADCAST,
        Ok(to) if to.is_multicast() => MULTICAST,
        Ok(to) if to == own => HOST,
        _ => OTHER_HOST,
    }
}

fn of_card(interface: &Interface, bytes: &[u8], kind: u8, has_open_checksum: bool) -> Link {
    Link {
        protocol: protocol_of(bytes),
        index: interface.index,
        hardware: HARDWARE,
        kind,
        mac: source(bytes),
        len: None,
        has_open_checksum,
    }
}

/// A card has received a frame. Those for other machines are only seen if a socket asks for them.
#[cold]
pub fn received(interface: &Interface, bytes: &[u8]) {
    let kind = kind_of(bytes, interface.mac);
    if bytes.len() < HEADER || kind == OTHER_HOST && interface.promiscuous.load(Acquire) == 0 {
        return;
    }
    let link = of_card(interface, bytes, kind, false);
    show(&Seen { link, bytes }, 0);
}

/// A card is about to send a frame of the socket with number `sender`, or of the kernel.
#[cold]
pub fn sent(interface: &Interface, bytes: &[u8], has_open_checksum: bool, sender: u64) {
    let link = of_card(interface, bytes, OUTGOING, has_open_checksum);
    show(&Seen { link, bytes }, sender);
}

/// A packet stays on this machine.
#[cold]
pub fn looped(packet: &[u8]) {
    let kind = match packet.first() {
        Some(first) if first >> 4 == 6 => ethernet::IPV6,
        _ => ethernet::IPV4,
    };
    let mut bytes = Vec::new();
    // Without memory, they do not see it.
    if bytes.try_reserve_exact(HEADER + packet.len()).is_ok() {
        bytes.extend_from_slice(&ethernet::header(Mac::default(), Mac::default(), kind));
        bytes.extend_from_slice(packet);
        super::device::loop_back(&bytes, 0);
    }
}
