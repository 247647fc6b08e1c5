//! File handles: names of inodes that survive renames. Only handles that a program has asked for
//! are valid, so that inodes need no table.

use alloc::sync::{Arc, Weak};
use core::mem::size_of;

use linux_raw_sys::general::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::file::{check_open, known_flags, open_checked};
use super::path::{self, check_flags, opened};
use crate::errno::{Errno, Result};
use crate::fs::{Dentry, OpenFlags, tmpfs};
use crate::hash::{self, HashMap};
use crate::mm::user::UserPtr;
use crate::sync::Mutex;
use crate::task::{current, require};

/// `struct file_handle` without its bytes.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Head {
    bytes: u32,
    kind: i32,
}

/// The handle of a tmpfs, in Linux's layout: a generation, and the two halves of the inode's
/// number.
type Handle = [u32; 3];
/// Its type (FILEID_INO32_GEN).
const KIND: i32 = 1;
/// The type that is reported if there is no room for a handle (FILEID_INVALID).
const INVALID: i32 = 0xff;
/// The mount is reported by its unique number, which is never reused (linux/fcntl.h).
const AT_HANDLE_MNT_ID_UNIQUE: u32 = 1;
/// The most bytes of a handle (MAX_HANDLE_SZ).
const MOST: u32 = 128;

/// The dentries whose handles were requested, by device and inode.
struct Known {
    dentries: HashMap<(u64, u64), Weak<Dentry>>,
    /// How far the table was searched for freed dentries.
    swept: usize,
}

static KNOWN: Mutex<Known> = Mutex::new(Known {
    dentries: hash::new(),
    swept: 0,
});

impl Known {
    fn add(&mut self, key: (u64, u64), dentry: &Arc<Dentry>) -> Result<()> {
        let lives = |_: &_, dentry: &Weak<Dentry>| dentry.strong_count() > 0;
        self.swept = self.dentries.retain_from(self.swept, lives);
        let room = self.dentries.try_reserve(1);
        room.map_err(|_| Errno::ENOMEM)?;
        self.dentries.insert(key, Arc::downgrade(dentry));
        Ok(())
    }
}

/// name_to_handle_at(2)
pub fn name_to_handle_at(
    directory: i32,
    path: usize,
    handle: usize,
    mount: usize,
    flags: u32,
) -> Result<usize> {
    check_flags(flags, abi::options::HANDLE.mask() as u32)?;
    let follow = match flags & AT_SYMLINK_FOLLOW {
        0 => AT_SYMLINK_NOFOLLOW,
        _ => 0,
    };
    let place = path::resolve(directory, path, flags & AT_EMPTY_PATH | follow)?;
    if tmpfs::node_of(&place).is_none() {
        return Err(Errno::EOPNOTSUPP);
    }
    let room = UserPtr::<Head>::new(handle).read()?.bytes;
    if room > MOST {
        return Err(Errno::EINVAL);
    }
    let bytes = size_of::<Handle>() as u32;
    let fits = room >= bytes;
    let kind = if fits { KIND } else { INVALID };
    if flags & AT_HANDLE_MNT_ID_UNIQUE != 0 {
        UserPtr::new(mount).write(&place.unique_mount_id())?;
    } else {
        UserPtr::new(mount).write(&(place.mount_id() as i32))?;
    }
    UserPtr::new(handle).write(&Head { bytes, kind })?;
    if !fits {
        return Err(Errno::EOVERFLOW);
    }
    let attr = place.inode().attr();
    let bytes: Handle = [0, attr.inode as u32, (attr.inode >> 32) as u32];
    UserPtr::new(handle + size_of::<Head>()).write(&bytes)?;
    KNOWN.lock().add((attr.device, attr.inode), &place)?;
    Ok(0)
}

/// open_by_handle_at(2)
pub fn open_by_handle_at(mount: i32, handle: usize, flags: u32) -> Result<usize> {
    let anchor = match mount {
        AT_FDCWD => current().fs().directory(),
        fd => opened(fd)?.path().clone(),
    };
    require(CAP_DAC_READ_SEARCH)?;
    let head = UserPtr::<Head>::new(handle).read()?;
    if head.bytes == 0 || head.bytes > MOST {
        return Err(Errno::EINVAL);
    }
    if head.kind != KIND || head.bytes as usize != size_of::<Handle>() {
        return Err(Errno::ESTALE);
    }
    let [_, low, high] = UserPtr::<Handle>::new(handle + size_of::<Head>()).read()?;
    let key = (
        anchor.inode().attr().device,
        u64::from(high) << 32 | u64::from(low),
    );
    let known = KNOWN.lock().dentries.get(&key).and_then(Weak::upgrade);
    let place = anchor.step(known.ok_or(Errno::ESTALE)?);
    let fd = current().files().reserve()?;
    let flags = OpenFlags(known_flags(flags)?);
    if flags.has(O_CREAT | O_EXCL) {
        return Err(Errno::EEXIST);
    }
    check_open(&place, flags)?;
    let opened = open_checked(place, flags)?;
    Ok(fd.install(opened, flags.has(O_CLOEXEC)) as usize)
}
