//! Images that are changed by hand: with one group, blocks of 1024 bytes and no checksums, so that
//! a test can set each number.

use super::make;

/// Bytes of a block.
pub const BLOCK: usize = 1024;
const PLAIN: &str = "-b 1024 -J size=1 -I 256 -N 512 -O ^metadata_csum,^uninit_bg,^orphan_file";

/// An image of one group without checksums, with more arguments of mkfs.ext4.
pub fn plain(arguments: &str) -> Option<Vec<u8>> {
    make(7, &format!("{PLAIN},{arguments}"))
}

pub fn u32_at(image: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(image[at..at + 4].try_into().unwrap())
}

pub fn put16(image: &mut [u8], at: usize, value: u16) {
    image[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub fn put32(image: &mut [u8], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub fn put_be32(image: &mut [u8], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// Where the descriptor of the first group is.
pub const DESCRIPTOR: usize = 2 * BLOCK;

/// Where an inode is.
pub fn inode(image: &[u8], number: u32) -> usize {
    u32_at(image, DESCRIPTOR + 8) as usize * BLOCK + (number as usize - 1) * 256
}

/// Where the map of an inode is.
pub fn map(image: &[u8], number: u32) -> usize {
    inode(image, number) + 0x28
}

/// Stores the header of a node of an extent tree.
pub fn put_node(image: &mut [u8], at: usize, entries: u16, room: u16, depth: u16) {
    for (index, value) in [0xf30a, entries, room, depth, 0, 0].into_iter().enumerate() {
        put16(image, at + index * 2, value);
    }
}

/// Stores an extent of a leaf.
pub fn put_extent(
    image: &mut [u8],
    node: usize,
    entry: usize,
    logical: u32,
    length: u16,
    start: u32,
) {
    let at = node + 12 + entry * 12;
    put32(image, at, logical);
    put16(image, at + 4, length);
    put16(image, at + 6, 0);
    put32(image, at + 8, start);
}

/// Stores an entry of an inner node.
pub fn put_index(image: &mut [u8], node: usize, entry: usize, logical: u32, child: u32) {
    let at = node + 12 + entry * 12;
    put32(image, at, logical);
    put32(image, at + 4, child);
    put32(image, at + 8, 0);
}

/// A block near the end, which mkfs.ext4 leaves free.
pub fn free_block(image: &[u8], index: usize) -> u32 {
    (image.len() / BLOCK - 64 + index) as u32
}
