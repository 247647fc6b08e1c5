//! Prefixes of attributes' names that an image defines: a family, and what its names begin with.

use alloc::vec::Vec;

use zerocopy::little_endian::U16;

use crate::format::Incompatible;
use crate::fs::zeroes;
use crate::{Device, Error, Fs, Inode, Result};

/// A prefix (`erofs_xattr_long_prefix`).
pub(crate) struct Prefix {
    /// The family.
    pub family: u8,
    /// What follows the family's own prefix.
    pub infix: Vec<u8>,
}

impl<D: Device> Fs<D> {
    /// Reads all of them, each of which is behind its length and begins at a multiple of four.
    pub(crate) fn read_prefixes(&self) -> Result<Vec<Prefix>> {
        let superblock = &self.geometry.superblock;
        let count = usize::from(superblock.prefixes);
        let mut prefixes = Vec::new();
        prefixes.try_reserve_exact(count)?;
        if count == 0 {
            return Ok(prefixes);
        }
        let packed = self.packed_inode()?;
        if packed.is_some_and(|inode| inode.is_compressed()) {
            return Err(Error::Unsupported("compressed prefixes"));
        }
        let mut at = u64::from(superblock.prefix_start.get()) * 4;
        for _ in 0..count {
            let mut length = [0; 2];
            self.read_around(packed.as_ref(), at, &mut length)?;
            let length = usize::from(U16::from_bytes(length).get());
            if !(1..=256).contains(&length) {
                return Err(Error::Corrupt("length of a prefix"));
            }
            let mut infix = zeroes(length)?;
            self.read_around(packed.as_ref(), at + 2, &mut infix)?;
            let family = infix.remove(0);
            prefixes.push(Prefix { family, infix });
            at = (at + 2 + length as u64).next_multiple_of(4);
        }
        Ok(prefixes)
    }

    /// The inode with parts of others, if there is one.
    fn packed_inode(&self) -> Result<Option<Inode>> {
        let number = self.geometry.superblock.packed.get();
        match self.geometry.incompatible.contains(Incompatible::FRAGMENTS) && number != 0 {
            true => self.inode(number).map(Some),
            false => Ok(None),
        }
    }

    /// Reads from the inode, or from the device where there is none.
    fn read_around(&self, inode: Option<&Inode>, at: u64, into: &mut [u8]) -> Result<()> {
        match inode {
            Some(inode) => self.read(inode, at, into),
            None => self.read_device(at, into),
        }
    }
}
