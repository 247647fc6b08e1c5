//! System calls on names: creating, moving and removing them, listing directories, and the current
//! directory and root.

use super::path::{self, UserPath, check_flags, file, opened};
use crate::arch;
use crate::errno::{Errno, Result};
use crate::fs::file::Record;
use crate::fs::inode::{Kind, Link, New, Replace};
use crate::fs::mount::Mount;
use crate::fs::walk::{Last, Walk};
use crate::fs::{Dentry, Path, inotify, perm, protected};
use crate::mm::user::UserSlice;
use crate::task::sched::{cond_resched_interruptible, cond_resched_killable};
use crate::task::{can, current, require};
use alloc::sync::Arc;
use linux_raw_sys::general::*;

/// Resolves a path except its last component, whose directory must be searchable for the caller.
fn parent<'p>(directory: i32, path: &'p [u8]) -> Result<(Path, Last<'p>)> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let from = path::base(directory, path)?;
    let context = current().fs();
    let (parent, last) = Walk::new(&context).parent(from.as_ref(), path)?;
    perm::search(&parent)?;
    Ok((parent, last))
}

/// Creates `new` at a path that does not exist yet.
fn make(directory: i32, path: &[u8], new: New) -> Result<usize> {
    let (parent, last) = parent(directory, path)?;
    let name = last.last_component(Errno::EEXIST)?;
    match parent.inode().lookup(&parent, name) {
        Ok(_) => return Err(Errno::EEXIST),
        Err(Errno::ENOENT) => {}
        Err(error) => return Err(error),
    }
    let is_directory = matches!(new, New::Node(mode, _) if mode & S_IFMT == S_IFDIR);
    if last.directory && !is_directory {
        return Err(Errno::ENOENT);
    }
    perm::check(&parent, perm::WRITE)?;
    if let New::Node(mode, device) = new
        && matches!(mode & S_IFMT, S_IFCHR | S_IFBLK)
        && (mode & S_IFMT == S_IFBLK || device != 0)
    {
        require(CAP_MKNOD)?;
    }
    parent.inode().create(&parent, name, new)?;
    inotify::in_directory(&parent, name, is_directory, IN_CREATE, 0);
    Ok(0)
}

/// mkdirat(2)
pub fn mkdirat(directory: i32, path: usize, mode: u32) -> Result<usize> {
    let permissions = mode & 0o1777 & !current().fs().umask();
    make(
        directory,
        &UserPath::read(path)?,
        New::Node(S_IFDIR | permissions, 0),
    )
}

/// mknodat(2)
pub fn mknodat(directory: i32, path: usize, mode: u32, device: u32) -> Result<usize> {
    let kind = match mode & S_IFMT {
        0 => S_IFREG,
        S_IFDIR | S_IFLNK => return Err(Errno::EPERM),
        kind @ (S_IFREG | S_IFIFO | S_IFSOCK | S_IFCHR | S_IFBLK) => kind,
        _ => return Err(Errno::EINVAL),
    };
    let permissions = mode & 0o7777 & !current().fs().umask();
    make(
        directory,
        &UserPath::read(path)?,
        New::Node(kind | permissions, device.into()),
    )
}

/// symlinkat(2)
pub fn symlinkat(target: usize, directory: i32, path: usize) -> Result<usize> {
    let target = UserPath::read(target)?;
    if target.is_empty() {
        return Err(Errno::ENOENT);
    }
    make(directory, &UserPath::read(path)?, New::Symlink(&target))
}

/// linkat(2)
pub fn linkat(from: i32, old: usize, to: i32, new: usize, flags: u32) -> Result<usize> {
    check_flags(flags, AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)?;
    let follow = if flags & AT_SYMLINK_FOLLOW != 0 {
        0
    } else {
        AT_SYMLINK_NOFOLLOW
    };
    let old = UserPath::read(old)?;
    if flags & AT_EMPTY_PATH != 0 && from != AT_FDCWD && old.first() != Some(&b'/') {
        check_passed(from)?;
    }
    let place = path::resolve_bytes(from, &old, follow | flags & AT_EMPTY_PATH)?;
    let new = UserPath::read(new)?;
    let (parent, last) = parent(to, &new)?;
    let name = last.last_component(Errno::EEXIST)?;
    if parent.inode().lookup(&parent, name).is_ok() {
        return Err(Errno::EEXIST);
    }
    if last.directory {
        return Err(Errno::ENOENT);
    }
    if !place.same_mount(&parent) {
        return Err(Errno::EXDEV);
    }
    if place.kind() == Kind::Directory {
        return Err(Errno::EPERM);
    }
    protected::check_link_to(&place)?;
    perm::check(&parent, perm::WRITE)?;
    perm::check_flags(&place, &place, perm::FIXED)?;
    parent.inode().add_link(&parent, name, place.inode())?;
    inotify::linked(&place);
    inotify::in_directory(&parent, name, false, IN_CREATE, 0);
    Ok(0)
}

/// ENOENT unless the calling thread may create a link from a descriptor, which another process may
/// have passed to it.
fn check_passed(descriptor: i32) -> Result<()> {
    if file(descriptor)?.is_openers() || can(CAP_DAC_READ_SEARCH) {
        Ok(())
    } else {
        Err(Errno::ENOENT)
    }
}

/// unlinkat(2)
pub fn unlinkat(directory: i32, path: usize, flags: u32) -> Result<usize> {
    check_flags(flags, AT_REMOVEDIR)?;
    let rmdir = flags & AT_REMOVEDIR != 0;
    let path = UserPath::read(path)?;
    let (parent, last) = parent(directory, &path)?;
    let name = last.last_component(match (rmdir, last.name) {
        (false, _) => Errno::EISDIR,
        (true, b".") => Errno::EINVAL,
        (true, b"..") => Errno::ENOTEMPTY,
        (true, _) => Errno::EBUSY,
    })?;
    // As on Linux, before the look for the name.
    perm::writable(&parent)?;
    let victim = until_still(|| remove(&parent, name, &last, rmdir))?;
    inotify::unlinked(&victim);
    inotify::in_directory(&parent, name, rmdir, IN_DELETE, 0);
    Ok(0)
}

/// How often an operation is repeated because names change meanwhile: a server of files may say so
/// for ever.
const ATTEMPTS: usize = 10_000;

/// Repeats `attempt` while names change between its look-up and its operation (ESTALE).
fn until_still<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..ATTEMPTS {
        match attempt() {
            Err(Errno::ESTALE) => cond_resched_killable()?,
            done => return done,
        }
    }
    Err(Errno::ESTALE)
}

fn remove(parent: &Path, name: &[u8], last: &Last, rmdir: bool) -> Result<Arc<Dentry>> {
    let victim = parent.inode().lookup(parent, name)?;
    let is_directory = victim.kind() == Kind::Directory;
    if last.directory && !rmdir && !is_directory {
        return Err(Errno::ENOTDIR);
    }
    perm::check(parent, perm::WRITE)?;
    perm::check_flags(parent, parent, FS_APPEND_FL)?;
    perm::sticky(parent, &victim)?;
    perm::check_flags(parent, &victim, perm::FIXED)?;
    match (is_directory, rmdir) {
        (true, false) => return Err(Errno::EISDIR),
        (false, true) => return Err(Errno::ENOTDIR),
        _ => {}
    }
    parent.inode().remove(parent, &victim)?;
    Ok(victim)
}

/// renameat(2)
pub fn renameat(from: i32, old: usize, to: i32, new: usize) -> Result<usize> {
    if !arch::HAS_RENAMEAT {
        return Err(Errno::ENOSYS);
    }
    renameat2(from, old, to, new, 0)
}

const _: () = assert!(
    abi::options::RENAME.mask() == (RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT) as u64,
    "abi and renameat2 disagree"
);

/// renameat2(2)
pub fn renameat2(from: i32, old: usize, to: i32, new: usize, flags: u32) -> Result<usize> {
    let fresh = flags & RENAME_NOREPLACE != 0;
    let replace = match flags & !RENAME_NOREPLACE {
        0 if fresh => Replace::No,
        0 => Replace::Yes,
        RENAME_EXCHANGE if !fresh => Replace::Exchange,
        RENAME_WHITEOUT => Replace::Whiteout,
        _ => return Err(Errno::EINVAL),
    };
    let old = UserPath::read(old)?;
    let (old_parent, old_last) = parent(from, &old)?;
    let new = UserPath::read(new)?;
    let (new_parent, new_last) = parent(to, &new)?;
    if !old_parent.same_mount(&new_parent) {
        return Err(Errno::EXDEV);
    }
    let old_name = old_last.last_component(Errno::EBUSY)?;
    let new_name = new_last.last_component(if fresh { Errno::EEXIST } else { Errno::EBUSY })?;
    perm::writable(&old_parent)?;
    let names = [
        (&old_parent, &old_last, old_name),
        (&new_parent, &new_last, new_name),
    ];
    let (source, victim) = until_still(|| rename(names, replace, fresh))?;
    let same = |victim: &Arc<Dentry>| Arc::ptr_eq(source.inode(), victim.inode());
    if victim.as_ref().is_some_and(same) {
        return Ok(0);
    }
    let (from, to) = ((&**old_parent, old_name), (&**new_parent, new_name));
    inotify::moved(&source, from, to);
    match (&victim, replace) {
        (Some(other), Replace::Exchange) => inotify::moved(other, to, from),
        (Some(victim), _) => inotify::unlinked(victim),
        _ => {}
    }
    Ok(0)
}

/// A name in a rename: its directory, the last component of the path, and the name itself.
type Renamed<'a> = (&'a Path, &'a Last<'a>, &'a [u8]);

/// Renames, and returns the renamed file and the file that had the new name.
fn rename(
    [
        (old_parent, old_last, old_name),
        (new_parent, new_last, new_name),
    ]: [Renamed; 2],
    replace: Replace,
    fresh: bool,
) -> Result<(Arc<Dentry>, Option<Arc<Dentry>>)> {
    let source = old_parent.inode().lookup(old_parent, old_name)?;
    let victim = match new_parent.inode().lookup(new_parent, new_name) {
        Err(Errno::ENOENT) => None,
        found => Some(found?),
    };
    match (&victim, replace) {
        (Some(_), _) if fresh => return Err(Errno::EEXIST),
        (None, Replace::Exchange) => return Err(Errno::ENOENT),
        (Some(other), Replace::Exchange) if new_last.directory => directory(other)?,
        _ => {}
    }
    if old_last.directory || new_last.directory && replace != Replace::Exchange {
        directory(&source)?;
    }
    let apart = !Arc::ptr_eq(old_parent.dentry(), new_parent.dentry());
    leave(old_parent, &source, apart)?;
    match &victim {
        Some(victim) => leave(new_parent, victim, apart && replace == Replace::Exchange)?,
        None => perm::check(new_parent, perm::WRITE)?,
    }
    let plain = |mount: &Arc<Mount>| mount.fs().kind() == "ramfs";
    if replace == Replace::Whiteout && old_parent.mount().is_some_and(plain) {
        return Err(Errno::EINVAL);
    }
    let to = (new_parent.dentry(), new_name);
    let occupant = victim.as_ref();
    old_parent
        .inode()
        .rename((old_parent, &source), to, occupant, replace)?;
    Ok((source, victim))
}

/// ENOTDIR unless it is a directory.
fn directory(dentry: &Dentry) -> Result<()> {
    if dentry.kind() == Kind::Directory {
        Ok(())
    } else {
        Err(Errno::ENOTDIR)
    }
}

/// Checks that the calling thread may remove `dentry` from `parent`; if the parent changes, a
/// directory itself is modified, too.
fn leave(parent: &Path, dentry: &Arc<Dentry>, changes_parent: bool) -> Result<()> {
    perm::check(parent, perm::WRITE)?;
    perm::check_flags(parent, parent, FS_APPEND_FL)?;
    perm::sticky(parent, dentry)?;
    perm::check_flags(parent, dentry, perm::FIXED)?;
    if changes_parent && dentry.kind() == Kind::Directory {
        perm::permitted(dentry, perm::WRITE)?;
    }
    if dentry.is_covered() {
        return Err(Errno::EBUSY);
    }
    Ok(())
}

/// readlinkat(2)
pub fn readlinkat(directory: i32, path: usize, buffer: usize, size: i32) -> Result<usize> {
    if size <= 0 {
        return Err(Errno::EINVAL);
    }
    let path = UserPath::read(path)?;
    let place = path::resolve_bytes(directory, &path, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)?;
    if place.kind() != Kind::Symlink {
        return Err(if path.is_empty() {
            Errno::ENOENT
        } else {
            Errno::EINVAL
        });
    }
    place.inode().link_read(place.mount_flags());
    let target = match place.inode().link()? {
        Link::Path(target) => target,
        Link::Jump(place) => place.text(&current().fs().root())?.0,
    };
    let len = target.len().min(size as usize);
    UserSlice::new(buffer, len).copy_out(&target[..len])?;
    Ok(len)
}

/// Bytes of `struct linux_dirent64` before the name.
const RECORD_HEAD: usize = 19;
/// Room for a record with the longest name.
pub const RECORD_MAX: usize = (RECORD_HEAD + 256).next_multiple_of(8);

/// Writes `record` as a `struct linux_dirent64`; returns its length.
fn encode(record: &Record, bytes: &mut [u8; RECORD_MAX]) -> usize {
    let name = &record.name[..record.name.len().min(255)];
    let len = (RECORD_HEAD + name.len() + 1).next_multiple_of(8);
    bytes[..8].copy_from_slice(&record.inode.to_ne_bytes());
    bytes[8..16].copy_from_slice(&record.next.to_ne_bytes());
    bytes[16..18].copy_from_slice(&(len as u16).to_ne_bytes());
    bytes[18] = record.kind.directory_type();
    bytes[RECORD_HEAD..len].fill(0);
    bytes[RECORD_HEAD..RECORD_HEAD + name.len()].copy_from_slice(name);
    len
}

/// getdents64(2)
pub fn getdents64(fd: i32, buffer: usize, size: u32) -> Result<usize> {
    read_entries(fd, buffer, size, |record, bytes| Ok(encode(record, bytes)))
}

/// Reads entries of a directory into the program's buffer, in the format of `encode`, which returns
/// the length.
///
/// # Errors
/// Those of getdents64(2) and of `encode`.
pub fn read_entries(
    fd: i32,
    buffer: usize,
    size: u32,
    encode: impl Fn(&Record, &mut [u8; RECORD_MAX]) -> Result<usize>,
) -> Result<usize> {
    let file = opened(fd)?;
    if file.dentry().kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let buffer = UserSlice::new(buffer, size as usize);
    let mut bytes = [0; RECORD_MAX];
    let (mut done, mut outcome) = (0, Ok(()));
    let read = file.read_dir(&mut |record| {
        // As on Linux, a signal ends the call, but not before there is something to return.
        if cond_resched_interruptible().is_err() && done > 0 {
            return false;
        }
        let written = encode(record, &mut bytes).and_then(|len| {
            if done + len > buffer.len() {
                return Err(Errno::EINVAL);
            }
            buffer.skip(done).copy_out(&bytes[..len])?;
            Ok(len)
        });
        done += *written.as_ref().unwrap_or(&0);
        outcome = written.map(drop);
        outcome.is_ok()
    });
    match done {
        0 => read.and(outcome).map(|()| 0),
        // The next call meets an error again.
        _ => Ok(done),
    }
}

/// getcwd(2)
pub fn getcwd(buffer: usize, size: usize) -> Result<usize> {
    let context = current().fs();
    let directory = context.directory();
    if directory.is_removed() {
        return Err(Errno::ENOENT);
    }
    let (mut path, below) = directory.text(&context.root())?;
    let (mark, end) = (&b"(unreachable)"[..], b"\0");
    let room = path.try_reserve(mark.len() + end.len());
    room.map_err(|_| Errno::ENOMEM)?;
    if !below {
        path.splice(..0, mark.iter().copied());
    }
    path.extend_from_slice(end);
    if path.len() > size {
        return Err(Errno::ERANGE);
    }
    UserSlice::new(buffer, size).copy_out(&path)?;
    Ok(path.len())
}

fn change_directory(place: Path) -> Result<usize> {
    if place.kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    perm::search(&place)?;
    current().fs().set_directory(place)?;
    Ok(0)
}

/// chdir(2)
pub fn chdir(path: usize) -> Result<usize> {
    change_directory(path::resolve(AT_FDCWD, path, 0)?)
}

/// fchdir(2)
pub fn fchdir(fd: i32) -> Result<usize> {
    change_directory(file(fd)?.path().clone())
}

/// chroot(2)
pub fn chroot(path: usize) -> Result<usize> {
    let place = path::resolve(AT_FDCWD, path, 0)?;
    if place.kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    perm::search(&place)?;
    require(CAP_SYS_CHROOT)?;
    current().fs().set_root(place)?;
    Ok(0)
}

/// umask(2)
pub fn umask(mask: u32) -> Result<usize> {
    Ok(current().fs().set_umask(mask) as usize)
}
