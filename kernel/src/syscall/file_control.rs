//! ioctl(2) requests about how a file system stores a file. No file system here shares blocks,
//! reports their location or can be frozen; which requests are refused, and with which error,
//! follows Linux's order of checks.

use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::*;

use super::path::opened;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::fs::inode::Kind;
use crate::mm::PAGE_SIZE;
use crate::mm::user::UserPtr;
use crate::task::require;

/// The result of such a request; `None` for other requests.
pub fn refuse(file: &File, request: u32, argument: usize) -> Option<Result<usize>> {
    let refused = match request {
        FICLONE => clone_range(file, argument as i32),
        FICLONERANGE => UserPtr::<[u64; 4]>::new(argument)
            .read()
            .and_then(|[from, ..]| clone_range(file, from as i32)),
        FIDEDUPERANGE => share_same(file, argument),
        FS_IOC_FIEMAP => Err(Errno::EOPNOTSUPP),
        FIFREEZE => require(CAP_SYS_ADMIN).and(Err(Errno::EOPNOTSUPP)),
        // No file system is ever frozen.
        FITHAW => require(CAP_SYS_ADMIN).and(Err(Errno::EINVAL)),
        FIBMAP if file.dentry().kind() == Kind::Regular => block(argument),
        _ => return None,
    };
    Some(refused)
}

fn clone_range(file: &File, from: i32) -> Result<usize> {
    let from = opened(from)?;
    let [one, other] = [&*from, file].map(|file| file.dentry());
    if one.inode().attr().device != other.inode().attr().device {
        return Err(Errno::EXDEV);
    }
    for dentry in [one, other] {
        if dentry.kind() == Kind::Directory {
            return Err(Errno::EISDIR);
        }
    }
    if [one, other].map(|dentry| dentry.kind()) != [Kind::Regular; 2] {
        return Err(Errno::EINVAL);
    }
    from.check_readable()?;
    file.check_writable()?;
    if file.flags().has(O_APPEND) {
        return Err(Errno::EBADF);
    }
    Err(Errno::EOPNOTSUPP)
}

/// FIDEDUPERANGE
fn share_same(file: &File, argument: usize) -> Result<usize> {
    // `struct file_dedupe_range`: its header, and that of each target.
    type Head = [u64; 3];
    type Target = [u64; 4];
    let [_, _, counts] = UserPtr::<Head>::new(argument).read()?;
    let (targets, reserved) = (usize::from(counts as u16), counts >> 16);
    if size_of::<Head>() + targets * size_of::<Target>() > PAGE_SIZE {
        return Err(Errno::ENOMEM);
    }
    let first = UserPtr::<Target>::new(argument.wrapping_add(size_of::<Head>()));
    for at in 0..targets {
        first.add(at).read()?;
    }
    if !file.flags().readable() || reserved != 0 {
        return Err(Errno::EINVAL);
    }
    Err(match file.dentry().kind() {
        Kind::Directory => Errno::EISDIR,
        Kind::Regular => Errno::EOPNOTSUPP,
        _ => Errno::EINVAL,
    })
}

/// FIBMAP
fn block(argument: usize) -> Result<usize> {
    require(CAP_SYS_RAWIO)?;
    let block = UserPtr::<i32>::new(argument);
    if block.read()? >= 0 {
        block.write(&0)?;
    }
    Err(Errno::EINVAL)
}
