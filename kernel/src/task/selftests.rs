//! Tests of the scheduler, of waiting and of timers, inside the machine.
//!
//! The tests run as the boot CPU's idle thread, which must not sleep: they make threads of the
//! kernel, and let them run until they are done.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::sched::{self, state};
use super::timer::{Expire, Timer};
use super::wait_queue::{WaitError, WaitQueue, sleep_until};
use super::{clock, current, pid_table, spawn_kernel};
use crate::arch::irq::Interrupted;
use crate::arch::{irq, time};
use crate::selftest;
use crate::sync::{Mutex, SleepMutex};

static DONE: AtomicUsize = AtomicUsize::new(0);
static WORK: Mutex<Option<fn(usize)>> = Mutex::new(None);

fn begin(number: usize) -> ! {
    let work = *WORK.lock();
    work.expect("something to do")(number);
    DONE.fetch_add(1, AcqRel);
    sched::prepare(state::DEAD);
    sched::schedule();
    unreachable!("a dead thread was scheduled")
}

/// Runs `work` in `count` threads of the kernel, each with its number, until all have returned.
fn run(count: usize, work: fn(usize)) {
    DONE.store(0, Relaxed);
    *WORK.lock() = Some(work);
    for number in 0..count {
        spawn_kernel("selftest", begin, number).expect("a thread");
    }
    while DONE.load(Acquire) < count {
        sched::schedule();
        irq::service(Interrupted::Kernel);
    }
}

fn soon() -> u64 {
    clock::deadline_in(2_000_000)
}

static COUNT: AtomicUsize = AtomicUsize::new(0);
static QUEUE: WaitQueue = WaitQueue::new();
static GUARDED: SleepMutex<usize> = SleepMutex::new(0);
static FIRED: AtomicU64 = AtomicU64::new(0);

/// Notes that it expired, and when it was meant to.
struct Note(u64);

impl Expire for Note {
    fn expire(self: Arc<Self>) {
        assert!(time::now_ticks() >= self.0, "a timer that is early");
        FIRED.fetch_add(1, AcqRel);
    }
}

selftest! {
    fn threads_that_yield_all_run() {
        COUNT.store(0, Relaxed);
        run(5, |_| {
            for _ in 0..100 {
                COUNT.fetch_add(1, AcqRel);
                sched::yield_now();
            }
        });
        assert_eq!(COUNT.load(Acquire), 500);
    }

    fn who_comes_to_an_idle_cpu_owes_it_nothing() {
        run(1, |_| {
            // What it ran elsewhere, where the least that anybody ran is more than here.
            const ELSEWHERE: u64 = 1 << 50;
            // On a slow host the time may be over before it sleeps.
            let owes = (0..20).all(|_| {
                current().sched.set_vruntime(ELSEWHERE);
                sleep_until(clock::deadline_in(20_000_000)).expect("no signal comes");
                current().sched.vruntime() >= ELSEWHERE
            });
            assert!(!owes);
        });
    }

    fn whoever_waits_is_woken_when_the_condition_holds() {
        COUNT.store(0, Relaxed);
        // Each waits for its turn, and gives it to the next.
        run(8, |number| {
            for round in 0..20 {
                QUEUE.wait(|| COUNT.load(Acquire) == round * 8 + number);
                COUNT.fetch_add(1, AcqRel);
                QUEUE.wake_all();
            }
        });
        assert_eq!(COUNT.load(Acquire), 160);
    }

    fn a_wait_ends_at_its_deadline() {
        run(3, |_| {
            let deadline = soon();
            assert_eq!(QUEUE.wait_interruptible(|| false, Some(deadline)), Err(WaitError::TimedOut));
            assert!(time::now_ticks() >= deadline);
            assert!(sleep_until(soon()).is_ok());
        });
    }

    fn a_sleeping_lock_keeps_others_out() {
        *GUARDED.lock() = 0;
        run(6, |_| {
            for _ in 0..50 {
                let mut guard = GUARDED.lock();
                let before = *guard;
                sched::yield_now();
                *guard = before + 1;
            }
        });
        assert_eq!(*GUARDED.lock(), 300);
    }

    fn timers_expire_once_and_not_when_dropped() {
        FIRED.store(0, Relaxed);
        let deadline = soon();
        let kept = Timer::call(deadline, Arc::new(Note(deadline))).expect("a timer");
        let later = Timer::call(deadline + 1, Arc::new(Note(deadline + 1))).expect("a timer");
        drop(Timer::call(deadline, Arc::new(Note(deadline))).expect("a timer"));
        while FIRED.load(Acquire) < 2 {
            irq::service(Interrupted::Kernel);
        }
        let end = soon();
        while time::now_ticks() < end {
            irq::service(Interrupted::Kernel);
        }
        assert_eq!(FIRED.load(Acquire), 2);
        drop((kept, later));
    }

    fn numbers_are_given_out_once() {
        let numbers: [i32; 3] = core::array::from_fn(|_| pid_table::allocate().expect("a number"));
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2] && numbers[0] != numbers[2]);
        numbers.into_iter().for_each(pid_table::release);
        assert!(pid_table::process(numbers[0]).is_none() && pid_table::thread(numbers[0]).is_none());
    }
}
