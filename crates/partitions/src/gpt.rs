//! GPT: a header at the start of the disk and another at its end, each with its array of entries.

use alloc::vec::Vec;
use core::mem::size_of;

use bytemuck::{bytes_of, pod_read_unaligned};
use gpt_disk_types::{Crc32, GptHeader, GptPartitionEntry};

use crate::{Disk, MOST, Partition, Read, SECTOR};

/// The maximum size of an array in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The partitions, according to the first of the two headers that is valid.
pub fn read<E>(disk: &Disk, read: &mut impl Read<E>) -> Result<Option<Vec<Partition>>, E> {
    let last = disk.sectors / disk.scale - 1;
    for block in [1, last] {
        if let Some(found) = read_at(disk, block, read)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn read_at<E>(
    disk: &Disk,
    block: u64,
    read: &mut impl Read<E>,
) -> Result<Option<Vec<Partition>>, E> {
    let mut bytes = [0; SECTOR];
    read(block * disk.scale, &mut bytes)?;
    let header: GptHeader = pod_read_unaligned(&bytes[..size_of::<GptHeader>()]);
    if !is_whole(&header, block) {
        return Ok(None);
    }
    let (count, size) = (
        header.number_of_partition_entries.to_u32(),
        header.size_of_partition_entry.to_u32() as usize,
    );
    let len = u64::from(count) * size as u64;
    let place = header.partition_entry_lba.to_u64().checked_mul(disk.scale);
    let end = place.and_then(|place| place.checked_add(len.div_ceil(SECTOR as u64)));
    let (Some(place), Some(..)) = (place, end.filter(|&end| end <= disk.sectors)) else {
        return Ok(None);
    };
    if size < size_of::<GptPartitionEntry>() || len > MOST_BYTES || len == 0 {
        return Ok(None);
    }
    let mut array = Vec::new();
    let whole = (len as usize).next_multiple_of(SECTOR);
    if array.try_reserve_exact(whole).is_err() {
        return Ok(None);
    }
    array.resize(whole, 0);
    read(place, &mut array)?;
    array.truncate(len as usize);
    if crc(&array) != header.partition_entry_array_crc32.0.to_u32() {
        return Ok(None);
    }
    let entries = array.chunks_exact(size).take(MOST as usize);
    let found = (1..).zip(entries).filter_map(|(number, bytes)| {
        let entry: GptPartitionEntry = pod_read_unaligned(&bytes[..size_of::<GptPartitionEntry>()]);
        let (first, last) = (entry.starting_lba.to_u64(), entry.ending_lba.to_u64());
        let used = entry.is_used() && first <= last;
        let len = last.checked_sub(first)?.checked_add(1)?;
        disk.partition(number, first, len).filter(|_| used)
    });
    Ok(Some(found.collect()))
}

/// Whether a header is valid: it has the signature, belongs at this block, and its checksum
/// matches.
fn is_whole(header: &GptHeader, block: u64) -> bool {
    header.is_signature_valid()
        && header.my_lba.to_u64() == block
        && header.header_size.to_u32() as usize == size_of::<GptHeader>()
        && checksum(header) == header.header_crc32.0.to_u32()
}

/// The checksum of a header, which counts as zero in itself.
fn checksum(header: &GptHeader) -> u32 {
    crc(bytes_of(&GptHeader {
        header_crc32: Crc32::default(),
        ..*header
    }))
}

fn crc(bytes: &[u8]) -> u32 {
    // Its table of a kilobyte would be on the stack.
    static CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&Crc32::ALGORITHM);
    CRC.checksum(bytes)
}
