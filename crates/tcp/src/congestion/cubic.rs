//! CUBIC (RFC 9438) with integers: C is 0.4 and beta 0.7. Windows are in bytes; times are in ms
//! where they are cubed.

use crate::rtt::MS;

/// The state of CUBIC since the last reduction.
#[derive(Clone, Copy, Default)]
pub(super) struct Cubic {
    /// W_max: the window before the reduction, or less because of fast convergence.
    most: u64,
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy)]
struct Epoch {
    start: u64,
    /// K, in ms.
    k: u64,
    /// W_est: the window that Reno would have.
    estimate: u64,
    /// The part of W_est below one byte, times the window.
    credit: u128,
    /// The window before the reduction: from there on, W_est grows like Reno's window.
    prior: u64,
    /// The window at which the curve is flat.
    origin: u64,
}

impl Cubic {
    /// The window to reach one round trip after `now`, at `at`; never below `window`.
    pub fn target(&mut self, at: u64, now: u64, window: u64, mss: u64, acked: u64) -> u64 {
        let most = self.most;
        let epoch = self.epoch.get_or_insert_with(|| {
            // C (W_max - cwnd) in segments and seconds; 1/0.4 s^3 are 2.5e9 ms^3.
            let below = u128::from(most.saturating_sub(window));
            let k = cube_root(below * 2_500_000_000 / u128::from(mss));
            Epoch {
                start: now,
                k,
                estimate: window,
                credit: 0,
                prior: most,
                origin: most.max(window),
            }
        });
        let elapsed = (at.saturating_sub(epoch.start) / MS).min(10_000_000);
        let from_k = i128::from(elapsed) - i128::from(epoch.k);
        let risen = from_k * from_k * from_k * i128::from(mss) / 2_500_000_000;
        let curve = (i128::from(epoch.origin) + risen).clamp(0, i128::from(u64::MAX / 4)) as u64;
        let reno = epoch.reno(window, mss, acked);
        curve.max(reno).max(window)
    }

    /// The threshold after a loss at `window`.
    pub fn reduce(&mut self, window: u64) -> u64 {
        // Fast convergence (4.7): makes room for new flows.
        self.most = if window < self.most {
            window * 17 / 20
        } else {
            window
        };
        self.epoch = None;
        window * 7 / 10
    }

    /// Skips `idle` ns that do not count as growth time.
    pub fn skip(&mut self, idle: u64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += idle;
        }
    }
}

impl Epoch {
    /// W_est after `acked` more bytes (4.3): alpha is 3 (1 - beta) / (1 + beta), or one after the
    /// window before the loss is reached again.
    fn reno(&mut self, window: u64, mss: u64, acked: u64) -> u64 {
        let alpha = if self.estimate < self.prior { 9 } else { 17 };
        self.credit += u128::from(mss) * u128::from(acked) * alpha;
        let whole = u128::from(window) * 17;
        self.estimate += (self.credit / whole) as u64;
        self.credit %= whole;
        self.estimate
    }
}

/// The largest number whose cube is at most `value`.
fn cube_root(value: u128) -> u64 {
    let (mut low, mut high) = (0u64, 1 << 32);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let cube = u128::from(middle) * u128::from(middle) * u128::from(middle);
        if cube <= value {
            low = middle
        } else {
            high = middle
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots() {
        for root in [1u64, 2, 999, 1 << 20] {
            let cube = u128::from(root) * u128::from(root) * u128::from(root);
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube - 1), root - 1);
        }
    }

    /// After K, the window is back at its former value, and later above it.
    #[test]
    fn back_after_k() {
        let (mss, window) = (1000, 1_000_000);
        let mut cubic = Cubic::default();
        let reduced = cubic.reduce(window);
        assert_eq!(reduced, 700_000);
        assert!(cubic.target(0, 0, reduced, mss, 0) - reduced < mss);
        // 300 segments below: K is the cube root of 300 / 0.4 seconds, 9.086 s.
        let near = cubic.target(9086 * MS, 0, reduced, mss, 0);
        assert!(near.abs_diff(window) < mss, "{near}");
        assert!(cubic.target(12_000 * MS, 0, reduced, mss, 0) > window + 5 * mss);
    }
}
