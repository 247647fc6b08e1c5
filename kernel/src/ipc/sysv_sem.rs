//! System V semaphores: sets whose members change together or not at all, and the adjustments
//! (SEM_UNDO) at a process's end.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use super::registry::{self, Header, Object, Owner, Registry};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_arc_cyclic;
use crate::sync::Mutex;
use crate::task::user::Charge;
use crate::task::wait_queue::{WaitError, WaitQueue};
use crate::task::{current, sched};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The most sets (SEMMNI).
const MOST: usize = 32000;
/// The most semaphores in a set (SEMMSL).
static LARGEST: AtomicI32 = AtomicI32::new(32000);
/// The most semaphores (SEMMNS).
static MOST_SEMAPHORES: AtomicI32 = AtomicI32::new(32000 * MOST as i32);
/// The most operations of a call (SEMOPM).
pub static MOST_OPERATIONS: AtomicI32 = AtomicI32::new(500);
/// The semaphores that there are.
static SEMAPHORES: AtomicI32 = AtomicI32::new(0);
/// The highest value (SEMVMX).
pub const HIGHEST: i32 = 32767;
/// IPC_NOWAIT and SEM_UNDO (include/uapi/linux/{ipc,sem}.h).
const NOWAIT: u16 = 0o4000;
const UNDO: u16 = 0x1000;

/// All sets.
pub static SETS: Registry<Set> = Registry::new(MOST);

/// `struct sembuf`: an operation.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Operation {
    /// The index of the semaphore in the set.
    pub at: u16,
    /// The value to add; 0 waits until the semaphore is 0.
    pub change: i16,
    /// IPC_NOWAIT, SEM_UNDO.
    pub flags: u16,
}

/// A semaphore.
#[derive(Clone, Copy, Default)]
pub struct Semaphore {
    /// Its value.
    pub value: i32,
    /// The process that changed it last.
    pub user: i32,
    /// How many wait for it to grow, and to become 0.
    pub waiting: [u32; 2],
    /// How often its value was set, which discards the adjustments of before.
    times_set: u32,
}

/// The sets that threads that share the list (CLONE_SYSVSEM) changed with SEM_UNDO.
pub struct UndoList(Mutex<Vec<Weak<Set>>>);

/// The values added to each semaphore (SEM_UNDO) when the last thread of an undo list ends.
struct Undo {
    /// So that no other gets its address.
    _list: Weak<UndoList>,
    changes: Vec<Change>,
    _charge: Charge,
}

/// What a list's adjustments of a set take besides themselves: their places in the set's table and
/// in the list, which may both have grown to twice what they need, and the smallest allocation.
const UNDO_BYTES: usize = 2 * (size_of::<(usize, Undo)>() + size_of::<Weak<Set>>());

/// The value to add to a semaphore, unless that was set since.
#[derive(Clone, Copy, Default)]
struct Change {
    by: i32,
    times_set: u32,
}

impl Undo {
    /// The change to a semaphore that was set so often.
    fn of(&mut self, at: usize, times_set: u32) -> &mut i32 {
        let change = &mut self.changes[at];
        if change.times_set != times_set {
            *change = Change { by: 0, times_set };
        }
        &mut change.by
    }
}

struct State {
    header: Header,
    /// The set that this is of.
    set: Weak<Set>,
    semaphores: Vec<Semaphore>,
    /// By the addresses of lists, which are no others' while these are here.
    undo: HashMap<usize, Undo>,
    times: [u64; 2],
    removed: bool,
}

/// A set of semaphores.
pub struct Set {
    state: Mutex<State>,
    _charge: Charge,
    _counted: Counted,
    /// Notified of every change.
    changed: WaitQueue,
}

impl Object for Set {
    fn with_header<T>(&self, f: impl FnOnce(&mut Header) -> T) -> T {
        f(&mut self.state.lock().header)
    }
}

/// A share of the system's limit of semaphores.
struct Counted(i32);

impl Counted {
    fn new(count: i32) -> Result<Self> {
        let counted = Counted(count);
        let before = SEMAPHORES.fetch_add(count, Relaxed);
        if before.saturating_add(count) > MOST_SEMAPHORES.load(Relaxed) {
            return Err(Errno::ENOSPC);
        }
        Ok(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        SEMAPHORES.fetch_sub(self.0, Relaxed);
    }
}

/// The most semaphores of a set, of all sets, operations of a call, and sets
/// (`/proc/sys/kernel/sem`).
pub fn limits() -> [i32; 4] {
    let [largest, all, operations] =
        [&LARGEST, &MOST_SEMAPHORES, &MOST_OPERATIONS].map(|limit| limit.load(Relaxed));
    [largest, all, operations, SETS.most.load(Relaxed) as i32]
}

/// Changes one of [`limits`].
///
/// # Errors
/// ERANGE: so many sets cannot be numbered.
pub fn set_limit(place: usize, value: i32) -> Result<()> {
    match [&LARGEST, &MOST_SEMAPHORES, &MOST_OPERATIONS].get(place) {
        Some(limit) => limit.store(value, Relaxed),
        None if (0..=registry::PLACES as i32).contains(&value) => {
            SETS.most.store(value as usize, Relaxed)
        }
        None => return Err(Errno::ERANGE),
    }
    Ok(())
}

/// The number of the set with `key`; see [`Registry::get`].
///
/// # Errors
/// EINVAL (too few or too many semaphores), and those of [`Registry::get`].
pub fn get(key: i32, count: i32, flags: u32) -> Result<usize> {
    let count = usize::try_from(count)
        .ok()
        .filter(|&count| count as i32 <= LARGEST.load(Relaxed))
        .ok_or(Errno::EINVAL)?;
    let make = |header| {
        if count == 0 {
            return Err(Errno::EINVAL);
        }
        let counted = Counted::new(count as i32)?;
        let charge = registry::charge(count * size_of::<Semaphore>()).ok_or(Errno::ENOSPC)?;
        let mut semaphores = Vec::new();
        semaphores
            .try_reserve_exact(count)
            .map_err(|_| Errno::ENOMEM)?;
        semaphores.resize(count, Semaphore::default());
        try_arc_cyclic(|set| Set {
            state: Mutex::new(State {
                header,
                set: set.clone(),
                semaphores,
                undo: hash::new(),
                times: [0, registry::now()],
                removed: false,
            }),
            _charge: charge,
            _counted: counted,
            changed: WaitQueue::new(),
        })
    };
    let fits = |set: &Set| match set.len() {
        len if count > len => Err(Errno::EINVAL),
        _ => Ok(()),
    };
    SETS.get(key, flags, make, fits)
}

/// Removes a set; waiters get EIDRM.
pub fn remove(number: i32, set: &Arc<Set>) {
    SETS.remove(number, set);
    set.state.lock().removed = true;
    set.changed.wake_all();
}

impl UndoList {
    /// A list of nothing.
    pub const fn new() -> Self {
        UndoList(Mutex::new(Vec::new()))
    }

    /// Adds a set, which the caller does once.
    fn add(&self, set: Weak<Set>) -> Result<()> {
        let mut sets = self.0.lock();
        if sets.len() == sets.capacity() {
            sets.retain(|set| set.strong_count() > 0);
        }
        sets.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        sets.push(set);
        Ok(())
    }
}

/// The current thread leaves a list: the last one to leave undoes the operations with SEM_UNDO.
pub fn leave(list: Arc<UndoList>) {
    let of_list = Arc::as_ptr(&list).addr();
    let Some(mut list) = Arc::into_inner(list) else {
        return;
    };
    for set in core::mem::take(list.0.get_mut()) {
        sched::cond_resched();
        let Some(set) = set.upgrade() else { continue };
        let mut state = set.state.lock();
        let undo = state.undo.remove(&of_list);
        let changes = undo.iter().flat_map(|undo| &undo.changes);
        for (semaphore, change) in state.semaphores.iter_mut().zip(changes) {
            if change.by != 0 && change.times_set == semaphore.times_set {
                semaphore.value = (semaphore.value + change.by).clamp(0, HIGHEST);
                semaphore.user = current().process_id();
            }
        }
        drop(state);
        drop(undo);
        set.changed.wake_all();
    }
}

/// Why a group of operations cannot be done now.
enum Blocked {
    /// Semaphore `at` must change first: grow, or become 0 (`true`).
    Waits { at: usize, zero: bool },
    /// The operations can never be done, or not without waiting.
    Fails(Errno),
}

impl Set {
    /// How many semaphores it has.
    pub fn len(&self) -> usize {
        self.state.lock().semaphores.len()
    }

    /// Owner and permissions, when it was operated on and changed, how many semaphores it has.
    pub fn status(&self) -> (Header, [u64; 2], usize) {
        let state = self.state.lock();
        (state.header, state.times, state.semaphores.len())
    }

    /// Changes owner or permissions. EINVAL.
    pub fn change(&self, to: &Owner) -> Result<()> {
        let mut state = self.state.lock();
        state.header.change(to)?;
        state.times[1] = registry::now();
        Ok(())
    }

    /// The semaphore at a place.
    ///
    /// # Errors
    /// EINVAL.
    pub fn semaphore(&self, at: usize) -> Result<Semaphore> {
        let state = self.state.lock();
        state.semaphores.get(at).copied().ok_or(Errno::EINVAL)
    }

    /// The values of all.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn values(&self) -> Result<Vec<u16>> {
        let mut values = Vec::new();
        values
            .try_reserve_exact(self.len())
            .map_err(|_| Errno::ENOMEM)?;
        let state = self.state.lock();
        values.extend(
            state
                .semaphores
                .iter()
                .map(|semaphore| semaphore.value as u16),
        );
        Ok(values)
    }

    /// Sets the values from `at` on; adjustments of SEM_UNDO there are discarded.
    ///
    /// # Errors
    /// ERANGE, EINVAL (no such semaphore), EIDRM.
    pub fn set_values(&self, at: usize, values: &[i32]) -> Result<()> {
        if values.iter().any(|value| !(0..=HIGHEST).contains(value)) {
            return Err(Errno::ERANGE);
        }
        let mut state = self.state.lock();
        if state.removed {
            return Err(Errno::EIDRM);
        }
        if at + values.len() > state.semaphores.len() {
            return Err(Errno::EINVAL);
        }
        let user = current().process_id();
        for (semaphore, &value) in state.semaphores[at..].iter_mut().zip(values) {
            semaphore.value = value;
            semaphore.user = user;
            semaphore.times_set = semaphore.times_set.wrapping_add(1);
        }
        state.times[1] = registry::now();
        drop(state);
        self.changed.wake_all();
        Ok(())
    }

    /// Does all `operations` at once, as soon as that is possible. `deadline` in ticks.
    ///
    /// # Errors
    /// EACCES, EFBIG (no such semaphore), EAGAIN (would wait, or the deadline passed), ERANGE,
    /// EIDRM, ENOMEM, ERESTARTNOHAND.
    pub fn operate(&self, operations: &[Operation], deadline: Option<u64>) -> Result<()> {
        let undoes = operations.iter().any(|one| one.flags & UNDO != 0);
        let list = undoes.then(|| current().undo_list()).transpose()?;
        let mut waiting = None;
        let mut result = Ok(());
        let ready = || match self.attempt(operations, list.as_ref(), &mut waiting) {
            Ok(()) => true,
            Err(Blocked::Waits { .. }) => false,
            Err(Blocked::Fails(error)) => {
                result = Err(error);
                true
            }
        };
        let slack = deadline.map_or(0, |_| current().slack_ticks());
        let waited = self.changed.wait_with_slack(ready, deadline, slack);
        self.state.lock().count_waiter(&mut waiting, None);
        match waited {
            Ok(()) => result,
            Err(WaitError::TimedOut) => Err(Errno::EAGAIN),
            Err(WaitError::Interrupted) => Err(Errno::ERESTARTNOHAND),
        }
    }

    fn attempt(
        &self,
        operations: &[Operation],
        list: Option<&Arc<UndoList>>,
        waiting: &mut Option<(usize, bool)>,
    ) -> core::result::Result<(), Blocked> {
        let mut state = self.state.lock();
        let result = state.operate(operations, list);
        let wakes = match &result {
            Ok(()) => operations.iter().any(|one| state.concerns_waiters(one)),
            Err(Blocked::Waits { at, zero }) => {
                state.count_waiter(waiting, Some((*at, *zero)));
                false
            }
            Err(Blocked::Fails(_)) => false,
        };
        drop(state);
        if wakes {
            self.changed.wake_all();
        }
        result
    }
}

impl State {
    /// Counts this thread where it waits now instead of where it did. With the attempt that found
    /// where, in one: a change in between would wake nobody.
    fn count_waiter(&mut self, counted: &mut Option<(usize, bool)>, now: Option<(usize, bool)>) {
        if let Some((at, zero)) = counted.take() {
            self.semaphores[at].waiting[zero as usize] -= 1;
        }
        if let Some((at, zero)) = now {
            self.semaphores[at].waiting[zero as usize] += 1;
        }
        *counted = now;
    }

    /// Whether somebody waits for what an operation did to its semaphore: thousands may wait for
    /// another.
    fn concerns_waiters(&self, done: &Operation) -> bool {
        let semaphore = &self.semaphores[done.at as usize];
        let [to_grow, to_be_zero] = semaphore.waiting.map(|count| count != 0);
        done.change > 0 && to_grow || done.change != 0 && semaphore.value == 0 && to_be_zero
    }

    fn operate(
        &mut self,
        operations: &[Operation],
        list: Option<&Arc<UndoList>>,
    ) -> core::result::Result<(), Blocked> {
        if self.removed {
            return Err(Blocked::Fails(Errno::EIDRM));
        }
        if operations
            .iter()
            .any(|one| one.at as usize >= self.semaphores.len())
        {
            return Err(Blocked::Fails(Errno::EFBIG));
        }
        let changes = operations.iter().any(|one| one.change != 0);
        let wanted = if changes {
            registry::WRITE
        } else {
            registry::READ
        };
        self.header.check(wanted).map_err(Blocked::Fails)?;
        let undo = list.map(|list| self.undo_of(list)).transpose();
        let undo = undo.map_err(Blocked::Fails)?;
        for (done, one) in operations.iter().enumerate() {
            if let Err(why) = self.step(one, undo) {
                operations[..done]
                    .iter()
                    .rev()
                    .for_each(|one| self.step_back(one, undo));
                return Err(match why {
                    Blocked::Waits { .. } if one.flags & NOWAIT != 0 => {
                        Blocked::Fails(Errno::EAGAIN)
                    }
                    why => why,
                });
            }
        }
        let pid = current().process_id();
        for one in operations {
            self.semaphores[one.at as usize].user = pid;
        }
        self.times[0] = registry::now();
        Ok(())
    }

    fn step(&mut self, one: &Operation, undo: Option<usize>) -> core::result::Result<(), Blocked> {
        let at = one.at as usize;
        let Semaphore {
            value, times_set, ..
        } = self.semaphores[at];
        let new = value + one.change as i32;
        if one.change == 0 && value != 0 || new < 0 {
            let zero = one.change == 0;
            return Err(Blocked::Waits { at, zero });
        }
        if new > HIGHEST {
            return Err(Blocked::Fails(Errno::ERANGE));
        }
        if let Some(undo) = undo.filter(|_| one.flags & UNDO != 0)
            && let Some(undo) = self.undo.get_mut(&undo)
        {
            let back = undo.of(at, times_set);
            let changed = *back - one.change as i32;
            if !(-HIGHEST - 1..=HIGHEST).contains(&changed) {
                return Err(Blocked::Fails(Errno::ERANGE));
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

    /// The key of the changes that the end of a list undoes.
    fn undo_of(&mut self, list: &Arc<UndoList>) -> Result<usize> {
        let of_list = Arc::as_ptr(list).addr();
        if self.undo.contains_key(&of_list) {
            return Ok(of_list);
        }
        let count = self.semaphores.len();
        let bytes = count * size_of::<Change>() + UNDO_BYTES;
        let charge = registry::charge(bytes).ok_or(Errno::ENOMEM)?;
        let mut changes = Vec::new();
        changes
            .try_reserve_exact(count)
            .map_err(|_| Errno::ENOMEM)?;
        changes.resize(count, Change::default());
        self.undo.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        list.add(self.set.clone())?;
        let undo = Undo {
            _list: Arc::downgrade(list),
            changes,
            _charge: charge,
        };
        self.undo.insert(of_list, undo);
        Ok(of_list)
    }
}
