//! The address space that a CPU runs.

extern crate alloc;

use alloc::sync::Arc;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use super::asid;
use super::space::AddressSpace;
use crate::arch::{cpu, mmu};
use crate::sync::lockdep::NoSleep;

/// The address space that a CPU runs: the CPU's own count of it.
pub struct Active(AtomicPtr<AddressSpace>);

impl Active {
    /// None.
    pub const fn new() -> Self {
        Active(AtomicPtr::new(null_mut()))
    }

    /// Takes over a count, or null; lets go of the one before, which the CPU no longer runs. For
    /// the CPU itself.
    fn set(&self, space: *mut AddressSpace) {
        let before = self.0.load(Relaxed);
        self.0.store(space, Relaxed);
        if !before.is_null() {
            // SAFETY: `activate` turned a count into this pointer, and it is taken back once.
            drop(unsafe { Arc::from_raw(before) });
        }
    }
}

impl AddressSpace {
    /// Makes this the address space of this CPU, which holds it until it leaves it.
    #[inline]
    pub fn activate(self: Arc<Self>) {
        self.context.activate(|asid| {
            // SAFETY: the root lives as long as the space, which the CPU holds from now on.
            unsafe { mmu::activate(self.root.0, asid) };
        });
        cpu::this().space.set(Arc::into_raw(self).cast_mut());
    }
}

/// Calls `f` with the address space that this CPU runs, if it runs one. `f` must not wait: another
/// thread's space could be active afterwards.
#[inline(always)]
pub fn with_active<T>(f: impl FnOnce(&AddressSpace) -> T) -> Option<T> {
    let space = cpu::this().space.0.load(Relaxed);
    // SAFETY: the CPU's count keeps the space; only this CPU's next switch, which `f` does not
    // make, gives it back.
    let space = unsafe { space.as_ref() }?;
    let _held = NoSleep::begin();
    // Not by `map`, to which what `f` holds would be copied.
    Some(f(space))
}

/// Leaves this CPU without an address space: before it idles, and before the last thread that holds
/// one lets go of it.
pub fn deactivate() {
    asid::leave(|| {
        // SAFETY: the empty root is never freed.
        unsafe { mmu::activate(mmu::empty_root(), 0) };
    });
    cpu::this().space.set(null_mut());
}
