//! Accesses numbers in blocks. An offset outside the block reads as zero, and a write there is
//! ignored, so that no image can cause a panic; callers validate the values.

use alloc::vec::Vec;

use crate::Result;

fn array<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    block
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .unwrap_or([0; N])
}

/// The byte at `at`.
pub fn u8_at(block: &[u8], at: usize) -> u8 {
    block.get(at).copied().unwrap_or(0)
}

/// The little-endian number at `at`.
pub fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(block, at))
}

/// The little-endian number at `at`.
pub fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(block, at))
}

/// The big-endian number at `at`, as in the journal.
pub fn be32_at(block: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(block, at))
}

/// The big-endian number at `at`, as in the journal.
pub fn be16_at(block: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(block, at))
}

/// The number with its halves at `low` and `high`.
pub fn split_at(block: &[u8], low: usize, high: usize) -> u64 {
    u64::from(u32_at(block, low)) | u64::from(u32_at(block, high)) << 32
}

/// Stores bytes at `at`.
pub fn put(block: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = block.get_mut(at..at.saturating_add(bytes.len())) {
        place.copy_from_slice(bytes);
    }
}

/// Stores a little-endian number at `at`.
pub fn put16(block: &mut [u8], at: usize, value: u16) {
    put(block, at, &value.to_le_bytes());
}

/// Stores a little-endian number at `at`.
pub fn put32(block: &mut [u8], at: usize, value: u32) {
    put(block, at, &value.to_le_bytes());
}

/// Stores a big-endian number at `at`, as in the journal.
pub fn put_be32(block: &mut [u8], at: usize, value: u32) {
    put(block, at, &value.to_be_bytes());
}

/// A vector of `size` zeroes.
pub fn zeroes(size: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size)?;
    bytes.resize(size, 0);
    Ok(bytes)
}

/// A copy of `bytes`.
pub fn copy(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Appends an item.
pub fn push<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    list.try_reserve(1)?;
    list.push(item);
    Ok(())
}
