//! Control operations of files whose structures differ for 32 bits: record locks, and the list of
//! network interfaces.

use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::SIOCGIFCONF;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::errno::{Errno, Result};
use crate::fs::inode::Kind;
use crate::mm::user::UserPtr;
use crate::net::interface;
use crate::syscall::fd;
use crate::syscall::flock::{self, Flock};
use crate::syscall::path::opened;

/// F_GETLK64, F_SETLK64 and F_SETLKW64, whose structure is that of F_GETLK and its kin for 64-bit
/// programs.
const LOCKS: core::ops::RangeInclusive<u32> = 12..=14;

/// `struct flock`.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct NarrowFlock {
    kind: i16,
    whence: i16,
    start: i32,
    len: i32,
    process: i32,
}

impl NarrowFlock {
    fn to_wide(self) -> Flock {
        Flock {
            kind: self.kind,
            whence: self.whence,
            start: self.start.into(),
            len: self.len.into(),
            process: self.process,
            ..Flock::default()
        }
    }

    /// A length that does not fit is truncated.
    fn of(wide: &Flock) -> Result<Self> {
        Ok(Self {
            kind: wide.kind,
            whence: wide.whence,
            start: wide.start.try_into().map_err(|_| Errno::EOVERFLOW)?,
            len: wide.len.try_into().unwrap_or(i32::MAX),
            process: wide.process,
        })
    }
}

pub fn fcntl64(fd: i32, command: u32, argument: usize) -> Result<usize> {
    let lock = || {
        UserPtr::<NarrowFlock>::new(argument)
            .read()
            .map(NarrowFlock::to_wide)
    };
    match command {
        F_GETLK => {
            let found = flock::query(&opened(fd)?, false, lock()?)?;
            UserPtr::new(argument).write(&NarrowFlock::of(&found)?)?;
            Ok(0)
        }
        F_SETLK | F_SETLKW => flock::set(&opened(fd)?, fd, false, lock()?, command == F_SETLKW),
        command if LOCKS.contains(&command) => {
            fd::fcntl(fd, command - LOCKS.start() + F_GETLK, argument)
        }
        command => fd::fcntl(fd, command, argument),
    }
}

/// fcntl(2), without 64-bit locks.
pub fn fcntl(fd: i32, command: u32, argument: usize) -> Result<usize> {
    match command {
        F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW => Err(Errno::EINVAL),
        command if LOCKS.contains(&command) => Err(Errno::EINVAL),
        command => fcntl64(fd, command, argument),
    }
}

/// `sizeof(struct ifreq)`.
const INTERFACE: usize = 32;

pub fn ioctl(fd: i32, request: u32, argument: usize) -> Result<usize> {
    if request != SIOCGIFCONF || opened(fd)?.dentry().kind() != Kind::Socket {
        return fd::ioctl(fd, request, argument);
    }
    let [room, to] = UserPtr::<[u32; 2]>::new(argument).read()?;
    let len = interface::configuration(room as i32, to as usize, INTERFACE)?;
    UserPtr::new(argument).write(&(len as i32))?;
    Ok(0)
}
