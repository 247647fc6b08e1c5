//! A guest's memory: one private mapping.

use std::ptr::NonNull;

use anyhow::{Context, Result};

use crate::layout::RAM;

/// Memory of a guest, mapped as long as the process lives.
pub struct Memory {
    base: NonNull<u8>,
    len: u64,
}

impl Memory {
    /// Maps `len` bytes of zeroes.
    pub fn new(len: u64) -> Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel likes overlaps nothing.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), len as usize, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("mapping the guest's memory");
        }
        let base = NonNull::new(base.cast()).context("the guest's memory was mapped at 0")?;
        Ok(Self { base, len })
    }

    /// Where it is in this process.
    pub fn host_address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Copies `bytes` to the guest's address `to`, before the guest runs.
    pub fn load(&mut self, to: u64, bytes: &[u8]) -> Result<()> {
        let offset = to.checked_sub(RAM).context("below the guest's memory")?;
        let fits = offset
            .checked_add(bytes.len() as u64)
            .is_some_and(|end| end <= self.len);
        if !fits {
            anyhow::bail!(
                "{} bytes at {to:#x} do not fit into the guest's memory",
                bytes.len()
            );
        }
        // SAFETY: the range was just found to lie in the mapping, which nothing else uses while it is borrowed.
        unsafe {
            let place = self.base.as_ptr().add(offset as usize);
            place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Ok(())
    }
}
