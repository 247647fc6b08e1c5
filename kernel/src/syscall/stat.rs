//! Attributes of files.

use super::layout::{self, Layout};
use super::path::{self, check_flags, file, opened};
use crate::errno::{Errno, Result};
use crate::fs::device;
use crate::fs::inode::{Attr, FsStat, Kind, SetAttr, Time};
use crate::fs::tmpfs::without_set_id;
use crate::fs::{Path, attr_lock, inotify, perm};
use crate::mm::PAGE_SIZE;
use crate::mm::user::UserPtr;
use crate::task::current;
use linux_raw_sys::general::*;
use zerocopy::{Immutable, IntoBytes};

/// `struct stat` of the generic ABI (asm-generic/stat.h).
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Stat {
    device: u64,
    inode: u64,
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    rdev: u64,
    pad1: u64,
    size: i64,
    block_size: i32,
    pad2: i32,
    blocks: i64,
    times: [[u64; 2]; 3],
    unused: [u32; 2],
}

fn pair(time: Time) -> [u64; 2] {
    [time.seconds as u64, time.nanoseconds.into()]
}

pub fn write_stat(attr: &Attr, to: usize) -> Result<usize> {
    let stat = Stat {
        device: attr.device,
        inode: attr.inode,
        mode: attr.mode,
        links: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        pad1: 0,
        size: attr.size as i64,
        block_size: PAGE_SIZE as i32,
        pad2: 0,
        blocks: attr.blocks as i64,
        times: [pair(attr.accessed), pair(attr.modified), pair(attr.changed)],
        unused: [0; 2],
    };
    UserPtr::new(to).write(&stat)?;
    Ok(0)
}

/// fstat(2)
pub fn fstat(fd: i32, to: usize) -> Result<usize> {
    write_stat(&file(fd)?.dentry().inode().fresh_attr()?, to)
}

/// newfstatat(2)
pub fn newfstatat(directory: i32, path: usize, to: usize, flags: u32) -> Result<usize> {
    check_flags(flags, abi::options::STATX.mask() as u32)?;
    let place = path::resolve(directory, path, flags)?;
    write_stat(&place.inode().fresh_attr()?, to)
}

/// One time of `struct statx`.
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct StatxTime {
    seconds: i64,
    nanoseconds: u32,
    pad: i32,
}

impl From<Time> for StatxTime {
    fn from(time: Time) -> Self {
        StatxTime {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
            pad: 0,
        }
    }
}

/// `struct statx` (linux/stat.h).
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Statx {
    mask: u32,
    block_size: u32,
    attributes: u64,
    links: u32,
    uid: u32,
    gid: u32,
    mode: u16,
    pad: u16,
    inode: u64,
    size: u64,
    blocks: u64,
    attributes_mask: u64,
    accessed: StatxTime,
    created: StatxTime,
    changed: StatxTime,
    modified: StatxTime,
    rdev: [u32; 2],
    device: [u32; 2],
    mount: u64,
    spare: [u64; 13],
}

const _: () = assert!(
    abi::options::STATX_MASK.mask()
        == (STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID | STATX_MNT_ID_UNIQUE) as u64,
    "abi and statx disagree"
);

/// statx(2)
pub fn statx(directory: i32, path: usize, flags: u32, mask: u32, to: usize) -> Result<usize> {
    check_flags(flags, abi::options::STATX.mask() as u32)?;
    if mask & STATX__RESERVED != 0 || flags & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE {
        return Err(Errno::EINVAL);
    }
    let found = path::resolve(directory, path, flags)?;
    let attr = match flags & AT_STATX_DONT_SYNC {
        0 => found.inode().fresh_attr()?,
        _ => found.inode().attr(),
    };
    let numbers = |device| {
        let (major, minor) = device::split(device);
        [major, minor]
    };
    let (mount_kind, mount) = match mask & STATX_MNT_ID_UNIQUE {
        0 => (STATX_MNT_ID, found.mount_id().into()),
        unique => (unique, found.unique_mount_id()),
    };
    let (attributes, known) = found.inode().statx_attributes();
    let told = match found.inode().keeps_access_time() {
        true => STATX_BASIC_STATS,
        false => STATX_BASIC_STATS & !STATX_ATIME,
    };
    let born = attr.created.map_or(0, |_| mask & STATX_BTIME);
    let statx = Statx {
        mask: told | born | mount_kind,
        block_size: PAGE_SIZE as u32,
        attributes: match found.is_mount_root() {
            true => (attributes | STATX_ATTR_MOUNT_ROOT).into(),
            false => attributes.into(),
        },
        links: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode as u16,
        pad: 0,
        inode: attr.inode,
        size: attr.size,
        blocks: attr.blocks,
        attributes_mask: (known | STATX_ATTR_MOUNT_ROOT).into(),
        accessed: attr.accessed.into(),
        created: attr.created.unwrap_or_default().into(),
        changed: attr.changed.into(),
        modified: attr.modified.into(),
        rdev: numbers(attr.rdev),
        device: numbers(attr.device),
        mount,
        spare: [0; 13],
    };
    UserPtr::new(to).write(&statx)?;
    Ok(0)
}

/// `struct statfs` (asm-generic/statfs.h).
#[repr(C)]
#[derive(IntoBytes, Immutable)]
pub struct StatFs {
    /// Its magic number.
    pub magic: u64,
    /// Bytes of a block.
    pub block_size: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Blocks available to unprivileged users.
    pub available: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub free_files: u64,
    /// The device.
    pub id: [u32; 2],
    /// The maximum length of a name.
    pub name_max: u64,
    /// Bytes of a fragment.
    pub fragment: u64,
    /// ST_*.
    pub flags: u64,
    /// Unused.
    pub spare: [u64; 4],
}

/// The statistics of a path's file system, which may be one of the kernel's own, without a mount.
fn fs_stat(path: &Path) -> FsStat {
    let magic = match (path.mount(), path.kind()) {
        (Some(mount), _) => return mount.fs().stat(),
        (None, Kind::Fifo) => PIPEFS_MAGIC,
        (None, Kind::Socket) => SOCKFS_MAGIC,
        (None, Kind::Anonymous) => ANON_INODE_FS_MAGIC,
        _ => return path.inode().fs_stat(),
    };
    FsStat {
        magic: magic.into(),
        ..FsStat::default()
    }
}

/// The `struct statfs` of the file system of a path.
pub fn statfs_of(place: &Path) -> StatFs {
    let fs = fs_stat(place);
    let block_size = fs.block_size.map_or(PAGE_SIZE as u64, u64::from);
    let id = fs.id.unwrap_or_else(|| place.inode().attr().device);
    StatFs {
        magic: fs.magic,
        block_size,
        blocks: fs.blocks,
        free: fs.free,
        available: fs.free.saturating_sub(fs.reserved),
        files: fs.files,
        free_files: fs.free_files,
        id: [id as u32, (id >> 32) as u32],
        name_max: crate::fs::walk::NAME_MAX as u64,
        fragment: block_size,
        flags: statfs_flags(place.mount_flags()),
        spare: [0; 4],
    }
}

/// The flags of a mount as statfs(2) reports them: those with the same values as MS_ flags, those
/// with other values, and ST_VALID.
fn statfs_flags(mounted: u32) -> u64 {
    const SAME: u32 =
        MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_SYNCHRONOUS | MS_NOATIME | MS_NODIRATIME;
    const VALID: u32 = 0x20;
    const RELATIME: u32 = 0x1000;
    const NOSYMFOLLOW: u32 = 0x2000;
    let mut flags = mounted & SAME | VALID;
    if mounted & (MS_NOATIME | MS_STRICTATIME) == 0 {
        flags |= RELATIME;
    }
    if mounted & MS_NOSYMFOLLOW != 0 {
        flags |= NOSYMFOLLOW;
    }
    flags.into()
}

/// statfs(2)
pub fn statfs(path: usize, to: usize) -> Result<usize> {
    UserPtr::new(to).write(&statfs_of(&path::resolve(AT_FDCWD, path, 0)?))?;
    Ok(0)
}

/// fstatfs(2)
pub fn fstatfs(fd: i32, to: usize) -> Result<usize> {
    UserPtr::new(to).write(&statfs_of(file(fd)?.path()))?;
    Ok(0)
}

/// faccessat(2)
pub fn faccessat(directory: i32, path: usize, mode: u32) -> Result<usize> {
    faccessat2(directory, path, mode, 0)
}

/// faccessat2(2)
pub fn faccessat2(directory: i32, path: usize, mode: u32, flags: u32) -> Result<usize> {
    check_flags(mode, 7)?;
    check_flags(flags, AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    let place = path::resolve(directory, path, flags)?;
    if mode != 0 {
        if mode & perm::WRITE != 0 {
            perm::writable(&place)?;
            perm::check_flags(&place, &place, FS_IMMUTABLE_FL)?;
        }
        let program = mode & perm::EXECUTE != 0 && place.kind() == Kind::Regular;
        if program && place.mount_flags() & MS_NOEXEC != 0 {
            return Err(Errno::EACCES);
        }
        let attr = place.inode().attr();
        current().with_credentials(|who| {
            if flags & AT_EACCESS != 0 {
                return perm::check_as(who, &attr, mode);
            }
            perm::check_as(&who.real(), &attr, mode)
        })?;
    }
    Ok(0)
}

fn change_mode(place: &Path, mode: u32) -> Result<usize> {
    perm::mount_writable(place)?;
    let alone = attr_lock::lock(&**place.inode())?;
    perm::check_flags(place, place, perm::FIXED)?;
    perm::owner(place)?;
    if place.kind() == Kind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    let mode = mode & 0o7777;
    let group = place.inode().attr().gid;
    let keeps = current().with_credentials(|who| who.keeps_set_group(group));
    let permissions = Some(if keeps { mode } else { mode & !S_ISGID });
    place.inode().set_attr(&SetAttr {
        permissions,
        ..SetAttr::default()
    })?;
    drop(alone);
    inotify::about(place, IN_ATTRIB);
    Ok(0)
}

/// fchmod(2)
pub fn fchmod(fd: i32, mode: u32) -> Result<usize> {
    change_mode(opened(fd)?.path(), mode)
}

/// fchmodat(2)
pub fn fchmodat(directory: i32, path: usize, mode: u32) -> Result<usize> {
    fchmodat2(directory, path, mode, 0)
}

/// fchmodat2(2)
pub fn fchmodat2(directory: i32, path: usize, mode: u32, flags: u32) -> Result<usize> {
    check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    change_mode(&path::resolve(directory, path, flags)?, mode)
}

fn change_owner(place: &Path, uid: u32, gid: u32) -> Result<usize> {
    perm::mount_writable(place)?;
    let alone = attr_lock::lock(&**place.inode())?;
    perm::check_flags(place, place, perm::FIXED)?;
    let attr = place.inode().attr();
    let given = |id: u32| (id != u32::MAX).then_some(id);
    // A file that is not a directory loses its set-id bits.
    let mode = attr.mode & 0o7777;
    let permissions = current().with_credentials(|who| {
        let owns = who.fsuid == attr.uid;
        let uid_fits = given(uid).is_none_or(|uid| owns && uid == attr.uid);
        let gid_fits = given(gid).is_none_or(|gid| owns && (gid == attr.gid || who.in_group(gid)));
        if !(who.can(CAP_CHOWN) || uid_fits && gid_fits) {
            return Err(Errno::EPERM);
        }
        let left = match place.kind() {
            Kind::Directory => mode,
            _ => without_set_id(mode, attr.gid, who),
        };
        if left == mode {
            return Ok(None);
        }
        // This is a change of the mode like any other.
        if !owns && !who.can(CAP_FOWNER) {
            return Err(Errno::EPERM);
        }
        let keeps = who.keeps_set_group(given(gid).unwrap_or(attr.gid));
        Ok(Some(if keeps { left } else { left & !S_ISGID }))
    })?;
    let change = SetAttr {
        permissions,
        uid: given(uid),
        gid: given(gid),
        ..SetAttr::default()
    };
    place.inode().set_attr(&change)?;
    drop(alone);
    inotify::about(place, IN_ATTRIB);
    Ok(0)
}

/// fchown(2)
pub fn fchown(fd: i32, uid: u32, gid: u32) -> Result<usize> {
    change_owner(opened(fd)?.path(), uid, gid)
}

/// fchownat(2)
pub fn fchownat(directory: i32, path: usize, uid: u32, gid: u32, flags: u32) -> Result<usize> {
    check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    change_owner(&path::resolve(directory, path, flags)?, uid, gid)
}

/// A time of utimensat: `None` leaves the time unchanged.
fn time_to_set([seconds, nanoseconds]: [i64; 2]) -> Result<Option<Time>> {
    match nanoseconds as u32 {
        UTIME_OMIT => Ok(None),
        UTIME_NOW => Ok(Some(Time::now())),
        nanoseconds if nanoseconds < 1_000_000_000 => Ok(Some(Time {
            seconds,
            nanoseconds,
        })),
        _ => Err(Errno::EINVAL),
    }
}

/// utimensat(2)
pub fn utimensat<L: Layout>(
    directory: i32,
    path: usize,
    times: usize,
    flags: u32,
) -> Result<usize> {
    let times = layout::given(times, L::times)?;
    // As on Linux, such a call is not even told that there is no such file.
    if times.is_some_and(|times| times.iter().all(|time| time[1] == i64::from(UTIME_OMIT))) {
        return Ok(0);
    }
    set_times(directory, path, times, flags)
}

/// Sets a file's times of access and modification, or sets them to now.
///
/// # Errors
/// Those of utimensat(2).
pub fn set_times(
    directory: i32,
    path: usize,
    given: Option<[[i64; 2]; 2]>,
    flags: u32,
) -> Result<usize> {
    check_flags(flags, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    let place = match path {
        0 if directory == AT_FDCWD => return Err(Errno::EFAULT),
        0 if flags != 0 => return Err(Errno::EINVAL),
        0 => opened(directory)?.path().clone(),
        _ => path::resolve(directory, path, flags)?,
    };
    let (accessed, modified) = match given {
        None => (Some(Time::now()), Some(Time::now())),
        Some([accessed, modified]) => (time_to_set(accessed)?, time_to_set(modified)?),
    };
    perm::mount_writable(&place)?;
    let alone = attr_lock::lock(&**place.inode())?;
    let now = given.is_none_or(|times| times.iter().all(|time| time[1] == i64::from(UTIME_NOW)));
    let fixed = if now { FS_IMMUTABLE_FL } else { perm::FIXED };
    perm::check_flags(&place, &place, fixed)?;
    if perm::owner(&place).is_err() {
        if !now {
            return Err(Errno::EPERM);
        }
        perm::check(&place, perm::WRITE)?;
    }
    place.inode().set_attr(&SetAttr {
        accessed,
        modified,
        ..SetAttr::default()
    })?;
    drop(alone);
    inotify::about(&place, IN_ATTRIB);
    Ok(0)
}
