//! Handling of Ctrl-C: the running machine is ended, and earlier measurements are kept.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::patience::Patience;
use crate::session::{Event, Session};

/// How often a waiting command checks for signals.
const LOOK: Duration = Duration::from_millis(200);

static INTERRUPTED: OnceLock<std::sync::Arc<AtomicBool>> = OnceLock::new();

/// Makes signals end the campaign in an orderly way.
pub fn prepare() -> Result<()> {
    let interrupted = INTERRUPTED.get_or_init(Default::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, interrupted.clone())?;
    }
    Ok(())
}

/// An error if a signal was received.
pub fn check() -> Result<()> {
    if INTERRUPTED
        .get()
        .is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
    {
        bail!("interrupted; what was measured is kept");
    }
    Ok(())
}

/// The session's next event, or [`Event::TimedOut`] when `patience` has run out; an error if a
/// signal was received.
pub fn next(session: &mut Session, patience: &mut Patience) -> Result<Event> {
    loop {
        check()?;
        match session.next(Some(Instant::now() + LOOK)) {
            Event::TimedOut if !patience.is_over(session) => {}
            event => return Ok(event),
        }
    }
}
