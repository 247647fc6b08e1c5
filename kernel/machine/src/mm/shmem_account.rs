//! The count of pages that outlive the process that made them: those of files and of System V
//! shared memory.

use linux_raw_sys::general::CAP_SYS_ADMIN;

use super::{commit, frame};
use crate::errno::{Errno, Result};
use crate::sync::Counter;
use crate::upcall;

/// How many there are. A CPU keeps some MiB for itself, so that few pages touch what all share.
static COUNT: Counter<4096> = Counter::new();

/// How many there are; all count as promised.
pub fn count() -> usize {
    COUNT.exactly()
}

/// Promises and counts one more.
///
/// # Errors
/// ENOMEM.
#[inline]
pub fn take() -> Result<()> {
    commit::check(1, 1, 0)?;
    COUNT.add(1);
    Ok(())
}

/// Counts a page that was promised, and now is there.
pub(super) fn keep_promise() {
    commit::give(1);
    COUNT.add(1);
}

/// Releases `pages`.
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

/// Refuses so many pages at once where not even the end of all that holds the rest would make room.
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

/// How many there may be while memory is scarce: half of all, the size of a tmpfs on Linux.
fn share() -> usize {
    frame::total() / 2
}
