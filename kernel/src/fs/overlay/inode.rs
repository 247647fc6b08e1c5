//! What the file layer asks of an inode.

use super::super::dentry::Dentry;
use super::super::device;
use super::super::file::{FileOps, OpenFlags};
use super::super::inode::{
    Attr, FsStat, Inode, Key, Kind, Link, New, Replace, SetAttr, XattrChange,
};
use super::super::path::Path;
use super::super::writers::Writers;
use super::directory::OpenDirectory;
use super::file::Open;
use super::marks::ESCAPE;
use super::node::{Content, Node, Stack, key_of};
use crate::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU8;
use linux_raw_sys::general::S_IFMT;

impl Inode for Node {
    fn kind(&self) -> Kind {
        self.file_kind()
    }

    fn attr(&self) -> Attr {
        self.attributes()
    }

    fn fresh_attr(&self) -> Result<Attr> {
        self.top()?.inode().fresh_attr()?;
        Ok(self.attributes())
    }

    /// Those of the file in its layer, which forbid what they forbid there.
    fn flags(&self) -> u32 {
        self.top().map_or(0, |top| top.inode().flags())
    }

    /// A lower file that has more names gets another number with its copy.
    fn identity(&self) -> Option<Key> {
        Some(self.key())
    }

    /// A lower file keeps its names when they are hidden, and a directory's links are not counted.
    fn is_unlinked(&self, name: &Dentry) -> bool {
        let links = self.attributes().links;
        let only = self.kind() == Kind::Directory || self.upper().is_none() && links <= 1;
        links == 0 || only && name.is_removed()
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        self.copy_up()?.inode().set_attr(change)
    }

    fn open(self: Arc<Self>, here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        match self.file_kind() {
            Kind::Regular => Open::open(self, here, flags),
            Kind::Directory => OpenDirectory::open(self),
            kind @ (Kind::Character | Kind::Block) => {
                device::open(here, kind, self.attributes().rdev, flags)
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
        self.own_writers.check_writable()?;
        self.copy_up()?.inode().truncate(size)
    }

    fn write_hint(&self) -> Option<&AtomicU8> {
        Some(&self.own_write_hint)
    }

    fn writers(&self) -> Option<&Writers> {
        (self.file_kind() == Kind::Regular).then_some(&self.own_writers)
    }

    fn link_read(&self, mounted: u32) {
        if let Some(upper) = self.upper() {
            upper.inode().link_read(mounted);
        }
    }

    fn link(&self) -> Result<Link> {
        self.top()?.inode().link()
    }

    fn keeps_entries(&self) -> bool {
        true
    }

    fn lookup(&self, here: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
        self.look_up(here, name)
    }

    fn create(&self, here: &Arc<Dentry>, name: &[u8], new: New) -> Result<Arc<Dentry>> {
        self.make(here, name, new)
    }

    fn create_unnamed(&self, here: &Arc<Dentry>, mode: u32, linkable: bool) -> Result<Arc<Dentry>> {
        let upper = self.to_change(here)?;
        let kind = Kind::of_mode(mode & S_IFMT).ok_or(Errno::EINVAL)?;
        let made = upper.inode().create_unnamed(&upper, mode, linkable)?;
        let node = Node::new(self.fs.clone(), kind, Stack::empty()?)?;
        let dentry = Dentry::new(node.clone(), Some(here.clone()), made.name())?;
        dentry.remove()?;
        let key = key_of(made.inode());
        node.set_upper(made, false);
        self.fs.insert(key, &node)?;
        Ok(dentry)
    }

    fn add_link(&self, here: &Arc<Dentry>, name: &[u8], to: &Arc<dyn Inode>) -> Result<()> {
        self.link_to(here, name, to)
    }

    fn remove(&self, here: &Arc<Dentry>, victim: &Arc<Dentry>) -> Result<()> {
        self.remove_name(here, victim)
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
        let real = self.top()?;
        match self.fs.own_name(name) {
            Some(rest) => real.inode().xattr(&self.fs.escaped(rest)?),
            None => real.inode().xattr(name),
        }
    }

    fn set_xattr(&self, name: &[u8], change: XattrChange) -> Result<()> {
        let escaped = self.fs.own_name(name).map(|rest| self.fs.escaped(rest));
        let escaped = escaped.transpose()?;
        let name = escaped.as_deref().unwrap_or(name);
        if matches!(change, XattrChange::Remove) && self.upper().is_none() {
            // It is not copied up for nothing.
            self.top()?.inode().xattr(name)?;
        }
        self.copy_up()?.inode().set_xattr(name, change)
    }

    fn xattrs(&self) -> Result<Vec<u8>> {
        let mut names = self.top()?.inode().xattrs()?;
        let (mut kept, mut at) = (0, 0);
        while let Some(len) = names[at..].iter().position(|&byte| byte == 0) {
            let (start, end) = (at, at + len + 1);
            at = end;
            let name = &names[start..end];
            let Some(rest) = self.fs.own_name(name) else {
                names.copy_within(start..end, kept);
                kept += end - start;
                continue;
            };
            // Of marks only those of another overlay are shown, by their own names.
            if rest.starts_with(ESCAPE) {
                let prefix = name.len() - rest.len();
                names.copy_within(start..start + prefix, kept);
                names.copy_within(start + prefix + ESCAPE.len()..end, kept + prefix);
                kept += end - start - ESCAPE.len();
            }
        }
        names.truncate(kept);
        Ok(names)
    }
}
