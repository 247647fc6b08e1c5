//! Accounting of a channel's bytes: `tcp_memory` is charged in steps, `udp_memory` for each
//! datagram.

use super::{Bytes, Channel, Kind};
use crate::net::inet::tcp_memory::{Charge, LEAST};
use crate::net::inet::udp_memory;
use core::sync::atomic::Ordering::*;

/// The step in which memory is charged, in bytes.
const STEP: usize = 16384;

/// The charges for a channel's bytes.
pub(super) struct Charged {
    /// The number of bytes that the channel may hold without a check of the global limit.
    pub(super) granted: usize,
    /// The number of bytes below which the charge is adjusted.
    pub(super) low: usize,
    charge: Charge,
    /// The number of bytes charged to `udp_memory`.
    counted: usize,
}

impl Charged {
    pub(super) fn new(kind: Kind) -> Self {
        let (granted, low) = match kind {
            Kind::Tcp => (LEAST, 0),
            Kind::Datagrams => (usize::MAX, usize::MAX),
            Kind::Stream | Kind::Records => (usize::MAX, 0),
        };
        Charged {
            granted,
            low,
            charge: Charge::default(),
            counted: 0,
        }
    }

    /// Grants `bytes` bytes, if memory allows.
    fn grow(&mut self, bytes: usize) -> bool {
        let grows = self.charge.may_be(bytes - LEAST);
        if grows {
            self.grant(bytes);
        }
        grows
    }

    fn grant(&mut self, bytes: usize) {
        self.charge.set(bytes - LEAST);
        self.granted = bytes;
        self.low = match bytes {
            LEAST => 0,
            // An empty channel has the minimum.
            _ => bytes.saturating_sub(3 * STEP).max(1),
        };
    }
}

impl Channel {
    /// Charges `wanted` more bytes, or as many as memory allows; returns how many can be written,
    /// and whether a reader can now only wait for fewer bytes than before.
    #[cold]
    pub(super) fn claim(&self, bytes: &mut Bytes, wanted: usize) -> (usize, bool) {
        let len = bytes.ring.len();
        let least = |more: usize| (len + more).next_multiple_of(STEP);
        let charged = &mut bytes.charged;
        let grows =
            charged.grow(least(wanted)) || least(1) > charged.granted && charged.grow(least(1));
        let most = if grows { usize::MAX } else { charged.granted };
        let is_less = self.most.swap(most, AcqRel) > most;
        ((charged.granted - len).min(wanted), is_less)
    }

    /// Adjusts the charge after bytes were removed.
    #[cold]
    pub(super) fn recount(&self, bytes: &mut Bytes) {
        if self.kind == Kind::Datagrams {
            let used = self.used();
            let before = core::mem::replace(&mut bytes.charged.counted, used);
            return udp_memory::changed(before, used);
        }
        let needed = match bytes.ring.len() {
            ..=LEAST => LEAST,
            len => len.next_multiple_of(STEP) + STEP,
        };
        bytes.charged.grant(needed.min(bytes.charged.granted));
        self.most.store(usize::MAX, Release);
    }

    /// Whether a claim was denied for lack of memory since the last successful one.
    pub(super) fn is_short(&self) -> bool {
        self.most.load(Acquire) != usize::MAX
    }
}
