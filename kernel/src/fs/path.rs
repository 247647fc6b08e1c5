//! Paths: a dentry as it is seen through a mount (Linux's `struct path`). A directory has one
//! dentry, however often it is mounted; the mount determines where `..` leads and how the directory
//! may be used.

use super::dentry::Dentry;
use super::mount::{Mount, Super};
use super::walk::PATH_MAX;
use crate::errno::{Errno, Result};
use crate::task::sched::cond_resched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Renames and mounts so far.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// How many renames and mounts there were (Linux's rename_lock and mount_lock): `..` leads where it
/// led while that stays.
pub fn changes() -> u64 {
    CHANGES.load(Acquire)
}

/// Counts a change of the tree that is about to be made.
pub fn tree_changes() {
    CHANGES.fetch_add(1, AcqRel);
}

/// A dentry, and the mount in which it was found.
#[derive(Clone)]
pub struct Path {
    /// Dropped first: the mount may be the last of the file system.
    dentry: Arc<Dentry>,
    /// None for files in no file system that could be mounted: pipes, sockets, memfds.
    mount: Option<Arc<Mount>>,
}

impl From<Arc<Dentry>> for Path {
    fn from(dentry: Arc<Dentry>) -> Self {
        Path {
            mount: None,
            dentry,
        }
    }
}

impl Deref for Path {
    type Target = Arc<Dentry>;

    fn deref(&self) -> &Arc<Dentry> {
        &self.dentry
    }
}

impl Path {
    /// The root of `mount`.
    pub fn root_of(mount: Arc<Mount>) -> Self {
        let dentry = mount.root().clone();
        let mount = Some(mount);
        Path { mount, dentry }
    }

    /// The dentry.
    pub fn dentry(&self) -> &Arc<Dentry> {
        &self.dentry
    }

    /// The mount.
    pub fn mount(&self) -> Option<&Arc<Mount>> {
        self.mount.as_ref()
    }

    /// How it is mounted: MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOATIME and their like.
    #[inline]
    pub fn mount_flags(&self) -> u32 {
        self.mount.as_ref().map_or(0, |mount| mount.flags())
    }

    /// The number of its mount, 0 where there is none.
    pub fn mount_id(&self) -> u32 {
        self.mount.as_ref().map_or(0, |mount| mount.id())
    }

    /// The number of its mount that is no other's, ever: on Linux they begin where the others end.
    /// None is given twice here.
    pub fn unique_mount_id(&self) -> u64 {
        1 << 32 | u64::from(self.mount_id())
    }

    /// Another dentry of the same mount.
    #[inline]
    pub fn with(&self, dentry: Arc<Dentry>) -> Self {
        let mount = self.mount.clone();
        Path { mount, dentry }
    }

    /// Goes on to another dentry of the same mount.
    #[inline]
    pub fn step(self, dentry: Arc<Dentry>) -> Self {
        let mount = self.mount;
        Path { mount, dentry }
    }

    /// Whether both are of the same mount.
    pub fn same_mount(&self, other: &Path) -> bool {
        match (&self.mount, &other.mount) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// Whether both are the same dentry of the same mount.
    pub fn is(&self, other: &Path) -> bool {
        Arc::ptr_eq(&self.dentry, &other.dentry) && self.same_mount(other)
    }

    /// Whether the dentry is the root of its mount.
    pub fn is_mount_root(&self) -> bool {
        let mount = self.mount.as_ref();
        mount.is_some_and(|mount| Arc::ptr_eq(mount.root(), &self.dentry))
    }

    /// The place where a walk goes on: the root of the mount on top of this place, or the place
    /// itself.
    #[inline]
    pub fn covering(self) -> Self {
        let mut path = self;
        while path.dentry.is_covered() {
            let Some(mount) = path.dentry.mounted_on(path.mount_id()) else {
                break;
            };
            path = Path::root_of(mount);
        }
        path
    }

    /// Whether the dentry is the root of a file system.
    pub fn is_root_of(&self, fs: &Super) -> bool {
        Arc::ptr_eq(fs.root(), &self.dentry)
    }

    /// The place that names this path: itself, or for a mount's root the mountpoint. None at the
    /// top of the tree.
    fn named(&self) -> Option<Self> {
        let mut here = self.clone();
        while here.is_mount_root() {
            here = here.covered()?;
        }
        Some(here)
    }

    /// The place that a mount's root covers.
    pub fn covered(&self) -> Option<Self> {
        let mount = self.mount.as_ref().filter(|_| self.is_mount_root());
        mount?.place()
    }

    /// The directory of `..`; none at the top of the tree.
    fn parent_path(&self) -> Option<Self> {
        let here = self.named()?;
        let parent = here.parent()?;
        Some(here.step(parent))
    }

    /// The directory of `..`. Where there is none, the path itself.
    pub fn above(&self) -> Self {
        self.parent_path().unwrap_or_else(|| self.clone())
    }

    /// Whether `..` leads from here to `root`, or this is it. Waits.
    pub fn is_below(&self, root: &Path) -> bool {
        let mut here = self.clone();
        while !here.is(root) {
            match here.parent_path() {
                Some(above) => here = above,
                None => return false,
            }
            cond_resched();
        }
        true
    }

    /// The path from `root` to this place, and whether this place lies below `root`. If not, the
    /// path begins at the top of the place's own tree; a dentry in no directory has its name alone.
    /// A removed dentry is marked as on Linux.
    ///
    /// # Errors
    /// ENAMETOOLONG for more than a path may have.
    pub fn text(&self, root: &Path) -> Result<(Vec<u8>, bool)> {
        let mut text = Vec::new();
        let mut here = self.write_reversed(root, &mut text)?;
        while !here.is(root)
            && let Some(covered) = here.covered()
        {
            here = covered.write_reversed(root, &mut text)?;
        }
        let below = here.is(root);
        if text.is_empty() {
            match &*self.name() {
                b"" => push_reversed(&mut text, b"/")?,
                _ if below => push_reversed(&mut text, b"/")?,
                name => push_reversed(&mut text, name)?,
            }
        }
        text.reverse();
        if self.is_removed() {
            let mark = b" (deleted)";
            text.try_reserve(mark.len()).map_err(|_| Errno::ENOMEM)?;
            text.extend_from_slice(mark);
        }
        Ok((text, below))
    }

    /// Goes up to `root`, or where that does not come first, to the top of the mount. Returns where
    /// that is, and the names from there on.
    ///
    /// # Errors
    /// ENAMETOOLONG for more than a path may have.
    pub fn names_in_mount(&self, root: &Path) -> Result<(Self, Vec<u8>)> {
        let mut names = Vec::new();
        let top = self.write_reversed(root, &mut names)?;
        names.reverse();
        Ok((top, names))
    }

    /// [`names_in_mount`](Self::names_in_mount), with the names added to `text` in reverse.
    fn write_reversed(&self, root: &Path, text: &mut Vec<u8>) -> Result<Self> {
        let mut here = self.clone();
        while !here.is(root)
            && !here.is_mount_root()
            && let Some(parent) = here.parent()
        {
            push_reversed(text, &here.name())?;
            push_reversed(text, b"/")?;
            here = here.step(parent);
        }
        Ok(here)
    }
}

/// Shown instead of a path that is longer than paths may be.
pub const TOO_LONG: &[u8] = b"//toolong";

fn push_reversed(text: &mut Vec<u8>, part: &[u8]) -> Result<()> {
    if text.len() + part.len() >= PATH_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    text.try_reserve(part.len()).map_err(|_| Errno::ENOMEM)?;
    text.extend(part.iter().rev());
    Ok(())
}
