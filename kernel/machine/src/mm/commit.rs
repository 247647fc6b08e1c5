//! Memory that programs were promised, touched or not, and how much may be promised (overcommit;
//! Linux's `__vm_enough_memory`).

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::general::CAP_SYS_ADMIN;

use super::{PAGE_SIZE, frame, shmem_account};
use crate::errno::{Errno, Result};
use crate::sync::Counter;
use crate::upcall;

/// Pages that were promised, but those of `shmem_account`. A CPU keeps some MiB for itself, so that
/// few /// mappings touch what all share.
static COMMITTED: Counter<4096> = Counter::new();

/// What is refused (`/proc/sys/vm/overcommit_memory`): 0, single requests beyond all memory;
/// [`ALWAYS`]; [`NEVER`].
pub static MODE: AtomicUsize = AtomicUsize::new(0);
/// Nothing is.
pub const ALWAYS: usize = 1;
/// What all promises together would take beyond the limit.
pub const NEVER: usize = 2;

/// The limit as a part of memory, in hundredths, where it is not given in KiB.
static RATIO: AtomicUsize = AtomicUsize::new(50);
/// The limit in KiB; 0: the ratio counts.
static KBYTES: AtomicUsize = AtomicUsize::new(0);
/// KiB that only the administrator is promised.
pub static ADMIN_RESERVE: AtomicUsize = AtomicUsize::new(0);
/// KiB that no single program is promised.
pub static USER_RESERVE: AtomicUsize = AtomicUsize::new(0);

/// Sets the reserves by how much memory there is.
pub(super) fn init() {
    let part = frame::total() * (PAGE_SIZE / 1024) / 32;
    ADMIN_RESERVE.store(part.min(8 << 10), Relaxed);
    USER_RESERVE.store(part.min(128 << 10), Relaxed);
}

/// `/proc/sys/vm/overcommit_ratio`.
pub fn ratio() -> usize {
    RATIO.load(Relaxed)
}

/// Sets the limit as a part of memory.
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

/// Pages that may be promised in mode [`NEVER`].
pub fn limit() -> usize {
    match kbytes() {
        0 => frame::total().saturating_mul(ratio()) / 100,
        kbytes => pages(kbytes),
    }
}

/// Pages that were promised.
pub fn committed() -> usize {
    COMMITTED.exactly() + shmem_account::count()
}

/// Whether nothing is promised beyond the limit.
pub fn is_strict() -> bool {
    MODE.load(Relaxed) == NEVER
}

/// Promises pages of an object that no address space has for itself.
///
/// # Errors
/// ENOMEM.
pub fn take(pages: usize) -> Result<()> {
    check(pages, pages, 0)?;
    COMMITTED.add(pages as isize);
    Ok(())
}

/// Takes a promise back.
pub fn give(pages: usize) {
    COMMITTED.add(-(pages as isize));
}

fn pages(kbytes: usize) -> usize {
    kbytes / (PAGE_SIZE / 1024)
}

/// ENOMEM where a request of `request` pages, `more` of which are new, is refused to a program that
/// maps `mapped` pages. It counts only afterwards: what is refused to one takes nothing from
/// another meanwhile.
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

/// The pages that an address space was promised, among all.
pub struct Commitment(usize);

impl Commitment {
    /// None.
    pub const fn new() -> Self {
        Commitment(0)
    }

    /// Raises it to `pages` for a request of `request` pages by a program that maps `mapped`, until
    /// it is set.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline]
    pub fn raise(&mut self, pages: usize, request: usize, mapped: usize) -> Result<()> {
        check(request, pages.saturating_sub(self.0), mapped)?;
        self.set(pages.max(self.0));
        Ok(())
    }

    /// It is so many pages from now on.
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
