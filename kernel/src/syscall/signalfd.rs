//! Signals as files.

use super::path::{check_flags, opened};
use crate::errno::{Errno, Result};
use crate::fs::signalfd::{self, SignalFd};
use crate::mm::user::UserPtr;
use crate::task::current;
use linux_raw_sys::general::{O_CLOEXEC, O_NONBLOCK, SIGKILL, SIGSTOP, sigset_t};

/// signalfd4(2)
pub fn signalfd4(fd: i32, mask: usize, size: usize, flags: u32) -> Result<usize> {
    check_flags(flags, O_CLOEXEC | O_NONBLOCK)?;
    if size != size_of::<sigset_t>() {
        return Err(Errno::EINVAL);
    }
    let never = 1 << (SIGKILL - 1) | 1 << (SIGSTOP - 1);
    let set = UserPtr::<u64>::new(mask).read()? & !never;
    if fd == -1 {
        let file = signalfd::new(set, flags)?;
        return Ok(current().files().add(file, flags & O_CLOEXEC != 0)? as usize);
    }
    opened(fd)?
        .ops_as::<SignalFd>()
        .ok_or(Errno::EINVAL)?
        .set(set);
    Ok(fd as usize)
}
