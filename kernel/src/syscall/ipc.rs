//! System calls of System V IPC.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general::{CAP_SYS_RESOURCE, RLIMIT_AS};
use zerocopy::IntoBytes;

use super::ipc_layout::{IpcLayout, QueueStatus, SegmentStatus, SetStatus};
use super::layout::{Layout, Native, given};
use super::memory::own_space;
use super::mlock;
use super::time::nanoseconds;
use crate::errno::{Errno, Result};
use crate::ipc::Object;
use crate::ipc::registry::{READ, WRITE};
use crate::ipc::sysv_msg::{self, Message, QUEUES, Queue, Wanted};
use crate::ipc::sysv_sem::{self, Operation, SETS, Set};
use crate::ipc::sysv_shm::{self, Attachment, SEGMENTS, Segment};
use crate::mm::user::{UserPtr, UserSlice};
use crate::mm::vma::{Flags, Label, Rights, Source};
use crate::mm::{AddressSpace, MapRequest, PAGE_SIZE, Place, Removed, page_up};
use crate::task::sched::cond_resched;
use crate::task::{self, clock};

/// Commands of all kinds (include/uapi/linux/ipc.h).
const IPC_RMID: u32 = 0;
const IPC_SET: u32 = 1;
const IPC_STAT: u32 = 2;
const IPC_INFO: u32 = 3;
const IPC_NOWAIT: u32 = 0o4000;

/// shmat(2)'s flags (include/uapi/linux/shm.h).
const SHM_RDONLY: u32 = 0o10000;
const SHM_RND: u32 = 0o20000;
const SHM_REMAP: u32 = 0o40000;
const SHM_EXEC: u32 = 0o100000;
/// shmctl(2)'s commands.
const SHM_LOCK: u32 = 11;
const SHM_UNLOCK: u32 = 12;
const SHM_STAT: u32 = 13;
const SHM_INFO: u32 = 14;
const SHM_STAT_ANY: u32 = 15;

/// shmget(2)
pub fn shmget(key: i32, size: usize, flags: u32) -> Result<usize> {
    sysv_shm::get(key, size, flags)
}

/// shmat(2)
pub fn shmat<L: IpcLayout>(number: i32, address: usize, flags: u32) -> Result<usize> {
    let segment = SEGMENTS.by_number(number)?;
    let place = match address {
        0 if flags & SHM_REMAP != 0 => return Err(Errno::EINVAL),
        0 => Place::Hint(0),
        _ if !address.is_multiple_of(PAGE_SIZE) && flags & SHM_RND == 0 => {
            return Err(Errno::EINVAL);
        }
        _ => match rounded::<L>(address, flags) {
            0 if flags & SHM_REMAP != 0 => return Err(Errno::EINVAL),
            start if flags & SHM_REMAP != 0 => Place::Fixed(start),
            start => Place::Free(start),
        },
    };
    let mut rights = Rights::READ;
    let mut wanted = READ;
    if flags & SHM_RDONLY == 0 {
        rights = rights.union(Rights::WRITE);
        wanted |= WRITE;
    }
    if flags & SHM_EXEC != 0 {
        rights = rights.union(Rights::EXECUTE);
        wanted |= 1;
    }
    segment.with_header(|header| header.check(wanted))?;
    let behaviour = Flags::SHARED.with(Flags::NEVER_WRITE, flags & SHM_RDONLY != 0);
    let mut request = MapRequest {
        place,
        len: segment.size,
        rights,
        flags: behaviour,
        source: Source::File {
            mapping: segment.attach()?,
            offset: 0,
        },
        label: Label::None,
        limit: task::rlimit(RLIMIT_AS),
    };
    let (mut gone, len) = (Removed::new(), page_up(segment.size));
    let space = own_space()?;
    let mut locked = space.locks_new();
    if locked != Flags::empty() {
        let checked = space.check_new_lock(len, false, mlock::limit());
        checked.map_err(|error| match place {
            // Another mapping is there.
            Place::Free(start) if !is_free(&space, start, len) => Errno::EINVAL,
            _ => error,
        })?;
        locked = locked.union(Flags::LOCKED);
    }
    request.flags = behaviour.union(locked);
    let start = space.map(request, &mut gone).map_err(|error| match error {
        // Another mapping is there.
        Errno::EEXIST => Errno::EINVAL,
        error => error,
    })?;
    segment.used(true);
    mlock::populate_new(start..start + len, locked);
    Ok(start)
}

/// The address of a segment, which SHM_RND rounds down.
fn rounded<L: IpcLayout>(address: usize, flags: u32) -> usize {
    let step = if flags & SHM_RND == 0 {
        PAGE_SIZE
    } else {
        L::ROUNDING
    };
    address / step * step
}

/// Whether nothing is mapped in `len` bytes at `start`.
fn is_free(space: &AddressSpace, start: usize, len: usize) -> bool {
    let next = space.vma_after(start);
    next.is_none_or(|vma| vma.start >= start.saturating_add(len))
}

/// shmdt(2): unmaps the remaining VMAs of the attachment that one shmat(2) made at the address,
/// where they have not been moved.
pub fn shmdt(address: usize) -> Result<usize> {
    let space = task::current().space().ok_or(Errno::EINVAL)?;
    let mut detached: Option<Arc<Attachment>> = None;
    let mut next = address;
    while let Some(vma) = space.vma_after(next) {
        next = vma.end;
        if let Some(first) = &detached
            && vma.end - address > page_up(first.segment().size)
        {
            break;
        }
        cond_resched();
        let Source::File { mapping, offset } = &vma.source else {
            continue;
        };
        if vma.start.wrapping_sub(*offset) != address {
            continue;
        }
        let part = sysv_shm::of(mapping).filter(|part| {
            detached
                .as_ref()
                .is_none_or(|first| Arc::ptr_eq(first, part))
        });
        if part.is_some() {
            // A sealed attachment is kept, as on Linux.
            match space.unmap(vma.range(), &mut Removed::new()) {
                Ok(()) | Err(Errno::EPERM) => detached = part,
                Err(error) => return Err(error),
            }
        }
    }
    drop(space);
    let attachment = detached.ok_or(Errno::EINVAL)?;
    attachment.segment().used(false);
    Ok(0)
}

fn segment_status(segment: &Segment) -> SegmentStatus {
    let (header, times, users) = segment.status();
    SegmentStatus {
        header,
        size: segment.size as u64,
        times: [times.attached, times.detached, times.changed],
        users,
        attached: segment.attached() as u64,
        unused: [0; 2],
    }
}

/// shmctl(2)
pub fn shmctl<L: IpcLayout>(number: i32, command: u32, to: usize) -> Result<usize> {
    if number < 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        IPC_INFO => {
            let most = SEGMENTS.most.load(Relaxed);
            // `struct shminfo64`: max, min, mni, seg, all, and four unused words.
            let mut limits = [0; 9];
            limits[..5].copy_from_slice(&[
                sysv_shm::LARGEST.load(Relaxed).min(L::LARGEST_SHOWN),
                1,
                most,
                most,
                sysv_shm::MOST_PAGES.load(Relaxed),
            ]);
            L::put_words(to, &limits)?;
            Ok(SEGMENTS.extent().1)
        }
        SHM_INFO => {
            let (count, last) = SEGMENTS.extent();
            let pages = segments_pages();
            L::put_words(to, &[count, pages, pages, 0, 0, 0])?;
            Ok(last)
        }
        SHM_STAT | SHM_STAT_ANY => {
            let (segment, number) = SEGMENTS.by_place(number as usize)?;
            if command == SHM_STAT {
                segment.with_header(|header| header.check(READ))?;
            }
            L::put_segment(to, &segment_status(&segment))?;
            Ok(number)
        }
        IPC_STAT => {
            let segment = SEGMENTS.by_number(number)?;
            segment.with_header(|header| header.check(READ))?;
            L::put_segment(to, &segment_status(&segment))?;
            Ok(0)
        }
        IPC_SET => {
            let new = L::segment_owner(to)?;
            let segment = SEGMENTS.by_number(number)?;
            segment.change(&new)?;
            Ok(0)
        }
        IPC_RMID => {
            let segment = SEGMENTS.by_number(number)?;
            sysv_shm::remove(number, &segment)?;
            Ok(0)
        }
        SHM_LOCK => SEGMENTS.by_number(number)?.lock().map(|()| 0),
        SHM_UNLOCK => SEGMENTS.by_number(number)?.unlock().map(|()| 0),
        _ => Err(Errno::EINVAL),
    }
}

fn segments_pages() -> usize {
    let mut pages = 0;
    SEGMENTS.for_each(|segment| pages += segment.size.div_ceil(PAGE_SIZE));
    pages
}

/// msgrcv(2)'s flags (include/uapi/linux/msg.h).
const MSG_NOERROR: u32 = 0o10000;
const MSG_EXCEPT: u32 = 0o20000;
const MSG_COPY: u32 = 0o40000;
/// msgctl(2)'s commands.
const MSG_STAT: u32 = 11;
const MSG_INFO: u32 = 12;
const MSG_STAT_ANY: u32 = 13;

fn queue_status(queue: &Queue) -> QueueStatus {
    let (header, status) = queue.status();
    QueueStatus {
        header,
        times: status.times,
        bytes: status.bytes as u64,
        count: status.count as u64,
        capacity: status.capacity as u64,
        users: status.users,
        unused: [0; 2],
    }
}

/// msgget(2)
pub fn msgget(key: i32, flags: u32) -> Result<usize> {
    sysv_msg::get(key, flags)
}

/// msgsnd(2)
pub fn msgsnd<L: Layout>(number: i32, from: usize, len: usize, flags: u32) -> Result<usize> {
    let [kind] = L::longs(from)?;
    if kind < 1 || len > sysv_msg::LONGEST.load(Relaxed) {
        return Err(Errno::EINVAL);
    }
    let data = UserPtr::<u8>::new(from + L::WORD).read_vec(len)?;
    let queue = QUEUES.by_number(number)?;
    queue.send(Message::new(kind, data)?, flags & IPC_NOWAIT == 0)?;
    Ok(0)
}

/// msgrcv(2)
pub fn msgrcv<L: Layout>(
    number: i32,
    to: usize,
    len: usize,
    kind: i64,
    flags: u32,
) -> Result<usize> {
    if len > isize::MAX as usize {
        return Err(Errno::EINVAL);
    }
    let wanted = if flags & MSG_COPY != 0 {
        if flags & MSG_EXCEPT != 0 || flags & IPC_NOWAIT == 0 {
            return Err(Errno::EINVAL);
        }
        // Linux reads the memory, of which nothing is used, into the message that it returns.
        drop(UserPtr::<u8>::new(to).read_vec(len.min(sysv_msg::LONGEST.load(Relaxed)))?);
        Wanted::CopyOf(kind as usize)
    } else {
        match kind {
            0 => Wanted::Any,
            1.. if flags & MSG_EXCEPT != 0 => Wanted::Except(kind),
            1.. => Wanted::Kind(kind),
            _ => Wanted::Lowest(kind.checked_neg().unwrap_or(i64::MAX)),
        }
    };
    let queue = QUEUES.by_number(number)?;
    let waits = flags & IPC_NOWAIT == 0;
    let found = queue.receive(wanted, len, flags & MSG_NOERROR != 0, waits)?;
    let count = found.data.len().min(len);
    L::put_words(to, &[found.kind as usize])?;
    UserSlice::new(to + L::WORD, count).copy_out(&found.data[..count])?;
    Ok(count)
}

/// msgctl(2)
pub fn msgctl<L: IpcLayout>(number: i32, command: u32, to: usize) -> Result<usize> {
    if number < 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        IPC_INFO | MSG_INFO => {
            let (count, last) = QUEUES.extent();
            let (mut messages, mut bytes) = (0, 0);
            QUEUES.for_each(|queue| {
                let (_, status) = queue.status();
                messages += status.count as i32;
                bytes += status.bytes as i32;
            });
            // `struct msginfo`: pool, map, max, mnb, mni, ssz, tql, seg.
            let limits = [&sysv_msg::LONGEST, &sysv_msg::CAPACITY, &QUEUES.most];
            let [longest, capacity, most] = limits.map(|limit| limit.load(Relaxed) as i32);
            let [pool, map, tql] = match command {
                MSG_INFO => [count as i32, messages, bytes],
                _ => [most.wrapping_mul(capacity) / 1024, capacity, capacity],
            };
            UserPtr::new(to).write(&[pool, map, longest, capacity, most, 16, tql, 0xffff])?;
            Ok(last)
        }
        MSG_STAT | MSG_STAT_ANY => {
            let (queue, number) = QUEUES.by_place(number as usize)?;
            if command == MSG_STAT {
                queue.with_header(|header| header.check(READ))?;
            }
            L::put_queue(to, &queue_status(&queue))?;
            Ok(number)
        }
        IPC_STAT => {
            let queue = QUEUES.by_number(number)?;
            queue.with_header(|header| header.check(READ))?;
            L::put_queue(to, &queue_status(&queue))?;
            Ok(0)
        }
        IPC_SET => {
            let (new, capacity) = L::queue_owner(to)?;
            let queue = QUEUES.by_number(number)?;
            if capacity > sysv_msg::CAPACITY.load(Relaxed) {
                task::require(CAP_SYS_RESOURCE)?;
            }
            queue.change(&new, capacity)?;
            Ok(0)
        }
        IPC_RMID => {
            let queue = QUEUES.by_number(number)?;
            sysv_msg::remove(number, &queue)?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// semctl(2)'s commands (include/uapi/linux/sem.h).
const GETPID: u32 = 11;
const GETVAL: u32 = 12;
const GETALL: u32 = 13;
const GETNCNT: u32 = 14;
const GETZCNT: u32 = 15;
const SETVAL: u32 = 16;
const SETALL: u32 = 17;
const SEM_STAT: u32 = 18;
const SEM_INFO: u32 = 19;
const SEM_STAT_ANY: u32 = 20;

fn set_status(set: &Set) -> SetStatus {
    let (header, times, count) = set.status();
    SetStatus {
        header,
        times,
        count: count as u64,
        unused: [0; 2],
    }
}

/// semget(2)
pub fn semget(key: i32, count: i32, flags: u32) -> Result<usize> {
    sysv_sem::get(key, count, flags)
}

/// semop(2)
pub fn semop(number: i32, operations: usize, count: u32) -> Result<usize> {
    semtimedop::<Native>(number, operations, count, 0)
}

/// semtimedop(2)
pub fn semtimedop<L: Layout>(
    number: i32,
    operations: usize,
    count: u32,
    timeout: usize,
) -> Result<usize> {
    let timeout = given(timeout, L::time)?;
    if count > sysv_sem::MOST_OPERATIONS.load(Relaxed) as u32 {
        return Err(Errno::E2BIG);
    }
    if count == 0 {
        return Err(Errno::EINVAL);
    }
    let operations = UserPtr::<Operation>::new(operations).read_vec(count as usize)?;
    if number < 0 {
        return Err(Errno::EINVAL);
    }
    let deadline = timeout
        .map(nanoseconds)
        .transpose()?
        .map(clock::deadline_in);
    SETS.by_number(number)?.operate(operations, deadline)?;
    Ok(0)
}

/// semctl(2)
pub fn semctl<L: IpcLayout>(number: i32, at: i32, command: u32, argument: usize) -> Result<usize> {
    if number < 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        IPC_INFO | SEM_INFO => return semaphore_limits(command, argument),
        SEM_STAT | SEM_STAT_ANY => {
            let (set, number) = SETS.by_place(number as usize)?;
            if command == SEM_STAT {
                set.with_header(|header| header.check(READ))?;
            }
            L::put_set(argument, &set_status(&set))?;
            return Ok(number);
        }
        IPC_SET => {
            let new = L::set_owner(argument)?;
            SETS.by_number(number)?.change(&new)?;
            return Ok(0);
        }
        _ => {}
    }
    let set = SETS.by_number(number)?;
    let check = |wanted| set.with_header(|header| header.check(wanted));
    let one = || {
        check(READ)?;
        set.semaphore(usize::try_from(at).map_err(|_| Errno::EINVAL)?)
    };
    match command {
        IPC_STAT => {
            check(READ)?;
            L::put_set(argument, &set_status(&set))?;
        }
        IPC_RMID => {
            sysv_sem::remove(number, &set)?;
        }
        GETVAL => return Ok(one()?.value as usize),
        GETPID => return Ok(one()?.user as usize),
        GETNCNT => return Ok(one()?.waiting[0] as usize),
        GETZCNT => return Ok(one()?.waiting[1] as usize),
        GETALL => {
            check(READ)?;
            let values = set.values()?;
            UserSlice::new(argument, 2 * values.len()).copy_out(values.as_bytes())?;
        }
        // A negative index is invalid.
        SETVAL => set.set_values(at as usize, &[argument as i32])?,
        SETALL => {
            check(WRITE)?;
            let given = UserPtr::<u16>::new(argument).read_vec(set.len())?;
            let mut values = Vec::new();
            values
                .try_reserve_exact(given.len())
                .map_err(|_| Errno::ENOMEM)?;
            values.extend(given.iter().map(|&value| value as i32));
            set.set_values(0, &values)?;
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// `struct seminfo`: map, mni, mns, mnu, msl, opm, ume, usz, vmx, aem.
fn semaphore_limits(command: u32, to: usize) -> Result<usize> {
    let (count, last) = SETS.extent();
    let mut semaphores = 0;
    SETS.for_each(|set| semaphores += set.len() as i32);
    let [largest, all, operations, most] = sysv_sem::limits();
    let (size, undone) = match command {
        SEM_INFO => (count as i32, semaphores),
        _ => (20, sysv_sem::HIGHEST),
    };
    let highest = sysv_sem::HIGHEST;
    UserPtr::new(to).write(&[
        all, most, all, all, largest, operations, operations, size, highest, undone,
    ])?;
    Ok(last)
}
