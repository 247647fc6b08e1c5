//! Mounting, remounting and unmounting.

use super::device::Disk;
use super::node::Node;
use super::{Ext4, Locked, errno, persist, tell, to_disk};
use crate::block::volume::{self, Volume};
use crate::errno::{Errno, Result};
use crate::fs::dentry::Dentry;
use crate::fs::inode::{Kind, Time};
use crate::fs::on_disks::OnDisks;
use crate::fs::page_cache::ErrSeq;
use crate::fs::path::Path;
use crate::fs::recent::Recent;
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_arc_cyclic;
use crate::sync::{Mutex, SleepMutex};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};
use ext4::{Errors, Fs, ROOT};
use linux_raw_sys::general::{MS_DIRSYNC, MS_RDONLY};
use radix::Radix;

/// All of them, until they are unmounted.
pub static MOUNTED: OnDisks<Ext4> = OnDisks::new();

/// A handle of the file system, which all its mounts share: it is unmounted when the last is
/// dropped.
pub struct Held(Arc<Ext4>);

/// Options of mount(2).
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// The reaction to damage, if it differs from the superblock's.
    pub errors: Option<Errors>,
}

impl Options {
    /// Sets an option.
    ///
    /// # Errors
    /// EINVAL.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        match (name, value) {
            ("errors", Some("continue")) => self.errors = Some(Errors::Continue),
            ("errors", Some("remount-ro")) => self.errors = Some(Errors::ReadOnly),
            // These describe what is done anyway.
            ("data", Some("ordered")) | ("barrier", None | Some("1")) => {}
            ("user_xattr" | "block_validity" | "noacl" | "auto_da_alloc", None) => {}
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

/// Opens the file system on the device. Damage never stops the machine, whatever the superblock
/// says.
fn open(volume: &Arc<Volume>, flags: u32, errors: Option<Errors>) -> Result<Fs<Disk>> {
    let options = ext4::Options {
        read_only: flags & MS_RDONLY != 0,
        now: to_disk(Time::now()),
        smallest_block: volume.device().properties().block_size,
        largest_block: PAGE_SIZE,
    };
    let opened = Fs::mount(Disk(volume.clone()), options);
    let mut fs = opened.map_err(|error| {
        crate::log!("{}: ext4: {error:?}", volume.name());
        match error {
            ext4::Error::Unsupported(_) | ext4::Error::Corrupt(_) => Errno::EINVAL,
            error => errno(error),
        }
    })?;
    match (errors, fs.errors()) {
        (Some(errors), _) => fs.set_errors(errors),
        (None, Errors::Panic) => fs.set_errors(Errors::ReadOnly),
        _ => {}
    }
    Ok(fs)
}

/// Mounts the file system on the block device at `source`. Returns its root.
///
/// # Errors
/// ENOTBLK, ENXIO; EACCES: the device cannot be written. EBUSY. EINVAL: there is no such file
/// system. EIO.
pub fn mount(source: &Path, flags: u32, options: Options) -> Result<(Held, Arc<Dentry>)> {
    if source.kind() != Kind::Block {
        return Err(Errno::ENOTBLK);
    }
    let volume = volume::find(source.inode().attr().rdev).ok_or(Errno::ENXIO)?;
    if volume.is_read_only() && flags & MS_RDONLY == 0 {
        return Err(Errno::EACCES);
    }
    super::worker::start()?;
    volume.begin_use(true)?;
    // Writes back what was written to the device itself, and drops its cache.
    let clean = volume.mapping().invalidate(0..usize::MAX);
    let begun = clean.and_then(|()| begin(&volume, flags, options));
    begun.inspect_err(|_| volume.end_use(true))
}

fn begin(volume: &Arc<Volume>, flags: u32, options: Options) -> Result<(Held, Arc<Dentry>)> {
    let mut fs = open(volume, flags, options.errors)?;
    let block_size = fs.geometry().block_size as usize;
    let root = fs.inode(ROOT).map_err(errno)?;
    let mounted = try_arc_cyclic(|me| Ext4 {
        volume: volume.clone(),
        fs: SleepMutex::new(Some(fs)),
        block_size,
        nodes: Mutex::new(Radix::default()),
        dirty: Mutex::new(Radix::default()),
        recent: Mutex::new(Recent::new()),
        orphans: Mutex::new(Vec::new()),
        flags: AtomicU32::new(flags),
        errors: AtomicU8::new(0),
        failed: ErrSeq::new(),
        me: me.clone(),
    })?;
    // The nodes that it remembers hold it.
    let root = enlist(&mounted, root).inspect_err(|_| Recent::shrink(&mounted.recent, 0))?;
    Ok((Held(mounted), root))
}

/// Creates the dentry of the root, and makes the file system known to others.
fn enlist(mounted: &Arc<Ext4>, root: ext4::Inode) -> Result<Arc<Dentry>> {
    let node = mounted.node(root)?;
    {
        let mut fs = mounted.lock()?;
        node.refresh(&mut fs)?;
        mounted.note_errors(&fs);
    }
    let root = Dentry::named(node.clone(), None, b"")?;
    node.alias.claim(&root);
    MOUNTED.add(mounted.volume.number(), mounted)?;
    Ok(root)
}

impl Ext4 {
    /// Records the chosen error behaviour for /proc/mounts.
    fn note_errors(&self, fs: &Locked) {
        let shown = match fs.errors() {
            now if now == fs.geometry().errors => 0,
            Errors::Continue => 1,
            _ => 2,
        };
        self.errors.store(shown, Relaxed);
    }

    /// Whether an inode in use is of this kind.
    fn has_node(&self, mut is: impl FnMut(&Node) -> bool) -> bool {
        let mut from = 0;
        loop {
            let next = {
                let nodes = self.nodes.lock();
                let at = nodes.next_item(from);
                at.map(|at| (at, nodes.get(at).and_then(Weak::upgrade)))
            };
            let Some((at, node)) = next else { return false };
            if node.is_some_and(|node| is(&node)) {
                return true;
            }
            from = at + 1;
        }
    }

    /// Whether an inode without a name is in use.
    fn has_unnamed(&self) -> bool {
        self.has_node(|node| node.with_inode(ext4::Inode::links) == 0)
    }

    /// Waits for threads that are writing back a file that has no name any more.
    fn wait_for_writers(&self) {
        self.has_node(|node| {
            if let Ok(data) = node.data() {
                _ = data.write_back(0..0);
            }
            false
        });
    }
}

impl Held {
    /// Writes everything to the disk.
    pub fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    /// Write-back errors of any of its files.
    pub fn failed(&self) -> &ErrSeq {
        &self.0.failed
    }

    /// Remounts it with other flags and options. If it becomes read-only, there are no writers any
    /// more.
    ///
    /// # Errors
    /// EBUSY: files without a name are in use. EACCES: the device cannot be written. EROFS: damage
    /// was found, so writing is not allowed any more.
    pub fn configure(&self, flags: u32, options: Options) -> Result<()> {
        let ext4 = &self.0;
        ext4.sync().or_else(|error| match error {
            // Data that was not written is lost already.
            Errno::EIO if flags & MS_RDONLY != 0 => Ok(()),
            error => Err(error),
        })?;
        let mut fs = ext4.lock()?;
        let changes = (ext4.flags.load(Relaxed) ^ flags) & MS_RDONLY != 0;
        if changes && flags & MS_RDONLY == 0 {
            if ext4.volume.is_read_only() {
                return Err(Errno::EACCES);
            }
            if fs.is_aborted() {
                return Err(Errno::EROFS);
            }
        }
        if changes && flags & MS_RDONLY != 0 && ext4.has_unnamed() {
            return Err(Errno::EBUSY);
        }
        if changes && !fs.is_aborted() {
            // Then unmounting needs no memory, which might be lacking.
            fs.checkpoint().map_err(errno)?;
            let errors = Some(fs.errors());
            let old = fs.0.take();
            let ended = old
                .map_or(Ok(()), |old| old.unmount().map(drop))
                .map_err(errno);
            let opened = ended.and_then(|()| open(&ext4.volume, flags, errors));
            let failed = opened.as_ref().err().copied();
            let opened = opened.or_else(|_| open(&ext4.volume, flags ^ MS_RDONLY, errors));
            // Without a file system, all requests fail.
            *fs.0 = opened.ok();
            if let Some(error) = failed {
                return Err(error);
            }
        }
        if let Some(errors) = options.errors {
            fs.set_errors(errors);
            ext4.note_errors(&fs);
        }
        // As on Linux, MS_DIRSYNC is kept.
        let stays = ext4.flags.load(Relaxed) & MS_DIRSYNC;
        ext4.flags.store(flags & !MS_DIRSYNC | stays, Relaxed);
        Ok(())
    }
}

impl fmt::Display for Held {
    /// Its options as in /proc/PID/mounts, each after a comma.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self.0.errors.load(Relaxed) {
            0 => "",
            1 => ",errors=continue",
            _ => ",errors=remount-ro",
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let fs = &self.0;
        if let Err(error) = fs.sync() {
            crate::log!("{}: ext4: {error:?}", fs.volume.name());
        }
        Recent::shrink(&fs.recent, 0);
        // What could not be written is lost.
        fs.each_kept(|node| fs.let_go(node));
        fs.wait_for_writers();
        // The first attempt to unmount consumes the crate's file system.
        _ = persist(|| fs.lock()?.checkpoint().map_err(errno));
        let gone = fs.fs.lock().take();
        if let Some(Err(error)) = gone.map(Fs::unmount) {
            crate::log!("{}: ext4: {error:?}", fs.volume.name());
        }
        // Readers of the device itself must see what was written.
        _ = fs.volume.mapping().invalidate(0..usize::MAX);
        fs.volume.end_use(true);
        MOUNTED.remove(fs);
    }
}

/// Keeps no inodes that nobody has (`vm.drop_caches`).
pub fn drop_caches() {
    MOUNTED.each(|fs| Recent::shrink(&fs.recent, 0));
}

/// Writes back all file systems (sync(2)).
pub fn sync_all() {
    MOUNTED.each(|fs| {
        if let Err(error) = fs.sync() {
            tell(format_args!("{}: {error:?}", fs.volume.name()));
        }
    });
}
