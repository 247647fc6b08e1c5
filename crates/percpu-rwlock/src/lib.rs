//! The handshake of a lock whose readers only write a cache line of their own CPU.
//!
//! A reader stores that it reads, and then loads whether a writer writes. A writer stores that it
//! writes, and then loads whether each CPU reads. Both execute a full fence between the two, so at
//! least one sees the other: the writer waits for the reader, or the reader withdraws and waits.
//! Readers on different CPUs share no cache line that one of them writes.
//!
//! The caller provides a lock by which writers exclude each other, and the value that the lock
//! protects. What it does between [`Handshake::read`] and [`Slot::release`] is ordered before or
//! after what a writer does between [`Handshake::exclude`] and [`Handshake::admit`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod cpu_set;

use alloc::boxed::Box;

use atomics::{AtomicBool, AtomicU8, AtomicUsize, Ordering::*, const_fn, fence, spin_loop};
use cpu_set::CpuSet;

/// The CPU is not reading.
const IDLE: u8 = 0;
/// The CPU is reading.
const READS: u8 = 1;
/// The CPU has never read, so that no writer looks at its line.
const NEW: u8 = 2;

/// A CPU's own cache line in a lock, with other data of the CPU.
#[derive(Debug)]
#[repr(align(128))]
pub struct Slot<T> {
    /// One of the above. A single test at the start of a read distinguishes first and nested reads
    /// from all others.
    state: AtomicU8,
    /// Other data in the slot.
    pub data: T,
}

impl<T> Slot<T> {
    const_fn! {
        /// The slot of a CPU that has never read.
        pub fn new(data: T) -> Self {
            Slot {
                state: AtomicU8::new(NEW),
                data,
            }
        }
    }

    /// Ends the CPU's read.
    #[inline(always)]
    pub fn release(&self) {
        self.state.store(IDLE, Release);
    }
}

/// The state shared between readers and writers, for at most `WORDS` times 64 CPUs.
#[derive(Debug)]
pub struct Handshake<T, const WORDS: usize> {
    writing: AtomicBool,
    /// The number of CPUs that wait to read.
    waiting: AtomicUsize,
    /// The CPUs that have ever read: writers only wait for their slots.
    readers: CpuSet<WORDS>,
    slots: Box<[Slot<T>]>,
}

impl<T, const WORDS: usize> Handshake<T, WORDS> {
    /// A handshake with a slot for each CPU, by index.
    pub fn new(slots: Box<[Slot<T>]>) -> Self {
        Handshake {
            writing: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            readers: CpuSet::new(),
            slots,
        }
    }

    /// The slots of all CPUs.
    pub fn slots(&self) -> &[Slot<T>] {
        &self.slots
    }

    /// Starts a read on CPU `cpu`, which calls this, until it [releases](Slot::release) its slot.
    /// If it must wait for a writer, it calls `blocked` first: the writer may be this CPU itself.
    ///
    /// # Panics
    /// If it is reading already: the first release would let writers in during the other read.
    #[inline(always)]
    pub fn read(&self, cpu: usize, blocked: impl FnOnce()) -> &Slot<T> {
        let slot = self.slot(cpu);
        if !self.enter(slot) {
            blocked();
            self.wait(slot);
        }
        slot
    }

    /// Like [`read`](Self::read), but `None` if another CPU writes.
    ///
    /// # Panics
    /// As for `read`.
    #[inline]
    pub fn try_read(&self, cpu: usize) -> Option<&Slot<T>> {
        Some(self.slot(cpu)).filter(|slot| self.enter(slot))
    }

    #[inline(always)]
    fn slot(&self, cpu: usize) -> &Slot<T> {
        let slot = &self.slots[cpu];
        if slot.state.load(Relaxed) != IDLE {
            self.register_reader(cpu);
        }
        slot
    }

    #[cold]
    #[inline(never)]
    fn register_reader(&self, cpu: usize) {
        let state = &self.slots[cpu].state;
        assert!(state.load(Relaxed) == NEW, "a CPU reads twice");
        self.readers.insert(cpu);
        state.store(IDLE, Relaxed);
    }

    #[inline(always)]
    fn enter(&self, slot: &Slot<T>) -> bool {
        slot.state.store(READS, Relaxed);
        // Pairs with the writer's: either it sees the state and the set, or this sees `writing`.
        fence(SeqCst);
        if self.writing.load(Acquire) {
            slot.release();
            return false;
        }
        true
    }

    /// Enters when no CPU writes any more.
    #[cold]
    #[inline(never)]
    fn wait(&self, slot: &Slot<T>) {
        self.waiting.fetch_add(1, Relaxed);
        loop {
            while self.writing.load(Relaxed) {
                spin_loop();
            }
            if self.enter(slot) {
                self.waiting.fetch_sub(1, Relaxed);
                return;
            }
        }
    }

    /// Called between two writes of a series, so that readers are not kept out until its end: looks
    /// at most `times` times whether CPUs still wait to read, and returns whether none does.
    pub fn give_way(&self, times: usize) -> bool {
        (0..times).any(|_| {
            spin_loop();
            self.waiting.load(Relaxed) == 0
        })
    }

    /// Keeps readers out, and waits for the readers on all CPUs. CPU `own` calls this, holding the
    /// writers' lock.
    ///
    /// # Panics
    /// If `own` is reading: it would wait for itself.
    #[inline]
    pub fn exclude(&self, own: usize) {
        self.writing.store(true, Relaxed);
        fence(SeqCst);
        let own_state = self.slots[own].state.load(Relaxed);
        assert!(own_state != READS, "a CPU writes while it reads");
        self.readers.each_other(own, |cpu| {
            while self.slots[cpu].state.load(Acquire) == READS {
                spin_loop();
            }
        });
    }

    /// Whether a CPU is reading or writing.
    pub fn is_held(&self) -> bool {
        let reads = |slot: &Slot<T>| slot.state.load(Acquire) == READS;
        self.writing.load(Acquire) || self.slots.iter().any(reads)
    }

    /// Lets readers in again. The caller holds the writers' lock.
    #[inline]
    pub fn admit(&self) {
        self.writing.store(false, Release);
    }
}
