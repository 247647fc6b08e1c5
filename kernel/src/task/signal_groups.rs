//! Signals to several processes, and how they reach a process that is forked meanwhile.
//!
//! A sender looks up the processes, then signals each without the tree's lock. A child that enters
//! the tree in between would miss the signal. So each process that is forking collects the signals
//! whose sending has begun, and the child starts with those.

extern crate alloc;

use alloc::collections::BTreeMap;
use linux_raw_sys::general::SIGCONT;

use super::signal::{STOPS, Set};
use super::wait_queue::WaitQueue;
use crate::errno::Result;
use crate::mm::heap::check_room;
use crate::sync::Mutex;

/// Signals to several processes, one of which is this process.
pub struct Several(Mutex<Forks>);

struct Forks {
    /// The number of signals begun in each of two phases that have not reached the process yet: a
    /// fork waits for those of one phase, while more signals begin in the other.
    due: [u32; 2],
    /// The number of times that the last signal of each phase reached the process.
    ends: [u64; 2],
    /// The phase in which signals begin.
    phase: usize,
    /// A thread that forks, usually the only one, with the signals begun meanwhile (Linux's
    /// `signal_struct::multiprocess`).
    first: Option<(i32, u64)>,
    others: BTreeMap<i32, u64>,
}

impl Forks {
    fn add(&mut self, tid: i32) {
        match self.first {
            None => self.first = Some((tid, 0)),
            Some(_) => _ = self.others.insert(tid, 0),
        }
    }

    fn get(&self, tid: i32) -> u64 {
        match self.first {
            Some((first, set)) if first == tid => set,
            _ => self.others.get(&tid).copied().unwrap_or(0),
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut u64> {
        let first = self.first.iter_mut().map(|(_, set)| set);
        first.chain(self.others.values_mut())
    }

    fn remove(&mut self, tid: i32) {
        match self.first {
            Some((first, _)) if first == tid => self.first = None,
            _ => _ = self.others.remove(&tid),
        }
    }
}

impl Several {
    /// No signals or forks.
    pub const fn new() -> Self {
        Several(Mutex::new(Forks {
            due: [0; 2],
            ends: [0; 2],
            phase: 0,
            first: None,
            others: BTreeMap::new(),
        }))
    }

    /// Begins a signal to several processes; returns its phase. The tree is locked.
    pub(super) fn begin(&self, number: u32) -> usize {
        let mut forks = self.0.lock();
        let phase = forks.phase;
        forks.due[phase] += 1;
        let bit = Set::bit(number);
        for set in forks.each() {
            if number == SIGCONT {
                *set &= !STOPS;
            } else if bit & STOPS != 0 {
                *set &= !Set::bit(SIGCONT);
            }
            *set |= bit;
        }
        phase
    }

    /// Notes that a signal of this phase has reached the process; notifies its `changed`.
    pub(super) fn end(&self, phase: usize, changed: &WaitQueue) {
        let mut forks = self.0.lock();
        forks.due[phase] -= 1;
        let last = forks.due[phase] == 0;
        forks.ends[phase] += u64::from(last);
        drop(forks);
        if last {
            changed.wake_all();
        }
    }

    /// Begins a fork by thread `tid`. When this returns, signals begun before have reached the
    /// process, or the thread must die.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn fork(&self, tid: i32, changed: &WaitQueue) -> Result<Fork<'_>> {
        {
            let _room = check_room()?;
            self.0.lock().add(tid);
        }
        let fork = Fork { several: self, tid };
        loop {
            let mut forks = self.0.lock();
            let (present, other) = (forks.phase, 1 - forks.phase);
            // Signals begun before this fork may be due in both phases: in `other`, for which
            // another thread then waits, and in `present`.
            let free = forks.due[other] == 0;
            let done = free && forks.due[present] == 0;
            if free && !done {
                forks.phase = other;
            }
            let old = if free { present } else { other };
            // Another fork may make it the present phase again before this thread checks.
            let before = forks.ends[old];
            drop(forks);
            let ended = || self.0.lock().ends[old] != before;
            let waited = done || changed.wait_killable(ended).is_ok();
            if free || !waited {
                return Ok(fork);
            }
        }
    }
}

/// A fork in progress, as long as it lives.
pub struct Fork<'a> {
    several: &'a Several,
    tid: i32,
}

impl Fork<'_> {
    /// The signals begun since the fork began. The tree is locked.
    pub(super) fn signals(&self) -> u64 {
        self.several.0.lock().get(self.tid)
    }
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        self.several.0.lock().remove(self.tid);
    }
}
