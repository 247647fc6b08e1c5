//! Threads on CPUs of their own that work in turn.
//!
//! All threads live until the last turn is over, so the kernel does not reuse one thread's
//! resources for another.

use crate::sys::{self, Result};
use crate::thread::Place;
use core::sync::atomic::{AtomicU32, Ordering};

/// The maximum number of threads.
pub const MOST: usize = 64;

/// The number that means that no further turn will come.
const OVER: u32 = u32::MAX;

/// The threads' shared state.
struct Turns<'a> {
    /// The threads that take turns, in order.
    order: &'a [usize],
    /// For each thread the number of its present turn, counted from 1; 0 while it has none.
    given: [AtomicU32; MOST],
    work: &'a dyn Fn(usize, usize),
}

/// A thread and the shared state.
#[derive(Clone, Copy)]
struct Part<'a> {
    turns: &'a Turns<'a>,
    thread: usize,
}

impl Turns<'_> {
    /// Waits until this thread has a turn; returns its number, or `None` after the last turn.
    fn wait(&self, thread: usize) -> Option<usize> {
        let given = &self.given[thread];
        loop {
            match given.swap(0, Ordering::AcqRel) {
                0 => sys::futex_wait(given, 0, sys::FUTEX_PRIVATE),
                OVER => return None,
                turn => return Some(turn as usize - 1),
            }
        }
    }

    /// Gives a turn to its thread, or releases all threads after the last turn.
    fn give(&self, turn: usize) {
        let wake = |given: &AtomicU32, value: u32| {
            given.store(value, Ordering::Release);
            sys::futex_wake(given, 1);
        };
        match self.order.get(turn) {
            Some(thread) => wake(&self.given[*thread], turn as u32 + 1),
            None => self.given.iter().for_each(|given| wake(given, OVER)),
        }
    }
}

extern "C" fn take(part: usize) {
    // SAFETY: the part outlives the thread, which is joined.
    let Part { turns, thread } = unsafe { *(part as *const Part) };
    while let Some(turn) = turns.wait(thread) {
        (turns.work)(thread, turn);
        turns.give(turn + 1);
    }
}

/// Starts `threads` threads, at most [`MOST`], and calls `work` with a thread and the number of a
/// turn, for each turn of `order`, which lists threads by number from 0.
pub fn take_turns(threads: usize, order: &[usize], work: &dyn Fn(usize, usize)) -> Result<()> {
    let turns = Turns {
        order,
        given: [const { AtomicU32::new(0) }; MOST],
        work,
    };
    let parts = core::array::from_fn::<_, MOST, _>(|thread| Part {
        turns: &turns,
        thread,
    });
    let mut places = [const { None }; MOST];
    let started = start(&mut places[..threads.min(MOST)], &parts);
    // If not all threads could be started, those that were are released.
    turns.give(if started.is_ok() { 0 } else { order.len() });
    places.iter().flatten().for_each(Place::join);
    started
}

fn start(places: &mut [Option<Place>], parts: &[Part]) -> Result<()> {
    for (place, part) in places.iter_mut().zip(parts) {
        let argument = core::ptr::from_ref(part) as usize;
        let running = Place::new()?;
        // The thread keeps a pointer to its place.
        place.insert(running).start(take, argument)?;
    }
    Ok(())
}
