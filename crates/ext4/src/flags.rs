//! The flags of `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`, and those that a new inode inherits from
//! its directory.

use crate::inode::{EXTENTS, Inode, REGULAR, Stamp, TYPE};
use crate::{Device, Error, Fs, Result};

/// The flags that can be set: synchronous writes, immutable, append only, no dump, no access time,
/// and flags of ext2 without effect, such as secure deletion.
const SETTABLE: u32 = 0xff | 0x8000 | DIRECTORY_ONLY;
/// Synchronous changes of a directory; a directory at the top of a hierarchy.
const DIRECTORY_ONLY: u32 = 0x1_0000 | 0x2_0000;
/// The flags for types other than files and directories: no dump, no access time.
const FOR_OTHERS: u32 = 0x40 | 0x80;
/// The flags that `FS_IOC_GETFLAGS` returns (`EXT4_FL_USER_VISIBLE`).
const VISIBLE: u32 = 0x705b_dfff;
/// Data in the journal; no file has this here.
const JOURNAL_DATA: u32 = 0x4000;
/// The flags that a new inode inherits from its directory, which include neither immutable nor
/// append only.
const INHERITED: u32 = (SETTABLE | 0x400) & !(0x10 | 0x20 | 0x2_0000);

/// Those of `flags` that an inode of the type in `mode` can have.
fn for_type(mode: u16, flags: u32) -> u32 {
    match mode & TYPE {
        crate::inode::DIRECTORY => flags,
        REGULAR => flags & !DIRECTORY_ONLY,
        _ => flags & (FOR_OTHERS | !SETTABLE),
    }
}

impl Inode {
    /// The flags that `FS_IOC_GETFLAGS` returns.
    pub fn user_flags(&self) -> u32 {
        self.flags() & VISIBLE
    }

    /// The flags of a new inode of the type in `mode` in this directory.
    pub(crate) fn inherited_flags(&self, mode: u16) -> u32 {
        for_type(mode, self.flags() & INHERITED)
    }
}

impl<D: Device> Fs<D> {
    /// Sets the flags that a user may set (`FS_IOC_SETFLAGS`): immutable, append only, no access
    /// time and the like, which the caller enforces. Read-only flags are ignored, because programs
    /// change the flags that they read and write them back.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for flags that this crate, or the type of the inode, does not have.
    pub fn set_user_flags(&mut self, number: u32, flags: u32) -> Result<()> {
        self.transact(|this| {
            let mut inode = this.inode(number)?;
            let changed = inode.flags() ^ flags;
            if flags & !VISIBLE != 0
                || changed & (JOURNAL_DATA | EXTENTS) != 0
                || for_type(inode.mode(), flags & SETTABLE) != flags & SETTABLE
            {
                return Err(Error::Unsupported("flags of an inode"));
            }
            let others = inode.flags() & !SETTABLE;
            inode.set_flags(others | flags & SETTABLE);
            inode.set_time(Stamp::Change, this.now);
            this.set_inode(&inode)
        })
    }
}
