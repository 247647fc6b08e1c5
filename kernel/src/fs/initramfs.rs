//! The initial archive (cpio, "newc"), unpacked into the root file system.

use super::device;
use super::entry::Entry;
use super::inode::{Inode, SetAttr, Time};
use super::tmpfs::Node;
use crate::errno::{Errno, Result};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::any::Any;
use linux_raw_sys::general::{S_IFCHR, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};

/// What the kernel makes in an empty root, as Linux's default archive does.
pub fn prepare(root: &Arc<Entry>) -> Result<()> {
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

/// Unpacks one archive or several on end. What is damaged is told in the log, and what comes before it stays.
pub fn unpack(root: &Arc<Entry>, mut archive: &[u8]) {
    while let Some(start) = archive.iter().position(|&byte| byte != 0) {
        archive = &archive[start..];
        let mut links = BTreeMap::new();
        let mut end = 0;
        for file in cpio_reader::iter_files(archive) {
            if let Err(error) = unpack_file(root, &file, &mut links) {
                crate::log!("initramfs: {}: {error:?}", file.name());
            }
            end = file.file().as_ptr_range().end as usize - archive.as_ptr() as usize;
        }
        match after_trailer(archive.get(end.next_multiple_of(4)..).unwrap_or_default()) {
            Some(rest) => archive = rest,
            None => return crate::log!("initramfs: the archive is damaged from byte {end} on"),
        }
    }
}

/// What follows the record that ends an archive; `None` when that is not what `bytes` begins with.
fn after_trailer(bytes: &[u8]) -> Option<&[u8]> {
    const HEADER: usize = 110;
    const NAME: &[u8] = b"TRAILER!!!\0";
    bytes.get(HEADER..)?.strip_prefix(NAME)
}

/// Inodes of files with several names, by their number and device in the archive.
type Links = BTreeMap<(u32, Option<u32>, Option<u32>), Arc<dyn Inode>>;

fn unpack_file(root: &Arc<Entry>, file: &cpio_reader::Entry, links: &mut Links) -> Result<()> {
    let path = file.name().as_bytes();
    let mut parts = path
        .split(|&byte| byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."));
    let Some(name) = parts.next_back() else {
        return Ok(());
    };
    let mut directory = root.clone();
    for part in parts {
        directory = directory.inode().lookup(&directory, part)?;
    }
    let mode = file.mode().bits();
    let identity = (file.ino(), file.devmajor(), file.devminor());
    let owner = (file.uid(), file.gid());
    if mode & S_IFMT == S_IFREG
        && file.nlink() > 1
        && let Some(inode) = links.get(&identity)
    {
        directory.inode().add_link(&directory, name, inode)?;
        return node(inode)?.data()?.fill(file.file());
    }
    if mode & S_IFMT == S_IFDIR
        && let Ok(existing) = directory.inode().lookup(&directory, name)
    {
        let permissions = Some(mode & 0o7777);
        return existing.inode().set_attr(&SetAttr {
            permissions,
            ..SetAttr::default()
        });
    }
    _ = directory.inode().remove(&directory, name, false);
    let rdev = device::number(file.rdevmajor().unwrap_or(0), file.rdevminor().unwrap_or(0));
    let entry = add(&directory, name, mode, rdev, owner, file.file())?;
    let modified = Time {
        seconds: file.mtime() as i64,
        nanoseconds: 0,
    };
    let times = SetAttr {
        accessed: Some(modified),
        modified: Some(modified),
        ..SetAttr::default()
    };
    entry.inode().set_attr(&times)?;
    if file.nlink() > 1 {
        links.insert(identity, entry.inode().clone());
    }
    Ok(())
}

fn node(inode: &Arc<dyn Inode>) -> Result<Arc<Node>> {
    let inode: Arc<dyn Any + Send + Sync> = inode.clone();
    inode.downcast().map_err(|_| Errno::EXDEV)
}

fn add(
    directory: &Arc<Entry>,
    name: &[u8],
    mode: u32,
    rdev: u64,
    owner: (u32, u32),
    content: &[u8],
) -> Result<Arc<Entry>> {
    let parent = node(directory.inode())?;
    let child = match mode & S_IFMT {
        S_IFLNK => parent.new_symlink(content, owner)?,
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
            let root = super::super::tmpfs::Tmpfs::new(0o755).unwrap();
            unpack(&root, b"070701garbage");
            unpack(&root, &[b'0'; 300]);
            assert!(root.inode().lookup(&root, b"x").is_err());
        }
    }
}
