//! Asynchronous I/O (io_setup(2) and its kin), which is executed when it is submitted.

use super::file::{RWF_NOAPPEND, check_rwf, fsync, pieces, sync_written};
use super::layout::{Layout, given};
use super::mlock;
use super::path::opened;
use super::poll::{Deadline, with_mask};
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::aio::{self, Context, Event};
use crate::fs::eventfd::{self, EventFd};
use crate::fs::io::{IoVec, Sink, Source};
use crate::mm::user::UserPtr;
use crate::mm::vma::Flags;
use crate::mm::{AddressSpace, MapRequest, Place, Removed};
use crate::task::current;
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::RWF_APPEND;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Operations (`include/uapi/linux/aio_abi.h`).
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;
/// Flags: the result also goes to an eventfd; a priority is given.
const FLAG_EVENTFD: u32 = 1;
const FLAG_PRIORITY: u32 = 2;
/// More requests than any context has room for.
const MOST: usize = 0x1000_0000 / size_of::<Event>();
/// The offset of the key that io_cancel checks in a request, and its value (`KIOCB_KEY`).
const AT_KEY: usize = 8;
const KEY: u32 = 0;

/// `struct iocb`
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    operation: u16,
    priority: u16,
    fd: i32,
    buffer: usize,
    len: usize,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: i32,
}

fn space() -> Result<Arc<AddressSpace>> {
    current().space().ok_or(Errno::EINVAL)
}

/// io_setup(2)
pub fn io_setup<L: Layout>(count: u32, to: usize) -> Result<usize> {
    if L::words(to)? != [0] || count == 0 {
        return Err(Errno::EINVAL);
    }
    let asked = count as usize;
    if asked > MOST {
        return Err(Errno::EINVAL);
    }
    if asked > aio::MAX {
        return Err(Errno::EAGAIN);
    }
    let (space, len) = (space()?, aio::ring_len(asked));
    if space.locks_new() != Flags::empty() {
        // The ring counts as locked memory, but is not locked: it does not grow (Linux's
        // VM_SPECIAL).
        space
            .check_new_lock(len, false, mlock::limit())
            .map_err(|_| Errno::ENOMEM)?;
    }
    let address = space.map(
        MapRequest::anonymous(Place::Hint(0), len),
        &mut Removed::new(),
    )?;
    let made = aio::create(&space, address, asked).and_then(|()| {
        L::put_words(to, &[address]).inspect_err(|_| _ = aio::destroy(&space, address))
    });
    made.inspect_err(|_| _ = space.unmap(address..address + len, &mut Removed::new()))?;
    Ok(0)
}

/// io_destroy(2)
pub fn io_destroy(context: usize) -> Result<usize> {
    let space = space()?;
    let len = aio::destroy(&space, context)?;
    _ = space.unmap(context..context.saturating_add(len), &mut Removed::new());
    Ok(0)
}

/// io_submit(2)
pub fn io_submit<L: Layout>(context: usize, count: isize, requests: usize) -> Result<usize> {
    let context = aio::find(&*space()?, context)?;
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    let mut done = 0;
    while done < count.min(context.room()) {
        let one = L::words(requests.wrapping_add(done * L::WORD))
            .and_then(|[at]| submit::<L>(&context, at));
        match one {
            Ok(()) => done += 1,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
        cond_resched_killable()?;
    }
    Ok(done)
}

/// Executes one request. Fails if the request is invalid; otherwise its event reports the result.
fn submit<L: Layout>(context: &Context, address: usize) -> Result<()> {
    let request = UserPtr::<Request>::new(address).read()?;
    if request.reserved != 0 || isize::try_from(request.len).is_err() {
        return Err(Errno::EINVAL);
    }
    context.reserve()?;
    let file = opened(request.fd)?;
    let eventfd = (request.flags & FLAG_EVENTFD != 0)
        .then(|| eventfd::of(request.eventfd))
        .transpose()?;
    UserPtr::new(address.wrapping_add(AT_KEY)).write(&KEY)?;
    if request.flags & FLAG_PRIORITY != 0 && request.priority >> 13 > 3 {
        return Err(Errno::EINVAL);
    }
    let result = match request.operation {
        PREAD | PREADV => {
            file.check_readable()?;
            let pieces = request.pieces::<L>(PREADV)?;
            let mut to = Sink::user(&pieces);
            if file.has_places() {
                file.read_at(&mut to, request.position()?)
            } else {
                file.read(&mut to)
            }
        }
        PWRITE | PWRITEV => {
            file.check_writable()?;
            let pieces = request.pieces::<L>(PWRITEV)?;
            let mut from = Source::user(&pieces);
            let done = match request.rw_flags & (RWF_APPEND | RWF_NOAPPEND) {
                _ if !file.has_places() => file.write(&mut from),
                RWF_APPEND => file.append(&mut from, false),
                RWF_NOAPPEND => file.write_over(&mut from, Some(request.position()?)),
                _ => file.write_at(&mut from, request.position()?),
            };
            sync_written(&file, request.rw_flags, done)
        }
        FSYNC | FDSYNC => {
            let unused = [request.buffer, request.len, request.offset as usize];
            if unused != [0; 3] || request.rw_flags != 0 {
                return Err(Errno::EINVAL);
            }
            Ok(fsync(request.fd)?)
        }
        _ => return Err(Errno::EINVAL),
    };
    let result = match result {
        // The call cannot be restarted.
        Err(Errno::ERESTARTSYS | Errno::ERESTARTNOHAND) => Err(Errno::EINTR),
        result => result,
    };
    context.complete(Event {
        data: request.data,
        request: address as u64,
        result: result.map_or_else(|error| error.result() as i64, |count| count as i64),
        second: 0,
    });
    eventfd.as_deref().map(EventFd::signal);
    Ok(())
}

impl Request {
    /// The memory of the transfer; `many` is the operation with several pieces.
    fn pieces<L: Layout>(&self, many: u16) -> Result<Vec<IoVec>> {
        check_rwf(self.rw_flags)?;
        if self.operation == many {
            return pieces::<L>(self.buffer, self.len);
        }
        let mut one = Vec::new();
        one.try_reserve_exact(1).map_err(|_| Errno::ENOMEM)?;
        let piece = IoVec {
            base: self.buffer,
            len: self.len,
        };
        one.push(piece.import()?);
        Ok(one)
    }

    fn position(&self) -> Result<u64> {
        u64::try_from(self.offset).map_err(|_| Errno::EINVAL)
    }
}

/// io_cancel(2): a submitted request is already complete.
pub fn io_cancel(context: usize, request: usize, _result: usize) -> Result<usize> {
    if UserPtr::<u32>::new(request.wrapping_add(AT_KEY)).read()? != KEY {
        return Err(Errno::EINVAL);
    }
    aio::find(&*space()?, context)?;
    Err(Errno::EINVAL)
}

/// io_getevents(2)
pub fn io_getevents<L: Layout>(
    context: usize,
    least: isize,
    most: isize,
    events: usize,
    timeout: usize,
) -> Result<usize> {
    let deadline = deadline::<L>(timeout)?;
    get_events(context, least, most, events, deadline)
}

/// io_pgetevents(2)
pub fn io_pgetevents<L: Layout>(
    context: usize,
    least: isize,
    most: isize,
    events: usize,
    timeout: usize,
    mask: usize,
) -> Result<usize> {
    let deadline = deadline::<L>(timeout)?;
    let [mask, size] = given(mask, L::words)?.unwrap_or_default();
    with_mask(mask, size, || {
        get_events(context, least, most, events, deadline)
    })
}

/// The deadline of a timeout, which need not be valid.
fn deadline<L: Layout>(timeout: usize) -> Result<Deadline> {
    let span = given(timeout, L::time)?;
    Ok(Deadline(span.map(|[seconds, nanoseconds]| {
        let ns = seconds.saturating_mul(1_000_000_000);
        let ns = ns.saturating_add(nanoseconds).max(0) as u64;
        time::now_ticks().saturating_add(time::ns_to_ticks(ns))
    })))
}

fn get_events(
    context: usize,
    least: isize,
    most: isize,
    events: usize,
    deadline: Deadline,
) -> Result<usize> {
    let context = aio::find(&*space()?, context)?;
    if least < 0 || most < least {
        return Err(Errno::EINVAL);
    }
    let events = UserPtr::<Event>::new(events);
    let (mut count, least, most) = (0, least as usize, most as usize);
    loop {
        while count < most {
            let Some(event) = context.take() else { break };
            if let Err(error) = events.add(count).write(&event) {
                context.put_back(event);
                return if count > 0 { Ok(count) } else { Err(error) };
            }
            count += 1;
            cond_resched_killable()?;
        }
        if count >= least {
            return Ok(count);
        }
        match context.wait(deadline.0) {
            Ok(true) => {}
            Ok(false) => return Ok(count),
            Err(_) if count > 0 => return Ok(count),
            Err(Errno::ERESTARTSYS) => return Err(Errno::EINTR),
            Err(error) => return Err(error),
        }
    }
}
