//! 9P (Linux's v9fs): a folder of the host, by the protocol 9P2000.L over virtio.
//!
//! As with Linux's `cache=none`, the server is asked for everything: each look-up walks there, and
//! reads and writes pass through no cache, so that changes on the host are seen at once. Of files
//! that are mapped, the pages are cached as long as somebody has them open; a shared mapping cannot
//! be written. Attributes are those that were told last; [`Inode::fresh_attr`] asks for them.
//!
//! The server is not trusted, nor does a file keep its name there: what it tells of a fid is
//! compared with the file that the fid was given to (ESTALE). QEMU's server has a name for each
//! fid, and does most by that name, whoever has it by now, even where the file is open. So that no
//! user of the guest gets at another one's files, this machine moves and removes no name while it
//! compares and uses it ([`V9fs::names`]). What the host does in between cannot be excluded.
//!
//! [`Inode::fresh_attr`]: super::inode::Inode::fresh_attr

mod directory;
mod fid;
mod file;
mod inode;
mod mapped;
mod mounted;
mod names;
mod node;
mod session;

pub use mounted::{Held, Options, mount};

use crate::errno::{Errno, Result};
use crate::fs::inode::FsStat;
use crate::hash::HashMap;
use crate::sync::{Mutex, SleepRwLock};
use alloc::sync::{Arc, Weak};
use fid::Fid;
use linux_raw_sys::general::S_IFMT;
use ninep::{Request, Stat};
use node::Node;
use session::{Session, Told};

/// A file's number on the server, and the type in its mode: a number with another type is another
/// file.
type Key = (u64, u32);

/// A file system.
pub struct V9fs {
    session: Arc<Session>,
    device: u64,
    /// The files that somebody has.
    nodes: Mutex<HashMap<Key, Weak<Node>>>,
    /// Held for reading while a name is found and used, or added; alone while names are removed or
    /// moved, also so that they form no loop.
    names: SleepRwLock,
    /// A weak reference to itself.
    me: Weak<V9fs>,
}

/// What a file is found by.
fn key_of(stat: &Stat) -> Key {
    (stat.qid.path, stat.mode & S_IFMT)
}

impl V9fs {
    /// The node of a file, which then has this fid and these attributes. One whose file is gone is
    /// not found again, though a new file may have its number.
    fn node(&self, fid: Arc<Fid>, told: &Told) -> Result<Arc<Node>> {
        let key = key_of(&told.stat);
        let known = { self.nodes.lock().get(&key).and_then(Weak::upgrade) };
        if let Some(node) = known
            && node.is_still(&told.stat)
        {
            node.found(fid, told);
            return Ok(node);
        }
        let me = self.me.upgrade().ok_or(Errno::EIO)?;
        let node = Node::new(me, fid, told)?;
        let mut nodes = self.nodes.lock();
        let other = nodes.get(&key).and_then(Weak::upgrade);
        let is_same = other
            .as_ref()
            .is_some_and(|other| other.is_still(&told.stat));
        let noted = match is_same {
            true => Ok(()),
            false => {
                let room = nodes.try_reserve(1).map_err(|_| Errno::ENOMEM);
                room.map(|()| _ = nodes.insert(key, Arc::downgrade(&node)))
            }
        };
        // Where a node ends, it takes the lock.
        drop(nodes);
        noted?;
        Ok(other.filter(|_| is_same).unwrap_or(node))
    }

    /// Its result of statfs(2).
    fn stat(&self, fid: &Fid) -> FsStat {
        let fid = fid.number();
        let told = self.session.ask(&Request::StatFs { fid }, ninep::statfs);
        let told = told.unwrap_or_default();
        FsStat {
            magic: told.kind.into(),
            block_size: Some(told.block_size),
            blocks: told.blocks,
            free: told.free,
            reserved: told.free.saturating_sub(told.available),
            id: Some(told.id),
            files: told.files,
            free_files: told.free_files,
        }
    }
}
