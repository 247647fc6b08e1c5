//! Copying a file of a lower layer to the upper one, before it is changed. The copy is made where
//! nobody sees it, and moved to its place when it is complete.

use super::super::dentry::Dentry;
use super::super::file::{File, Whence};
use super::super::inode::{Attr, Kind, Link, New, Replace, SetAttr, XattrChange};
use super::super::io::Source;
use super::super::path::Path;
use super::super::perm;
use super::layers::open;
use super::marks::{Mark, handle};
use super::names::settled;
use super::node::{Node, key_of, node_of};
use super::options::Fsync;
use super::{Overlay, UPPER};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_format;
use crate::task::sched::cond_resched_killable;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general::*;

/// Bytes that are copied at a time.
const CHUNK: usize = 64 * 1024;

/// Copies a file up, and the directories above it that were not yet.
///
/// # Errors
/// EROFS: there is no upper layer, or none that can be written. ENOENT: the file was removed.
/// EINTR: a signal kills the process. Those of the layers.
pub fn copy_up(here: &Arc<Dentry>) -> Result<()> {
    let mut missing = Vec::new();
    let mut above = here.clone();
    while node_of(&above)?.upper().is_none() {
        missing.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let parent = above.parent().ok_or(Errno::EROFS)?;
        missing.push(core::mem::replace(&mut above, parent));
        cond_resched_killable()?;
    }
    while let Some(next) = missing.pop() {
        copy_one(&above, &next)?;
        above = next;
    }
    Ok(())
}

/// Copies a file into a directory that the upper layer has.
fn copy_one(parent: &Arc<Dentry>, here: &Arc<Dentry>) -> Result<()> {
    let (node, directory) = (node_of(here)?, node_of(parent)?);
    let _alone = node.copying.lock_killable()?;
    if node.upper().is_some() {
        return Ok(());
    }
    if here.is_removed() {
        return Err(Errno::ENOENT);
    }
    let fs = &node.fs;
    let (_, work) = fs.upper()?;
    let directory = directory.upper().ok_or(Errno::EIO)?;
    let lower = node.top()?;
    fs.mounter_may(&lower, perm::READ)?;
    let attr = lower.inode().attr();
    // The other names of a lower file keep what they have.
    let keeps_origin = node.file_kind() == Kind::Directory || attr.links == 1;
    if keeps_origin {
        fs.set_impure(&directory)?;
    }
    let before = directory.inode().attr();
    let copy = fs.make_temporary(new_like(&lower, &attr)?.as_new(&attr))?;
    let copied = fs
        .fill(&lower, &copy, &attr)
        .and_then(|()| match keeps_origin {
            true => fs.set_origin(&copy, attr.inode),
            false => Ok(()),
        })
        .and_then(|()| fs.complete(&copy, &attr))
        .and_then(|()| {
            // Whoever finds it in its place finds this node.
            let key = key_of(copy.inode());
            fs.insert(key, &node)?;
            let place = (&directory, &*here.name());
            settled(work.inode().rename((work, &copy), place, None, Replace::No))
                .inspect_err(|_| fs.withdraw(key, &node))
        });
    if let Err(error) = copied {
        fs.dispose(&copy);
        return Err(error);
    }
    _ = directory.inode().set_attr(&times(&before));
    node.set_upper(copy, keeps_origin);
    Ok(())
}

/// What is to be made for a copy.
enum Like {
    Node,
    Symlink(Vec<u8>),
}

fn new_like(lower: &Path, attr: &Attr) -> Result<Like> {
    if attr.mode & S_IFMT != S_IFLNK {
        return Ok(Like::Node);
    }
    match lower.inode().link()? {
        Link::Path(target) => Ok(Like::Symlink(target)),
        Link::Jump(_) => Err(Errno::EINVAL),
    }
}

impl Like {
    fn as_new(&self, attr: &Attr) -> New<'_> {
        match self {
            Like::Node => New::Node(attr.mode & S_IFMT, attr.rdev),
            Like::Symlink(target) => New::Symlink(target),
        }
    }
}

fn times(attr: &Attr) -> SetAttr {
    SetAttr {
        accessed: Some(attr.accessed),
        modified: Some(attr.modified),
        ..SetAttr::default()
    }
}

impl Overlay {
    /// A new name for a file that has no place.
    pub(super) fn temporary_name(&self) -> Result<String> {
        let number = self.last_temporary.fetch_add(1, Relaxed).wrapping_add(1);
        try_format(format_args!("#{number:x}"))
    }

    /// Makes a file that has no place yet.
    pub(super) fn make_temporary(&self, new: New) -> Result<Arc<Dentry>> {
        let (_, work) = self.upper()?;
        let name = self.temporary_name()?;
        match work.inode().create(work, name.as_bytes(), new) {
            Err(Errno::EEXIST) => Err(Errno::EIO),
            made => made,
        }
    }

    /// Removes a file that has no place, or lets the next mount do it.
    pub(super) fn dispose(&self, temporary: &Arc<Dentry>) {
        if let Ok((_, work)) = self.upper() {
            _ = work.inode().remove(work, temporary);
        }
    }

    /// Notes that a directory of the upper layer has files that were copied.
    pub(super) fn set_impure(&self, directory: &Dentry) -> Result<()> {
        match self.has_no_attributes() || self.mark(directory, Mark::Impure)?.is_some() {
            true => Ok(()),
            false => self.set_mark(directory, Mark::Impure, b"y", Errno::EIO),
        }
    }

    /// Notes what a file was copied from.
    pub(super) fn set_origin(&self, copy: &Dentry, number: u64) -> Result<()> {
        match self.has_no_attributes() {
            true => Ok(()),
            false => self.set_mark(copy, Mark::Origin, &handle(number), Errno::EIO),
        }
    }

    /// Gives a copy the data, owner, permissions and attributes of the original.
    fn fill(&self, lower: &Path, copy: &Arc<Dentry>, attr: &Attr) -> Result<()> {
        if lower.kind() == Kind::Regular && attr.size > 0 {
            let copy = self.path(UPPER, copy.clone());
            let (from, to) = (open(lower, O_RDONLY)?, open(&copy, O_WRONLY)?);
            self.copy_data(&from, &to, attr.size)?;
        }
        // A change of the owner takes capabilities away, so they come after it.
        copy.inode().set_attr(&SetAttr {
            permissions: (lower.kind() != Kind::Symlink).then_some(attr.mode & 0o7777),
            uid: Some(attr.uid),
            gid: Some(attr.gid),
            ..SetAttr::default()
        })?;
        self.copy_attributes(lower, copy)
    }

    /// Copies `size` bytes; holes stay holes.
    fn copy_data(&self, from: &File, to: &File, size: u64) -> Result<()> {
        let mut buffer = Vec::new();
        let chunk = CHUNK.min(size as usize);
        buffer.try_reserve_exact(chunk).map_err(|_| Errno::ENOMEM)?;
        buffer.resize(chunk, 0);
        let mut at = 0;
        while at < size {
            cond_resched_killable()?;
            match from.ops().seek(from, at, at as i64, Whence::Data) {
                Ok(data) => at = data,
                Err(Errno::ENXIO) => break,
                Err(_) => {}
            }
            let most = chunk.min((size - at.min(size)) as usize);
            let count = from.read_kernel(at, &mut buffer[..most])?;
            if count == 0 {
                break;
            }
            let mut source = Source::kernel(&buffer[..count]);
            at += to.write_at(&mut source, at)? as u64;
        }
        to.dentry().inode().truncate(size)?;
        match self.syncs() {
            true => to.ops().sync(to, 0..u64::MAX),
            false => Ok(()),
        }
    }

    /// Copies extended attributes, but for marks.
    fn copy_attributes(&self, lower: &Path, copy: &Dentry) -> Result<()> {
        let names = lower.inode().xattrs()?;
        for name in names
            .split(|&byte| byte == 0)
            .filter(|name| !name.is_empty())
        {
            cond_resched_killable()?;
            if self.is_private(name) {
                continue;
            }
            let value = match lower.inode().xattr(name) {
                Err(Errno::ENODATA) => continue,
                value => value?,
            };
            let must = name.starts_with(b"security.");
            match copy.inode().set_xattr(name, XattrChange::Set(&value)) {
                Err(Errno::EOPNOTSUPP) if !must => {}
                set => set?,
            }
        }
        Ok(())
    }

    /// Gives a copy, which is otherwise complete, its times.
    fn complete(&self, copy: &Arc<Dentry>, attr: &Attr) -> Result<()> {
        copy.inode().set_attr(&times(attr))?;
        let stored = matches!(copy.kind(), Kind::Regular | Kind::Directory);
        if self.options.fsync != Fsync::Strict || !stored {
            return Ok(());
        }
        let file = open(&self.path(UPPER, copy.clone()), O_RDONLY)?;
        file.ops().sync(&file, 0..u64::MAX)
    }
}

impl Node {
    /// Copies the file up by the name that it was found by.
    ///
    /// # Errors
    /// Those of [`copy_up`].
    pub fn copy_up(&self) -> Result<Arc<Dentry>> {
        if let Some(upper) = self.upper() {
            self.fs.upper()?;
            return Ok(upper);
        }
        copy_up(&self.alias().ok_or(Errno::ENOENT)?)?;
        self.upper().ok_or(Errno::EIO)
    }
}
