//! Inodes, the objects of a file system, and their attributes.

use super::dentry::Dentry;
use super::file::{FileOps, OpenFlags};
use super::path::Path;
use super::writers::Writers;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::task::clock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::AtomicU8;
use linux_raw_sys::general::{
    S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK,
};

/// The type of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    Character,
    /// A block device.
    Block,
    /// A pipe with a name.
    Fifo,
    /// A socket.
    Socket,
    /// None of these: epoll and its kin.
    Anonymous,
}

impl Kind {
    /// The kind for the `S_IFMT` bits of a mode.
    pub fn of_mode(mode: u32) -> Option<Self> {
        Some(match mode & S_IFMT {
            S_IFREG => Kind::Regular,
            S_IFDIR => Kind::Directory,
            S_IFLNK => Kind::Symlink,
            S_IFCHR => Kind::Character,
            S_IFBLK => Kind::Block,
            S_IFIFO => Kind::Fifo,
            S_IFSOCK => Kind::Socket,
            _ => return None,
        })
    }

    /// The `S_IFMT` bits of a mode.
    pub fn mode(self) -> u32 {
        match self {
            Kind::Regular => S_IFREG,
            Kind::Directory => S_IFDIR,
            Kind::Symlink => S_IFLNK,
            Kind::Character => S_IFCHR,
            Kind::Block => S_IFBLK,
            Kind::Fifo => S_IFIFO,
            Kind::Socket => S_IFSOCK,
            Kind::Anonymous => 0,
        }
    }

    /// The value in a directory's records (`d_type`).
    pub fn directory_type(self) -> u8 {
        (self.mode() >> 12) as u8
    }
}

/// A point in time since 1970, or a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds below one second.
    pub nanoseconds: u32,
}

impl Time {
    /// The time of day.
    pub fn now() -> Self {
        Self::at(time::now_ticks())
    }

    /// The time of day when the counter was at `ticks`.
    pub fn at(ticks: u64) -> Self {
        let then = clock::realtime_at(ticks);
        Time {
            seconds: (then / clock::SECOND) as i64,
            nanoseconds: (then % clock::SECOND) as u32,
        }
    }
}

/// The attributes of an inode: what stat(2) returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attr {
    /// Device number of the file system.
    pub device: u64,
    /// Number of the inode, unique in its file system.
    pub inode: u64,
    /// Type and permissions.
    pub mode: u32,
    /// The number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node.
    pub rdev: u64,
    /// The size in bytes.
    pub size: u64,
    /// Allocated memory, in units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
    /// Last change of the inode.
    pub changed: Time,
    /// When it was made, where the file system knows that.
    pub created: Option<Time>,
}

/// Attributes to change: those that are `Some`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Permissions: the twelve low bits.
    pub permissions: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last read.
    pub accessed: Option<Time>,
    /// Last change of the content.
    pub modified: Option<Time>,
}

/// The target of a symbolic link.
pub enum Link {
    /// A path, relative to the link's own directory.
    Path(Vec<u8>),
    /// The target itself, whatever its path: the links of /proc/PID.
    Jump(Path),
}

/// The result of statfs(2) for a file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct FsStat {
    /// Its magic number.
    pub magic: u64,
    /// The size of a block; that of a page if it is `None`.
    pub block_size: Option<u32>,
    /// The number of blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Free blocks that only some users may take.
    pub reserved: u64,
    /// Its own number, if it differs from its device's.
    pub id: Option<u64>,
    /// The maximum number of inodes, and the number of free ones; 0 if there is no limit.
    pub files: u64,
    /// As above.
    pub free_files: u64,
}

/// The mode and the device of a whiteout, by which one file system of an overlay hides a file of
/// another.
pub const WHITEOUT: New<'static> = New::Node(S_IFCHR, 0);

/// Flags of renameat2(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replace {
    /// Replaces an existing file with the new name.
    #[default]
    Yes,
    /// Fails with EEXIST if the new name exists.
    No,
    /// Exchanges the two files.
    Exchange,
    /// Like `Yes`, and leaves a whiteout at the old name.
    Whiteout,
}

/// A change of an extended attribute.
pub enum XattrChange<'a> {
    /// Sets the value, whether the attribute exists or not.
    Set(&'a [u8]),
    /// Creates the attribute: EEXIST if it exists.
    Create(&'a [u8]),
    /// Replaces the value: ENODATA if the attribute does not exist.
    Replace(&'a [u8]),
    /// Removes the attribute: ENODATA if it does not exist.
    Remove,
}

/// An inode to create in a directory.
pub enum New<'a> {
    /// A file, directory, pipe, device or socket with this mode (including its `S_IFMT` bits) and
    /// device number.
    Node(u32, u64),
    /// A symbolic link.
    Symlink(&'a [u8]),
}

/// An inode, by device and number.
pub type Key = (u64, u64);

impl dyn Inode {
    /// The device and the number that its attributes show.
    pub fn shown_key(&self) -> Key {
        let attr = self.attr();
        (attr.device, attr.inode)
    }

    /// What its locks and watches are found by.
    pub fn key(&self) -> Key {
        self.identity().unwrap_or_else(|| self.shown_key())
    }
}

/// An inode. Names are plain bytes without `/`, and neither empty, `.` nor `..`; `here` is always
/// the dentry of the inode on which a method is called.
pub trait Inode: Send + Sync + Any {
    /// The type of the inode.
    fn kind(&self) -> Kind;

    /// Its attributes.
    fn attr(&self) -> Attr;

    /// The same as they are now, where others than this kernel change them (Linux's getattr).
    ///
    /// # Errors
    /// Those of who knows them.
    fn fresh_attr(&self) -> Result<Attr> {
        Ok(self.attr())
    }

    /// What it is known by while somebody holds it, where the device and the number that its
    /// attributes show may change.
    fn identity(&self) -> Option<Key> {
        None
    }

    /// Whether it has no name any more; `name` is one that it has or had.
    fn is_unlinked(&self, _name: &Dentry) -> bool {
        self.attr().links == 0
    }

    /// Its flags (FS_*_FL), if its file system has them ([`super::mount::KEEPS_FLAGS`]).
    fn flags(&self) -> u32 {
        0
    }

    /// Its attributes of statx(2) (STATX_ATTR_*), and those that its file system knows.
    fn statx_attributes(&self) -> (u32, u32) {
        (0, 0)
    }

    /// Whether it keeps when its content was last read.
    fn keeps_access_time(&self) -> bool {
        true
    }

    /// Whether the calling thread may do what the attributes forbid it.
    fn permits(&self) -> bool {
        false
    }

    /// Changes attributes.
    fn set_attr(&self, _change: &SetAttr) -> Result<()> {
        Err(Errno::EPERM)
    }

    /// Opens it.
    fn open(self: Arc<Self>, here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>>;

    /// Changes the length of a regular file.
    fn truncate(&self, _size: u64) -> Result<()> {
        Err(Errno::EINVAL)
    }

    /// The target of a symbolic link.
    fn link(&self) -> Result<Link> {
        Err(Errno::EINVAL)
    }

    /// Called when the link was read or followed, on a mount with these flags.
    fn link_read(&self, _mounted: u32) {}

    /// The target for a walk that follows the link, which may be refused.
    fn follow(&self) -> Result<Link> {
        self.link()
    }

    /// Whether each name in this directory has a single dentry, which every look-up finds, so that
    /// something can be mounted on it.
    fn keeps_entries(&self) -> bool {
        false
    }

    /// Finds a name in a directory.
    fn lookup(&self, _here: &Arc<Dentry>, _name: &[u8]) -> Result<Arc<Dentry>> {
        Err(Errno::ENOTDIR)
    }

    /// Creates an inode in a directory; EEXIST if the name exists.
    fn create(&self, _here: &Arc<Dentry>, _name: &[u8], _new: New) -> Result<Arc<Dentry>> {
        Err(Errno::EPERM)
    }

    /// Creates a regular file in no directory (O_TMPFILE). With `linkable`, it may get a name
    /// later.
    fn create_unnamed(
        &self,
        _here: &Arc<Dentry>,
        _mode: u32,
        _linkable: bool,
    ) -> Result<Arc<Dentry>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Adds a name in this directory for an inode of the same file system.
    fn add_link(&self, _here: &Arc<Dentry>, _name: &[u8], _to: &Arc<dyn Inode>) -> Result<()> {
        Err(Errno::EPERM)
    }

    /// Removes the name of an empty directory, or of a non-directory; ESTALE if `victim` no longer
    /// has that name.
    fn remove(&self, _here: &Arc<Dentry>, _victim: &Arc<Dentry>) -> Result<()> {
        Err(Errno::EPERM)
    }

    /// Moves the dentry in `(here, dentry)` to `(directory, name)` in the same file system, and
    /// replaces `occupant`, which has that name; ESTALE if one of the dentries lost its name.
    fn rename(
        &self,
        _from: (&Arc<Dentry>, &Arc<Dentry>),
        _to: (&Arc<Dentry>, &[u8]),
        _occupant: Option<&Arc<Dentry>>,
        _replace: Replace,
    ) -> Result<()> {
        Err(Errno::EPERM)
    }

    /// The expected lifetime of data written to the file (F_SET_RW_HINT), if it keeps that.
    fn write_hint(&self) -> Option<&AtomicU8> {
        None
    }

    /// The counts of its readers, writers and running programs, if it has them.
    fn writers(&self) -> Option<&Writers> {
        None
    }

    /// The statistics of its file system.
    fn fs_stat(&self) -> FsStat {
        FsStat::default()
    }

    /// An extended attribute; ENODATA if there is none with this name.
    fn xattr(&self, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets or removes an extended attribute.
    fn set_xattr(&self, _name: &[u8], _change: XattrChange) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The names of all extended attributes, also those that the calling thread may not know, each
    /// followed by a zero byte.
    fn xattrs(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}
