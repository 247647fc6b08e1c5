//! Address spaces: the VMAs that a program was promised, and the page table that holds what came of
//! it so far.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicUsize, Ordering::*};

use super::asid::Context;
use super::heap::try_arc_cyclic;
use super::space_lock::{OnUnlock, ReadGuard, SpaceLock, WriteGuard};
use super::table::PageTable;
use super::totals::Totals;
use super::vma::{Flags, Vma};
use super::vmas::Vmas;
use super::{PhysAddr, aslr};
use crate::errno::Result;
use crate::sync::might_sleep;
use crate::upcall::cond_resched;

/// The addresses of one program: shared by its threads.
pub struct AddressSpace {
    pub(super) context: Context,
    pub(super) root: PhysAddr,
    pub(super) me: Weak<AddressSpace>,
    /// How many [`SpaceUser`]s there are.
    users: AtomicUsize,
    /// Where the vDSO lies, or what stands for it; 0 without one.
    vdso: AtomicUsize,
    /// How new mappings are locked (MCL_FUTURE), as flags.
    locks_new: AtomicU16,
    /// Asynchronous I/O has, or had, contexts of it.
    pub(super) aio: AtomicBool,
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
    /// Calls under way that have changed the rights of VMAs, but not those of all entries yet; and
    /// [`TAGGED`].
    pub(super) late: usize,
    /// Large ranges that are taken away part by part: what is left there is not sealed any more.
    pub(super) leaving: Vec<Range<usize>>,
    /// A fork or a move is between two of its parts: nobody else changes VMAs, except that stacks
    /// grow, and that rights change and change back under one lock of the space.
    pub(super) paused: bool,
    /// That, or [`TAGGED`]: changes of rights take the long way.
    pub(super) unusual: bool,
    /// From where to where a move between two of its parts takes what is there.
    pub(super) moving: [Range<usize>; 2],
    /// A fork between two of its parts, beside other threads.
    pub(super) forking: bool,
    /// Threads that wait until such a one is over.
    pub(super) waiters: usize,
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
    #[inline]
    fn on_unlock(&mut self, counted: impl FnOnce() -> usize) {
        self.vmas.update_commitment();
        if self.taken >= ROUGHLY {
            self.peak = self.peak.max(self.pages.wrapping_add(counted()));
            self.pages = self.pages.wrapping_sub(core::mem::take(&mut self.taken));
        }
    }
}

/// In `Space::late`: some of the memory has tags, or had, so that faults, copies and changes of
/// rights look after them.
pub(super) const TAGGED: usize = 1 << (usize::BITS - 1);

impl Space {
    /// Whether some of the memory has tags, or had.
    pub(super) fn is_tagged(&self) -> bool {
        self.late & TAGGED != 0
    }

    /// Some of the memory has tags from now on.
    pub(super) fn set_tagged(&mut self) {
        self.late |= TAGGED;
        self.unusual = true;
    }

    /// A fork or a move is between two of its parts, or is not.
    pub(super) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        self.unusual = paused || self.is_tagged();
    }
}

impl AddressSpace {
    /// How many use it.
    pub fn users(&self) -> usize {
        self.users.load(Relaxed)
    }

    /// For changing entries that hold something, alone; VMAs with
    /// [`AddressSpace::lock_to_change`].
    #[inline(always)]
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

    /// PR_GET_DUMPABLE: 1 if others of the same user may look into it, and a core file may show
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
        space
            .vmas
            .find_near(address, &space.slot().data.hint)
            .map(f)
    }

    /// Whether all VMAs that touch a range are as `f` says, which must not wait.
    pub fn all_vmas(&self, range: Range<usize>, f: impl FnMut(&Vma) -> bool) -> bool {
        self.read_lock().vmas.touching(range).all(f)
    }

    /// The sum of what `f`, which must not wait, says of the VMAs that touch a range.
    pub fn sum_vmas(&self, range: Range<usize>, f: impl FnMut(&Vma) -> usize) -> usize {
        self.read_lock().vmas.touching(range).map(f).sum()
    }

    /// Bytes of VMAs in a range.
    pub fn bytes_in(&self, range: Range<usize>) -> usize {
        self.read_lock().vmas.bytes_in(range)
    }

    /// The first VMA that ends above `address`, for `/proc/PID/maps`.
    pub fn vma_after(&self, address: usize) -> Option<Vma> {
        self.lock().vmas.first_after(address).cloned()
    }

    /// The VMAs that end above `address`, in order; what changes meanwhile is seen or not. Lets
    /// others run before all but the first.
    pub fn vmas_from(&self, address: usize) -> impl Iterator<Item = Vma> {
        let mut at = address;
        core::iter::from_fn(move || {
            if at != address {
                cond_resched();
            }
            let vma = self.vma_after(at)?;
            at = vma.end;
            Some(vma)
        })
    }

    /// All VMAs.
    pub fn vmas(&self) -> impl Iterator<Item = Vma> {
        self.vmas_from(0)
    }

    /// How new mappings are locked.
    #[inline]
    pub fn locks_new(&self) -> Flags {
        Flags::from_bits(self.locks_new.load(Relaxed))
    }

    /// Makes new mappings be locked so, or no longer.
    pub fn set_locks_new(&self, flags: Flags) {
        self.locks_new.store(flags.bits(), Relaxed);
    }

    /// Bytes in all VMAs, by kind.
    pub fn totals(&self) -> Totals {
        *self.read_lock().vmas.totals()
    }

    /// Asynchronous I/O, which is notified of its end, has contexts of it from now on.
    pub fn set_aio(&self) {
        self.aio.store(true, Relaxed);
    }

    /// Whether VMAs cover all of a range.
    pub fn covers(&self, range: Range<usize>) -> bool {
        self.lock().vmas.covers(range)
    }
}

/// A use of a space by a thread, or by exec, which makes it ready for one (Linux's mm_users). The
/// last one's end empties the space, and may wait; others that hold the space see that it has
/// nothing any more.
pub struct SpaceUser(Arc<AddressSpace>);

impl SpaceUser {
    /// An empty address space, for addresses below `end`.
    pub fn new(end: usize) -> Result<SpaceUser> {
        let table = PageTable::new()?;
        let root = table.root();
        let inner = Space {
            end,
            table,
            vmas: Vmas::new(),
            stack_limit: 8 << 20,
            heap: 0..0,
            mmap_top: aslr::mmap_top(end),
            mmap_bottom: None,
            random: true,
            late: 0,
            pages: 0,
            taken: 0,
            leaving: Vec::new(),
            paused: false,
            unusual: false,
            moving: [0..0, 0..0],
            forking: false,
            waiters: 0,
            peak: 0,
        };
        let inner = SpaceLock::new(inner)?;
        let space = try_arc_cyclic(|me| AddressSpace {
            context: Context::new(),
            root,
            me: me.clone(),
            users: AtomicUsize::new(1),
            vdso: AtomicUsize::new(0),
            locks_new: AtomicU16::new(0),
            aio: AtomicBool::new(false),
            dumpable: AtomicU32::new(0),
            inner,
        });
        space.map(SpaceUser)
    }

    /// Another use of the same space.
    pub fn share(&self) -> Self {
        self.users.fetch_add(1, Relaxed);
        SpaceUser(self.0.clone())
    }
}

impl Deref for SpaceUser {
    type Target = Arc<AddressSpace>;

    fn deref(&self) -> &Arc<AddressSpace> {
        &self.0
    }
}

impl Drop for SpaceUser {
    #[inline]
    fn drop(&mut self) {
        if self.users.fetch_sub(1, AcqRel) == 1 {
            might_sleep();
            self.exit();
        }
    }
}
