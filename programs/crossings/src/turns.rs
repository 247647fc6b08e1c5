//! The rows on several CPUs in turn.
//!
//! Each CPU has its own thread, and all live until the last is done: what the kernel keeps for one thread is never
//! given to the next, so that lines of memory that two turns have in common are shared and not passed on.

use crate::sys::{self, Result};
use crate::thread::Place;
use core::sync::atomic::{AtomicU32, Ordering};

/// The most CPUs: the markers have no more tags.
pub const MOST: usize = 7;

/// What the threads share.
struct Turns<'a> {
    /// Whose turn it is; beyond the last when all are done.
    turn: AtomicU32,
    count: u32,
    work: &'a dyn Fn(usize),
}

/// One thread's own.
#[derive(Clone, Copy)]
struct Turn<'a> {
    turns: &'a Turns<'a>,
    number: u32,
}

impl Turns<'_> {
    /// Waits until it is turn `number`.
    fn wait_for(&self, number: u32) {
        loop {
            let now = self.turn.load(Ordering::Acquire);
            if now == number {
                return;
            }
            sys::futex_wait(&self.turn, now, sys::FUTEX_PRIVATE);
        }
    }
}

extern "C" fn take(turn: usize) {
    // SAFETY: the turn outlives the thread, which is joined.
    let Turn { turns, number } = unsafe { *(turn as *const Turn) };
    turns.wait_for(number);
    (turns.work)(number as usize);
    turns.turn.store(number + 1, Ordering::Release);
    sys::futex_wake(&turns.turn, MOST);
    turns.wait_for(turns.count);
}

/// Calls `work` with 0 to `count` - 1, at most [`MOST`], one after the other, each in its own thread.
pub fn each(count: usize, work: &dyn Fn(usize)) -> Result<()> {
    let turns = Turns {
        turn: AtomicU32::new(0),
        count: count as u32,
        work,
    };
    let turn = core::array::from_fn::<_, MOST, _>(|number| Turn {
        turns: &turns,
        number: number as u32,
    });
    let mut places = [const { None }; MOST];
    for (place, turn) in places.iter_mut().zip(&turn).take(count) {
        place
            .insert(Place::new()?)
            .start(take, core::ptr::from_ref(turn) as usize)?;
    }
    places.iter().flatten().for_each(Place::join);
    Ok(())
}
