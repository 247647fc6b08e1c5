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

/// The number of renames and mounts so far.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// The number of renames and mounts so far (Linux's rename_lock and mount_lock): while it is
/// unchanged, so is the target of `..`.
pub fn changes() -> u64 {
    CHANGES.load(Acquire)
}

/// Counts a change of the tree that is about to happen.
pub fn tree_changes() {
    CHANGES.fetch_add(1, AcqRel);
}

/// A dentry, and the mount in which it was found.
#[derive(Clone)]
pub struct Path {
    /// Dropped first, since the mount may be the last of the file system.
    dentry: Arc<Dentry>,
    /// `None` for files in no mountable file system: pipes, sockets, memfds.
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

    /// The flags of its mount: MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOATIME and their kin.
    #[inline]
    pub fn mount_flags(&self) -> u32 {
        self.mount.as_ref().map_or(0, |mount| mount.flags())
    }

    /// The number of its mount, 0 if there is none.
    pub fn mount_id(&self) -> u32 {
        self.mount.as_ref().map_or(0, |mount| mount.id())
    }

    /// The unique number of its mount, which is never reused: on Linux these begin where the
    /// ordinary ones end. Here no number is used twice.
    pub fn unique_mount_id(&self) -> u64 {
        1 << 32 | u64::from(self.mount_id())
    }

    /// Another dentry of the same mount.
    #[inline]
    pub fn with(&self, dentry: Arc<Dentry>) -> Self {
        let mount = self.mount.clone();
        Path { mount, dentry }
    }

    /// Moves on to another dentry of the same mount.
    #[inline]
    pub fn step(self, dentry: Arc<Dentry>) -> Self {
        let mount = self.mount;
        Path { mount, dentry }
    }

    /// Whether both are in the same mount.
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

    /// Where a walk continues: at the root of the topmost mount on this path, or here.
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

    /// The path that has the name of this one: itself, or for a mount's root the mount point.
    /// `None` at the top of the tree.
    fn named(&self) -> Option<Self> {
        let mut here = self.clone();
        while here.is_mount_root() {
            here = here.covered()?;
        }
        Some(here)
    }

    /// The path that a mount's root covers.
    pub fn covered(&self) -> Option<Self> {
        let mount = self.mount.as_ref().filter(|_| self.is_mount_root());
        mount?.place()
    }

    /// The directory of `..`; `None` at the top of the tree.
    fn parent_path(&self) -> Option<Self> {
        let here = self.named()?;
        let parent = here.parent()?;
        Some(here.step(parent))
    }

    /// The directory of `..`, or the path itself if there is none.
    pub fn above(&self) -> Self {
        self.parent_path().unwrap_or_else(|| self.clone())
    }

    /// Whether `..` leads from here to `root`, or this is `root`. May sleep.
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

    /// The path from `root` to here, and whether this is below `root`. If not, the path begins at
    /// the top of its own tree; a dentry in no directory only has its name. A removed dentry is
    /// marked as on Linux.
    ///
    /// # Errors
    /// ENAMETOOLONG if the path is too long.
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

    /// Goes up to `root`, or to the top of the mount if that comes first. Returns where it ended,
    /// and the names from there on.
    ///
    /// # Errors
    /// ENAMETOOLONG if the path is too long.
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
