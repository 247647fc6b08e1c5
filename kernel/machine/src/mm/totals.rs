//! Totals of mapped bytes, by kind, and their limits.

use super::vma::{Flags, Rights, Vma};
use crate::errno::{Errno, Result};

/// Totals of an address space's VMAs, in bytes.
#[derive(Clone, Copy)]
pub struct Totals {
    /// All VMAs (Linux's `total_vm`).
    pub all: usize,
    /// The previous peak of `all` (`hiwater_vm`).
    most: usize,
    /// VMAs whose pages are committed.
    pub accounted: usize,
    /// Locked VMAs (`locked_vm`).
    pub locked: usize,
    /// VMAs whose pages may be freed under memory pressure (MAP_DROPPABLE).
    pub droppable: usize,
    /// Others, private writable ones (`data_vm`), stacks (`stack_vm`) and executable ones
    /// (`exec_vm`).
    by_kind: [usize; 4],
}

/// Indices in [`Totals::by_kind`].
const OTHER: usize = 0;
const DATA: usize = 1;
const STACK: usize = 2;
const CODE: usize = 3;

/// The kind of a VMA.
#[inline]
fn kind(flags: Flags, rights: Rights) -> usize {
    if flags.contains(Flags::GROWS_DOWN) {
        STACK
    } else if rights.contains(Rights::WRITE) {
        if flags.contains(Flags::SHARED) {
            OTHER
        } else {
            DATA
        }
    } else if rights.contains(Rights::EXECUTE) {
        CODE
    } else {
        OTHER
    }
}

/// Limits on the bytes that an address space may map.
pub struct Limits {
    /// In total (RLIMIT_AS).
    pub all: usize,
    /// Private and writable (RLIMIT_DATA).
    pub data: usize,
    /// Locked (RLIMIT_MEMLOCK, unless the caller may lock more); called only if something is
    /// locked.
    pub locked: fn() -> usize,
}

impl Limits {
    /// No limits.
    pub const NONE: Limits = Limits {
        all: usize::MAX,
        data: usize::MAX,
        locked: || usize::MAX,
    };
}

impl Totals {
    /// An empty address space.
    pub const fn new() -> Self {
        Totals {
            all: 0,
            most: 0,
            accounted: 0,
            locked: 0,
            droppable: 0,
            by_kind: [0; 4],
        }
    }

    /// The peak of all VMAs.
    pub fn most(&self) -> usize {
        self.most.max(self.all)
    }

    /// Private writable memory.
    pub fn data(&self) -> usize {
        self.by_kind[DATA]
    }

    /// Stacks.
    pub fn stack(&self) -> usize {
        self.by_kind[STACK]
    }

    /// Executable memory that is not writable.
    pub fn code(&self) -> usize {
        self.by_kind[CODE]
    }

    /// Adds `bytes` of a VMA.
    #[inline]
    pub(super) fn add(&mut self, vma: &Vma, bytes: usize) {
        let of = |flag| usize::from(vma.flags.contains(flag)) * bytes;
        self.all += bytes;
        self.accounted += of(Flags::ACCOUNT);
        self.locked += of(Flags::LOCKED);
        self.droppable += of(Flags::DROPPABLE);
        self.by_kind[kind(vma.flags, vma.rights)] += bytes;
    }

    /// Subtracts `bytes` of a VMA.
    #[inline]
    pub(super) fn sub(&mut self, vma: &Vma, bytes: usize) {
        let of = |flag| usize::from(vma.flags.contains(flag)) * bytes;
        self.most = self.most.max(self.all);
        self.all -= bytes;
        self.accounted -= of(Flags::ACCOUNT);
        self.locked -= of(Flags::LOCKED);
        self.droppable -= of(Flags::DROPPABLE);
        self.by_kind[kind(vma.flags, vma.rights)] -= bytes;
    }

    /// Checks whether `more` bytes with these flags and rights are within the limits.
    ///
    /// # Errors
    /// EAGAIN (locked), ENOMEM.
    pub(super) fn check(
        &self,
        (flags, rights): (Flags, Rights),
        more: usize,
        limits: &Limits,
    ) -> Result<()> {
        let beyond = |held: usize, limit: usize| more > 0 && held.saturating_add(more) > limit;
        if flags.contains(Flags::LOCKED) && beyond(self.locked, (limits.locked)()) {
            return Err(Errno::EAGAIN);
        }
        let data = kind(flags, rights) == DATA && beyond(self.data(), limits.data);
        if data || beyond(self.all, limits.all) {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }
}
