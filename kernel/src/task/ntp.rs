//! The discipline of the time of day (crate `ntp`), and the timer that adjusts the clock by it.
//!
//! Programs read the time in the vDSO, as CLOCK_MONOTONIC and one word, the offset of
//! CLOCK_REALTIME. So while the clock has a rate of its own, a timer adjusts that word, at most
//! once per ms. CLOCK_MONOTONIC keeps its nominal rate, unlike on Linux: to change it too, a
//! program would have to read three words consistently each time it reads the time.
//!
//! A deadline on CLOCK_REALTIME is converted to ticks by the fastest rate that can be expected
//! ([`realtime_deadline`](super::clock::realtime_deadline)). A timer that expires too early,
//! because the clock went slower, checks the clock and waits for the rest. So an adjustment needs
//! no notification: only a change to a faster rate is notified, like a new time of day, by the
//! thread that makes it.

extern crate alloc;

use alloc::sync::Arc;

use ntp::Ntp;

use super::clock;
use super::timer::{Expire, Timer};
use super::work_queue::{self, Work};
use crate::errno::Result;
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

struct State {
    ntp: Ntp,
    /// The timer that adjusts the clock, if an adjustment is due at some time.
    armed: Option<Timer>,
}

static STATE: Mutex<State> = Mutex::new(State {
    ntp: Ntp::new(),
    armed: None,
});

impl State {
    fn publish(&self) {
        let ntp = &self.ntp;
        clock::publish(ntp.offset(), ntp.fastest(), ntp.tai());
    }
}

/// The work that adjusts the clock. If the clock leaps, it is queued to notify followers, which may
/// sleep.
struct Mover(work_queue::Link);

impl Expire for Mover {
    fn expire(self: Arc<Self>) {
        let mut state = STATE.lock();
        let before = state.ntp.tai();
        state.ntp.advance(clock::monotonic_ns());
        state.publish();
        let leaps = state.ntp.tai() != before;
        // There is memory for it: until now it was a member of this CPU's queue.
        let armed = arm(&state.ntp, self.clone()).unwrap_or(None);
        let spent = core::mem::replace(&mut state.armed, armed);
        drop(state);
        drop(spent);
        if leaps {
            work_queue::queue(self);
        }
    }
}

impl Work for Mover {
    fn link(&self) -> &work_queue::Link {
        &self.0
    }

    fn run(self: Arc<Self>) {
        clock::was_set();
    }
}

fn arm(ntp: &Ntp, mover: Arc<Mover>) -> Result<Option<Timer>> {
    ntp.next()
        .map(|ns| Timer::call(clock::deadline_in(ns), mover))
        .transpose()
}

/// Adjusts the clock, in case the timer is late; returns the discipline. May sleep.
pub fn now() -> Ntp {
    let mut state = STATE.lock();
    let before = state.ntp.tai();
    state.ntp.advance(clock::monotonic_ns());
    state.publish();
    let ntp = state.ntp;
    drop(state);
    if ntp.tai() != before {
        clock::was_set();
    }
    ntp
}

/// Changes the discipline, after stepping the time of day by `step` ns; returns the new discipline.
///
/// # Errors
/// ENOMEM, EINVAL (no such time of day); then nothing is changed.
pub fn change(step: Option<i64>, change: impl FnOnce(&mut Ntp)) -> Result<Ntp> {
    let mover = try_arc(Mover(work_queue::Link::default()))?;
    let mut state = STATE.lock();
    let mut ntp = state.ntp;
    let now = clock::monotonic_ns();
    ntp.advance(now);
    let leaps = ntp.tai() != state.ntp.tai();
    if let Some(by) = step {
        ntp.set(now, clock::stepped(now, ntp.offset(), by)?);
    }
    let (before, tai) = (ntp.fastest(), ntp.tai());
    change(&mut ntp);
    let armed = arm(&ntp, mover)?;
    let spent = core::mem::replace(&mut state.armed, armed);
    state.ntp = ntp;
    state.publish();
    drop(state);
    drop(spent);
    if leaps || step.is_some() {
        clock::was_set();
    } else if ntp.fastest() > before || ntp.tai() != tai {
        clock::notify_followers();
    }
    Ok(ntp)
}

/// Sets the time of day by the offset that `offset` computes from CLOCK_MONOTONIC, in ns. The rate
/// is unchanged, and the timer that adjusts the clock continues.
///
/// # Errors
/// Those of `offset`.
pub(super) fn set(offset: impl FnOnce(u64) -> Result<i64>) -> Result<()> {
    let mut state = STATE.lock();
    let now = clock::monotonic_ns();
    state.ntp.advance(now);
    let offset = offset(now)?;
    state.ntp.set(now, offset);
    state.publish();
    Ok(())
}
