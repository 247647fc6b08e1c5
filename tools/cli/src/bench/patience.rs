//! Decides when a machine counts as hung: after a limit of processor time, since elapsed time means
//! nothing on a busy host.

use std::time::{Duration, Instant};

use crate::session::Session;

/// A machine that uses almost no processor time for this long waits for an event that will not
/// come.
const IDLE: Duration = Duration::from_secs(120);
/// The processor time that counts as almost none: a machine on a busy host gets more.
const NONE: Duration = Duration::from_secs(1);

/// The time that a machine is given.
pub struct Patience {
    limit: Duration,
    started: Instant,
    /// The processor time that the machine had used when the wait began.
    used: Duration,
    /// When it was last active, and the processor time that it had used by then.
    active: (Instant, Duration),
}

impl Patience {
    /// Waits for `session` for `limit` of processor time from now on, or of real time if the host
    /// does not report a process's processor time.
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
