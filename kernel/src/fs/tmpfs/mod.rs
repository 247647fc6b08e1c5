//! tmpfs: files in memory. The root is one, and so is every mount of `tmpfs`, `ramfs` and
//! `devtmpfs`.

mod data;
mod directory;
mod names;
mod node;
mod options;
mod quota;
mod xattr;

pub use data::Data;
pub use node::{Node, without_set_id};
pub use options::Options;

use super::dentry::Entry;
use super::file::{File, OpenFlags};
use super::inode::FsStat;
use crate::errno::Result;
use crate::mm::PAGE_SIZE;
use crate::mm::frame;
use crate::mm::heap::{try_arc, try_vec};
use crate::sync::{Mutex, SleepMutex};
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicU64, Ordering::*};
use linux_raw_sys::general::{F_SEAL_FUTURE_WRITE, F_SEAL_WRITE, O_LARGEFILE, O_RDWR, S_IFDIR};
use quota::Quota;

/// The magic number of tmpfs in statfs(2).
const MAGIC: u64 = 0x0102_1994;

/// Bytes that an inode counts as (BOGO_INODE_SIZE).
const INODE: u64 = 1024;

/// One tmpfs: what its inodes have in common.
pub struct Tmpfs {
    device: u64,
    next_inode: AtomicU64,
    pages: Arc<Quota>,
    /// Bytes of inodes and their extended attributes.
    inodes: Quota,
    /// Held while a name goes from one directory to another (Linux's s_vfs_rename_mutex).
    rename: SleepMutex<()>,
}

impl Tmpfs {
    fn empty(options: &Options) -> Result<Arc<Self>> {
        try_arc(Tmpfs {
            device: super::new_device(),
            next_inode: AtomicU64::new(1),
            pages: try_arc(Quota::new(options.pages))?,
            inodes: Quota::new(options.inodes.map(|count| count.saturating_mul(INODE))),
            rename: SleepMutex::new(()),
        })
    }

    /// A new file system whose only directory is its root.
    pub fn new_root(options: &Options) -> Result<Arc<Entry>> {
        let permissions = options.permissions.unwrap_or(0o1777);
        let fs = Self::empty(options)?;
        let root = Node::new(fs, S_IFDIR | permissions, 0, options.owner)?;
        Entry::named(root, None, b"")
    }

    /// Changes the limits of one that has some.
    pub fn limit(&self, options: &Options) -> Result<()> {
        options
            .pages
            .map_or(Ok(()), |pages| self.pages.change(pages))
    }

    /// Pages that its files may take, and take.
    pub fn page_limit(&self) -> Option<(u64, u64)> {
        self.pages.state()
    }

    /// Without a limit, all of memory is its size.
    fn stat(&self) -> FsStat {
        let (blocks, free) = match self.pages.state() {
            Some((limit, used)) => (limit, limit.saturating_sub(used)),
            None => (frame::total() as u64, frame::free_count() as u64),
        };
        FsStat {
            magic: MAGIC,
            blocks,
            free,
        }
    }

    fn new_inode(&self) -> u64 {
        self.next_inode.fetch_add(1, Relaxed)
    }
}

/// An open file that is in no directory (memfd_create). Without `sealing` its seals can't be
/// changed.
pub fn memory_file(name: &[u8], permissions: u32, seals: u32) -> Result<Arc<File>> {
    static FS: Mutex<Option<Arc<Tmpfs>>> = Mutex::new(None);
    let known = FS.lock().clone();
    let fs = match known {
        Some(fs) => fs,
        None => {
            let fs = Tmpfs::empty(&Options::unlimited(0o777))?;
            FS.lock().get_or_insert(fs).clone()
        }
    };
    let node = Node::anonymous_file(fs, permissions, seals)?;
    let mut shown = try_vec(b"/memfd:")?;
    shown.extend_from_slice(name);
    let entry = Entry::named(node, None, &shown)?;
    entry.remove()?;
    File::open(entry, OpenFlags(O_RDWR | O_LARGEFILE))
}

/// The inode of an entry, where that is a tmpfs's.
pub fn node_of(entry: &Entry) -> Option<Arc<Node>> {
    let inode: Arc<dyn Any + Send + Sync> = entry.inode().clone();
    inode.downcast().ok()
}

/// Whether seals keep an open file from being mapped to write, with all that is written going to
/// the file.
pub fn is_sealed(file: &File) -> bool {
    let seals = node_of(file.entry()).and_then(|node| Some(node.data().ok()?.seals()));
    seals.unwrap_or(0) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) != 0
}

/// Bytes to pages, rounded up.
fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_SIZE as u64)
}
