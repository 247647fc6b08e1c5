//! Segments in packets.

use crate::errno::Result;
use crate::mm::virtio_net::{Checksum, Frame};
use crate::net::ether::routing::{self, Way};
use crate::net::ether::{self, Carried};
use crate::net::inet::connections::Tuple;
use core::net::{IpAddr, SocketAddr};
use ip::checksum::Sum;
use ip::protocol::TCP;
use tcp::Header;
use tcp::header::MOST_BYTES;

/// The offset of a segment's checksum.
const FIELD: usize = 16;
/// The hop limit of a segment.
const HOPS: u8 = 64;
/// The minimum MSS (Linux's `TCP_MIN_MSS`), and the maximum that a SYN can announce.
const LEAST_MSS: u32 = 88;
const MOST_MSS: u32 = u16::MAX as u32;

/// Parses the segment of a packet: the four-tuple of its connection, its header and its payload.
pub fn parse<'a>(packet: &'a ip::input::Packet) -> Option<(Tuple, Header, &'a [u8])> {
    let segment = packet.payload();
    let (from, to) = (packet.source, packet.destination);
    let sum = Sum::pseudo(from, to, TCP, segment.len()).with(segment);
    let (header, at) = Header::parse(segment).ok()?;
    let tuple = Tuple {
        local: SocketAddr::new(to, header.destination),
        peer: SocketAddr::new(from, header.source),
    };
    let has_ends = !from.is_unspecified() && header.source != 0 && header.destination != 0;
    (has_ends && sum.checksum() == 0).then_some((tuple, header, &segment[at..]))
}

/// The MSS of a route, for segments without options.
pub fn mss(way: &Way, to: IpAddr) -> u16 {
    let headers = if to.is_ipv4() { 40 } else { 60 };
    way.mtu.saturating_sub(headers).clamp(LEAST_MSS, MOST_MSS) as u16
}

/// Sends a segment without payload; it is dropped if there is no route.
pub fn send(tuple: &Tuple, header: &Header) {
    if let Ok(way) = routing::find(tuple.peer.ip(), Some(tuple.local.ip())) {
        _ = send_on(&way, tuple, header, 0, |_| Ok(()));
    }
}

/// Sends a segment with `len` bytes of payload, which `fill` copies into the frame.
pub fn send_on(
    way: &Way,
    tuple: &Tuple,
    header: &Header,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut frame = ether::empty()?;
    let mut bytes = [0; MOST_BYTES];
    let head = header.write(&mut bytes);
    let short = |_| crate::errno::Errno::ENOBUFS;
    frame.push(&bytes[..head]).map_err(short)?;
    fill(frame.extend(len).map_err(short)?)?;
    let checksum = seal(way, tuple, &mut frame);
    let carried = Carried {
        from: tuple.local.ip(),
        to: tuple.peer.ip(),
        protocol: TCP,
        hops: HOPS,
        class: 0,
        whole: true,
    };
    ether::send_frame(way, &carried, frame, checksum)
}

/// Computes a segment's checksum, or prepares it for the card.
fn seal(way: &Way, tuple: &Tuple, frame: &mut Frame) -> Option<Checksum> {
    let segment = frame.bytes_mut();
    let sum = Sum::pseudo(tuple.local.ip(), tuple.peer.ip(), TCP, segment.len());
    let finishes = way.interface.card.finishes_checksums();
    let sum = match finishes {
        true => sum.folded(),
        false => sum.with(segment).checksum(),
    };
    segment[FIELD..FIELD + 2].copy_from_slice(&sum.to_be_bytes());
    finishes.then_some(Checksum {
        from: segment.len(),
        field: FIELD,
    })
}
