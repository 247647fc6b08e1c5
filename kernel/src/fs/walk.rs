//! Path walks.

use super::dentry::Dentry;
use super::fs_context::FsContext;
use super::inode::{Kind, Link};
use super::path::{self, Path};
use super::{perm, protected};
use crate::errno::{Errno, Result};
use crate::task::sched::cond_resched_killable;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use linux_raw_sys::general::{
    MS_NOSYMFOLLOW, RESOLVE_BENEATH, RESOLVE_CACHED, RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS, RESOLVE_NO_XDEV,
};

/// The longest path with its terminating zero (`PATH_MAX`).
pub const PATH_MAX: usize = 4096;
/// The longest name (`NAME_MAX`).
pub const NAME_MAX: usize = 255;
/// The number of symbolic links that one walk follows, as on Linux.
const MAX_LINKS: usize = 40;

/// The last component of a path, not looked up yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last<'a> {
    /// The name; empty for the root itself.
    pub name: &'a [u8],
    /// Whether a `/` follows: then it must be a directory.
    pub directory: bool,
}

impl Last<'_> {
    /// The name, if it can be created or removed: neither the root, `.` nor `..`. `special` is the
    /// error for those.
    pub fn last_component(&self, special: Errno) -> Result<&[u8]> {
        match self.name {
            b"" | b"." | b".." => Err(special),
            name if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
            name => Ok(name),
        }
    }
}

bitflags::bitflags! {
    /// Restrictions of a walk, with the values of openat2(2).
    #[derive(Clone, Copy, Default)]
    pub struct Scope: u64 {
        /// The path must end in or below its starting directory.
        const BENEATH = RESOLVE_BENEATH as u64;
        /// The starting directory is the root.
        const IN_ROOT = RESOLVE_IN_ROOT as u64;
        /// Magic links of `/proc`, which lead to objects, are not followed.
        const NO_MAGIC_LINKS = RESOLVE_NO_MAGICLINKS as u64;
        /// Symbolic links are not followed.
        const NO_LINKS = RESOLVE_NO_SYMLINKS as u64;
        /// The walk must stay on its mount.
        const ONE_MOUNT = RESOLVE_NO_XDEV as u64;
        /// Nothing is read from a disk.
        const CACHED = RESOLVE_CACHED as u64;
    }
}

impl Scope {
    /// EINVAL for unknown bits, or bits that exclude one another.
    pub fn from_resolve(bits: u64) -> Result<Self> {
        const { assert!(abi::options::RESOLVE.mask() == Scope::all().bits()) };
        let scope = Scope::from_bits(bits).ok_or(Errno::EINVAL)?;
        if scope.contains(Scope::BENEATH | Scope::IN_ROOT) {
            return Err(Errno::EINVAL);
        }
        Ok(scope)
    }

    /// Whether there is a directory that must not be left.
    pub fn is_bounded(self) -> bool {
        self.intersects(Scope::BENEATH | Scope::IN_ROOT)
    }
}

/// A walk: its context, and the number of links that it has followed.
pub struct Walk<'c> {
    context: &'c FsContext,
    links: usize,
    scope: Scope,
    /// The directory that must not be left, if any.
    top: Option<Path>,
    /// The number of renames and mounts when the walk began.
    changes: u64,
}

impl<'c> Walk<'c> {
    /// A walk in the tree that a process with `context` sees.
    pub fn new(context: &'c FsContext) -> Self {
        Walk {
            context,
            links: 0,
            scope: Scope::default(),
            top: None,
            changes: 0,
        }
    }

    /// Restricts this walk to directory `from`, or to the current one.
    pub fn within(mut self, scope: Scope, from: Option<&Path>) -> Self {
        if scope.is_bounded() {
            self.changes = path::changes();
            let top = from.cloned();
            self.top = Some(top.unwrap_or_else(|| self.context.directory()));
        }
        self.scope = scope;
        self
    }

    /// The starting directory of paths that begin with `/`.
    fn root(&self) -> Result<Path> {
        match &self.top {
            None => Ok(self.context.root()),
            Some(_) if self.scope.contains(Scope::BENEATH) => Err(Errno::EXDEV),
            Some(top) => Ok(top.clone()),
        }
    }

    /// Resolves `path` from directory `from`, or the current one. With `follow`, a symbolic link at
    /// its end is followed too.
    pub fn resolve(&mut self, from: Option<&Path>, path: &[u8], follow: bool) -> Result<Path> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        self.walk(self.start(from, path)?, path, follow)
    }

    /// Resolves all but the last component of `path`.
    pub fn parent<'p>(&mut self, from: Option<&Path>, path: &'p [u8]) -> Result<(Path, Last<'p>)> {
        let end = path
            .iter()
            .rposition(|&byte| byte != b'/')
            .map_or(0, |at| at + 1);
        let start = path[..end]
            .iter()
            .rposition(|&byte| byte == b'/')
            .map_or(0, |at| at + 1);
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let directory = self.walk(self.start(from, path)?, &path[..start], true)?;
        if directory.kind() != Kind::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok((
            directory,
            Last {
                name: &path[start..end],
                directory: end < path.len(),
            },
        ))
    }

    /// Looks up the last component of a path, without following a link or entering a mount there.
    pub fn last(&self, directory: &Path, last: &Last) -> Result<Path> {
        match last.name {
            b"" | b"." => Ok(directory.clone()),
            b".." => self.above(directory),
            name => Ok(directory.with(step(directory, name)?)),
        }
    }

    /// The target of a symbolic link in `directory`; `last`: it is the last component of the path.
    ///
    /// # Errors
    /// ELOOP: too many links were followed, or links must not be followed; EXDEV: it is a magic
    /// link, which must not be followed, or leads to another mount; EACCES: it belongs to another
    /// user, in a world-writable sticky folder.
    pub fn follow(&mut self, directory: &Path, link: &Dentry, last: bool) -> Result<Link> {
        cond_resched_killable()?;
        self.links += 1;
        let forbidden =
            self.scope.contains(Scope::NO_LINKS) || directory.mount_flags() & MS_NOSYMFOLLOW != 0;
        if self.links > MAX_LINKS || forbidden {
            return Err(Errno::ELOOP);
        }
        if last {
            protected::check_follow(directory, link)?;
        }
        link.inode().link_read(directory.mount_flags());
        match link.inode().follow()? {
            Link::Jump(_) if self.scope.contains(Scope::NO_MAGIC_LINKS) => Err(Errno::ELOOP),
            Link::Jump(_) if self.top.is_some() => Err(Errno::EXDEV),
            link if self.scope.contains(Scope::ONE_MOUNT) && self.jumps(directory, &link)? => {
                Err(Errno::EXDEV)
            }
            link => Ok(link),
        }
    }

    /// Whether a link in `directory` begins at another mount.
    fn jumps(&self, directory: &Path, link: &Link) -> Result<bool> {
        Ok(match link {
            Link::Jump(place) => !place.same_mount(directory),
            Link::Path(path) if path.first() == Some(&b'/') => !self.root()?.same_mount(directory),
            Link::Path(_) => false,
        })
    }

    fn start(&self, from: Option<&Path>, path: &[u8]) -> Result<Path> {
        match from {
            _ if path.first() == Some(&b'/') => self.root(),
            Some(from) => Ok(from.clone()),
            None => Ok(self.context.directory()),
        }
    }

    fn above(&self, here: &Path) -> Result<Path> {
        if self.top.as_ref().is_some_and(|top| top.is(here)) {
            return if self.scope.contains(Scope::BENEATH) {
                Err(Errno::EXDEV)
            } else {
                Ok(here.clone())
            };
        }
        if self.context.is_root(here) {
            return Ok(here.clone());
        }
        if self.scope.contains(Scope::ONE_MOUNT) && here.is_mount_root() {
            return Err(Errno::EXDEV);
        }
        let above = self.cover(here.above())?;
        // A directory that was moved out of the scope meanwhile could lead the walk past its top.
        if self.top.is_some() && path::changes() != self.changes {
            return Err(Errno::EAGAIN);
        }
        Ok(above)
    }

    /// Where a walk that reaches `place` continues: there, or at the mount on it.
    ///
    /// # Errors
    /// EXDEV: it must stay on its mount.
    #[inline]
    pub fn cover(&self, place: Path) -> Result<Path> {
        let mounted = || place.mounted_on(place.mount_id()).is_some();
        if self.scope.contains(Scope::ONE_MOUNT) && mounted() {
            return Err(Errno::EXDEV);
        }
        Ok(place.covering())
    }

    /// Checks that a restricted walk is within its bounds.
    fn arrive(&self, here: Path) -> Result<Path> {
        match &self.top {
            Some(top) if !here.is_below(top) => Err(Errno::EXDEV),
            _ => Ok(here),
        }
    }

    fn walk(&mut self, start: Path, path: &[u8], follow: bool) -> Result<Path> {
        let mut here = start;
        let mut expanded: Vec<u8> = Vec::new();
        let mut at = 0;
        loop {
            let path: &[u8] = if expanded.is_empty() {
                path
            } else {
                expanded.borrow()
            };
            let Some((name, end)) = component(path, at) else {
                return self.arrive(here);
            };
            if here.kind() != Kind::Directory {
                return Err(Errno::ENOTDIR);
            }
            perm::search(&here)?;
            at = end;
            let more = at < path.len();
            match name {
                b"." => {}
                b".." => here = self.above(&here)?,
                _ => {
                    let dentry = step(&here, name)?;
                    if dentry.kind() != Kind::Symlink || !(follow || more) {
                        here = self.cover(here.step(dentry))?;
                    } else {
                        let last = component(path, at).is_none();
                        match self.follow(&here, &dentry, last)? {
                            Link::Jump(place) => here = place,
                            Link::Path(mut target) => {
                                if target.is_empty() {
                                    return Err(Errno::ENOENT);
                                }
                                if target.first() == Some(&b'/') {
                                    here = self.root()?;
                                }
                                let rest = &path[at..];
                                target.try_reserve(rest.len()).map_err(|_| Errno::ENOMEM)?;
                                target.extend_from_slice(rest);
                                (expanded, at) = (target, 0);
                            }
                        }
                        continue;
                    }
                }
            }
            if more && here.kind() != Kind::Directory {
                return Err(Errno::ENOTDIR);
            }
        }
    }
}

fn step(directory: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    directory.inode().lookup(directory, name)
}

/// The component of `path` that begins at or after `at`, and where the next one could begin.
fn component(path: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let mut start = at;
    while path.get(start) == Some(&b'/') {
        start += 1;
    }
    let mut end = start;
    while end < path.len() && path[end] != b'/' {
        end += 1;
    }
    (start < end).then(|| (&path[start..end], end))
}
