//! Mounting, and the end of a mount.

use super::decompressor::Decompressor;
use super::device::Disk;
use super::{Erofs, errno};
use crate::block::volume::{self, Volume};
use crate::errno::{Errno, Result};
use crate::fs::dentry::Dentry;
use crate::fs::inode::Kind;
use crate::fs::on_disks::OnDisks;
use crate::fs::path::Path;
use crate::fs::recent::Recent;
use crate::mm::heap::try_arc_cyclic;
use crate::sync::{Mutex, SleepMutex};
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::*};
use erofs::Fs;
use linux_raw_sys::general::MS_RDONLY;
use radix::Radix;

/// All of them, until they are unmounted.
pub static MOUNTED: OnDisks<Erofs> = OnDisks::new();

/// A mount of the file system, however many there are: it is unmounted with the last.
pub struct Held(Arc<Erofs>);

/// What mount(2) says beside its flags.
#[derive(Clone, Copy)]
pub struct Options {
    /// Whether attributes of users are shown.
    user_xattr: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { user_xattr: true }
    }
}

impl Options {
    /// Takes an option, if there is such a one.
    ///
    /// # Errors
    /// EINVAL.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        match (name, value) {
            ("user_xattr", None) => self.user_xattr = true,
            ("nouser_xattr", None) => self.user_xattr = false,
            // What is done anyway.
            ("noacl", None) => {}
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

/// Mounts the image on the block device at `source`. Returns its root.
///
/// # Errors
/// ENOTBLK, ENXIO; EACCES: the device cannot be written, and `flags` (MS_*) do not say that it
/// shall not be. EBUSY. EINVAL: there is none. EBADMSG, EOPNOTSUPP, EUCLEAN, EIO.
pub fn mount(source: &Path, flags: u32, options: Options) -> Result<(Held, Arc<Dentry>)> {
    if source.kind() != Kind::Block {
        return Err(Errno::ENOTBLK);
    }
    let volume = volume::find(source.inode().attr().rdev).ok_or(Errno::ENXIO)?;
    if volume.is_read_only() && flags & MS_RDONLY == 0 {
        return Err(Errno::EACCES);
    }
    volume.begin_use(true)?;
    // What was written to the device itself, and what it had before.
    let clean = volume.mapping().invalidate(0..usize::MAX);
    let begun = clean.and_then(|()| begin(&volume, options));
    begun.inspect_err(|_| volume.end_use(true))
}

fn begin(volume: &Arc<Volume>, options: Options) -> Result<(Held, Arc<Dentry>)> {
    let fs = Fs::mount(Disk(volume.clone())).map_err(|error| {
        crate::log!("{}: erofs: {error:?}", volume.name());
        errno(error)
    })?;
    // Linux cannot give the device such blocks.
    if fs.geometry().block_size() < volume.device().properties().block_size {
        return Err(Errno::EINVAL);
    }
    let mounted = try_arc_cyclic(|me| Erofs {
        volume: volume.clone(),
        fs,
        nodes: Mutex::new(Radix::default()),
        recent: Mutex::new(Recent::new()),
        decompressor: SleepMutex::new(Decompressor::new()),
        user_xattr: AtomicBool::new(options.user_xattr),
        me: me.clone(),
    })?;
    // The nodes that it remembers hold it.
    let root = enlist(&mounted).inspect_err(|_| Recent::shrink(&mounted.recent, 0))?;
    Ok((Held(mounted), root))
}

/// Makes the dentry of the root, and a file system that others find.
fn enlist(mounted: &Arc<Erofs>) -> Result<Arc<Dentry>> {
    let node = mounted.node(mounted.fs.root())?;
    let root = Dentry::named(node.clone(), None, b"")?;
    node.alias.claim(&root);
    MOUNTED.add(mounted.volume.number(), mounted)?;
    Ok(root)
}

impl Held {
    /// Mounts it anew with other options.
    pub fn configure(&self, options: Options) {
        self.0.user_xattr.store(options.user_xattr, Relaxed);
    }
}

impl fmt::Display for Held {
    /// As /proc/PID/mounts has its options, each after a comma.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self.0.user_xattr.load(Relaxed) {
            true => ",user_xattr",
            false => ",nouser_xattr",
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let fs = &self.0;
        Recent::shrink(&fs.recent, 0);
        fs.volume.end_use(true);
        MOUNTED.remove(fs);
    }
}

/// Keeps no inodes that nobody has, and no clusters (`vm.drop_caches`).
pub fn drop_caches() {
    MOUNTED.each(|fs| {
        Recent::shrink(&fs.recent, 0);
        if let Some(mut idle) = fs.decompressor.try_lock() {
            *idle = Decompressor::new();
        }
    });
}
