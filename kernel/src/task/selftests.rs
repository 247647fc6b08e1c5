//! Tests of the scheduler, of waiting and of timers, inside the machine.
//!
//! The tests run in the boot CPU's idle thread, which must not sleep: they create kernel threads,
//! and let them run until they are done.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use super::itimer::Setting;
use super::process::Mode;
use super::sched::{self, state};
use super::signal_groups::Several;
use super::timer::{Expire, Timer};
use super::wait_queue::{WaitError, WaitQueue, sleep_until, sleep_with_slack};
use super::work_queue::{self, Link, Work};
use super::{acct, clock, current, pid_table, spawn_kernel};
use crate::arch::irq::Interrupted;
use crate::arch::{self, cpu, irq, time, user_end};
use crate::errno::Result;
use crate::fs::file::FileOps;
use crate::fs::io::Source;
use crate::fs::tmpfs::{Options, Tmpfs};
use crate::fs::{File, OpenFlags, mount};
use crate::mm::fault::Access;
use crate::mm::vma::Rights;
use crate::mm::{self, AddressSpace, MapRequest, PAGE_SIZE, Place, Removed, SpaceUser, user};
use crate::selftest;
use crate::sync::{Mutex, SleepMutex};
use linux_raw_sys::general::{O_APPEND, O_WRONLY};

/// Deliberate failures, by the values of the parameter `selftest` that select them.
pub(crate) const ENDS: &[selftest::End] = &[
    ("sleeping-deadlock", sleeping_deadlock),
    ("soft-lockup", soft_lockup),
    ("hard-lockup", hard_lockup),
];

/// Takes interrupts for ever, and never schedules.
#[inline(never)]
fn soft_lockup() {
    loop {
        irq::service(Interrupted::Kernel);
    }
}

/// Takes no interrupts, once another CPU is online to notice.
#[inline(never)]
fn hard_lockup() {
    while cpu::count() == 1 {
        sched::cond_resched();
    }
    // Its CPU idles meanwhile, and then tells the other that it is busy.
    _ = sleep_until(clock::deadline_in(50_000_000));
    loop {
        core::hint::spin_loop();
    }
}

struct Guarded;

/// Takes a sleeping lock that it holds already.
#[inline(never)]
fn sleeping_deadlock() {
    static LOCK: SleepMutex<Guarded> = SleepMutex::new(Guarded);
    let _first = LOCK.lock();
    let _second = LOCK.lock();
}

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

/// Runs `work` in `count` kernel threads, each with its number, until all have returned.
pub(crate) fn run(count: usize, work: fn(usize)) {
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

/// Records that it expired, and when it should have.
struct Note(u64);

impl Expire for Note {
    fn expire(self: Arc<Self>) {
        assert!(time::now_ticks() >= self.0, "a timer that is early");
        FIRED.fetch_add(1, AcqRel);
    }
}

/// The space that the two threads of a test share.
static SPACE: Mutex<Option<SpaceUser>> = Mutex::new(None);
/// How many of the two have reached their CPUs.
static ARRIVED: AtomicUsize = AtomicUsize::new(0);
/// The number of steps that the two have done so far, in turn.
static STEPS: AtomicUsize = AtomicUsize::new(0);
const AT: usize = 0x2000_0000;

/// Runs `work` with a new space, which has a few pages at [`AT`], in two threads, each on a CPU of
/// its own as long as it does not yield. Returns the space, if there are two CPUs.
fn run_on_two(work: fn(usize, Arc<AddressSpace>)) -> Option<SpaceUser> {
    static TWO: Mutex<Option<fn(usize, Arc<AddressSpace>)>> = Mutex::new(None);
    if cpu::count() < 2 {
        return None;
    }
    let space = SpaceUser::new(user_end()).expect("a space");
    let pages = MapRequest::anonymous(Place::Fixed(AT), 4 * PAGE_SIZE);
    space.map(pages, &mut Removed::new()).expect("a place");
    *SPACE.lock() = Some(space);
    *TWO.lock() = Some(work);
    STEPS.store(0, Relaxed);
    ARRIVED.store(0, Relaxed);
    run(2, |number| {
        let mut online = (0..cpu::possible()).filter(|&index| cpu::get(index).is_some());
        let index = online.nth(number).expect("there are two");
        move_to(index);
        ARRIVED.fetch_add(1, AcqRel);
        while ARRIVED.load(Acquire) < 2 {
            sched::yield_now();
            sched::cond_resched();
        }
        let (work, space) = (*TWO.lock(), SPACE.lock().as_deref().cloned());
        work.expect("work")(number, space.expect("a space"));
    });
    SPACE.lock().take()
}

/// Moves to a CPU, and stays there.
fn move_to(index: usize) {
    current().sched.allow(1 << index);
    while cpu::this().index() != index {
        sched::leave_forbidden_cpu(&current());
        sched::cond_resched();
    }
}

/// Waits, without yielding the CPU, until so many steps were made.
fn until(steps: usize) {
    while STEPS.load(Acquire) < steps {
        core::hint::spin_loop();
    }
}

fn step() {
    STEPS.fetch_add(1, AcqRel);
}

/// Lets the second thread begin work that must wait until the first has left its section.
fn keep_out() {
    let begun = STEPS.fetch_add(1, AcqRel) + 2;
    until(begun);
    let end = soon();
    while time::now_ticks() < end {
        assert_eq!(STEPS.load(Acquire), begun, "both have the space");
    }
}

/// A file whose writer waits until the kernel's worker has done something.
struct Stuck;

static WRITING: AtomicUsize = AtomicUsize::new(0);
static WORKED: AtomicUsize = AtomicUsize::new(0);

impl FileOps for Stuck {
    fn append(&self, _file: &File, from: &mut Source) -> Result<(usize, u64)> {
        WRITING.store(1, Release);
        QUEUE.wake_all();
        QUEUE.wait(|| WORKED.load(Acquire) == 1);
        Ok((from.left(), 0))
    }
}

#[derive(Default)]
struct Worked(Link);

impl Work for Worked {
    fn link(&self) -> &Link {
        &self.0
    }

    fn run(self: Arc<Self>) {
        WORKED.store(1, Release);
        QUEUE.wake_all();
    }
}

selftest! {
    fn who_waits_for_a_record_keeps_the_worker_from_nothing() {
        run(2, |number| {
            if number == 1 {
                QUEUE.wait(|| WRITING.load(Acquire) == 1);
                return work_queue::queue(Arc::new(Worked::default()));
            }
            let root = Tmpfs::new_root(&Options::unlimited(0o755)).expect("a root");
            let place = mount::init(root).expect("a mount");
            let mount = place.mount().cloned().expect("a mount");
            let flags = OpenFlags(O_WRONLY | O_APPEND);
            let file = File::with_ops(place, Arc::new(Stuck), flags).expect("a file");
            acct::turn(Some((file, &mount))).expect("memory");
            acct::turn(None).expect("memory");
            assert_eq!(WORKED.load(Acquire), 1);
        });
    }
}

selftest! {
    fn who_sets_a_timer_waits_until_no_cpu_looks_at_it() {
        run_on_two(|number, _| {
            let timer = current().process().timers.interval(0).expect("memory");
            if number == 0 {
                timer.begin_look();
                keep_out();
                timer.end_look();
            } else {
                until(1);
                step();
                timer.set(Setting::default(), false).expect("memory");
                step();
            }
        });
    }
}

selftest! {
    fn nobody_takes_back_what_another_sets_at_once() {
        run_on_two(|number, _| {
            let mode = [Mode::NO_HUGE_PAGES, Mode::NO_WRITE_EXECUTE][number];
            let process = current().process().clone();
            for _ in 0..100_000 {
                process.set_modes(mode, mode);
                assert!(process.mode(mode));
                process.set_modes(mode, 0);
                assert!(!process.mode(mode));
            }
        });
    }
}

selftest! {
    fn who_changes_a_space_has_it_alone() {
        run_on_two(|number, space| {
            let page = AT..AT + PAGE_SIZE;
            for round in 0..20 {
                let before = 6 * round;
                if number == 0 {
                    space.with_vma(AT, |_| keep_out());
                    until(before + 3);
                    space.frames(page.clone(), Access::Read, |_, _| {
                        keep_out();
                        false
                    });
                    until(before + 6);
                } else {
                    until(before + 1);
                    step();
                    space.protect(page.clone(), Rights::READ).expect("it is there");
                    step();
                    until(before + 4);
                    step();
                    space.with_vma(AT, |_| step());
                }
            }
        });
    }

    fn other_cpus_forget_what_a_space_lost() {
        static CHILD: Mutex<Option<SpaceUser>> = Mutex::new(None);
        let page = |number| AT + number * PAGE_SIZE..AT + (number + 1) * PAGE_SIZE;
        let space = run_on_two(|number, space| {
            let page = |number| AT + number * PAGE_SIZE..AT + (number + 1) * PAGE_SIZE;
            if number == 0 {
                space.clone().activate();
            }
            for change in 0..3 {
                if number == 0 {
                    assert_eq!(user::copy_to(page(change).start, &[1]), 1);
                    step();
                    until(2 * change + 2);
                    let written = user::copy_to(page(change).start, &[2]);
                    assert_eq!(written, usize::from(change == 0));
                    continue;
                }
                until(2 * change + 1);
                match change {
                    0 => *CHILD.lock() = space.fork().ok(),
                    1 => space.protect(page(1), Rights::READ).expect("it is there"),
                    _ => space.unmap(page(2), &mut Removed::new()).expect("room"),
                }
                step();
            }
            if number == 0 {
                mm::deactivate();
            }
        });
        let (child, mut byte) = (CHILD.lock().take(), [0]);
        if space.is_some() {
            assert_eq!(child.expect("a child").read(page(0).start, &mut byte), Ok(1));
            assert_eq!(byte, [1], "the parent wrote to the child");
        }
    }

    fn a_fork_waits_for_no_signals_that_begin_after_it() {
        static SEVERAL: Several = Several::new();
        static FORKED: AtomicUsize = AtomicUsize::new(0);
        FORKED.store(0, Relaxed);
        run(3, |number| {
            if number > 0 {
                // Two forks of one process at once.
                drop(SEVERAL.fork(number as i32, &QUEUE).expect("room"));
                FORKED.fetch_add(1, AcqRel);
                return;
            }
            // At every moment a signal is due.
            let mut last = SEVERAL.begin(1);
            while FORKED.load(Acquire) < 2 {
                let next = SEVERAL.begin(1);
                sched::yield_now();
                SEVERAL.end(last, &QUEUE);
                last = next;
            }
            SEVERAL.end(last, &QUEUE);
        });
    }

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
            // A virtual runtime reached on another CPU, where the minimum is higher than here.
            const ELSEWHERE: u64 = 1 << 50;
            // On a slow host the time may be over before the thread sleeps.
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
        // Each thread waits for its turn, and passes it to the next.
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

    /// A sleep with slack ends when the timer fires for another one, if nothing else comes before.
    fn a_sleep_with_slack_ends_with_another() {
        run(1, |_| {
            let slack = time::ns_to_ticks(5_000_000_000);
            // On a slow host the other sleep may be over before this thread sleeps.
            let ends_early = (0..9).any(|round| {
                let early = soon();
                let late = clock::deadline_in(5_000_000 << round);
                let other = Timer::call(late, Arc::new(Note(late))).expect("a timer");
                assert!(sleep_with_slack(early, slack).is_ok());
                drop(other);
                assert!(time::now_ticks() >= early);
                time::now_ticks() < early + slack
            });
            assert!(ends_early);
        });
    }

    /// This includes RISC-V's harts 32 to 63, if there are so many, whose bits a 32-bit access to
    /// the bitmap would miss.
    fn every_cpu_sees_a_new_stack() {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        for index in (0..cpu::possible()).filter(|&index| cpu::get(index).is_some()) {
            NEXT.store(index, Relaxed);
            run(1, |_| {
                move_to(NEXT.load(Relaxed));
                arch::meet_unseen_stack();
            });
        }
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
