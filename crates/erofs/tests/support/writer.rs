//! Writes images. Inodes are in the blocks from 1 on, data behind them.

use crc::{CRC_32_ISCSI, Crc};
use erofs::format::{
    CompactInode, Dirent, ExtendedInode, Incompatible, MAGIC, SUPERBLOCK, Superblock,
};
use zerocopy::{FromZeros, IntoBytes};

/// Blocks for inodes.
const INODES: usize = 32;
pub const FLAT: u16 = 0;
pub const INLINE: u16 = 2;
pub const CHUNKS: u16 = 4;
pub const REGULAR: u16 = 0o100644;
pub const DIRECTORY: u16 = 0o040755;
pub const LINK: u16 = 0o120777;

/// An image that is being written.
pub struct Writer {
    pub image: Vec<u8>,
    pub superblock: Superblock,
    /// Where the next inode can be.
    next: usize,
}

/// An inode to be written.
#[derive(Clone, Default)]
pub struct New<'a> {
    pub mode: u16,
    pub layout: u16,
    pub size: u64,
    pub content: u32,
    /// What follows the inode: attributes, and how many words are noted for them.
    pub attributes: &'a [u8],
    pub attribute_count: u16,
    /// What follows these, at a multiple of eight for chunks.
    pub tail: &'a [u8],
    pub extended: Option<(u64, u32)>,
    pub links: u32,
    pub owner: (u32, u32),
}

impl Writer {
    pub fn new(block_bits: u8) -> Self {
        let mut superblock = Superblock::new_zeroed();
        superblock.magic.set(MAGIC);
        superblock.block_bits = block_bits;
        superblock.time.set(1_600_000_000);
        superblock.nanoseconds.set(7);
        superblock.compatible.set(1);
        superblock.uuid = [0x5a; 16];
        // The superblock has the place of several small blocks.
        let first = 4096usize >> block_bits;
        superblock.inode_block.set(first as u32);
        Self {
            image: vec![0; (first + INODES) << block_bits],
            superblock,
            next: first << block_bits,
        }
    }

    pub fn size(&self) -> usize {
        1 << self.superblock.block_bits
    }

    /// Adds features.
    pub fn add(&mut self, features: Incompatible) {
        let all = self.superblock.incompatible.get() | features.bits();
        self.superblock.incompatible.set(all);
    }

    /// Writes data into blocks of its own; returns the first.
    pub fn blocks(&mut self, data: &[u8]) -> u32 {
        let first = self.image.len() / self.size();
        self.image.extend_from_slice(data);
        let whole = self.image.len().next_multiple_of(self.size());
        self.image.resize(whole, 0);
        first as u32
    }

    /// Writes an inode; returns its number.
    pub fn inode(&mut self, new: New) -> u64 {
        let base = (self.superblock.inode_block.get() as usize) * self.size();
        let form = if new.extended.is_some() { 64 } else { 32 };
        let before = form + new.attributes.len();
        let align = if new.layout == CHUNKS { 8 } else { 1 };
        let mut at = self.next;
        // An inline tail is all in one block.
        let tail = |at: usize| (at + before).next_multiple_of(align);
        if new.layout == INLINE && tail(at) % self.size() + new.tail.len() > self.size() {
            at = at.next_multiple_of(self.size());
            while tail(at) % self.size() + new.tail.len() > self.size() {
                at += 32;
            }
        }
        let end = tail(at) + new.tail.len();
        assert!(end <= base + INODES * self.size(), "no room for inodes");
        self.image[at..at + form].copy_from_slice(&raw(&new));
        self.image[at + form..at + before].copy_from_slice(new.attributes);
        self.image[tail(at)..end].copy_from_slice(new.tail);
        self.next = end.next_multiple_of(32);
        ((at - base) / 32) as u64
    }

    /// Writes a file whose blocks follow each other.
    pub fn file(&mut self, data: &[u8]) -> u64 {
        let content = self.blocks(data);
        self.inode(New {
            mode: REGULAR,
            size: data.len() as u64,
            content,
            links: 1,
            ..New::default()
        })
    }

    /// Writes a directory of entries that are sorted, in blocks of its own.
    pub fn directory(&mut self, entries: &[(&[u8], u64, u8)]) -> u64 {
        let data = directory(entries, self.size());
        let content = self.blocks(&data);
        self.inode(New {
            mode: DIRECTORY,
            size: data.len() as u64,
            content,
            links: 2,
            ..New::default()
        })
    }

    /// Ends it, with a root.
    pub fn finish(mut self, root: u64) -> Vec<u8> {
        self.superblock.root.set(root as u16);
        let blocks = self.image.len() / self.size();
        self.superblock.blocks.set(blocks as u32);
        self.superblock.checksum.set(0);
        let at = SUPERBLOCK as usize;
        self.image[at..at + 128].copy_from_slice(self.superblock.as_bytes());
        let length = match self.size() > at {
            true => self.size() - at,
            false => self.size(),
        };
        let crc = Crc::<u32>::new(&CRC_32_ISCSI);
        let sum = !crc.checksum(&self.image[at..at + length]);
        self.image[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
        self.image
    }
}

fn raw(new: &New) -> Vec<u8> {
    let format = new.layout << 1;
    match new.extended {
        Some((time, nanoseconds)) => {
            let mut raw = ExtendedInode::new_zeroed();
            raw.format.set(format | 1);
            raw.attribute_count.set(new.attribute_count);
            raw.mode.set(new.mode);
            raw.size.set(new.size);
            raw.content.set(new.content);
            raw.uid.set(new.owner.0);
            raw.gid.set(new.owner.1);
            raw.time.set(time);
            raw.nanoseconds.set(nanoseconds);
            raw.links.set(new.links);
            raw.as_bytes().to_vec()
        }
        None => {
            let mut raw = CompactInode::new_zeroed();
            raw.format.set(format);
            raw.attribute_count.set(new.attribute_count);
            raw.mode.set(new.mode);
            raw.links.set(new.links as u16);
            raw.size.set(new.size as u32);
            raw.content.set(new.content);
            raw.uid.set(new.owner.0 as u16);
            raw.gid.set(new.owner.1 as u16);
            raw.as_bytes().to_vec()
        }
    }
}

/// The blocks of a directory, of which the last is no longer than it must be.
pub fn directory(entries: &[(&[u8], u64, u8)], size: usize) -> Vec<u8> {
    let mut data = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let mut count = 0;
        let mut taken = 0;
        while count < rest.len() && taken + 12 + rest[count].0.len() <= size {
            taken += 12 + rest[count].0.len();
            count += 1;
        }
        let (now, later) = rest.split_at(count);
        let start = data.len();
        let mut name = count * 12;
        for (bytes, inode, kind) in now {
            let mut entry = Dirent::new_zeroed();
            entry.inode.set(*inode);
            entry.name.set(name as u16);
            entry.kind = *kind;
            data.extend_from_slice(entry.as_bytes());
            name += bytes.len();
        }
        now.iter()
            .for_each(|(bytes, ..)| data.extend_from_slice(bytes));
        if !later.is_empty() {
            data.resize(start + size, 0);
        }
        rest = later;
    }
    data
}

/// An entry of attributes.
pub fn attribute(family: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![name.len() as u8, family];
    bytes.extend_from_slice(&(value.len() as u16).to_le_bytes());
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// What follows an inode: a header, the places of shared attributes, and its own.
pub fn attributes(shared: &[u32], own: &[Vec<u8>]) -> (Vec<u8>, u16) {
    let mut bytes = vec![0; 12];
    bytes[4] = shared.len() as u8;
    for place in shared {
        bytes.extend_from_slice(&place.to_le_bytes());
    }
    own.iter().for_each(|own| bytes.extend_from_slice(own));
    let count = (bytes.len() - 12) / 4 + 1;
    (bytes, count as u16)
}
