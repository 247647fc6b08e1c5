//! The file systems there are to mount.

use super::super::dentry::Entry;
use super::super::inode::FsStat;
use super::super::tmpfs::{self, Options, Tmpfs};
use super::super::{device, proc, sysfs, tty};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use linux_raw_sys::general::{
    DEVPTS_SUPER_MAGIC, MS_RDONLY, PROC_SUPER_MAGIC, S_IFCHR, SYSFS_MAGIC,
};

/// A file system, at however many places it is mounted (Linux's super block). Its mounts hold it.
pub struct Super {
    kind: &'static str,
    root: Arc<Entry>,
    /// MS_RDONLY, where nobody may write it.
    flags: AtomicU32,
}

/// The kinds of file system there are, as /proc/filesystems lists them.
pub const KINDS: [&str; 6] = ["tmpfs", "ramfs", "devtmpfs", "devpts", "proc", "sysfs"];

impl Super {
    /// The file system of this kind with this root.
    pub fn new(kind: &'static str, root: Arc<Entry>) -> Result<Arc<Self>> {
        try_arc(Super {
            kind,
            root,
            flags: AtomicU32::new(0),
        })
    }

    /// A file system of the kind with this name; ENODEV.
    pub fn of_kind(name: &[u8], options: &[u8]) -> Result<Arc<Self>> {
        let mut kinds = KINDS.into_iter();
        let kind = kinds.find(|kind| kind.as_bytes() == name);
        let kind = kind.ok_or(Errno::ENODEV)?;
        let root = match kind {
            "tmpfs" => Tmpfs::new_root(&Options::parse(options)?)?,
            "ramfs" => Tmpfs::new_root(&Options::unlimited(0o755))?,
            "devtmpfs" => return dev(),
            "devpts" => tty::devpts()?,
            "proc" => proc::root()?,
            _ => sysfs::root()?,
        };
        Super::new(kind, root)
    }

    /// What it is.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Its top.
    pub fn root(&self) -> &Arc<Entry> {
        &self.root
    }

    /// What statfs(2) tells of it.
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

    /// How it may be used at all its places (MS_RDONLY).
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Changes that.
    pub fn set_flags(&self, flags: u32) {
        self.flags.store(flags & MS_RDONLY, Relaxed);
    }
}

impl Drop for Super {
    fn drop(&mut self) {
        if let Some(node) = tmpfs::node_of(&self.root) {
            node.dismantle(&self.root);
        }
    }
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
    let fs = Super::new("devtmpfs", root)?;
    Ok(DEV.lock().get_or_insert(fs).clone())
}
