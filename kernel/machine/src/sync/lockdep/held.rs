//! The locks held by each CPU and each thread.

use core::panic::Location;
use core::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

use super::graph::{self, Place};
use super::no_sleep::is_atomic;
use crate::arch::{MAX_CPUS, cpu, task};

const NONE: u16 = u16::MAX;
/// The maximum number of locks that a CPU, or a thread, holds at once.
const DEPTH: usize = 32;

/// Classes of the locks held, most recent last. Only the owner changes it.
struct Stack {
    depth: AtomicUsize,
    classes: [AtomicU16; DEPTH],
}

impl Stack {
    const fn new() -> Self {
        Stack {
            depth: AtomicUsize::new(0),
            classes: [const { AtomicU16::new(NONE) }; DEPTH],
        }
    }

    fn all(&self) -> impl DoubleEndedIterator<Item = u16> + ExactSizeIterator {
        let held = &self.classes[..self.depth.load(Relaxed)];
        held.iter().map(|class| class.load(Relaxed))
    }

    fn push(&self, class: u16) {
        let depth = self.depth.load(Relaxed);
        self.classes[depth].store(class, Relaxed);
        self.depth.store(depth + 1, Relaxed);
    }

    fn remove(&self, class: u16) {
        let Some(at) = self.all().rposition(|held| held == class) else {
            return graph::found(format_args!("a lock is released where it is not held"));
        };
        let depth = self.depth.load(Relaxed) - 1;
        for at in at..depth {
            self.classes[at].store(self.classes[at + 1].load(Relaxed), Relaxed);
        }
        self.depth.store(depth, Relaxed);
    }
}

/// The spin locks held by each CPU.
static SPINNING: [Stack; MAX_CPUS] = [const { Stack::new() }; MAX_CPUS];

/// The sleeping locks held by a thread; a field of the thread.
pub struct Sleeping(Stack);

impl Sleeping {
    /// No locks.
    pub const fn new() -> Self {
        Sleeping(Stack::new())
    }
}

/// The class of a lock: the source line that created it.
pub struct Class {
    place: &'static Location<'static>,
    /// The number of the class, after the lock was first taken.
    number: AtomicU16,
}

impl Class {
    /// The class of locks that the caller's line creates.
    #[track_caller]
    pub const fn of_caller() -> Self {
        Class {
            place: Location::caller(),
            number: AtomicU16::new(NONE),
        }
    }

    pub(super) fn number(&self) -> u16 {
        match self.number.load(Relaxed) {
            NONE => {
                let number = graph::class_of(self.place);
                self.number.store(number, Relaxed);
                number
            }
            number => number,
        }
    }

    /// Called before a spin lock of this class is taken; checks the order after all held locks.
    pub fn spin(&self) -> Held {
        self.check();
        self.tried()
    }

    /// Called after a spin lock of this class was taken without spinning, so that its order is not
    /// checked.
    pub fn tried(&self) -> Held {
        let class = self.number();
        SPINNING[cpu::this().index()].push(class);
        Held {
            class,
            sleeping: false,
        }
    }

    /// Called before a sleeping lock of this class is taken; checks the order after all held locks.
    pub fn sleep(&self) -> Held {
        might_sleep();
        self.check();
        self.slept()
    }

    /// Called after a sleeping lock of this class was taken without waiting.
    pub fn slept(&self) -> Held {
        let class = self.number();
        if let Some(thread) = task::try_state() {
            thread.held.0.push(class);
        }
        Held {
            class,
            sleeping: true,
        }
    }

    fn check(&self) {
        if !graph::is_on() {
            return;
        }
        let class = self.number();
        let thread = task::try_state();
        let sleeping = thread.iter().flat_map(|thread| thread.held.0.all());
        for held in sleeping.chain(SPINNING[cpu::this().index()].all()) {
            if let Some(between) = graph::order(held, class) {
                graph::found(format_args!(
                    "lock order: {} is taken while {} is held, which was taken after it by way of {}",
                    Place(class),
                    Place(held),
                    Place(between)
                ));
            }
        }
    }
}

/// Holds a lock until dropped.
pub struct Held {
    class: u16,
    sleeping: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.sleeping {
            SPINNING[cpu::this().index()].remove(self.class);
        } else if let Some(thread) = task::try_state() {
            thread.held.0.remove(self.class);
        }
    }
}

/// The reason why this CPU must not sleep.
#[derive(PartialEq, Debug)]
pub(super) enum Atomic {
    /// It holds a spin lock of this class.
    Spins(u16),
    /// Per-CPU data is borrowed, or the CPU handles an interrupt.
    Borrows,
}

pub(super) fn why_atomic() -> Option<Atomic> {
    let spinning = &SPINNING[cpu::this().index()];
    let spins = spinning.all().next_back().map(Atomic::Spins);
    spins.or(is_atomic().then_some(Atomic::Borrows))
}

/// Panics if the thread must not give up its CPU: under a spin lock, in an interrupt, or while it
/// borrows per-CPU data.
pub fn might_sleep() {
    match why_atomic().filter(|_| graph::is_on()) {
        None => {}
        Some(Atomic::Spins(class)) => graph::found(format_args!(
            "sleeps under the spin lock of {}",
            Place(class)
        )),
        Some(Atomic::Borrows) => graph::found(format_args!(
            "sleeps in an interrupt, or while it borrows what is its CPU's"
        )),
    }
}
