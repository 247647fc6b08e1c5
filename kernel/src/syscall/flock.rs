//! Advisory locks.

use super::path::opened;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::file::Whence;
use crate::fs::file_lock::{self, Lock, Owner};
use crate::mm::user::UserPtr;
use crate::task::current;
use alloc::sync::Arc;
use linux_raw_sys::general::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// flock(2)
pub fn flock(fd: i32, operation: u32) -> Result<usize> {
    // Mandatory locks, which never had an effect, are ignored on Linux too.
    if operation & LOCK_MAND != 0 {
        return Ok(0);
    }
    if !matches!(operation & !LOCK_NB, LOCK_SH | LOCK_EX | LOCK_UN) {
        return Err(Errno::EINVAL);
    }
    let file = opened(fd)?;
    let owner = Owner::flock(&file);
    let process = current().process_id();
    let exclusive = operation & !LOCK_NB == LOCK_EX;
    let whole = Lock {
        owner,
        process,
        exclusive,
        first: 0,
        last: u64::MAX,
    };
    match operation & !LOCK_NB {
        LOCK_SH | LOCK_EX => file_lock::acquire(&file, whole, operation & LOCK_NB == 0)?,
        LOCK_UN => file_lock::release(&file, &whole)?,
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// `struct flock` of 64-bit machines.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
pub struct Flock {
    /// F_RDLCK, F_WRLCK, F_UNLCK.
    pub kind: i16,
    /// The origin of `start`: SEEK_*.
    pub whence: i16,
    /// Unused.
    pub pad: u32,
    /// The first byte.
    pub start: i64,
    /// The number of bytes; 0 for all that follow.
    pub len: i64,
    /// The process that holds it.
    pub process: i32,
    /// Unused.
    pub pad2: u32,
}

/// The bytes that a `struct flock` names.
fn range(file: &Arc<File>, flock: &Flock) -> Result<(u64, u64)> {
    let base = match flock.whence as u32 {
        SEEK_SET => 0,
        SEEK_CUR => file.seek(0, Whence::Current)?,
        SEEK_END => file.dentry().inode().attr().size,
        _ => return Err(Errno::EINVAL),
    };
    let start = (base as i64)
        .checked_add(flock.start)
        .ok_or(Errno::EOVERFLOW)?;
    let (first, last) = match flock.len {
        0 => (start, i64::MAX),
        len @ 1.. => (start, start.checked_add(len - 1).ok_or(Errno::EOVERFLOW)?),
        len => (start.checked_add(len).ok_or(Errno::EINVAL)?, start - 1),
    };
    if first < 0 {
        return Err(Errno::EINVAL);
    }
    Ok((
        first as u64,
        if last == i64::MAX {
            u64::MAX
        } else {
            last as u64
        },
    ))
}

/// The record locks of fcntl(2); `None` for any other command.
pub fn fcntl(file: &Arc<File>, fd: i32, command: u32, argument: usize) -> Option<Result<usize>> {
    let own = matches!(command, F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW);
    match command {
        F_GETLK | F_OFD_GETLK => {
            let flock = UserPtr::<Flock>::new(argument);
            let found = flock.read().and_then(|wanted| query(file, own, wanted));
            Some(found.and_then(|found| flock.write(&found)).map(|()| 0))
        }
        F_SETLK | F_OFD_SETLK | F_SETLKW | F_OFD_SETLKW => {
            let wait = matches!(command, F_SETLKW | F_OFD_SETLKW);
            let flock = UserPtr::<Flock>::new(argument).read();
            Some(flock.and_then(|flock| set(file, fd, own, flock, wait)))
        }
        _ => None,
    }
}

fn lock_of(file: &Arc<File>, own: bool, flock: &Flock) -> Result<Lock> {
    if own && flock.process != 0 {
        return Err(Errno::EINVAL);
    }
    let (first, last) = range(file, flock)?;
    let descriptors = Arc::as_ptr(&current().files()) as usize;
    let owner = if own {
        Owner::open_file(file)
    } else {
        Owner::Process(descriptors)
    };
    let process = if own { -1 } else { current().process_id() };
    let exclusive = flock.kind as u32 == F_WRLCK;
    Ok(Lock {
        owner,
        process,
        exclusive,
        first,
        last,
    })
}

/// The lock that conflicts with a given one, or with `own` a lock of the open file itself (OFD);
/// its kind is F_UNLCK if there is none.
///
/// # Errors
/// EINVAL, EOVERFLOW.
pub fn query(file: &Arc<File>, own: bool, mut flock: Flock) -> Result<Flock> {
    let wanted = lock_of(file, own, &flock)?;
    let found = match flock.kind as u32 {
        F_RDLCK | F_WRLCK => file_lock::conflict(file, &wanted),
        // The locks of the open file itself.
        F_UNLCK if own => file_lock::own(file, &wanted),
        _ => return Err(Errno::EINVAL),
    };
    match found {
        None => flock.kind = F_UNLCK as i16,
        Some(held) => {
            flock.kind = if held.exclusive { F_WRLCK } else { F_RDLCK } as i16;
            flock.whence = SEEK_SET as i16;
            flock.start = held.first as i64;
            flock.len = if held.last == u64::MAX {
                0
            } else {
                (held.last - held.first + 1) as i64
            };
            flock.process = held.process;
        }
    }
    Ok(flock)
}

/// Takes or releases a lock.
///
/// # Errors
/// EAGAIN, EBADF, EDEADLK, EINVAL, ENOLCK, EOVERFLOW, ERESTARTSYS.
pub fn set(file: &Arc<File>, fd: i32, own: bool, flock: Flock, wait: bool) -> Result<usize> {
    let wanted = lock_of(file, own, &flock)?;
    match flock.kind as u32 {
        F_UNLCK => file_lock::release(file, &wanted)?,
        F_RDLCK | F_WRLCK => {
            if wanted.exclusive {
                file.check_writable()?
            } else {
                file.check_readable()?
            };
            file_lock::acquire(file, wanted, wait)?;
            // The descriptor may have been closed meanwhile, before the lock existed to be released
            // with it.
            let open = || Some(Arc::as_ptr(&current().files().get(fd).ok()?));
            if !own && open() != Some(Arc::as_ptr(file)) {
                file_lock::release(file, &wanted)?;
                return Err(Errno::EBADF);
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
