//! epoll.

use super::layout::Layout;
use super::path::{check_flags, opened};
use super::poll::{Deadline, with_mask};
use crate::errno::{Errno, Result};
use crate::fs::epoll::{self, Epoll, Event};
use crate::mm::user::{UserPtr, access_ok};
use crate::task::current;
use alloc::sync::Arc;
use linux_raw_sys::general::{EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD};

/// epoll_create1(2)
pub fn epoll_create1(flags: u32) -> Result<usize> {
    check_flags(flags, EPOLL_CLOEXEC)?;
    Ok(current()
        .files()
        .add(epoll::new()?, flags & EPOLL_CLOEXEC != 0)? as usize)
}

fn set(fd: i32) -> Result<Arc<Epoll>> {
    opened(fd)?.ops_as::<Epoll>().ok_or(Errno::EINVAL)
}

/// epoll_ctl(2)
pub fn epoll_ctl(epoll: i32, operation: u32, fd: i32, event: usize) -> Result<usize> {
    let event = match operation {
        EPOLL_CTL_DEL => Event::default(),
        _ => UserPtr::<Event>::new(event).read()?,
    };
    let (set, member) = (opened(epoll)?, opened(fd)?);
    if !member.can_poll() {
        return Err(Errno::EPERM);
    }
    let epoll = set.ops_as::<Epoll>().ok_or(Errno::EINVAL)?;
    match operation {
        EPOLL_CTL_ADD => epoll.add(fd, &member, event)?,
        EPOLL_CTL_MOD => epoll.modify(fd, &member, event)?,
        EPOLL_CTL_DEL => epoll.remove(fd, &member)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

fn wait(epoll: i32, events: usize, max: i32, deadline: Deadline) -> Result<usize> {
    const LARGEST: usize = i32::MAX as usize / size_of::<Event>();
    let max = usize::try_from(max)
        .ok()
        .filter(|&max| (1..=LARGEST).contains(&max))
        .ok_or(Errno::EINVAL)?;
    if !access_ok(events, max * size_of::<Event>()) {
        return Err(Errno::EFAULT);
    }
    let epoll = set(epoll)?;
    let events = UserPtr::<Event>::new(events);
    loop {
        let count = epoll.take(max, &mut |at, event| events.add(at).write(&event))?;
        if count > 0 || !epoll.wait(deadline.0, deadline.slack())? {
            return Ok(count);
        }
    }
}

/// epoll_pwait(2)
pub fn epoll_pwait(
    epoll: i32,
    events: usize,
    max: i32,
    timeout: i32,
    mask: usize,
    mask_size: usize,
) -> Result<usize> {
    let deadline = Deadline::after_milliseconds(timeout);
    with_mask(mask, mask_size, || wait(epoll, events, max, deadline))
}

/// epoll_pwait2(2)
pub fn epoll_pwait2<L: Layout>(
    epoll: i32,
    events: usize,
    max: i32,
    timeout: usize,
    mask: usize,
    mask_size: usize,
) -> Result<usize> {
    let deadline = Deadline::read::<L>(timeout)?;
    with_mask(mask, mask_size, || wait(epoll, events, max, deadline))
}
