//! Lack of memory: threads that took some of the last memory, or got none, wait until more is free,
//! and the process that holds most is killed.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, Ordering::*};

use linux_raw_sys::general::SIGKILL;

use super::{Process, Thread, clock, current, droppable, oom_reaper, pid_table, wait_queue};
use crate::arch::{Frame, KERNEL_STACK_SIZE, time, work::MEMORY};
use crate::errno::{Errno, Result};
use crate::fs::page_cache;
use crate::mm::{AddressSpace, PAGE_SIZE, frame};
use crate::net::unix::inflight;
use crate::sync::Mutex;

/// How long to wait for the victim's end while it frees no memory, in nanoseconds.
const PATIENCE: u64 = 10_000_000_000;
/// The number of parts in which a victim frees its memory, each within that time.
const PARTS: usize = 64;
/// How long a thread that needs memory waits before it checks again, in nanoseconds.
const PAUSE: u64 = 4_000_000;
/// The last victim; only the thread that chooses accesses it.
static VICTIM: Mutex<Option<Victim>> = Mutex::new(None);
/// Held by the thread that chooses a victim.
static CHOOSING: AtomicBool = AtomicBool::new(false);
/// The adjustment of a process that is never chosen (OOM_SCORE_ADJ_MIN).
const NEVER: i32 = -1000;

/// A process that was chosen to end.
struct Victim {
    process: Weak<Process>,
    space: Arc<AddressSpace>,
    /// The pages that it held at its last progress, the pages that it must free next, and the
    /// deadline for that in ticks.
    pages: usize,
    part: usize,
    until: u64,
}

impl Victim {
    fn new(process: &Arc<Process>, space: Arc<AddressSpace>) -> Self {
        let pages = pages(&space);
        Victim {
            process: Arc::downgrade(process),
            pages,
            part: (pages / PARTS).max(1),
            space,
            until: clock::deadline_in(PATIENCE),
        }
    }

    /// Whether the victim has not ended, and freed a part of its memory recently.
    fn is_ending(&mut self) -> bool {
        let pages = pages(&self.space);
        if pages + self.part <= self.pages {
            (self.pages, self.until) = (pages, clock::deadline_in(PATIENCE));
        }
        self.is_alive() && time::now_ticks() < self.until
    }

    fn is_alive(&self) -> bool {
        let process = self.process.upgrade();
        process.is_some_and(|process| !process.is_zombie())
    }

    /// Whether to wait for the last possible victim, however slowly it ends; not if it waits for
    /// the current thread.
    fn is_last_hope(&self) -> bool {
        let until = self.until.saturating_add(time::ns_to_ticks(3 * PATIENCE));
        self.is_alive() && time::now_ticks() < until
    }
}

/// The pages of a space, including the kernel's data for it.
fn pages(space: &AddressSpace) -> usize {
    space.size().resident + space.overhead()
}

/// Waits until there is memory again. A system call that failed for lack of it is restarted.
pub fn wait_for_memory() {
    let thread = current();
    thread.arch.work.fetch_and(!MEMORY, Relaxed);
    let failed = thread.arch.with_frame(|frame| {
        // Sockets return ENOBUFS.
        let lacked = [Errno::ENOMEM, Errno::ENOBUFS].map(Errno::result);
        frame.syscall_nr().is_some() && lacked.contains(&frame.result())
    });
    // A call that fails again may need more memory than is free before any process ends, and has
    // freed what it got.
    let again = thread.starved.swap(failed, Relaxed) && failed;
    if again && !(free_some(true) && pause()) {
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
#[cfg(guests)]
pub fn wait_in_guest() {
    current().arch.work.fetch_and(!MEMORY, Relaxed);
    while !frame::is_ample() && make_room() {}
}

/// Frees some memory unless enough is free by now, and waits a while for it. False if the current
/// thread should give up: its own process is the victim, or there is none.
pub fn make_room() -> bool {
    (frame::is_ample() || free_some(false)) && pause()
}

/// Completes a call that has already taken effect. It must not fail for lack of memory, since the
/// call would be restarted and take effect twice.
///
/// # Errors
/// Those of `act`; EIO if no memory can be freed.
pub fn insist<T>(mut act: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match act() {
            Err(Errno::ENOMEM) if make_room() => {}
            Err(Errno::ENOMEM) => return Err(Errno::EIO),
            done => return done,
        }
    }
}

/// Frees memory: clean pages of files, sockets that no program can receive, or droppable memory;
/// else it kills the largest process, unless one is dying already. With `more`, it does so even if
/// some memory is free. True if memory may become free.
fn free_some(more: bool) -> bool {
    if current().must_die() || page_cache::relieve() || inflight::collect_for_memory() {
        return true;
    }
    // Other threads that need memory just now wait for the victim of this one.
    if CHOOSING.swap(true, Acquire) {
        return true;
    }
    let freed = droppable::drop_some() || choose(more);
    CHOOSING.store(false, Release);
    freed
}

/// Kills the process that holds most memory, for one caller at a time. It may let other threads
/// run.
fn choose(more: bool) -> bool {
    let mut victim = VICTIM.lock().take();
    let is_ending = victim.as_mut().is_some_and(Victim::is_ending);
    // Tested last: the victim may have ended while its memory was counted.
    if victim.take_if(|victim| !victim.is_alive()).is_some() {
        // Its memory was freed, perhaps after the caller checked.
        return true;
    }
    // Waits also if another caller found a dying victim.
    let waits = is_ending
        || !more && frame::is_ample()
        || match largest() {
            Some((process, space)) => {
                oom_reaper::watch(&process, &space);
                victim = Some(Victim::new(&process, space));
                end(&process);
                true
            }
            None => victim.as_ref().is_some_and(Victim::is_last_hope),
        };
    *VICTIM.lock() = victim;
    waits
}

/// Makes a process end, even one that is ending already, which may be stuck.
fn end(process: &Process) {
    if !process.is_exiting() {
        crate::log!("out of memory: process {} ends", process.pid());
    }
    process.oom_adjust.choose();
    process.begin_exit(SIGKILL);
}

/// Waits a while; false if the current thread must die.
fn pause() -> bool {
    let thread = current();
    if !thread.must_die() {
        thread.starves.store(true, Relaxed);
        wait_queue::sleep_killable(clock::deadline_in(PAUSE));
        thread.starves.store(false, Relaxed);
    }
    !thread.must_die()
}

/// The process with the highest score that was not chosen before, and its memory. Allocates
/// nothing.
fn largest() -> Option<(Arc<Process>, Arc<AddressSpace>)> {
    let (mut next, mut most, mut largest) = (2, isize::MIN, None);
    while let Some(process) = pid_table::next_process(next) {
        next = process.pid() + 1;
        if process.oom_adjust.was_chosen() {
            continue;
        }
        let badness = badness(&process).filter(|&(badness, _)| badness >= most);
        if let Some((badness, space)) = badness {
            (most, largest) = (badness, Some((process, space)));
        }
    }
    largest
}

/// The pages of a process, including the kernel's data for it, for its threads, descriptors, timers
/// and pending signals, shifted by its adjustment (in thousandths of all memory), and its memory;
/// `None` if it has no memory or is never chosen.
fn badness(process: &Process) -> Option<(isize, Arc<AddressSpace>)> {
    // The first thread may have ended before the others, or be ending.
    let thread = process.find_thread(Thread::has_space)?;
    let space = thread.space()?;
    let adjust = process.oom_adjust.get();
    if process.is_zombie() || adjust == NEVER {
        return None;
    }
    let files = thread.try_files();
    let held = files.map_or(0, |files| files.held()) + process.timers.held();
    let signals = process.signals.pending.lock().held();
    let of_threads: usize = {
        let threads = process.threads();
        let of_thread =
            |thread: &Arc<Thread>| KERNEL_STACK_SIZE + thread.signals.pending.lock().held();
        threads.iter().map(of_thread).sum()
    };
    let kernel = (held + signals + of_threads) / PAGE_SIZE;
    let shift = frame::total() as isize / 1000 * adjust as isize;
    Some(((pages(&space) + kernel) as isize + shift, space))
}

/// The value of oom_score: 667 for a process that has nothing, 1000 for one that has half of all
/// memory.
pub fn score(process: &Process) -> usize {
    let total = frame::total().max(1) as isize;
    let thousandths = |badness: isize| (1000 + badness * 1000 / total).max(0) as usize;
    badness(process).map_or(0, |(badness, _)| thousandths(badness)) * 2 / 3
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_victim_is_waited_for_while_its_memory_comes_back() {
        let thread = current();
        let process = thread.process();
        let space = crate::mm::SpaceUser::new(crate::arch::user_end()).unwrap();
        let mut victim = Victim::new(process, (*space).clone());
        assert!(victim.is_ending());
        victim.until = 0;
        assert!(!victim.is_ending());
        victim.pages += victim.part;
        assert!(victim.is_ending() && victim.until > time::now_ticks());
        victim.until = time::now_ticks();
        assert!(!victim.is_ending() && victim.is_last_hope());
        victim.process = Weak::new();
        assert!(!victim.is_last_hope());
    }

    fn what_is_left_of_a_call_waits_for_memory() {
        let mut left = 2;
        let done = insist(|| {
            left -= 1;
            if left > 0 { Err(Errno::ENOMEM) } else { Ok(()) }
        });
        assert_eq!((done, left), (Ok(()), 0));
        assert_eq!(insist(|| Err::<(), _>(Errno::ENOSPC)), Err(Errno::ENOSPC));
    }

    fn nobody_ends_where_memory_is_back() {
        let gone = |process: &Arc<Process>| {
            let space = crate::mm::SpaceUser::new(crate::arch::user_end()).unwrap();
            let victim = Victim::new(process, (*space).clone());
            Victim { process: Weak::new(), until: 0, ..victim }
        };
        assert!(frame::is_ample() && VICTIM.lock().is_none());
        assert!(choose(false));
        *VICTIM.lock() = Some(gone(current().process()));
        assert!(choose(true) && VICTIM.lock().is_none());
    }
}
