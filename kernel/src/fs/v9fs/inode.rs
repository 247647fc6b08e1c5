//! What the file layer asks of an inode.

use super::super::dentry::Dentry;
use super::super::device;
use super::super::file::{FileOps, OpenFlags};
use super::super::inode::{Attr, FsStat, Inode, Kind, Link, New, Replace, SetAttr, XattrChange};
use super::super::path::Path;
use super::super::tmpfs::check_limit;
use super::super::writers::Writers;
use super::super::xattr_names::check_family;
use super::directory::OpenDirectory;
use super::file::Open;
use super::node::{Content, Node, to_server};
use crate::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general::{XATTR_CREATE, XATTR_LIST_MAX, XATTR_REPLACE, XATTR_SIZE_MAX};
use ninep::{SetStat, Valid};

impl Inode for Node {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn attr(&self) -> Attr {
        self.attributes()
    }

    fn fresh_attr(&self) -> Result<Attr> {
        self.refresh()?;
        Ok(self.attributes())
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        let mut to = SetStat::default();
        if let Some(mode) = change.permissions {
            (to.mode, to.valid) = (mode, to.valid | Valid::MODE);
        }
        if let Some(uid) = change.uid {
            (to.uid, to.valid) = (uid, to.valid | Valid::UID);
        }
        if let Some(gid) = change.gid {
            (to.gid, to.valid) = (gid, to.valid | Valid::GID);
        }
        if let Some(time) = change.accessed {
            let valid = Valid::ATIME | Valid::ATIME_SET;
            (to.accessed, to.valid) = (to_server(time), to.valid | valid);
        }
        if let Some(time) = change.modified {
            let valid = Valid::MTIME | Valid::MTIME_SET;
            (to.modified, to.valid) = (to_server(time), to.valid | valid);
        }
        self.change(to)
    }

    fn open(self: Arc<Self>, here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        match (self.kind, &self.content) {
            (Kind::Regular, _) => Open::open(self, flags),
            (Kind::Directory, _) => OpenDirectory::open(self),
            (Kind::Character | Kind::Block, _) => {
                device::open(here, self.kind, self.attributes().rdev, flags)
            }
            (_, Content::Fifo(fifo)) => fifo.open(flags),
            (Kind::Symlink, _) => Err(Errno::ELOOP),
            _ => Err(Errno::ENXIO),
        }
    }

    fn truncate(&self, size: u64) -> Result<()> {
        if self.kind != Kind::Regular {
            return Err(Errno::EINVAL);
        }
        self.writers.check_writable()?;
        if size > self.attributes().size {
            check_limit(size)?;
        }
        self.lose_privileges()?;
        self.change(SetStat {
            valid: Valid::SIZE,
            size,
            ..SetStat::default()
        })
    }

    fn link(&self) -> Result<Link> {
        match self.kind {
            Kind::Symlink => {
                let target = self.by_name(|fid| self.session().read_link(fid));
                target.map(Link::Path)
            }
            _ => Err(Errno::EINVAL),
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
        (self.kind == Kind::Regular).then_some(&self.writers)
    }

    fn fs_stat(&self) -> FsStat {
        self.fs.stat(&self.fid())
    }

    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        check_family(name)?;
        let most = XATTR_SIZE_MAX as usize;
        self.by_name(|fid| self.session().xattr(fid, name, most))
    }

    fn set_xattr(&self, name: &[u8], change: XattrChange) -> Result<()> {
        check_family(name)?;
        let (value, flags): (&[u8], u32) = match change {
            XattrChange::Set(value) => (value, 0),
            XattrChange::Create(value) => (value, XATTR_CREATE),
            XattrChange::Replace(value) => (value, XATTR_REPLACE),
            XattrChange::Remove => (&[], XATTR_REPLACE),
        };
        self.by_name(|fid| self.session().set_xattr(fid, name, value, flags))?;
        _ = self.refresh();
        Ok(())
    }

    fn xattrs(&self) -> Result<Vec<u8>> {
        let most = XATTR_LIST_MAX as usize;
        let names = self.by_name(|fid| self.session().xattr(fid, b"", most))?;
        match names.last() {
            None | Some(0) => Ok(names),
            Some(_) => Err(Errno::EIO),
        }
    }
}
