//! The part of a datagram that UDP-Lite's checksum covers (RFC 3828; UDPLITE_SEND_CSCOV,
//! UDPLITE_RECV_CSCOV).

use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use super::UDP_HEAD;
use super::options::UDP;
use crate::errno::Result;
use crate::net::options::{bytes, number};
use alloc::vec::Vec;

/// UDPLITE_SEND_CSCOV and UDPLITE_RECV_CSCOV.
const SEND: u32 = 10;
const RECEIVE: u32 = 11;

/// A socket's coverage settings in bytes, including the header; 0 for all, negative for none.
pub struct Coverage {
    sent: AtomicI32,
    received: AtomicI32,
}

impl Coverage {
    /// No settings.
    pub const fn new() -> Self {
        Coverage {
            sent: AtomicI32::new(-1),
            received: AtomicI32::new(-1),
        }
    }

    fn option(&self, level: u32, name: u32) -> Option<&AtomicI32> {
        match (level, name) {
            (UDP, SEND) => Some(&self.sent),
            (UDP, RECEIVE) => Some(&self.received),
            _ => None,
        }
    }

    /// The value of an option, if it is one of these.
    pub fn get(&self, level: u32, name: u32) -> Option<Result<Vec<u8>>> {
        let option = self.option(level, name)?;
        Some(bytes(option.load(Relaxed).max(0)))
    }

    /// Sets an option, if it is one of these. EINVAL.
    pub fn set(&self, level: u32, name: u32, value: &[u8]) -> Option<Result<()>> {
        let option = self.option(level, name)?;
        Some(number(value).map(|value| {
            let value = match value {
                0 => 0,
                value => value.clamp(UDP_HEAD as i32, u16::MAX.into()),
            };
            option.store(value, Relaxed);
        }))
    }

    /// The number of bytes that the checksum of a datagram with `len` bytes of data covers, if not
    /// all.
    pub fn of_sent(&self, len: usize) -> Option<u16> {
        let sent = u16::try_from(self.sent.load(Relaxed)).unwrap_or(0);
        (sent > 0 && usize::from(sent) < len + UDP_HEAD).then_some(sent)
    }

    /// Whether the socket accepts a datagram with such a checksum coverage.
    pub fn takes(&self, covered: Option<u16>) -> bool {
        let least = self.received.load(Relaxed);
        match covered {
            Some(covered) if least >= 0 => least != 0 && i32::from(covered) >= least,
            _ => true,
        }
    }
}
