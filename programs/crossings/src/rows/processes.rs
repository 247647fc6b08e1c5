//! Processes: creating, executing, waiting, and communicating.

use super::{EXIT, Measured};
use crate::arch;
use crate::meter::{Meter, Outcome};
use crate::sys::{self, Result};

/// Processes in one batch.
const PROCESSES: usize = 10;
/// Round trips in one batch.
const TRIPS: usize = 100;

pub fn fork(meter: &mut Meter) -> Measured {
    let once = || match sys::fork()? {
        0 => sys::exit_group(0),
        child => sys::wait(child),
    };
    meter.batches(
        PROCESSES,
        || Ok(()),
        || (0..PROCESSES).try_for_each(|_| once()),
    )
}

/// Creates a child by vfork that executes `path` with `argv`, or exits at once if `path` is null,
/// and waits for its end.
fn vfork_and_wait(path: *const u8, argv: &[*const u8]) -> Result<()> {
    let environment = [core::ptr::null()];
    // SAFETY: both lists end in a null pointer, and all outlive the child's execve.
    let child = unsafe { arch::vfork_exec(path, argv.as_ptr(), environment.as_ptr()) };
    sys::wait(sys::checked(child)?)
}

pub fn vfork(meter: &mut Meter) -> Measured {
    let none = [core::ptr::null()];
    let once = || vfork_and_wait(core::ptr::null(), &none);
    meter.batches(
        PROCESSES,
        || Ok(()),
        || (0..PROCESSES).try_for_each(|_| once()),
    )
}

pub fn vfork_exec(meter: &mut Meter) -> Measured {
    let path = meter.arguments.executable;
    if path.is_null() {
        return Err(Outcome::Absent);
    }
    let mut word = [0; EXIT.len() + 1];
    word[..EXIT.len()].copy_from_slice(EXIT.as_bytes());
    let argv = [path, word.as_ptr(), core::ptr::null()];
    let once = || vfork_and_wait(path, &argv);
    meter.batches(
        PROCESSES,
        || Ok(()),
        || (0..PROCESSES).try_for_each(|_| once()),
    )
}

pub fn pipe(meter: &mut Meter) -> Measured {
    let (near_read, far_write) = sys::pipe()?;
    let (far_read, near_write) = sys::pipe()?;
    let child = sys::fork()?;
    if child == 0 {
        sys::close(near_write);
        let mut byte = [0];
        while let Ok(1) = sys::read(far_read, &mut byte) {
            let _ = sys::write(far_write, &byte);
        }
        sys::exit_group(0);
    }
    let mut byte = [0];
    let mut trip = || {
        sys::write(near_write, &byte)?;
        sys::read(near_read, &mut byte).map(drop)
    };
    let measured = meter.batches(TRIPS, || Ok(()), || (0..TRIPS).try_for_each(|_| trip()));
    [near_read, near_write, far_read, far_write]
        .into_iter()
        .for_each(sys::close);
    sys::wait(child)?;
    measured
}
