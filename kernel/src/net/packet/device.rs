//! The interfaces as packet sockets see them: `lo`, and those with a card.

use super::taps::{self, Seen};
use super::{ETH_P_802_2, ETH_P_802_3, Link, protocol_of};
use crate::errno::{Errno, Result};
use crate::mm::virtio_net::Frame;
use crate::net::ether::Interface;
use crate::net::ether::interface as cards;
use crate::net::interface as lo;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ip::ethernet::{self, HEADER, Mac};

/// An interface.
pub enum Device {
    /// `lo`.
    Lo,
    /// One with a card.
    Card(&'static Arc<Interface>),
}

impl Device {
    /// The interface with this index.
    pub fn by_index(index: u32) -> Option<Self> {
        match index {
            lo::INDEX => Some(Device::Lo),
            index => cards::by_index(index).map(Device::Card),
        }
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        match self {
            Device::Lo => true,
            Device::Card(interface) => interface.is_up(),
        }
    }

    /// Its hardware (ARPHRD_).
    pub fn hardware(&self) -> u16 {
        match self {
            Device::Lo => lo::HARDWARE,
            Device::Card(_) => cards::HARDWARE,
        }
    }

    /// Its link-layer address.
    pub fn mac(&self) -> Mac {
        match self {
            Device::Lo => Mac::default(),
            Device::Card(interface) => interface.mac,
        }
    }

    /// Its MTU.
    pub fn mtu(&self) -> u32 {
        match self {
            Device::Lo => lo::MTU,
            Device::Card(interface) => interface.mtu(),
        }
    }

    /// The header of a frame to an address; only `lo` needs none.
    pub fn header(&self, to: Option<Mac>, protocol: u16, len: usize) -> Option<[u8; HEADER]> {
        let to = match self {
            Device::Lo => Some(to.unwrap_or_default()),
            Device::Card(_) => to,
        };
        // Frames of 802.3 have their length in place of a type.
        let kind = match protocol {
            ETH_P_802_3 | ETH_P_802_2 => len as u16,
            protocol => protocol,
        };
        to.map(|to| ethernet::header(to, self.mac(), kind))
    }

    /// Sends a frame, given in two pieces. The socket with number `sender` does not see it.
    ///
    /// # Errors
    /// ENOBUFS.
    pub fn send(&self, pieces: [&[u8]; 2], sender: u64) -> Result<()> {
        match self {
            Device::Lo => {
                let (mut bytes, len) = (Vec::new(), pieces[0].len() + pieces[1].len());
                bytes.try_reserve_exact(len).map_err(|_| Errno::ENOBUFS)?;
                pieces
                    .iter()
                    .for_each(|piece| bytes.extend_from_slice(piece));
                loop_back(&bytes, sender);
                Ok(())
            }
            Device::Card(interface) => {
                let mut frame = Frame::new(0).map_err(|_| Errno::ENOBUFS)?;
                for piece in pieces {
                    frame.push(piece).map_err(|_| Errno::ENOBUFS)?;
                }
                match interface.transmit_of(sender, frame, None) {
                    true => Ok(()),
                    false => Err(Errno::ENOBUFS),
                }
            }
        }
    }
}

/// A frame is sent on `lo`, and received there.
pub fn loop_back(bytes: &[u8], sender: u64) {
    let link = Link {
        protocol: protocol_of(bytes),
        index: lo::INDEX,
        hardware: lo::HARDWARE,
        kind: taps::OUTGOING,
        mac: taps::source(bytes),
        len: None,
        has_open_checksum: false,
    };
    taps::show(&Seen { link, bytes }, sender);
    let kind = taps::kind_of(bytes, Mac::default());
    let link = Link { kind, ..link };
    taps::show(&Seen { link, bytes }, 0);
}
