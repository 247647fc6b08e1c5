//! Who runs next: on each CPU the runnable thread that got least, by its weight.
//!
//! A thread's virtual runtime grows as it runs, the slower the greater its weight (from its nice value). A CPU's queue holds
//! its runnable threads in that order. A slice ends only where somebody else is runnable; there is no tick.
//!
//! A thread that sleeps is woken onto its last CPU, or an idle one. While its last CPU still switches away from it, it
//! stays there: so no CPU waits for another's switch.

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence};

use super::counting::{self, Mode};
use super::queue::{self, Queue};
pub use super::queue::{RunQueue, admit, dismiss, runnable, threads};
use super::tick::{self, Interrupted};
use super::{Thread, barrier, current, ptrace, timer};
use crate::arch::cpu::{self, Cpu};
use crate::arch::{self, MAX_CPUS, irq, smp, time, work::NEED_RESCHED};
use crate::mm::space;
use crate::sync::{MutexGuard, assert_none_held};

/// What a thread does, as bits: a wake-up names those that it ends.
pub mod state {
    /// Runs, or could.
    pub const RUNNABLE: u8 = 0;
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
    /// Stopped for its tracer until that lets it go on, or killed.
    pub const TRACED: u8 = 32;
    /// Any sleep.
    pub const ASLEEP: u8 = INTERRUPTIBLE | UNINTERRUPTIBLE | KILLABLE;
}

/// The weight of nice 0.
const NORMAL: u32 = 1024;

/// Weights of nice -20 to 19: each step is a quarter more or less (Linux's `sched_prio_to_weight`).
const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

fn weight_of(nice: i32) -> u32 {
    WEIGHTS[(nice.clamp(-20, 19) + 20) as usize]
}

/// What the scheduler keeps of a thread.
pub struct Entity {
    /// Bits of [`state`]; a word, which costs less to exchange than a byte.
    state: AtomicU32,
    /// Whether the thread is in a queue or runs; changed under its CPU's lock.
    queued: AtomicBool,
    /// The CPU that it runs on, or did last.
    cpu: AtomicU32,
    weight: AtomicU32,
    /// Ticks run, weighted.
    vruntime: AtomicU64,
    /// Ticks run.
    runtime: AtomicU64,
    /// How often it was found in its program, and how often in the kernel.
    samples: [AtomicU64; 2],
    /// CPUs that it may run on.
    allowed: AtomicU64,
    /// Address of its address space, 0 for none.
    space: AtomicUsize,
    /// A `counting::Mode`.
    mode: AtomicU32,
    /// Whether it left its CPU because it may not run there any more.
    expelled: AtomicBool,
    /// How often it gave the CPU up, and how often it was taken away.
    switches: [AtomicU64; 2],
}

impl Entity {
    /// Of a thread that does not run yet.
    pub fn new(allowed: u64, nice: i32) -> Self {
        let weight = weight_of(nice);
        Entity {
            state: AtomicU32::new(state::UNINTERRUPTIBLE.into()),
            queued: AtomicBool::new(false),
            cpu: AtomicU32::new(0),
            weight: AtomicU32::new(weight),
            vruntime: AtomicU64::new(0),
            runtime: AtomicU64::new(0),
            samples: [AtomicU64::new(0), AtomicU64::new(0)],
            allowed: AtomicU64::new(allowed),
            space: AtomicUsize::new(0),
            mode: AtomicU32::new(0),
            expelled: AtomicBool::new(false),
            switches: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// What the thread does: bits of [`state`].
    #[inline]
    pub fn state(&self) -> u8 {
        self.state.load(Relaxed) as u8
    }

    /// Ticks of CPU time used, up to its last switch.
    pub fn runtime(&self) -> u64 {
        self.runtime.load(Relaxed)
    }

    /// How often it was found in its program, and how often in the kernel ([`tick`]).
    pub fn samples(&self) -> [u64; 2] {
        self.samples.each_ref().map(|count| count.load(Relaxed))
    }

    /// It was found in its program, or in the kernel.
    pub(super) fn add_samples(&self, from: Interrupted, times: u64) {
        let count = &self.samples[from as usize];
        count.store(count.load(Relaxed) + times, Relaxed);
    }

    /// Weight among its CPU's threads.
    pub fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Sets the weight by a nice value (-20 to 19).
    pub fn set_nice(&self, nice: i32) {
        self.weight.store(weight_of(nice), Relaxed);
    }

    /// CPUs that the thread may run on, as bits.
    pub fn allowed(&self) -> u64 {
        self.allowed.load(Relaxed)
    }

    /// The CPU that the thread runs on, or did last.
    pub fn cpu(&self) -> usize {
        self.cpu.load(Relaxed) as usize
    }

    /// How often the thread slept, and how often it was preempted.
    pub fn switches(&self) -> (u64, u64) {
        (
            self.switches[0].load(Relaxed),
            self.switches[1].load(Relaxed),
        )
    }

    pub(super) fn mode(&self) -> Mode {
        Mode(self.mode.load(Relaxed))
    }

    pub(super) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode.0, Relaxed);
    }

    pub(super) fn set_space(&self, address: usize) {
        self.space.store(address, Relaxed);
    }

    /// Sets the CPUs that the thread may run on, as bits. Takes effect when it is next chosen or woken.
    pub fn allow(&self, cpus: u64) {
        self.allowed.store(cpus, Relaxed);
    }

    pub(super) fn vruntime(&self) -> u64 {
        self.vruntime.load(Relaxed)
    }

    pub(super) fn set_vruntime(&self, ticks: u64) {
        self.vruntime.store(ticks, Relaxed);
    }

    pub(super) fn charge(&self, ticks: u64) {
        self.runtime.store(self.runtime() + ticks, Relaxed);
        let weight = self.weight();
        let weighted = if weight == NORMAL {
            ticks
        } else {
            ticks * NORMAL as u64 / weight as u64
        };
        self.set_vruntime(self.vruntime() + weighted);
    }

    pub(super) fn unqueue(&self) {
        self.queued.store(false, Relaxed);
    }

    pub(super) fn expel(&self) {
        self.unqueue();
        self.expelled.store(true, Relaxed);
    }

    pub(super) fn count_switch(&self, preempted: bool) {
        let count = &self.switches[preempted as usize];
        count.store(count.load(Relaxed) + 1, Relaxed);
    }
}

/// CPUs that have nothing to do, as bits.
static IDLE: AtomicU64 = AtomicU64::new(0);

const _: () = assert!(MAX_CPUS <= u64::BITS as usize);

/// Announces a sleep: from now on a wake-up counts. Then look at the condition, and [`schedule`] if it does not hold.
#[inline]
pub fn prepare(state: u8) {
    current().sched.state.store(state.into(), Relaxed);
    fence(SeqCst);
}

/// Takes the announcement back.
#[inline]
pub fn cancel() {
    set_runnable(current());
}

/// Runs others: until woken if the current thread announced a sleep, else until its turn comes again.
pub fn schedule() {
    assert_none_held();
    let cpu = cpu::this();
    let previous = current();
    previous.arch.work.fetch_and(!NEED_RESCHED, Relaxed);
    let next = cpu.sched.next(previous, time::now_ticks());
    // Also where the thread goes on: its next slice has begun.
    timer::arm(cpu, cpu.sched.slice_end());
    let Some(next) = next else { return };
    previous.disturb_rseq();
    if previous.ptrace.flags() & ptrace::flag::STEP != 0 {
        previous.leave_step();
    }
    activate_space(cpu, &next);
    let mode = next.sched.mode();
    if mode.0 != cpu.sched.mode.load(Relaxed) {
        counting::apply(cpu, mode);
    }
    switched(arch::switch(next));
}

pub(super) fn set_cpu_mode(cpu: &Cpu, mode: Mode) {
    cpu.sched.mode.store(mode.0, Relaxed);
}

/// The switch from `previous` is complete; this thread goes on, or begins.
pub fn switched(previous: Arc<Thread>) {
    if previous.sched.expelled.load(Relaxed) {
        previous.sched.expelled.store(false, Relaxed);
        enqueue(place(&previous.sched, cpu::this()), previous);
    }
}

fn activate_space(cpu: &Cpu, next: &Thread) {
    let wanted = next.sched.space.load(Relaxed);
    if wanted == cpu.sched.space.load(Relaxed) {
        return;
    }
    // Before the fence of `activate`: what the programs there ordered before is seen by this one, see `barrier`.
    cpu.sched.space.store(wanted, Release);
    match next.space() {
        Some(space) => space.activate(),
        None => space::deactivate(),
    }
}

/// Makes the current thread's address space, which has changed, the active one.
pub fn reload_space() {
    activate_space(cpu::this(), current());
}

/// Wakes a thread from any sleep; false if it is not asleep.
#[inline]
pub fn wake(thread: Arc<Thread>) -> bool {
    wake_from(thread, state::ASLEEP)
}

/// Wakes a thread from the sleeps in `states`; false if it is in none.
pub fn wake_from(thread: Arc<Thread>, states: u8) -> bool {
    let entity = &thread.sched;
    loop {
        let found = entity.state.load(Relaxed);
        if found & u32::from(states) == 0 {
            return false;
        }
        let index = entity.cpu();
        let home = cpu::get(index).expect("a thread's CPU is online");
        let queue = home.sched.lock();
        if entity.cpu() != index {
            continue;
        }
        if entity
            .state
            .compare_exchange(found, state::RUNNABLE.into(), AcqRel, Relaxed)
            .is_err()
        {
            continue;
        }
        // Else it announced its sleep only, and goes on.
        if !entity.queued.load(Relaxed) {
            // Its CPU may not have left it yet.
            let target = match thread.arch.is_running() {
                true => home,
                false => place(entity, home),
            };
            if core::ptr::eq(target, home) {
                enqueue_in(home, queue, thread);
            } else {
                drop(queue);
                enqueue(target, thread);
            }
        }
        return true;
    }
}

/// Where a thread that last ran on `home` shall run: there if it may and the CPU idles, else on an idle CPU.
fn place(entity: &Entity, home: &'static Cpu) -> &'static Cpu {
    let allowed = entity.allowed();
    let bit = |index: usize| 1u64 << index;
    let idle = IDLE.load(Relaxed) & allowed;
    let stays = allowed & bit(home.index()) != 0;
    if stays && (idle == 0 || idle & bit(home.index()) != 0) {
        return home;
    }
    let candidates = if idle != 0 { idle } else { allowed };
    let index = candidates.trailing_zeros() as usize;
    cpu::get(index).unwrap_or(home)
}

/// Puts a runnable thread that no queue holds into `target`'s.
fn enqueue(target: &'static Cpu, thread: Arc<Thread>) {
    enqueue_in(target, target.sched.lock(), thread);
}

fn enqueue_in(target: &'static Cpu, mut queue: MutexGuard<Queue>, thread: Arc<Thread>) {
    let bit = 1u64 << target.index();
    if IDLE.load(Relaxed) & bit != 0 {
        IDLE.fetch_and(!bit, Relaxed);
    }
    thread.sched.cpu.store(target.index() as u32, Relaxed);
    thread.sched.queued.store(true, Relaxed);
    let alert = target.sched.add(&mut queue, thread);
    if core::ptr::eq(target, cpu::this()) {
        react(target, queue);
    } else {
        drop(queue);
        if alert {
            smp::kick(target.index());
        }
    }
}

/// Looks at this CPU's queue after something was added.
fn react(cpu: &'static Cpu, queue: MutexGuard<Queue>) {
    let now = time::now_ticks();
    let preempts = cpu.sched.should_preempt(&queue, current(), now);
    drop(queue);
    if preempts {
        current().arch.work.fetch_or(NEED_RESCHED, Relaxed);
    } else {
        timer::arm(cpu, cpu.sched.begin_slice(now));
    }
}

/// Another CPU has something for this one.
pub fn ipi() {
    barrier::interrupt();
    if cpu::this().sched.waiting() != 0 {
        react(cpu::this(), cpu::this().sched.lock());
    }
}

/// The clock struck: is the slice over?
pub(super) fn check_slice(cpu: &Cpu, now: u64) {
    if now >= cpu.sched.slice_end() {
        current().arch.work.fetch_or(NEED_RESCHED, Relaxed);
    }
}

/// Starts a new thread, behind those that run already by a slice: its maker goes on first, and making threads gains nothing.
pub fn start(thread: Arc<Thread>) {
    let here = cpu::this();
    thread
        .sched
        .set_vruntime(here.sched.least() + queue::slice());
    set_runnable(&thread);
    enqueue(place(&thread.sched, here), thread);
}

/// Lets the others that are runnable go first.
pub fn yield_now() {
    let cpu = cpu::this();
    if cpu.sched.waiting() != 0 {
        cpu.sched.go_last(current());
        schedule();
    }
}

/// For long loops in the kernel: lets interrupts in, and others run whose turn it is. No spin lock is held.
#[inline]
pub fn cond_resched() {
    if irq::pending() {
        irq::service(Interrupted::Kernel);
    }
    if current().arch.work.load(Relaxed) & NEED_RESCHED != 0 {
        schedule();
    }
}

/// Makes the context that this CPU started in its idle thread.
pub(super) fn adopt(idle: Arc<Thread>) {
    let cpu = cpu::this();
    idle.sched.cpu.store(cpu.index() as u32, Relaxed);
    set_runnable(&idle);
    cpu.sched.begin(idle.clone());
    arch::adopt(idle);
}

fn set_runnable(thread: &Thread) {
    thread.sched.state.store(state::RUNNABLE.into(), Relaxed);
}

/// A thread's set of CPUs changed: if it runs on another CPU, that one looks at it.
pub fn settle(thread: &Thread) {
    let here = cpu::this();
    if thread.arch.is_running() && thread.sched.allowed() & 1 << thread.sched.cpu() == 0 {
        thread.arch.work.fetch_or(NEED_RESCHED, Relaxed);
        if thread.sched.cpu() != here.index() {
            smp::kick(thread.sched.cpu());
        }
    }
}

/// What a CPU does when there is nothing to do. Takes over the context that it started in.
pub fn idle() -> ! {
    #[cfg(feature = "selftest")]
    crate::selftest::on_idle_stack();
    let cpu = cpu::this();
    let bit = 1u64 << cpu.index();
    loop {
        while cpu.sched.waiting() != 0 || steal(cpu) {
            tick::go_on(cpu);
            schedule();
        }
        IDLE.fetch_or(bit, SeqCst);
        if cpu.sched.waiting() == 0 {
            irq::wait();
        }
        IDLE.fetch_and(!bit, Relaxed);
    }
}

/// Takes a thread that waits on another CPU.
fn steal(cpu: &'static Cpu) -> bool {
    let count = cpu::count();
    for step in 1..count {
        let Some(other) = cpu::get((cpu.index() + step) % count) else {
            continue;
        };
        if other.sched.waiting() == 0 {
            continue;
        }
        if let Some(thread) = other.sched.take(1 << cpu.index()) {
            let behind = thread.sched.vruntime().saturating_sub(other.sched.least());
            thread
                .sched
                .vruntime
                .store(cpu.sched.least() + behind, Relaxed);
            thread.sched.cpu.store(cpu.index() as u32, Relaxed);
            cpu.sched.add(&mut cpu.sched.lock(), thread);
            return true;
        }
    }
    false
}
