//! Lack of memory: the process that uses most ends.

extern crate alloc;

use alloc::sync::Arc;

use linux_raw_sys::general::SIGKILL;

use super::{Process, current, tree};

/// Kills the process that uses most memory. False if the current thread should give up: its own process is the one.
pub fn kill_largest() -> bool {
    let mut largest: Option<(usize, Arc<Process>)> = None;
    let mut dying = false;
    let asked = tree::for_each(
        |process| process.pid() > 1 && !process.is_zombie(),
        |process| {
            dying |= process.is_killed();
            let score = score(process);
            if largest.as_ref().is_none_or(|(most, _)| score > *most) {
                largest = Some((score, process.clone()));
            }
        },
    );
    if asked.is_err() || current().must_die() {
        return false;
    }
    let Some((_, victim)) = largest else {
        return false;
    };
    if !dying {
        crate::log!("out of memory: process {} ends", victim.pid());
        victim.begin_exit(SIGKILL);
    }
    !current().must_die()
}

/// Pages that a process has, moved by its adjustment (a thousandth of all memory each).
fn score(process: &Process) -> usize {
    let space = process
        .find_thread(|_| true)
        .and_then(|thread| thread.space());
    let pages = space.map_or(0, |space| space.size().resident);
    let shift = crate::mm::frame::total() as isize / 1000 * process.oom_adjust() as isize;
    match process.oom_adjust() {
        -1000 => 0,
        _ => pages.saturating_add_signed(shift),
    }
}
