//! File system calls that 64-bit programs know by another name, and calls with 64-bit offsets.

use linux_raw_sys::general::*;

use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::user::UserPtr;
use crate::syscall::layout::{Compat, Layout, given};
use crate::syscall::path::file as file_of;
use crate::syscall::poll::{Deadline, poll_until};
use crate::syscall::{dir, epoll, fd, file, inotify, mmap, pipe, poll as waiting, stat};

/// A 64-bit number from the two registers in which it is passed.
fn join(low: u32, high: u32) -> i64 {
    (u64::from(high) << 32 | u64::from(low)) as i64
}

pub fn open(path: usize, flags: u32, mode: u32) -> Result<usize> {
    file::openat(AT_FDCWD, path, flags, mode)
}

pub fn creat(path: usize, mode: u32) -> Result<usize> {
    open(path, O_CREAT | O_WRONLY | O_TRUNC, mode)
}

pub fn link(old: usize, new: usize) -> Result<usize> {
    dir::linkat(AT_FDCWD, old, AT_FDCWD, new, 0)
}

pub fn unlink(path: usize) -> Result<usize> {
    dir::unlinkat(AT_FDCWD, path, 0)
}

pub fn rmdir(path: usize) -> Result<usize> {
    dir::unlinkat(AT_FDCWD, path, AT_REMOVEDIR)
}

pub fn mkdir(path: usize, mode: u32) -> Result<usize> {
    dir::mkdirat(AT_FDCWD, path, mode)
}

pub fn mknod(path: usize, mode: u32, device: u32) -> Result<usize> {
    dir::mknodat(AT_FDCWD, path, mode, device)
}

pub fn rename(old: usize, new: usize) -> Result<usize> {
    dir::renameat(AT_FDCWD, old, AT_FDCWD, new)
}

pub fn symlink(target: usize, path: usize) -> Result<usize> {
    dir::symlinkat(target, AT_FDCWD, path)
}

pub fn readlink(path: usize, to: usize, len: i32) -> Result<usize> {
    dir::readlinkat(AT_FDCWD, path, to, len)
}

pub fn chmod(path: usize, mode: u32) -> Result<usize> {
    stat::fchmodat(AT_FDCWD, path, mode)
}

pub fn chown32(path: usize, user: u32, group: u32) -> Result<usize> {
    stat::fchownat(AT_FDCWD, path, user, group, 0)
}

pub fn lchown32(path: usize, user: u32, group: u32) -> Result<usize> {
    stat::fchownat(AT_FDCWD, path, user, group, AT_SYMLINK_NOFOLLOW)
}

pub fn access(path: usize, mode: u32) -> Result<usize> {
    stat::faccessat(AT_FDCWD, path, mode)
}

pub fn dup2(old: i32, new: i32) -> Result<usize> {
    if old != new {
        return fd::dup3(old, new, 0);
    }
    file_of(old)?;
    Ok(new as usize)
}

pub fn pipe(to: usize) -> Result<usize> {
    pipe::pipe2(to, 0)
}

pub fn eventfd(count: u32) -> Result<usize> {
    pipe::eventfd2(count, 0)
}

pub fn inotify_init() -> Result<usize> {
    inotify::inotify_init1(0)
}

pub fn epoll_create(size: i32) -> Result<usize> {
    if size <= 0 {
        return Err(Errno::EINVAL);
    }
    epoll::epoll_create1(0)
}

pub fn epoll_wait(fd: i32, events: usize, count: i32, timeout: i32) -> Result<usize> {
    epoll::epoll_pwait(fd, events, count, timeout, 0, 0)
}

pub fn lseek(fd: i32, offset: i32, whence: u32) -> Result<usize> {
    // As on Linux, an offset that does not fit is truncated by the program's register.
    file::lseek(fd, offset.into(), whence)
}

pub fn llseek(fd: i32, high: u32, low: u32, to: usize, whence: u32) -> Result<usize> {
    let position = file::lseek(fd, join(low, high), whence)?;
    UserPtr::new(to).write(&(position as u64))?;
    Ok(0)
}

pub fn pread64(fd: i32, to: usize, len: usize, _pair: u32, low: u32, high: u32) -> Result<usize> {
    file::pread64(fd, to, len, join(low, high))
}

pub fn pwrite64(
    fd: i32,
    from: usize,
    len: usize,
    _pair: u32,
    low: u32,
    high: u32,
) -> Result<usize> {
    file::pwrite64(fd, from, len, join(low, high))
}

pub fn truncate(path: usize, len: i32) -> Result<usize> {
    file::truncate(path, len.into())
}

pub fn ftruncate(fd: i32, len: i32) -> Result<usize> {
    file::ftruncate(fd, len.into())
}

pub fn truncate64(path: usize, _pair: u32, low: u32, high: u32) -> Result<usize> {
    file::truncate(path, join(low, high))
}

pub fn ftruncate64(fd: i32, _pair: u32, low: u32, high: u32) -> Result<usize> {
    file::ftruncate(fd, join(low, high))
}

pub fn fallocate(
    fd: i32,
    mode: u32,
    low: u32,
    high: u32,
    len_low: u32,
    len_high: u32,
) -> Result<usize> {
    file::fallocate(fd, mode, join(low, high), join(len_low, len_high))
}

pub fn arm_fadvise64_64(
    fd: i32,
    advice: u32,
    low: u32,
    high: u32,
    len_low: u32,
    len_high: u32,
) -> Result<usize> {
    file::fadvise64(fd, join(low, high), join(len_low, len_high), advice)
}

pub fn arm_sync_file_range(
    fd: i32,
    flags: u32,
    low: u32,
    high: u32,
    len_low: u32,
    len_high: u32,
) -> Result<usize> {
    file::sync_file_range(fd, join(low, high), join(len_low, len_high), flags)
}

pub fn readahead(fd: i32, _pair: u32, low: u32, high: u32, count: usize) -> Result<usize> {
    file::readahead(fd, join(low, high), count)
}

pub fn preadv(fd: i32, vector: usize, count: usize, low: u32, high: u32) -> Result<usize> {
    file::preadv::<Compat>(fd, vector, count, join(low, high))
}

pub fn pwritev(fd: i32, vector: usize, count: usize, low: u32, high: u32) -> Result<usize> {
    file::pwritev::<Compat>(fd, vector, count, join(low, high))
}

pub fn preadv2(
    fd: i32,
    vector: usize,
    count: usize,
    low: u32,
    high: u32,
    flags: u32,
) -> Result<usize> {
    file::preadv2::<Compat>(fd, vector, count, join(low, high), 0, flags)
}

pub fn pwritev2(
    fd: i32,
    vector: usize,
    count: usize,
    low: u32,
    high: u32,
    flags: u32,
) -> Result<usize> {
    file::pwritev2::<Compat>(fd, vector, count, join(low, high), 0, flags)
}

pub fn mmap2(
    address: usize,
    len: usize,
    protection: u32,
    flags: u32,
    fd: i32,
    page: usize,
) -> Result<usize> {
    mmap::mmap(address, len, protection, flags, fd, page * PAGE_SIZE)
}

pub fn poll(fds: usize, count: usize, milliseconds: i32) -> Result<usize> {
    poll_until(fds, count, Deadline::after_milliseconds(milliseconds))
}

pub fn newselect(
    count: i32,
    read: usize,
    write: usize,
    except: usize,
    timeout: usize,
) -> Result<usize> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    let deadline = match given(timeout, Compat::time)? {
        None => Deadline(None),
        Some([seconds, us]) => Deadline::after([seconds + us / 1_000_000, us % 1_000_000 * 1000])?,
    };
    let result = waiting::select::<Compat>(count, [read, write, except], deadline);
    deadline.write_left(timeout, |[seconds, ns]| {
        Compat::put_time(timeout, [seconds, ns / 1000])
    });
    result
}
