//! EROFS: an image that is only read, by crate `erofs`, with the data of its files in the page
//! cache.
//!
//! Names and attributes are read through the page cache of the disk, as on Linux, so that they are
//! reclaimed when memory is short. Nothing changes, so no lock is held while a disk is read.

mod backing;
mod decompressor;
mod device;
mod directory;
mod file;
mod inode;
mod mounted;
mod node;

pub use mounted::{Held, MOUNTED, Options, drop_caches, mount};

use crate::block::volume::Volume;
use crate::errno::{Errno, Result};
use crate::fs::damage;
use crate::fs::inode::FsStat;
use crate::fs::recent::Recent;
use crate::sync::{Mutex, SleepMutex};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, Ordering::*};
use decompressor::Decompressor;
use device::Disk;
use erofs::{Error, Fs};
use node::Node;
use radix::Radix;

/// The magic number of statfs(2) (EROFS_SUPER_MAGIC_V1).
const MAGIC: u64 = 0xe0f5_e1e2;

/// A file system.
pub struct Erofs {
    volume: Arc<Volume>,
    fs: Fs<Disk>,
    /// The inodes that somebody has, by number.
    nodes: Mutex<Radix<Weak<Node>>>,
    /// Inodes that are kept for a while.
    recent: Mutex<Recent<Node>>,
    decompressor: SleepMutex<Decompressor>,
    /// Whether attributes of users are shown (`user_xattr`).
    user_xattr: AtomicBool,
    /// A weak reference to itself.
    me: Weak<Erofs>,
}

/// An error of the crate, as Linux tells it.
fn errno(error: Error) -> Errno {
    match error {
        Error::Io => Errno::EIO,
        Error::Invalid(_) => Errno::EINVAL,
        Error::Checksum => Errno::EBADMSG,
        Error::Corrupt(what) => {
            damage::tell("erofs", format_args!("damaged: {what}"));
            Errno::EUCLEAN
        }
        Error::Unsupported(_) => Errno::EOPNOTSUPP,
        Error::NoMemory => Errno::ENOMEM,
        Error::NotFound => Errno::ENOENT,
        Error::NotDirectory => Errno::ENOTDIR,
    }
}

impl Erofs {
    /// The node of an inode.
    fn node(&self, number: u64) -> Result<Arc<Node>> {
        let at = number as usize;
        if let Some(node) = self.known(at) {
            node.wanted.store(true, Relaxed);
            return Ok(node);
        }
        let inode = self.fs.inode(number).map_err(errno)?;
        let me = self.me.upgrade().ok_or(Errno::EIO)?;
        let node = Node::new(me, inode)?;
        let node = self.note(at, node)?;
        Recent::remember(&self.recent, &node);
        Ok(node)
    }

    fn known(&self, at: usize) -> Option<Arc<Node>> {
        self.nodes.lock().get(at).and_then(Weak::upgrade)
    }

    /// Notes a node, unless another was faster: then that one is returned.
    fn note(&self, at: usize, node: Arc<Node>) -> Result<Arc<Node>> {
        let mut nodes = self.nodes.lock();
        let faster = nodes.get(at).and_then(Weak::upgrade);
        let noted = match faster.is_some() {
            true => Ok(None),
            false => nodes.insert(at, Arc::downgrade(&node)),
        };
        // Where the node ends, it takes the lock.
        drop(nodes);
        noted.map_err(|_| Errno::ENOMEM)?;
        Ok(faster.unwrap_or(node))
    }

    /// Its result of statfs(2): as on Linux there is no limit to its inodes.
    fn stat(&self) -> FsStat {
        let geometry = self.fs.geometry();
        let uuid = u128::from_le_bytes(geometry.uuid());
        FsStat {
            magic: MAGIC,
            block_size: Some(geometry.block_size() as u32),
            blocks: geometry.blocks(),
            free: 0,
            reserved: 0,
            id: (uuid != 0).then_some(uuid as u64 ^ (uuid >> 64) as u64),
            files: u64::MAX,
            free_files: u64::MAX.wrapping_sub(geometry.inodes()),
        }
    }
}
