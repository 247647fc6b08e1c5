//! The operations of an ext4 inode for the file layer.

use super::super::dentry::Dentry;
use super::super::device;
use super::super::file::{FileOps, OpenFlags, access_time};
use super::super::inode::{Attr, FsStat, Inode, Kind, Link, New, Replace, SetAttr, XattrChange};
use super::super::path::Path;
use super::super::writers::Writers;
use super::file::Open;
use super::node::{Content, Node};
use super::{errno, to_disk};
use crate::errno::{Errno, Result};
use crate::task::{can, file_capabilities};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use ext4::{Change, Error};
use linux_raw_sys::general::CAP_SYS_ADMIN;

/// The supported attribute namespaces.
const FAMILIES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

fn check_family(name: &[u8]) -> Result<()> {
    match FAMILIES.iter().any(|family| name.starts_with(family)) {
        true => Ok(()),
        false => Err(Errno::EOPNOTSUPP),
    }
}

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
        let mut names = Vec::new();
        let (mut short, privileged) = (false, can(CAP_SYS_ADMIN));
        let read = fs.attributes(&inode, |family, name| {
            let told = family != b"trusted." || privileged;
            if FAMILIES.contains(&family) && told {
                short |= names.try_reserve(family.len() + name.len() + 1).is_err();
                if !short {
                    names.extend_from_slice(family);
                    names.extend_from_slice(name);
                    names.push(0);
                }
            }
        });
        fs.told(read).map_err(errno)?;
        match short {
            true => Err(Errno::ENOMEM),
            false => Ok(names),
        }
    }
}
