//! The inodes in use.

use super::super::dentry::Dentry;
use super::super::file::File;
use super::super::inode::{Attr, Inode, Kind, New, Time};
use super::super::page_cache::Mapping;
use super::super::pipe::Fifo;
use super::super::writers::Writers;
use super::super::{device, tmpfs};
use super::backing::FileData;
use super::{Ext4, Locked, errno, from_disk, to_disk};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::{try_arc, try_arc_cyclic};
use crate::sync::Mutex;
use crate::task::{current, file_capabilities, oom};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use ext4::{Change, Stamp};
use linux_raw_sys::general::*;

/// Dentries of a directory by their names.
pub struct Names {
    pub dentries: HashMap<Vec<u8>, Weak<Dentry>>,
    /// Where the search for dead ones goes on.
    pub swept: usize,
}

/// What an inode is beside its attributes.
pub enum Content {
    /// A regular file.
    File(Arc<Mapping>),
    /// A directory, with the names that somebody has.
    Directory(Mutex<Names>),
    /// A pipe.
    Fifo(Fifo),
    /// Nothing.
    Other,
}

/// An inode.
pub struct Node {
    fs: Arc<Ext4>,
    number: u32,
    kind: Kind,
    pub content: Content,
    /// As the disk has it.
    inode: Mutex<ext4::Inode>,
    /// Units of 512 bytes that it takes.
    sectors: Arc<AtomicU64>,
    /// When the content was last changed, where the disk does not have that.
    modified: Mutex<Option<Time>>,
    pub writers: Writers,
    /// Somebody looked it up since it was last asked.
    pub wanted: AtomicBool,
    /// It was emptied: what is written then goes to the disk when it is closed, so that a program
    /// that replaces a file's content so has the new one after a power cut (`auto_da_alloc`).
    pub emptied: AtomicBool,
    /// Whether it may get a name (O_TMPFILE).
    pub linkable: AtomicBool,
    /// It may have capabilities as a program: false after a look that found none.
    pub capable: AtomicBool,
    me: Weak<Node>,
}

impl Node {
    /// The node of an inode.
    pub fn new(fs: Arc<Ext4>, inode: ext4::Inode) -> Result<Arc<Self>> {
        let kind = Kind::of_mode(inode.mode().into()).ok_or(Errno::EUCLEAN)?;
        let sectors = try_arc(AtomicU64::new(0))?;
        let content = match kind {
            Kind::Regular => {
                let data = FileData::new(fs.clone(), inode.number, sectors.clone())?;
                Content::File(Mapping::new(data, inode.size())?)
            }
            Kind::Directory => Content::Directory(Mutex::new(Names {
                dentries: hash::new(),
                swept: 0,
            })),
            Kind::Fifo => Content::Fifo(Fifo::new()?),
            _ => Content::Other,
        };
        try_arc_cyclic(|me| Node {
            fs,
            number: inode.number,
            kind,
            content,
            inode: Mutex::new(inode),
            sectors,
            modified: Mutex::new(None),
            writers: Writers::new(),
            wanted: AtomicBool::new(false),
            emptied: AtomicBool::new(false),
            linkable: AtomicBool::new(false),
            capable: AtomicBool::new(true),
            me: me.clone(),
        })
    }

    /// The file system.
    pub fn fs(&self) -> &Arc<Ext4> {
        &self.fs
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether this counts its place, and not that of another inode that had the number before.
    pub fn counts_in(&self, sectors: &Arc<AtomicU64>) -> bool {
        Arc::ptr_eq(&self.sectors, sectors)
    }

    /// The type of the file.
    pub fn file_kind(&self) -> Kind {
        self.kind
    }

    /// A counted reference to itself.
    pub fn arc(&self) -> Result<Arc<Node>> {
        self.me.upgrade().ok_or(Errno::EIO)
    }

    /// The content of a regular file.
    pub fn data(&self) -> Result<&Arc<Mapping>> {
        match &self.content {
            Content::File(mapping) => Ok(mapping),
            Content::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The names of a directory that somebody has.
    pub fn names(&self) -> Result<&Mutex<Names>> {
        match &self.content {
            Content::Directory(names) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Looks at the inode as the disk has it.
    pub fn with_inode<T>(&self, f: impl FnOnce(&ext4::Inode) -> T) -> T {
        f(&self.inode.lock())
    }

    /// Whether it has one of the flags (FS_*_FL).
    pub fn has(&self, flags: u32) -> bool {
        self.with_inode(|inode| inode.flags()) & flags != 0
    }

    /// EPERM if nothing may change it.
    pub fn check_mutable(&self) -> Result<()> {
        match self.has(FS_IMMUTABLE_FL) {
            true => Err(Errno::EPERM),
            false => Ok(()),
        }
    }

    /// A name in this directory was changed: commits that where names are synchronous. The lock of
    /// the file system is not held.
    pub(super) fn settle(&self) -> Result<()> {
        let mounted = self.fs.flags.load(Relaxed) & (MS_SYNCHRONOUS | MS_DIRSYNC) != 0;
        match mounted || self.has(FS_SYNC_FL | FS_DIRSYNC_FL) {
            true => oom::insist(|| self.fs.lock()?.commit().map_err(errno)),
            false => Ok(()),
        }
    }

    /// Takes over what the disk has by now.
    pub(super) fn refresh(&self, fs: &mut Locked) -> Result<()> {
        let new = fs.inode(self.number);
        let new = fs.told(new).map_err(errno)?;
        self.take_over(fs, new);
        Ok(())
    }

    /// Takes over its inode as an operation left it.
    pub(super) fn take_over(&self, fs: &Locked, new: ext4::Inode) {
        self.sectors.store(new.sectors(fs.geometry()), Relaxed);
        let old = core::mem::replace(&mut *self.inode.lock(), new);
        drop(old);
    }

    /// The node behind `inode`, when it is of the same file system.
    pub fn sibling(&self, inode: &Arc<dyn Inode>) -> Result<Arc<Node>> {
        let inode: Arc<dyn Any + Send + Sync> = inode.clone();
        let node = inode.downcast::<Node>().map_err(|_| Errno::EXDEV)?;
        match Arc::ptr_eq(&node.fs, &self.fs) {
            true => Ok(node),
            false => Err(Errno::EXDEV),
        }
    }

    /// Its attributes.
    pub fn attributes(&self) -> Attr {
        let inode = self.inode.lock();
        let (major, minor) = inode.device();
        let is_device = matches!(self.kind, Kind::Character | Kind::Block);
        let modified = *self.modified.lock();
        let time = |stamp| from_disk(inode.time(stamp));
        let changed = time(Stamp::Change);
        Attr {
            device: self.fs.volume.number(),
            inode: self.number.into(),
            mode: inode.mode().into(),
            links: inode.links().into(),
            uid: inode.uid(),
            gid: inode.gid(),
            rdev: if is_device {
                device::number(major, minor)
            } else {
                0
            },
            size: self.data().map_or(inode.size(), |data| data.size()),
            blocks: self.sectors.load(Relaxed),
            accessed: time(Stamp::Access),
            modified: modified.unwrap_or_else(|| time(Stamp::Modify)),
            changed: modified.map_or(changed, |modified| modified.max(changed)),
            created: time(Stamp::Birth),
        }
    }

    /// Changes attributes on the disk.
    pub fn change(&self, change: Change) -> Result<()> {
        let mut fs = self.fs.lock()?;
        fs.change_inode_attributes(self.number, change)
            .map_err(errno)?;
        self.refresh(&mut fs)
    }

    /// Notes when its content was read, which is no change of the inode.
    pub fn set_accessed(&self, time: Time) -> Result<()> {
        let mut fs = self.fs.lock()?;
        let done = fs.set_access_time(self.number, to_disk(time));
        done.map_err(errno)?;
        self.refresh(&mut fs)
    }

    /// Its content was read through `file`.
    pub fn accessed(&self, file: &File) {
        if self.has(FS_NOATIME_FL) {
            return;
        }
        let attr = self.attributes();
        if let Some(now) = file.access_time(attr.accessed, attr.modified) {
            // A file that cannot be written is read all the same.
            _ = self.set_accessed(now);
        }
    }

    /// Removes the file's capabilities, as it is given away or written to.
    pub fn lose_capabilities(&self) -> Result<()> {
        if self.kind != Kind::Regular || !self.capable.load(Acquire) {
            return Ok(());
        }
        let mut fs = self.fs.lock()?;
        let done = fs.set_attribute(self.number, file_capabilities::NAME, None);
        match done {
            Err(ext4::Error::NotFound) => {}
            done => done.map_err(errno)?,
        }
        // Under the lock, which who sets them has.
        self.capable.store(false, Release);
        self.refresh(&mut fs)
    }

    /// Its content changes: the time is kept.
    pub fn modified(&self) -> Result<()> {
        // First: who finds nothing to write lets it go.
        *self.modified.lock() = Some(Time::now());
        self.fs.keep(&self.arc()?)
    }

    /// Takes set-user-ID, set-group-ID and capabilities away from what a call of this thread's
    /// changes.
    pub fn lose_privileges(&self) -> Result<()> {
        if self.without_set_id().is_some() {
            let mut fs = self.fs.lock()?;
            // Somebody may have changed the mode meanwhile.
            if let Some(left) = self.without_set_id() {
                let change = Change {
                    mode: Some(left),
                    ..Change::default()
                };
                let done = fs.change_inode_attributes(self.number, change);
                done.map_err(errno)?;
                self.refresh(&mut fs)?;
            }
        }
        self.lose_capabilities()
    }

    /// The mode that a change of the content by this thread leaves, if it is another.
    fn without_set_id(&self) -> Option<u16> {
        let (mode, group) = self.with_inode(|inode| (u32::from(inode.mode()), inode.gid()));
        let left = current().with_credentials(|who| match who.can(CAP_FSETID) {
            true => mode,
            false => tmpfs::without_set_id(mode, group, who),
        });
        (left != mode).then_some(left as u16)
    }

    /// Whether there is something that the disk does not have.
    pub fn is_dirty(&self) -> bool {
        !self.has_clean_data() || self.modified.lock().is_some()
    }

    /// Whether the disk has all of the data.
    pub fn has_clean_data(&self) -> bool {
        self.data().map_or(true, |data| !data.is_dirty())
    }

    /// Writes pages of the data, and what is kept of the inode, to the disk. Errors are kept as
    /// those of the data.
    ///
    /// # Errors
    /// ENOMEM: something stays that the disk does not have.
    pub fn write_out(&self, pages: Range<usize>) -> Result<()> {
        let Ok(data) = self.data() else {
            return Ok(());
        };
        let written = match pages.is_empty() {
            // Nobody waits here for what others write.
            true => Ok(()),
            false => data.write_back(pages),
        };
        let modified = self.modified.lock().take();
        let done = self.fs.lock().and_then(|mut fs| {
            if let Some(time) = modified {
                let done = fs.set_modify_time(self.number, to_disk(time));
                done.map_err(errno)?;
            }
            self.refresh(&mut fs)
        });
        match done {
            Err(Errno::ENOMEM) => {
                if let Some(time) = modified {
                    self.modified.lock().get_or_insert(time);
                }
                return Err(Errno::ENOMEM);
            }
            Err(error) => data.record(error),
            Ok(()) => {}
        }
        written
    }

    /// What the calling thread makes in this directory: its mode and owner.
    pub fn inherit(&self, mode: u32) -> (u32, (u32, u32)) {
        let (own, gid) = self.with_inode(|inode| (inode.mode(), inode.gid()));
        tmpfs::inherit(own.into(), gid, mode)
    }

    /// The crate's description of a new inode.
    pub fn describe<'a>(&self, new: &New<'a>) -> ext4::New<'a> {
        let (mode, rdev, target) = match *new {
            New::Node(mode, rdev) => (mode, rdev, &[][..]),
            New::Symlink(target) => (S_IFLNK | 0o777, 0, target),
        };
        let (mode, (uid, gid)) = self.inherit(mode);
        ext4::New {
            mode: mode as u16,
            uid,
            gid,
            device: device::split(rdev),
            target,
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let at = self.number as usize;
        let mut nodes = self.fs.nodes.lock();
        // Another node may have the number by now, or nobody ever had this one.
        let noted = nodes.get(at).is_some_and(|node| node.strong_count() == 0);
        if noted {
            nodes.remove_range(at, at, &mut drop);
        }
        drop(nodes);
        if noted && self.inode.get_mut().links() == 0 {
            self.fs.add_orphan(self.number);
        }
    }
}
