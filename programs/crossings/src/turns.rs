//! The rows on several CPUs in turn.
//!
//! Each CPU has its own thread, and all live until the last is done: what the kernel keeps for one thread is never
//! given to the next. And each has two turns, A B A B: lines of memory that all four have in common are shared, and
//! not passed on from one turn to the next.

use crate::sys::{self, Result};
use crate::thread::Place;
use core::sync::atomic::{AtomicU32, Ordering};

/// The most CPUs: the markers have no more tags.
pub const MOST: usize = 7;
/// How many turns each has.
pub const ROUNDS: usize = 2;

/// What the threads share.
struct Turns<'a> {
    /// Which turn it is; beyond the last when all are done.
    turn: AtomicU32,
    /// How many CPUs.
    count: u32,
    work: &'a dyn Fn(usize, usize),
}

/// One thread's own.
#[derive(Clone, Copy)]
struct Part<'a> {
    turns: &'a Turns<'a>,
    cpu: u32,
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

extern "C" fn take(part: usize) {
    // SAFETY: the part outlives the thread, which is joined.
    let Part { turns, cpu } = unsafe { *(part as *const Part) };
    for round in 0..ROUNDS as u32 {
        let turn = round * turns.count + cpu;
        turns.wait_for(turn);
        (turns.work)(cpu as usize, turn as usize);
        turns.turn.store(turn + 1, Ordering::Release);
        sys::futex_wake(&turns.turn, MOST);
    }
    turns.wait_for(ROUNDS as u32 * turns.count);
}

/// Calls `work` with each CPU, 0 to `count` - 1, at most [`MOST`], and the turn's number; all CPUs in turn, and then again,
/// each in its own thread.
pub fn each(count: usize, work: &dyn Fn(usize, usize)) -> Result<()> {
    let turns = Turns {
        turn: AtomicU32::new(0),
        count: count as u32,
        work,
    };
    let parts = core::array::from_fn::<_, MOST, _>(|cpu| Part {
        turns: &turns,
        cpu: cpu as u32,
    });
    let mut places = [const { None }; MOST];
    for (place, part) in places.iter_mut().zip(&parts).take(count) {
        place
            .insert(Place::new()?)
            .start(take, core::ptr::from_ref(part) as usize)?;
    }
    places.iter().flatten().for_each(Place::join);
    Ok(())
}
