//! Block bitmaps: allocates and frees blocks (Documentation/filesystems/ext4/bitmaps.rst).

use crate::bytes::zeroes;
use crate::crc::crc32c;
use crate::group::BLOCK_UNINIT;
use crate::store::Kind;
use crate::superblock;
use crate::{Device, Error, Fs, Result};

/// Whether a bit is set; bits beyond the bitmap are.
pub(crate) fn is_set(bitmap: &[u8], bit: u32) -> bool {
    bitmap
        .get(bit as usize / 8)
        .is_none_or(|byte| byte >> (bit % 8) & 1 == 1)
}

/// Sets or clears a bit.
pub(crate) fn set(bitmap: &mut [u8], bit: u32, value: bool) {
    if let Some(byte) = bitmap.get_mut(bit as usize / 8) {
        let mask = 1 << (bit % 8);
        *byte = if value { *byte | mask } else { *byte & !mask };
    }
}

/// The first bit from `from` on, and before `end`, that is clear in both bitmaps.
pub(crate) fn first_clear(one: &[u8], other: &[u8], mut from: u32, end: u32) -> Option<u32> {
    let word = |bitmap: &[u8], at: usize| {
        let bytes = bitmap.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().map(u64::from_le_bytes)
    };
    while from < end {
        let at = from as usize / 8;
        if from.is_multiple_of(8)
            && let Some(full) = word(one, at)
            && full | word(other, at).unwrap_or(0) == u64::MAX
        {
            from += 64;
            continue;
        }
        let byte = one.get(at)? | other.get(at).copied().unwrap_or(0);
        let free = !byte >> (from % 8);
        if free != 0 {
            return Some(from + free.trailing_zeros()).filter(|found| *found < end);
        }
        from = (from / 8 + 1) * 8;
    }
    None
}

impl<D: Device> Fs<D> {
    /// The block of a group's block bitmap, which is created if necessary, and checked.
    fn block_bitmap(&mut self, group: u32) -> Result<u64> {
        let descriptor = self.descriptor(group)?;
        let (block, geometry) = (descriptor.block_bitmap(), self.geometry);
        if descriptor.has(BLOCK_UNINIT) {
            self.make_block_bitmap(group)?;
            return Ok(block);
        }
        let bytes = geometry.group_blocks as usize / 8;
        self.store.checked(block, Kind::Bitmap, |bitmap| {
            let sum = crc32c(geometry.seed, &bitmap[..bytes]);
            if geometry.checksums() && !descriptor.is_block_sum(sum) {
                return Err(Error::Corrupt("checksum of a block bitmap"));
            }
            Ok(())
        })?;
        Ok(block)
    }

    /// Writes the bitmap of a group that never had one: only its metadata is in use.
    pub(crate) fn make_block_bitmap(&mut self, group: u32) -> Result<()> {
        let geometry = self.geometry;
        let mut descriptor = self.descriptor(group)?;
        let mut bitmap = zeroes(geometry.block_size)?;
        for bit in 0..self.base_blocks(group) {
            set(&mut bitmap, bit, true);
        }
        let table = geometry.table_blocks();
        let areas = [
            (descriptor.block_bitmap(), 1),
            (descriptor.inode_bitmap(), 1),
            (descriptor.inode_table(), table),
        ];
        for (start, count) in areas {
            for block in start..start.saturating_add(count) {
                let (other, bit) = geometry.group_of(block)?;
                if other == group {
                    set(&mut bitmap, bit, true);
                }
            }
        }
        for bit in geometry.blocks_in(group)..geometry.block_size as u32 * 8 {
            set(&mut bitmap, bit, true);
        }
        self.store
            .create(descriptor.block_bitmap())?
            .copy_from_slice(&bitmap);
        descriptor.clear(BLOCK_UNINIT);
        self.seal_block_bitmap(&mut descriptor, &bitmap);
        self.set_descriptor(group, &descriptor)
    }

    fn seal_block_bitmap(&self, descriptor: &mut crate::group::Descriptor, bitmap: &[u8]) {
        if self.geometry.checksums() {
            let bytes = self.geometry.group_blocks as usize / 8;
            descriptor.set_block_sum(crc32c(self.geometry.seed, &bitmap[..bytes]));
        }
    }

    /// Stores the checksums of a group's bitmaps, for those that the transaction has changed.
    pub(crate) fn seal_bitmaps(&mut self, group: u32) -> Result<()> {
        let (mut descriptor, geometry) = (self.descriptor(group)?, self.geometry);
        let (blocks, inodes) = (descriptor.block_bitmap(), descriptor.inode_bitmap());
        if let Some(bitmap) = self.store.running_block(blocks) {
            let bitmap = &bitmap[..geometry.group_blocks as usize / 8];
            descriptor.set_block_sum(crc32c(geometry.seed, bitmap));
        }
        if let Some(bitmap) = self.store.running_block(inodes) {
            let bitmap = &bitmap[..geometry.group_inodes as usize / 8];
            descriptor.set_inode_sum(crc32c(geometry.seed, bitmap));
        }
        self.reseal_descriptor(group, &descriptor);
        Ok(())
    }

    /// The number of blocks at the start of a group for the superblock and group descriptors.
    pub(crate) fn base_blocks(&self, group: u32) -> u32 {
        let geometry = &self.geometry;
        let own = u32::from(geometry.has_superblock(group));
        let index = group / geometry.descriptors_in_block();
        if geometry.in_meta_group(index) {
            let place = group % geometry.descriptors_in_block();
            let last = geometry.descriptors_in_block() - 1;
            return own + u32::from(place <= 1 || place == last);
        }
        if own == 0 {
            return 0;
        }
        let mut blocks = geometry.groups.div_ceil(geometry.descriptors_in_block());
        if geometry.in_meta_group(blocks.saturating_sub(1)) {
            blocks = geometry.first_meta_group;
        }
        own + blocks + geometry.reserved_descriptors
    }

    /// Allocates one to `count` contiguous blocks, near `goal` if possible.
    pub(crate) fn allocate_blocks(&mut self, goal: u64, count: u32) -> Result<(u64, u32)> {
        let geometry = self.geometry;
        let free = self.read_superblock(|raw| superblock::free_blocks(raw, &geometry))?;
        let count = match free.saturating_sub(self.kept_back()) {
            0 => return Err(Error::NoSpace),
            spare => u64::from(count).min(spare) as u32,
        };
        let (first, from) = self.geometry.group_of(goal).unwrap_or((0, 0));
        // The group of the goal is searched twice, the second time from its beginning.
        for turn in 0..=self.geometry.groups {
            self.store.device.pause();
            let group = (first + turn) % self.geometry.groups;
            if self.descriptor(group)?.free_blocks() == 0 {
                continue;
            }
            let from = if turn == 0 { from } else { 0 };
            if let Some(found) = self.allocate_in(group, from, count)? {
                return Ok(found);
            }
        }
        Err(Error::NoSpace)
    }

    fn allocate_in(&mut self, group: u32, from: u32, count: u32) -> Result<Option<(u64, u32)>> {
        let block = self.block_bitmap(group)?;
        let end = self.geometry.blocks_in(group);
        let pending = self.pending.get(&group).map_or(&[][..], |bitmap| bitmap);
        let bitmap = self.store.get(block)?;
        let Some(start) = first_clear(bitmap, pending, from, end) else {
            return Ok(None);
        };
        let mut length = 1;
        while length < count
            && start + length < end
            && first_clear(bitmap, pending, start + length, end) == Some(start + length)
        {
            length += 1;
        }
        let first = self.geometry.group_start(group) + u64::from(start);
        if self.zones.overlap(first, u64::from(length)) {
            return Err(Error::Corrupt("block bitmap"));
        }
        self.change_blocks(group, start, length, true)?;
        Ok(Some((first, length)))
    }

    /// Sets or clears bits of a group's bitmap, all of which must have the other value, and updates
    /// the counts.
    fn change_blocks(&mut self, group: u32, start: u32, count: u32, used: bool) -> Result<()> {
        let block = self.block_bitmap(group)?;
        self.unsealed.add_group(group)?;
        let bitmap = self.store.change_as(block, Kind::Bitmap, None)?;
        for bit in start..start + count {
            if is_set(bitmap, bit) == used {
                return Err(Error::Corrupt("block is free already"));
            }
            set(bitmap, bit, used);
        }
        let mut descriptor = self.descriptor(group)?;
        let change = if used {
            -i64::from(count)
        } else {
            i64::from(count)
        };
        let bad = Error::Corrupt("count of free blocks");
        let free = i64::from(descriptor.free_blocks()) + change;
        descriptor.set_free_blocks(u32::try_from(free).map_err(|_| bad)?);
        self.set_descriptor(group, &descriptor)?;
        let geometry = self.geometry;
        self.change_superblock(|raw| {
            let free = superblock::free_blocks(raw, &geometry);
            let free = free.checked_add_signed(change).ok_or(bad)?;
            superblock::set_free_blocks(raw, &geometry, free);
            Ok(())
        })?
    }

    /// Frees blocks. They can be allocated again after the next commit.
    pub(crate) fn free_blocks(&mut self, mut start: u64, mut count: u32) -> Result<()> {
        while count > 0 {
            let (group, bit) = self.geometry.group_of(start)?;
            let part = count.min(self.geometry.blocks_in(group) - bit);
            if !self.pending.contains_key(&group) {
                self.pending.try_reserve(1)?;
                self.pending
                    .insert(group, zeroes(self.geometry.block_size)?);
            }
            self.change_blocks(group, bit, part, false)?;
            if let Some(pending) = self.pending.get_mut(&group) {
                for bit in bit..bit + part {
                    set(pending, bit, true);
                }
            }
            start += u64::from(part);
            count -= part;
        }
        Ok(())
    }

    /// Allocates a zeroed block for metadata.
    pub(crate) fn allocate_metadata(&mut self, goal: u64) -> Result<u64> {
        let (block, _) = self.allocate_blocks(goal, 1)?;
        self.store.create(block)?;
        Ok(block)
    }

    /// Frees a block of metadata.
    pub(crate) fn free_metadata(&mut self, block: u64) -> Result<()> {
        self.free_blocks(block, 1)?;
        self.store.forget(block)
    }
}

#[cfg(test)]
mod tests {
    use super::{first_clear, is_set, set};

    #[test]
    fn the_first_clear_bit_is_that_of_a_search_bit_by_bit() {
        const END: u32 = 300;
        let mut one = [0xff; 38];
        let mut other = [0; 38];
        for bit in [0, 7, 63, 64, 65, 128, 191, 200, 255, 256, 299] {
            set(&mut one, bit, false);
            set(&mut other, bit, bit % 3 == 0);
            for from in 0..=END {
                let plain = |second: &[u8]| {
                    let free = |bit: &u32| {
                        !is_set(&one, *bit) && (second.is_empty() || !is_set(second, *bit))
                    };
                    (from..END).find(free)
                };
                for second in [&[][..], &other] {
                    let found = first_clear(&one, second, from, END);
                    assert_eq!(found, plain(second), "{bit} {from}");
                }
            }
        }
    }
}
