//! An SGI that one virtual CPU sends to another is taken exactly once, whatever the receiver does
//! meanwhile: under every interleaving with `RUSTFLAGS="--cfg loom"`.
#![cfg(loom)]

use std::sync::Arc;

use loom::sync::atomic::Ordering::{Relaxed, SeqCst};
use loom::sync::atomic::fence;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use vgic::{Presence, Private};
use wakeup::Waiters;

const SGI: u8 = 3;
const OTHER: u8 = 4;
const CPU: usize = 1;

/// The virtual CPU that SGIs are sent to, and its CPU.
struct Target {
    private: Private,
    presence: Presence,
    /// An IPI to its CPU is pending.
    kicked: Mutex<bool>,
    ipi: Condvar,
    /// As `WaitQueue`: whether it sleeps there.
    sleeps: Mutex<bool>,
    waiters: Waiters,
    woken: Condvar,
}

impl Target {
    fn new() -> Self {
        Target {
            private: Private::new(),
            presence: Presence::new(),
            kicked: Mutex::new(false),
            ipi: Condvar::new(),
            sleeps: Mutex::new(false),
            waiters: Waiters::new(),
            woken: Condvar::new(),
        }
    }

    /// As `vgic::send` and `Vcpu::notify`.
    fn send(&self) {
        self.send_number(SGI);
    }

    fn send_other(&self) {
        self.send_number(OTHER);
    }

    fn send_number(&self, sgi: u8) {
        if self.private.send(sgi, true) {
            self.notify();
        }
    }

    fn notify(&self) {
        if let Some(cpu) = self.presence.cpu() {
            assert_eq!(cpu, CPU);
            *self.kicked.lock().unwrap() = true;
            self.ipi.notify_one();
        } else if self.waiters.after_change() != 0 {
            *self.sleeps.lock().unwrap() = false;
            self.waiters.set(0);
            self.woken.notify_one();
        }
    }

    /// How many SGIs are pending, which the guest takes; of two senders' it may be one.
    fn take(&self) -> u32 {
        self.private.accept();
        let latch = &self.private.bank.latch;
        let pending = latch.load(Relaxed);
        latch.fetch_and(!pending, Relaxed);
        pending.count_ones()
    }

    /// Enters the guest, which runs until the CPU is interrupted.
    fn run(&self) -> u32 {
        self.presence.enter(CPU);
        let taken = self.take();
        if taken != 0 {
            return taken;
        }
        loop {
            let mut kicked = self.kicked.lock().unwrap();
            while !*kicked {
                kicked = self.ipi.wait(kicked).unwrap();
            }
            *kicked = false;
            drop(kicked);
            let taken = self.take();
            if taken != 0 {
                return taken;
            }
        }
    }

    /// Enters the guest, which waits for an interrupt at once, if there is none.
    fn run_idle(&self) -> u32 {
        loop {
            self.presence.enter(CPU);
            let taken = self.take();
            self.presence.leave();
            if taken != 0 {
                return taken;
            }
            self.sleep();
        }
    }

    /// As `Vcpu::wait`.
    fn sleep(&self) {
        *self.sleeps.lock().unwrap() = true;
        self.waiters.set(1);
        self.waiters.entered();
        if self.private.has_arrived() {
            return;
        }
        let mut sleeps = self.sleeps.lock().unwrap();
        while *sleeps {
            sleeps = self.woken.wait(sleeps).unwrap();
        }
    }
}

/// The target runs beside others; how many SGIs it may have taken.
fn beside<const N: usize>(run: fn(&Target) -> u32, others: [fn(&Target); N]) {
    let mut few = loom::model::Builder::new();
    few.preemption_bound = Some(3);
    few.check(move || {
        let target = Arc::new(Target::new());
        let others = others.map(|other| {
            let target = target.clone();
            thread::spawn(move || other(&target))
        });
        let mut taken = run(&target);
        others.into_iter().for_each(|other| other.join().unwrap());
        taken += target.take();
        assert!((1..=N as u32).contains(&taken), "{taken} of {N} SGIs");
    });
}

#[test]
fn to_one_that_runs() {
    beside(Target::run, [Target::send]);
}

#[test]
fn to_one_that_waits() {
    beside(Target::run_idle, [Target::send]);
}

/// It leaves its guest for another reason, and comes back.
#[test]
fn to_one_that_leaves() {
    let leave_and = |target: &Target| {
        target.presence.enter(CPU);
        let taken = target.take();
        target.presence.leave();
        if taken != 0 { taken } else { target.run() }
    };
    beside(leave_and, [Target::send]);
}

#[test]
fn two_at_once() {
    beside(Target::run, [Target::send, Target::send]);
    beside(Target::run_idle, [Target::send, Target::send]);
}

/// Different ones: none stands for the other.
#[test]
fn two_numbers_at_once() {
    fn both(target: &Target) -> u32 {
        let first = target.run();
        if first == 2 { 2 } else { first + target.run() }
    }
    beside(both, [Target::send, Target::send_other]);
}

/// It is sent while another virtual CPU lets it through, and asks for a look.
#[test]
fn one_that_is_enabled_meanwhile() {
    let enable_and_run = |target: &Target| {
        target.private.bank.enabled.fetch_and(!(1 << SGI), Relaxed);
        target.presence.enter(CPU);
        target.private.bank.enabled.fetch_or(1 << SGI, SeqCst);
        fence(SeqCst);
        let taken = target.take();
        if taken != 0 { taken } else { target.run() }
    };
    beside(enable_and_run, [Target::send]);
}
