//! An image that has something of each kind.

use erofs::format::Incompatible;

use super::lz4::{padded, run};
use super::writer::{
    CHUNKS, DIRECTORY, INLINE, LINK, New, REGULAR, Writer, attribute, attributes, directory,
};

/// The image, whose blocks have so many bytes, as a shift. There is no checksum, so that what is
/// changed is read.
pub fn sample(block_bits: u8) -> Vec<u8> {
    let mut writer = Writer::new(block_bits);
    writer.add(Incompatible::CHUNKED_FILE | Incompatible::XATTR_PREFIXES);
    writer.add(Incompatible::ZERO_PADDING);
    writer.superblock.compatible.set(0);
    let prefix = writer.blocks(b"\x06\0\x01infix");
    writer.superblock.prefixes = 1;
    let words = (prefix as usize * writer.size() / 4) as u32;
    writer.superblock.prefix_start.set(words);
    let shared = writer.blocks(&attribute(6, b"shared", b"value"));
    writer.superblock.attribute_block.set(shared);
    let own = [attribute(1, b"x", b"1"), attribute(0x80, b"y", b"22")];
    let (body, count) = attributes(&[0], &own);
    let plain = writer.file(&[b'p'; 3000]);
    let chunk = writer.blocks(&[b'c'; 1000]);
    let tail = [chunk, u32::MAX, chunk + 1].map(u32::to_le_bytes).concat();
    let chunks = writer.inode(New {
        mode: REGULAR,
        layout: CHUNKS,
        size: 2 * writer.size() as u64 + 9,
        tail: &tail,
        links: 1,
        ..New::default()
    });
    let inline = writer.inode(New {
        mode: REGULAR,
        layout: INLINE,
        size: 100,
        attributes: &body,
        attribute_count: count,
        tail: &[b'i'; 100],
        extended: Some((1, 2)),
        links: 1,
        ..New::default()
    });
    let size = writer.size();
    let packed = writer.blocks(&padded(&run(b'z', 3 * size), size));
    // A header, and the indexes of one cluster.
    let mut tail = vec![0; 16];
    for (kind, place) in [(1, packed), (2, 1 | 2 << 16), (2, 2 | 1 << 16)] {
        tail.extend_from_slice(&[kind, 0, 0, 0]);
        tail.extend_from_slice(&u32::to_le_bytes(place));
    }
    let compressed = writer.inode(New {
        mode: REGULAR,
        layout: 1,
        size: 3 * size as u64,
        content: 1,
        tail: &tail,
        links: 1,
        ..New::default()
    });
    let link = writer.inode(New {
        mode: LINK,
        layout: INLINE,
        size: 6,
        tail: b"inline",
        links: 1,
        ..New::default()
    });
    let names: Vec<_> = (100..300).map(|number| format!("name {number}")).collect();
    let entries: Vec<_> = names
        .iter()
        .map(|name| (name.as_bytes(), plain, 1))
        .collect();
    let many = writer.directory(&entries);
    let small = directory(&[(b"again", link, 7), (b"other", plain, 1)], 512);
    let folder = writer.inode(New {
        mode: DIRECTORY,
        layout: INLINE,
        size: small.len() as u64,
        tail: &small,
        links: 2,
        ..New::default()
    });
    let root = writer.directory(&[
        (b"chunks", chunks, 1),
        (b"compressed", compressed, 1),
        (b"folder", folder, 2),
        (b"inline", inline, 1),
        (b"link", link, 7),
        (b"many", many, 2),
        (b"plain", plain, 1),
    ]);
    writer.finish(root)
}
