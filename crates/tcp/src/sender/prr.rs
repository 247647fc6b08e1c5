//! Proportional Rate Reduction (RFC 6937 and its successor): the window during a recovery.

#[derive(Default)]
pub(super) struct Prr {
    /// RecoverFS.
    flight: u64,
    delivered: u64,
    out: u64,
}

impl Prr {
    pub fn start(flight: u64) -> Self {
        Prr {
            flight: flight.max(1),
            delivered: 0,
            out: 0,
        }
    }

    pub fn sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// The window after `delivered` more bytes have arrived. `is_safe`: the acknowledgment advanced
    /// and reported no further loss.
    pub fn window(
        &mut self,
        delivered: u64,
        pipe: u64,
        threshold: u64,
        mss: u64,
        is_safe: bool,
    ) -> u64 {
        self.delivered += delivered;
        let send = if pipe > threshold {
            let share = u128::from(self.delivered) * u128::from(threshold);
            let share = share.div_ceil(u128::from(self.flight)) as u64;
            share.saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered);
            let limit = if is_safe { limit + mss } else { limit };
            limit.min(threshold - pipe)
        };
        // The first retransmission is never delayed.
        pipe + if self.out == 0 { send.max(mss) } else { send }
    }
}
