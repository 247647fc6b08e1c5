//! The rows in a process with several threads, each on a CPU of its own.
//!
//! Every thread runs on its CPU once, so that the kernel has seen them all; then the first and the
//! last thread measure in turn, twice each. A cache line that all four turns access is shared,
//! rather than handed on once.

use crate::measure::Run;
use crate::output;
use crate::sys;
use crate::turns::{self, take_turns};

/// The number of turns that measure.
pub const MEASURING: usize = 4;

/// Measures with `threads` threads, from 1 to [`turns::MOST`]. `first_tag` is the tag of the first
/// row in the first measuring turn, and the others follow. Each turn prints a line `# threads
/// THREADS turn TURN` before its rows.
pub fn measure(run: &Run, threads: usize, first_tag: usize) {
    let mut order = [0; turns::MOST + MEASURING];
    for (turn, thread) in order.iter_mut().enumerate() {
        *thread = match turn.checked_sub(threads) {
            None => turn,
            Some(measuring) => measuring % 2 * (threads - 1),
        };
    }
    let work = |thread: usize, turn: usize| {
        if let Err(error) = sys::pin(thread) {
            output::line(format_args!("# not on CPU {thread}: errno {}", error.0));
        }
        if let Some(measuring) = turn.checked_sub(threads) {
            sys::sleep_ms(run.options.pause_ms);
            output::line(format_args!("# threads {threads} turn {measuring}"));
            run.rows(first_tag + measuring * run.options.wanted());
        }
    };
    if let Err(error) = take_turns(threads, &order[..threads + MEASURING], &work) {
        output::line(format_args!(
            "# {threads} threads cannot be had: errno {}",
            error.0
        ));
    }
}
