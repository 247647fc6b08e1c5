//! The upper kernel's data for each CPU, inside the per-CPU data.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use crate::upcall;

/// The space for it in bytes.
const SIZE: usize = 4096;

/// The upper kernel's data for a CPU.
///
/// # Safety
/// No other type implements this, and `upcall::init_cpu` creates one.
pub unsafe trait Above: Sync + 'static {}

/// Fails to compile if a `T` does not fit.
pub const fn assert_fits<T>() {
    assert!(size_of::<T>() <= SIZE && align_of::<T>() <= align_of::<Room>());
}

/// The space for the upper kernel's data.
#[repr(C, align(128))]
pub(super) struct Room(UnsafeCell<MaybeUninit<[u8; SIZE]>>);

// SAFETY: the content is `Sync`, and `init` is called before others can access the CPU.
unsafe impl Sync for Room {}

impl Room {
    pub(super) const fn new() -> Self {
        Room(UnsafeCell::new(MaybeUninit::uninit()))
    }

    #[inline(always)]
    pub(super) fn get<T: Above>(&self) -> &T {
        // SAFETY: every CPU's space is filled with a value of this only type before the CPU starts.
        unsafe { &*self.0.get().cast::<T>() }
    }

    /// Lets the upper kernel fill it.
    ///
    /// # Safety
    /// Called once, before anybody else can access the CPU.
    pub(super) unsafe fn init(&self) {
        // SAFETY: the space is large enough, and the caller has it exclusively.
        unsafe { upcall::init_cpu(self.0.get().cast()) };
    }
}
