//! The text of /proc/PID/mounts and mountinfo.

use super::super::device;
use super::super::path::{Path, TOO_LONG};
use super::super::seq_file::Text;
use super::super::walk::PATH_MAX;
use super::{Mount, TREE};
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::{try_concat, try_vec};
use crate::put;
use crate::task::sched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general::*;

/// A word in a line: characters that would end it are written in octal.
struct Word<'a>(&'a [u8]);

impl Word<'_> {
    fn put(&self, text: &mut Text) {
        for &byte in self.0 {
            match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => put!(text, "\\{byte:03o}"),
                _ => text.push(&[byte]),
            }
        }
    }
}

/// The options that every mount may have, but whether it is read-only.
fn options(flags: u32) -> impl fmt::Display {
    const NAMES: [(u32, &str); 5] = [
        (MS_NOSUID, ",nosuid"),
        (MS_NODEV, ",nodev"),
        (MS_NOEXEC, ",noexec"),
        (MS_NOATIME, ",noatime"),
        (MS_NODIRATIME, ",nodiratime"),
    ];
    fmt::from_fn(move |out| {
        for (_, name) in NAMES.iter().filter(|(flag, _)| flags & flag != 0) {
            out.write_str(name)?;
        }
        if flags & (MS_NOATIME | MS_STRICTATIME) == 0 {
            out.write_str(",relatime")?;
        }
        if flags & MS_NOSYMFOLLOW != 0 {
            out.write_str(",nosymfollow")?;
        }
        Ok(())
    })
}

fn access(flags: u32) -> &'static str {
    if flags & MS_RDONLY != 0 { "ro" } else { "rw" }
}

/// The flags of a file system, except whether it is read-only.
fn flags_of_all(flags: u32) -> impl fmt::Display {
    const NAMES: [(u32, &str); 4] = [
        (MS_SYNCHRONOUS, ",sync"),
        (MS_DIRSYNC, ",dirsync"),
        (MS_MANDLOCK, ",mand"),
        (MS_LAZYTIME, ",lazytime"),
    ];
    fmt::from_fn(move |out| {
        let mut set = NAMES.iter().filter(|(flag, _)| flags & flag != 0);
        set.try_for_each(|(_, name)| out.write_str(name))
    })
}

/// Each mount that a process with the root `root` can reach, and the path to it. That begins with
/// the path of the mount above, which is already known, since programs can stack as many mounts as
/// they like at one place.
fn each(root: &Path, mut write_line: impl FnMut(&Arc<Mount>, &[u8])) -> Result<()> {
    let tree = TREE.lock();
    let mut known: HashMap<u32, Vec<u8>> = hash::new();
    known
        .try_reserve(tree.mounts.len())
        .map_err(|_| Errno::ENOMEM)?;
    for mount in tree.mounts.values() {
        sched::cond_resched();
        let Some(path) = path_of(mount, root, &known)? else {
            continue;
        };
        write_line(mount, if path.is_empty() { b"/" } else { &path });
        known.insert(mount.id, path);
    }
    Ok(())
}

/// The path from `root` to a mount, where there is one; `known` are those of the mounts above. A
/// removed folder that is also mounted elsewhere keeps its path.
fn path_of(
    mount: &Arc<Mount>,
    root: &Path,
    known: &HashMap<u32, Vec<u8>>,
) -> Result<Option<Vec<u8>>> {
    if Path::root_of(mount.clone()).is(root) {
        return Ok(Some(Vec::new()));
    }
    let Some(place) = mount.place() else {
        return Ok(None);
    };
    let (top, names) = match place.names_in_mount(root) {
        Err(Errno::ENAMETOOLONG) => return try_vec(TOO_LONG).map(Some),
        found => found?,
    };
    if top.is(root) {
        return Ok(Some(names));
    }
    let above = known.get(&top.mount_id()).filter(|_| top.is_mount_root());
    let Some(above) = above else {
        return Ok(None);
    };
    if above == TOO_LONG || above.len() + names.len() >= PATH_MAX {
        return try_vec(TOO_LONG).map(Some);
    }
    let mut path = Vec::new();
    let room = path.try_reserve_exact(above.len() + names.len());
    room.map_err(|_| Errno::ENOMEM)?;
    path.extend_from_slice(above);
    path.extend_from_slice(&names);
    Ok(Some(path))
}

/// Writes the lines of /proc/PID/mounts.
pub fn list(root: &Path, text: &mut Text) -> Result<()> {
    each(root, |mount, path| {
        Word(&mount.source).put(text);
        text.push(b" ");
        Word(path).put(text);
        let (fs, all) = (&mount.fs, mount.fs.flags());
        put!(
            text,
            " {} {}{}",
            fs.kind(),
            access(mount.flags()),
            flags_of_all(all)
        );
        put!(text, "{}{}", options(mount.flags()), fs.options());
        text.push(b" 0 0\n");
    })
}

/// Writes the lines of /proc/PID/mountstats.
pub fn list_devices(root: &Path, text: &mut Text) -> Result<()> {
    each(root, |mount, path| {
        text.push(b"device ");
        Word(&mount.source).put(text);
        text.push(b" mounted on ");
        Word(path).put(text);
        put!(text, " with fstype {}\n", mount.fs.kind());
    })
}

/// Writes the lines of /proc/PID/mountinfo.
pub fn list_info(root: &Path, text: &mut Text) -> Result<()> {
    each(root, |mount, path| {
        let (major, minor) = device::split(mount.root.inode().attr().device);
        let above = mount.place().map_or(mount.id, |place| place.mount_id());
        put!(text, "{} {above} {major}:{minor} ", mount.id);
        match inside(mount) {
            Ok(path) => Word(&path).put(text),
            Err(_) => text.fail(),
        }
        text.push(b" ");
        Word(path).put(text);
        let (own, all) = (mount.flags.load(Relaxed), mount.fs.flags());
        put!(text, " {}{}", access(own), options(own));
        if mount.is_unbindable() {
            text.push(b" unbindable");
        }
        put!(text, " - {} ", mount.fs.kind());
        Word(&mount.source).put(text);
        put!(
            text,
            " {}{}{}",
            access(all),
            flags_of_all(all),
            mount.fs.options()
        );
        text.push(b"\n");
    })
}

/// Where the mount's root is in its file system, or was.
///
/// # Errors
/// ENOMEM.
fn inside(mount: &Mount) -> Result<Vec<u8>> {
    let top = Path::from(mount.fs.root().clone());
    let names = Path::from(mount.root.clone()).names_in_mount(&top);
    let path = match names {
        Ok((_, path)) => path,
        Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
        Err(_) => return try_vec(TOO_LONG),
    };
    let path: &[u8] = if path.is_empty() { b"/" } else { &path };
    let mark: &[u8] = if mount.root.is_removed() {
        b"//deleted"
    } else {
        b""
    };
    try_concat(&[path, mark])
}
