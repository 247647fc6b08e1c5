//! Mounts: which file system is seen at which place of the tree, and how it may be used there.
//!
//! A mount refers to a directory of a file system as its root and to the path that it covers. There
//! is one tree of mounts for all processes; none is shared with another tree (MS_SHARED), so all
//! are private.

mod kinds;
mod list;
pub mod options;

pub use kinds::{FLAGS, KEEPS_FLAGS, KINDS, ON_DISK, Super, add_device, remove_device};
pub use list::{list, list_devices, list_info};

use super::dentry::Dentry;
use super::inode::Kind;
use super::path::{self, Path};
use super::walk::Walk;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::fault_inject::NoFail;
use crate::mm::heap::{check_room, try_arc};
use crate::sync::{Mutex, SleepMutex};
use crate::task::sched::cond_resched;
use crate::task::{self, acct};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;

/// A file system, or a part of one, at a place.
pub struct Mount {
    id: u32,
    /// The directory, or file, that is seen at the place.
    root: Arc<Dentry>,
    fs: Arc<Super>,
    source: Vec<u8>,
    /// How it is mounted (MS_*).
    flags: AtomicU32,
    /// Files open for writing through it.
    writers: AtomicUsize,
    /// Whether umount2(MNT_EXPIRE) marked it, and it was not used since.
    expiring: AtomicBool,
    /// The mount is in the tree.
    attached: AtomicBool,
    /// The place that it covers. None for the root of the tree, and outside of it.
    place: Mutex<Option<Path>>,
    /// Its number in the tree.
    order: AtomicU64,
    /// The mounts whose places are on it, by their number in the tree.
    below: Mutex<BTreeMap<u64, Weak<Mount>>>,
}

/// The flags of mount(2) that a mount keeps.
pub const KEPT: u32 = MS_RDONLY
    | MS_NOSUID
    | MS_NODEV
    | MS_NOEXEC
    | MS_NOSYMFOLLOW
    | MS_NOATIME
    | MS_NODIRATIME
    | MS_STRICTATIME
    | MS_UNBINDABLE;
/// The flags among them that say when the access time changes.
const ATIME: u32 = MS_NOATIME | MS_NODIRATIME | MS_STRICTATIME;

/// The flags that a mount keeps; MS_STRICTATIME counts before MS_NOATIME.
fn kept(flags: u32) -> u32 {
    if flags & MS_STRICTATIME != 0 {
        flags & KEPT & !MS_NOATIME
    } else {
        flags & KEPT
    }
}

/// The mounts of the tree by number, those above before those below.
struct Tree {
    mounts: BTreeMap<u64, Arc<Mount>>,
    /// The last number.
    last: u64,
}

/// The tree. Held while it changes (Linux's namespace_sem).
static TREE: SleepMutex<Tree> = SleepMutex::new(Tree {
    mounts: BTreeMap::new(),
    last: 0,
});

impl Tree {
    /// Adds a mount at the end, whose place is on `above`.
    fn push(&mut self, mount: Arc<Mount>, above: Option<&Mount>) {
        let _reserved = NoFail::begin();
        self.last += 1;
        mount.order.store(self.last, Relaxed);
        if let Some(above) = above {
            let below = Arc::downgrade(&mount);
            above.below.lock().insert(self.last, below);
        }
        self.mounts.insert(self.last, mount);
    }

    /// Takes a mount out, whose place is on `above`.
    fn remove(&mut self, mount: &Mount, above: Option<&Mount>) -> Option<Arc<Mount>> {
        let order = mount.order.load(Relaxed);
        if let Some(above) = above {
            above.below.lock().remove(&order);
        }
        self.mounts.remove(&order)
    }
}

impl Mount {
    fn new(fs: Arc<Super>, root: Arc<Dentry>, source: &[u8], flags: u32) -> Result<Arc<Self>> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let mut name = Vec::new();
        let room = name.try_reserve_exact(source.len());
        room.map_err(|_| Errno::ENOMEM)?;
        name.extend_from_slice(source);
        try_arc(Mount {
            id: NEXT.fetch_add(1, Relaxed),
            root,
            fs,
            source: name,
            flags: AtomicU32::new(kept(flags)),
            writers: AtomicUsize::new(0),
            expiring: AtomicBool::new(false),
            attached: AtomicBool::new(false),
            place: Mutex::new(None),
            order: AtomicU64::new(0),
            below: Mutex::new(BTreeMap::new()),
        })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The dentry that is seen at its place.
    pub fn root(&self) -> &Arc<Dentry> {
        &self.root
    }

    /// The file system.
    pub fn fs(&self) -> &Super {
        &self.fs
    }

    /// The path that it covers, if it covers any.
    pub fn place(&self) -> Option<Path> {
        self.place.lock().clone()
    }

    /// How it is mounted (MS_*); read-only also where the whole file system is.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed) | self.fs.flags()
    }

    /// A file is about to be written through it: EROFS where nothing may be.
    pub fn begin_write(&self) -> Result<()> {
        self.writers.fetch_add(1, SeqCst);
        if self.fs.begin_write() && self.flags.load(SeqCst) & MS_RDONLY == 0 {
            return Ok(());
        }
        self.end_write();
        Err(Errno::EROFS)
    }

    /// Ends such a write.
    pub fn end_write(&self) {
        self.fs.end_write();
        self.writers.fetch_sub(1, SeqCst);
    }

    /// The mount is used: it does not expire.
    #[inline]
    pub fn used(&self) {
        if self.expiring.load(Relaxed) {
            self.expiring.store(false, Relaxed);
        }
    }

    /// Sets the flags, and returns the old ones.
    fn set_flags(&self, flags: u32) -> u32 {
        let old = self.flags.load(SeqCst);
        // Without a flag about access times these settings stay.
        let stays = match flags & (ATIME | MS_RELATIME) {
            0 => old & (ATIME | MS_UNBINDABLE),
            _ => old & MS_UNBINDABLE,
        };
        self.flags.store(kept(flags) | stays, SeqCst);
        old
    }

    /// Sets the flags; EBUSY where they forbid writing and files are being written.
    fn change(&self, flags: u32) -> Result<()> {
        let old = self.set_flags(flags);
        if flags & MS_RDONLY != 0 && old & MS_RDONLY == 0 && self.writers.load(SeqCst) > 0 {
            self.flags.store(old, SeqCst);
            return Err(Errno::EBUSY);
        }
        Ok(())
    }

    /// Another mount of the same file system, which shows `root`.
    fn copy(&self, root: &Arc<Dentry>) -> Result<Arc<Self>> {
        let flags = self.flags.load(Relaxed) & !MS_UNBINDABLE;
        Mount::new(self.fs.clone(), root.clone(), &self.source, flags)
    }

    fn is_unbindable(&self) -> bool {
        self.flags.load(Relaxed) & MS_UNBINDABLE != 0
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        acct::leave_mount(self);
    }
}

/// Mounts the root of the tree.
pub fn init(root: Arc<Dentry>) -> Result<Path> {
    let fs = Super::new("rootfs", root.clone())?;
    let mount = Mount::new(fs, root, b"rootfs", 0)?;
    mount.attached.store(true, Relaxed);
    TREE.lock().push(mount.clone(), None);
    Ok(Path::root_of(mount))
}

/// The mount whose root `path` is, in the tree; EINVAL where it is none.
fn mounted_at(path: &Path) -> Result<&Arc<Mount>> {
    let mount = path.mount().filter(|mount| mount.attached.load(Relaxed));
    mount.filter(|_| path.is_mount_root()).ok_or(Errno::EINVAL)
}

/// Puts `mount` where `target` is, or upon what was mounted there meanwhile.
fn attach(tree: &mut Tree, mount: Arc<Mount>, target: Path) -> Result<()> {
    _ = check_room()?;
    let target = target.covering();
    let above = target.mount().ok_or(Errno::EINVAL)?.clone();
    if !above.attached.load(Relaxed) {
        return Err(Errno::EINVAL);
    }
    if (mount.root.kind() == Kind::Directory) != (target.kind() == Kind::Directory) {
        return Err(Errno::ENOTDIR);
    }
    // The next look-up of the name would find another dentry, with nothing mounted on it.
    if target
        .parent()
        .is_some_and(|directory| !directory.inode().keeps_entries())
    {
        return Err(Errno::ENOENT);
    }
    path::tree_changes();
    let covered = target.dentry().clone();
    *mount.place.lock() = Some(target);
    if let Err(error) = covered.mount(above.id, mount.clone()) {
        let place = mount.place.lock().take();
        drop(place);
        return Err(error);
    }
    mount.attached.store(true, Relaxed);
    tree.push(mount, Some(&above));
    Ok(())
}

/// Takes `mount` from its place, and out of the tree.
fn detach(tree: &mut Tree, mount: &Mount) {
    path::tree_changes();
    mount.attached.store(false, Relaxed);
    let place = mount.place.lock().take();
    let above = place.as_ref().and_then(Path::mount);
    let _mount = tree.remove(mount, above.map(|above| &**above));
    if let Some(place) = place {
        place.unmount(place.mount_id());
    }
}

/// The place at `path` on a mount that is in no tree, for a file that must not keep its mount in
/// use (Linux's mnt_clone_internal).
///
/// # Errors
/// EINVAL where nothing is mounted; ENOMEM.
pub fn internal(path: &Path) -> Result<Path> {
    let mount = path.mount().ok_or(Errno::EINVAL)?;
    let copy = mount.copy(mount.root())?;
    Ok(Path::root_of(copy).step(path.dentry().clone()))
}

/// The directory at `path` as the root of a mount in no tree, with `flags` (MS_*) beside its own: a
/// layer of a file system that is made of others (Linux's clone_private_mount).
///
/// # Errors
/// EINVAL where nothing is mounted, or what is must not be bound; ENOMEM.
pub fn layer(path: &Path, flags: u32) -> Result<Path> {
    let mount = path.mount().filter(|mount| !mount.is_unbindable());
    let copy = mount.ok_or(Errno::EINVAL)?.copy(path.dentry())?;
    copy.flags.fetch_or(flags, Relaxed);
    Ok(Path::root_of(copy))
}

/// Mounts a file system of `kind` on a directory, with flags (MS_*) and options such as `size=1m`.
pub fn mount(source: &[u8], target: Path, kind: &[u8], flags: u32, options: &[u8]) -> Result<()> {
    let on_disk = ON_DISK.into_iter().find(|known| known.as_bytes() == kind);
    let fs = match on_disk {
        Some(kind) => {
            let context = task::current().fs();
            let device = Walk::new(&context).resolve(None, source, true)?;
            Super::on_disk(kind, &device, options, flags)?
        }
        None => Super::of_kind(kind, source, options, flags)?,
    };
    let root = fs.root().clone();
    let mount = Mount::new(fs, root, source, flags)?;
    let attached = attach(&mut TREE.lock(), mount.clone(), target);
    // What could not be attached is unmounted without the lock.
    drop(mount);
    attached
}

/// Gives the file system mounted at `path`, and this mount of it, other flags and options; EINVAL
/// where none is, EBUSY where files are being written that shall not be.
pub fn remount(path: &Path, flags: u32, options: &[u8]) -> Result<()> {
    let mount = mounted_at(path)?;
    mount.fs.reconfigure(options, flags)?;
    let _tree = TREE.lock();
    mount.set_flags(flags);
    Ok(())
}

/// Sets the flags of the mount at `path`, and no flags of its file system elsewhere.
pub fn change(path: &Path, flags: u32) -> Result<()> {
    let _tree = TREE.lock();
    mounted_at(path)?.change(flags)
}

/// Sets whether the mount at `path`, and those below it if `all`, cannot be bound elsewhere; `None`
/// changes nothing.
pub fn set_unbindable(path: &Path, unbindable: Option<bool>, all: bool) -> Result<()> {
    let _tree = TREE.lock();
    let top = mounted_at(path)?;
    let below = if all { below(top)? } else { Vec::new() };
    for mount in below.iter().chain([top]) {
        match unbindable {
            Some(true) => _ = mount.flags.fetch_or(MS_UNBINDABLE, Relaxed),
            Some(false) => _ = mount.flags.fetch_and(!MS_UNBINDABLE, Relaxed),
            None => {}
        }
    }
    Ok(())
}

/// The mounts below `top` in the tree, which is locked, those above first.
fn below(top: &Mount) -> Result<Vec<Arc<Mount>>> {
    let mut found = Vec::new();
    add_below(top, &mut found)?;
    let mut at = 0;
    while let Some(mount) = found.get(at).cloned() {
        add_below(&mount, &mut found)?;
        at += 1;
        cond_resched();
    }
    heapsort::sort_by_key(&mut found, |mount| mount.order.load(Relaxed));
    Ok(found)
}

fn add_below(mount: &Mount, found: &mut Vec<Arc<Mount>>) -> Result<()> {
    let below = mount.below.lock();
    let room = found.try_reserve(below.len());
    room.map_err(|_| Errno::ENOMEM)?;
    found.extend(below.values().filter_map(Weak::upgrade));
    Ok(())
}

/// Shows the directory or file `from` at `target` too; `all`: with what is mounted below it.
pub fn bind(from: &Path, target: Path, all: bool) -> Result<()> {
    let mut tree = TREE.lock();
    let source = from.mount().filter(|mount| mount.attached.load(Relaxed));
    let source = source.ok_or(Errno::EINVAL)?;
    if source.is_unbindable() {
        return Err(Errno::EINVAL);
    }
    let below = if all { below(source)? } else { Vec::new() };
    let mut copies: HashMap<u32, Arc<Mount>> = hash::new();
    let room = copies.try_reserve(below.len() + 1);
    room.map_err(|_| Errno::ENOMEM)?;
    let top = source.copy(from.dentry())?;
    attach(&mut tree, top.clone(), target)?;
    copies.insert(source.id, top.clone());
    let done = below.iter().try_for_each(|mount| {
        cond_resched();
        let Some(place) = mount.place().filter(|_| !mount.is_unbindable()) else {
            return Ok(());
        };
        let outside = place.same_mount(from) && !place.is_within(from.dentry());
        let Some(above) = copies.get(&place.mount_id()).filter(|_| !outside) else {
            return Ok(());
        };
        let copy = mount.copy(mount.root())?;
        let there = Path::root_of(above.clone()).step(place.dentry().clone());
        attach(&mut tree, copy.clone(), there)?;
        copies.insert(mount.id, copy);
        Ok(())
    });
    if done.is_err() {
        take_out(&mut tree, &top)?;
    }
    done
}

/// Takes a mount and all below it out of the tree.
fn take_out(tree: &mut Tree, top: &Arc<Mount>) -> Result<()> {
    let below = below(top)?;
    for mount in below.iter().chain([top]) {
        detach(tree, mount);
        cond_resched();
    }
    Ok(())
}

/// Moves the mount at `from` to `target`; ELOOP where that is in the mount itself.
pub fn move_to(from: &Path, target: Path) -> Result<()> {
    let mut tree = TREE.lock();
    let mount = mounted_at(from)?.clone();
    let old = mount.place().ok_or(Errno::EINVAL)?;
    let target = target.covering();
    if target.is_below(from) {
        return Err(Errno::ELOOP);
    }
    let below = below(&mount)?;
    detach(&mut tree, &mount);
    let moved = attach(&mut tree, mount.clone(), target);
    if moved.is_err() {
        // The mount was at this place before, and no other could take it.
        attach(&mut tree, mount, old)?;
    }
    // The mounts below it go to the end of the tree, after it.
    for mount in below {
        let place = mount.place();
        let above = place.as_ref().and_then(Path::mount);
        let above = above.map(|above| &**above);
        tree.remove(&mount, above);
        tree.push(mount, above);
        cond_resched();
    }
    moved
}

/// Unmounts the mount at `path` with flags of umount2 (MNT_*): EBUSY if it is in use, unless it is
/// detached lazily; EAGAIN if it only begins to expire.
pub fn unmount(path: Path, flags: u32) -> Result<()> {
    /// The references to an unused mount: from the tree, the dentry that it covers, and `path`.
    const HOLDERS: usize = 3;
    let mut tree = TREE.lock();
    let mount = mounted_at(&path)?;
    if mount.place.lock().is_none() {
        return Err(Errno::EBUSY);
    }
    if flags & MNT_DETACH == 0 {
        if Arc::strong_count(mount) > HOLDERS {
            return Err(Errno::EBUSY);
        }
        if flags & MNT_EXPIRE != 0 && !mount.expiring.swap(true, Relaxed) {
            return Err(Errno::EAGAIN);
        }
    }
    let below = below(mount)?;
    take_out(&mut tree, mount)?;
    drop(tree);
    // The last references to mounts and file systems may be dropped here, with no lock held.
    drop(path);
    for mount in below {
        drop(mount);
        cond_resched();
    }
    Ok(())
}
