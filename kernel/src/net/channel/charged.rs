//! Accounting of a channel's bytes: `tcp_memory` is charged in steps, `udp_memory` for each
//! datagram.

use super::{Bytes, Channel, Kind};
use crate::net::inet::tcp_memory::{Charge, LEAST};
use crate::net::inet::udp_memory;
use core::sync::atomic::Ordering::*;

/// What is counted at once, in bytes.
const STEP: usize = 16384;

/// What a channel's bytes are counted as.
pub(super) struct Charged {
    /// Bytes that the channel may have without a look at all others'.
    pub(super) granted: usize,
    /// With fewer bytes the count is changed.
    pub(super) low: usize,
    charge: Charge,
    /// Bytes that `udp_memory` has counted.
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

    /// Grants so many bytes, if memory allows.
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
            // An empty channel has the least.
            _ => bytes.saturating_sub(3 * STEP).max(1),
        };
    }
}

impl Channel {
    /// Has `wanted` bytes more counted, or as many as memory allows; how many can be written, and
    /// whether fewer bytes than before are all that a reader can wait for.
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

    /// Counts that there are fewer bytes than before.
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

    /// Whether a claim was denied for want of memory since the last that was not.
    pub(super) fn is_short(&self) -> bool {
        self.most.load(Acquire) != usize::MAX
    }
}
