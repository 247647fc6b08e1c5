//! Address spaces: the VMAs of a program, and the page table, which is filled on demand.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicUsize, Ordering::*};

use super::asid::Context;
use super::heap::try_arc_cyclic;
use super::program_ranges::ProgramRanges;
use super::space_lock::{OnUnlock, ReadGuard, SpaceLock, WriteGuard};
use super::table::PageTable;
use super::totals::Totals;
use super::vma::{Flags, Vma};
use super::vmas::Vmas;
use super::{PhysAddr, aslr};
use crate::errno::Result;
use crate::sync::{Mutex, might_sleep};
use crate::upcall::cond_resched;

/// The address space of one program, shared by its threads.
pub struct AddressSpace {
    pub(super) context: Context,
    pub(super) root: PhysAddr,
    pub(super) me: Weak<AddressSpace>,
    /// Number of [`SpaceUser`]s.
    users: AtomicUsize,
    /// The address of the vDSO or its substitute; 0 without one.
    vdso: AtomicUsize,
    /// The lock flags of new mappings (MCL_FUTURE).
    locks_new: AtomicU16,
    /// Whether asynchronous I/O has, or had, contexts in this space.
    pub(super) aio: AtomicBool,
    /// Whether others of the same user may inspect it (PR_SET_DUMPABLE).
    dumpable: AtomicU32,
    pub(super) program: Mutex<ProgramRanges>,
    pub(super) inner: SpaceLock<Space>,
}

/// The state guarded by the address space's lock.
pub struct Space {
    /// The end of the program's addresses.
    pub(super) end: usize,
    pub(super) table: PageTable,
    pub(super) vmas: Vmas,
    /// The maximum size of the stack, in bytes.
    pub(super) stack_limit: usize,
    /// The heap, whose end `brk` moves.
    pub(super) heap: Range<usize>,
    /// The address below which `mmap` chooses addresses.
    pub(super) mmap_top: usize,
    /// The address above which `mmap` chooses addresses, if it does so bottom-up.
    pub(super) mmap_bottom: Option<usize>,
    /// Whether the parts begin at random.
    pub(super) random: bool,
    /// Number of reasons for faults to take the slow path: calls in progress that have changed the
    /// rights of VMAs, but not of all PTEs yet; a paused move; a paused fork. Plus [`TAGGED`].
    pub(super) late: usize,
    /// Large ranges that are being unmapped in parts: VMAs left there can no longer be sealed.
    pub(super) leaving: Vec<Range<usize>>,
    /// Whether a fork or a move is between two of its parts: nobody else changes VMAs, except that
    /// stacks grow, and that rights are changed and restored under a single lock of the space.
    pub(super) paused: bool,
    /// Whether `paused` or [`TAGGED`] is set: changes of rights take the slow path.
    pub(super) unusual: bool,
    /// The source and the target of a move that is between two of its parts.
    pub(super) moving: [Range<usize>; 2],
    /// Whether a fork is between two of its parts while other threads use the space.
    pub(super) forking: bool,
    /// Number of threads that wait for such a fork or move to finish.
    pub(super) waiters: usize,
    /// Number of resident pages, without those that CPUs counted in their slots of the lock: wraps.
    pub(super) pages: usize,
    /// Number of pages that were removed, but are still counted in `pages`.
    pub(super) taken: usize,
    /// The highest number of pages before some were removed.
    pub(super) peak: usize,
}

/// The tolerated error of the peak: as on Linux, whose CPUs also count locally, it may be too low
/// by fewer pages than this.
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

/// Bit of [`Space::late`]: some of the memory has, or had, tags, which faults, copies and changes
/// of rights must preserve.
pub(super) const TAGGED: usize = 1 << (usize::BITS - 1);

impl Space {
    /// Whether some of the memory has, or had, tags.
    pub(super) fn is_tagged(&self) -> bool {
        self.late & TAGGED != 0
    }

    /// Records that some of the memory has tags from now on.
    pub(super) fn set_tagged(&mut self) {
        self.late |= TAGGED;
        self.unusual = true;
    }

    /// Sets whether a fork or a move is between two of its parts.
    pub(super) fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
        self.unusual = paused || self.is_tagged();
    }
}

impl AddressSpace {
    /// Number of users.
    pub fn users(&self) -> usize {
        self.users.load(Relaxed)
    }

    /// Locks the space exclusively, to change PTEs that are not empty; to change VMAs, use
    /// [`AddressSpace::lock_to_change`].
    #[inline(always)]
    pub(super) fn lock(&self) -> WriteGuard<'_, Space> {
        self.inner.write()
    }

    /// Locks the space to fill PTEs concurrently with other CPUs.
    #[inline]
    pub(super) fn read_lock(&self) -> ReadGuard<'_, Space> {
        self.inner.read()
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// PR_GET_DUMPABLE: 1 if others of the same user may inspect the space, and a core file may
    /// contain it.
    pub fn dumpable(&self) -> u32 {
        self.dumpable.load(Relaxed)
    }

    /// PR_SET_DUMPABLE.
    pub fn set_dumpable(&self, value: u32) {
        self.dumpable.store(value, Relaxed);
    }

    /// The address of the vDSO; 0 without one.
    pub fn vdso(&self) -> usize {
        self.vdso.load(Relaxed)
    }

    /// Sets the address of the vDSO.
    pub fn set_vdso(&self, base: usize) {
        self.vdso.store(base, Relaxed);
    }

    /// Calls `f`, which must not sleep, with the VMA that contains `address`, concurrently with
    /// faults on other CPUs.
    pub fn with_vma<T>(&self, address: usize, f: impl FnOnce(&Vma) -> T) -> Option<T> {
        let space = self.read_lock();
        space
            .vmas
            .find_near(address, &space.slot().data.hint)
            .map(f)
    }

    /// Whether `f`, which must not sleep, holds for all VMAs that overlap a range.
    pub fn all_vmas(&self, range: Range<usize>, f: impl FnMut(&Vma) -> bool) -> bool {
        self.read_lock().vmas.touching(range).all(f)
    }

    /// The sum of `f`, which must not sleep, over the VMAs that overlap a range.
    pub fn sum_vmas(&self, range: Range<usize>, f: impl FnMut(&Vma) -> usize) -> usize {
        self.read_lock().vmas.touching(range).map(f).sum()
    }

    /// Number of bytes of a range that VMAs cover.
    pub fn bytes_in(&self, range: Range<usize>) -> usize {
        self.read_lock().vmas.bytes_in(range)
    }

    /// The first VMA that ends above `address`, for `/proc/PID/maps`.
    pub fn vma_after(&self, address: usize) -> Option<Vma> {
        self.lock().vmas.first_after(address).cloned()
    }

    /// Whether a VMA ends above `address`. Unlike [`Self::vma_after`], this returns no reference to
    /// a file, which might be the last one when it is dropped.
    pub fn has_vma_after(&self, address: usize) -> bool {
        self.read_lock().vmas.first_after(address).is_some()
    }

    /// The VMAs that end above `address`, in order; concurrent changes may or may not be seen. Lets
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

    /// The lock flags of new mappings (MCL_FUTURE).
    #[inline]
    pub fn locks_new(&self) -> Flags {
        Flags::from_bits_retain(self.locks_new.load(Relaxed))
    }

    /// Sets the lock flags of new mappings.
    pub fn set_locks_new(&self, flags: Flags) {
        self.locks_new.store(flags.bits(), Relaxed);
    }

    /// Bytes in all VMAs, by kind.
    pub fn totals(&self) -> Totals {
        *self.read_lock().vmas.totals()
    }

    /// Records that asynchronous I/O has contexts in this space, so that it is notified of the
    /// space's end.
    pub fn set_aio(&self) {
        self.aio.store(true, Relaxed);
    }

    /// Whether VMAs cover all of a range.
    pub fn covers(&self, range: Range<usize>) -> bool {
        self.lock().vmas.covers(range)
    }
}

/// A use of a space by a thread, or by exec, which prepares it for one (Linux's mm_users). Dropping
/// the last one empties the space, and may sleep; others that hold the space then find it empty.
pub struct SpaceUser(Arc<AddressSpace>);

impl SpaceUser {
    /// Creates an empty address space for addresses below `end`.
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
            program: Mutex::new(ProgramRanges::default()),
            inner,
        });
        space.map(SpaceUser)
    }

    /// Creates another use of the same space.
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
