//! Waiters for locks, and the detection of deadlocks between them (Linux's `blocked_hash`).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::super::inode::Key;
use super::context::{Context, Used};
use super::{Lock, Owner};
use crate::errno::{Errno, Result};
use crate::hash::Lists;
use crate::sync::Mutex;

/// How many waiting processes of a chain are followed (Linux's MAX_DEADLK_ITERATIONS).
const MOST_DEADLOCK_STEPS: usize = 10;

/// A waiter for a lock.
struct Waiting {
    number: u64,
    wanted: Lock,
    /// The context of its inode, which exists while there are waiters.
    key: Key,
    /// The owner of the lock that conflicts with it.
    blocker: Owner,
}

impl Waiting {
    /// Whether the wait is not over: a woken waiter may not have run yet.
    fn is_pending(&self) -> bool {
        Context::find(self.key)
            .is_some_and(|context| is_blocked(&context, &self.wanted, self.blocker))
    }
}

/// Whether the first lock that conflicts with `wanted` is still that of `blocker`.
fn is_blocked(context: &Context, wanted: &Lock, blocker: Owner) -> bool {
    let against = context.conflict(wanted);
    against.is_some_and(|lock| lock.owner == blocker)
}

/// The waiters, by owner. Locked until a new waiter has checked that it closes no cycle.
static WAITING: Mutex<Lists<Owner, Waiting>> = Mutex::new(Lists::new());

/// Waits until the locks that conflict with `wanted` are gone, or a lock of another owner
/// conflicts.
///
/// # Errors
/// EDEADLK, ENOLCK, ERESTARTSYS.
pub fn wait(context: &Used, wanted: Lock) -> Result<()> {
    let Some((number, blocker)) = enter(context, wanted)? else {
        return Ok(());
    };
    let is_over = || !is_blocked(context, &wanted, blocker);
    let begun = context.begin_wait(number, wanted);
    let waited = begun.and_then(|()| context.changed.wait(is_over));
    context.end_wait(number);
    WAITING
        .lock()
        .take(&wanted.owner, |one| one.number == number);
    waited
}

/// Records `wanted` as waiting; returns its number, and the owner of the lock that conflicts with
/// it, or `None` if no lock conflicts any more.
fn enter(context: &Context, wanted: Lock) -> Result<Option<(u64, Owner)>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut waiting = WAITING.lock();
    let Some(against) = context.conflict(&wanted) else {
        return Ok(None);
    };
    let blocker = against.owner;
    if deadlocks(wanted.owner, blocker, |owner| {
        let mut waits = waiting.of(&owner).iter();
        waits.find(|one| one.is_pending()).map(|one| one.blocker)
    }) {
        return Err(Errno::EDEADLK);
    }
    let number = NEXT.fetch_add(1, Relaxed);
    let one = Waiting {
        number,
        wanted,
        key: context.key,
        blocker,
    };
    let entered = waiting.push(wanted.owner, one);
    entered.map_err(|_| Errno::ENOLCK)?;
    Ok(Some((number, blocker)))
}

/// Whether `owner` would wait for an owner that, in the end, waits for `owner`. As on Linux, only
/// processes are checked, since another thread may release an open file's locks. Long chains are
/// not followed to their end.
fn deadlocks(owner: Owner, blocker: Owner, awaits: impl Fn(Owner) -> Option<Owner>) -> bool {
    if !matches!(owner, Owner::Process(_)) {
        return false;
    }
    let chain = core::iter::successors(Some(blocker), |&one| awaits(one));
    chain.take(MOST_DEADLOCK_STEPS).any(|one| one == owner)
}

#[cfg(feature = "selftest")]
mod tests {
    use super::*;

    crate::selftest! {
        fn waiting_in_a_circle_is_seen() {
            let owner = |number| Owner::Process(number);
            let file = Owner::OpenFile(4);
            let awaits = |one| match one {
                Owner::Process(1) => Some(owner(2)),
                Owner::Process(2) => Some(owner(3)),
                Owner::Process(5) => Some(file),
                _ => None,
            };
            assert!(deadlocks(owner(3), owner(1), awaits) && !deadlocks(owner(4), owner(1), awaits));
            assert!(!deadlocks(file, owner(5), awaits));
        }
    }
}
