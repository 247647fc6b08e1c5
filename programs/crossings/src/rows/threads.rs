//! Threads: creating and joining one, and handing over by futexes.

use super::Measured;
use crate::meter::Meter;
use crate::sys;
use crate::thread::Place;
use core::sync::atomic::{AtomicU32, Ordering};

/// Threads in one batch.
const THREADS: usize = 100;
/// Round trips in one batch.
const TRIPS: usize = 100;

pub fn create(meter: &mut Meter) -> Measured {
    extern "C" fn nothing(_: usize) {}
    let place = Place::new()?;
    let once = || {
        place.start(nothing, 0)?;
        place.join();
        Ok(())
    };
    meter.batches(THREADS, || Ok(()), || (0..THREADS).try_for_each(|_| once()))
}

/// The values of the turn word: the thread that has the turn.
const NEAR: u32 = 0;
const FAR: u32 = 1;
const OVER: u32 = 2;

/// Gives the turn to `other` and waits until that gives it back; returns the new owner of the turn.
#[inline(always)]
fn hand_over(turn: &AtomicU32, other: u32) -> u32 {
    turn.store(other, Ordering::Release);
    sys::futex_wake(turn, 1);
    wait_while(turn, other)
}

/// Waits while `other` has the turn; returns the new owner.
#[inline(always)]
fn wait_while(turn: &AtomicU32, other: u32) -> u32 {
    loop {
        let now = turn.load(Ordering::Acquire);
        if now != other {
            return now;
        }
        sys::futex_wait(turn, other, sys::FUTEX_PRIVATE);
    }
}

extern "C" fn echo(turn: usize) {
    // SAFETY: the word outlives this thread, which is joined.
    let turn = unsafe { &*(turn as *const AtomicU32) };
    let mut now = wait_while(turn, NEAR);
    while now == FAR {
        now = hand_over(turn, NEAR);
    }
}

pub fn futex(meter: &mut Meter) -> Measured {
    let turn = AtomicU32::new(NEAR);
    let place = Place::new()?;
    place.start(echo, turn.as_ptr() as usize)?;
    let measured = meter.batches(
        TRIPS,
        || Ok(()),
        || {
            for _ in 0..TRIPS {
                hand_over(&turn, FAR);
            }
            Ok(())
        },
    );
    turn.store(OVER, Ordering::Release);
    sys::futex_wake(&turn, 1);
    place.join();
    measured
}
