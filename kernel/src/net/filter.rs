//! Socket filters (SO_ATTACH_FILTER): they decide which messages a socket receives, and how much of
//! each.

use super::address::Name;
use super::control_message::Ancillary;
use super::interface::INDEX;
use super::packet::Link;
use super::socket::Base;
use super::{RAW, inet};
use crate::arch::cpu;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::random;
use crate::task::filter_program;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bpf::Instruction;
use bpf::packet::{Beside, Packet, STEP};
use core::net::SocketAddr;
use linux_raw_sys::net::IPPROTO_TCP;

/// Link-layer protocols (ETH_P_IP, ETH_P_IPV6), and the hardware type of lo (ARPHRD_LOOPBACK).
const IP: u32 = 0x0800;
const IP_V6: u32 = 0x86dd;
const LOOPBACK: u32 = 772;

/// A filter.
pub struct Filter {
    program: Vec<Instruction>,
    /// The size of the UDP header, which the filter of a UDP socket reads too, and cannot cut off.
    head: usize,
}

impl Filter {
    /// Reads a program's filter for a socket.
    ///
    /// # Errors
    /// EINVAL: it is invalid. EPERM: the socket cannot have one. EFAULT, ENOMEM.
    pub fn read(value: &[u8], base: &Base) -> Result<Arc<Self>> {
        if value.len() != filter_program::size() {
            return Err(Errno::EINVAL);
        }
        let inet = inet::is_family(base.domain);
        if inet && base.protocol == IPPROTO_TCP as u32 {
            return Err(Errno::EPERM);
        }
        let program = filter_program::Place::of(value)?.read()?;
        let mut room = Vec::new();
        let reserved = room.try_reserve_exact(program.len());
        reserved.map_err(|_| Errno::ENOMEM)?;
        room.resize(program.len(), 0);
        bpf::packet::check(&program, &mut room).map_err(|_| Errno::EINVAL)?;
        let udp = inet && base.kind != RAW && inet::is_udp(base.protocol);
        try_arc(Filter {
            program,
            head: if udp { inet::UDP_HEAD } else { 0 },
        })
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.program.len() * STEP
    }

    /// Its instructions, in the form that the program passed.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let room = bytes.try_reserve_exact(self.len());
        room.map_err(|_| Errno::ENOMEM)?;
        for one in &self.program {
            bytes.extend_from_slice(&one.code.to_ne_bytes());
            bytes.extend_from_slice(&[one.if_true, one.if_false]);
            bytes.extend_from_slice(&one.k.to_ne_bytes());
        }
        Ok(bytes)
    }

    /// The number of bytes that precede a message for the filter.
    pub fn head(&self) -> usize {
        self.head
    }

    /// The number of bytes of a message from `sender` that the socket receives; `None` if the
    /// message is dropped. The message follows [`Self::head`] bytes, which this function fills in.
    pub fn run(&self, bytes: &mut [u8], ancillary: &Ancillary, sender: &Name) -> Option<usize> {
        if self.head > 0
            && let Name::Inet(from) = sender
        {
            let to = ancillary.header.to().map_or(0, |to: SocketAddr| to.port());
            let len = bytes.len() as u16;
            for (at, word) in [from.port(), to, len].into_iter().enumerate() {
                bytes[2 * at..2 * at + 2].copy_from_slice(&word.to_be_bytes());
            }
        }
        let protocol = match sender {
            Name::Inet(from) if from.is_ipv4() => IP,
            Name::Inet(_) => IP_V6,
            _ => 0,
        };
        let seen = Seen {
            bytes,
            mark: ancillary.header.mark.unwrap_or(0),
            protocol,
            kind: 0,
            link: (protocol != 0).then_some((INDEX, LOOPBACK)),
        };
        let kept = bpf::packet::run(&self.program, &seen) as usize;
        let least = self.head.max(1);
        let kept = (kept != 0).then(|| kept.max(least).min(bytes.len()))?;
        Some(kept.saturating_sub(self.head))
    }
}

impl Filter {
    /// The number of bytes of a frame that the socket receives; 0 if the frame is dropped.
    pub fn kept_of_frame(&self, bytes: &[u8], link: &Link) -> usize {
        let seen = Seen {
            bytes,
            mark: 0,
            protocol: link.protocol.into(),
            kind: link.kind,
            link: Some((link.index, link.hardware.into())),
        };
        bpf::packet::run(&self.program, &seen) as usize
    }
}

/// A message as the filter sees it.
struct Seen<'a> {
    bytes: &'a [u8],
    mark: u32,
    /// The link-layer protocol; 0 if there is no link.
    protocol: u32,
    /// The packet's type (PACKET_HOST and so on).
    kind: u8,
    /// The link's interface and its hardware.
    link: Option<(u32, u32)>,
}

impl Packet for Seen<'_> {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }

    fn beside(&self, what: Beside) -> Option<u32> {
        match what {
            Beside::Protocol => Some(self.protocol),
            Beside::Interface => self.link.map(|(index, _)| index),
            Beside::Hardware => self.link.map(|(_, hardware)| hardware),
            Beside::Kind => Some(self.kind.into()),
            Beside::Mark => Some(self.mark),
            Beside::Cpu => Some(cpu::this().index() as u32),
            Beside::Random => Some(random::u64() as u32),
            Beside::Queue | Beside::Vlan | Beside::HasVlan | Beside::VlanProtocol => Some(0),
        }
    }
}
