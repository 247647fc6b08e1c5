//! Old system calls with 32-bit signal sets.

use linux_raw_sys::general::*;

use crate::errno::{Errno, Result};
use crate::mm::user::UserPtr;
use crate::syscall::{signal as calls, signalfd};
use crate::task::current;
use crate::task::signal::{self, Action};

pub fn sigreturn() -> Result<usize> {
    calls::return_from_handler::<crate::syscall::layout::Compat>(false)
}

/// The words of a `struct old_sigaction`: handler, mask, flags, restorer.
type OldAction = [u32; 4];

pub fn sigaction(number: u32, new: usize, old: usize) -> Result<usize> {
    let new = UserPtr::<OldAction>::new(new).read_opt()?;
    let wanted = new.map(|[handler, mask, flags, restorer]| Action {
        handler: handler as usize,
        flags: flags as usize,
        restorer: restorer as usize,
        mask: mask.into(),
    });
    let before = calls::change_action(number, wanted)?;
    UserPtr::new(old).write_opt(&[
        before.handler as u32,
        before.mask as u32,
        before.flags as u32,
        before.restorer as u32,
    ])?;
    Ok(0)
}

pub fn sigprocmask(how: u32, set: usize, old: usize) -> Result<usize> {
    let before = current().blocked();
    if let Some(set) = UserPtr::<u32>::new(set).read_opt()? {
        let set = u64::from(set);
        signal::set_blocked(match how {
            SIG_BLOCK => before | set,
            SIG_UNBLOCK => before & !set,
            SIG_SETMASK => before & !u64::from(u32::MAX) | set,
            _ => return Err(Errno::EINVAL),
        });
    }
    UserPtr::new(old).write_opt(&(before as u32))?;
    Ok(0)
}

pub fn sigpending(to: usize) -> Result<usize> {
    let pending = current().pending() & current().blocked();
    UserPtr::new(to).write(&(pending as u32))?;
    Ok(0)
}

pub fn sigsuspend(_: usize, _: usize, set: u32) -> Result<usize> {
    calls::suspend(set.into())
}

pub fn signalfd(fd: i32, mask: usize, size: usize) -> Result<usize> {
    signalfd::signalfd4(fd, mask, size, 0)
}
