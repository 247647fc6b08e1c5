//! Memory that the kernel may drop when memory is short (MAP_DROPPABLE).

use super::sched::cond_resched;
use super::{Thread, current, pid_table};
use crate::errno::Errno;
use crate::mm::AddressSpace;
use crate::mm::vma::{Flags, Vma};
use crate::sync::Mutex;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The flags of such memory: it is not inherited, not in core files, and not counted as committed.
pub const FLAGS: Flags = Flags::DROPPABLE
    .union(Flags::WIPE_ON_FORK)
    .union(Flags::DONT_DUMP)
    .union(Flags::NO_RESERVE);

/// Whether such memory was ever mapped.
static ANY: AtomicBool = AtomicBool::new(false);

/// Notes that such memory is mapped.
pub fn announce() {
    ANY.store(true, Relaxed);
}

fn may_go(vma: &Vma) -> bool {
    vma.flags.contains(Flags::DROPPABLE) && !vma.flags.contains(Flags::LOCKED)
}

/// The number of processes and VMAs that are visited before a process is killed instead: a user may
/// have millions.
const LOOKS: usize = 4096;

/// Where the last visit ended: a process, and an address in its memory.
static NEXT: Mutex<(i32, usize)> = Mutex::new((1, 0));

/// Drops the next droppable pages, for one caller at a time; true if any were freed. It may let
/// other threads run.
pub(super) fn drop_some() -> bool {
    if !ANY.load(Relaxed) {
        return false;
    }
    let (mut pid, mut at) = *NEXT.lock();
    let (mut pages, mut wrapped) = (0, false);
    let mut looks = 0..LOOKS;
    while looks.next().is_some() && !current().must_die() {
        let Some(process) = pid_table::next_process(pid) else {
            (pid, at) = (1, 0);
            if core::mem::replace(&mut wrapped, true) {
                break;
            }
            continue;
        };
        if process.pid() != pid {
            (pid, at) = (process.pid(), 0);
        }
        let thread = process.find_thread(Thread::has_space);
        let space = thread.and_then(|thread| thread.space());
        let space = space.filter(|space| space.totals().droppable > 0);
        while let Some(space) = &space
            && let Some(vma) = space.vma_after(at)
            && looks.next().is_some()
        {
            at = vma.end;
            pages += drop_vma(space, &vma);
        }
        if looks.is_empty() {
            break;
        }
        (pid, at) = (pid + 1, 0);
    }
    *NEXT.lock() = (pid, at);
    pages > 0
}

/// Drops the pages of a VMA, if it is droppable; returns their number.
fn drop_vma(space: &AddressSpace, vma: &Vma) -> usize {
    cond_resched();
    if !may_go(vma) {
        return 0;
    }
    // Something else may be mapped there by now.
    let check = |vma: &Vma| may_go(vma).then_some(()).ok_or(Errno::EINVAL);
    let before = space.size().resident;
    // Does not wait for a fork or a move: its thread may get no CPU, and others wait for memory.
    _ = space.discard(vma.range(), false, check);
    before.saturating_sub(space.size().resident)
}
