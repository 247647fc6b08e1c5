//! Mounts.

use super::entry::Entry;
use super::inode::Kind;
use super::tmpfs::{Node, Options, Tmpfs};
use super::{device, proc, sysfs, tty};
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use linux_raw_sys::general::S_IFCHR;

/// One mounted file system.
struct Mount {
    source: Vec<u8>,
    kind: &'static str,
    root: Arc<Entry>,
    /// A tmpfs that nobody sees once this mount ends.
    own: bool,
}

static MOUNTS: Mutex<Vec<Mount>> = Mutex::new(Vec::new());

/// Lists the root as mounted.
pub fn init(root: &Arc<Entry>) {
    MOUNTS.lock().push(Mount {
        source: b"rootfs".to_vec(),
        kind: "rootfs",
        root: root.clone(),
        own: true,
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

/// Mounts a file system of `kind` on a directory, with options such as `size=1m`.
pub fn mount(source: &[u8], target: &Arc<Entry>, kind: &[u8], options: &[u8]) -> Result<()> {
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
        matches!(kind, "tmpfs" | "ramfs"),
    )
}

/// The tmpfs that the root of a mount is of.
fn tmpfs(root: &Entry) -> Option<Arc<Node>> {
    let inode: Arc<dyn Any + Send + Sync> = root.inode().clone();
    inode.downcast().ok()
}

/// Gives a mounted file system other options.
pub fn remount(root: &Arc<Entry>, options: &[u8]) -> Result<()> {
    match tmpfs(root) {
        Some(node) if !options.is_empty() => node.fs().limit(&Options::parse(options)?),
        _ => Ok(()),
    }
}

/// Shows the directory (or file) `from` at `target` too.
pub fn bind(from: &Arc<Entry>, target: &Arc<Entry>) -> Result<()> {
    if (from.kind() == Kind::Directory) != (target.kind() == Kind::Directory) {
        return Err(Errno::ENOTDIR);
    }
    let root = Entry::new(from.inode().clone(), None, Arc::from(&b""[..]))?;
    attach(b"none", target, "tmpfs", root, false)
}

fn attach(
    source: &[u8],
    target: &Arc<Entry>,
    kind: &'static str,
    root: Arc<Entry>,
    own: bool,
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
    target.cover(Some(root.clone()));
    mounts.push(Mount {
        source: name,
        kind,
        root,
        own,
    });
    Ok(())
}

/// Ends the mount whose root is `root`.
pub fn unmount(root: &Arc<Entry>) -> Result<()> {
    let mut mounts = MOUNTS.lock();
    let at = mounts
        .iter()
        .position(|mount| Arc::ptr_eq(&mount.root, root))
        .ok_or(Errno::EINVAL)?;
    let covered = root.parent().ok_or(Errno::EBUSY)?;
    let mount = mounts.remove(at);
    drop(mounts);
    covered.cover(None);
    if mount.own
        && let Some(node) = tmpfs(&mount.root)
    {
        node.dismantle();
    }
    Ok(())
}

/// Writes the lines of /proc/mounts.
pub fn list(root: &Arc<Entry>, out: &mut dyn fmt::Write) -> fmt::Result {
    for mount in MOUNTS.lock().iter() {
        let path = mount.root.path(root);
        let (source, path) = (mount.source.escape_ascii(), path.escape_ascii());
        write!(out, "{source} {path} {} rw,relatime", mount.kind)?;
        if let Some((pages, _)) = tmpfs(&mount.root).and_then(|node| node.fs().page_limit()) {
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
            "{id} {above} {major}:{minor} / {path} rw,relatime - {kind} {source} rw"
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
    let node = tmpfs(&root).ok_or(Errno::EINVAL)?;
    let hypervisor = device::has_hypervisor().then_some(device::HYPERVISOR);
    for (name, major, minor, permissions) in device::NODES.into_iter().chain(hypervisor) {
        let child = node.new_node(S_IFCHR | permissions, device::number(major, minor), (0, 0))?;
        node.add(&root, name.as_bytes(), child)?;
    }
    *DEV.lock() = Some(root.clone());
    Ok(root)
}
