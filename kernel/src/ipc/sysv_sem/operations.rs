//! semop(2): calls whose operations are performed together, at once or after others have changed
//! the set.

use alloc::vec::Vec;

use super::pending::{Condition, Place, Waiter};
use super::{HIGHEST, NOWAIT, Operation, Semaphore, Set, State, UNDO};
use crate::errno::{Errno, Result};
use crate::ipc::handover::Settled;
use crate::ipc::registry;
use crate::sync::MutexGuard;
use crate::task::wait_queue::WaitError;
use crate::task::{current, sched};

/// Operations that are performed together.
pub struct Call {
    operations: Vec<Operation>,
    /// The key of the adjustments to undo when the thread ends.
    undo: Option<usize>,
    pid: i32,
}

impl Call {
    /// Whether it changes any value.
    pub fn changes(&self) -> bool {
        self.operations.iter().any(|one| one.change != 0)
    }
}

/// Why a call cannot be performed now.
enum Blocked {
    /// A semaphore must change first.
    Waits(Place),
    /// The operations can never be performed, or not without waiting.
    Fails(Errno),
}

/// Why an operation cannot be performed now.
enum Stop {
    Waits,
    Fails(Errno),
}

impl Set {
    /// Performs all `operations` at once, as soon as that is possible. `deadline` is in ticks.
    ///
    /// # Errors
    /// EIDRM, ENOMEM, EINTR (even if the signal handler has SA_RESTART, which restarts other
    /// calls).
    pub fn operate(&self, operations: Vec<Operation>, deadline: Option<u64>) -> Result<()> {
        let undoes = operations.iter().any(|one| one.flags & UNDO != 0);
        let list = undoes.then(|| current().undo_list()).transpose()?;
        let mut call = Call {
            operations,
            undo: None,
            pid: current().process_id(),
        };
        let mut state = self.state.lock();
        state.check(&call)?;
        call.undo = list.as_ref().map(|list| state.undo_of(list)).transpose()?;
        match state.attempt(&call) {
            Ok(()) => self.go_on(state),
            Err(Blocked::Fails(error)) => return Err(error),
            Err(Blocked::Waits(place)) => {
                let waiter = state.pending.add(call, place)?;
                state.count(&place, 1);
                drop(state);
                return self.wait(&waiter, deadline);
            }
        }
        Ok(())
    }

    fn wait(&self, waiter: &Waiter, deadline: Option<u64>) -> Result<()> {
        let waited = waiter.handover.wait(deadline);
        // If the call was performed meanwhile, that counts.
        if let Some(outcome) = waited.is_ok().then(|| waiter.handover.take()).flatten() {
            return outcome;
        }
        let mut state = self.state.lock();
        if let Some(place) = state.pending.remove(waiter) {
            state.count(&place, u32::MAX);
        }
        drop(state);
        let ended = match waited {
            Err(WaitError::TimedOut) => Errno::EAGAIN,
            _ => Errno::EINTR,
        };
        waiter.handover.take().unwrap_or(Err(ended))
    }

    /// Performs the waiting calls that the change of the set made possible, and wakes their
    /// threads.
    pub(super) fn go_on<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        if !state.pending.is_ready() {
            return;
        }
        let mut settled = Settled::default();
        loop {
            for _ in 0..Settled::ROOM {
                state.attempt_next(&mut settled);
            }
            let is_more = state.pending.is_ready();
            if !is_more {
                state.pending.rest();
            }
            drop(state);
            settled.wake();
            if !is_more {
                return;
            }
            sched::cond_resched();
            state = self.state.lock();
        }
    }
}

impl State {
    /// Finds the call that can proceed now that semaphore `at` has changed.
    pub(super) fn look(&mut self, at: usize) {
        self.pending.look(at, &self.semaphores[at]);
    }

    /// Adds `more` to the number of calls that wait at `place`.
    fn count(&mut self, place: &Place, more: u32) {
        let count = &mut self.semaphores[place.at].waiting[usize::from(place.zero)];
        *count = count.wrapping_add(more);
    }

    /// Performs the next call in turn, if it is possible.
    fn attempt_next(&mut self, settled: &mut Settled) {
        let Some((waiter, place)) = self.pending.next(&self.semaphores) else {
            return;
        };
        self.count(&place, u32::MAX);
        let outcome = match self.attempt(&waiter.call) {
            Ok(()) => Ok(()),
            Err(Blocked::Fails(error)) => Err(error),
            Err(Blocked::Waits(now)) => match self.pending.put_back(waiter.clone(), now) {
                Ok(()) => {
                    self.count(&now, 1);
                    return self.look(place.at);
                }
                // This cannot happen: there is room.
                Err(_) => Err(Errno::ENOMEM),
            },
        };
        self.look(place.at);
        settled.add(waiter.handover.settle(outcome));
    }

    fn check(&self, call: &Call) -> Result<()> {
        if self.removed {
            return Err(Errno::EIDRM);
        }
        let mut operations = call.operations.iter();
        if operations.any(|one| one.at as usize >= self.semaphores.len()) {
            return Err(Errno::EFBIG);
        }
        let changes = call.changes();
        self.header.check(if changes {
            registry::WRITE
        } else {
            registry::READ
        })
    }

    /// Performs a call as a whole, or nothing of it.
    fn attempt(&mut self, call: &Call) -> core::result::Result<(), Blocked> {
        let operations = &call.operations;
        for (done, one) in operations.iter().enumerate() {
            let Err(why) = self.step(one, call.undo) else {
                continue;
            };
            let reached = self.semaphores[one.at as usize].value;
            operations[..done]
                .iter()
                .rev()
                .for_each(|one| self.step_back(one, call.undo));
            return Err(match why {
                Stop::Waits if one.flags & NOWAIT != 0 => Blocked::Fails(Errno::EAGAIN),
                Stop::Waits => Blocked::Waits(self.place_of(one, reached)),
                Stop::Fails(error) => Blocked::Fails(error),
            });
        }
        for one in operations {
            self.semaphores[one.at as usize].user = call.pid;
            if one.change != 0 {
                self.look(one.at as usize);
            }
        }
        self.times[0] = registry::now();
        Ok(())
    }

    /// The place at which a call waits if its operation `one` cannot be performed when its
    /// semaphore has `reached` a value through the operations before it.
    fn place_of(&self, one: &Operation, reached: i32) -> Place {
        let at = one.at as usize;
        let wanted = self.semaphores[at].value - reached - one.change as i32;
        let zero = one.change == 0;
        Place {
            at,
            zero,
            condition: match zero {
                true => Condition::Exactly(wanted),
                false => Condition::Least(wanted),
            },
        }
    }

    fn step(&mut self, one: &Operation, undo: Option<usize>) -> core::result::Result<(), Stop> {
        let at = one.at as usize;
        let Semaphore {
            value, times_set, ..
        } = self.semaphores[at];
        let new = value + one.change as i32;
        if one.change == 0 && value != 0 || new < 0 {
            return Err(Stop::Waits);
        }
        if new > HIGHEST {
            return Err(Stop::Fails(Errno::ERANGE));
        }
        if let Some(undo) = undo.filter(|_| one.flags & UNDO != 0)
            && let Some(undo) = self.undo.get_mut(&undo)
        {
            let back = undo.of(at, times_set);
            let changed = *back - one.change as i32;
            if !(-HIGHEST - 1..=HIGHEST).contains(&changed) {
                return Err(Stop::Fails(Errno::ERANGE));
            }
            *back = changed;
        }
        self.semaphores[at].value = new;
        Ok(())
    }

    fn step_back(&mut self, one: &Operation, undo: Option<usize>) {
        let at = one.at as usize;
        self.semaphores[at].value -= one.change as i32;
        if let Some(undo) = undo.filter(|_| one.flags & UNDO != 0)
            && let Some(undo) = self.undo.get_mut(&undo)
        {
            *undo.of(at, self.semaphores[at].times_set) += one.change as i32;
        }
    }
}
