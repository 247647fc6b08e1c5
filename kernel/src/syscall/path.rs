//! Path arguments of system calls.

use crate::errno::{Errno, Result};
use crate::fs::walk::{PATH_MAX, Walk};
use crate::fs::{File, Path};
use crate::mm::user;
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;
use linux_raw_sys::general::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, O_PATH};

/// The maximum length of paths that are kept on the stack.
const SHORT: usize = 64;

/// A path copied from the program.
pub enum UserPath {
    /// A short path and its length.
    Short([u8; SHORT], usize),
    /// A longer path.
    Long(Vec<u8>),
}

impl UserPath {
    /// Copies the path at a user address. EFAULT, ENAMETOOLONG, ENOMEM.
    #[inline]
    pub fn read(address: usize) -> Result<Self> {
        let mut bytes = [0; SHORT];
        // First only up to the page's end, since the next page may be unmapped.
        let part = SHORT.min(crate::mm::PAGE_SIZE - address % crate::mm::PAGE_SIZE);
        let count = user::copy_from(address, &mut bytes[..part]);
        match bytes[..count].iter().position(|&byte| byte == 0) {
            Some(len) => Ok(UserPath::Short(bytes, len)),
            None => Ok(UserPath::Long(user::read_cstr(address, PATH_MAX)?)),
        }
    }
}

impl Deref for UserPath {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            UserPath::Short(bytes, len) => &bytes[..*len],
            UserPath::Long(bytes) => bytes,
        }
    }
}

/// The open file of a descriptor.
#[inline]
pub fn file(fd: i32) -> Result<Arc<File>> {
    current().file(fd)
}

/// The open file of a descriptor, but EBADF for O_PATH, since most calls need more than a path.
#[inline]
pub fn opened(fd: i32) -> Result<Arc<File>> {
    let file = file(fd)?;
    if file.flags().has(O_PATH) {
        return Err(Errno::EBADF);
    }
    Ok(file)
}

/// The directory at which the path of an `…at` call starts: `None` for the current directory.
pub fn base(directory: i32, path: &[u8]) -> Result<Option<Path>> {
    if directory == AT_FDCWD || path.first() == Some(&b'/') {
        return Ok(None);
    }
    Ok(Some(file(directory)?.path().clone()))
}

/// Resolves the path of an `…at` call with its AT_ flags.
pub fn resolve(directory: i32, path: usize, flags: u32) -> Result<Path> {
    if path == 0 && flags & AT_EMPTY_PATH != 0 {
        return resolve_bytes(directory, b"", flags);
    }
    resolve_bytes(directory, &UserPath::read(path)?, flags)
}

/// Resolves a path that has been copied already.
pub fn resolve_bytes(directory: i32, path: &[u8], flags: u32) -> Result<Path> {
    if path.is_empty() {
        if flags & AT_EMPTY_PATH == 0 {
            return Err(Errno::ENOENT);
        }
        let from = base(directory, path)?;
        return Ok(from.unwrap_or_else(|| current().fs().directory()));
    }
    let from = base(directory, path)?;
    let context = current().fs();
    Walk::new(&context).resolve(from.as_ref(), path, flags & AT_SYMLINK_NOFOLLOW == 0)
}

/// EINVAL unless `flags` has only bits of `known`.
pub fn check_flags(flags: u32, known: u32) -> Result<()> {
    if flags & !known == 0 {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}
