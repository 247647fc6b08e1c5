//! The inodes in use.

use super::super::alias::Alias;
use super::super::file::File;
use super::super::inode::{Attr, Inode, Kind, New, Time};
use super::super::names::Names;
use super::super::page_cache::Mapping;
use super::super::pipe::Fifo;
use super::super::recent::Numbered;
use super::super::writers::Writers;
use super::super::{device, tmpfs};
use super::backing::FileData;
use super::{Ext4, Locked, errno, from_disk, to_disk};
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_arc, try_arc_cyclic};
use crate::sync::Mutex;
use crate::task::{current, file_capabilities, oom};
use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use ext4::{Change, Stamp};
use linux_raw_sys::general::*;

/// What an inode is beside its attributes.
pub enum Content {
    /// A regular file.
    File(Arc<Mapping>),
    /// A directory, with the names in use.
    Directory(Mutex<Names>),
    /// A pipe.
    Fifo(Fifo),
    /// None.
    Other,
}

/// An inode.
pub struct Node {
    fs: Arc<Ext4>,
    number: u32,
    kind: Kind,
    pub content: Content,
    pub alias: Alias,
    /// The inode as it is on the disk.
    inode: Mutex<ext4::Inode>,
    /// The allocated size, in units of 512 bytes.
    sectors: Arc<AtomicU64>,
    /// The time of the last change of the content, if it is not on the disk yet.
    modified: Mutex<Option<Time>>,
    pub writers: Writers,
    /// Whether it was looked up since this was last tested.
    pub wanted: AtomicBool,
    /// Whether it was truncated to zero: then its new data is written when it is closed, so that a
    /// program that replaces a file's content finds the new one after a power cut
    /// (`auto_da_alloc`).
    pub emptied: AtomicBool,
    /// Whether it may get a name (O_TMPFILE).
    pub linkable: AtomicBool,
    /// Whether it may have capabilities: false after a check that found none.
    pub capable: AtomicBool,
    me: Weak<Node>,
}

impl Node {
    /// Creates the node of an inode.
    pub fn new(fs: Arc<Ext4>, inode: ext4::Inode) -> Result<Arc<Self>> {
        let kind = Kind::of_mode(inode.mode().into()).ok_or(Errno::EUCLEAN)?;
        let sectors = try_arc(AtomicU64::new(0))?;
        let content = match kind {
            Kind::Regular => {
                let data = FileData::new(fs.clone(), inode.number, sectors.clone())?;
                Content::File(Mapping::new(data, inode.size())?)
            }
            Kind::Directory => Content::Directory(Mutex::new(Names::new())),
            Kind::Fifo => Content::Fifo(Fifo::new()?),
            _ => Content::Other,
        };
        try_arc_cyclic(|me| Node {
            fs,
            number: inode.number,
            kind,
            content,
            alias: Alias::new(),
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

    /// Whether `sectors` belongs to this inode, and not to another one that had the number before.
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

    /// The names of a directory that are in use.
    pub fn names(&self) -> Result<&Mutex<Names>> {
        match &self.content {
            Content::Directory(names) => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Calls `f` with the inode as it is on the disk.
    pub fn with_inode<T>(&self, f: impl FnOnce(&ext4::Inode) -> T) -> T {
        f(&self.inode.lock())
    }

    /// Whether it has one of the flags (FS_*_FL).
    pub fn has(&self, flags: u32) -> bool {
        self.with_inode(|inode| inode.flags()) & flags != 0
    }

    /// EPERM if it is immutable.
    pub fn check_mutable(&self) -> Result<()> {
        match self.has(FS_IMMUTABLE_FL) {
            true => Err(Errno::EPERM),
            false => Ok(()),
        }
    }

    /// A name in this directory was changed: commits the change if names are synchronous. The lock
    /// of the file system is not held.
    pub(super) fn settle(&self) -> Result<()> {
        let mounted = self.fs.flags.load(Relaxed) & (MS_SYNCHRONOUS | MS_DIRSYNC) != 0;
        match mounted || self.has(FS_SYNC_FL | FS_DIRSYNC_FL) {
            true => oom::insist(|| self.fs.lock()?.commit().map_err(errno)),
            false => Ok(()),
        }
    }

    /// Reads the inode again after a change.
    pub(super) fn refresh(&self, fs: &mut Locked) -> Result<()> {
        let new = fs.inode(self.number);
        let new = fs.told(new).map_err(errno)?;
        self.take_over(fs, new);
        Ok(())
    }

    /// Stores its inode after an operation.
    pub(super) fn take_over(&self, fs: &Locked, new: ext4::Inode) {
        self.sectors.store(new.sectors(fs.geometry()), Relaxed);
        let old = core::mem::replace(&mut *self.inode.lock(), new);
        drop(old);
    }

    /// The node of `inode`, if it is in the same file system.
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
            created: Some(time(Stamp::Birth)),
        }
    }

    /// Changes attributes on the disk.
    pub fn change(&self, change: Change) -> Result<()> {
        let mut fs = self.fs.lock()?;
        fs.change_inode_attributes(self.number, change)
            .map_err(errno)?;
        self.refresh(&mut fs)
    }

    /// Sets the access time, which is no change of the inode.
    pub fn set_accessed(&self, time: Time) -> Result<()> {
        let mut fs = self.fs.lock()?;
        let done = fs.set_access_time(self.number, to_disk(time));
        done.map_err(errno)?;
        self.refresh(&mut fs)
    }

    /// Updates the access time, after its content was read through `file`.
    pub fn accessed(&self, file: &File) {
        if self.has(FS_NOATIME_FL) {
            return;
        }
        let attr = self.attributes();
        if let Some(now) = file.access_time(attr.accessed, attr.modified) {
            // The file is read even if its time cannot be written.
            _ = self.set_accessed(now);
        }
    }

    /// Removes the file's capabilities, when it is given away or written to.
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
        // Under the lock, which is held to set them.
        self.capable.store(false, Release);
        self.refresh(&mut fs)
    }

    /// Its content changes: records the time.
    pub fn modified(&self) -> Result<()> {
        // Done first, since a thread that finds nothing to write stops keeping it.
        *self.modified.lock() = Some(Time::now());
        self.fs.keep(&self.arc()?)
    }

    /// Removes set-user-ID, set-group-ID and capabilities from a file that this thread changes.
    pub fn lose_privileges(&self) -> Result<()> {
        if self.without_set_id().is_some() {
            let mut fs = self.fs.lock()?;
            // The mode may have been changed meanwhile.
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

    /// The mode after a change of the content by this thread, if it differs.
    fn without_set_id(&self) -> Option<u16> {
        let (mode, group) = self.with_inode(|inode| (u32::from(inode.mode()), inode.gid()));
        let left = current().with_credentials(|who| match who.can(CAP_FSETID) {
            true => mode,
            false => tmpfs::without_set_id(mode, group, who),
        });
        (left != mode).then_some(left as u16)
    }

    /// Whether it has changes that are not on the disk.
    pub fn is_dirty(&self) -> bool {
        !self.has_clean_data() || self.modified.lock().is_some()
    }

    /// Whether all its data is on the disk.
    pub fn has_clean_data(&self) -> bool {
        self.data().map_or(true, |data| !data.is_dirty())
    }

    /// Writes pages of the data, and changes of the inode, to the disk. Errors are recorded like
    /// those of the data.
    ///
    /// # Errors
    /// ENOMEM: some changes are still not on the disk.
    pub fn write_out(&self, pages: Range<usize>) -> Result<()> {
        let Ok(data) = self.data() else {
            return Ok(());
        };
        let written = match pages.is_empty() {
            // Others' writes are not waited for here.
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

    /// The mode and owner of an inode that the calling thread creates in this directory.
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

impl Numbered for Node {
    fn place(&self) -> usize {
        self.number as usize
    }

    fn wanted(&self) -> &AtomicBool {
        &self.wanted
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let at = self.number as usize;
        let mut nodes = self.fs.nodes.lock();
        // The number may belong to another node by now, or this one was never entered.
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
