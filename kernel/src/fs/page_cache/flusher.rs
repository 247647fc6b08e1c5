//! The thread that writes dirty pages back after a while, and the throttling of threads that dirty
//! pages faster than that.

use super::{Mapping, Stats, mappings};
use crate::arch::time;
use crate::errno::Result;
use crate::mm::frame;
use crate::task::wait_queue::WaitQueue;
use crate::task::{clock, spawn_kernel};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// The interval of the thread's checks, and how long a page may be dirty, in hundredths of a
/// second.
pub static INTERVAL: AtomicUsize = AtomicUsize::new(500);
/// See [`INTERVAL`].
pub static EXPIRE: AtomicUsize = AtomicUsize::new(3000);
/// The percentages of memory that may be dirty before the thread begins, and before writers wait.
pub static BACKGROUND_RATIO: AtomicUsize = AtomicUsize::new(10);
/// See [`BACKGROUND_RATIO`].
pub static RATIO: AtomicUsize = AtomicUsize::new(20);

/// Nanoseconds of a hundredth of a second.
const CENTISECOND: u64 = 10_000_000;

static WAKE: WaitQueue = WaitQueue::new();
static WANTED: AtomicBool = AtomicBool::new(false);

/// Creates the thread.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub fn init() -> Result<()> {
    spawn_kernel("flusher", run, 0).map(drop)
}

/// Makes the thread write back what it can, since memory is short.
pub fn wake() {
    WANTED.store(true, Release);
    WAKE.wake_all();
}

/// Whether more than this percentage of memory is dirty.
fn exceeds(ratio: &AtomicUsize) -> bool {
    Stats::now().dirty > frame::total() / 100 * ratio.load(Relaxed)
}

/// Makes a thread that dirties pages of `mapping` faster than they can be written write some.
pub(super) fn throttle(mapping: &Mapping) -> Result<()> {
    if exceeds(&RATIO) {
        // The bytes were accepted, so lack of memory is not reported to the writer.
        _ = mapping.write_back(0..usize::MAX);
    } else if exceeds(&BACKGROUND_RATIO) {
        wake();
    }
    Ok(())
}

fn run(_: usize) -> ! {
    loop {
        // 0 means never; the thread gets no signals.
        let pause = INTERVAL.load(Relaxed) as u64 * CENTISECOND;
        let until = (pause > 0).then(|| clock::deadline_in(pause));
        _ = WAKE.wait_interruptible(|| WANTED.load(Acquire), until);
        let all = WANTED.swap(false, AcqRel) || exceeds(&BACKGROUND_RATIO);
        let age = time::ns_to_ticks(EXPIRE.load(Relaxed) as u64 * CENTISECOND);
        mappings::each(|mapping| {
            let is_due = |since| all || time::now_ticks().saturating_sub(since) >= age;
            if mapping.dirty_since().is_some_and(is_due)
                && let Some(_grabbed) = mapping.grab()
            {
                _ = mapping.write_back(0..usize::MAX);
            }
        });
    }
}
