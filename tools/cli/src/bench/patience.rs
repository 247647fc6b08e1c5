//! When a machine counts as hung: after so much processor time, since elapsed time says nothing on
//! a busy host.

use std::time::{Duration, Instant};

use crate::session::Session;

/// A machine that uses next to no processor time for so long waits for an event that will not come.
const IDLE: Duration = Duration::from_secs(120);
/// A share of processor time that is next to none: a machine on a busy host gets more.
const NONE: Duration = Duration::from_secs(1);

/// How long a machine is awaited.
pub struct Patience {
    limit: Duration,
    started: Instant,
    /// The processor time that the machine had used when the waiting began.
    used: Duration,
    /// When it was last seen to be active, and the time that it had used by then.
    active: (Instant, Duration),
}

impl Patience {
    /// Waits for `session` with `limit` of processor time from now on; of real time where a process
    /// does not say how much it uses.
    pub fn new(session: &Session, limit: Duration) -> Self {
        let (now, used) = (Instant::now(), session.processor_time().unwrap_or_default());
        Self {
            limit,
            started: now,
            used,
            active: (now, used),
        }
    }

    /// Whether the time is over.
    pub fn is_over(&mut self, session: &Session) -> bool {
        let Some(used) = session.processor_time() else {
            return self.started.elapsed() > self.limit;
        };
        if used > self.active.1 + NONE {
            self.active = (Instant::now(), used);
        }
        used > self.used + self.limit || self.active.0.elapsed() > IDLE
    }
}
