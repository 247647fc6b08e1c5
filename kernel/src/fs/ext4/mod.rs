//! ext4: a mounted file system, by crate `ext4`, with the data of its files in the page cache.
//!
//! One lock protects the crate's [`Fs`]. It is held while the disk is waited for, but never while a
//! program's memory is accessed, since the fault may need a page of this file system. Only spin
//! locks are taken under it.

mod backing;
mod device;
mod directory;
mod file;
mod holes;
mod inode;
mod mounted;
mod node;
mod resize;
mod worker;

pub use mounted::{Held, MOUNTED, Options, drop_caches, mount, sync_all};

use crate::block::volume::Volume;
use crate::errno::{Errno, Result};
use crate::fs::damage;
use crate::fs::inode::{FsStat, Time};
use crate::fs::page_cache::ErrSeq;
use crate::fs::recent::Recent;
use crate::sync::{Mutex, SleepMutex, SleepMutexGuard};
use crate::task::sched::cond_resched;
use crate::task::wait_queue::sleep_uninterruptible;
use crate::task::{can, clock, current};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};
use device::Disk;
use ext4::{Error, Fs};
use linux_raw_sys::general::CAP_SYS_RESOURCE;
use node::Node;
use radix::Radix;

/// The magic number of statfs(2) (EXT4_SUPER_MAGIC).
const MAGIC: u64 = 0xef53;

/// How often [`persist`] retries without memory.
const ATTEMPTS: usize = 100;
/// How long it waits before each retry, in nanoseconds.
const PAUSE: u64 = 20_000_000;

/// A file system.
pub struct Ext4 {
    volume: Arc<Volume>,
    /// `None` once it is unmounted.
    fs: SleepMutex<Option<Fs<Disk>>>,
    /// The size of a block.
    block_size: usize,
    /// The inodes in use, by number.
    nodes: Mutex<Radix<Weak<Node>>>,
    /// Files with changes that are not on the disk.
    dirty: Mutex<Radix<Arc<Node>>>,
    /// Inodes that are kept for a while.
    recent: Mutex<Recent<Node>>,
    /// Inodes without a name that nobody has any more.
    orphans: Mutex<Vec<u32>>,
    /// The mount flags (MS_*).
    flags: AtomicU32,
    /// Whether mount(2) chose an error behaviour other than the superblock's, and which.
    errors: AtomicU8,
    /// Write-back errors of any of its files.
    failed: ErrSeq,
    /// A weak reference to itself.
    me: Weak<Ext4>,
}

/// The crate's file system, locked.
struct Locked<'a>(SleepMutexGuard<'a, Option<Fs<Disk>>>);

impl Deref for Locked<'_> {
    type Target = Fs<Disk>;

    fn deref(&self) -> &Fs<Disk> {
        self.0.as_ref().expect("Ext4::lock has looked")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Fs<Disk> {
        self.0.as_mut().expect("Ext4::lock has looked")
    }
}

impl Locked<'_> {
    /// Handles damage that is found while reading; while changing, the crate does so itself.
    fn told<T>(&mut self, found: ext4::Result<T>) -> ext4::Result<T> {
        found.inspect_err(|&error| self.report(error))
    }
}

/// Retries until there is memory, but not for ever. May sleep.
///
/// # Errors
/// Those of `act`; ENOMEM: there is still no memory.
fn persist(mut act: impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 0..ATTEMPTS {
        match act() {
            Err(Errno::ENOMEM) => sleep_uninterruptible(clock::deadline_in(PAUSE)),
            done => return done,
        }
    }
    act()
}

/// Logs a message of damage.
fn tell(message: fmt::Arguments) {
    damage::tell("ext4", message);
}

/// An error of the crate, as Linux tells it.
fn errno(error: Error) -> Errno {
    match error {
        Error::Io => Errno::EIO,
        Error::Corrupt(what) => {
            tell(format_args!("damaged: {what}"));
            Errno::EUCLEAN
        }
        Error::Unsupported(_) => Errno::EOPNOTSUPP,
        Error::NoMemory => Errno::ENOMEM,
        Error::NoSpace | Error::JournalFull => Errno::ENOSPC,
        Error::NotFound => Errno::ENOENT,
        Error::Exists => Errno::EEXIST,
        Error::NotDirectory => Errno::ENOTDIR,
        Error::IsDirectory => Errno::EISDIR,
        Error::NotEmpty => Errno::ENOTEMPTY,
        Error::TooLong => Errno::ENAMETOOLONG,
        Error::TooManyLinks => Errno::EMLINK,
        Error::TooLarge => Errno::EFBIG,
        Error::ReadOnly => Errno::EROFS,
        Error::Invalid => Errno::EINVAL,
    }
}

fn to_disk(time: Time) -> ext4::Time {
    ext4::Time {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    }
}

fn from_disk(time: ext4::Time) -> Time {
    Time {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    }
}

impl Ext4 {
    /// Locks the crate's file system, after freeing the inodes that are no longer in use.
    ///
    /// # Errors
    /// EIO: it has been unmounted.
    fn lock(&self) -> Result<Locked<'_>> {
        let guard = self.fs.lock();
        if guard.is_none() {
            return Err(Errno::EIO);
        }
        let mut locked = Locked(guard);
        locked.set_now(to_disk(Time::now()));
        // An inode that cannot be freed for lack of memory waits for the next caller.
        while let Some(number) = { self.orphans.lock().pop() }
            && self.free(&mut locked, number)
        {}
        let (uid, gid) = locked.geometry().reserved_owner;
        let (uid, gid) = (u32::from(uid), u32::from(gid));
        let owns =
            current().with_credentials(|who| who.fsuid == uid || gid != 0 && who.in_group(gid));
        locked.set_privileged(owns || can(CAP_SYS_RESOURCE));
        Ok(locked)
    }

    /// Frees an inode without a name that is no longer in use, or lets it wait until there is
    /// memory. Returns whether there is.
    fn free(&self, fs: &mut Locked, number: u32) -> bool {
        match fs.evict(number) {
            Err(Error::NoMemory) => {
                self.add_orphan(number);
                return false;
            }
            Err(error) => tell(format_args!("inode {number}: {error:?}")),
            Ok(()) => {}
        }
        true
    }

    /// Records an inode without a name that is no longer in use.
    fn add_orphan(&self, number: u32) {
        let mut orphans = self.orphans.lock();
        // Without memory, the next mount frees the inode.
        if orphans.try_reserve(1).is_ok() {
            orphans.push(number);
        }
    }

    /// EUCLEAN if an inode that was allocated as a new one is in use.
    fn check_new(&self, fs: &mut Locked, number: u32) -> Result<()> {
        let known = self
            .nodes
            .lock()
            .get(number as usize)
            .map(Weak::strong_count);
        match known {
            None | Some(0) => Ok(()),
            Some(_) => fs
                .told(Err(Error::Corrupt("bitmap of inodes")))
                .map_err(errno),
        }
    }

    /// The node of an inode.
    fn node(&self, inode: ext4::Inode) -> Result<Arc<Node>> {
        let at = inode.number as usize;
        let known = self.nodes.lock().get(at).and_then(Weak::upgrade);
        if let Some(node) = known {
            node.wanted.store(true, Relaxed);
            return Ok(node);
        }
        let is_named = inode.links() > 0;
        let me = self.me.upgrade().ok_or(Errno::EIO)?;
        let node = Node::new(me, inode)?;
        // Only the holder of the lock of `fs` creates nodes.
        let noted = self.nodes.lock().insert(at, Arc::downgrade(&node));
        noted.map_err(|_| Errno::ENOMEM)?;
        if is_named {
            Recent::remember(&self.recent, &node);
        }
        Ok(node)
    }

    /// Keeps a file until its changes are on the disk. A file without a name ends with its last
    /// user.
    fn keep(&self, node: &Arc<Node>) -> Result<()> {
        if node.with_inode(ext4::Inode::links) == 0 {
            return Ok(());
        }
        let at = node.number() as usize;
        let before = self.dirty.lock().insert(at, node.clone());
        before.map(drop).map_err(|_| Errno::ENOMEM)
    }

    /// Stops keeping a file.
    fn let_go(&self, node: &Node) {
        let (at, mut gone) = (node.number() as usize, None);
        let mut dirty = self.dirty.lock();
        dirty.remove_range(at, at, &mut |node| gone = Some(node));
        drop(dirty);
    }

    /// A name was removed: if it was the last, the file's changes need not be written.
    fn release_unnamed(&self, node: &Node) {
        if node.with_inode(ext4::Inode::links) == 0 {
            self.let_go(node);
            self.forget(node.number());
        }
    }

    /// Keeps an inode no longer that nobody has.
    fn forget(&self, number: u32) {
        Recent::forget(&self.recent, number as usize);
    }

    /// Calls `visit` with each file that was kept, without locks.
    fn each_kept(&self, mut visit: impl FnMut(&Arc<Node>)) {
        let mut from = 0;
        loop {
            let next = {
                let dirty = self.dirty.lock();
                let at = dirty.next_item(from);
                at.and_then(|at| Some((at, dirty.get(at)?.clone())))
            };
            let Some((at, node)) = next else { return };
            visit(&node);
            drop(node);
            from = at + 1;
            cond_resched();
        }
    }

    /// Stops keeping files without changes. An inode whose data was written is written with the
    /// transaction.
    fn release_clean(&self) {
        self.each_kept(|node| {
            if node.has_clean_data() {
                if let Ok(data) = node.data() {
                    // Waits for pages being written.
                    _ = data.write_back(0..0);
                }
                // Without memory it stays.
                _ = node.write_out(0..0);
            }
            if !node.is_dirty() {
                self.let_go(node);
                // It may have been changed meanwhile.
                if node.is_dirty() {
                    _ = self.keep(node);
                }
            }
        });
    }

    /// Writes all kept files.
    fn write_kept(&self) -> Result<()> {
        let mut all = Ok(());
        self.each_kept(|node| {
            let done = node.write_out(0..usize::MAX);
            all = all.and(done);
        });
        all
    }

    /// Writes everything to the disk. If memory for that is short, waits for some.
    ///
    /// # Errors
    /// ENOMEM: there is still none, and some data is not written. EIO, ENOSPC.
    fn sync(&self) -> Result<()> {
        let written = persist(|| self.write_kept());
        self.release_clean();
        persist(|| self.lock()?.commit().map_err(errno))?;
        written
    }

    /// Its statistics for statfs(2).
    fn stat(&self) -> FsStat {
        let statistics = self.lock().and_then(|mut fs| {
            let found = fs.statistics();
            fs.told(found).map_err(errno)
        });
        let Ok(found) = statistics else {
            return FsStat {
                magic: MAGIC,
                ..FsStat::default()
            };
        };
        let half = |at: usize| {
            let bytes = found.uuid[at..at + 8].iter().rev();
            bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        FsStat {
            magic: MAGIC,
            block_size: Some(found.block_size),
            blocks: found.usable,
            free: found.free_blocks,
            reserved: found.free_blocks - found.available,
            id: Some(half(0) ^ half(8)),
            files: found.inodes.into(),
            free_files: found.free_inodes.into(),
        }
    }
}
