//! Extended attributes.

use super::path::{self, check_flags, opened};
use crate::errno::{Errno, Result};
use crate::fs::inode::{Kind, XattrChange};
use crate::fs::{Path, attr_lock, perm};
use crate::mm::user::{UserPtr, UserSlice, read_cstr};
use crate::net::socket::PROTOCOL_NAME;
use crate::task::{can, file_capabilities, require};
use alloc::vec::Vec;
use linux_raw_sys::general::{
    AT_FDCWD, AT_SYMLINK_NOFOLLOW, CAP_SETFCAP, CAP_SYS_ADMIN, XATTR_CREATE, XATTR_REPLACE,
};

/// The longest name, and the largest value (linux/limits.h).
const NAME_MAX: usize = 255;
const SIZE_MAX: usize = 65536;

fn name(address: usize) -> Result<Vec<u8>> {
    match read_cstr(address, NAME_MAX + 1) {
        Ok(name) if name.is_empty() => Err(Errno::ERANGE),
        Err(Errno::ENAMETOOLONG) => Err(Errno::ERANGE),
        name => name,
    }
}

/// EOPNOTSUPP, EPERM or ENODATA if the name's namespace does not allow the access.
fn check(entry: &Path, name: &[u8], write: bool) -> Result<()> {
    let wanted = if write { perm::WRITE } else { perm::READ };
    if write {
        perm::check_flags(entry, entry, perm::FIXED)?;
    }
    let privileged = can(CAP_SYS_ADMIN);
    if name.starts_with(b"user.") {
        return match entry.kind() {
            Kind::Regular | Kind::Directory => perm::check(entry, wanted),
            _ if write => Err(Errno::EPERM),
            _ => Err(Errno::ENODATA),
        };
    }
    if name == file_capabilities::NAME && write {
        return require(CAP_SETFCAP);
    }
    match (
        name.starts_with(b"trusted."),
        name.starts_with(b"security."),
    ) {
        (true, _) if privileged => Ok(()),
        (true, _) => Err(if write { Errno::EPERM } else { Errno::ENODATA }),
        (_, true) if privileged || !write => Ok(()),
        (_, true) if entry.kind() == Kind::Anonymous => Err(Errno::EOPNOTSUPP),
        (_, true) => Err(Errno::EPERM),
        // Sockets have one, which can only be read.
        _ if name == PROTOCOL_NAME && !write && entry.kind() == Kind::Socket => Ok(()),
        _ if name.starts_with(b"system.") => Err(Errno::EOPNOTSUPP),
        // No file system supports other names; a lack of permission is reported first.
        _ => perm::check(entry, wanted).and(Err(Errno::EOPNOTSUPP)),
    }
}

/// A name with its new value, which Linux reads before it looks for the file.
struct Given {
    key: Vec<u8>,
    value: Vec<u8>,
    flags: u32,
}

impl Given {
    fn read(key: usize, value: usize, size: usize, flags: u32) -> Result<Self> {
        check_flags(flags, XATTR_CREATE | XATTR_REPLACE)?;
        let key = name(key)?;
        if size > SIZE_MAX {
            return Err(Errno::E2BIG);
        }
        let value = UserPtr::<u8>::new(value).read_vec(size)?;
        Ok(Given { key, value, flags })
    }

    fn set(&self, entry: &Path) -> Result<usize> {
        let Given { key, value, flags } = self;
        if *key == file_capabilities::NAME && !value.is_empty() {
            file_capabilities::check(value)?;
        }
        perm::mount_writable(entry)?;
        let _alone = attr_lock::lock(&**entry.inode())?;
        check(entry, key, true)?;
        let change = match *flags {
            0 => XattrChange::Set(value),
            XATTR_CREATE => XattrChange::Create(value),
            XATTR_REPLACE => XattrChange::Replace(value),
            _ => return Err(Errno::EINVAL),
        };
        entry.inode().set_xattr(key, change)?;
        Ok(0)
    }
}

/// Copies `bytes` to the program, or returns their length if it gave no room.
fn give(bytes: &[u8], to: usize, size: usize) -> Result<usize> {
    if size > 0 {
        if bytes.len() > size {
            return Err(Errno::ERANGE);
        }
        UserSlice::new(to, bytes.len()).copy_out(bytes)?;
    }
    Ok(bytes.len())
}

fn get(entry: &Path, key: usize, value: usize, size: usize) -> Result<usize> {
    let key = name(key)?;
    check(entry, &key, false)?;
    let mut found = entry.inode().xattr(&key)?;
    if key == file_capabilities::NAME {
        found = file_capabilities::shown(found);
    }
    give(&found, value, size)
}

fn list(entry: &Path, names: usize, size: usize) -> Result<usize> {
    let mut all = entry.inode().xattrs()?;
    if !can(CAP_SYS_ADMIN) {
        keep_untrusted(&mut all);
    }
    give(&all, names, size)
}

/// Takes the names out that only the privileged may know.
fn keep_untrusted(names: &mut Vec<u8>) {
    let mut kept = 0;
    let mut at = 0;
    while let Some(len) = names[at..].iter().position(|&byte| byte == 0) {
        let end = at + len + 1;
        if !names[at..end].starts_with(b"trusted.") {
            names.copy_within(at..end, kept);
            kept += end - at;
        }
        at = end;
    }
    names.truncate(kept);
}

fn remove(entry: &Path, key: &[u8]) -> Result<usize> {
    perm::mount_writable(entry)?;
    let _alone = attr_lock::lock(&**entry.inode())?;
    check(entry, key, true)?;
    entry.inode().set_xattr(key, XattrChange::Remove)?;
    Ok(0)
}

fn followed(path: usize) -> Result<Path> {
    path::resolve(AT_FDCWD, path, 0)
}

fn itself(path: usize) -> Result<Path> {
    path::resolve(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW)
}

fn open(fd: i32) -> Result<Path> {
    Ok(opened(fd)?.path().clone())
}

/// setxattr(2)
pub fn setxattr(path: usize, name: usize, value: usize, size: usize, flags: u32) -> Result<usize> {
    let given = Given::read(name, value, size, flags)?;
    given.set(&followed(path)?)
}

/// lsetxattr(2)
pub fn lsetxattr(path: usize, name: usize, value: usize, size: usize, flags: u32) -> Result<usize> {
    let given = Given::read(name, value, size, flags)?;
    given.set(&itself(path)?)
}

/// fsetxattr(2)
pub fn fsetxattr(fd: i32, name: usize, value: usize, size: usize, flags: u32) -> Result<usize> {
    let entry = open(fd)?;
    Given::read(name, value, size, flags)?.set(&entry)
}

/// getxattr(2)
pub fn getxattr(path: usize, name: usize, value: usize, size: usize) -> Result<usize> {
    get(&followed(path)?, name, value, size)
}

/// lgetxattr(2)
pub fn lgetxattr(path: usize, name: usize, value: usize, size: usize) -> Result<usize> {
    get(&itself(path)?, name, value, size)
}

/// fgetxattr(2)
pub fn fgetxattr(fd: i32, name: usize, value: usize, size: usize) -> Result<usize> {
    get(&open(fd)?, name, value, size)
}

/// listxattr(2)
pub fn listxattr(path: usize, names: usize, size: usize) -> Result<usize> {
    list(&followed(path)?, names, size)
}

/// llistxattr(2)
pub fn llistxattr(path: usize, names: usize, size: usize) -> Result<usize> {
    list(&itself(path)?, names, size)
}

/// flistxattr(2)
pub fn flistxattr(fd: i32, names: usize, size: usize) -> Result<usize> {
    list(&open(fd)?, names, size)
}

/// removexattr(2)
pub fn removexattr(path: usize, name: usize) -> Result<usize> {
    let key = self::name(name)?;
    remove(&followed(path)?, &key)
}

/// lremovexattr(2)
pub fn lremovexattr(path: usize, name: usize) -> Result<usize> {
    let key = self::name(name)?;
    remove(&itself(path)?, &key)
}

/// fremovexattr(2)
pub fn fremovexattr(fd: i32, name: usize) -> Result<usize> {
    let entry = open(fd)?;
    remove(&entry, &self::name(name)?)
}
