//! The inodes of a tmpfs.

use super::super::dentry::Dentry;
use super::super::device;
use super::super::file::{File, FileOps, Memory, OpenFlags, Record, Whence, access_time, seek_in};
use super::super::inode::{
    Attr, FsStat, Inode, Kind, Link, New, Replace, SetAttr, Time, XattrChange,
};
use super::super::io::{Sink, Source};
use super::super::path::Path;
use super::super::pipe::Fifo;
use super::super::writers::Writers;
use super::directory::{self, Directory};
use super::xattr::Xattrs;
use super::{Data, Tmpfs};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::heap::{try_arc, try_format};
use crate::sync::{Mutex, MutexGuard};
use crate::task::credentials::Credentials;
use crate::task::{current, file_capabilities, signal};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::*};
use linux_raw_sys::general::*;

enum Content {
    File(Data),
    Directory(Mutex<Directory>),
    Symlink(Vec<u8>),
    Fifo(Fifo),
    Device(u64),
    Socket,
}

/// The inode has file capabilities. The flag is kept with the permissions, so that a write tests
/// both at once.
const CAPABLE: u32 = 1 << 31;

struct Meta {
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    accessed: Time,
    modified: Time,
    changed: Time,
    created: Time,
}

/// An inode.
pub struct Node {
    fs: Arc<Tmpfs>,
    number: u64,
    kind: Kind,
    meta: Mutex<Meta>,
    xattrs: Xattrs,
    content: Content,
    /// Whether the inode is in no directory yet and may be linked into one (O_TMPFILE).
    linkable: AtomicBool,
    write_hint: AtomicU8,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.fs.inodes.give(super::INODE + self.xattrs.space());
    }
}

impl Node {
    /// Creates an inode of `mode`, in no directory yet.
    pub fn new(fs: Arc<Tmpfs>, mode: u32, rdev: u64, owner: (u32, u32)) -> Result<Arc<Self>> {
        let content = match Kind::of_mode(mode).ok_or(Errno::EINVAL)? {
            Kind::Directory => Content::Directory(Mutex::new(Directory::new())),
            Kind::Character | Kind::Block => Content::Device(rdev),
            Kind::Fifo => Content::Fifo(Fifo::new()?),
            Kind::Socket => Content::Socket,
            _ => Content::File(Data::new(F_SEAL_SEAL, fs.pages.clone())),
        };
        Self::with_content(fs, mode, content, owner)
    }

    fn with_content(
        fs: Arc<Tmpfs>,
        mode: u32,
        content: Content,
        (uid, gid): (u32, u32),
    ) -> Result<Arc<Self>> {
        let kind = Kind::of_mode(mode).ok_or(Errno::EINVAL)?;
        let now = Time::now();
        let meta = Meta {
            mode: mode & 0o7777,
            links: if kind == Kind::Directory { 2 } else { 1 },
            uid,
            gid,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
        };
        fs.inodes.take_many(super::INODE)?;
        let number = fs.new_inode();
        try_arc(Node {
            fs,
            number,
            kind,
            meta: Mutex::new(meta),
            xattrs: Xattrs::new(),
            content,
            linkable: AtomicBool::new(false),
            write_hint: AtomicU8::new(0),
        })
    }

    /// The inode's attributes, brought up to date.
    fn meta(&self) -> MutexGuard<'_, Meta> {
        if let Content::Fifo(fifo) = &self.content {
            fifo.note_uses(|take| {
                let mut meta = self.meta.lock();
                let [read, written] = take();
                meta.accessed = read.unwrap_or(meta.accessed);
                meta.modified = written.unwrap_or(meta.modified);
                meta.changed = written.unwrap_or(meta.changed);
            });
        }
        let mut meta = self.meta.lock();
        if let Content::File(data) = &self.content
            && let Some(ticks) = data.take_written()
        {
            meta.modified = Time::at(ticks);
            meta.changed = meta.modified;
        }
        meta
    }

    /// The file system.
    pub fn fs(&self) -> &Arc<Tmpfs> {
        &self.fs
    }

    /// Creates an inode of this file system, not yet in a directory.
    pub fn new_node(&self, mode: u32, rdev: u64, owner: (u32, u32)) -> Result<Arc<Self>> {
        Self::new(self.fs.clone(), mode, rdev, owner)
    }

    /// Creates a symbolic link of this file system, not yet in a directory.
    pub fn new_symlink(&self, target: &[u8], owner: (u32, u32)) -> Result<Arc<Self>> {
        let mut path = Vec::new();
        path.try_reserve_exact(target.len())
            .map_err(|_| Errno::ENOSPC)?;
        path.extend_from_slice(target);
        Self::with_content(
            self.fs.clone(),
            S_IFLNK | 0o777,
            Content::Symlink(path),
            owner,
        )
    }

    /// Creates an inode in this directory for the calling thread, not yet linked there.
    pub(super) fn make(&self, new: New) -> Result<Arc<Self>> {
        let mode = if let New::Node(mode, _) = new {
            mode
        } else {
            S_IFLNK
        };
        let (mode, owner) = self.inherited(mode);
        match new {
            New::Node(_, rdev) => self.new_node(mode, rdev, owner),
            New::Symlink(target) => self.new_symlink(target, owner),
        }
    }

    /// Creates the inode of memfd_create: a regular file in no directory.
    pub fn anonymous_file(fs: Arc<Tmpfs>, permissions: u32, seals: u32) -> Result<Arc<Self>> {
        let data = Data::new(seals, fs.pages.clone());
        let owner = current().with_credentials(|who| (who.fsuid, who.fsgid));
        let node = Self::with_content(fs, S_IFREG | permissions, Content::File(data), owner)?;
        node.meta().links = 0;
        Ok(node)
    }

    /// Adds seals to a regular file. On an executable file, F_SEAL_EXEC also seals its content.
    pub fn seal(&self, seals: u32) -> Result<()> {
        const UNCHANGED: u32 = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
        if seals & !(UNCHANGED | F_SEAL_SEAL | F_SEAL_EXEC) != 0 {
            return Err(Errno::EINVAL);
        }
        // The attributes stay locked until the seals are set, because chmod checks the seals.
        self.data()?.seal(|| {
            let meta = self.meta();
            let executable = seals & F_SEAL_EXEC != 0 && meta.mode & 0o111 != 0;
            let more = if executable { UNCHANGED } else { 0 };
            (seals | more, meta)
        })
    }

    /// The content of a regular file.
    pub fn data(&self) -> Result<&Data> {
        match &self.content {
            Content::File(data) => Ok(data),
            Content::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn directory(&self) -> Result<&Mutex<Directory>> {
        match &self.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The node behind `inode`, if it is on the same file system.
    pub(super) fn sibling(&self, inode: &Arc<dyn Inode>) -> Result<Arc<Node>> {
        let inode: Arc<dyn Any + Send + Sync> = inode.clone();
        let node = inode.downcast::<Node>().map_err(|_| Errno::EXDEV)?;
        if Arc::ptr_eq(&node.fs, &self.fs) {
            Ok(node)
        } else {
            Err(Errno::EXDEV)
        }
    }

    /// Records a change of this directory's content, with `links` more links.
    pub(super) fn touched(&self, links: i32) {
        let mut meta = self.meta();
        meta.links = meta.links.wrapping_add_signed(links);
        meta.modified = Time::now();
        meta.changed = meta.modified;
    }

    /// Adds `links` to the count of the inode's links; returns the new count.
    pub(super) fn linked(&self, links: i32) -> u32 {
        let mut meta = self.meta();
        meta.links = meta.links.saturating_add_signed(links);
        meta.changed = Time::now();
        meta.links
    }

    fn inherited(&self, mode: u32) -> (u32, (u32, u32)) {
        let (own, gid) = {
            let meta = self.meta();
            (meta.mode, meta.gid)
        };
        inherit(own, gid, mode)
    }

    fn accessed(&self, file: &File) {
        let mut meta = self.meta();
        if let Some(now) = file.access_time(meta.accessed, meta.modified) {
            meta.accessed = now;
        }
    }

    /// Records a change of the content: sets the times and clears set-user-ID, set-group-ID and
    /// capabilities.
    fn modified(&self) {
        let mut meta = self.meta();
        meta.modified = Time::now();
        meta.changed = meta.modified;
        if meta.mode & (S_ISUID | S_ISGID | CAPABLE) != 0 && self.kind == Kind::Regular {
            let group = meta.gid;
            current().with_credentials(|who| {
                if !who.can(CAP_FSETID) {
                    meta.mode = without_set_id(meta.mode, group, who);
                }
            });
            self.lose_capabilities(&mut meta);
        }
    }

    /// Removes the file's capabilities, since its owner changes or it is written.
    fn lose_capabilities(&self, meta: &mut Meta) {
        if meta.mode & CAPABLE != 0 {
            meta.mode &= !CAPABLE;
            let quota = &self.fs.inodes;
            _ = self
                .xattrs
                .change(file_capabilities::NAME, XattrChange::Remove, quota);
        }
    }
}

/// The mode and the owner of an inode that the calling thread creates in a directory with the mode
/// `own` and the group `gid`.
pub fn inherit(own: u32, gid: u32, mode: u32) -> (u32, (u32, u32)) {
    current().with_credentials(|who| {
        if own & S_ISGID == 0 {
            return (mode, (who.fsuid, who.fsgid));
        }
        let program = S_ISGID | S_IXGRP;
        let mode = if mode & S_IFMT == S_IFDIR {
            mode | S_ISGID
        } else if mode & program == program && !who.keeps_set_group(gid) {
            mode & !S_ISGID
        } else {
            mode
        };
        (mode, (who.fsuid, gid))
    })
}

/// The mode of a file of `group` after a write by `who`: without the set-user-ID and set-group-ID
/// bits, where they are to be cleared (setattr_should_drop_sgid).
pub fn without_set_id(mode: u32, group: u32, who: &Credentials) -> u32 {
    let group = if mode & S_IXGRP != 0 || !who.keeps_set_group(group) {
        S_ISGID
    } else {
        0
    };
    mode & !(S_ISUID | group)
}

impl Inode for Node {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn attr(&self) -> Attr {
        let (size, pages, rdev) = match &self.content {
            Content::File(data) => (data.size(), data.occupied(), 0),
            Content::Directory(directory) => (directory.lock().len() as u64 * 20 + 40, 0, 0),
            Content::Symlink(path) => (path.len() as u64, 0, 0),
            Content::Device(rdev) => (0, 0, *rdev),
            Content::Fifo(_) | Content::Socket => (0, 0, 0),
        };
        let meta = self.meta();
        Attr {
            device: self.fs.device,
            inode: self.number,
            mode: meta.mode & !CAPABLE | self.kind.mode(),
            links: meta.links,
            uid: meta.uid,
            gid: meta.gid,
            rdev,
            size,
            blocks: pages * (PAGE_SIZE as u64 / 512),
            accessed: meta.accessed,
            modified: meta.modified,
            changed: meta.changed,
            created: Some(meta.created),
        }
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        let mut meta = self.meta();
        if let (Some(permissions), Ok(data)) = (change.permissions, self.data())
            && (permissions ^ meta.mode) & 0o111 != 0
            && data.seals() & F_SEAL_EXEC != 0
        {
            return Err(Errno::EPERM);
        }
        if let Some(permissions) = change.permissions {
            meta.mode = meta.mode & CAPABLE | permissions;
        }
        if change.uid.is_some() || change.gid.is_some() {
            self.lose_capabilities(&mut meta);
        }
        meta.uid = change.uid.unwrap_or(meta.uid);
        meta.gid = change.gid.unwrap_or(meta.gid);
        meta.accessed = change.accessed.unwrap_or(meta.accessed);
        meta.modified = change.modified.unwrap_or(meta.modified);
        meta.changed = Time::now();
        Ok(())
    }

    fn open(self: Arc<Self>, here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        match &self.content {
            Content::File(_) | Content::Directory(_) => Ok(self),
            Content::Device(rdev) => device::open(here, self.kind, *rdev, flags),
            Content::Fifo(fifo) => fifo.open(flags),
            Content::Symlink(_) => Err(Errno::ELOOP),
            Content::Socket => Err(Errno::ENXIO),
        }
    }

    fn truncate(&self, size: u64) -> Result<()> {
        let data = self.data()?;
        data.writers.check_writable()?;
        if size > data.size() {
            check_limit(size)?;
        }
        data.truncate(size)?;
        self.modified();
        Ok(())
    }

    fn write_hint(&self) -> Option<&AtomicU8> {
        Some(&self.write_hint)
    }

    fn writers(&self) -> Option<&Writers> {
        Some(&self.data().ok()?.writers)
    }

    fn link_read(&self, mounted: u32) {
        let mut meta = self.meta();
        if let Some(now) = access_time(mounted, meta.accessed, meta.modified) {
            meta.accessed = now;
        }
    }

    fn link(&self) -> Result<Link> {
        let Content::Symlink(path) = &self.content else {
            return Err(Errno::EINVAL);
        };
        let mut copy = Vec::new();
        copy.try_reserve_exact(path.len())
            .map_err(|_| Errno::ENOMEM)?;
        copy.extend_from_slice(path);
        Ok(Link::Path(copy))
    }

    fn keeps_entries(&self) -> bool {
        true
    }

    fn lookup(&self, _here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        self.directory()?
            .lock()
            .get(name)
            .cloned()
            .ok_or(Errno::ENOENT)
    }

    fn create(&self, here: &Arc<Dentry>, name: &[u8], new: New) -> Result<Arc<Dentry>> {
        self.add(here, name, self.make(new)?)
    }

    fn add_link(&self, here: &Arc<Dentry>, name: &[u8], to: &Arc<dyn Inode>) -> Result<()> {
        let node = self.sibling(to)?;
        if node.kind == Kind::Directory {
            return Err(Errno::EPERM);
        }
        // A name takes memory: every name after the first counts as an inode, as on Linux.
        let first = {
            let mut meta = node.meta();
            let first = meta.links == 0;
            if !first {
                self.fs.inodes.take_many(super::INODE)?;
            } else if !node.linkable.swap(false, AcqRel) {
                return Err(Errno::ENOENT);
            }
            meta.links += 1;
            meta.changed = Time::now();
            first
        };
        let added = self.add(here, name, node.clone());
        if added.is_err() {
            if node.linked(-1) > 0 {
                self.fs.inodes.give(super::INODE);
            }
            node.linkable.store(first, Release);
        }
        added.map(|_| ())
    }

    fn create_unnamed(&self, here: &Arc<Dentry>, mode: u32, linkable: bool) -> Result<Arc<Dentry>> {
        self.directory()?;
        let (mode, owner) = self.inherited(mode);
        let node = self.new_node(mode, 0, owner)?;
        node.meta().links = 0;
        node.linkable.store(linkable, Release);
        let name = try_format(format_args!("#{}", node.number))?;
        let dentry = Dentry::named(node, Some(here.clone()), name.as_bytes())?;
        dentry.remove()?;
        Ok(dentry)
    }

    fn remove(&self, _here: &Arc<Dentry>, victim: &Arc<Dentry>) -> Result<()> {
        self.remove_name(victim)
    }

    fn rename(
        &self,
        from: (&Arc<Dentry>, &Arc<Dentry>),
        to: (&Arc<Dentry>, &[u8]),
        occupant: Option<&Arc<Dentry>>,
        replace: Replace,
    ) -> Result<()> {
        self.rename_name(from, to, occupant, replace)
    }

    fn fs_stat(&self) -> FsStat {
        self.fs.stat()
    }

    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.xattrs.get(name)
    }

    fn set_xattr(&self, name: &[u8], change: XattrChange) -> Result<()> {
        let sets = !matches!(change, XattrChange::Remove);
        let mut meta = self.meta();
        self.xattrs.change(name, change, &self.fs.inodes)?;
        if name == file_capabilities::NAME {
            meta.mode = meta.mode & !CAPABLE | if sets { CAPABLE } else { 0 };
        }
        meta.changed = Time::now();
        Ok(())
    }

    fn xattrs(&self) -> Result<Vec<u8>> {
        self.xattrs.names()
    }
}

const _: () = assert!(
    abi::options::FALLOCATE.mask() == (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE) as u64,
    "abi and fallocate disagree"
);

/// SIGXFSZ and EFBIG if RLIMIT_FSIZE does not allow a file to grow to `size`.
pub fn check_limit(size: u64) -> Result<()> {
    if size > crate::task::rlimit(RLIMIT_FSIZE) as u64 {
        signal::raise(SIGXFSZ);
        return Err(Errno::EFBIG);
    }
    Ok(())
}

/// Shortens a write at `position` to what RLIMIT_FSIZE allows; SIGXFSZ and EFBIG if it allows
/// nothing.
pub fn limit_size(from: &mut Source, position: u64) -> Result<()> {
    let room = (crate::task::rlimit(RLIMIT_FSIZE) as u64).saturating_sub(position);
    if room == 0 && from.left() > 0 {
        signal::raise(SIGXFSZ);
        return Err(Errno::EFBIG);
    }
    from.truncate(usize::try_from(room).unwrap_or(usize::MAX));
    Ok(())
}

impl FileOps for Node {
    fn held(&self) -> usize {
        match &self.content {
            // Nobody else can find it.
            Content::File(data) if self.attr().links == 0 => data.occupied() as usize * PAGE_SIZE,
            _ => 0,
        }
    }

    fn read(&self, file: &File, to: &mut Sink, position: u64) -> Result<usize> {
        let count = self.data()?.read(to, position)?;
        self.accessed(file);
        Ok(count)
    }

    fn write(&self, _file: &File, from: &mut Source, position: u64) -> Result<usize> {
        limit_size(from, position)?;
        let (count, _) = self.data()?.write(from, Some(position))?;
        self.modified();
        Ok(count)
    }

    fn append(&self, _file: &File, from: &mut Source) -> Result<(usize, u64)> {
        limit_size(from, self.data()?.size())?;
        let written = self.data()?.write(from, None)?;
        self.modified();
        Ok(written)
    }

    fn read_dir(
        &self,
        file: &File,
        position: u64,
        emit: &mut dyn FnMut(Record) -> bool,
    ) -> Result<()> {
        let directory = self.directory()?;
        if file.dentry().is_removed() {
            return Err(Errno::ENOENT);
        }
        directory::read(file.dentry(), position, emit, |at| {
            directory.lock().at_or_after(at)
        });
        self.accessed(file);
        Ok(())
    }

    fn seek(&self, _file: &File, position: u64, offset: i64, whence: Whence) -> Result<u64> {
        match &self.content {
            Content::File(data) => data.seek(position, offset, whence),
            _ => seek_in(i64::MAX as u64, position, offset, whence),
        }
    }

    fn allocate(&self, _file: &File, mode: u32, offset: u64, len: u64) -> Result<()> {
        let data = self.data()?;
        let keep = mode & FALLOC_FL_KEEP_SIZE != 0;
        match mode & !FALLOC_FL_KEEP_SIZE {
            0 => {
                let end = offset.saturating_add(len);
                if end > data.size() {
                    check_limit(end)?;
                }
                data.allocate(offset, len, !keep)?;
            }
            FALLOC_FL_PUNCH_HOLE if keep => data.punch(offset, len)?,
            _ => return Err(Errno::EOPNOTSUPP),
        }
        self.modified();
        Ok(())
    }

    fn has_direct(&self, path: &Path) -> bool {
        let mount = path.mount().filter(|_| self.kind == Kind::Regular);
        mount.is_some_and(|mount| mount.fs().kind() != "ramfs")
    }

    fn mapped(&self, file: &File) {
        self.accessed(file);
    }

    fn memory(&self) -> Memory<'_> {
        match &self.content {
            Content::File(data) => Memory::Pages(data),
            _ => Memory::None,
        }
    }
}
