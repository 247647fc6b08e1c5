//! Memory that may be lost where there is little (MAP_DROPPABLE).

use super::pid_table;
use super::sched::cond_resched_killable;
use crate::errno::Errno;
use crate::mm::vma::{Flags, Vma};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How such memory is: nobody inherits it, it is in no core file, and it promises nothing.
pub const FLAGS: Flags = Flags::DROPPABLE
    .with(Flags::WIPE_ON_FORK)
    .with(Flags::DONT_DUMP)
    .with(Flags::NO_RESERVE);

/// Whether there ever was some.
static ANY: AtomicBool = AtomicBool::new(false);

/// Some is made.
pub fn announce() {
    ANY.store(true, Relaxed);
}

fn may_go(vma: &Vma) -> bool {
    vma.flags.has(Flags::DROPPABLE) && !vma.flags.has(Flags::LOCKED)
}

/// Empties all that there is, for one caller at a time; whether that gave memory back. It may let
/// others run.
pub(super) fn drop_all() -> bool {
    if !ANY.load(Relaxed) {
        return false;
    }
    let (mut next, mut pages) = (1, 0);
    while let Some(process) = pid_table::next_process(next) {
        next = process.pid() + 1;
        let thread = process.find_thread(|_| true);
        let Some(space) = thread.and_then(|thread| thread.space()) else {
            continue;
        };
        for vma in space.vmas().filter(may_go) {
            // Meanwhile something else may be there.
            let check = |vma: &Vma| {
                if may_go(vma) {
                    Ok(())
                } else {
                    Err(Errno::EINVAL)
                }
            };
            let before = space.size().resident;
            _ = space.discard(vma.range(), check);
            pages += before.saturating_sub(space.size().resident);
            if cond_resched_killable().is_err() {
                return true;
            }
        }
    }
    pages > 0
}
