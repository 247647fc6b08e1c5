//! Mounts.

use super::entry::Entry;
use super::inode::Kind;
use super::tmpfs::{Options, Tmpfs};
use super::{device, proc, sysfs, tmpfs, tty};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use linux_raw_sys::general::{
    MS_NOATIME, MS_NODEV, MS_NODIRATIME, MS_NOEXEC, MS_NOSUID, MS_RDONLY, S_IFCHR,
};

/// One mounted file system.
struct Mount {
    source: Vec<u8>,
    kind: &'static str,
    root: Arc<Entry>,
    /// A tmpfs that nobody sees once this mount ends.
    own: bool,
    /// How it is mounted (MS_*). A tmpfs of its own goes by it, others only tell it.
    flags: u32,
}

/// The flags of mount(2) that a mount keeps.
const KEPT: u32 = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME;

impl Mount {
    fn set_flags(&mut self, flags: u32) {
        self.flags = flags & KEPT;
        if self.own
            && let Some(node) = tmpfs::node_of(&self.root)
        {
            node.fs().set_flags(self.flags);
        }
    }

    /// The options that every mount may have, as /proc/mounts shows them.
    fn options(&self) -> impl fmt::Display {
        let flags = self.flags;
        fmt::from_fn(move |out| {
            out.write_str(if flags & MS_RDONLY != 0 { "ro" } else { "rw" })?;
            for (flag, name) in [
                (MS_NOSUID, ",nosuid"),
                (MS_NODEV, ",nodev"),
                (MS_NOEXEC, ",noexec"),
                (MS_NOATIME, ",noatime"),
                (MS_NODIRATIME, ",nodiratime"),
            ] {
                out.write_str(if flags & flag != 0 { name } else { "" })?;
            }
            out.write_str(if flags & MS_NOATIME == 0 {
                ",relatime"
            } else {
                ""
            })
        })
    }
}

static MOUNTS: Mutex<Vec<Mount>> = Mutex::new(Vec::new());

/// Lists the root as mounted.
pub fn init(root: &Arc<Entry>) {
    MOUNTS.lock().push(Mount {
        source: b"rootfs".to_vec(),
        kind: "rootfs",
        root: root.clone(),
        own: true,
        flags: 0,
    });
}

/// The kinds of file system there are, as /proc/filesystems lists them.
pub const KINDS: [&str; 6] = ["tmpfs", "ramfs", "devtmpfs", "devpts", "proc", "sysfs"];

fn new_root(kind: &str, options: &[u8]) -> Result<Arc<Entry>> {
    match kind {
        "tmpfs" => Tmpfs::new(&Options::parse(options)?),
        "ramfs" => Tmpfs::new(&Options::unlimited(0o755)),
        "devtmpfs" => dev(),
        "devpts" => tty::devpts(),
        "proc" => proc::root(),
        "sysfs" => sysfs::root(),
        _ => Err(Errno::ENODEV),
    }
}

/// Mounts a file system of `kind` on a directory, with flags (MS_*) and options such as `size=1m`.
pub fn mount(
    source: &[u8],
    target: &Arc<Entry>,
    kind: &[u8],
    flags: u32,
    options: &[u8],
) -> Result<()> {
    let kind = KINDS
        .iter()
        .copied()
        .find(|name| name.as_bytes() == kind)
        .ok_or(Errno::ENODEV)?;
    if target.kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    attach(
        source,
        target,
        kind,
        new_root(kind, options)?,
        matches!(kind, "tmpfs" | "ramfs").then_some(flags),
    )
}

/// Gives the file system mounted at `root` other flags and options; EINVAL where none is.
pub fn remount(root: &Arc<Entry>, flags: u32, options: &[u8]) -> Result<()> {
    let mut mounts = MOUNTS.lock();
    let mount = mounts
        .iter_mut()
        .find(|mount| Arc::ptr_eq(&mount.root, root))
        .ok_or(Errno::EINVAL)?;
    if !options.is_empty()
        && let Some(node) = tmpfs::node_of(root)
    {
        node.fs().limit(&Options::parse(options)?)?;
    }
    mount.set_flags(flags);
    Ok(())
}

/// Shows the directory (or file) `from` at `target` too.
pub fn bind(from: &Arc<Entry>, target: &Arc<Entry>) -> Result<()> {
    if (from.kind() == Kind::Directory) != (target.kind() == Kind::Directory) {
        return Err(Errno::ENOTDIR);
    }
    let root = Entry::new(from.inode().clone(), None, Arc::from(&b""[..]))?;
    attach(b"none", target, "tmpfs", root, None)
}

fn attach(
    source: &[u8],
    target: &Arc<Entry>,
    kind: &'static str,
    root: Arc<Entry>,
    own: Option<u32>,
) -> Result<()> {
    let mut name = Vec::new();
    name.try_reserve_exact(source.len())
        .map_err(|_| Errno::ENOMEM)?;
    name.extend_from_slice(source);
    // One root has one place; a file system that there is only once gets an entry for each mount.
    let root = match root.parent() {
        None => root,
        Some(_) => Entry::new(root.inode().clone(), None, Arc::from(&b""[..]))?,
    };
    let mut mounts = MOUNTS.lock();
    mounts.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    if target.is_covered() {
        return Err(Errno::EBUSY);
    }
    target.cover(Some(root.clone()))?;
    let mut mount = Mount {
        source: name,
        kind,
        root,
        own: own.is_some(),
        flags: 0,
    };
    mount.set_flags(own.unwrap_or(0));
    mounts.push(mount);
    Ok(())
}

/// Ends the mount whose root is `root`; EBUSY where it is in use, unless it shall go `lazily`.
pub fn unmount(root: &Arc<Entry>, lazily: bool) -> Result<()> {
    let mut mounts = MOUNTS.lock();
    let at = mounts
        .iter()
        .position(|mount| Arc::ptr_eq(&mount.root, root))
        .ok_or(Errno::EINVAL)?;
    let covered = root.parent().ok_or(Errno::EBUSY)?;
    // The list of mounts, the entry that the root covers, and the caller.
    const HOLDERS: usize = 3;
    if mounts[at].own
        && !lazily
        && tmpfs::node_of(root).is_some_and(|node| node.is_used(root, HOLDERS))
    {
        return Err(Errno::EBUSY);
    }
    let mount = mounts.remove(at);
    drop(mounts);
    covered.cover(None)?;
    if mount.own
        && let Some(node) = tmpfs::node_of(&mount.root)
    {
        node.dismantle(&mount.root);
    }
    Ok(())
}

/// The number that /proc/PID/mountinfo shows for the mount that an entry is in.
pub fn number_of(entry: &Entry) -> usize {
    let device = entry.inode().attr().device;
    let mounts = MOUNTS.lock();
    let of_device = |mount: &Mount| mount.root.inode().attr().device == device;
    mounts.iter().position(of_device).map_or(0, |at| at + 1)
}

/// Writes the lines of /proc/mounts.
pub fn list(root: &Arc<Entry>, out: &mut dyn fmt::Write) -> fmt::Result {
    for mount in MOUNTS.lock().iter() {
        let path = mount.root.path(root);
        let (source, path) = (mount.source.escape_ascii(), path.escape_ascii());
        write!(out, "{source} {path} {} {}", mount.kind, mount.options())?;
        if let Some((pages, _)) =
            tmpfs::node_of(&mount.root).and_then(|node| node.fs().page_limit())
        {
            write!(out, ",size={}k", pages * (PAGE_SIZE as u64 / 1024))?;
        }
        writeln!(out, " 0 0")?;
    }
    Ok(())
}

/// Writes the lines of /proc/PID/mountinfo.
pub fn list_info(root: &Arc<Entry>, out: &mut dyn fmt::Write) -> fmt::Result {
    for (at, mount) in MOUNTS.lock().iter().enumerate() {
        let (major, minor) = device::split(mount.root.inode().attr().device);
        let path = mount.root.path(root);
        let (source, path, kind) = (mount.source.escape_ascii(), path.escape_ascii(), mount.kind);
        let above = if at == 0 { 0 } else { 1 };
        let id = at + 1;
        writeln!(
            out,
            "{id} {above} {major}:{minor} / {path} {} - {kind} {source} {}",
            mount.options(),
            if mount.flags & MS_RDONLY != 0 {
                "ro"
            } else {
                "rw"
            },
        )?;
    }
    Ok(())
}

/// The one devtmpfs.
fn dev() -> Result<Arc<Entry>> {
    static DEV: Mutex<Option<Arc<Entry>>> = Mutex::new(None);
    let known = DEV.lock().clone();
    if let Some(root) = known {
        return Ok(root);
    }
    let root = Tmpfs::new(&Options::unlimited(0o755))?;
    let node = tmpfs::node_of(&root).ok_or(Errno::EINVAL)?;
    let hypervisor = device::has_hypervisor().then_some(device::HYPERVISOR);
    for (name, major, minor, permissions) in device::NODES.into_iter().chain(hypervisor) {
        let child = node.new_node(S_IFCHR | permissions, device::number(major, minor), (0, 0))?;
        node.add(&root, name.as_bytes(), child)?;
    }
    *DEV.lock() = Some(root.clone());
    Ok(root)
}
