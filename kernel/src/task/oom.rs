//! Lack of memory: who took some of the last, or got none, waits until there is more, and the
//! process that holds most ends.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

use linux_raw_sys::general::SIGKILL;

use super::{Process, clock, current, pid_table, wait_queue};
use crate::arch::{Frame, KERNEL_STACK_SIZE, time, work::MEMORY};
use crate::errno::Errno;
use crate::mm::{PAGE_SIZE, frame};
use crate::net::unix::inflight;

/// How long a process that was killed is given to end before another is, in nanoseconds: a
/// machine's worth of page tables takes seconds to give back where the machine is emulated.
const PATIENCE: u64 = 10_000_000_000;
/// How long who wants memory waits before it looks again, in nanoseconds.
const PAUSE: u64 = 4_000_000;
/// When another process may be killed although one dies, in ticks.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Held by the one that chooses who ends.
static CHOOSING: AtomicBool = AtomicBool::new(false);
/// The adjustment of a process that is never chosen (OOM_SCORE_ADJ_MIN).
const NEVER: i32 = -1000;

/// Waits until there is memory again. A system call that failed for want of it begins again.
pub fn repay() {
    let thread = current();
    thread.arch.work.fetch_and(!MEMORY, Relaxed);
    let failed = thread.arch.with_frame(|frame| {
        frame.syscall_nr().is_some() && frame.result() == Errno::ENOMEM.result()
    });
    // A call that fails again may want more than there is before anybody ends, and had given back
    // what it got.
    let again = thread.starved.swap(failed, Relaxed) && failed;
    if again && !(free_some() && pause()) {
        return;
    }
    while !frame::is_ample() {
        if !make_room() {
            return;
        }
    }
    if failed {
        thread.arch.with_frame(Frame::restart_syscall);
    }
}

/// Waits until there is memory again, or the current thread must die.
#[allow(dead_code, reason = "not every architecture has guests")]
pub fn wait() {
    current().arch.work.fetch_and(!MEMORY, Relaxed);
    while !frame::is_ample() && make_room() {}
}

/// Frees some memory unless there is some by now, and waits a while for it. False if the current
/// thread should give up: its own process is the one that ends, or there is none.
pub fn make_room() -> bool {
    (frame::is_ample() || free_some()) && pause()
}

/// Ends the process that holds most memory, unless sockets that nobody can receive had some, or one
/// dies already. False if there is none.
fn free_some() -> bool {
    if current().must_die() || inflight::collect() {
        return true;
    }
    // Others that want memory just now find the victim of this one dying.
    if CHOOSING.swap(true, Acquire) {
        return true;
    }
    let freed = choose();
    CHOOSING.store(false, Release);
    freed
}

/// Ends the process that holds most, for one caller at a time. It may let others run.
fn choose() -> bool {
    if time::now_ticks() < NEXT.load(Relaxed) && anybody_dies() {
        return true;
    }
    match largest() {
        Some(victim) => {
            crate::log!("out of memory: process {} ends", victim.pid());
            NEXT.store(clock::deadline_in(PATIENCE), Relaxed);
            victim.begin_exit(SIGKILL);
            true
        }
        // The last possible victim is waited for however slowly it dies; but not if it waits for
        // the current thread.
        None => anybody_dies() && time::now_ticks() < last_chance(),
    }
}

/// Waits a while; false if the current thread must die.
fn pause() -> bool {
    if !current().must_die() {
        wait_queue::sleep_killable(clock::deadline_in(PAUSE));
    }
    !current().must_die()
}

/// When whoever was killed last is waited for no longer.
fn last_chance() -> u64 {
    NEXT.load(Relaxed)
        .saturating_add(time::ns_to_ticks(3 * PATIENCE))
}

/// Whether a process that was killed still has memory.
fn anybody_dies() -> bool {
    pid_table::any(|process| process.is_killed() && !process.is_zombie())
}

/// The process of the highest score that is not about to end. Takes no memory.
fn largest() -> Option<Arc<Process>> {
    let (mut next, mut most, mut largest) = (2, isize::MIN, None);
    while let Some(process) = pid_table::next_process(next) {
        next = process.pid() + 1;
        if process.is_exiting() {
            continue;
        }
        let badness = badness(&process);
        if let Some(badness) = badness.filter(|&badness| badness >= most) {
            (most, largest) = (badness, Some(process));
        }
    }
    largest
}

/// Pages that a process has, with what the kernel keeps for them, for its threads and its
/// descriptors, moved by its adjustment (a thousandth of all memory each); none if it has no memory
/// or is never chosen.
fn badness(process: &Process) -> Option<isize> {
    let thread = process.find_thread(|_| true)?;
    let space = thread.space()?;
    let adjust = process.oom_adjust.get();
    if process.is_zombie() || adjust == NEVER {
        return None;
    }
    let files = thread.try_files();
    let held = files.map_or(0, |files| files.held()) / PAGE_SIZE;
    let stacks = process.threads().len() * KERNEL_STACK_SIZE / PAGE_SIZE;
    let pages = space.size().resident + space.overhead() + stacks + held;
    let shift = frame::total() as isize / 1000 * adjust as isize;
    Some(pages as isize + shift)
}

/// What oom_score tells: 667 of a process that has nothing, a thousand of one that has half of all
/// memory.
pub fn score(process: &Process) -> usize {
    let total = frame::total().max(1) as isize;
    let thousandths = |badness: isize| (1000 + badness * 1000 / total).max(0) as usize;
    badness(process).map_or(0, thousandths) * 2 / 3
}
