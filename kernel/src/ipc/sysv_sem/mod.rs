//! System V semaphores: sets whose members change together or not at all, and the adjustments at
//! the end of a process (SEM_UNDO).

mod operations;
mod pending;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use super::handover::Settled;
use super::registry::{self, Header, Object, Owner, Registry};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::try_arc_cyclic;
use crate::sync::Mutex;
use crate::task::user::Charge;
use crate::task::{current, sched};
use pending::Pending;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The maximum number of sets (SEMMNI).
const MOST: usize = 32000;
/// The maximum number of semaphores in a set (SEMMSL).
static LARGEST: AtomicI32 = AtomicI32::new(32000);
/// The maximum number of semaphores (SEMMNS).
static MOST_SEMAPHORES: AtomicI32 = AtomicI32::new(32000 * MOST as i32);
/// The maximum number of operations in a call (SEMOPM).
pub static MOST_OPERATIONS: AtomicI32 = AtomicI32::new(500);
/// The current number of semaphores.
static SEMAPHORES: AtomicI32 = AtomicI32::new(0);
/// The maximum value (SEMVMX).
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
    /// The process that last changed it.
    pub user: i32,
    /// The number of threads that wait for it to grow, and to become 0.
    pub waiting: [u32; 2],
    /// How often its value was set, which discards earlier adjustments.
    times_set: u32,
}

/// The sets that the threads sharing this list (CLONE_SYSVSEM) changed with SEM_UNDO.
pub struct UndoList(Mutex<Vec<Weak<Set>>>);

/// The values added to each semaphore when the last thread of an undo list ends (SEM_UNDO).
struct Undo {
    /// Keeps the list's address from being reused.
    _list: Weak<UndoList>,
    changes: Vec<Change>,
    _charge: Charge,
}

/// The memory that a list's adjustments of a set take beyond the adjustments themselves: an entry
/// in the set's table and one in the list, either of which may have grown to twice the needed size,
/// and the smallest allocation.
const UNDO_BYTES: usize = 2 * (size_of::<(usize, Undo)>() + size_of::<Weak<Set>>());

/// The value to add to a semaphore, unless its value was set since.
#[derive(Clone, Copy, Default)]
struct Change {
    by: i32,
    times_set: u32,
}

impl Undo {
    /// The adjustment of a semaphore whose value was set `times_set` times.
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
    /// The set with this state.
    set: Weak<Set>,
    semaphores: Vec<Semaphore>,
    /// By the addresses of undo lists, which are not reused while entries exist here.
    undo: HashMap<usize, Undo>,
    pending: Pending,
    times: [u64; 2],
    removed: bool,
}

/// A set of semaphores.
pub struct Set {
    state: Mutex<State>,
    _charge: Charge,
    _counted: Counted,
}

impl Object for Set {
    fn with_header<T>(&self, f: impl FnOnce(&mut Header) -> T) -> T {
        f(&mut self.state.lock().header)
    }
}

/// A share of the system's limit on semaphores.
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

/// The maximum number of semaphores in a set, of semaphores in all sets, of operations in a call,
/// and of sets (`/proc/sys/kernel/sem`).
pub fn limits() -> [i32; 4] {
    let [largest, all, operations] =
        [&LARGEST, &MOST_SEMAPHORES, &MOST_OPERATIONS].map(|limit| limit.load(Relaxed));
    [largest, all, operations, SETS.most.load(Relaxed) as i32]
}

/// Changes one of [`limits`].
///
/// # Errors
/// ERANGE: there are not enough numbers for this many sets.
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
                pending: Pending::new(),
                times: [0, registry::now()],
                removed: false,
            }),
            _charge: charge,
            _counted: counted,
        })
    };
    let fits = |set: &Set| match set.len() {
        len if count > len => Err(Errno::EINVAL),
        _ => Ok(()),
    };
    SETS.get(key, flags, make, fits)
}

/// Removes a set, which the caller must own; waiting threads get EIDRM.
///
/// # Errors
/// EPERM, EIDRM.
pub fn remove(number: i32, set: &Arc<Set>) -> Result<()> {
    let mut state = set.state.lock();
    state.header.check_owner()?;
    if mem::replace(&mut state.removed, true) {
        return Err(Errno::EIDRM);
    }
    drop(state);
    SETS.remove(number, set);
    let mut settled = Settled::default();
    loop {
        let mut state = set.state.lock();
        while !settled.is_full()
            && let Some(waiter) = state.pending.take_any()
        {
            settled.add(waiter.handover.settle(Err(Errno::EIDRM)));
        }
        drop(state);
        let is_full = settled.is_full();
        settled.wake();
        if !is_full {
            return Ok(());
        }
        sched::cond_resched();
    }
}

impl UndoList {
    /// An empty list.
    pub const fn new() -> Self {
        UndoList(Mutex::new(Vec::new()))
    }

    /// Adds a set; the caller does this once per set.
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

/// Called when the current thread leaves a list: the last thread to leave undoes the operations
/// made with SEM_UNDO.
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
        for (at, change) in changes.enumerate() {
            let semaphore = &mut state.semaphores[at];
            if change.by != 0 && change.times_set == semaphore.times_set {
                semaphore.value = (semaphore.value + change.by).clamp(0, HIGHEST);
                semaphore.user = current().process_id();
                state.look(at);
            }
        }
        set.go_on(state);
        drop(undo);
    }
}

impl Set {
    /// The number of semaphores.
    pub fn len(&self) -> usize {
        self.state.lock().semaphores.len()
    }

    /// The owner and permissions, the times of the last operation and of the last change, and the
    /// number of semaphores.
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

    /// The semaphore at an index.
    ///
    /// # Errors
    /// EINVAL.
    pub fn semaphore(&self, at: usize) -> Result<Semaphore> {
        let state = self.state.lock();
        state.semaphores.get(at).copied().ok_or(Errno::EINVAL)
    }

    /// The values of all semaphores.
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

    /// Sets the values from index `at` on, and discards the SEM_UNDO adjustments of these
    /// semaphores.
    ///
    /// # Errors
    /// ERANGE, EINVAL (no such semaphore), EIDRM, EACCES, in the order of Linux.
    pub fn set_values(&self, at: usize, values: &[i32]) -> Result<()> {
        if values.iter().any(|value| !(0..=HIGHEST).contains(value)) {
            return Err(Errno::ERANGE);
        }
        let mut state = self.state.lock();
        if state.removed {
            return Err(Errno::EIDRM);
        }
        if at.saturating_add(values.len()) > state.semaphores.len() {
            return Err(Errno::EINVAL);
        }
        state.header.check(registry::WRITE)?;
        let user = current().process_id();
        for (at, &value) in (at..).zip(values) {
            let semaphore = &mut state.semaphores[at];
            semaphore.value = value;
            semaphore.user = user;
            semaphore.times_set = semaphore.times_set.wrapping_add(1);
            state.look(at);
        }
        state.times[1] = registry::now();
        self.go_on(state);
        Ok(())
    }
}

impl State {
    /// The key of the adjustments that the list undoes at its end.
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
