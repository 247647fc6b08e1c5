//! Sending: a call sends one datagram or several, to sockets of this machine, to raw sockets, or
//! out.

use super::super::errors::{IP_RECVERR, IPV6_RECVERR, QUOTED, Report, Sent};
use super::super::icmp::{self, Why};
use super::super::options::{IP, IPV6, IPV6_MTU, UDP};
use super::super::packet::{HEAD_V4, HEAD_V6, ICMP, ICMP_V6, Packet, Route, add, fold, pseudo};
use super::super::{Header, is_broadcast, leaves, raw, udp_memory};
use super::input::{broadcast_receiver, receiver};
use super::{
    Begun, DISCOVERS, HEAD, IP_MTU_DISCOVER, IPV6_DONTFRAG, IPV6_MTU_DISCOVER, MAX, MAX_SEGMENTS,
    MAX_V4, MAX_WHOLE, UNSUMMED_RECEIVED, Udp,
};
use crate::errno::{Errno, Result};
use crate::fs::io::Source;
use crate::net::control_message::Ancillary;
use crate::net::ether::routing::{self, Way};
use crate::net::ether::{self, Carried};
use crate::net::mib::{self, Event};
use crate::net::packet::taps;
use crate::net::socket::copied;
use crate::task::sched::cond_resched_killable;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::net::SO_NO_CHECK;

impl Udp {
    /// Delivers a datagram, and a copy of it to raw sockets.
    pub(super) fn deliver(
        &self,
        data: &mut Source,
        ancillary: Ancillary,
        to: SocketAddr,
        from: SocketAddr,
    ) -> Result<usize> {
        if leaves(to.ip()) {
            return self.send_out(data, ancillary.header, to, from);
        }
        let protocol = self.base.protocol as u8;
        let icmp = if to.is_ipv4() { ICMP } else { ICMP_V6 };
        let seen = raw::is_seen(protocol) || raw::is_seen(icmp);
        let stamping = &self.base.options.stamping;
        let asked = stamping.of_datagram(ancillary.header.stamps);
        if !seen && asked.is_none() {
            return self.hand_over(data, ancillary, to, from, None);
        }
        let bytes = copied(data, MAX)?;
        let packet = packet(&bytes, protocol, ancillary.header, [from, to])?;
        if let Some(asked) = asked {
            let sent = Sent {
                asked,
                ends: [from, to],
                header: ancillary.header,
                packet: Some(packet.bytes()),
            };
            self.mail.report_sent(&self.base, &sent);
        }
        if taps::is_used() {
            taps::looped(packet.bytes());
        }
        raw::deliver(&packet);
        let data = &mut Source::kernel(&bytes);
        self.hand_over(data, ancillary, to, from, seen.then_some(&packet))
    }

    /// The route to another machine.
    pub(super) fn way(&self, to: IpAddr, from: IpAddr) -> Result<Way> {
        match self.options.is_transparent() {
            true => routing::find_for_any(to, Some(from)),
            false => routing::find(to, Some(from)),
        }
    }

    /// Sends a datagram, or several with UDP_SEGMENT, to another machine, or to a broadcast
    /// address.
    fn send_out(
        &self,
        data: &mut Source,
        header: Header,
        to: SocketAddr,
        from: SocketAddr,
    ) -> Result<usize> {
        // UDP-Lite's checksum equals UDP's only with full coverage, and few other machines support
        // the protocol.
        if self.is_lite() {
            return Err(Errno::ENETUNREACH);
        }
        let way = self.way(to.ip(), from.ip())?;
        let bytes = copied(data, MAX)?;
        if let Some(asked) = self.base.options.stamping.of_datagram(header.stamps) {
            let packet = packet(&bytes, self.base.protocol as u8, header, [from, to])?;
            let sent = Sent {
                asked,
                ends: [from, to],
                header,
                packet: Some(packet.bytes()),
            };
            self.mail.report_sent(&self.base, &sent);
        }
        let summed = match to {
            SocketAddr::V4(_) => !self.base.options.is_on(SO_NO_CHECK),
            SocketAddr::V6(_) => !header.unsummed,
        };
        let (discover, head) = match to {
            SocketAddr::V4(_) => (self.options.value(IP, IP_MTU_DISCOVER), HEAD_V4),
            SocketAddr::V6(_) => (self.options.value(IPV6, IPV6_MTU_DISCOVER), HEAD_V6),
        };
        let never_cut = DISCOVERS.contains(&discover) || header.whole == Some(true);
        let step = header.segment.map_or(bytes.len().max(1), usize::from);
        let mut datagrams = bytes.chunks(step);
        let mut next = Some(datagrams.next().unwrap_or_default());
        while let Some(datagram) = next {
            let fits = head + HEAD + datagram.len() <= way.mtu as usize;
            let carried = Carried {
                from: from.ip(),
                to: to.ip(),
                protocol: self.base.protocol as u8,
                hops: if to.ip().is_multicast() {
                    1
                } else {
                    header.hop_limit()
                },
                class: header.class(),
                whole: never_cut || fits && discover != 0,
            };
            let udp = ip::udp::header(from, to, datagram, summed);
            ether::send(&way, &carried, &[&udp, datagram])?;
            self.count(Event::Sent, to);
            next = datagrams.next();
        }
        if is_broadcast(to.ip()) {
            self.hand_to_all(&bytes, header.alone(), to, from)?;
        }
        Ok(bytes.len())
    }

    /// Delivers a datagram of which raw sockets have received the copy `packet`.
    fn hand_over(
        &self,
        data: &mut Source,
        ancillary: Ancillary,
        to: SocketAddr,
        from: SocketAddr,
        packet: Option<&Packet>,
    ) -> Result<usize> {
        let len = data.left();
        let head = if to.is_ipv4() { HEAD_V4 } else { HEAD_V6 };
        mib::packet(to.is_ipv6(), head + HEAD + len);
        self.count(Event::Sent, to);
        if is_broadcast(to.ip()) {
            let bytes = copied(data, MAX)?;
            self.hand_to_all(&bytes, ancillary.header, to, from)?;
            return Ok(len);
        }
        let Some(target) = receiver(self.place.ports(), to, from)? else {
            self.refused(data, to)?;
            if let Some(packet) = packet {
                icmp::refuse(packet, Why::Port);
            }
            return Ok(len);
        };
        target.take_segments(data, ancillary, from)?;
        Ok(len)
    }

    /// Delivers a datagram for a broadcast address to every socket that receives it.
    fn hand_to_all(
        &self,
        bytes: &[u8],
        header: Header,
        to: SocketAddr,
        from: SocketAddr,
    ) -> Result<()> {
        let mut taken = false;
        for target in self.place.ports().holders(to) {
            cond_resched_killable()?;
            if let Some(target) = broadcast_receiver(&target, to, from) {
                let ancillary = Ancillary {
                    header,
                    ..Ancillary::default()
                };
                target.take_segments(&mut Source::kernel(bytes), ancillary, from)?;
                taken = true;
            }
        }
        if !taken {
            self.count(Event::Ignored, to);
        }
        Ok(())
    }

    /// Receives the bytes of one call: a datagram, or several with UDP_SEGMENT.
    fn take_segments(
        &self,
        data: &mut Source,
        ancillary: Ancillary,
        from: SocketAddr,
    ) -> Result<()> {
        let header = ancillary.header;
        match header.segment {
            Some(bytes) if data.left() > bytes.into() => {
                self.take_many(data, header, bytes.into(), from)
            }
            _ => {
                let header = header.alone();
                let ancillary = Ancillary {
                    header,
                    ..ancillary
                };
                self.take(data, ancillary, from)
            }
        }
    }

    /// Receives a datagram; without room it is dropped.
    fn take(&self, data: &mut Source, ancillary: Ancillary, from: SocketAddr) -> Result<()> {
        let uncovered = !self.coverage.takes(ancillary.header.covered);
        let damaged =
            uncovered || ancillary.header.unsummed && !self.options.is_on(UDP, UNSUMMED_RECEIVED);
        let taken = if damaged {
            data.discard()?;
            self.mail.inbox.count_drop();
            false
        } else {
            self.mail.take(data, ancillary, from)?
        };
        let event = if taken {
            Event::Received
        } else {
            Event::Overflows
        };
        self.count(event, from);
        Ok(())
    }

    fn count(&self, event: Event, other: SocketAddr) {
        mib::datagram(event, self.is_lite(), other.is_ipv6());
    }

    /// Receives datagrams of `bytes` each, as a single message if the program accepts that.
    fn take_many(
        &self,
        data: &mut Source,
        header: Header,
        bytes: usize,
        from: SocketAddr,
    ) -> Result<()> {
        let with = |header| Ancillary {
            header,
            ..Ancillary::default()
        };
        if Header::takes_many(&self.options) {
            return self.take(data, with(header), from);
        }
        let all = copied(data, usize::MAX)?;
        for one in all.chunks(bytes) {
            let data = &mut Source::kernel(one);
            self.take(data, with(header.alone()), from)?;
        }
        Ok(())
    }

    /// There is no socket at port `to`: the sender gets the error if it is connected to it, or if
    /// it set IP_RECVERR.
    fn refused(&self, data: &mut Source, to: SocketAddr) -> Result<()> {
        self.count(Event::NoPorts, to);
        let asked = if to.is_ipv4() {
            self.options.is_on(IP, IP_RECVERR)
        } else {
            self.options.is_on(IPV6, IPV6_RECVERR)
        };
        let report = Report::refused(to.ip(), Why::Port);
        if asked {
            self.mail.report(report, to, copied(data, QUOTED)?);
        } else if self.connected_to().is_some() {
            self.mail.inbox.fail(Errno::ECONNREFUSED);
        }
        data.discard().map(|_| ())
    }

    /// As [`report`].
    pub(super) fn told(&self, report: &Report, to: SocketAddr, quoted: &[u8]) {
        let asked = match to.is_ipv4() {
            true => self.options.is_on(IP, IP_RECVERR),
            false => self.options.is_on(IPV6, IPV6_RECVERR),
        };
        if asked {
            let quoted = &quoted[..quoted.len().min(QUOTED)];
            if let Ok(quoted) = copied(&mut Source::kernel(quoted), QUOTED) {
                self.mail.report(*report, to, quoted);
            }
        } else if self.connected_to().is_some()
            && report.ends()
            && let Some(error) = report.error()
        {
            self.mail.inbox.fail(error);
        }
    }

    /// EMSGSIZE for more bytes than a datagram to `to` can hold.
    pub(super) fn check_len(&self, whole: Option<bool>, len: usize, to: SocketAddr) -> Result<()> {
        let whole = DISCOVERS.contains(&self.options.value(IPV6, IPV6_MTU_DISCOVER))
            || whole.unwrap_or_else(|| self.options.is_on(IPV6, IPV6_DONTFRAG));
        let most = match to {
            SocketAddr::V4(_) => MAX_V4,
            SocketAddr::V6(_) if whole => self.longest_whole(),
            SocketAddr::V6(_) => MAX,
        };
        if len > most {
            Err(Errno::EMSGSIZE)
        } else {
            Ok(())
        }
    }

    /// The maximum that IPv6 sends without fragmenting, considering IPV6_MTU.
    fn longest_whole(&self) -> usize {
        match self.options.value(IPV6, IPV6_MTU) as usize {
            0 => MAX_WHOLE,
            packet => MAX_WHOLE.min(packet - HEAD - HEAD_V6),
        }
    }

    /// EINVAL for too many datagrams at once, and for any without a checksum; EIO for UDP-Lite.
    pub(super) fn check_segments(&self, header: &Header, to: SocketAddr, len: usize) -> Result<()> {
        let Some(bytes) = header.segment else {
            return Ok(());
        };
        let unsummed = match to {
            SocketAddr::V4(_) => self.base.options.is_on(SO_NO_CHECK),
            SocketAddr::V6(_) => header.unsummed,
        };
        if unsummed || len > usize::from(bytes) * MAX_SEGMENTS {
            return Err(Errno::EINVAL);
        }
        if self.is_lite() {
            return Err(Errno::EIO);
        }
        Ok(())
    }

    /// Sets the size of the begun datagram.
    pub(super) fn count_begun(&self, bytes: usize) {
        let before = self.begun_bytes.swap(bytes, Relaxed);
        udp_memory::changed(before, bytes);
    }

    /// Sends the begun datagram, if there is one.
    pub(super) fn finish(&self, begun: Option<Begun>) -> Result<()> {
        let Some(begun) = begun else { return Ok(()) };
        self.count_begun(0);
        self.check_segments(&begun.header, begun.to, begun.bytes.len())?;
        let ancillary = Ancillary {
            header: begun.header,
            ..Ancillary::default()
        };
        let mut data = Source::kernel(&begun.bytes);
        self.deliver(&mut data, ancillary, begun.to, begun.from)
            .map(|_| ())
    }
}

/// Appends the data to a datagram. ENOBUFS, EFAULT.
pub(super) fn append(bytes: &mut Vec<u8>, data: &mut Source) -> Result<()> {
    let (start, len) = (bytes.len(), data.left());
    if !udp_memory::is_free(start + len) {
        return Err(Errno::ENOBUFS);
    }
    bytes.try_reserve(len).map_err(|_| Errno::ENOBUFS)?;
    bytes.resize(start + len, 0);
    if data.take(&mut bytes[start..])? != len {
        return Err(Errno::EFAULT);
    }
    Ok(())
}

/// The packet of a datagram, for raw sockets.
fn packet(
    bytes: &[u8],
    protocol: u8,
    header: Header,
    [from, to]: [SocketAddr; 2],
) -> Result<Packet> {
    let route = Route {
        from: from.ip(),
        to: to.ip(),
        protocol,
    };
    let mut head = [0; HEAD];
    head[..2].copy_from_slice(&from.port().to_be_bytes());
    head[2..4].copy_from_slice(&to.port().to_be_bytes());
    let len = HEAD + bytes.len();
    head[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    let sum = fold(add(add(pseudo(&route, len), &head), bytes));
    head[6..].copy_from_slice(&sum.to_be_bytes());
    Packet::new(route, header.alone(), &[&head, bytes], true)
}
