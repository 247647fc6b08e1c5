//! Reports threads that sleep uninterruptibly for too long, because something that they wait for
//! does not happen (Linux's khungtaskd). The machine continues.
//!
//! Nothing is recorded when a thread falls asleep: a thread that has not switched between two
//! checks has slept at least for the time between them.

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use super::clock::{self, SECOND};
use super::sched::{self, state};
use super::wait_queue::WaitQueue;
use super::{Thread, pid_table, spawn_kernel};
use crate::errno::Result;
use crate::log;
use machine::kallsyms::Return;

/// Seconds between two checks, 0 for none (`hung_task_timeout_secs`).
static TIMEOUT: AtomicUsize = AtomicUsize::new(120);
/// The number of further reports, −1 for no limit (`hung_task_warnings`).
pub static WARNINGS: AtomicIsize = AtomicIsize::new(10);
/// Woken when the timeout is changed.
static CHANGED: WaitQueue = WaitQueue::new();

/// The number of a process's threads that are checked at a time under its lock.
const AT_ONCE: usize = 64;
/// The number of callers that are printed.
const DEPTH: usize = 24;

/// Seconds between two checks.
pub fn timeout() -> usize {
    TIMEOUT.load(Relaxed)
}

/// Sets the timeout; 0 for none.
pub fn set_timeout(seconds: usize) {
    TIMEOUT.store(seconds, Relaxed);
    CHANGED.wake_all();
}

/// Creates the thread that checks.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub(super) fn init() -> Result<()> {
    spawn_kernel("khungtaskd", run, 0).map(drop)
}

fn run(_: usize) -> ! {
    let mut before = Vec::new();
    loop {
        let seconds = timeout();
        let wait =
            (seconds != 0).then(|| clock::deadline_in((seconds as u64).saturating_mul(SECOND)));
        let changed = CHANGED.wait_interruptible(|| timeout() != seconds, wait);
        before = match changed {
            Ok(()) => Vec::new(),
            Err(_) => look(&before, seconds),
        };
    }
}

/// The number of context switches of a thread, if it sleeps and only a wake-up ends that.
fn switches_asleep(thread: &Thread) -> Option<u64> {
    let (sleeps, preemptions) = thread.sched.switches();
    (thread.sched.state() == state::UNINTERRUPTIBLE).then_some(sleeps + preemptions)
}

/// The numbers of such threads and their context switches, as far as there is memory, in ascending
/// order. Reports those that are also in `before`.
fn look(before: &[(i32, u64)], seconds: usize) -> Vec<(i32, u64)> {
    let mut asleep = Vec::new();
    let mut from = 1;
    while let Some(process) = pid_table::next_process(from) {
        let mut at = 0;
        // If a thread ends, those after it move up: one that is skipped is seen by the next check.
        while asleep.try_reserve(AT_ONCE).is_ok() {
            let threads = process.threads();
            let some = threads.iter().skip(at).take(AT_ONCE);
            asleep.extend(some.filter_map(|one| Some((one.tid(), switches_asleep(one)?))));
            at += AT_ONCE;
            let is_last = at >= threads.len();
            drop(threads);
            sched::cond_resched();
            if is_last {
                break;
            }
        }
        from = process.pid() + 1;
        sched::cond_resched();
    }
    heapsort::sort(&mut asleep);
    for entry in asleep
        .iter()
        .filter(|entry| before.binary_search(entry).is_ok())
    {
        let left = WARNINGS.load(Relaxed);
        if left == 0 {
            break;
        }
        if let Some(thread) = pid_table::thread(entry.0) {
            WARNINGS.store(if left > 0 { left - 1 } else { left }, Relaxed);
            tell(&thread, seconds);
        }
        sched::cond_resched();
    }
    asleep
}

fn tell(thread: &Thread, seconds: usize) {
    let name = thread.name();
    let name = core::str::from_utf8(&name)
        .unwrap_or("?")
        .trim_end_matches('\0');
    log!(
        "INFO: task {name}:{} blocked for more than {seconds} seconds.",
        thread.tid()
    );
    let mut callers = [0; DEPTH];
    let count = thread.callers(&mut callers);
    callers[..count]
        .iter()
        .for_each(|caller| log!("  called by {}", Return(*caller)));
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn a_thread_that_only_a_wake_up_ends_is_told_of() {
        use core::sync::atomic::AtomicBool;
        static READY: AtomicBool = AtomicBool::new(false);
        static WAITING: WaitQueue = WaitQueue::new();
        fn wait(_: usize) -> ! {
            WAITING.wait(|| READY.load(Relaxed));
            // Sleeps that a signal ends are not reported.
            _ = WAITING.wait_interruptible(|| false, None);
            unreachable!("nothing ends this");
        }
        let until = |thread: &Thread, kind| {
            while thread.sched.state() != kind {
                sched::schedule();
                crate::arch::irq::service(crate::arch::irq::Interrupted::Kernel);
            }
        };
        let thread = spawn_kernel("hung", wait, 0).unwrap();
        until(&thread, state::UNINTERRUPTIBLE);
        assert!(switches_asleep(&thread).is_some());
        READY.store(true, Relaxed);
        WAITING.wake_all();
        until(&thread, state::INTERRUPTIBLE);
        assert_eq!(switches_asleep(&thread), None);
    }
}
