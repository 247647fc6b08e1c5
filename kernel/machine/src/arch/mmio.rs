//! Device registers. Each access is ordered with the memory accesses around it, as drivers assume.

use core::ptr::NonNull;

use safe_mmio::UniqueMmioPointer;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::arch::order;
use crate::errno::Result;
use crate::mm::vmalloc;

/// The registers of a device, mapped forever. The upper kernel may only read them: a write could
/// make the device write memory.
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
    /// EINVAL if it is not a device, ENOMEM.
    pub fn map(base: usize, len: usize) -> Result<Self> {
        Ok(Registers {
            base: vmalloc::map_device(base, len)?,
            len,
        })
    }

    /// Creates a handle of registers that are already mapped.
    ///
    /// # Safety
    /// `len` bytes of a device's registers are mapped at `base` for as long as the value is used.
    pub(super) const unsafe fn at(base: usize, len: usize) -> Self {
        Registers { base, len }
    }

    /// The address of the first register.
    pub(crate) fn base(self) -> usize {
        self.base
    }

    /// A pointer to a register. Its accesses are single instructions without address write-back:
    /// for others, the hardware does not give a hypervisor the information that it needs to emulate
    /// the device.
    fn register<T>(self, offset: usize) -> UniqueMmioPointer<'static, T> {
        assert!(
            offset.is_multiple_of(size_of::<T>()) && offset + size_of::<T>() <= self.len,
            "a register outside its device"
        );
        let address = NonNull::new((self.base + offset) as *mut T).expect("a mapped device");
        // SAFETY: inside the device's mapped registers, which are not Rust memory, and no reference
        // to it is created.
        unsafe { UniqueMmioPointer::new(address) }
    }

    fn load<T: FromBytes + IntoBytes + 'static>(self, offset: usize) -> T {
        // SAFETY: a device's registers; reading them does not make the device write memory.
        let value = unsafe { self.register(offset).read_unsafe() };
        order::after_device_read();
        value
    }

    fn store<T: FromBytes + IntoBytes + Immutable + 'static>(self, offset: usize, value: T) {
        order::before_device_write();
        // SAFETY: a device's registers, none of which contains a memory address: only the drivers
        // of this crate write any, those of consoles and of interrupt controllers.
        unsafe { self.register(offset).write_unsafe(value) };
        order::after_device_write();
    }

    /// Reads the byte at `offset`.
    pub fn read_u8(self, offset: usize) -> u8 {
        self.load(offset)
    }

    /// Writes the byte at `offset`.
    pub(crate) fn write_u8(self, offset: usize, value: u8) {
        self.store(offset, value);
    }

    /// Reads the word at `offset`.
    pub fn read(self, offset: usize) -> u32 {
        self.load(offset)
    }

    /// Writes the word at `offset`.
    pub(crate) fn write(self, offset: usize, value: u32) {
        self.store(offset, value);
    }

    /// Reads the double word at `offset`.
    pub fn read_u64(self, offset: usize) -> u64 {
        self.load(offset)
    }

    /// Writes the double word at `offset`.
    pub(crate) fn write_u64(self, offset: usize, value: u64) {
        self.store(offset, value);
    }
}
