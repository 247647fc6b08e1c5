//! The file systems there are to mount.

use super::super::dentry::Dentry;
use super::super::inode::FsStat;
use super::super::overlay::{self, Overlay};
use super::super::page_cache::ErrSeq;
use super::super::path::Path;
use super::super::tmpfs::{self, Options, Tmpfs};
use super::super::tty::{self, pts_options};
use super::super::{device, inotify, proc, sysfs};
use super::super::{erofs, ext4, on_disks, v9fs};
use super::options::{parse, permissions};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::{Mutex, SleepMutex};
use crate::task::acct;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::{self, Display};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;

/// A file system, at however many places it is mounted (Linux's super block). Its mounts hold it.
pub struct Super {
    kind: &'static str,
    root: Arc<Dentry>,
    /// How it may be used at all its places (MS_*).
    flags: AtomicU32,
    /// Files open for writing through any mount, also through those that are in no tree.
    writers: AtomicUsize,
    own: Own,
}

/// A file system's options, by its kind.
enum Own {
    Nothing,
    Files,
    /// A ramfs, with its root's permissions.
    Unlimited(u32),
    Terminals(Arc<pts_options::Instance>),
    Processes(Arc<proc::Options>),
    Layers(Arc<Overlay>),
    /// One on a disk: its device's number, and what unmounts it with the last mount.
    Disk(u64, ext4::Held),
    /// One that is only read.
    Image(u64, erofs::Held),
    /// One that a server has.
    Share(v9fs::Held),
}

/// Flags (MS_*) and options that a file system is to get.
struct Change {
    flags: u32,
    own: OwnChange,
}

enum OwnChange {
    Nothing,
    Files(Options),
    Terminals(pts_options::Options),
    Processes(proc::Change),
    Disk(u32, ext4::Options),
    Image(erofs::Options),
}

/// Held while a file system is reconfigured (as Linux's s_umount of that one).
static CHANGING: SleepMutex<()> = SleepMutex::new(());

/// The flags that are a file system's, not a mount's.
pub const FLAGS: u32 = MS_RDONLY | MS_SYNCHRONOUS | MS_MANDLOCK | MS_DIRSYNC | MS_LAZYTIME;

/// Beside these: its inodes have flags (FS_*_FL), such as that nothing changes them.
pub const KEEPS_FLAGS: u32 = 1 << 31;

/// The kinds of file system that are on a disk.
pub const ON_DISK: [&str; 2] = ["ext4", "erofs"];

/// The other kinds of file system there are, as /proc/filesystems lists them.
pub const KINDS: [&str; 8] = [
    "tmpfs", "ramfs", "devtmpfs", "devpts", "proc", "sysfs", "overlay", "9p",
];

/// A look for the file system on a disk.
enum Found {
    Mounted(Arc<Super>),
    /// It is being unmounted; so many were so far.
    Ending(usize),
}

/// EINVAL for flags that have no effect on a file system on a disk: times are never written lazily
/// there, and no locks are mandatory.
fn check_disk(flags: u32) -> Result<()> {
    match flags & (MS_LAZYTIME | MS_MANDLOCK) {
        0 => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

impl Super {
    /// The file system of this kind with this root.
    pub fn new(kind: &'static str, root: Arc<Dentry>) -> Result<Arc<Self>> {
        try_arc(Super {
            kind,
            root,
            flags: AtomicU32::new(0),
            writers: AtomicUsize::new(0),
            own: Own::Nothing,
        })
    }

    /// A file system of the kind with this name, with these options and `flags` (MS_*); `source`
    /// tells whose it is, if a server has it.
    ///
    /// # Errors
    /// ENODEV: there is no such kind. EINVAL: it has no such option.
    pub fn of_kind(name: &[u8], source: &[u8], options: &[u8], flags: u32) -> Result<Arc<Self>> {
        let mut kinds = KINDS.into_iter();
        let kind = kinds.find(|kind| kind.as_bytes() == name);
        let (root, own, flags) = match kind.ok_or(Errno::ENODEV)? {
            "tmpfs" => {
                let (options, flags) = Options::parse(options, flags)?;
                (Tmpfs::new_root(&options)?, Own::Files, flags)
            }
            "ramfs" => {
                let mut mode = 0o755;
                // As on Linux, any other option is none.
                let flags = parse(options, flags, |name, value| {
                    if name == "mode" {
                        mode = permissions(value)? & 0o7777;
                    }
                    Ok(())
                })?;
                let root = Tmpfs::new_root(&Options::unlimited(mode))?;
                (root, Own::Unlimited(mode), flags)
            }
            "devtmpfs" => {
                let fs = dev()?;
                fs.reconfigure(options, flags)?;
                return Ok(fs);
            }
            "devpts" => {
                let (options, flags) = pts_options::Options::parse(options, flags)?;
                let terminals = try_arc(pts_options::Instance::new(options))?;
                let root = tty::devpts(terminals.clone())?;
                (root, Own::Terminals(terminals), flags)
            }
            "proc" => {
                let processes = try_arc(proc::Options::default())?;
                let (change, flags) = proc::Change::parse(options, flags)?;
                processes.set(&change);
                let root = proc::root(processes.clone())?;
                (root, Own::Processes(processes), flags)
            }
            "overlay" => {
                let (layers, root, flags) = overlay::mount(options, flags)?;
                (root, Own::Layers(layers), flags)
            }
            "9p" => {
                let mut own = v9fs::Options::default();
                let flags = parse(options, flags, |name, value| own.set(name, value))?;
                let (held, root) = v9fs::mount(source, own)?;
                (root, Own::Share(held), flags)
            }
            _ => {
                parse(options, flags, |_, _| Err(Errno::EINVAL))?;
                // Linux has one, which a second mount does not change.
                (sysfs::root()?, Own::Nothing, 0)
            }
        };
        let kept = match own {
            Own::Layers(_) => KEEPS_FLAGS,
            _ => 0,
        };
        try_arc(Super {
            kind: kind.ok_or(Errno::ENODEV)?,
            root,
            flags: AtomicU32::new(flags & FLAGS | kept),
            writers: AtomicUsize::new(0),
            own,
        })
    }

    /// The file system of a kind (of [`ON_DISK`]) on the block device at `source`: that which is
    /// mounted already, if it is.
    ///
    /// # Errors
    /// EBUSY: it is mounted read-only, and shall not be, or the other way. Those of
    /// [`ext4::mount`], [`erofs::mount`].
    pub fn on_disk(kind: &str, source: &Path, options: &[u8], flags: u32) -> Result<Arc<Self>> {
        let change = match kind {
            "erofs" => Self::parse_image(options, flags)?,
            _ => Self::parse_disk(options, flags)?,
        };
        loop {
            let so_far = match Self::find_or_mount(source, &change)? {
                Found::Mounted(fs) => return Ok(fs),
                Found::Ending(so_far) => so_far,
            };
            on_disks::wait_ended(so_far)?;
        }
    }

    fn find_or_mount(source: &Path, change: &Change) -> Result<Found> {
        static MOUNTING: SleepMutex<Vec<Weak<Super>>> = SleepMutex::new(Vec::new());
        let mut mounted = MOUNTING.lock_killable()?;
        mounted.retain(|fs| fs.strong_count() > 0);
        let number = source.inode().attr().rdev;
        let known = mounted.iter().filter_map(Weak::upgrade);
        let same = |fs: &Arc<Super>| fs.is_same(number, &change.own);
        if let Some(fs) = known.into_iter().find(same) {
            return match (fs.flags() ^ change.flags) & MS_RDONLY {
                0 => Ok(Found::Mounted(fs)),
                _ => Err(Errno::EBUSY),
            };
        }
        let so_far = on_disks::ended();
        let ends = mounted
            .iter()
            .all(|fs| !fs.upgrade().is_some_and(|fs| fs.is_on(number)));
        if ends && (ext4::MOUNTED.has(number) || erofs::MOUNTED.has(number)) {
            return Ok(Found::Ending(so_far));
        }
        let fs = try_arc(Self::mount(source, number, change)?)?;
        mounted.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        mounted.push(Arc::downgrade(&fs));
        Ok(Found::Mounted(fs))
    }

    /// Mounts what is on a disk.
    fn mount(source: &Path, number: u64, change: &Change) -> Result<Self> {
        let (kind, root, flags, own) = match change.own {
            OwnChange::Image(options) => {
                let (held, root) = erofs::mount(source, change.flags, options)?;
                ("erofs", root, MS_RDONLY, Own::Image(number, held))
            }
            OwnChange::Disk(_, options) => {
                let (held, root) = ext4::mount(source, change.flags, options)?;
                ("ext4", root, KEEPS_FLAGS, Own::Disk(number, held))
            }
            _ => return Err(Errno::ENODEV),
        };
        Ok(Super {
            kind,
            root,
            flags: AtomicU32::new(change.flags | flags),
            writers: AtomicUsize::new(0),
            own,
        })
    }

    /// Whether it is on the disk with this number.
    fn is_on(&self, number: u64) -> bool {
        matches!(self.own, Own::Disk(own, _) | Own::Image(own, _) if own == number)
    }

    /// Whether it is on that disk, and of the kind that a mount asks for.
    fn is_same(&self, number: u64, change: &OwnChange) -> bool {
        self.is_on(number)
            && matches!(self.own, Own::Image(..)) == matches!(change, OwnChange::Image(_))
    }

    fn parse_disk(list: &[u8], flags: u32) -> Result<Change> {
        let mut own = ext4::Options::default();
        let flags = parse(list, flags, |name, value| own.set(name, value))? & FLAGS;
        check_disk(flags)?;
        let own = OwnChange::Disk(flags, own);
        Ok(Change { flags, own })
    }

    fn parse_image(list: &[u8], flags: u32) -> Result<Change> {
        let mut own = erofs::Options::default();
        let flags = parse(list, flags, |name, value| own.set(name, value))? & FLAGS;
        let own = OwnChange::Image(own);
        Ok(Change { flags, own })
    }

    /// Writes everything to the disk that it is on (syncfs(2)).
    pub fn sync(&self) -> Result<()> {
        match &self.own {
            Own::Disk(_, held) => held.sync(),
            Own::Layers(layers) => layers.sync(),
            _ => Ok(()),
        }
    }

    /// The errors of writing back any of its files, where it is on a disk.
    pub fn failed(&self) -> Option<&ErrSeq> {
        match &self.own {
            Own::Disk(_, held) => Some(held.failed()),
            _ => None,
        }
    }

    /// Changes its flags (MS_*) and options, all or none of them. As on Linux, accounting to a file
    /// system that is to become read-only ends even if the change fails.
    ///
    /// # Errors
    /// EINVAL: it has no such option, or cannot change it. EBUSY: it shall become read-only,
    /// and files are open for writing. EINTR: a signal kills the process.
    pub fn reconfigure(&self, options: &[u8], flags: u32) -> Result<()> {
        let change = self.parse(options, flags)?;
        let ends = || change.flags & !self.flags() & MS_RDONLY != 0;
        if ends() {
            acct::leave_file_system(self);
        }
        let _alone = CHANGING.lock_killable()?;
        let (old, ends) = (self.flags(), ends());
        // As on Linux, MS_DIRSYNC stays.
        let stays = MS_DIRSYNC | KEEPS_FLAGS;
        let new = change.flags & FLAGS & !stays | old & stays;
        // Before the look at the writers: a later one is refused.
        self.flags.store(old | new & MS_RDONLY, SeqCst);
        let done = match ends && self.writers.load(SeqCst) > 0 {
            true => Err(Errno::EBUSY),
            false => self.follow(change.own),
        };
        self.flags
            .store(if done.is_ok() { new } else { old }, SeqCst);
        done
    }

    fn parse(&self, list: &[u8], flags: u32) -> Result<Change> {
        let (own, flags) = match &self.own {
            Own::Files => {
                let (options, flags) = Options::parse(list, flags)?;
                (OwnChange::Files(options), flags)
            }
            Own::Terminals(_) => {
                let (options, flags) = pts_options::Options::parse(list, flags)?;
                (OwnChange::Terminals(options), flags)
            }
            Own::Processes(_) => {
                let (change, flags) = proc::Change::parse(list, flags)?;
                (OwnChange::Processes(change), flags)
            }
            Own::Layers(layers) => (OwnChange::Nothing, layers.remount(list, flags)?),
            Own::Unlimited(_) => (OwnChange::Nothing, parse(list, flags, |_, _| Ok(()))?),
            // As on Linux, a server's options stay what they are.
            Own::Share(_) => (OwnChange::Nothing, parse(list, flags, |_, _| Ok(()))?),
            Own::Nothing => {
                let flags = parse(list, flags, |_, _| Err(Errno::EINVAL))?;
                (OwnChange::Nothing, flags)
            }
            Own::Disk(..) => return Self::parse_disk(list, flags),
            Own::Image(..) => {
                let mut change = Self::parse_image(list, flags)?;
                // As on Linux it stays read-only whatever is asked for, also by the word `rw`.
                change.flags |= MS_RDONLY;
                return Ok(change);
            }
        };
        Ok(Change { flags, own })
    }

    /// Changes its options; EINVAL where they cannot become these.
    fn follow(&self, change: OwnChange) -> Result<()> {
        match (&self.own, change) {
            (Own::Files, OwnChange::Files(options)) => {
                inotify::unmounted(self.root.inode().attr().device);
                if let Some(node) = tmpfs::node_of(&self.root) {
                    node.fs().limit(&options)?;
                }
            }
            (Own::Terminals(terminals), OwnChange::Terminals(options)) => terminals.set(options),
            (Own::Processes(processes), OwnChange::Processes(change)) => processes.set(&change),
            (Own::Disk(_, held), OwnChange::Disk(flags, own)) => held.configure(flags, own)?,
            (Own::Image(_, held), OwnChange::Image(own)) => held.configure(own),
            _ => {}
        }
        Ok(())
    }

    /// Its options, as /proc/PID/mounts has them, each after a comma.
    pub fn options(&self) -> impl fmt::Display {
        fmt::from_fn(|out| match &self.own {
            Own::Files => match tmpfs::node_of(&self.root) {
                Some(node) => node.fs().fmt(out),
                None => Ok(()),
            },
            Own::Terminals(terminals) => terminals.fmt(out),
            Own::Processes(processes) => processes.fmt(out),
            Own::Disk(_, held) => held.fmt(out),
            Own::Image(_, held) => held.fmt(out),
            Own::Layers(layers) => layers.fmt(out),
            Own::Share(held) => held.fmt(out),
            Own::Unlimited(0o755) | Own::Nothing => Ok(()),
            Own::Unlimited(mode) => write!(out, ",mode={mode:o}"),
        })
    }

    /// The terminals that it shows, if it is of that kind.
    pub fn terminals(&self) -> Option<&Arc<pts_options::Instance>> {
        match &self.own {
            Own::Terminals(terminals) => Some(terminals),
            _ => None,
        }
    }

    /// The file system's own part, if it is made of others.
    pub fn overlay(&self) -> Option<&Arc<Overlay>> {
        match &self.own {
            Own::Layers(layers) => Some(layers),
            _ => None,
        }
    }

    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Its top.
    pub fn root(&self) -> &Arc<Dentry> {
        &self.root
    }

    /// Its result of statfs(2).
    pub fn stat(&self) -> FsStat {
        let magic = match self.kind {
            "proc" => PROC_SUPER_MAGIC,
            "sysfs" => SYSFS_MAGIC,
            "devpts" => DEVPTS_SUPER_MAGIC,
            _ => return self.root.inode().fs_stat(),
        };
        FsStat {
            magic: magic.into(),
            ..FsStat::default()
        }
    }

    /// How it may be used at all its places (MS_*).
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// A file is to be opened for writing: false where the file system is read-only.
    pub(super) fn begin_write(&self) -> bool {
        self.writers.fetch_add(1, SeqCst);
        self.flags.load(SeqCst) & MS_RDONLY == 0
    }

    /// The file was closed, or not opened.
    pub(super) fn end_write(&self) {
        self.writers.fetch_sub(1, SeqCst);
    }
}

impl Drop for Super {
    fn drop(&mut self) {
        inotify::unmounted(self.root.inode().attr().device);
        if let Some(node) = tmpfs::node_of(&self.root) {
            node.tear_down(&self.root);
        }
        if let Some(layers) = self.overlay() {
            layers.tear_down();
        }
    }
}

/// Adds the node of a device to the one devtmpfs.
///
/// # Errors
/// EEXIST.
pub fn add_device(name: &[u8], mode: u32, number: u64, owner: (u32, u32)) -> Result<()> {
    let fs = dev()?;
    let node = tmpfs::node_of(&fs.root).ok_or(Errno::EINVAL)?;
    let child = node.new_node(mode, number, owner)?;
    node.add(&fs.root, name, child).map(drop)
}

/// Removes the node of a device that is gone.
///
/// # Errors
/// ENOENT: somebody did before.
pub fn remove_device(name: &[u8]) -> Result<()> {
    let fs = dev()?;
    let inode = fs.root.inode();
    let victim = inode.lookup(&fs.root, name)?;
    inode.remove(&fs.root, &victim)
}

/// The one devtmpfs.
fn dev() -> Result<Arc<Super>> {
    static DEV: Mutex<Option<Arc<Super>>> = Mutex::new(None);
    let known = DEV.lock().clone();
    if let Some(fs) = known {
        return Ok(fs);
    }
    let root = Tmpfs::new_root(&Options::unlimited(0o755))?;
    let node = tmpfs::node_of(&root).ok_or(Errno::EINVAL)?;
    let hypervisor = device::has_hypervisor().then_some(device::HYPERVISOR);
    for (name, major, minor, permissions) in device::NODES.into_iter().chain(hypervisor) {
        let child = node.new_node(S_IFCHR | permissions, device::number(major, minor), (0, 0))?;
        node.add(&root, name.as_bytes(), child)?;
    }
    let fs = try_arc(Super {
        kind: "devtmpfs",
        root,
        flags: AtomicU32::new(0),
        writers: AtomicUsize::new(0),
        own: Own::Files,
    })?;
    // Where another was faster, this one goes without the lock.
    let one = DEV.lock().get_or_insert_with(|| fs.clone()).clone();
    Ok(one)
}
