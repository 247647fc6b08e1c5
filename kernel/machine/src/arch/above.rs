//! What the kernel above keeps for each CPU, inside the CPU's own data.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use crate::upcall;

/// Bytes that there are for it.
const SIZE: usize = 4096;

/// What the kernel above keeps for a CPU.
///
/// # Safety
/// No other type implements this, and `upcall::init_cpu` makes one.
pub unsafe trait Above: Sync + 'static {}

/// Fails to compile where a CPU has no room for a `T`.
pub const fn assert_fits<T>() {
    assert!(size_of::<T>() <= SIZE && align_of::<T>() <= align_of::<Room>());
}

/// Room for it.
#[repr(C, align(128))]
pub(super) struct Room(UnsafeCell<MaybeUninit<[u8; SIZE]>>);

// SAFETY: what is in it is `Sync`, and `init` is called before others know the CPU.
unsafe impl Sync for Room {}

impl Room {
    pub(super) const fn new() -> Self {
        Room(UnsafeCell::new(MaybeUninit::uninit()))
    }

    #[inline(always)]
    pub(super) fn get<T: Above>(&self) -> &T {
        // SAFETY: every CPU's room is filled with the one type before the CPU starts.
        unsafe { &*self.0.get().cast::<T>() }
    }

    /// Lets the kernel above fill it.
    ///
    /// # Safety
    /// Once, before anybody else knows the CPU.
    pub(super) unsafe fn init(&self) {
        // SAFETY: a room, and the caller has it alone.
        unsafe { upcall::init_cpu(self.0.get().cast()) };
    }
}
