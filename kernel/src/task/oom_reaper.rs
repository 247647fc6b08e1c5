//! Reclaims the memory of a victim that does not end: one of its threads may wait, unkillable, for
//! a lock whose holder waits for memory. A kernel thread takes the memory back (Linux's
//! oom_reaper).

extern crate alloc;

use alloc::sync::{Arc, Weak};

use super::wait_queue::{self, WaitQueue};
use super::{Process, clock, spawn_kernel};
use crate::arch::time;
use crate::errno::Result;
use crate::mm::{AddressSpace, Removed};
use crate::sync::Mutex;

/// Nearly all victims end by themselves within this time, in nanoseconds (OOM_REAPER_DELAY).
const DELAY: u64 = 2_000_000_000;

/// How often a space is tested before it is reaped, and the pause in between in nanoseconds
/// (MAX_OOM_REAP_RETRIES).
const RETRIES: usize = 10;
const RETRY: u64 = 100_000_000;

struct Victim {
    process: Weak<Process>,
    space: Arc<AddressSpace>,
    /// When its memory is taken, in ticks.
    due: u64,
}

/// The last victim.
static VICTIM: Mutex<Option<Victim>> = Mutex::new(None);
static CHOSEN: WaitQueue = WaitQueue::new();

/// Creates the thread.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub(super) fn init() -> Result<()> {
    spawn_kernel("oom_reaper", run, 0).map(drop)
}

/// Notes that `process`, which has `space`, was chosen to end.
pub(super) fn watch(process: &Arc<Process>, space: &Arc<AddressSpace>) {
    let victim = Victim {
        process: Arc::downgrade(process),
        space: space.clone(),
        due: clock::deadline_in(DELAY),
    };
    let before = VICTIM.lock().replace(victim);
    drop(before);
    CHOSEN.wake_all();
}

fn run(_: usize) -> ! {
    loop {
        // It gets no signals.
        _ = CHOSEN.wait_interruptible(|| VICTIM.lock().is_some(), None);
        // Meanwhile there may be another victim, with a deadline of its own.
        while let Some(due) = later() {
            wait_queue::sleep_killable(due);
        }
        let victim = VICTIM.lock().take();
        if let Some(Victim { process, space, .. }) = victim
            && let Some(process) = process.upgrade()
        {
            reap(&process, &space);
        }
    }
}

/// When the victim is due; `None` if it is due now.
fn later() -> Option<u64> {
    let victim = VICTIM.lock();
    let due = victim.as_ref()?.due;
    (time::now_ticks() < due).then_some(due)
}

/// Takes the memory of a process that ends, if no other process uses the space. One of its threads
/// may be between two parts of a fork or a move, and get no CPU: the wait for it is limited.
fn reap(process: &Process, space: &AddressSpace) {
    for _ in 0..RETRIES {
        if !space.is_paused() {
            break;
        }
        wait_queue::sleep_killable(clock::deadline_in(RETRY));
    }
    // Counted first, so that threads that end meanwhile do not count as users of other processes.
    let users = space.users();
    // In a single expression: a named guard would be held while memory is taken, which sleeps.
    let own = (process.threads().iter())
        .filter(|thread| thread.sched.has_space(space))
        .count();
    if !process.is_exiting() || own == 0 || users > own {
        return;
    }
    let pages = take_memory(space);
    if pages > 0 {
        crate::log!(
            "out of memory: {pages} pages of process {} taken",
            process.pid()
        );
    }
}

/// Unmaps private memory; returns the pages freed. System calls that still use it get EFAULT.
fn take_memory(space: &AddressSpace) -> usize {
    let before = space.size().resident;
    for vma in space.vmas() {
        if space.is_paused() {
            break;
        }
        if !vma.is_shared() {
            // Sealed memory is kept.
            _ = space.unmap(vma.range(), &mut Removed::new());
        }
    }
    before.saturating_sub(space.size().resident)
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn the_memory_of_a_victim_is_taken() {
        use crate::mm::fault::Access;
        use crate::mm::{MapRequest, PAGE_SIZE, Place, SpaceUser};
        const START: usize = 1 << 30;
        const PAGES: usize = 3000;
        let space = SpaceUser::new(crate::arch::user_end()).unwrap();
        let map = |start| {
            let request = MapRequest::anonymous(Place::Fixed(start), PAGES * PAGE_SIZE);
            space.map(request, &mut Removed::new()).unwrap();
            for page in 0..PAGES {
                let at = start + page * PAGE_SIZE;
                let range = at..at + PAGE_SIZE;
                space.populate_first(&range, Some(Access::Write)).unwrap().unwrap();
            }
        };
        map(START);
        map(START << 1);
        assert_eq!(take_memory(&space), 2 * PAGES);
        assert!(space.size().resident == 0 && space.vma_after(0).is_none());
        let range = START..START + PAGE_SIZE;
        assert!(space.populate_first(&range, Some(Access::Write)).is_err());
    }
}
