//! Options of level SOL_PACKET.

use super::memberships::Request;
use super::{Link, Packet};
use crate::errno::{Errno, Result};
use crate::net::control_message::Control;
use crate::net::options::{bytes, number};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::*};
use ip::ethernet::HEADER;
use zerocopy::{Immutable, IntoBytes};

/// The level (SOL_PACKET).
pub const LEVEL: u32 = 263;
/// Options (`include/uapi/linux/if_packet.h`).
const ADD_MEMBERSHIP: u32 = 1;
const DROP_MEMBERSHIP: u32 = 2;
const STATISTICS: u32 = 6;
const AUXDATA: u32 = 8;
const ORIGDEV: u32 = 9;
const IGNORE_OUTGOING: u32 = 23;
/// TP_STATUS_USER and TP_STATUS_CSUMNOTREADY.
const STATUS_USER: u32 = 1;
const STATUS_OPEN_CHECKSUM: u32 = 8;

const _: () = assert!(abi::options::PACKET.is_handled_by(&[
    ADD_MEMBERSHIP as u64,
    DROP_MEMBERSHIP as u64,
    STATISTICS as u64,
    AUXDATA as u64,
    ORIGDEV as u64,
    IGNORE_OUTGOING as u64,
]));

/// The switches of a socket, a bit for each name.
#[derive(Default)]
pub struct Options(AtomicU32);

impl Options {
    fn is_on(&self, name: u32) -> bool {
        self.0.load(Acquire) >> name & 1 != 0
    }

    fn set(&self, name: u32, on: bool) {
        match on {
            true => self.0.fetch_or(1 << name, AcqRel),
            false => self.0.fetch_and(!(1 << name), AcqRel),
        };
    }

    /// Whether the socket does not see what is sent (PACKET_IGNORE_OUTGOING).
    pub fn ignores_outgoing(&self) -> bool {
        self.is_on(IGNORE_OUTGOING)
    }

    /// Whether each frame is reported with its original size (PACKET_AUXDATA).
    pub fn reports_frames(&self) -> bool {
        self.is_on(AUXDATA)
    }
}

/// `struct tpacket_auxdata`
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Auxiliary {
    status: u32,
    len: u32,
    kept: u32,
    link: u16,
    network: u16,
    vlan: [u16; 2],
}

/// Reports a received frame, of which `kept` bytes were left by the filter.
pub fn put_auxiliary(
    control: &mut Control,
    link: &Link,
    kept: usize,
    with_header: bool,
) -> Result<()> {
    let open = if link.has_open_checksum {
        STATUS_OPEN_CHECKSUM
    } else {
        0
    };
    let auxiliary = Auxiliary {
        status: STATUS_USER | open,
        len: link.len.unwrap_or(0),
        kept: kept as u32,
        link: 0,
        network: if with_header { HEADER as u16 } else { 0 },
        vlan: [0; 2],
    };
    control.put(LEVEL, AUXDATA, auxiliary.as_bytes())
}

impl Packet {
    /// getsockopt(2)
    pub(super) fn get_option(&self, level: u32, name: u32) -> Result<Vec<u8>> {
        if level != LEVEL {
            return Err(Errno::ENOPROTOOPT);
        }
        match name {
            STATISTICS => {
                let dropped = self.dropped.swap(0, AcqRel);
                let received = self.received.swap(0, AcqRel);
                bytes([received.wrapping_add(dropped), dropped])
            }
            AUXDATA | ORIGDEV | IGNORE_OUTGOING => bytes(u32::from(self.options.is_on(name))),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }

    /// setsockopt(2)
    pub(super) fn change_option(&self, level: u32, name: u32, value: &[u8]) -> Result<()> {
        if level != LEVEL {
            return Err(Errno::ENOPROTOOPT);
        }
        match name {
            ADD_MEMBERSHIP => self.members.lock().add(Request::read(value)?),
            DROP_MEMBERSHIP => {
                let request = Request::read(value)?;
                self.members.lock().remove(&request);
                Ok(())
            }
            AUXDATA | ORIGDEV => Ok(self.options.set(name, number(value)? != 0)),
            IGNORE_OUTGOING => match number(value)? {
                on @ 0..=1 if value.len() == size_of::<i32>() => {
                    Ok(self.options.set(name, on != 0))
                }
                _ => Err(Errno::EINVAL),
            },
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}
