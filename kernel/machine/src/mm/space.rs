//! Address spaces: the areas that a program was promised, and the page table that holds what came of it so far.

extern crate alloc;

use alloc::sync::{Arc, Weak};
use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::area::{Area, Areas, Flags, Label, Rights, Source};
use super::asid::{self, Context};
use super::fault::{Access, Failure};
use super::gather::Gather;
use super::heap::try_arc_cyclic;
use super::lock::{ReadGuard, Settle, SpaceLock, WriteGuard};
use super::table::PageTable;
use super::{PAGE_SIZE, PhysAddr, aslr, block, frame, page_up};
use crate::arch::mmu::{self, Pte};
use crate::arch::{MAP_WINDOW, cpu, user_end};
use crate::errno::{Errno, Result};
use translation::Change;

/// The lowest address that programs may map.
pub const USER_START: usize = 0x1_0000;

/// The addresses of one program: shared by its threads.
pub struct AddressSpace {
    context: Context,
    root: PhysAddr,
    me: Weak<AddressSpace>,
    /// Where the vDSO lies, or what stands for it; 0 without one.
    vdso: AtomicUsize,
    /// New mappings are locked (MCL_FUTURE).
    locks_new: AtomicBool,
    /// Whether others of the same user may look into it (PR_SET_DUMPABLE).
    dumpable: AtomicU32,
    inner: SpaceLock<Space>,
}

/// What the address space's lock guards.
pub struct Space {
    /// The first address above the program's.
    pub(super) end: usize,
    pub(super) table: PageTable,
    pub(super) areas: Areas,
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
    /// Pages that it has, without those that CPUs counted in their lines of the lock: wraps.
    pub(super) pages: usize,
    /// Pages that were taken from it, but are still among these.
    pub(super) taken: usize,
    /// The most pages that it had before some were taken.
    pub(super) peak: usize,
}

/// Fewer pages may be missing from the most that there were, as on Linux, whose CPUs count for themselves too.
const ROUGHLY: usize = 64;

impl Settle for Space {
    #[inline]
    fn settle(&mut self, counted: impl FnOnce() -> usize) {
        self.areas.settle();
        if self.taken >= ROUGHLY {
            self.peak = self.peak.max(self.pages.wrapping_add(counted()));
            self.pages = self.pages.wrapping_sub(core::mem::take(&mut self.taken));
        }
    }
}

/// Where a mapping goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the address if it is free, else anywhere.
    Hint(usize),
    /// At the address, in place of what is there.
    Fixed(usize),
    /// At the address if it is free, else EEXIST.
    Free(usize),
}

/// What `mmap` asks for.
pub struct MapRequest {
    /// Where.
    pub place: Place,
    /// Bytes, rounded up to pages.
    pub len: usize,
    /// What the program may do.
    pub rights: Rights,
    /// Behaviour.
    pub flags: Flags,
    /// Where the pages come from.
    pub source: Source,
    /// Name without a file.
    pub label: Label,
    /// Bytes that all areas together may have.
    pub limit: usize,
}

impl MapRequest {
    /// Anonymous private memory of `len` bytes that may be read and written.
    pub fn anonymous(place: Place, len: usize) -> Self {
        MapRequest {
            place,
            len,
            rights: Rights::READ.with(Rights::WRITE),
            flags: Flags::default(),
            source: Source::Anonymous,
            label: Label::None,
            limit: usize::MAX,
        }
    }
}

impl AddressSpace {
    /// An empty address space, for addresses below `end`.
    pub fn new(end: usize) -> Result<Arc<Self>> {
        Self::with(end, Areas::new(), 0..0, aslr::mmap_top(end))
    }

    fn with(end: usize, areas: Areas, heap: Range<usize>, mmap_top: usize) -> Result<Arc<Self>> {
        let table = PageTable::new()?;
        let root = table.root();
        let inner = Space {
            end,
            table,
            areas,
            stack_limit: 8 << 20,
            heap,
            mmap_top,
            mmap_bottom: None,
            random: true,
            pages: 0,
            taken: 0,
            peak: 0,
        };
        let inner = SpaceLock::new(inner)?;
        try_arc_cyclic(|me| AddressSpace {
            context: Context::new(),
            root,
            me: me.clone(),
            vdso: AtomicUsize::new(0),
            locks_new: AtomicBool::new(false),
            dumpable: AtomicU32::new(0),
            inner,
        })
    }

    /// For changing areas, or entries that hold something, alone.
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

    /// Makes this the address space of this CPU, which holds it until it leaves it.
    #[inline]
    pub fn activate(self: Arc<Self>) {
        self.context.activate(|asid| {
            // SAFETY: the root lives as long as the space, which the CPU holds from now on.
            unsafe { mmu::activate(self.root.0, asid) };
        });
        cpu::this().space.set(Arc::into_raw(self).cast_mut());
    }

    /// Maps what is asked for; returns where.
    ///
    /// # Errors
    /// EINVAL (bounds), ENOMEM, EEXIST.
    pub fn map(&self, request: MapRequest) -> Result<usize> {
        let len = checked_len(request.len)?;
        let mut space = self.lock();
        if space
            .areas
            .bytes()
            .checked_add(len)
            .is_none_or(|bytes| bytes > request.limit)
        {
            return Err(Errno::ENOMEM);
        }
        if space.areas.is_full() {
            return Err(Errno::ENOMEM);
        }
        let flags = request
            .flags
            .set(Flags::ACCOUNT, false)
            .accounted(request.rights);
        if flags.has(Flags::ACCOUNT) {
            let replaced = match request.place {
                Place::Fixed(at) => space.areas.accounted(at..at.saturating_add(len)),
                _ => 0,
            };
            space.areas.commit(len - replaced)?;
        }
        let start = space.place(&self.context, request.place, len)?;
        space.areas.reserve(1)?;
        let area = Area {
            start,
            end: start + len,
            rights: request.rights,
            label: request.label,
            flags,
            source: request.source,
        };
        area.announce(&self.me)?;
        space.areas.insert(area);
        Ok(start)
    }

    /// Changes the behaviour of a range of pages.
    pub fn set_flags(&self, range: Range<usize>, flags: Flags, on: bool) -> Result<()> {
        let mut space = self.lock();
        let covered = space.areas.covers(range.clone());
        let changes = |area: &Area| area.flags.has(flags) != on;
        space.areas.check_cuts(&range, changes)?;
        space.areas.reserve(2)?;
        space
            .areas
            .change(range, |area| area.flags = area.flags.set(flags, on));
        if covered { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// Makes one page present; or says that there is no memory for it.
    pub fn populate_page(
        &self,
        page: usize,
        write: bool,
    ) -> Result<core::result::Result<(), Failure>> {
        let space = self.read_lock();
        let area = space
            .areas
            .find_near(page, &space.slot().hint)
            .ok_or(Errno::ENOMEM)?;
        let write = write || area.rights.has(Rights::WRITE) && !area.is_shared();
        let access = if write { Access::Write } else { Access::Read };
        match space.resolve(&self.context, space.slot(), page, access) {
            Err(failure) if failure != Failure::NoMemory => Err(failure.errno()),
            made => Ok(made),
        }
    }

    /// Sets how far the stack may grow, in bytes.
    pub fn set_stack_limit(&self, limit: usize) {
        self.lock().stack_limit = limit;
    }

    /// The first address above the program's, and whether its parts begin at random.
    fn bounds(&self) -> (usize, bool) {
        let space = self.read_lock();
        (space.end, space.random)
    }

    /// Maps the main stack, which grows down from a top that is random unless `norandmaps`; returns the top. `limit` is
    /// how far it may grow, in bytes.
    pub fn map_stack(&self, limit: usize, executable: bool) -> Result<usize> {
        let (end, random) = self.bounds();
        let whole = end.min(MAP_WINDOW);
        let top = aslr::stack_top(whole, random);
        let rights = Rights::READ.with(Rights::WRITE);
        self.map(MapRequest {
            rights: if executable {
                rights.with(Rights::EXECUTE)
            } else {
                rights
            },
            flags: Flags::GROWS_DOWN,
            label: Label::Stack,
            ..MapRequest::anonymous(Place::Fixed(top - STACK_START), STACK_START)
        })?;
        let mut space = self.lock();
        space.stack_limit = limit;
        space.mmap_top = top - limit.clamp(128 << 20, whole / 6 * 5) - aslr::MMAP_GAP;
        space.mmap_top -= aslr::mmap_offset(whole, random);
        Ok(top)
    }

    /// Lets mappings lie one above the other, as Linux once had it.
    pub fn map_upwards(&self) {
        let mut space = self.lock();
        space.mmap_bottom = Some(aslr::mmap_bottom(space.end, space.random));
    }

    /// Lets its parts begin where they always do, not at random.
    pub fn fix_places(&self) {
        self.lock().random = false;
    }

    /// Where the heap of `brk` begins: at or above `end`, the end of the program's data.
    pub fn set_heap_start(&self, end: usize) {
        let mut space = self.lock();
        let start = page_up(end) + aslr::heap_offset(space.end, space.random);
        space.heap = start..start;
    }

    /// Where the heap begins.
    pub fn heap_start(&self) -> usize {
        self.read_lock().heap.start
    }

    /// Moves the end of the heap; returns where it is then. `limit` is the heap's greatest length in bytes.
    pub fn set_heap_end(&self, end: usize, limit: usize) -> usize {
        self.lock().set_heap_end(&self.context, end, limit)
    }

    /// Reads another program's memory; returns how many bytes before the first that cannot be read.
    pub fn read(&self, address: usize, target: &mut [u8]) -> usize {
        self.each_page(
            address,
            target.len(),
            Access::Read,
            |frame, offset, at, len| {
                frame.read(offset, &mut target[at..at + len]);
            },
        )
    }

    /// Writes another program's memory; returns how many bytes before the first that cannot be written.
    pub fn write(&self, address: usize, source: &[u8]) -> usize {
        self.each_page(
            address,
            source.len(),
            Access::Write,
            |frame, offset, at, len| {
                frame.write(offset, &source[at..at + len]);
            },
        )
    }

    /// Writes another program's memory as a debugger does, also where that may not write itself, in a copy of its own;
    /// returns how many bytes before the first that cannot be written.
    pub fn poke(&self, address: usize, source: &[u8]) -> usize {
        let mut done = 0;
        while done < source.len() {
            let at = address.wrapping_add(done);
            let part = (PAGE_SIZE - at % PAGE_SIZE).min(source.len() - done);
            let mut space = self.lock();
            if at >= user_end()
                || space
                    .poke_page(&self.context, at, &source[done..done + part])
                    .is_err()
            {
                break;
            }
            done += part;
        }
        done
    }

    /// The frame that `access` to `address` would use, made if it has to be.
    #[allow(dead_code, reason = "for architectures with guests")]
    pub fn frame(&self, address: usize, access: Access) -> Result<frame::FrameRef> {
        if address >= user_end() {
            return Err(Errno::EFAULT);
        }
        let mut space = self.lock();
        space
            .resolve_alone(&self.context, address, access)
            .map_err(|failure| failure.errno())?;
        space.frame_at(address, access).ok_or(Errno::EFAULT)
    }

    /// The block that `address` lies in, if there is one and it may be written.
    #[allow(dead_code, reason = "for architectures with guests")]
    pub fn block(&self, address: usize) -> Option<block::Shown> {
        let space = self.lock();
        let (_, slot) = space.table.next_block(address..address + 1)?;
        let pte = slot.load();
        let there = pte.valid() && pte.writable();
        there
            .then(|| block::Shown::new(PhysAddr(pte.phys())))
            .flatten()
    }

    /// Visits the frames that `access` to the pages of a range would use, made if they have to be, with their addresses: up to
    /// the first that is not to be had, or as long as `visit` wants more.
    #[allow(dead_code, reason = "for architectures with guests")]
    pub fn frames(
        &self,
        range: Range<usize>,
        access: Access,
        mut visit: impl FnMut(usize, frame::FrameRef) -> bool,
    ) {
        let mut space = self.lock();
        for address in range.step_by(PAGE_SIZE).filter(|at| *at < user_end()) {
            let there = space.frame_at(address, access);
            let frame = there.or_else(|| {
                let made = space.resolve_alone(&self.context, address, access);
                made.ok().and_then(|()| space.frame_at(address, access))
            });
            if !frame.is_some_and(|frame| visit(address, frame)) {
                break;
            }
        }
    }

    fn each_page(
        &self,
        address: usize,
        len: usize,
        access: Access,
        mut visit: impl FnMut(&frame::FrameRef, usize, usize, usize),
    ) -> usize {
        let mut done = 0;
        while done < len {
            let at = address.wrapping_add(done);
            let part = (PAGE_SIZE - at % PAGE_SIZE).min(len - done);
            let mut space = self.lock();
            let present = at < user_end() && space.frame_at(at, access).is_some();
            if at >= user_end()
                || !present && space.resolve_alone(&self.context, at, access).is_err()
            {
                break;
            }
            let Some(frame) = space.frame_at(at, access) else {
                break;
            };
            visit(&frame, at % PAGE_SIZE, done, part);
            done += part;
        }
        done
    }

    /// A copy of this space for a child: private pages are shared until one of both writes.
    pub fn fork(&self) -> Result<Arc<Self>> {
        let mut parent = self.lock();
        let areas = parent.areas.for_child()?;
        let child = Self::with(parent.end, areas, parent.heap.clone(), parent.mmap_top)?;
        child.set_vdso(self.vdso());
        child.set_dumpable(self.dumpable());
        let mut space = child.lock();
        space
            .areas
            .iter()
            .try_for_each(|area| area.announce(&child.me))?;
        space.stack_limit = parent.stack_limit;
        space.mmap_bottom = parent.mmap_bottom;
        parent.split(&self.context, USER_START..parent.end);
        let shared = space.share(&mut parent);
        // What became read-only is forgotten before anybody relies on it, even if the copy is not whole.
        self.context
            .pay_cpus(Change::Narrow, USER_START..user_end());
        drop((space, parent));
        if self.context.shadows.any() {
            self.tell_shadows();
        }
        shared.map(|()| child)
    }

    /// PR_GET_DUMPABLE: 1 if others of the same user may look into it, and a core file may tell of it.
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

    /// Calls `f`, which must not wait, with the area that holds `address`, beside faults on other CPUs.
    pub fn with_area<T>(&self, address: usize, f: impl FnOnce(&Area) -> T) -> Option<T> {
        let space = self.read_lock();
        space.areas.find_near(address, &space.slot().hint).map(f)
    }

    /// The first area that ends above `address`, for `/proc/PID/maps`.
    pub fn area_after(&self, address: usize) -> Option<Area> {
        self.lock().areas.first_after(address).cloned()
    }

    /// The areas that end above `address`, in order; what changes meanwhile is seen or not.
    pub fn areas_from(&self, address: usize) -> impl Iterator<Item = Area> {
        let mut at = address;
        core::iter::from_fn(move || {
            let area = self.area_after(at)?;
            at = area.end;
            Some(area)
        })
    }

    /// All areas.
    pub fn areas(&self) -> impl Iterator<Item = Area> {
        self.areas_from(0)
    }

    /// Whether new mappings are locked.
    pub fn locks_new(&self) -> bool {
        self.locks_new.load(Relaxed)
    }

    /// Makes new mappings be locked, or no longer.
    pub fn set_locks_new(&self, on: bool) {
        self.locks_new.store(on, Relaxed);
    }

    /// Whether areas cover all of a range.
    pub fn covers(&self, range: Range<usize>) -> bool {
        self.lock().areas.covers(range)
    }
}

/// Bytes of the stack that are an area from the start.
const STACK_START: usize = 132 << 10;

impl Drop for AddressSpace {
    fn drop(&mut self) {
        // No CPU runs the space, or it would hold it; when all have forgotten it, none can reach its tables or frames.
        self.context.pay(Change::UnlinkTable, 0..0);
        let space = self.inner.get_mut();
        let mut gather = Gather::dead();
        space.gather_blocks(&mut gather, &(0..space.end));
        let mut areas = space.areas.iter().peekable();
        while let Some(area) = areas.next() {
            space.table.visit(area.range(), &mut |start, entries| {
                gather.take_all(start, entries)
            });
            // What a later area needs goes with the last that does.
            let end = areas.peek().map_or(usize::MAX, |next| next.start);
            drop(space.table.unlink(area.range(), 0..end));
        }
    }
}

/// The address space that a CPU runs: the CPU's own count of it.
pub struct Active(AtomicPtr<AddressSpace>);

impl Active {
    /// None.
    pub const fn new() -> Self {
        Active(AtomicPtr::new(null_mut()))
    }

    /// Takes over a count, or null; lets go of the one before, which the CPU no longer runs. For the CPU itself.
    fn set(&self, space: *mut AddressSpace) {
        let before = self.0.load(Relaxed);
        self.0.store(space, Relaxed);
        if !before.is_null() {
            // SAFETY: `activate` turned a count into this pointer, and it is taken back once.
            drop(unsafe { Arc::from_raw(before) });
        }
    }
}

/// Calls `f` with the address space that this CPU runs, if it runs one. `f` must not wait: another thread's space could be
/// active afterwards.
#[inline(always)]
pub fn with_active<T>(f: impl FnOnce(&AddressSpace) -> T) -> Option<T> {
    let space = cpu::this().space.0.load(Relaxed);
    // SAFETY: the CPU's count keeps the space; only this CPU's next switch, which `f` does not make, gives it back.
    let space = unsafe { space.as_ref() }?;
    // Not by `map`, to which what `f` holds would be copied.
    Some(f(space))
}

/// Leaves this CPU without an address space: before it idles, and before the last thread that holds one lets go of it.
pub fn deactivate() {
    asid::leave(|| {
        // SAFETY: the empty root is never freed.
        unsafe { mmu::activate(mmu::empty_root(), 0) };
    });
    cpu::this().space.set(null_mut());
}

/// Rounds a length up to pages.
fn checked_len(len: usize) -> Result<usize> {
    match len {
        0 => Err(Errno::EINVAL),
        _ if len > user_end() => Err(Errno::ENOMEM),
        _ => Ok(page_up(len)),
    }
}

impl Space {
    /// Finds room for `len` bytes and clears it.
    #[inline]
    pub(super) fn place(&mut self, context: &Context, place: Place, len: usize) -> Result<usize> {
        let whole = self.end;
        let fits = |start: usize| start.checked_add(len).is_some_and(|end| end <= whole);
        let is_free =
            |areas: &Areas, start: usize| areas.touching(start..start + len).next().is_none();
        let start = match place {
            Place::Fixed(start) | Place::Free(start) => start,
            Place::Hint(hint) => {
                let hint = page_up(hint.min(whole));
                if hint >= USER_START && fits(hint) && is_free(&self.areas, hint) {
                    return Ok(hint);
                }
                return self.find_free(len);
            }
        };
        if start % PAGE_SIZE != 0 {
            return Err(Errno::EINVAL);
        }
        if !fits(start) {
            return Err(Errno::ENOMEM);
        }
        if start < USER_START {
            return Err(Errno::EPERM);
        }
        if !is_free(&self.areas, start) {
            if matches!(place, Place::Free(_)) {
                return Err(Errno::EEXIST);
            }
            self.unmap(context, start..start + len)?;
        }
        Ok(start)
    }

    #[inline]
    pub(super) fn find_free(&mut self, len: usize) -> Result<usize> {
        // As Linux does: what could be blocks begins like one.
        let align = if len % block::SIZE == 0 {
            block::SIZE
        } else {
            PAGE_SIZE
        };
        if let Some(bottom) = self.mmap_bottom {
            let found = self.areas.find_free_above(bottom..self.end, len, align);
            return found.ok_or(Errno::ENOMEM);
        }
        let mut below = |top| self.areas.find_free(USER_START..top, len, align);
        below(self.mmap_top)
            .or_else(|| below(self.end))
            .ok_or(Errno::ENOMEM)
    }

    /// ENOMEM where to unmap a range would cut an area into one more than a program may map.
    pub(super) fn check_cut(&self, range: &Range<usize>) -> Result<()> {
        let splits = |area: &Area| area.start < range.start && range.end < area.end;
        if self.areas.is_full() && self.areas.find(range.start).is_some_and(splits) {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// Empties the entries of a range, and with `tables` takes out the tables that cover nothing else.
    pub(super) fn empty(&mut self, context: &Context, range: Range<usize>, tables: bool) {
        self.split_ends(context, &range);
        self.release(context, range.clone());
        if tables && let Some(unlinked) = self.table.unlink(range.clone(), range.clone()) {
            context.pay(Change::UnlinkTable, range);
            drop(unlinked);
        }
    }

    pub(super) fn unmap(&mut self, context: &Context, range: Range<usize>) -> Result<()> {
        self.check_cut(&range)?;
        self.areas.reserve(2)?;
        self.split_ends(context, &range);
        let mut gather = Gather::new(context);
        self.gather(&mut gather, range.clone());
        let empty = self.areas.remove(range.clone());
        let unlinked = self.table.unlink(range.clone(), empty);
        if !gather.settle(unlinked.is_some()) {
            self.taken += gather.taken(None);
            return Ok(());
        }
        let mut rest = Gather::dead();
        self.gather(&mut rest, range);
        if let Some(unlinked) = &unlinked {
            unlinked.each(|entries| rest.take_all(0, entries));
        }
        self.taken += gather.taken(Some(&rest));
        Ok(())
    }

    /// Empties the entries of a range.
    pub(super) fn release(&mut self, context: &Context, range: Range<usize>) {
        let mut gather = Gather::new(context);
        self.gather(&mut gather, range.clone());
        if !gather.settle(false) {
            self.taken += gather.taken(None);
            return;
        }
        let mut rest = Gather::dead();
        self.gather(&mut rest, range);
        self.taken += gather.taken(Some(&rest));
    }

    fn gather(&self, gather: &mut Gather, range: Range<usize>) {
        self.gather_blocks(gather, &range);
        self.table
            .visit(range, &mut |start, entries| gather.take_all(start, entries));
    }

    pub(super) fn protect(
        &mut self,
        context: &Context,
        range: Range<usize>,
        rights: Rights,
    ) -> Result<()> {
        let asked = range.end;
        let range = self.promise(&range, rights)?;
        self.obey(context, range.clone());
        if range.end < asked {
            Err(Errno::ENOMEM)
        } else {
            Ok(())
        }
    }

    /// Changes the rights of the areas in `range` up to the first hole: as in Linux, what is before it changes although the
    /// call fails. Returns what is to follow them.
    pub(super) fn promise(&mut self, range: &Range<usize>, rights: Rights) -> Result<Range<usize>> {
        let range = range.start..self.areas.covered(range.clone());
        let write = rights.has(Rights::WRITE);
        let never = |area: &Area| area.is_shared() && area.flags.has(Flags::NEVER_WRITE);
        if write && self.areas.touching(range.clone()).any(never) {
            return Err(Errno::EACCES);
        }
        let changes = |area: &Area| area.rights != rights;
        self.areas.check_cuts(&range, changes)?;
        if write {
            self.areas.commit_writable(&range)?;
        }
        self.areas.reserve(2)?;
        self.areas.change(range.clone(), |area| {
            area.flags = area.flags.accounted(rights);
            area.rights = rights;
        });
        Ok(range)
    }

    /// Makes the entries of a range agree with its areas' rights.
    pub(super) fn obey(&mut self, context: &Context, range: Range<usize>) {
        self.split(context, range.clone());
        let mut changed = false;
        for area in self.areas.touching(range.clone()) {
            let part = area.start.max(range.start)..area.end.min(range.end);
            self.table.visit(part, &mut |_, entries| {
                for entry in entries {
                    changed |= super::fault::set_rights(area, entry);
                }
            });
        }
        if changed {
            context.pay(Change::Narrow, range);
        }
    }

    /// Writes inside one page, for [`AddressSpace::poke`].
    fn poke_page(&mut self, context: &Context, address: usize, source: &[u8]) -> Result<()> {
        let page = address & !(PAGE_SIZE - 1);
        let area = self.areas.find(page).ok_or(Errno::EFAULT)?;
        let (rights, shared) = (area.rights, area.is_shared());
        let forced = !rights.has(Rights::WRITE);
        if forced && shared {
            return Err(Errno::EFAULT);
        }
        let range = page..page + PAGE_SIZE;
        if forced {
            self.force(context, range.clone(), rights.with(Rights::WRITE))?;
        }
        let written = self
            .resolve_alone(context, address, Access::Write)
            .map_err(|failure| failure.errno())
            .and_then(|()| {
                let frame = self.frame_at(address, Access::Write).ok_or(Errno::EFAULT)?;
                frame.write(address % PAGE_SIZE, source);
                if rights.has(Rights::EXECUTE) {
                    frame.sync_instructions();
                }
                Ok(())
            });
        if forced {
            self.force(context, range, rights)?;
        }
        written
    }

    /// Gives a page other rights for a moment: nothing more is promised.
    fn force(&mut self, context: &Context, page: Range<usize>, rights: Rights) -> Result<()> {
        self.areas.check_cuts(&page, |_| true)?;
        self.areas.reserve(2)?;
        self.areas.change(page.clone(), |area| area.rights = rights);
        self.obey(context, page);
        Ok(())
    }

    fn set_heap_end(&mut self, context: &Context, end: usize, limit: usize) -> usize {
        let Range { start, end: old } = self.heap.clone();
        let (old_top, top) = (page_up(old), page_up(end.min(self.end)));
        if end < start || end - start > limit || end > self.end {
            return old;
        }
        let moved = if top < old_top {
            self.unmap(context, top..old_top).is_ok()
        } else if top > old_top {
            self.grow_heap(old_top, top)
        } else {
            true
        };
        if moved {
            self.heap.end = end;
        }
        self.heap.end
    }

    fn grow_heap(&mut self, from: usize, to: usize) -> bool {
        let free = self.areas.touching(from..to).next().is_none();
        if !free || self.areas.commit(to - from).is_err() || self.areas.reserve(1).is_err() {
            return false;
        }
        self.areas.insert(Area {
            start: from,
            end: to,
            rights: Rights::READ.with(Rights::WRITE),
            label: Label::Heap,
            flags: Flags::ACCOUNT,
            source: Source::Anonymous,
        });
        true
    }

    /// A handle of the frame that the page at `address` maps, if the entry allows the access.
    fn frame_at(&self, address: usize, access: Access) -> Option<frame::FrameRef> {
        let pte = self.table.lookup(address);
        let allowed = pte.valid() && (access == Access::Read || pte.writable());
        let frame = PhysAddr(pte.phys());
        (allowed && frame::may_be_held(frame)).then(|| frame::FrameRef::clone_phys(frame))
    }

    /// Fills this new space with the private pages of `parent`, read-only in both from now on.
    fn share(&mut self, parent: &mut Space) -> Result<()> {
        let Space {
            table,
            areas,
            pages,
            ..
        } = self;
        for area in areas
            .iter()
            .filter(|area| !area.is_shared() && !area.flags.has(Flags::WIPE_ON_FORK))
        {
            let mut failed = None;
            parent.table.visit(area.range(), &mut |start, entries| {
                if failed.is_none() && entries.iter().any(|entry| entry.load() != Pte::EMPTY) {
                    match table.make(start) {
                        Ok(leaf) => *pages += super::fault::share(start, entries, leaf),
                        Err(error) => failed = Some(error),
                    }
                }
            });
            failed.map_or(Ok(()), Err)?;
        }
        Ok(())
    }
}
