//! The PC's partition table: four primary partitions, one of which may hold a chain of logical
//! ones.

use alloc::vec::Vec;

use gpt_disk_types::{MasterBootRecord, MbrPartitionRecord};

use crate::{Disk, MOST, Partition, Read, SECTOR};

/// The signature of a table.
const SIGNATURE: [u8; 2] = [0x55, 0xaa];
/// Types of partitions: unused, the protective one of a GPT, containers of logical ones.
const UNUSED: u8 = 0;
const PROTECTIVE: u8 = 0xee;
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// The number of the first logical partition.
const FIRST_LOGICAL: u32 = 5;

/// The table in a sector, if there is one.
pub fn read<E>(read: &mut impl Read<E>, sector: u64) -> Result<Option<MasterBootRecord>, E> {
    let mut bytes = [0; SECTOR];
    read(sector, &mut bytes)?;
    let record: MasterBootRecord = bytemuck::pod_read_unaligned(&bytes);
    let plausible = record
        .partitions
        .iter()
        .all(|entry| entry.boot_indicator & 0x7f == 0);
    Ok((record.signature == SIGNATURE && plausible).then_some(record))
}

/// Whether it protects a GPT.
pub fn is_protective(record: &MasterBootRecord) -> bool {
    record
        .partitions
        .iter()
        .any(|entry| entry.os_indicator == PROTECTIVE)
}

fn start(entry: &MbrPartitionRecord) -> u64 {
    entry.starting_lba.to_u32().into()
}

fn len(entry: &MbrPartitionRecord) -> u64 {
    entry.size_in_lba.to_u32().into()
}

fn is_extended(entry: &MbrPartitionRecord) -> bool {
    EXTENDED.contains(&entry.os_indicator)
}

/// The partitions of the table in the first sector.
pub fn partitions<E>(
    disk: &Disk,
    record: &MasterBootRecord,
    read: &mut impl Read<E>,
) -> Result<Vec<Partition>, E> {
    let mut found = Vec::new();
    for (number, entry) in (1..).zip(&record.partitions) {
        let wanted = ![UNUSED, PROTECTIVE].contains(&entry.os_indicator);
        let partition = disk.partition(number, start(entry), len(entry));
        if let Some(mut partition) = partition.filter(|_| wanted) {
            if is_extended(entry) {
                logical(disk, start(entry), read, &mut found)?;
                // As on Linux, the container's length is limited to that of a boot loader.
                partition.len = partition.len.min(2.max(disk.scale));
            }
            found.push(partition);
        }
    }
    heapsort::sort_by_key(&mut found, |partition| partition.number);
    Ok(found)
}

/// Adds the logical partitions of a container: a chain of tables, each with one partition and the
/// address of the next table. A chain that is longer than the maximum number of partitions is cut.
fn logical<E>(
    disk: &Disk,
    container: u64,
    reader: &mut impl Read<E>,
    found: &mut Vec<Partition>,
) -> Result<(), E> {
    let (mut place, mut number) = (container, FIRST_LOGICAL);
    for _ in 0..MOST {
        let sector = place
            .checked_mul(disk.scale)
            .filter(|&sector| sector < disk.sectors);
        let Some(sector) = sector else {
            break;
        };
        let Some(record) = read(reader, sector)? else {
            break;
        };
        let used = |entry: &&MbrPartitionRecord| {
            entry.os_indicator != UNUSED && !is_extended(entry) && len(entry) > 0
        };
        for entry in record.partitions.iter().filter(used) {
            if let Some(partition) = disk.partition(number, place + start(entry), len(entry)) {
                found.push(partition);
                number += 1;
            }
        }
        let next = record
            .partitions
            .iter()
            .find(|entry| is_extended(entry) && len(entry) > 0);
        match next {
            Some(next) => place = container + start(next),
            None => break,
        }
    }
    Ok(())
}
