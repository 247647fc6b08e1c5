//! tmpfs: files in memory. The root is one, and so is every mount of `tmpfs`, `ramfs` and `devtmpfs`.

mod data;
mod directory;
mod node;
mod xattr;

pub use data::Data;
pub use node::Node;

use super::entry::Entry;
use super::file::{File, OpenFlags};
use super::inode::FsStat;
use crate::errno::Result;
use crate::mm::PAGE_SIZE;
use crate::mm::frame;
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::*};
use linux_raw_sys::general::{O_LARGEFILE, O_RDWR, S_IFDIR};

/// The magic number of tmpfs in statfs(2).
const MAGIC: u64 = 0x0102_1994;

/// One tmpfs: what its inodes have in common.
pub struct Tmpfs {
    device: u64,
    next_inode: AtomicU64,
}

impl Tmpfs {
    /// A new file system whose only directory is its root, with these permissions.
    pub fn new(permissions: u32) -> Result<Arc<Entry>> {
        let fs = try_arc(Tmpfs {
            device: super::new_device(),
            next_inode: AtomicU64::new(1),
        })?;
        let root = Node::new(fs, S_IFDIR | permissions, 0, (0, 0))?;
        Entry::new(root, None, Arc::from(&b""[..]))
    }

    fn new_inode(&self) -> u64 {
        self.next_inode.fetch_add(1, Relaxed)
    }
}

/// An open file that is in no directory (memfd_create). Without `sealing` its seals can't be changed.
pub fn memory_file(name: &[u8], sealing: bool) -> Result<Arc<File>> {
    static FS: Mutex<Option<Arc<Tmpfs>>> = Mutex::new(None);
    let known = FS.lock().clone();
    let fs = match known {
        Some(fs) => fs,
        None => {
            let fs = try_arc(Tmpfs {
                device: super::new_device(),
                next_inode: AtomicU64::new(1),
            })?;
            FS.lock().get_or_insert(fs).clone()
        }
    };
    let node = Node::anonymous_file(fs, 0o777, sealing)?;
    let mut shown = b"/memfd:".to_vec();
    shown.extend_from_slice(name);
    let entry = Entry::new(node, None, Arc::from(&shown[..]))?;
    entry.removed();
    File::open(entry, OpenFlags(O_RDWR | O_LARGEFILE))
}

/// All of memory is a tmpfs' size.
fn fs_stat() -> FsStat {
    FsStat {
        magic: MAGIC,
        blocks: frame::total() as u64,
        free: frame::free_count() as u64,
    }
}

/// Bytes to pages, rounded up.
fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_SIZE as u64)
}
