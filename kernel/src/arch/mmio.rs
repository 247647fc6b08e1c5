//! Device registers.

use crate::errno::Result;
use crate::mm::kmap;

/// The registers of a device, mapped for ever.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    base: usize,
    len: usize,
}

#[allow(dead_code, reason = "each architecture's devices have some of them")]
impl Registers {
    /// Maps `len` bytes at physical address `base`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn map(base: usize, len: usize) -> Result<Self> {
        Ok(Registers {
            base: kmap::map_device(base, len)?,
            len,
        })
    }

    /// Registers that are mapped already.
    ///
    /// # Safety
    /// `base` is where a device's `len` bytes are mapped for as long as the value is used.
    pub(super) const unsafe fn at(base: usize, len: usize) -> Self {
        Registers { base, len }
    }

    /// The address that the first register is mapped at.
    pub fn base(self) -> usize {
        self.base
    }

    fn address<T>(self, offset: usize) -> *mut T {
        assert!(
            offset % size_of::<T>() == 0 && offset + size_of::<T>() <= self.len,
            "a register outside its device"
        );
        (self.base + offset) as *mut T
    }

    /// Reads the byte at `offset`.
    pub fn read_u8(self, offset: usize) -> u8 {
        // SAFETY: inside the device's mapped registers, which are no memory of Rust's.
        unsafe { self.address::<u8>(offset).read_volatile() }
    }

    /// Writes the byte at `offset`.
    pub fn write_u8(self, offset: usize, value: u8) {
        // SAFETY: as in `read_u8`.
        unsafe { self.address::<u8>(offset).write_volatile(value) }
    }

    /// Reads the word at `offset`.
    pub fn read(self, offset: usize) -> u32 {
        // SAFETY: as in `read_u8`.
        unsafe { self.address::<u32>(offset).read_volatile() }
    }

    /// Writes the word at `offset`.
    pub fn write(self, offset: usize, value: u32) {
        // SAFETY: as in `read_u8`.
        unsafe { self.address::<u32>(offset).write_volatile(value) }
    }

    /// Reads the double word at `offset`.
    pub fn read_u64(self, offset: usize) -> u64 {
        // SAFETY: as in `read_u8`.
        unsafe { self.address::<u64>(offset).read_volatile() }
    }

    /// Writes the double word at `offset`.
    pub fn write_u64(self, offset: usize, value: u64) {
        // SAFETY: as in `read_u8`.
        unsafe { self.address::<u64>(offset).write_volatile(value) }
    }
}
