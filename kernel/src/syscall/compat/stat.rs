//! Attributes of files, file systems and directory entries in 32-bit layouts.

use linux_raw_sys::general::*;
use zerocopy::{Immutable, IntoBytes};

use super::identity::to_id16;
use crate::errno::{Errno, Result};
use crate::fs::Path;
use crate::fs::inode::{Attr, Time};
use crate::mm::PAGE_SIZE;
use crate::mm::user::UserPtr;
use crate::syscall::path::{self, check_flags, file as file_of};
use crate::syscall::{dir, stat};

/// `struct stat64` (arch/arm/include/uapi/asm/stat.h).
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Stat64 {
    device: u64,
    pad0: u32,
    low_inode: u32,
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    rdev: u64,
    pad3: u64,
    size: i64,
    block_size: u32,
    pad4: u32,
    blocks: u64,
    times: [[u32; 2]; 3],
    inode: u64,
}

const _: () = assert!(size_of::<Stat64>() == 104);

fn pair(time: Time) -> [u32; 2] {
    [time.seconds as u32, time.nanoseconds]
}

fn write_stat64(attr: &Attr, to: usize) -> Result<usize> {
    UserPtr::new(to).write(&Stat64 {
        device: attr.device,
        pad0: 0,
        low_inode: attr.inode as u32,
        mode: attr.mode,
        links: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        pad3: 0,
        size: attr.size as i64,
        block_size: PAGE_SIZE as u32,
        pad4: 0,
        blocks: attr.blocks,
        times: [pair(attr.accessed), pair(attr.modified), pair(attr.changed)],
        inode: attr.inode,
    })?;
    Ok(0)
}

pub fn fstatat64(directory: i32, path: usize, to: usize, flags: u32) -> Result<usize> {
    check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH)?;
    write_stat64(
        &path::resolve(directory, path, flags)?
            .inode()
            .fresh_attr()?,
        to,
    )
}

pub fn stat64(path: usize, to: usize) -> Result<usize> {
    fstatat64(AT_FDCWD, path, to, 0)
}

pub fn lstat64(path: usize, to: usize) -> Result<usize> {
    fstatat64(AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW)
}

pub fn fstat64(fd: i32, to: usize) -> Result<usize> {
    write_stat64(&file_of(fd)?.dentry().inode().fresh_attr()?, to)
}

/// `struct stat` (arch/arm/include/uapi/asm/stat.h).
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Stat {
    device: u32,
    inode: u32,
    mode: u16,
    links: u16,
    uid: u16,
    gid: u16,
    rdev: u32,
    size: u32,
    block_size: u32,
    blocks: u32,
    times: [[u32; 2]; 3],
    unused: [u32; 2],
}

const _: () = assert!(size_of::<Stat>() == 64);

fn write_stat(attr: &Attr, to: usize) -> Result<usize> {
    let size = i32::try_from(attr.size).map_err(|_| Errno::EOVERFLOW)?;
    UserPtr::new(to).write(&Stat {
        device: attr.device as u32,
        inode: attr.inode.try_into().map_err(|_| Errno::EOVERFLOW)?,
        mode: attr.mode as u16,
        links: attr.links.try_into().map_err(|_| Errno::EOVERFLOW)?,
        uid: to_id16(attr.uid),
        gid: to_id16(attr.gid),
        rdev: attr.rdev as u32,
        size: size as u32,
        block_size: PAGE_SIZE as u32,
        blocks: attr.blocks as u32,
        times: [pair(attr.accessed), pair(attr.modified), pair(attr.changed)],
        unused: [0; 2],
    })?;
    Ok(0)
}

pub fn newstat(path: usize, to: usize) -> Result<usize> {
    write_stat(&path::resolve(AT_FDCWD, path, 0)?.inode().fresh_attr()?, to)
}

pub fn newlstat(path: usize, to: usize) -> Result<usize> {
    let place = path::resolve(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)?;
    write_stat(&place.inode().fresh_attr()?, to)
}

pub fn newfstat(fd: i32, to: usize) -> Result<usize> {
    write_stat(&file_of(fd)?.dentry().inode().fresh_attr()?, to)
}

/// The size of `struct statfs64`, and the size with padding that some programs pass.
const STATFS64: [usize; 2] = [84, 88];

/// EINVAL for an invalid size of the structure, whichever path is given.
fn check_statfs64(size: usize) -> Result<()> {
    let known = STATFS64.contains(&size);
    known.then_some(()).ok_or(Errno::EINVAL)
}

fn write_statfs64(place: &Path, to: usize) -> Result<usize> {
    let fs = stat::statfs_of(place);
    let mut words = [0u32; STATFS64[0] / 4];
    words[..2].copy_from_slice(&[fs.magic, fs.block_size].map(|word| word as u32));
    let counts = [fs.blocks, fs.free, fs.available, fs.files, fs.free_files];
    for (pair, count) in words[2..12].chunks_mut(2).zip(counts) {
        pair.copy_from_slice(&[count as u32, (count >> 32) as u32]);
    }
    words[12..14].copy_from_slice(&fs.id);
    words[14..17].copy_from_slice(&[fs.name_max, fs.fragment, fs.flags].map(|word| word as u32));
    UserPtr::new(to).write(&words)?;
    Ok(0)
}

pub fn statfs64(path: usize, size: usize, to: usize) -> Result<usize> {
    check_statfs64(size)?;
    write_statfs64(&path::resolve(AT_FDCWD, path, 0)?, to)
}

pub fn fstatfs64(fd: i32, size: usize, to: usize) -> Result<usize> {
    check_statfs64(size)?;
    write_statfs64(file_of(fd)?.path(), to)
}

/// Words of a `struct statfs`.
const STATFS: usize = 16;

fn write_statfs(place: &Path, to: usize) -> Result<usize> {
    let fs = stat::statfs_of(place);
    let counts = [fs.blocks, fs.free, fs.available, fs.files, fs.free_files];
    if counts.iter().any(|&count| u32::try_from(count).is_err()) {
        return Err(Errno::EOVERFLOW);
    }
    let mut words = [0u32; STATFS];
    words[..2].copy_from_slice(&[fs.magic, fs.block_size].map(|word| word as u32));
    words[2..7].copy_from_slice(&counts.map(|count| count as u32));
    words[7..9].copy_from_slice(&fs.id);
    words[9..12].copy_from_slice(&[fs.name_max, fs.fragment, fs.flags].map(|word| word as u32));
    UserPtr::new(to).write(&words)?;
    Ok(0)
}

pub fn statfs(path: usize, to: usize) -> Result<usize> {
    write_statfs(&path::resolve(AT_FDCWD, path, 0)?, to)
}

pub fn fstatfs(fd: i32, to: usize) -> Result<usize> {
    write_statfs(file_of(fd)?.path(), to)
}

/// The size of `struct linux_dirent` before the name, which the type follows.
const RECORD_HEAD: usize = 10;

pub fn getdents(fd: i32, buffer: usize, size: u32) -> Result<usize> {
    dir::read_entries(fd, buffer, size, |record, bytes| {
        let inode = u32::try_from(record.inode).map_err(|_| Errno::EOVERFLOW)?;
        let name = &record.name[..record.name.len().min(255)];
        let len = (RECORD_HEAD + name.len() + 2).next_multiple_of(4);
        bytes[..4].copy_from_slice(&inode.to_ne_bytes());
        bytes[4..8].copy_from_slice(&(record.next as u32).to_ne_bytes());
        bytes[8..10].copy_from_slice(&(len as u16).to_ne_bytes());
        bytes[RECORD_HEAD..len].fill(0);
        bytes[RECORD_HEAD..][..name.len()].copy_from_slice(name);
        bytes[len - 1] = record.kind.directory_type();
        Ok(len)
    })
}
