//! Images in memory, and a writer of images with whatever a test wants in them.
#![allow(dead_code)] // Each test uses a part.

pub mod lz4;
pub mod sample;
pub mod walk;
pub mod writer;

use std::sync::atomic::{AtomicUsize, Ordering};

use erofs::{Device, Error, Fs, Result};

/// A disk in memory, which counts what is read.
pub struct Disk {
    pub image: Vec<u8>,
    pub reads: AtomicUsize,
}

impl Device for Disk {
    fn size(&self) -> u64 {
        self.image.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let at = at as usize;
        let from = self.image.get(at..at + into.len()).ok_or(Error::Io)?;
        into.copy_from_slice(from);
        Ok(())
    }
}

pub fn mount(image: Vec<u8>) -> Result<Fs<Disk>> {
    Fs::mount(Disk {
        image,
        reads: AtomicUsize::new(0),
    })
}

/// The inode at a path.
pub fn find(fs: &Fs<Disk>, path: &str) -> Result<erofs::Inode> {
    let mut inode = fs.inode(fs.root())?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        inode = fs.inode(fs.lookup(&inode, name.as_bytes())?)?;
    }
    Ok(inode)
}

/// All of a file.
pub fn content(fs: &Fs<Disk>, inode: &erofs::Inode) -> Result<Vec<u8>> {
    let mut bytes = vec![0xaa; inode.size() as usize];
    fs.read(inode, 0, &mut bytes)?;
    Ok(bytes)
}

/// All entries of a directory: names, types and inodes.
pub fn entries(fs: &Fs<Disk>, directory: &erofs::Inode) -> Result<Vec<(Vec<u8>, u8, u64)>> {
    let mut all = Vec::new();
    fs.read_directory(directory, 0, |entry| {
        all.push((entry.name.to_vec(), entry.kind, entry.inode));
        true
    })?;
    Ok(all)
}
