//! Reads extended attributes, and content in inodes, which is stored as an attribute
//! (Documentation/filesystems/ext4/attributes.rst).

use alloc::vec::Vec;

use crate::bytes::{copy, put32, u8_at, u16_at, u32_at};
use crate::crc::crc32c;
use crate::inode::{INLINE_DATA, Inode, MAP_SIZE};
use crate::store::Kind;
use crate::superblock::Geometry;
use crate::{Device, Error, Fs, Result};

pub(crate) const MAGIC: u32 = 0xea02_0000;
/// The size of an entry before its name in bytes.
pub(crate) const ENTRY: usize = 16;
/// The size of the header in a block in bytes.
pub(crate) const BLOCK_HEADER: usize = 32;
/// The size of the header in an inode in bytes.
pub(crate) const INODE_HEADER: usize = 4;
const CHECKSUM: usize = 0x10;
/// The index of `system.`, and the rest of the name of the attribute that continues the content of
/// an inode.
const SYSTEM: u8 = 7;
const DATA: &[u8] = b"data";

/// Prefixes of names that are stored as numbers. The names of ACLs consist of the prefix only;
/// their values are in the disk's format.
const PREFIXES: [(u8, &[u8]); 5] = [
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (1, b"user."),
    (4, b"trusted."),
    (6, b"security."),
];

/// The stored form of a name: the number of its prefix, and the rest.
pub(crate) fn split_name(name: &[u8]) -> Result<(u8, &[u8])> {
    PREFIXES
        .iter()
        .find_map(|(index, prefix)| {
            let rest = name.strip_prefix(*prefix)?;
            (rest.is_empty() == matches!(index, 2 | 3)).then_some((*index, rest))
        })
        .filter(|(_, rest)| rest.len() <= 255)
        .ok_or(Error::Invalid)
}

/// A stored attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    pub index: u8,
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// The attributes in `region`, whose entries begin at `at`, and whose value offsets count from
/// `base`. All values together are no longer than the region, so neither are copies of them.
pub(crate) fn parse(region: &[u8], mut at: usize, base: usize) -> Result<Vec<Attribute<'_>>> {
    let bad = Error::Corrupt("extended attribute");
    let (mut found, mut room) = (Vec::new(), region.len());
    while u32_at(region, at) != 0 {
        let name_length = usize::from(u8_at(region, at));
        let name = region
            .get(at + ENTRY..at + ENTRY + name_length)
            .ok_or(bad)?;
        let size = u32_at(region, at + 8) as usize;
        if u32_at(region, at + 4) != 0 {
            return Err(Error::Unsupported("ea_inode"));
        }
        room = room.checked_sub(size).ok_or(bad)?;
        let value = if size == 0 {
            &[]
        } else {
            let start = base + usize::from(u16_at(region, at + 2));
            let end = start.checked_add(size).ok_or(bad)?;
            region.get(start..end).ok_or(bad)?
        };
        crate::bytes::push(
            &mut found,
            Attribute {
                index: u8_at(region, at + 1),
                name,
                value,
            },
        )?;
        at = (at + ENTRY + name_length).next_multiple_of(4);
    }
    if at + 4 > region.len() {
        return Err(bad);
    }
    Ok(found)
}

/// The attributes inside an inode.
pub(crate) fn in_inode(inode: &Inode) -> Result<Vec<Attribute<'_>>> {
    match inode.attribute_region() {
        Some(place) if u32_at(&inode.raw[place.clone()], 0) == MAGIC => {
            parse(&inode.raw[place], INODE_HEADER, INODE_HEADER)
        }
        _ => Ok(Vec::new()),
    }
}

/// The checksum of a block of attributes.
fn checksum(block: &[u8], number: u64, geometry: &Geometry) -> u32 {
    let sum = crc32c(geometry.seed, &number.to_le_bytes());
    let sum = crc32c(crc32c(sum, &block[..CHECKSUM]), &[0; 4]);
    crc32c(sum, &block[CHECKSUM + 4..])
}

/// Stores the checksum of a block of attributes.
pub(crate) fn seal(block: &mut [u8], number: u64, geometry: &Geometry) {
    if geometry.checksums() {
        let sum = checksum(block, number, geometry);
        put32(block, CHECKSUM, sum);
    }
}

fn check(block: &[u8], number: u64, geometry: &Geometry) -> Result<()> {
    if u32_at(block, 0) != MAGIC || u32_at(block, 8) != 1 {
        return Err(Error::Corrupt("block of attributes"));
    }
    if geometry.checksums() && u32_at(block, CHECKSUM) != checksum(block, number, geometry) {
        return Err(Error::Corrupt("checksum of a block of attributes"));
    }
    Ok(())
}

impl<D: Device> Fs<D> {
    /// The content of an inode's attribute block.
    pub(crate) fn attribute_content(&mut self, number: u64) -> Result<&[u8]> {
        let geometry = &self.geometry;
        if number <= geometry.first_block || self.zones.overlap(number, 1) {
            return Err(Error::Corrupt("block of attributes"));
        }
        self.store.checked(number, Kind::Attributes, |block| {
            check(block, number, geometry)
        })
    }

    /// The value of an attribute by its full name, such as `user.mime_type`. ACLs are in the disk's
    /// format, which differs from that of getxattr(2).
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`] for a name that cannot be stored.
    pub fn attribute(&mut self, inode: &Inode, name: &[u8]) -> Result<Vec<u8>> {
        let (index, name) = split_name(name)?;
        let mut value = Err(Error::NotFound);
        self.each_attribute(inode, |attribute| {
            if attribute.index == index && attribute.name == name {
                value = copy(attribute.value);
            }
        })?;
        value
    }

    /// Calls `tell` with the full name of each attribute, in two parts.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn attributes(&mut self, inode: &Inode, mut tell: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.each_attribute(inode, |attribute| {
            let prefix = PREFIXES.iter().find(|(index, _)| *index == attribute.index);
            if let Some((_, prefix)) = prefix {
                tell(prefix, attribute.name);
            }
        })
    }

    pub(crate) fn each_attribute(
        &mut self,
        inode: &Inode,
        mut visit: impl FnMut(&Attribute<'_>),
    ) -> Result<()> {
        in_inode(inode)?.iter().for_each(&mut visit);
        let block = inode.attribute_block();
        if block != 0 {
            let content = self.attribute_content(block)?;
            parse(content, BLOCK_HEADER, 0)?.iter().for_each(&mut visit);
        }
        Ok(())
    }

    /// The content of a file, directory or link that is stored in its inode.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not.
    pub fn read_inline(&mut self, inode: &Inode) -> Result<Vec<u8>> {
        if !inode.has(INLINE_DATA) {
            return Err(Error::Invalid);
        }
        let mut content = copy(inode.map())?;
        for attribute in in_inode(inode)? {
            if (attribute.index, attribute.name) == (SYSTEM, DATA) {
                content.try_reserve(attribute.value.len())?;
                content.extend_from_slice(attribute.value);
            }
        }
        let size = usize::try_from(inode.size()).unwrap_or(usize::MAX);
        if size > content.len() {
            return Err(Error::Corrupt("size of inline data"));
        }
        content.truncate(size.max(if inode.is_directory() { MAP_SIZE } else { 0 }));
        Ok(content)
    }
}
