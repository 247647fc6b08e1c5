//! What the file layer asks of an inode.

use super::super::dentry::Dentry;
use super::super::device;
use super::super::file::{FileOps, OpenFlags};
use super::super::inode::{Attr, FsStat, Inode, Kind, Link};
use super::super::path::Path;
use super::super::writers::Writers;
use super::super::xattr_names::{List, check_family};
use super::errno;
use super::file::Open;
use super::node::{Content, Node};
use crate::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use erofs::Error;
use linux_raw_sys::general::{STATX_ATTR_COMPRESSED, STATX_ATTR_IMMUTABLE};

/// The family of attributes that can be hidden.
const USER: &[u8] = b"user.";

impl Inode for Node {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn attr(&self) -> Attr {
        self.attributes()
    }

    fn statx_attributes(&self) -> (u32, u32) {
        let known = STATX_ATTR_COMPRESSED | STATX_ATTR_IMMUTABLE;
        match self.inode.is_compressed() {
            true => (known, known),
            false => (STATX_ATTR_IMMUTABLE, known),
        }
    }

    fn keeps_access_time(&self) -> bool {
        false
    }

    fn open(self: Arc<Self>, here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        match (self.kind, &self.content) {
            (Kind::Regular | Kind::Directory, _) => Open::open(self),
            (Kind::Character | Kind::Block, _) => {
                let rdev = self.attributes().rdev;
                device::open(here, self.kind, rdev, flags)
            }
            (_, Content::Fifo(fifo)) => fifo.open(flags),
            (Kind::Symlink, _) => Err(Errno::ELOOP),
            _ => Err(Errno::ENXIO),
        }
    }

    fn link(&self) -> Result<Link> {
        if self.kind != Kind::Symlink {
            return Err(Errno::EINVAL);
        }
        let path = self.fs.fs.read_link(&self.inode);
        path.map(Link::Path).map_err(errno)
    }

    fn keeps_entries(&self) -> bool {
        true
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        self.find(here, name)
    }

    fn writers(&self) -> Option<&Writers> {
        (self.kind == Kind::Regular).then_some(&self.writers)
    }

    fn fs_stat(&self) -> FsStat {
        self.fs.stat()
    }

    fn xattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        check_family(name)?;
        if name.starts_with(USER) && !self.fs.user_xattr.load(Relaxed) {
            return Err(Errno::EOPNOTSUPP);
        }
        let value = self.fs.fs.attribute(&self.inode, name);
        value.map_err(|error| match error {
            Error::NotFound => Errno::ENODATA,
            error => errno(error),
        })
    }

    fn xattrs(&self) -> Result<Vec<u8>> {
        let users = self.fs.user_xattr.load(Relaxed);
        let mut list = List::default();
        let read = self.fs.fs.attributes(&self.inode, |family, name| {
            let hidden = !users && family == USER;
            hidden || list.add(family, name)
        });
        read.map_err(errno)?;
        list.finish()
    }
}
