//! Memory committed to programs, touched or not, and the overcommit policy (Linux's
//! `__vm_enough_memory`).

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::general::CAP_SYS_ADMIN;

use super::{PAGE_SIZE, frame, shmem_account};
use crate::errno::{Errno, Result};
use crate::sync::Counter;
use crate::upcall;

/// Committed pages, except those of `shmem_account`. Each CPU batches some MiB, so that few
/// mappings touch the shared counter.
static COMMITTED: Counter<4096> = Counter::new();

/// The overcommit policy (`/proc/sys/vm/overcommit_memory`): 0 refuses single requests beyond all
/// memory; [`ALWAYS`]; [`NEVER`].
pub static MODE: AtomicUsize = AtomicUsize::new(0);
/// Refuses nothing.
pub const ALWAYS: usize = 1;
/// Refuses requests that would take the total beyond the limit.
pub const NEVER: usize = 2;

/// The limit as a percentage of memory; used unless it is set in KiB.
static RATIO: AtomicUsize = AtomicUsize::new(50);
/// The limit in KiB; 0 selects the ratio.
static KBYTES: AtomicUsize = AtomicUsize::new(0);
/// KiB reserved for the administrator.
pub static ADMIN_RESERVE: AtomicUsize = AtomicUsize::new(0);
/// KiB that no single program may commit.
pub static USER_RESERVE: AtomicUsize = AtomicUsize::new(0);

/// Sets the reserves according to the amount of memory.
pub(super) fn init() {
    let part = frame::total() * (PAGE_SIZE / 1024) / 32;
    ADMIN_RESERVE.store(part.min(8 << 10), Relaxed);
    USER_RESERVE.store(part.min(128 << 10), Relaxed);
}

/// `/proc/sys/vm/overcommit_ratio`.
pub fn ratio() -> usize {
    RATIO.load(Relaxed)
}

/// Sets the limit as a percentage of memory.
pub fn set_ratio(ratio: usize) {
    RATIO.store(ratio, Relaxed);
    KBYTES.store(0, Relaxed);
}

/// `/proc/sys/vm/overcommit_kbytes`.
pub fn kbytes() -> usize {
    KBYTES.load(Relaxed)
}

/// Sets the limit in KiB.
pub fn set_kbytes(kbytes: usize) {
    KBYTES.store(kbytes, Relaxed);
    RATIO.store(0, Relaxed);
}

/// Number of pages that may be committed in mode [`NEVER`].
pub fn limit() -> usize {
    match kbytes() {
        0 => frame::total().saturating_mul(ratio()) / 100,
        kbytes => pages(kbytes),
    }
}

/// Number of committed pages.
pub fn committed() -> usize {
    COMMITTED.exactly() + shmem_account::count()
}

/// Whether nothing is committed beyond the limit.
pub fn is_strict() -> bool {
    MODE.load(Relaxed) == NEVER
}

/// Commits pages of an object that belongs to no single address space.
///
/// # Errors
/// ENOMEM.
pub fn take(pages: usize) -> Result<()> {
    check(pages, pages, 0)?;
    COMMITTED.add(pages as isize);
    Ok(())
}

/// Takes back what [`take`] committed.
pub fn give(pages: usize) {
    COMMITTED.add(-(pages as isize));
}

fn pages(kbytes: usize) -> usize {
    kbytes / (PAGE_SIZE / 1024)
}

/// Refuses, with ENOMEM, a request of `request` pages, `more` of which are new, by a program that
/// maps `mapped` pages. The caller counts them afterwards, so that a refused request does not make
/// a concurrent one fail.
#[inline]
pub(super) fn check(request: usize, more: usize, mapped: usize) -> Result<()> {
    let fits = match MODE.load(Relaxed) {
        ALWAYS => true,
        NEVER => fits(more, mapped),
        _ => request <= frame::total(),
    };
    if fits { Ok(()) } else { Err(Errno::ENOMEM) }
}

#[cold]
fn fits(more: usize, mapped: usize) -> bool {
    let admin = match upcall::capable(CAP_SYS_ADMIN) {
        true => 0,
        false => pages(ADMIN_RESERVE.load(Relaxed)),
    };
    let user = pages(USER_RESERVE.load(Relaxed)).min(mapped / 32);
    committed().saturating_add(more) < limit().saturating_sub(admin + user)
}

/// The pages committed to an address space, counted in the total.
pub struct Commitment(usize);

impl Commitment {
    /// No pages.
    pub const fn new() -> Self {
        Commitment(0)
    }

    /// Raises the commitment to `pages` for a request of `request` pages by a program that maps
    /// `mapped` pages, until the next [`Commitment::set`].
    ///
    /// # Errors
    /// ENOMEM.
    #[inline]
    pub fn raise(&mut self, pages: usize, request: usize, mapped: usize) -> Result<()> {
        check(request, pages.saturating_sub(self.0), mapped)?;
        self.set(pages.max(self.0));
        Ok(())
    }

    /// Sets the commitment to `pages`.
    #[inline]
    pub fn set(&mut self, pages: usize) {
        if pages != self.0 {
            COMMITTED.add(pages.wrapping_sub(self.0) as isize);
            self.0 = pages;
        }
    }
}

impl Drop for Commitment {
    fn drop(&mut self) {
        self.set(0);
    }
}
