//! The initial archive (cpio, "newc"), unpacked into the root file system.

use super::dentry::Dentry;
use super::device;
use super::inode::{Inode, SetAttr, Time};
use super::tmpfs::Node;
use crate::errno::{Errno, Result};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::any::Any;
use linux_raw_sys::general::{S_IFCHR, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};

/// Creates the files that an empty root needs, as Linux's default archive does.
pub fn prepare(root: &Arc<Dentry>) -> Result<()> {
    let dev = add(root, b"dev", S_IFDIR | 0o755, 0, (0, 0), &[])?;
    add(
        &dev,
        b"console",
        S_IFCHR | 0o600,
        device::number(5, 1),
        (0, 0),
        &[],
    )?;
    add(root, b"root", S_IFDIR | 0o700, 0, (0, 0), &[])?;
    Ok(())
}

/// Unpacks one archive or several in a row. Damage is reported in the log, and the files before it
/// are kept.
pub fn unpack(root: &Arc<Dentry>, archive: &[u8]) {
    let mut links = BTreeMap::new();
    for member in newc::members(archive) {
        match member {
            Ok(member) => {
                if let Err(error) = unpack_member(root, &member, &mut links) {
                    crate::log!("initramfs: {}: {error:?}", member.name.escape_ascii());
                }
            }
            Err(newc::Damaged(at)) => {
                crate::log!("initramfs: the archive is damaged from byte {at} on")
            }
        }
    }
}

/// Inodes with several names, by number and device in the archive.
type Links = BTreeMap<(u32, (u32, u32)), Arc<dyn Inode>>;

fn unpack_member(root: &Arc<Dentry>, member: &newc::Member, links: &mut Links) -> Result<()> {
    let parts = member.name.split(|&byte| byte == b'/');
    let mut parts = parts.filter(|part| !matches!(*part, b"" | b"."));
    let Some(name) = parts.next_back() else {
        return Ok(());
    };
    let mut directory = root.clone();
    for part in parts {
        directory = directory.inode().lookup(&directory, part)?;
    }
    let kind = member.mode & S_IFMT;
    let identity = (member.inode, member.device);
    if kind == S_IFREG
        && member.links > 1
        && let Some(inode) = links.get(&identity)
    {
        directory.inode().add_link(&directory, name, inode)?;
        return node(inode)?.data()?.fill(member.content);
    }
    if kind == S_IFDIR
        && let Ok(existing) = directory.inode().lookup(&directory, name)
    {
        let permissions = Some(member.mode & 0o7777);
        return existing.inode().set_attr(&SetAttr {
            permissions,
            ..SetAttr::default()
        });
    }
    if let Ok(old) = directory.inode().lookup(&directory, name) {
        _ = directory.inode().remove(&directory, &old);
    }
    let rdev = device::number(member.rdev.0, member.rdev.1);
    let owner = (member.uid, member.gid);
    let dentry = add(&directory, name, member.mode, rdev, owner, member.content)?;
    let modified = Some(Time {
        seconds: member.modified.into(),
        nanoseconds: 0,
    });
    dentry.inode().set_attr(&SetAttr {
        accessed: modified,
        modified,
        ..SetAttr::default()
    })?;
    if kind == S_IFREG && member.links > 1 {
        links.insert(identity, dentry.inode().clone());
    }
    Ok(())
}

fn node(inode: &Arc<dyn Inode>) -> Result<Arc<Node>> {
    let inode: Arc<dyn Any + Send + Sync> = inode.clone();
    inode.downcast().map_err(|_| Errno::EXDEV)
}

fn add(
    directory: &Arc<Dentry>,
    name: &[u8],
    mode: u32,
    rdev: u64,
    owner: (u32, u32),
    content: &[u8],
) -> Result<Arc<Dentry>> {
    let parent = node(directory.inode())?;
    let child = match mode & S_IFMT {
        // Some archivers include a final zero.
        S_IFLNK => {
            let end = content.iter().position(|&byte| byte == 0);
            parent.new_symlink(&content[..end.unwrap_or(content.len())], owner)?
        }
        _ => parent.new_node(mode, rdev, owner)?,
    };
    if mode & S_IFMT == S_IFREG {
        child.data()?.fill(content)?;
    }
    parent.add(directory, name, child)
}

#[cfg(feature = "selftest")]
mod tests {
    use super::*;

    crate::selftest! {
        fn a_damaged_archive_is_no_panic() {
            let root = super::super::tmpfs::Tmpfs::new_root(&super::super::tmpfs::Options::unlimited(0o755)).unwrap();
            unpack(&root, b"070701garbage");
            unpack(&root, &[b'0'; 300]);
            assert!(root.inode().lookup(&root, b"x").is_err());
        }

        fn a_link_ends_at_a_zero() {
            let root = super::super::tmpfs::Tmpfs::new_root(&super::super::tmpfs::Options::unlimited(0o755)).unwrap();
            let entry = |mode: u32, name: &str, content: &str| {
                let fields = [1, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
                let mut bytes = alloc::string::String::from("070701");
                fields.iter().for_each(|field| bytes += &alloc::format!("{field:08x}"));
                for part in [name, "\0", content] {
                    bytes += part;
                    // Padding, after the name and after the content.
                    while part != name && bytes.len() % 4 != 0 {
                        bytes += "\0";
                    }
                }
                bytes
            };
            let archive = entry(S_IFLNK | 0o777, "link", "to\0") + &entry(0, "TRAILER!!!", "");
            unpack(&root, archive.as_bytes());
            let link = root.inode().lookup(&root, b"link").unwrap();
            assert!(matches!(link.inode().follow(), Ok(crate::fs::inode::Link::Path(path)) if *path == *b"to"));
        }
    }
}
