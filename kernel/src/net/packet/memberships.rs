//! What a packet socket asks of interfaces: all frames of the link, or those to some addresses
//! (PACKET_ADD_MEMBERSHIP).

use super::device::Device;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use core::sync::atomic::Ordering::AcqRel;

/// Types (`PACKET_MR_`).
const MULTICAST: u16 = 0;
const PROMISCUOUS: u16 = 1;
const UNICAST: u16 = 3;
/// `sizeof(struct packet_mreq)`, and the offset of the address there.
const REQUEST: usize = 16;
const REQUEST_HEAD: usize = 8;
/// The longest link-layer address.
const MOST_ADDRESS: usize = 6;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    index: u32,
    kind: u16,
    len: u16,
    address: [u8; 8],
}

impl Request {
    /// Reads a `struct packet_mreq`.
    ///
    /// # Errors
    /// EINVAL.
    pub fn read(value: &[u8]) -> Result<Self> {
        let (bytes, _) = value.split_first_chunk::<REQUEST>().ok_or(Errno::EINVAL)?;
        let [a, b, c, d, k, l, m, n, mut address @ ..] = *bytes;
        let len = u16::from_ne_bytes([m, n]);
        if let Some(beyond) = address.get_mut(usize::from(len)..) {
            beyond.fill(0);
        }
        if REQUEST_HEAD + usize::from(len) > value.len() {
            return Err(Errno::EINVAL);
        }
        Ok(Request {
            index: u32::from_ne_bytes([a, b, c, d]),
            kind: u16::from_ne_bytes([k, l]),
            len,
            address,
        })
    }

    /// Makes an interface pass all frames of its link, or undoes one such request.
    fn apply(&self, on: bool) {
        if let (PROMISCUOUS, Some(Device::Card(interface))) =
            (self.kind, Device::by_index(self.index))
        {
            match on {
                true => interface.promiscuous.fetch_add(1, AcqRel),
                false => interface.promiscuous.fetch_sub(1, AcqRel),
            };
        }
    }
}

/// The number of different requests of a socket.
const MOST: usize = 1024;

/// The requests of a socket, and how often each was made.
pub struct Memberships(HashMap<Request, u32>);

impl Memberships {
    /// No requests.
    pub const fn new() -> Self {
        Memberships(hash::new())
    }

    /// PACKET_ADD_MEMBERSHIP. Cards pass all groups of their link, so that only their frames to
    /// other machines need a request.
    ///
    /// # Errors
    /// ENODEV, EINVAL, ENOBUFS.
    pub fn add(&mut self, request: Request) -> Result<()> {
        Device::by_index(request.index).ok_or(Errno::ENODEV)?;
        let len = usize::from(request.len);
        let is_exact = matches!(request.kind, MULTICAST | UNICAST);
        if len > MOST_ADDRESS || is_exact && len != MOST_ADDRESS {
            return Err(Errno::EINVAL);
        }
        if let Some(count) = self.0.get_mut(&request) {
            *count = count.saturating_add(1);
            return Ok(());
        }
        if self.0.len() >= MOST {
            return Err(Errno::ENOBUFS);
        }
        self.0.try_reserve(1).map_err(|_| Errno::ENOBUFS)?;
        self.0.insert(request, 1);
        request.apply(true);
        Ok(())
    }

    /// PACKET_DROP_MEMBERSHIP. As on Linux, a request that was not made is no error.
    pub fn remove(&mut self, request: &Request) {
        let Some(count) = self.0.get_mut(request) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.0.remove(request);
            request.apply(false);
        }
    }

    /// The socket is closed.
    pub fn leave_all(&mut self) {
        let all = core::mem::replace(&mut self.0, hash::new());
        all.keys().for_each(|request| request.apply(false));
    }

    /// Its memory in bytes.
    pub fn held(&self) -> usize {
        self.0.len() * size_of::<(Request, u32)>()
    }
}
