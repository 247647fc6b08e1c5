//! Partition tables from real disks, and damaged ones.

use gpt_disk_types::{
    Crc32, GptHeader, GptPartitionEntry, GptPartitionType, LbaLe, MasterBootRecord, U32Le, guid,
};
use partitions::{Partition, SECTOR, read};
use proptest::prelude::*;

const SECTORS: u64 = 4096;

fn found(disk: &[u8], block: usize) -> Vec<Partition> {
    let read_at = |sector: u64, into: &mut [u8]| {
        let start = usize::try_from(sector).unwrap() * SECTOR;
        let bytes = disk.get(start..start + into.len()).ok_or(())?;
        into.copy_from_slice(bytes);
        Ok::<(), ()>(())
    };
    read((disk.len() / SECTOR) as u64, block, read_at).unwrap()
}

fn partition(number: u32, start: u64, len: u64) -> Partition {
    Partition { number, start, len }
}

fn put<T: bytemuck::Pod>(disk: &mut [u8], at: u64, value: &T) {
    let bytes = bytemuck::bytes_of(value);
    let at = at as usize;
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A disk with a protective table, and a GPT of blocks of `block` bytes with two partitions.
fn gpt(block: u64) -> Vec<u8> {
    let mut disk = vec![0; (SECTORS as usize) * SECTOR];
    let blocks = disk.len() as u64 / block;
    put(&mut disk, 0, &MasterBootRecord::protective_mbr(blocks));
    let mut array = vec![0u8; 128 * 128];
    for (at, first, last) in [(0, 64, 127), (3, 128, blocks - 64)] {
        let entry = GptPartitionEntry {
            partition_type_guid: GptPartitionType(guid!("0fc63daf-8483-4772-8e79-3d69d8477de4")),
            starting_lba: LbaLe::from_u64(first),
            ending_lba: LbaLe::from_u64(last),
            ..Default::default()
        };
        put(&mut array, at * 128, &entry);
    }
    let crc = crc::Crc::<u32>::new(&Crc32::ALGORITHM).checksum(&array);
    let last = blocks - 1;
    for (own, other, place) in [(1, last, 2), (last, 1, last - 16_384u64.div_ceil(block))] {
        let mut header = GptHeader {
            my_lba: LbaLe::from_u64(own),
            alternate_lba: LbaLe::from_u64(other),
            partition_entry_lba: LbaLe::from_u64(place),
            number_of_partition_entries: U32Le(128u32.to_le_bytes()),
            size_of_partition_entry: U32Le(128u32.to_le_bytes()),
            partition_entry_array_crc32: Crc32(U32Le(crc.to_le_bytes())),
            ..Default::default()
        };
        header.update_header_crc32();
        put(&mut disk, own * block, &header);
        let at = (place * block) as usize;
        disk[at..at + array.len()].copy_from_slice(&array);
    }
    disk
}

#[test]
fn a_gpt_of_either_size_of_block() {
    assert_eq!(
        found(&gpt(512), 512),
        [partition(1, 64, 64), partition(4, 128, SECTORS - 64 - 127)]
    );
    let len = (SECTORS / 8 - 64 - 127) * 8;
    assert_eq!(
        found(&gpt(4096), 4096),
        [partition(1, 512, 512), partition(4, 1024, len)]
    );
}

#[test]
fn the_second_table_where_the_first_is_damaged() {
    let whole = found(&gpt(512), 512);
    for damaged in [512 + 40, 2 * 512 + 33] {
        let mut disk = gpt(512);
        disk[damaged] ^= 1;
        assert_eq!(found(&disk, 512), whole);
        let last = disk.len() - 512;
        disk[last + 24] ^= 1;
        assert_eq!(found(&disk, 512), []);
    }
}

/// A table of the PC with these entries: kind, first sector, length.
fn table(disk: &mut [u8], sector: u64, entries: &[(usize, u8, u32, u32)]) {
    let at = sector as usize * SECTOR;
    for &(place, kind, start, len) in entries {
        let entry = at + 446 + 16 * place;
        disk[entry + 4] = kind;
        disk[entry + 8..entry + 12].copy_from_slice(&start.to_le_bytes());
        disk[entry + 12..entry + 16].copy_from_slice(&len.to_le_bytes());
    }
    disk[at + 510..at + 512].copy_from_slice(&[0x55, 0xaa]);
}

#[test]
fn primary_and_logical_partitions() {
    let mut disk = vec![0; SECTORS as usize * SECTOR];
    table(
        &mut disk,
        0,
        &[
            (0, 0x83, 8, 100),
            (1, 0x05, 1000, 2000),
            (3, 0x82, 3000, 96),
        ],
    );
    table(&mut disk, 1000, &[(0, 0x83, 8, 100), (1, 0x05, 500, 200)]);
    table(&mut disk, 1500, &[(0, 0x83, 8, 192)]);
    let expected = [
        partition(1, 8, 100),
        partition(2, 1000, 2),
        partition(4, 3000, 96),
        partition(5, 1008, 100),
        partition(6, 1508, 192),
    ];
    assert_eq!(found(&disk, 512), expected);
}

#[test]
fn a_chain_in_a_circle_ends() {
    let mut disk = vec![0; SECTORS as usize * SECTOR];
    table(&mut disk, 0, &[(0, 0x05, 1000, 2000)]);
    table(&mut disk, 1000, &[(0, 0x83, 8, 1), (1, 0x05, 0, 200)]);
    assert_eq!(found(&disk, 512).len(), 257);
}

#[test]
fn no_table_is_no_error() {
    assert_eq!(found(&[0; 512], 512), []);
    assert_eq!(found(&[0; 8192], 4096), []);
    assert_eq!(found(&[0xff; 8192], 512), []);
}

proptest! {
    #[test]
    fn damage_leads_to_partitions_on_the_disk_or_none(
        first in any::<bool>(),
        damage in prop::collection::vec((0usize..20_000, any::<u8>()), 0..40),
    ) {
        let mut disk = if first { gpt(512) } else {
            let mut disk = vec![0; SECTORS as usize * SECTOR];
            table(&mut disk, 0, &[(0, 0x0f, 10, 4000), (1, 0x83, 4, 6)]);
            table(&mut disk, 10, &[(0, 0x83, 8, 100), (1, 0x05, 20, 200)]);
            disk
        };
        for (at, byte) in damage {
            disk[at] = byte;
        }
        for partition in found(&disk, 512) {
            prop_assert!(partition.len > 0 && partition.start + partition.len <= SECTORS);
        }
    }
}
