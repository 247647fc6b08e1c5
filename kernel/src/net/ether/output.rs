//! Packets sent by this machine.

use super::neighbours::{self, Waiting};
use super::routing::Way;
use crate::errno::{Errno, Result};
use crate::hash::Keyed;
use crate::mm::virtio_net::{Checksum, Frame};
use core::hash::BuildHasher;
use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use ip::{Mac, ethernet, v4, v6};

/// The maximum size of the headers before a packet's payload.
const HEADROOM: usize = ethernet::HEADER + v6::HEADER + v6::FRAGMENT;

/// The last identification numbers of fragmentable IPv4 datagrams, one for each hash of addresses:
/// the numbers that one receiver sees reveal little about those of others.
static NUMBERS: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];

/// The fields of a packet's header.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// The source.
    pub from: IpAddr,
    /// The destination.
    pub to: IpAddr,
    /// The protocol of the payload.
    pub protocol: u8,
    /// The hop limit.
    pub hops: u8,
    /// The traffic class.
    pub class: u8,
    /// Whether it must not be fragmented.
    pub whole: bool,
}

impl Carried {
    fn head_len(&self) -> usize {
        match self.to {
            IpAddr::V4(_) => v4::HEADER,
            IpAddr::V6(_) => v6::HEADER,
        }
    }

    /// An identification number for a fragmentable datagram, which other machines cannot predict.
    fn number(&self) -> u32 {
        let drawn = crate::random::u64() as u32;
        if self.to.is_ipv6() {
            return drawn;
        }
        let hash = Keyed.hash_one((self.from, self.to, self.protocol));
        let last = &NUMBERS[hash as usize % NUMBERS.len()];
        let step = 1 + drawn % 8;
        last.fetch_add(step, Relaxed)
            .wrapping_add((hash >> 32) as u32)
    }

    fn put_header(&self, frame: &mut Frame, part: Option<(usize, bool, u32)>) -> Result<()> {
        let payload = frame.bytes().len();
        // A packet that is never fragmented needs no number.
        let fresh = || if self.whole { 0 } else { self.number() };
        let (offset, more, number) = part.unwrap_or_else(|| (0, false, fresh()));
        let done = match (self.from, self.to) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = v4::Header {
                    class: self.class,
                    number: number as u16,
                    whole: self.whole,
                    more,
                    offset,
                    hops: self.hops,
                    protocol: self.protocol,
                    source,
                    destination,
                };
                frame.prepend(&header.bytes(payload))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut next = self.protocol;
                if part.is_some() {
                    let fragment = v6::Fragment {
                        next,
                        offset,
                        more,
                        number,
                    };
                    frame
                        .prepend(&fragment.bytes())
                        .map_err(|_| Errno::ENOBUFS)?;
                    next = 44;
                }
                let header = v6::Header {
                    class: self.class,
                    flow: 0,
                    next,
                    hops: self.hops,
                    source,
                    destination,
                };
                let payload = frame.bytes().len();
                frame.prepend(&header.bytes(payload))
            }
            _ => return Err(Errno::ENETUNREACH),
        };
        done.map_err(|_| Errno::ENOBUFS)
    }
}

/// A packet in a frame, without the frame's header.
pub(super) fn framed(carried: &Carried, pieces: &[&[u8]]) -> Result<Frame> {
    let mut frame = Frame::new(HEADROOM).map_err(|_| Errno::ENOBUFS)?;
    for piece in pieces {
        frame.push(piece).map_err(|_| Errno::ENOBUFS)?;
    }
    carried.put_header(&mut frame, None)?;
    Ok(frame)
}

/// An empty frame for a packet's payload.
///
/// # Errors
/// ENOBUFS.
pub fn empty() -> Result<Frame> {
    Frame::new(HEADROOM).map_err(|_| Errno::ENOBUFS)
}

/// Sends a packet whose payload, including the payload's own header, is in `frame`.
///
/// # Errors
/// ENOBUFS.
pub fn send_frame(
    way: &Way,
    carried: &Carried,
    mut frame: Frame,
    checksum: Option<Checksum>,
) -> Result<()> {
    carried.put_header(&mut frame, None)?;
    dispatch(way, carried.to, frame, checksum);
    Ok(())
}

/// Sends a packet with this payload, fragmented if it exceeds the path MTU.
///
/// # Errors
/// EMSGSIZE: it must not be fragmented. ENOBUFS.
pub fn send(way: &Way, carried: &Carried, pieces: &[&[u8]]) -> Result<()> {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mtu = way.mtu as usize;
    if carried.head_len() + len <= mtu {
        let frame = framed(carried, pieces)?;
        dispatch(way, carried.to, frame, None);
        return Ok(());
    }
    if carried.whole {
        return Err(Errno::EMSGSIZE);
    }
    let number = carried.number();
    let cut = |(offset, length, more)| {
        let mut frame = empty()?;
        copy_range(&mut frame, pieces, offset, length)?;
        carried.put_header(&mut frame, Some((offset, more, number)))?;
        dispatch(way, carried.to, frame, None);
        Ok(())
    };
    match carried.to {
        IpAddr::V4(_) => v4::fragments(len, mtu).try_for_each(cut),
        IpAddr::V6(_) => v6::fragments(len, mtu).try_for_each(cut),
    }
}

/// Adds a range of the bytes of `pieces` to a frame.
fn copy_range(frame: &mut Frame, pieces: &[&[u8]], skip: usize, length: usize) -> Result<()> {
    let mut at = 0;
    for piece in pieces {
        let [start, end] =
            [skip, skip + length].map(|place| place.saturating_sub(at).min(piece.len()));
        frame.push(&piece[start..end]).map_err(|_| Errno::ENOBUFS)?;
        at += piece.len();
    }
    Ok(())
}

/// Sends a packet that already has its header.
///
/// # Errors
/// ENOBUFS.
pub fn send_made(way: &Way, to: IpAddr, packet: &[u8]) -> Result<()> {
    let mut frame = empty()?;
    frame.push(packet).map_err(|_| Errno::ENOBUFS)?;
    dispatch(way, to, frame, None);
    Ok(())
}

/// Passes a packet to the card, once the neighbour is resolved.
fn dispatch(way: &Way, to: IpAddr, frame: Frame, checksum: Option<Checksum>) {
    let interface = &way.interface;
    let packet = Waiting {
        frame,
        kind: match to {
            IpAddr::V4(_) => ethernet::IPV4,
            IpAddr::V6(_) => ethernet::IPV6,
        },
        checksum,
    };
    let all = match to {
        IpAddr::V4(ip) if ip.is_multicast() => Some(Mac::of_group_v4(ip)),
        IpAddr::V6(ip) if ip.is_multicast() => Some(Mac::of_group_v6(ip)),
        to => match super::addresses::own(to) {
            Some(super::addresses::Own::Broadcast) => Some(Mac::BROADCAST),
            _ => None,
        },
    };
    match all {
        Some(card) => neighbours::transmit(interface, card, packet),
        None => neighbours::send(interface, way.hop, packet),
    }
}
