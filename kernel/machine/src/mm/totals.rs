//! How much an address space has mapped, by kind, and how much it may have.

use super::vma::{Flags, Rights, Vma};
use crate::errno::{Errno, Result};

/// Bytes of VMAs.
#[derive(Clone, Copy)]
pub struct Totals {
    /// In all VMAs (Linux's `total_vm`).
    pub all: usize,
    /// The most that these were before some went (`hiwater_vm`).
    most: usize,
    /// In those whose pages count as promised.
    pub accounted: usize,
    /// In those that are locked (`locked_vm`).
    pub locked: usize,
    /// In those that may be emptied where memory is short (MAP_DROPPABLE).
    pub droppable: usize,
    /// In private ones that may be written, stacks (`data_vm`, `stack_vm`), what is executed
    /// (`exec_vm`), and others.
    by_kind: [usize; 4],
}

/// Places in [`Totals::by_kind`].
const OTHER: usize = 0;
const DATA: usize = 1;
const STACK: usize = 2;
const CODE: usize = 3;

/// The kind that a VMA counts as.
#[inline]
fn kind(flags: Flags, rights: Rights) -> usize {
    if flags.has(Flags::GROWS_DOWN) {
        STACK
    } else if rights.has(Rights::WRITE) {
        if flags.has(Flags::SHARED) {
            OTHER
        } else {
            DATA
        }
    } else if rights.has(Rights::EXECUTE) {
        CODE
    } else {
        OTHER
    }
}

/// How many bytes an address space may have mapped.
pub struct Limits {
    /// Altogether (RLIMIT_AS).
    pub all: usize,
    /// Private and writable (RLIMIT_DATA).
    pub data: usize,
    /// Locked (RLIMIT_MEMLOCK, unless the caller may lock more); asked for where something is.
    pub locked: fn() -> usize,
}

impl Limits {
    /// Whatever is wanted.
    pub const NONE: Limits = Limits {
        all: usize::MAX,
        data: usize::MAX,
        locked: || usize::MAX,
    };
}

impl Totals {
    /// Nothing.
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

    /// The most that there were in all VMAs.
    pub fn most(&self) -> usize {
        self.most.max(self.all)
    }

    /// Private memory that may be written.
    pub fn data(&self) -> usize {
        self.by_kind[DATA]
    }

    /// Stacks.
    pub fn stack(&self) -> usize {
        self.by_kind[STACK]
    }

    /// What is executed and never written.
    pub fn code(&self) -> usize {
        self.by_kind[CODE]
    }

    /// `bytes` of a VMA are there from now on.
    #[inline]
    pub(super) fn add(&mut self, vma: &Vma, bytes: usize) {
        let of = |flag| usize::from(vma.flags.has(flag)) * bytes;
        self.all += bytes;
        self.accounted += of(Flags::ACCOUNT);
        self.locked += of(Flags::LOCKED);
        self.droppable += of(Flags::DROPPABLE);
        self.by_kind[kind(vma.flags, vma.rights)] += bytes;
    }

    /// `bytes` of a VMA go.
    #[inline]
    pub(super) fn sub(&mut self, vma: &Vma, bytes: usize) {
        let of = |flag| usize::from(vma.flags.has(flag)) * bytes;
        self.most = self.most.max(self.all);
        self.all -= bytes;
        self.accounted -= of(Flags::ACCOUNT);
        self.locked -= of(Flags::LOCKED);
        self.droppable -= of(Flags::DROPPABLE);
        self.by_kind[kind(vma.flags, vma.rights)] -= bytes;
    }

    /// Refuses `more` bytes with such flags and rights where that would be too many.
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
        if flags.has(Flags::LOCKED) && beyond(self.locked, (limits.locked)()) {
            return Err(Errno::EAGAIN);
        }
        let data = kind(flags, rights) == DATA && beyond(self.data(), limits.data);
        if data || beyond(self.all, limits.all) {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }
}
