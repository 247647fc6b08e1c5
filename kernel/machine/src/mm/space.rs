//! Address spaces: the VMAs that a program was promised, and the page table that holds what came of
//! it so far.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::asid::Context;
use super::heap::try_arc_cyclic;
use super::large;
use super::space_lock::{OnUnlock, ReadGuard, SpaceLock, WriteGuard};
use super::table::PageTable;
use super::vma::Vma;
use super::vmas::{Gone, Vmas};
use super::{PhysAddr, aslr};
use crate::errno::Result;

/// The lowest address that programs may map.
pub const USER_START: usize = 0x1_0000;

/// The addresses of one program: shared by its threads.
pub struct AddressSpace {
    pub(super) context: Context,
    pub(super) root: PhysAddr,
    pub(super) me: Weak<AddressSpace>,
    /// How many [`Look`]s there are.
    looks: AtomicUsize,
    /// Where the vDSO lies, or what stands for it; 0 without one.
    vdso: AtomicUsize,
    /// New mappings are locked (MCL_FUTURE).
    locks_new: AtomicBool,
    /// Whether others of the same user may look into it (PR_SET_DUMPABLE).
    dumpable: AtomicU32,
    pub(super) inner: SpaceLock<Space>,
}

/// What the address space's lock guards.
pub struct Space {
    /// The first address above the program's.
    pub(super) end: usize,
    pub(super) table: PageTable,
    pub(super) vmas: Vmas,
    /// How far the stack may grow, in bytes.
    pub(super) stack_limit: usize,
    /// The heap that `brk` moves the end of.
    pub(super) heap: Range<usize>,
    /// Above what `mmap` does not choose addresses.
    pub(super) mmap_top: usize,
    /// From where it chooses them upwards, if it does.
    pub(super) mmap_bottom: Option<usize>,
    /// Its parts begin at random.
    pub(super) random: bool,
    /// Calls under way that have changed the rights of VMAs, but not those of all entries yet.
    pub(super) late: usize,
    /// Pages that it has, without those that CPUs counted in their lines of the lock: wraps.
    pub(super) pages: usize,
    /// Pages that were taken from it, but are still among these.
    pub(super) taken: usize,
    /// The most pages that it had before some were taken.
    pub(super) peak: usize,
}

/// Fewer pages may be missing from the most that there were, as on Linux, whose CPUs count for
/// themselves too.
const ROUGHLY: usize = 64;

impl OnUnlock for Space {
    type Gone = Option<Gone>;

    #[inline]
    fn on_unlock(&mut self, counted: impl FnOnce() -> usize) -> Option<Gone> {
        self.vmas.settle();
        if self.taken >= ROUGHLY {
            self.peak = self.peak.max(self.pages.wrapping_add(counted()));
            self.pages = self.pages.wrapping_sub(core::mem::take(&mut self.taken));
        }
        self.vmas.take_gone()
    }
}

impl AddressSpace {
    /// An empty address space, for addresses below `end`.
    pub fn new(end: usize) -> Result<Arc<Self>> {
        Self::with(end, Vmas::new(), 0..0, aslr::mmap_top(end))
    }

    pub(super) fn with(
        end: usize,
        vmas: Vmas,
        heap: Range<usize>,
        mmap_top: usize,
    ) -> Result<Arc<Self>> {
        let table = PageTable::new()?;
        let root = table.root();
        let inner = Space {
            end,
            table,
            vmas,
            stack_limit: 8 << 20,
            heap,
            mmap_top,
            mmap_bottom: None,
            random: true,
            late: 0,
            pages: 0,
            taken: 0,
            peak: 0,
        };
        let inner = SpaceLock::new(inner)?;
        try_arc_cyclic(|me| AddressSpace {
            context: Context::new(),
            root,
            me: me.clone(),
            looks: AtomicUsize::new(0),
            vdso: AtomicUsize::new(0),
            locks_new: AtomicBool::new(false),
            dumpable: AtomicU32::new(0),
            inner,
        })
    }

    /// For changing VMAs, or entries that hold something, alone.
    pub(super) fn lock(&self) -> WriteGuard<'_, Space> {
        self.inner.write()
    }

    /// For filling entries beside other CPUs.
    #[inline]
    pub(super) fn read_lock(&self) -> ReadGuard<'_, Space> {
        self.inner.read()
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// PR_GET_DUMPABLE: 1 if others of the same user may look into it, and a core file may tell of
    /// it.
    pub fn dumpable(&self) -> u32 {
        self.dumpable.load(Relaxed)
    }

    /// PR_SET_DUMPABLE.
    pub fn set_dumpable(&self, value: u32) {
        self.dumpable.store(value, Relaxed);
    }

    /// Where the vDSO lies; 0 without one.
    pub fn vdso(&self) -> usize {
        self.vdso.load(Relaxed)
    }

    /// The vDSO lies at `base` from now on.
    pub fn set_vdso(&self, base: usize) {
        self.vdso.store(base, Relaxed);
    }

    /// Calls `f`, which must not wait, with the VMA that holds `address`, beside faults on other
    /// CPUs.
    pub fn with_vma<T>(&self, address: usize, f: impl FnOnce(&Vma) -> T) -> Option<T> {
        let space = self.read_lock();
        space.vmas.find_near(address, &space.slot().hint).map(f)
    }

    /// The first VMA that ends above `address`, for `/proc/PID/maps`.
    pub fn vma_after(&self, address: usize) -> Option<Vma> {
        self.lock().vmas.first_after(address).cloned()
    }

    /// The VMAs that end above `address`, in order; what changes meanwhile is seen or not.
    pub fn vmas_from(&self, address: usize) -> impl Iterator<Item = Vma> {
        let mut at = address;
        core::iter::from_fn(move || {
            let vma = self.vma_after(at)?;
            at = vma.end;
            Some(vma)
        })
    }

    /// All VMAs.
    pub fn vmas(&self) -> impl Iterator<Item = Vma> {
        self.vmas_from(0)
    }

    /// Whether new mappings are locked.
    pub fn locks_new(&self) -> bool {
        self.locks_new.load(Relaxed)
    }

    /// Makes new mappings be locked, or no longer.
    pub fn set_locks_new(&self, on: bool) {
        self.locks_new.store(on, Relaxed);
    }

    /// Whether VMAs cover all of a range.
    pub fn covers(&self, range: Range<usize>) -> bool {
        self.lock().vmas.covers(range)
    }
}

/// A look at a space from outside, which may take long, but finds no VMAs any more where nobody
/// else has the space.
pub struct Look(Option<Arc<AddressSpace>>);

impl Look {
    /// At a space, if it is there.
    pub fn at(space: &Weak<AddressSpace>) -> Option<Self> {
        space.upgrade().map(Self::of)
    }

    /// At a space that is held.
    pub fn of(space: Arc<AddressSpace>) -> Self {
        space.looks.fetch_add(1, Relaxed);
        Look(Some(space))
    }

    /// The VMAs that end above `address`, in order, as long as others have the space.
    pub fn vmas_from(&self, address: usize) -> impl Iterator<Item = Vma> {
        let mut all = AddressSpace::vmas_from(self, address);
        core::iter::from_fn(move || {
            let lives = self.me.strong_count() > self.looks.load(Relaxed);
            lives.then(|| all.next()).flatten()
        })
    }

    /// All VMAs, as long as others have the space.
    pub fn vmas(&self) -> impl Iterator<Item = Vma> {
        self.vmas_from(0)
    }
}

impl Deref for Look {
    type Target = AddressSpace;

    fn deref(&self) -> &AddressSpace {
        self.0.as_deref().expect("there until the look ends")
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        if let Some(space) = self.0.take() {
            space.looks.fetch_sub(1, Relaxed);
            large::leave(space);
        }
    }
}
