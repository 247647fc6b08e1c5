//! System calls on POSIX message queues.

use linux_raw_sys::general::{O_CREAT, O_NONBLOCK, SIGEV_NONE, SIGEV_SIGNAL, SIGEV_THREAD};

use super::layout::{Layout, given};
use super::path::{UserPath, check_flags, opened};
use super::signal::check_signal;
use super::time::read_time;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::ipc::mqueue::{self, Attributes, COOKIE, NotifyMethod, Queue};
use crate::mm::user::{UserPtr, UserSlice};
use crate::net::netlink;
use crate::task::clock::Deadline;
use crate::task::current;
use alloc::sync::Arc;

/// The words of a `struct mq_attr`: flags, maximum number of messages, maximum size of one, present
/// number of messages, four unused ones.
const ATTRIBUTES: usize = 8;

/// mq_open(2)
pub fn mq_open<L: Layout>(name: usize, flags: u32, mode: u32, attributes: usize) -> Result<usize> {
    let wanted = given(attributes, L::longs::<ATTRIBUTES>)?;
    let name = UserPath::read(name)?;
    // No queue is created unless there is room for a descriptor.
    let fd = current().files().reserve()?;
    let opened = match mqueue::open(&name, flags) {
        Err(Errno::ENOENT) if flags & O_CREAT != 0 && !name.is_empty() => {
            let attributes = wanted.map(|wanted| Attributes {
                messages: wanted[1].max(0) as usize,
                bytes: wanted[2].max(0) as usize,
            });
            mqueue::create(&name, flags, mode, attributes)
        }
        other => other,
    };
    // The descriptor is closed on exec.
    Ok(fd.install(opened?, true) as usize)
}

/// mq_unlink(2)
pub fn mq_unlink(name: usize) -> Result<usize> {
    mqueue::unlink(&UserPath::read(name)?)?;
    Ok(0)
}

fn queue_of(fd: i32) -> Result<(Arc<File>, Arc<Queue>)> {
    let file = opened(fd)?;
    let queue = file.ops_as::<Queue>().ok_or(Errno::EBADF)?;
    Ok((file, queue))
}

/// mq_timedsend(2)
pub fn mq_timedsend<L: Layout>(
    fd: i32,
    from: usize,
    len: usize,
    priority: u32,
    timeout: usize,
) -> Result<usize> {
    let deadline = read_time::<L>(timeout)?.map(Deadline::TimeOfDay);
    if priority >= mqueue::PRIORITIES {
        return Err(Errno::EINVAL);
    }
    let (file, queue) = queue_of(fd)?;
    if !file.flags().writable() {
        return Err(Errno::EBADF);
    }
    if len > queue.attributes().0.bytes {
        return Err(Errno::EMSGSIZE);
    }
    let data = UserPtr::<u8>::new(from).read_vec(len)?;
    queue.send(data, priority, !file.flags().nonblocking(), deadline)?;
    Ok(0)
}

/// mq_timedreceive(2)
pub fn mq_timedreceive<L: Layout>(
    fd: i32,
    to: usize,
    len: usize,
    priority: usize,
    timeout: usize,
) -> Result<usize> {
    let deadline = read_time::<L>(timeout)?.map(Deadline::TimeOfDay);
    let (file, queue) = queue_of(fd)?;
    if !file.flags().readable() {
        return Err(Errno::EBADF);
    }
    let (data, found) = queue.receive(len, !file.flags().nonblocking(), deadline)?;
    UserSlice::new(to, data.len()).copy_out(&data)?;
    UserPtr::new(priority).write_opt(&found)?;
    Ok(data.len())
}

/// mq_notify(2): uses the value, the signal and the kind of notification of `struct sigevent`.
pub fn mq_notify<L: Layout>(fd: i32, event: usize) -> Result<usize> {
    let event = given(event, L::event)?;
    let method = match event {
        None => None,
        Some([value, how, _]) => Some(match (how as u32, (how >> 32) as u32) {
            (_, SIGEV_NONE) => NotifyMethod::Nothing,
            (number, SIGEV_SIGNAL) => {
                check_signal(number)?;
                NotifyMethod::Signal(number, value)
            }
            // The C library starts the thread when it reads the bytes of `value` from the socket.
            (socket, SIGEV_THREAD) => {
                let cookie = UserPtr::<[u8; COOKIE]>::new(value as usize).read()?;
                let socket = opened(socket as i32)?;
                netlink::check(&socket)?;
                NotifyMethod::Socket(socket, cookie)
            }
            _ => return Err(Errno::EINVAL),
        }),
    };
    let (_, queue) = queue_of(fd)?;
    match method {
        None => queue.cancel_notify(),
        Some(method) => queue.notify(method)?,
    }
    Ok(0)
}

/// mq_getsetattr(2)
pub fn mq_getsetattr<L: Layout>(fd: i32, new: usize, old: usize) -> Result<usize> {
    let new = given(new, L::longs::<ATTRIBUTES>)?;
    if let Some(new) = new {
        check_flags(new[0] as u32, O_NONBLOCK)?;
    }
    let (file, queue) = queue_of(fd)?;
    let (attributes, count) = queue.attributes();
    let flags = file.flags().0;
    if let Some(new) = new {
        file.set_flags(O_NONBLOCK, new[0] as u32);
    }
    let shown = [
        (flags & O_NONBLOCK) as usize,
        attributes.messages,
        attributes.bytes,
        count,
    ];
    let mut raw = [0; ATTRIBUTES];
    raw[..4].copy_from_slice(&shown);
    given(old, |old| L::put_words(old, &raw))?;
    Ok(0)
}
