//! Signals: installing a handler and catching one.

use super::Measured;
use crate::arch::SignalAction;
use crate::meter::Meter;
use crate::sys;

const TIMES: usize = 200;

extern "C" fn handler(_signal: i32) {}

pub fn install(meter: &mut Meter) -> Measured {
    let action = SignalAction::new(handler);
    let once = || sys::sigaction(sys::SIGUSR1, &action);
    meter.batches(TIMES, || Ok(()), || (0..TIMES).try_for_each(|_| once()))
}

pub fn catch(meter: &mut Meter) -> Measured {
    sys::sigaction(sys::SIGUSR1, &SignalAction::new(handler))?;
    let (process, thread) = (sys::getpid(), sys::gettid());
    let once = || sys::tgkill(process, thread, sys::SIGUSR1);
    meter.batches(TIMES, || Ok(()), || (0..TIMES).try_for_each(|_| once()))
}
