//! Helpers for tests of vector registers: processes that keep values in theirs while others run.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// More processes than there are CPUs.
pub const MANY: u32 = 12;

/// Shared state: how many processes have set their registers, and whether they may end.
pub struct Shared {
    pub ready: AtomicU32,
    pub go: AtomicU32,
}

impl Shared {
    /// The state, in memory shared with children.
    pub fn new() -> &'static Shared {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new zeroed mapping, which is never unmapped.
        unsafe {
            let at = libc::mmap(ptr::null_mut(), 4096, rights, kind, -1, 0);
            assert!(at != libc::MAP_FAILED);
            &*at.cast::<Shared>()
        }
    }

    pub fn reset(&self) {
        self.ready.store(0, SeqCst);
        self.go.store(0, SeqCst);
    }

    pub fn await_ready(&self) {
        while self.ready.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
}

/// Fills `bytes` pseudo-randomly; each `seed` gives other bytes.
pub fn fill(bytes: &mut [u8], seed: u32) {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    for byte in bytes {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        *byte = state as u8;
    }
}

/// The number of processes, of [`MANY`] at once, that kept their registers: `kept` gets a number
/// unique to the process.
pub fn count_kept(shared: &Shared, kept: impl Fn(u32) -> bool) -> u32 {
    shared.reset();
    let children: Vec<i32> = (0..MANY)
        .map(|number| {
            // SAFETY: the child ends by _exit.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(i32::from(!kept(number)));
                }
                child
            }
        })
        .collect();
    let ends = children.into_iter().map(|child| {
        let mut status = 0;
        // SAFETY: `status` is writable.
        unsafe { libc::waitpid(child, &mut status, 0) };
        u32::from(status == 0)
    });
    ends.sum()
}
