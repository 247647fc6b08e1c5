//! tmpfs: files in memory. The root file system is one, and so is every mount of `tmpfs`, `ramfs`
//! and `devtmpfs`.

mod data;
mod directory;
mod names;
mod node;
mod options;
mod quota;
mod xattr;

pub use data::Data;
pub use node::{Node, check_limit, inherit, limit_size, without_set_id};
pub use options::Options;
pub use quota::Quota;
pub use xattr::Xattrs;

use super::dentry::Dentry;
use super::file::{File, OpenFlags};
use super::inode::FsStat;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::frame;
use crate::mm::heap::{try_arc, try_concat};
use crate::sync::{Mutex, SleepMutex};
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::*};
use linux_raw_sys::general::{O_LARGEFILE, O_RDWR, S_IFDIR};

/// The magic number of tmpfs in statfs(2).
const MAGIC: u64 = 0x0102_1994;

/// The number of bytes that an inode counts as (BOGO_INODE_SIZE).
const INODE: u64 = 1024;

/// The root's default permissions.
const USUAL_PERMISSIONS: u32 = 0o1777;

/// A tmpfs: the data that its inodes share.
pub struct Tmpfs {
    device: u64,
    next_inode: AtomicU64,
    pages: Arc<Quota>,
    /// The bytes of inodes and their extended attributes.
    inodes: Quota,
    /// The root's permissions and owner, as requested.
    permissions: u32,
    owner: (u32, u32),
    noswap: bool,
    /// Held while a name moves from one directory to another (Linux's s_vfs_rename_mutex).
    rename: SleepMutex<()>,
}

impl Tmpfs {
    fn empty(options: &Options) -> Result<Arc<Self>> {
        let limit = |asked: Option<u64>| match asked.unwrap_or_else(Options::default_limit) {
            0 => None,
            limit => Some(limit),
        };
        try_arc(Tmpfs {
            device: super::new_device(),
            next_inode: AtomicU64::new(1),
            pages: try_arc(Quota::new(limit(options.pages)))?,
            inodes: Quota::new(limit(options.inodes).map(bytes_of_inodes)),
            permissions: options.permissions.unwrap_or(USUAL_PERMISSIONS),
            owner: (options.uid.unwrap_or(0), options.gid.unwrap_or(0)),
            noswap: options.noswap,
            rename: SleepMutex::new(()),
        })
    }

    /// A new file system whose only directory is its root.
    pub fn new_root(options: &Options) -> Result<Arc<Dentry>> {
        let fs = Self::empty(options)?;
        let (mode, owner) = (S_IFDIR | fs.permissions, fs.owner);
        let root = Node::new(fs, mode, 0, owner)?;
        Dentry::named(root, None, b"")
    }

    /// Changes the limits that are given.
    ///
    /// # Errors
    /// EINVAL: more is used, there was no limit before, or `noswap` differs.
    pub fn limit(&self, options: &Options) -> Result<()> {
        if options.noswap != self.noswap {
            return Err(Errno::EINVAL);
        }
        let inodes = options.inodes.map(bytes_of_inodes);
        for (quota, limit) in [(&*self.pages, options.pages), (&self.inodes, inodes)] {
            limit.map_or(Ok(()), |limit| quota.check(limit))?;
        }
        for (quota, limit) in [(&*self.pages, options.pages), (&self.inodes, inodes)] {
            limit.into_iter().for_each(|limit| quota.change(limit));
        }
        Ok(())
    }

    /// Without a limit, the size is all of memory.
    fn stat(&self) -> FsStat {
        let (blocks, free) = match self.pages.state() {
            Some((limit, used)) => (limit, limit.saturating_sub(used)),
            None => (frame::total() as u64, frame::free_count() as u64),
        };
        let (inodes, used) = self.inodes.state().unwrap_or_default();
        FsStat {
            magic: MAGIC,
            blocks,
            free,
            files: inodes / INODE,
            free_files: inodes.saturating_sub(used) / INODE,
            ..FsStat::default()
        }
    }

    fn new_inode(&self) -> u64 {
        self.next_inode.fetch_add(1, Relaxed)
    }
}

/// An open file that is in no directory (memfd_create). Without `sealing` its seals cannot change.
pub fn memory_file(name: &[u8], permissions: u32, seals: u32) -> Result<Arc<File>> {
    static FS: Mutex<Option<Arc<Tmpfs>>> = Mutex::new(None);
    let known = FS.lock().clone();
    let fs = match known {
        Some(fs) => fs,
        None => {
            let fs = Tmpfs::empty(&Options::unlimited(0o777))?;
            FS.lock().get_or_insert_with(|| fs.clone()).clone()
        }
    };
    let node = Node::anonymous_file(fs, permissions, seals)?;
    let shown = try_concat(&[b"/memfd:", name])?;
    let dentry = Dentry::named(node, None, &shown)?;
    dentry.remove()?;
    File::open(dentry, OpenFlags(O_RDWR | O_LARGEFILE))
}

/// The inode of a dentry, if it belongs to a tmpfs.
pub fn node_of(dentry: &Dentry) -> Option<Arc<Node>> {
    let inode: Arc<dyn Any + Send + Sync> = dentry.inode().clone();
    inode.downcast().ok()
}

impl fmt::Display for Tmpfs {
    /// Formats the options that differ from the defaults as in /proc/PID/mounts, each after a
    /// comma.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let usual = Options::default_limit();
        let pages = self.pages.state().map_or(0, |(limit, _)| limit);
        if pages != usual {
            write!(
                out,
                ",size={}k",
                pages.wrapping_mul(PAGE_SIZE as u64 / 1024)
            )?;
        }
        let inodes = self.inodes.state().map_or(0, |(limit, _)| limit / INODE);
        if inodes != usual {
            write!(out, ",nr_inodes={inodes}")?;
        }
        if self.permissions != USUAL_PERMISSIONS {
            write!(out, ",mode={:03o}", self.permissions)?;
        }
        let (uid, gid) = self.owner;
        if uid != 0 {
            write!(out, ",uid={uid}")?;
        }
        if gid != 0 {
            write!(out, ",gid={gid}")?;
        }
        out.write_str(",inode64")?;
        out.write_str(if self.noswap { ",noswap" } else { "" })
    }
}

/// The number of bytes that `count` inodes count as.
fn bytes_of_inodes(count: u64) -> u64 {
    count.saturating_mul(INODE)
}

/// Converts bytes to pages, rounded up.
fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_SIZE as u64)
}
