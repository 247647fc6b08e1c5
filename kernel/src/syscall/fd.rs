//! Descriptors: duplicates, flags, and control operations of files.

use super::path::{check_flags, file, opened};
use super::{file_control, flock};
use crate::errno::{Errno, Result};
use crate::fs::inode::Kind;
use crate::fs::pipe::End;
use crate::fs::tmpfs::Node;
use crate::fs::{File, dnotify, lease, perm, sigio};
use crate::mm::PAGE_SIZE;
use crate::mm::user::UserPtr;
use crate::task::current;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::FS_IOC_SETFLAGS;
use linux_raw_sys::ioctl::{
    FIGETBSZ, FIOASYNC, FIOCLEX, FIOGETOWN, FIONBIO, FIONCLEX, FIONREAD, FIOQSIZE, FIOSETOWN,
    SIOCGPGRP, SIOCSPGRP,
};

/// dup(2)
pub fn dup(fd: i32) -> Result<usize> {
    Ok(current().files().add(file(fd)?, false)? as usize)
}

/// dup3(2)
pub fn dup3(old: i32, new: i32, flags: u32) -> Result<usize> {
    check_flags(flags, O_CLOEXEC)?;
    if old == new {
        return Err(Errno::EINVAL);
    }
    let file = file(old)?;
    if new as usize >= current().open_files_limit() {
        return Err(Errno::EBADF);
    }
    let set = current()
        .files()
        .set(new as usize, file, flags & O_CLOEXEC != 0);
    match set {
        // The number is above `nr_open`.
        Err(Errno::EMFILE) => Err(Errno::EBADF),
        set => set.map(|_| new as usize),
    }
}

/// The commands for which `fcntl` finds a handler.
const COMMANDS: [u32; 30] = [
    F_DUPFD,
    F_GETFD,
    F_SETFD,
    F_GETFL,
    F_SETFL,
    F_GETLK,
    F_SETLK,
    F_SETLKW,
    F_SETOWN,
    F_GETOWN,
    F_SETSIG,
    F_GETSIG,
    F_SETOWN_EX,
    F_GETOWN_EX,
    F_GETOWNER_UIDS,
    F_OFD_GETLK,
    F_OFD_SETLK,
    F_OFD_SETLKW,
    F_SETLEASE,
    F_GETLEASE,
    F_NOTIFY,
    F_DUPFD_QUERY,
    F_CREATED_QUERY,
    F_DUPFD_CLOEXEC,
    F_SETPIPE_SZ,
    F_GETPIPE_SZ,
    F_ADD_SEALS,
    F_GET_SEALS,
    F_GET_RW_HINT,
    F_SET_RW_HINT,
];
const _: () = {
    let mut numbers = [0; COMMANDS.len()];
    let mut at = 0;
    while at < COMMANDS.len() {
        numbers[at] = COMMANDS[at] as u64;
        at += 1;
    }
    assert!(
        abi::options::FCNTL.is_handled_by(&numbers),
        "abi and fcntl disagree"
    );
};

/// fcntl(2)
pub fn fcntl(fd: i32, command: u32, argument: usize) -> Result<usize> {
    let file = file(fd)?;
    let files = current().files();
    let limit = current().open_files_limit();
    if file.flags().has(O_PATH)
        && !matches!(
            command,
            F_DUPFD
                | F_DUPFD_CLOEXEC
                | F_DUPFD_QUERY
                | F_CREATED_QUERY
                | F_GETFD
                | F_SETFD
                | F_GETFL
        )
    {
        return Err(Errno::EBADF);
    }
    match command {
        F_DUPFD | F_DUPFD_CLOEXEC => {
            if argument >= limit {
                return Err(Errno::EINVAL);
            }
            Ok(files.add_from(argument, limit, file, command == F_DUPFD_CLOEXEC)? as usize)
        }
        F_GETFD => Ok(files.close_on_exec(fd)?.into()),
        F_SETFD => {
            files.set_close_on_exec(fd, argument as u32 & FD_CLOEXEC != 0)?;
            Ok(0)
        }
        F_GETFL => Ok(file.flags().visible() as usize),
        F_SETFL => {
            set_flags(&file, fd, argument as u32)?;
            Ok(0)
        }
        F_SETPIPE_SZ => file.ops_as::<End>().ok_or(Errno::EBADF)?.resize(argument),
        F_GETPIPE_SZ => Ok(file.ops_as::<End>().ok_or(Errno::EBADF)?.size()),
        F_ADD_SEALS => {
            file.check_writable().map_err(|_| Errno::EPERM)?;
            file.ops_as::<Node>()
                .ok_or(Errno::EINVAL)?
                .seal(argument as u32)?;
            Ok(0)
        }
        F_GET_SEALS => Ok(file.ops_as::<Node>().ok_or(Errno::EINVAL)?.data()?.seals() as usize),
        F_GET_RW_HINT => {
            let hint = file.path().inode().write_hint();
            let hint = hint.map_or(0, |hint| hint.load(Relaxed));
            UserPtr::new(argument).write(&u64::from(hint))?;
            Ok(0)
        }
        F_SET_RW_HINT => {
            perm::check_flags(file.path(), file.dentry(), FS_IMMUTABLE_FL)?;
            let wanted = UserPtr::<u64>::new(argument).read()?;
            let hint = file.path().inode().write_hint().ok_or(Errno::EINVAL)?;
            if wanted > RWH_WRITE_LIFE_EXTREME.into() {
                return Err(Errno::EINVAL);
            }
            hint.store(wanted as u8, Relaxed);
            Ok(0)
        }
        F_SETLEASE => {
            lease::set(&file, fd, argument as u32)?;
            Ok(0)
        }
        F_NOTIFY => {
            dnotify::watch(&file, fd, argument as u32)?;
            Ok(0)
        }
        F_DUPFD_QUERY => Ok(Arc::ptr_eq(&file, &self::file(argument as i32)?).into()),
        F_CREATED_QUERY => Ok(file.flags().created().into()),
        F_GETLEASE => Ok(lease::get(&file) as usize),
        _ => flock::fcntl(&file, fd, command, argument)
            .or_else(|| owner(&file, command, argument))
            .unwrap_or(Err(Errno::EINVAL)),
    }
}

/// Changes the flags of an open file as F_SETFL does; signals report the descriptor `fd`.
fn set_flags(file: &Arc<File>, fd: i32, flags: u32) -> Result<()> {
    let changed = file.flags().0 ^ flags;
    if changed & O_APPEND != 0 {
        perm::check_flags(file.path(), file.dentry(), FS_APPEND_FL)?;
    }
    if changed & flags & O_NOATIME != 0 {
        perm::owner(file.dentry())?;
    }
    // In a pipe, O_DIRECT enables packets.
    let can_direct = file.dentry().kind() == Kind::Fifo || file.ops().has_direct(file.path());
    if flags & O_DIRECT != 0 && !can_direct {
        return Err(Errno::EINVAL);
    }
    // O_ASYNC is unchanged if the file cannot send signals.
    set_async(file, fd, flags & FASYNC != 0)?;
    file.set_flags(O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME, flags);
    Ok(())
}

/// Sets or clears O_ASYNC; returns the resulting state.
fn set_async(file: &Arc<File>, fd: i32, on: bool) -> Result<bool> {
    let is_so = file.flags().has(FASYNC) == on;
    if is_so || !file.ops().has_async() {
        return Ok(is_so);
    }
    sigio::watch(file, fd, on)?;
    Ok(true)
}

/// The commands of fcntl(2) that choose the receiver of signals; `None` for any other.
fn owner(file: &Arc<File>, command: u32, argument: usize) -> Option<Result<usize>> {
    Some(match command {
        F_SETOWN => set_owner(file, argument as i32),
        F_GETOWN => sigio::owner(file).map(|owner| match owner.kind {
            F_OWNER_PGRP => owner.id().wrapping_neg() as usize,
            _ => owner.id() as usize,
        }),
        F_SETOWN_EX => UserPtr::<[i32; 2]>::new(argument)
            .read()
            .and_then(|[kind, id]| sigio::set_owner(file, kind as u32, id))
            .map(|()| 0),
        F_GETOWN_EX => sigio::owner(file)
            .and_then(|owner| UserPtr::new(argument).write(&[owner.kind as i32, owner.id()]))
            .map(|()| 0),
        F_GETOWNER_UIDS => sigio::owner(file)
            .and_then(|owner| UserPtr::new(argument).write(&owner.users))
            .map(|()| 0),
        F_SETSIG => sigio::set_signal(file, argument).map(|()| 0),
        F_GETSIG => sigio::owner(file).map(|owner| owner.signal as usize),
        _ => return None,
    })
}

/// F_SETOWN: a process, or a process group if negative.
fn set_owner(file: &File, who: i32) -> Result<usize> {
    if who >= 0 {
        sigio::set_owner(file, F_OWNER_PID, who)?;
    } else {
        let group = who.checked_neg().ok_or(Errno::EINVAL)?;
        sigio::set_owner(file, F_OWNER_PGRP, group)?;
    }
    Ok(0)
}

/// ioctl(2)
pub fn ioctl(fd: i32, request: u32, argument: usize) -> Result<usize> {
    let file = opened(fd)?;
    if request == FS_IOC_SETFLAGS {
        // Linux reads them for files that have none as well.
        UserPtr::<u32>::new(argument).read()?;
    }
    match request {
        FIOCLEX => current().files().set_close_on_exec(fd, true)?,
        FIONCLEX => current().files().set_close_on_exec(fd, false)?,
        FIONBIO => {
            let on = UserPtr::<i32>::new(argument).read()? != 0;
            file.set_flags(O_NONBLOCK, if on { O_NONBLOCK } else { 0 });
        }
        FIOASYNC => {
            let on = UserPtr::<i32>::new(argument).read()? != 0;
            if !set_async(&file, fd, on)? {
                return Err(Errno::ENOTTY);
            }
        }
        FIOSETOWN | SIOCSPGRP if file.dentry().kind() == Kind::Socket => {
            return set_owner(&file, UserPtr::new(argument).read()?);
        }
        FIOGETOWN | SIOCGPGRP if file.dentry().kind() == Kind::Socket => {
            let owner = fcntl(fd, F_GETOWN, 0)?;
            UserPtr::new(argument).write(&(owner as i32))?;
        }
        FIONREAD if file.dentry().kind() == Kind::Regular => {
            let left = file
                .dentry()
                .inode()
                .attr()
                .size
                .saturating_sub(file.seek(0, crate::fs::file::Whence::Current)?);
            UserPtr::new(argument).write(&(left as i32))?;
        }
        FIGETBSZ => UserPtr::new(argument).write(&block_size(&file))?,
        FIOQSIZE if has_size(file.dentry().kind()) => {
            let bytes = file.dentry().inode().attr().blocks * 512;
            UserPtr::new(argument).write(&bytes)?;
        }
        FIOQSIZE => return Err(Errno::ENOTTY),
        _ => {
            return file_control::refuse(&file, request, argument)
                .unwrap_or_else(|| file.ops().ioctl(&file, request, argument));
        }
    }
    Ok(0)
}

/// Whether FIOQSIZE supports such files.
fn has_size(kind: Kind) -> bool {
    matches!(kind, Kind::Regular | Kind::Directory | Kind::Symlink)
}

/// The block size of a file's file system (`s_blocksize`).
fn block_size(file: &File) -> i32 {
    let magic = file.path().mount().map(|mount| mount.fs().stat().magic);
    if [PROC_SUPER_MAGIC, DEVPTS_SUPER_MAGIC]
        .map(|magic| Some(magic.into()))
        .contains(&magic)
    {
        1024
    } else {
        PAGE_SIZE as i32
    }
}
