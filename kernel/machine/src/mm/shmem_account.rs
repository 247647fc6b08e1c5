//! Accounting of pages that outlive the process that allocated them: those of tmpfs files and of
//! System V shared memory.

use linux_raw_sys::general::CAP_SYS_ADMIN;

use super::{commit, frame};
use crate::errno::{Errno, Result};
use crate::sync::Counter;
use crate::upcall;

/// Number of such pages. Each CPU batches some MiB, so that few pages touch the shared counter.
static COUNT: Counter<4096> = Counter::new();

/// Number of such pages; all of them count as committed.
pub fn count() -> usize {
    COUNT.exactly()
}

/// Commits and counts one more page.
///
/// # Errors
/// ENOMEM.
#[inline]
pub fn take() -> Result<()> {
    commit::check(1, 1, 0)?;
    COUNT.add(1);
    Ok(())
}

/// Counts a page that was already committed.
pub(super) fn keep_promise() {
    commit::give(1);
    COUNT.add(1);
}

/// Uncounts `pages`.
pub fn give(pages: usize) {
    COUNT.add(-(pages as isize));
}

/// Refuses a page to all but the administrator while such pages make memory scarce, since killing a
/// process would not free them. If processes hold the memory, the OOM killer chooses one.
///
/// # Errors
/// ENOSPC.
#[inline]
pub fn check_room() -> Result<()> {
    if frame::is_scarce() {
        check_share()
    } else {
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn check_share() -> Result<()> {
    if count() < share() || upcall::capable(CAP_SYS_ADMIN) {
        return Ok(());
    }
    Err(Errno::ENOSPC)
}

/// Refuses `pages` at once if not even freeing all other memory would make room.
///
/// # Errors
/// ENOSPC.
pub fn check_room_for(pages: usize) -> Result<()> {
    let left = share().saturating_sub(count());
    if pages <= left.max(frame::free_count()) {
        return Ok(());
    }
    Err(Errno::ENOSPC)
}

/// The maximum number of such pages while memory is scarce: half of memory, as the size of a tmpfs
/// on Linux.
fn share() -> usize {
    frame::total() / 2
}
