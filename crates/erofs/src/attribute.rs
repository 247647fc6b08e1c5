//! Extended attributes: those of an inode alone follow it, others are shared.

use alloc::vec::Vec;

use zerocopy::little_endian::U32;

use crate::format::{AttributeEntry, AttributeHeader};
use crate::fs::zeroes;
use crate::{Device, Error, Fs, Inode, Result};

/// The families by their numbers, less one, and what their names begin with. One of Lustre is none
/// of Linux's.
const FAMILIES: [&[u8]; 6] = [
    b"user.",
    b"system.posix_acl_access",
    b"system.posix_acl_default",
    b"trusted.",
    b"",
    b"security.",
];
/// The bit of a family that makes it one of the image's prefixes.
const LONG: u8 = 0x80;

/// An attribute.
struct Attribute {
    entry: AttributeEntry,
    /// Where its name begins; the value follows.
    at: u64,
}

impl Attribute {
    /// Bytes of the entry with its name and value.
    fn size(&self) -> u32 {
        let parts = u32::from(self.entry.name_length) + u32::from(self.entry.value_length.get());
        (size_of::<AttributeEntry>() as u32 + parts).next_multiple_of(4)
    }
}

/// An inode's attributes, one after the other.
struct Walk {
    /// The next one of the inode's own, and how many bytes are left.
    own: u64,
    left: u32,
    /// Where the place of the next shared one is, and how many there are.
    shared: u64,
    count: u8,
}

/// The number of a family, and the rest of a name.
fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    let named = FAMILIES
        .iter()
        .zip(1..)
        .filter(|(family, _)| !family.is_empty());
    let mut found =
        named.filter_map(|(family, number)| Some((number, name.strip_prefix(*family)?)));
    found.find(|(number, rest)| !matches!(number, 2 | 3) || rest.is_empty())
}

impl<D: Device> Fs<D> {
    /// The value of an attribute, by its whole name, such as `user.one`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Corrupt`], [`Error::Unsupported`], [`Error::Io`],
    /// [`Error::NoMemory`].
    pub fn attribute(&self, inode: &Inode, name: &[u8]) -> Result<Vec<u8>> {
        let (family, name) = split(name).ok_or(Error::NotFound)?;
        let mut walk = self.walk(inode)?;
        while let Some(found) = self.next(&mut walk)? {
            if self.is_named(&found, family, name)? {
                let mut value = zeroes(found.entry.value_length.get().into())?;
                let at = found.at + u64::from(found.entry.name_length);
                self.read_device(at, &mut value)?;
                return Ok(value);
            }
        }
        Err(Error::NotFound)
    }

    /// Calls `visit` with the two parts of each attribute's name: its family's, such as `user.`,
    /// and the rest, until it returns false. Those of a family that nobody knows are left out.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Unsupported`], [`Error::Io`], [`Error::NoMemory`].
    pub fn attributes(
        &self,
        inode: &Inode,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut walk = self.walk(inode)?;
        while let Some(found) = self.next(&mut walk)? {
            let Some((family, infix)) = self.family(found.entry.family) else {
                continue;
            };
            let index = usize::from(family).wrapping_sub(1);
            let Some(family) = FAMILIES.get(index).filter(|family| !family.is_empty()) else {
                continue;
            };
            let mut name = zeroes(infix.len() + usize::from(found.entry.name_length))?;
            let (start, rest) = name.split_at_mut(infix.len());
            start.copy_from_slice(infix);
            self.read_device(found.at, rest)?;
            if !visit(family, &name) {
                break;
            }
        }
        Ok(())
    }

    /// The family, and what the image has its names begin with.
    fn family(&self, noted: u8) -> Option<(u8, &[u8])> {
        if noted & LONG == 0 {
            return Some((noted, &[]));
        }
        let prefix = self.prefixes.get(usize::from(noted & !LONG))?;
        Some((prefix.family, &prefix.infix))
    }

    fn is_named(&self, found: &Attribute, family: u8, name: &[u8]) -> Result<bool> {
        let Some((noted, infix)) = self.family(found.entry.family) else {
            return Ok(false);
        };
        let rest = match name.strip_prefix(infix) {
            Some(rest) if noted == family => rest,
            _ => return Ok(false),
        };
        if rest.len() != usize::from(found.entry.name_length) {
            return Ok(false);
        }
        let mut bytes = [0; 255];
        let bytes = &mut bytes[..rest.len()];
        self.read_device(found.at, bytes)?;
        Ok(bytes == rest)
    }

    fn walk(&self, inode: &Inode) -> Result<Walk> {
        const HEADER: u32 = size_of::<AttributeHeader>() as u32;
        let mut walk = Walk {
            own: 0,
            left: 0,
            shared: inode.attributes + u64::from(HEADER),
            count: 0,
        };
        match inode.attributes_size {
            0 => return Ok(walk),
            HEADER => return Err(Error::Unsupported("attributes without room")),
            _ => {}
        }
        let header: AttributeHeader = self.load(inode.attributes)?;
        let before = HEADER + 4 * u32::from(header.shared);
        walk.own = inode.attributes + u64::from(before);
        walk.left = inode.attributes_size.saturating_sub(before);
        walk.count = header.shared;
        Ok(walk)
    }

    fn next(&self, walk: &mut Walk) -> Result<Option<Attribute>> {
        if walk.left > 0 {
            let found = self.attribute_at(walk.own)?;
            let left = walk.left.checked_sub(found.size());
            walk.left = left.ok_or(Error::Corrupt("size of an attribute"))?;
            walk.own += u64::from(found.size());
            return Ok(Some(found));
        }
        if walk.count == 0 {
            return Ok(None);
        }
        let place: U32 = self.load(walk.shared)?;
        walk.shared += 4;
        walk.count -= 1;
        let first = self.geometry.superblock.attribute_block.get();
        let at = self.geometry.byte_of(first) + u64::from(place.get()) * 4;
        self.attribute_at(at).map(Some)
    }

    fn attribute_at(&self, at: u64) -> Result<Attribute> {
        Ok(Attribute {
            entry: self.load(at)?,
            at: at + size_of::<AttributeEntry>() as u64,
        })
    }
}
