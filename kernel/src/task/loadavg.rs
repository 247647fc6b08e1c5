//! The load averages: the number of running and runnable threads, over the last 1, 5 and 15
//! minutes.

use super::clock::{self, SECOND};
use super::sched;
use crate::sync::Mutex;

/// Bits of the fraction.
pub const SHIFT: u32 = 11;
const ONE: u64 = 1 << SHIFT;
/// The interval at which the averages are updated, in ns.
const STEP: u64 = 5 * SECOND;
/// The factor by which an average decays in a step: e to the power of -5 s over 1, 5 and 15
/// minutes.
const KEPT: [u64; 3] = [1884, 2014, 2037];
/// The maximum number of steps to compute; longer pauses count as this many.
const MOST_STEPS: u64 = 720;

static AVERAGES: Mutex<([u64; 3], u64)> = Mutex::new(([0; 3], 0));

/// The three averages. They are updated when they are read: the number of threads running then
/// stands for the time since.
pub fn averages() -> [u64; 3] {
    let active = sched::runnable() as u64 * ONE;
    let now = clock::monotonic_ns();
    let mut state = AVERAGES.lock();
    let steps = (now - state.1) / STEP;
    state.1 += steps * STEP;
    for _ in 0..steps.min(MOST_STEPS) {
        for (average, kept) in state.0.iter_mut().zip(KEPT) {
            *average = (*average * kept + active * (ONE - kept)) >> SHIFT;
        }
    }
    state.0
}
