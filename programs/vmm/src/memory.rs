//! A guest's memory: one private mapping, populated on demand.

use anyhow::{Context, Result};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use crate::layout::RAM;

/// A guest's memory. A clone refers to the same memory.
pub type Memory = GuestMemoryMmap<()>;

/// Maps `len` bytes of zeroes.
pub fn new(len: u64) -> Result<Memory> {
    let range = (GuestAddress(RAM), usize::try_from(len)?);
    GuestMemoryMmap::from_ranges(&[range]).context("mapping the guest's memory")
}

/// The address of the memory in this process.
pub fn host_address(memory: &Memory) -> Result<u64> {
    Ok(memory.get_host_address(GuestAddress(RAM))? as u64)
}

/// Copies `bytes` to the guest address `to`, before the guest runs.
pub fn load(memory: &Memory, to: u64, bytes: &[u8]) -> Result<()> {
    let context = || format!("{} bytes at {to:#x} of the guest's memory", bytes.len());
    memory
        .write_slice(bytes, GuestAddress(to))
        .with_context(context)
}
