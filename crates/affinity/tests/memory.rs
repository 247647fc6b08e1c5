//! Every allocation of the index may fail: each is made to fail in turn.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use affinity::{Affinity, Index, NoMemory};

thread_local! {
    /// Allocations left to this thread before one fails.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

struct Scarce;

// SAFETY: hands every call on to the system's allocator or fails it, which an allocator may always
// do.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let left = LEFT.get();
        LEFT.set(left.saturating_sub(1));
        // SAFETY: the caller's promises are the system allocator's terms.
        if left == 0 {
            std::ptr::null_mut()
        } else {
            unsafe { System.alloc(layout) }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; every pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static SCARCE: Scarce = Scarce;

#[test]
fn every_failed_allocation_is_an_error() {
    let dense: Vec<_> = (0..64).map(Affinity::of_vcpu_id).collect();
    let sparse: Vec<_> = (0..64u64)
        .map(|id| Affinity::from_mpidr((id * 0x1357_9bdf_2468) & 0xff_00ff_ffff))
        .collect();
    for vcpus in [dense, sparse] {
        for allowed in 0.. {
            LEFT.set(allowed);
            let built = Index::new(&vcpus, 1);
            LEFT.set(usize::MAX);
            match built {
                Err(NoMemory) => assert!(allowed < 20),
                Ok(index) => {
                    assert!(allowed >= 3, "three vectors need three allocations");
                    assert_eq!(index.get(vcpus[63]), Some(63));
                    break;
                }
            }
        }
    }
}
