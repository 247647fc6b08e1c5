//! Device registers.

use core::ptr::NonNull;

use safe_mmio::UniqueMmioPointer;

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

    /// A register. Its accesses are single instructions without write-back of the address: of others the hardware does not
    /// tell a hypervisor what it needs to know to answer in the device's place.
    fn register<T>(self, offset: usize) -> UniqueMmioPointer<'static, T> {
        assert!(
            offset % size_of::<T>() == 0 && offset + size_of::<T>() <= self.len,
            "a register outside its device"
        );
        let address = NonNull::new((self.base + offset) as *mut T).expect("a mapped device");
        // SAFETY: inside the device's mapped registers, which are no memory of Rust's, and no reference is made from it.
        unsafe { UniqueMmioPointer::new(address) }
    }

    /// Reads the byte at `offset`.
    pub fn read_u8(self, offset: usize) -> u8 {
        // SAFETY: what the device does then is the caller's, whose device it is.
        unsafe { self.register(offset).read_unsafe() }
    }

    /// Writes the byte at `offset`.
    pub fn write_u8(self, offset: usize, value: u8) {
        // SAFETY: as in `read_u8`.
        unsafe { self.register(offset).write_unsafe(value) }
    }

    /// Reads the word at `offset`.
    pub fn read(self, offset: usize) -> u32 {
        // SAFETY: as in `read_u8`.
        unsafe { self.register(offset).read_unsafe() }
    }

    /// Writes the word at `offset`.
    pub fn write(self, offset: usize, value: u32) {
        // SAFETY: as in `read_u8`.
        unsafe { self.register(offset).write_unsafe(value) }
    }

    /// Reads the double word at `offset`.
    pub fn read_u64(self, offset: usize) -> u64 {
        // SAFETY: as in `read_u8`.
        unsafe { self.register(offset).read_unsafe() }
    }

    /// Writes the double word at `offset`.
    pub fn write_u64(self, offset: usize, value: u64) {
        // SAFETY: as in `read_u8`.
        unsafe { self.register(offset).write_unsafe(value) }
    }
}
