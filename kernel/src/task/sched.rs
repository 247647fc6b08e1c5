//! The scheduler: each CPU next runs the runnable thread that ran least, relative to its weight.
//!
//! A thread's virtual runtime grows as it runs, the more slowly the greater its weight (from its
//! nice value). A CPU's queue holds its runnable threads in that order. A slice ends only if
//! another thread is runnable; there is no tick. Threads of the real-time policies come before all
//! others, by priority ([`real_time`](super::real_time)).
//!
//! A sleeping thread is woken on its last CPU or on an idle one. While its last CPU still switches
//! away from it, it is woken there, so that no CPU waits for another's switch.

extern crate alloc;

use crate::task::CpuParts;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::*};

use super::count_groups::{self, Mode};
use super::queue::{self, Queue};
pub use super::queue::{
    RunQueue, admit, most_threads, runnable, set_most_threads, threads, uncount,
};
pub use super::sched_entity::{Class, Entity};
use super::tick;
use super::{Thread, current, membarrier, ptrace, real_time, timer};
use crate::arch::cpu::{self, Cpu};
use crate::arch::irq::Interrupted;
use crate::arch::{self, MAX_CPUS, irq, smp, time, work::NEED_RESCHED};
use crate::errno::{Errno, Result};
use crate::mm;
use crate::sync::{MutexGuard, might_sleep};
use wakeup::Wake;

/// States of a thread, as bits: a wake-up names the states that it ends.
pub mod state {
    /// Running or runnable.
    pub const RUNNABLE: u8 = wakeup::RUNNABLE as u8;
    /// Asleep until woken or until a signal comes.
    pub const INTERRUPTIBLE: u8 = 1;
    /// Asleep until woken.
    pub const UNINTERRUPTIBLE: u8 = 2;
    /// Asleep until woken or killed.
    pub const KILLABLE: u8 = 4;
    /// Stopped by a signal until continued or killed.
    pub const STOPPED: u8 = 8;
    /// Never runs again.
    pub const DEAD: u8 = 16;
    /// Stopped for its tracer until the tracer continues it, or killed.
    pub const TRACED: u8 = 32;
    /// Any sleep.
    pub const ASLEEP: u8 = INTERRUPTIBLE | UNINTERRUPTIBLE | KILLABLE;
}

/// Idle CPUs, as bits.
static IDLE: AtomicU64 = AtomicU64::new(0);

const _: () = assert!(MAX_CPUS <= u64::BITS as usize);

/// Announces a sleep, which a wake-up ends from now on. The caller then checks the condition, and
/// calls [`schedule`] if it does not hold.
#[inline]
pub fn prepare(state: u8) {
    current().sched.sleeper.prepare(state.into());
}

/// Withdraws the announcement.
#[inline]
pub fn cancel() {
    current().sched.sleeper.set_runnable();
}

/// Runs other threads: until a wake-up if the current thread announced a sleep, else until it is
/// the current thread's turn again.
pub fn schedule() {
    might_sleep();
    let cpu = cpu::this();
    let previous: &Thread = &current();
    previous.arch.work.fetch_and(!NEED_RESCHED, Relaxed);
    let next = RunQueue::next(cpu, previous);
    // Needed even if the thread continues, since its next slice has begun.
    timer::arm(cpu, cpu.sched().slice_end());
    let Some(next) = next else { return };
    previous.disturb_rseq();
    if previous.ptrace.flags() & ptrace::flag::DEBUGS != 0 {
        previous.leave_debug();
    }
    activate_space(cpu, &next);
    let mode = next.sched.mode();
    if mode.0 != cpu.sched().mode.load(Relaxed) {
        count_groups::apply(cpu, mode);
    }
    switched(arch::switch(next));
}

pub(super) fn set_cpu_mode(cpu: &Cpu, mode: Mode) {
    cpu.sched().mode.store(mode.0, Relaxed);
}

/// Completes the switch from `previous`; this thread continues, or begins.
#[inline(always)]
pub fn switched(previous: Arc<Thread>) {
    if previous.sched.expelled.load(Relaxed) {
        previous.sched.expelled.store(false, Relaxed);
        pass_on(cpu::this(), previous);
    }
}

fn activate_space(cpu: &Cpu, next: &Thread) {
    let wanted = next.sched.space.load(Relaxed);
    if wanted == cpu.sched().space.load(Relaxed) {
        return;
    }
    // Stored before the fence of `activate`, so that this CPU sees what the programs of that space
    // ordered before; see `barrier`.
    cpu.sched().space.store(wanted, Release);
    match next.space() {
        Some(space) => space.activate(),
        None => mm::deactivate(),
    }
}

/// Makes the current thread's address space, which has changed, the active one.
pub fn reload_space() {
    activate_space(cpu::this(), &current());
}

/// Wakes a thread from any sleep, after its condition was changed; false if it is not asleep.
#[inline]
pub fn wake(thread: Arc<Thread>) -> bool {
    wake_from(thread, state::ASLEEP)
}

/// Wakes a thread from the sleeps in `states`; false if it is in none.
pub fn wake_from(thread: Arc<Thread>, states: u8) -> bool {
    let woken = thread.sched.sleeper.wake(states.into(), lock_queue);
    resume(thread, woken)
}

/// Like [`wake`], for a thread that was taken out of a list. The thread announced its sleep before
/// it entered the list, and checks the condition afterwards.
pub(super) fn wake_listed(thread: Arc<Thread>) -> bool {
    let sleeper = &thread.sched.sleeper;
    let woken = sleeper.wake_listed(state::ASLEEP.into(), lock_queue);
    resume(thread, woken)
}

/// Calls `f` while `thread` is asleep and cannot be woken; `None` if it is awake.
pub(super) fn while_asleep<T>(thread: &Thread, f: impl FnOnce() -> T) -> Option<T> {
    let sleeper = &thread.sched.sleeper;
    loop {
        let cpu = sleeper.cpu();
        let _queue = lock_queue(cpu);
        if sleeper.cpu() != cpu {
            continue;
        }
        let awake = sleeper.state() == wakeup::RUNNABLE || sleeper.is_queued();
        return (!awake && !thread.arch.is_running()).then(f);
    }
}

type Locked = (&'static Cpu, MutexGuard<'static, Queue>);

#[inline(always)]
fn lock_queue(cpu: usize) -> Locked {
    let home = cpu::get(cpu).expect("a thread's CPU is online");
    (home, home.sched().lock())
}

/// Puts a thread into a queue if it was asleep; false if it was in none of the sleeps to be ended.
#[inline(always)]
fn resume(thread: Arc<Thread>, woken: Wake<Locked>) -> bool {
    let (home, queue) = match woken {
        Wake::NotAsleep => return false,
        Wake::Running => return true,
        Wake::Asleep(locked) => locked,
    };
    // Its CPU may not have switched away from it yet.
    let target = match thread.arch.is_running() {
        true => home,
        false => place(&thread.sched, home),
    };
    if core::ptr::eq(target, home) {
        enqueue_in(home, queue, thread);
    } else {
        thread.sched.sleeper.set_cpu(target.index());
        drop(queue);
        enqueue(target, thread);
    }
    true
}

/// The CPU for a thread that last ran on `home`: `home` if it is allowed and idle, else another
/// idle CPU.
fn place(entity: &Entity, home: &'static Cpu) -> &'static Cpu {
    let allowed = entity.allowed();
    let bit = |index: usize| 1u64 << index;
    let idle = IDLE.load(Relaxed) & allowed;
    let stays = allowed & bit(home.index()) != 0;
    if stays && (idle == 0 || idle & bit(home.index()) != 0) {
        return home;
    }
    let index = claim(&IDLE, idle).unwrap_or(match stays {
        true => home.index(),
        false => allowed.trailing_zeros() as usize,
    });
    cpu::get(index).unwrap_or(home)
}

/// Claims one of the CPUs that were seen idle, unless others have claimed them all meanwhile: two
/// threads that are woken at the same time go to different CPUs.
fn claim(idle: &AtomicU64, mut seen: u64) -> Option<usize> {
    while seen != 0 {
        let bit = seen & seen.wrapping_neg();
        if idle.fetch_and(!bit, Relaxed) & bit != 0 {
            return Some(bit.trailing_zeros() as usize);
        }
        seen &= !bit;
    }
    None
}

/// Queues a runnable thread that left `home`'s queue on the CPU where it should run.
fn pass_on(home: &'static Cpu, thread: Arc<Thread>) {
    let target = place(&thread.sched, home);
    let queue = home.sched().lock();
    thread.sched.sleeper.set_cpu(target.index());
    drop(queue);
    enqueue(target, thread);
}

/// Puts a runnable thread that is in no queue, because it is new or moves to `target`, into the
/// queue of `target`.
pub(super) fn enqueue(target: &'static Cpu, thread: Arc<Thread>) {
    enqueue_in(target, target.sched().lock(), thread);
}

#[inline(always)]
fn enqueue_in(target: &'static Cpu, mut queue: MutexGuard<Queue>, thread: Arc<Thread>) {
    let bit = 1u64 << target.index();
    if IDLE.load(Relaxed) & bit != 0 {
        IDLE.fetch_and(!bit, Relaxed);
    }
    thread.sched.sleeper.enqueue(target.index());
    let now = time::now_ticks();
    thread.sched.wait_from(now);
    let alert = target.sched().add(&mut queue, thread);
    if core::ptr::eq(target, cpu::this()) {
        resched_if_needed(target, queue, now);
    } else {
        drop(queue);
        if alert {
            smp::kick(target.index());
        }
    }
}

/// Requests a switch, if this CPU's queue has become such that it is needed.
#[inline(always)]
fn resched_if_needed(cpu: &'static Cpu, queue: MutexGuard<Queue>, now: u64) {
    let current = current();
    let preempts = cpu.sched().should_preempt(&queue, &current, now);
    drop(queue);
    if preempts {
        current.arch.work.fetch_or(NEED_RESCHED, Relaxed);
    } else {
        timer::arm(cpu, cpu.sched().begin_slice(now));
    }
}

/// Handles an interrupt that another CPU sent.
pub fn ipi() {
    membarrier::interrupt();
    if cpu::this().sched().waiting() != 0 {
        resched_if_needed(cpu::this(), cpu::this().sched().lock(), time::now_ticks());
    }
}

/// Requests a switch if the slice is over when the timer fires.
pub(super) fn check_slice(cpu: &Cpu, now: u64) {
    if now >= cpu.sched().slice_end() {
        current().arch.work.fetch_or(NEED_RESCHED, Relaxed);
    }
}

/// Starts a new thread, one slice behind those that run already: its creator continues first, and
/// creating threads gains nothing.
pub fn start(thread: Arc<Thread>) {
    let here = cpu::this();
    if !thread.sched.is_real_time() {
        thread
            .sched
            .set_vruntime(here.sched().least() + queue::slice());
    }
    thread.sched.sleeper.set_runnable();
    enqueue(place(&thread.sched, here), thread);
}

/// Lets other runnable threads run first.
pub fn yield_now() {
    let cpu = cpu::this();
    if cpu.sched().waiting() != 0 {
        cpu.sched().yield_turn(&current());
        schedule();
    }
}

/// For long loops in the kernel: takes pending interrupts, and lets another thread run if it is its
/// turn. The caller holds no spin lock.
#[inline]
pub fn cond_resched() {
    might_sleep();
    if irq::pending() {
        irq::service(Interrupted::Kernel);
    }
    if current().arch.work.load(Relaxed) & NEED_RESCHED != 0 {
        schedule();
    }
}

/// [`cond_resched`] for loops whose length a program chooses, and which end when it is killed.
///
/// # Errors
/// EINTR: the thread must die.
pub fn cond_resched_killable() -> Result<()> {
    cond_resched();
    if current().must_die() {
        Err(Errno::EINTR)
    } else {
        Ok(())
    }
}

/// [`cond_resched`] for loops that a program expects to end at any signal.
///
/// # Errors
/// EINTR: a signal is due.
pub fn cond_resched_interruptible() -> Result<()> {
    cond_resched();
    if current().signal_due() {
        Err(Errno::EINTR)
    } else {
        Ok(())
    }
}

/// Makes the context in which this CPU started its idle thread.
pub(super) fn adopt(idle: Arc<Thread>) {
    let cpu = cpu::this();
    idle.sched.sleeper.set_cpu(cpu.index());
    idle.sched.sleeper.set_runnable();
    cpu.sched().begin(idle.clone());
    arch::adopt(idle);
}

/// A thread's set of CPUs changed: makes it leave its CPU if that is no longer allowed.
pub fn leave_forbidden_cpu(thread: &Thread) {
    let entity = &thread.sched;
    let index = entity.cpu();
    if entity.allowed() & 1 << index != 0 {
        return;
    }
    let home = cpu::get(index).expect("a thread's CPU is online");
    // This also covers a thread that is just starting to run there.
    thread.arch.work.fetch_or(NEED_RESCHED, SeqCst);
    if thread.arch.is_running() {
        if !core::ptr::eq(home, cpu::this()) {
            smp::kick(index);
        }
        return;
    }
    let waiting = home.sched().remove(&mut home.sched().lock(), thread);
    if let Some(thread) = waiting {
        thread.sched.arrive(time::now_ticks());
        pass_on(home, thread);
    }
}

/// Changes a thread's scheduling class, wherever it is.
pub fn classify(thread: &Thread, class: Class) {
    let entity = &thread.sched;
    match class {
        Class::Fair(weight) if !entity.is_real_time() => entity.weight.store(weight, Relaxed),
        Class::RealTime(priority)
            if entity.is_real_time() && entity.vruntime() == real_time::place(priority) => {}
        _ => while !try_classify(thread, class) {},
    }
}

/// False if the thread is moving between two CPUs' queues, or to a CPU.
fn try_classify(thread: &Thread, class: Class) -> bool {
    let entity = &thread.sched;
    let index = entity.cpu();
    let home = cpu::get(index).expect("a thread's CPU is online");
    let mut queue = home.sched().lock();
    if entity.cpu() != index {
        return false;
    }
    let set = || entity.set_class(class, home.sched().least());
    if !entity.sleeper.is_queued() {
        set();
        return true;
    }
    if home.sched().replace(&mut queue, thread, set) {
        let resched = home.sched().is_behind(&queue);
        drop(queue);
        if resched {
            interrupt(home);
        }
        return true;
    }
    if !thread.arch.is_running() {
        return false;
    }
    set();
    queue.running = entity.vruntime();
    if home.sched().is_behind(&queue) {
        thread.arch.work.fetch_or(NEED_RESCHED, Relaxed);
        drop(queue);
        if !core::ptr::eq(home, cpu::this()) {
            smp::kick(index);
        }
    }
    true
}

/// Makes a CPU check its queue.
fn interrupt(cpu: &'static Cpu) {
    if core::ptr::eq(cpu, cpu::this()) {
        resched_if_needed(cpu, cpu.sched().lock(), time::now_ticks());
    } else {
        smp::kick(cpu.index());
    }
}

/// The loop of an idle CPU. It takes over the context in which the CPU started.
pub fn idle() -> ! {
    #[cfg(feature = "selftest")]
    crate::selftest::on_idle_stack();
    let cpu = cpu::this();
    let bit = 1u64 << cpu.index();
    loop {
        while cpu.sched().waiting() != 0 || cpu.sched().take_back() || steal(cpu) {
            tick::restart(cpu);
            schedule();
        }
        IDLE.fetch_or(bit, SeqCst);
        if cpu.sched().waiting() == 0 {
            irq::wait();
        }
        IDLE.fetch_and(!bit, Relaxed);
    }
}

/// Takes a thread that waits on another CPU.
fn steal(cpu: &'static Cpu) -> bool {
    let possible = cpu::possible();
    for step in 1..possible {
        let Some(other) = cpu::get((cpu.index() + step) % possible) else {
            continue;
        };
        if other.sched().waiting() == 0 {
            continue;
        }
        if let Some(thread) = other.sched().take(cpu.index()) {
            if !thread.sched.is_real_time() {
                let behind = thread
                    .sched
                    .vruntime()
                    .saturating_sub(other.sched().least());
                thread.sched.set_vruntime(cpu.sched().least() + behind);
            }
            cpu.sched().add(&mut cpu.sched().lock(), thread);
            return true;
        }
    }
    false
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn an_idle_cpu_is_taken_by_one() {
        let (idle, seen) = (AtomicU64::new(0b1101), 0b110);
        assert_eq!(claim(&idle, seen), Some(2));
        assert_eq!(claim(&idle, seen), None);
        assert_eq!(claim(&idle, 0b1101), Some(0));
        assert_eq!(idle.load(Relaxed), 0b1000);
    }
}
