//! The operations of an ext4 inode for the file layer.

use super::super::dentry::Dentry;
use super::super::device;
use super::super::file::{FileOps, OpenFlags, access_time};
use super::super::inode::{Attr, FsStat, Inode, Kind, Link, New, Replace, SetAttr, XattrChange};
use super::super::path::Path;
use super::super::writers::Writers;
use super::super::xattr_names::{List, check_family};
use super::file::Open;
use super::node::{Content, Node};
use super::{errno, to_disk};
use crate::errno::{Errno, Result};
use crate::task::file_capabilities;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use ext4::{Change, Error};
use linux_raw_sys::general::*;

/// The attributes of statx(2) that it tells of; flags of an inode have the same numbers.
const ATTRIBUTES: u32 = STATX_ATTR_APPEND
    | STATX_ATTR_COMPRESSED
    | STATX_ATTR_ENCRYPTED
    | STATX_ATTR_IMMUTABLE
    | STATX_ATTR_NODUMP
    | STATX_ATTR_VERITY;
const _: () = assert!(
    STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE | STATX_ATTR_NODUMP
        == FS_APPEND_FL | FS_IMMUTABLE_FL | FS_NODUMP_FL
);

/// Like [`errno`], if the object that was not found is an attribute.
fn attribute_errno(error: Error) -> Errno {
    match error {
        Error::NotFound => Errno::ENODATA,
        error => errno(error),
    }
}

impl Inode for Node {
    fn kind(&self) -> Kind {
        self.file_kind()
    }

    fn attr(&self) -> Attr {
        self.attributes()
    }

    fn flags(&self) -> u32 {
        self.with_inode(ext4::Inode::user_flags)
    }

    fn statx_attributes(&self) -> (u32, u32) {
        (self.flags() & ATTRIBUTES, ATTRIBUTES)
    }

    fn keeps_access_time(&self) -> bool {
        !self.has(FS_NOATIME_FL)
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        // Earlier writes have older times.
        self.write_out(0..0)?;
        if change.uid.is_some() || change.gid.is_some() {
            self.lose_capabilities()?;
        }
        self.change(Change {
            mode: change.permissions.map(|mode| mode as u16),
            uid: change.uid,
            gid: change.gid,
            access: change.accessed.map(to_disk),
            modify: change.modified.map(to_disk),
        })
    }

    fn open(self: Arc<Self>, here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        match self.file_kind() {
            Kind::Regular | Kind::Directory => Open::open(self),
            Kind::Character | Kind::Block => {
                let rdev = self.attributes().rdev;
                device::open(here, self.file_kind(), rdev, flags)
            }
            Kind::Fifo => match &self.content {
                Content::Fifo(fifo) => fifo.open(flags),
                _ => Err(Errno::ENXIO),
            },
            Kind::Symlink => Err(Errno::ELOOP),
            _ => Err(Errno::ENXIO),
        }
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.writers.check_writable()?;
        self.set_size(size)
    }

    fn link(&self) -> Result<Link> {
        if self.file_kind() != Kind::Symlink {
            return Err(Errno::EINVAL);
        }
        let mut fs = self.fs().lock()?;
        let inode = fs.inode(self.number());
        let inode = fs.told(inode).map_err(errno)?;
        let path = fs.read_link(&inode);
        fs.told(path).map(Link::Path).map_err(errno)
    }

    fn link_read(&self, mounted: u32) {
        let attr = self.attributes();
        if let Some(now) = access_time(mounted, attr.accessed, attr.modified) {
            _ = self.set_accessed(now);
        }
    }

    fn keeps_entries(&self) -> bool {
        true
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        self.find(here, name)
    }

    fn create(&self, here: &Arc<Dentry>, name: &[u8], new: New) -> Result<Arc<Dentry>> {
        self.make(here, name, &new)
    }

    fn create_unnamed(&self, here: &Arc<Dentry>, mode: u32, linkable: bool) -> Result<Arc<Dentry>> {
        self.make_unnamed(here, mode, linkable)
    }

    fn add_link(&self, here: &Arc<Dentry>, name: &[u8], to: &Arc<dyn Inode>) -> Result<()> {
        self.link_to(here, name, to)
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

    fn writers(&self) -> Option<&Writers> {
        (self.file_kind() == Kind::Regular).then_some(&self.writers)
    }

    fn fs_stat(&self) -> FsStat {
        self.fs().stat()
    }

    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        check_family(name)?;
        let mut fs = self.fs().lock()?;
        let inode = fs.inode(self.number());
        let inode = fs.told(inode).map_err(errno)?;
        let value = fs.attribute(&inode, name);
        fs.told(value).map_err(attribute_errno)
    }

    fn set_xattr(&self, name: &[u8], change: XattrChange) -> Result<()> {
        check_family(name)?;
        let mut fs = self.fs().lock()?;
        if name == file_capabilities::NAME {
            self.capable.store(true, Release);
        }
        let inode = fs.inode(self.number()).map_err(errno)?;
        let there = match fs.attribute(&inode, name) {
            Ok(_) => true,
            Err(Error::NotFound) => false,
            Err(error) => return Err(errno(error)),
        };
        let value = match change {
            XattrChange::Create(_) if there => return Err(Errno::EEXIST),
            XattrChange::Replace(_) | XattrChange::Remove if !there => return Err(Errno::ENODATA),
            XattrChange::Set(value) | XattrChange::Create(value) | XattrChange::Replace(value) => {
                Some(value)
            }
            XattrChange::Remove => None,
        };
        let done = fs.set_attribute(self.number(), name, value);
        done.map_err(attribute_errno)?;
        // The change has been made: lack of memory must not be reported.
        _ = self.refresh(&mut fs);
        Ok(())
    }

    fn xattrs(&self) -> Result<Vec<u8>> {
        let mut fs = self.fs().lock()?;
        let inode = fs.inode(self.number()).map_err(errno)?;
        let mut list = List::default();
        let read = fs.attributes(&inode, |family, name| _ = list.add(family, name));
        fs.told(read).map_err(errno)?;
        list.finish()
    }
}
