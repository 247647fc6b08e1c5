//! Changes extended attributes: in the inode while they fit, the rest in a block.

use alloc::vec::Vec;

use crate::attribute::{BLOCK_HEADER, ENTRY, INODE_HEADER, MAGIC, parse, seal, split_name};
use crate::bytes::{copy, push, put, put16, put32, u32_at, zeroes};
use crate::inode::{Inode, Stamp};
use crate::superblock::{has_attributes, set_attributes};
use crate::{Device, Error, Fs, Result};

/// The offset of the number of inodes that share an attribute block.
const SHARERS: usize = 4;

struct Owned {
    index: u8,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Owned {
    /// The size of the attribute with its value.
    fn size(&self) -> usize {
        (ENTRY + self.name.len()).next_multiple_of(4) + self.value.len().next_multiple_of(4)
    }

    /// The hash of name and value, as in Linux's `ext4_xattr_hash_entry`.
    fn hash(&self) -> u32 {
        let named = self
            .name
            .iter()
            .fold(0u32, |hash, byte| hash.rotate_left(5) ^ u32::from(*byte));
        self.value.chunks(4).fold(named, |hash, part| {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            hash.rotate_left(16) ^ u32::from_le_bytes(word)
        })
    }
}

/// Stores attributes in `region`: entries from `at` on, values from the end, with offsets from
/// `base`. Returns the hash of all.
fn lay_out(region: &mut [u8], mut at: usize, base: usize, list: &[Owned]) -> u32 {
    let (mut end, mut all) = (region.len(), 0u32);
    for attribute in list {
        let size = attribute.value.len();
        end -= size.next_multiple_of(4);
        put(region, at, &[attribute.name.len() as u8, attribute.index]);
        put16(
            region,
            at + 2,
            if size == 0 { 0 } else { (end - base) as u16 },
        );
        put32(region, at + 8, size as u32);
        put32(region, at + 12, attribute.hash());
        put(region, at + ENTRY, &attribute.name);
        put(region, end, &attribute.value);
        all = all.rotate_left(16) ^ attribute.hash();
        at = (at + ENTRY + attribute.name.len()).next_multiple_of(4);
    }
    all
}

impl<D: Device> Fs<D> {
    /// Sets an attribute by its full name, or removes it if `value` is `None`. ACLs are in the
    /// disk's format.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the attribute to remove does not exist; [`Error::NoSpace`] if the
    /// values do not fit in a block; [`Error::Invalid`] for a name that cannot be stored.
    pub fn set_attribute(&mut self, number: u32, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let (index, rest) = split_name(name)?;
        if value.is_some_and(|value| value.len() > self.geometry.block_size) {
            return Err(Error::NoSpace);
        }
        self.transact(|this| {
            let mut inode = this.inode(number)?;
            let mut list = this.owned_attributes(&inode)?;
            let count = list.len();
            list.retain(|other| (other.index, &other.name[..]) != (index, rest));
            match value {
                Some(value) => {
                    let (name, value) = (copy(rest)?, copy(value)?);
                    push(&mut list, Owned { index, name, value })?;
                }
                None if list.len() == count => return Err(Error::NotFound),
                None => {}
            }
            this.store_attributes(&mut inode, list)?;
            if !this.read_superblock(has_attributes)? {
                this.change_superblock(set_attributes)?;
            }
            inode.set_time(Stamp::Change, this.now);
            this.set_inode(&inode)
        })
    }

    fn owned_attributes(&mut self, inode: &Inode) -> Result<Vec<Owned>> {
        let mut list = Vec::new();
        let mut failed = None;
        self.each_attribute(inode, |attribute| {
            let added = copy(attribute.name).and_then(|name| {
                let value = copy(attribute.value)?;
                push(
                    &mut list,
                    Owned {
                        index: attribute.index,
                        name,
                        value,
                    },
                )
            });
            failed = failed.or(added.err());
        })?;
        failed.map_or(Ok(list), Err)
    }

    /// Stores all attributes of an inode, as many as fit inside it. The caller stores the inode.
    fn store_attributes(&mut self, inode: &mut Inode, list: Vec<Owned>) -> Result<()> {
        let region = inode.attribute_region();
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        let mut room = region.clone().map_or(0, |region| region.len());
        room = room.saturating_sub(INODE_HEADER + 4);
        for attribute in list {
            if attribute.size() <= room {
                room -= attribute.size();
                push(&mut inside, attribute)?;
            } else {
                push(&mut outside, attribute)?;
            }
        }
        if let Some(region) = region {
            let region = &mut inode.raw[region];
            region.fill(0);
            if !inside.is_empty() {
                put32(region, 0, MAGIC);
                lay_out(region, INODE_HEADER, INODE_HEADER, &inside);
            }
        }
        if outside.is_empty() {
            return self.drop_attribute_block(inode);
        }
        let content = self.lay_out_block(outside)?;
        self.store_attribute_block(inode, content)
    }

    /// Builds the content of an attribute block.
    fn lay_out_block(&self, mut list: Vec<Owned>) -> Result<Vec<u8>> {
        let size: usize = list.iter().map(Owned::size).sum();
        if BLOCK_HEADER + size + 4 > self.geometry.block_size {
            return Err(Error::NoSpace);
        }
        // Linux searches names in this order.
        heapsort::sort_by(&mut list, |one, other| {
            (one.index, one.name.len(), &one.name).cmp(&(
                other.index,
                other.name.len(),
                &other.name,
            ))
        });
        let mut raw = zeroes(self.geometry.block_size)?;
        put32(&mut raw, 0, MAGIC);
        put32(&mut raw, SHARERS, 1);
        put32(&mut raw, 8, 1);
        let hash = lay_out(&mut raw, BLOCK_HEADER, 0, &list);
        put32(&mut raw, 12, hash);
        Ok(raw)
    }

    /// Stores an attribute block in place of the one that the inode has for itself, so that
    /// attributes can be removed even if the disk is full, or else in a new one.
    fn store_attribute_block(&mut self, inode: &mut Inode, mut raw: Vec<u8>) -> Result<()> {
        let old = inode.attribute_block();
        let own = old != 0 && u32_at(self.attribute_content(old)?, SHARERS) <= 1;
        let block = if own {
            old
        } else {
            self.drop_attribute_block(inode)?;
            let goal = self.inode_goal(inode.number)?;
            let block = self.allocate_metadata(goal)?;
            inode.set_attribute_block(block);
            inode.add_blocks(&self.geometry, 1)?;
            block
        };
        seal(&mut raw, block, &self.geometry);
        self.store.change(block)?.copy_from_slice(&raw);
        Ok(())
    }

    /// Frees an inode's attribute block, or leaves it to the others that share it.
    pub(crate) fn drop_attribute_block(&mut self, inode: &mut Inode) -> Result<()> {
        let block = inode.attribute_block();
        if block == 0 {
            return Ok(());
        }
        let content = self.attribute_content(block)?;
        parse(content, BLOCK_HEADER, 0)?;
        let sharers = u32_at(content, SHARERS);
        if sharers > 1 {
            let geometry = self.geometry;
            let raw = self.store.change(block)?;
            put32(raw, SHARERS, sharers - 1);
            seal(raw, block, &geometry);
        } else {
            self.free_metadata(block)?;
        }
        inode.set_attribute_block(0);
        inode.add_blocks(&self.geometry, -1)
    }
}
