//! Page faults: of programs, and of the kernel on program memory.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::general::{CAP_IPC_LOCK, RLIMIT_AS, RLIMIT_MEMLOCK};

use super::asid::Context;
use super::frame::{FRAMES, FrameRef, Owner};
use super::space::{AddressSpace, Space, TAGGED};
use super::space_lock::{Own, Slot};
use super::table::{Entry, Leaf, PageTable, hidden};
use super::totals::Limits;
use super::vma::{PageSource, Rights, Source, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, age, contpte, page_down};
use crate::arch;
use crate::arch::mmu::{Memory, Prot, Pte};
use crate::errno::{Errno, Result};
use crate::upcall;
use crossings::Kind;
use translation::owed::{self, FillUser, Owed, Protect, Touch, Widen};

/// The kind of access; the value is a mask of the rights of which one suffices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Access {
    /// A load, for which any right suffices.
    Read = 7,
    /// A store.
    Write = 2,
    /// An instruction fetch.
    Execute = 4,
}

/// The signal for an unresolved fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// SIGSEGV, SIGBUS or SIGKILL.
    pub signo: u32,
    /// The `si_code`.
    pub code: u32,
}

/// The reason why a fault cannot be resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No VMA contains the address.
    Unmapped,
    /// The VMA does not allow the access.
    Denied,
    /// The page lies beyond the end of the file.
    BeyondEnd,
    /// No memory.
    NoMemory,
    /// The file has to load the page first ([`AddressSpace::fault_paged`]).
    Absent,
    /// A fork or a move has paused between two of its parts: [`AddressSpace::wait_for_access`].
    Paused,
}

impl Failure {
    /// The error that a system call reports.
    pub fn errno(self) -> Errno {
        match self {
            Failure::NoMemory => Errno::ENOMEM,
            _ => Errno::EFAULT,
        }
    }

    /// The reason why a page source failed. Out of line, to keep the test off the successful path.
    #[cold]
    #[inline(never)]
    pub(super) fn of(error: Errno) -> Failure {
        match error {
            Errno::EAGAIN => Failure::Absent,
            // A thread that must die does not retry.
            Errno::ENOMEM | Errno::EINTR => Failure::NoMemory,
            // The file ends before this page, has no room for it, could not read it, or may not be
            // changed: a retry would not succeed either.
            _ => Failure::BeyondEnd,
        }
    }
}

/// Pages that a read fault on a file maps around itself, aligned to this number (fault-around).
const AROUND: usize = contpte::PAGES;

static ZERO: AtomicUsize = AtomicUsize::new(0);

/// Returns the zero page, which all unwritten memory shares. It is not reference-counted.
pub(super) fn zero_frame() -> PhysAddr {
    PhysAddr(ZERO.load(Relaxed))
}

/// PTEs that map the zero page: without and with execute permission. Neither sets GP, since zeroes
/// are not valid instructions.
static ZERO_ENTRIES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Allocates the zero page.
pub(super) fn init() {
    let frame = FrameRef::zeroed(Owner::Kernel).expect("a frame of zeroes");
    ZERO.store(frame.into_phys().0, Relaxed);
    for (entry, execute) in ZERO_ENTRIES.iter().zip([false, true]) {
        let prot = Prot {
            read: true,
            write: false,
            execute,
            guarded: false,
            user: true,
        };
        let pte = Pte::leaf(zero_frame().0, prot, Memory::Normal);
        entry.store(pte.0, Relaxed);
    }
}

/// Marks the tags of the zero page as valid: they are zero too.
pub fn validate_zero_tags() {
    if arch::has_tags() {
        FrameRef::clone_phys(zero_frame()).sync_tags();
    }
}

impl AddressSpace {
    /// Resolves an `access` to `address`. Runs concurrently with other CPUs' faults, unless a stack
    /// must grow or a large mprotect or mremap is in progress: a PTE that it has not reached yet
    /// allows less than its VMA, or will still move.
    #[inline]
    pub fn fault(&self, address: usize, access: Access) -> core::result::Result<(), Failure> {
        let space = self.read_lock();
        if space.late != 0 {
            drop(space);
            return self.fault_late(address, access);
        }
        let done = space.resolve::<false>(self.context(), space.slot(), address, access);
        drop(space);
        match done {
            Err(Failure::Unmapped) => self.fault_alone(address, access),
            done => done,
        }
    }

    /// Runs concurrently with other CPUs' faults only if the space is late for no reason other than
    /// tagged memory.
    #[cold]
    #[inline(never)]
    fn fault_late(&self, address: usize, access: Access) -> core::result::Result<(), Failure> {
        let space = self.read_lock();
        if space.late == TAGGED {
            let done = space.resolve_tagged(self.context(), space.slot(), address, access);
            if done != Err(Failure::Unmapped) {
                return done;
            }
        }
        drop(space);
        self.fault_alone(address, access)
    }

    #[cold]
    #[inline(never)]
    fn fault_alone(&self, address: usize, access: Access) -> core::result::Result<(), Failure> {
        let mut space = self.lock();
        if space.must_wait(&(address..address + 1), access) {
            return Err(Failure::Paused);
        }
        space.resolve_alone(self.context(), address, access)
    }
}

/// Returns the number of bytes that the current process may lock.
fn lock_limit() -> usize {
    match upcall::capable(CAP_IPC_LOCK) {
        true => usize::MAX,
        false => upcall::rlimit(RLIMIT_MEMLOCK),
    }
}

impl Space {
    /// As [`Space::resolve`], with the space locked exclusively, so that a stack may grow. On
    /// success, the translation allows the access.
    pub(super) fn resolve_alone(
        &mut self,
        context: &Context,
        address: usize,
        access: Access,
    ) -> core::result::Result<(), Failure> {
        let page = page_down(address);
        if self.vmas.find(page).is_none() {
            let limits = Limits {
                all: upcall::rlimit(RLIMIT_AS),
                data: usize::MAX,
                locked: lock_limit,
            };
            if !self.vmas.grow_down(page, self.stack_limit, &limits) {
                return Err(Failure::Unmapped);
            }
        }
        self.finish_pending(context, page..page + PAGE_SIZE);
        let own = Slot::new(Own::new());
        let done = if self.is_tagged() {
            self.resolve_tagged(context, &own, address, access)
        } else {
            self.resolve::<false>(context, &own, address, access)
        };
        self.pages = self.pages.wrapping_add(own.data.count());
        done
    }

    /// [`Space::resolve`] where memory may have tags.
    #[cold]
    #[inline(never)]
    pub(super) fn resolve_tagged(
        &self,
        context: &Context,
        own: &Slot,
        address: usize,
        access: Access,
    ) -> core::result::Result<(), Failure> {
        self.resolve::<true>(context, own, address, access)
    }

    /// Resolves an `access` to `address`, or finds that another CPU is about to: then the program
    /// retries. `TAGS`: memory may have tags.
    #[inline]
    pub(super) fn resolve<const TAGS: bool>(
        &self,
        context: &Context,
        own: &Slot,
        address: usize,
        access: Access,
    ) -> core::result::Result<(), Failure> {
        let page = page_down(address);
        let vma = self
            .vmas
            .find_near(page, &own.data.hint)
            .ok_or(Failure::Unmapped)?;
        if !vma.rights.allow(access) {
            return Err(Failure::Denied);
        }
        match self.table.leaf(page) {
            Some(leaf) => self.resolve_page::<false, TAGS>(vma, context, own, leaf, page, access),
            None => self.without_leaf::<TAGS>(vma, context, own, page, access),
        }
    }

    /// As [`Space::resolve`], for a page with a table. If the table is new, the caller pays for it
    /// afterwards.
    #[inline(always)]
    pub(super) fn resolve_page<const NEW_TABLE: bool, const TAGS: bool>(
        &self,
        vma: &Vma,
        context: &Context,
        own: &Slot,
        leaf: Leaf<'_>,
        page: usize,
        access: Access,
    ) -> core::result::Result<(), Failure> {
        let entry = leaf.entry(page);
        let pte = entry.load();
        let change = Page::<NEW_TABLE, TAGS> {
            vma,
            context,
            own,
            table: &self.table,
            leaf,
            entry,
            page,
        };
        let done = if pte == Pte::EMPTY {
            change.fill(access)
        } else if access == Access::Write && !pte.writable() && !pte.is_contiguous() {
            // What is busy is nobody's yet, and a run allows what its VMA does.
            change.make_writable(pte)
        } else {
            change.touch(pte);
            Ok(())
        };
        done.map_err(Failure::of)
    }
}

/// A page whose PTE is about to change, concurrently with other CPUs. A PTE that has changed
/// meanwhile is left alone, since the program retries. The payment for a new table covers the PTEs
/// filled below it.
struct Page<'a, const NEW_TABLE: bool, const TAGS: bool> {
    vma: &'a Vma,
    context: &'a Context,
    own: &'a Slot,
    table: &'a PageTable,
    leaf: Leaf<'a>,
    entry: &'a Entry,
    page: usize,
}

impl<const NEW_TABLE: bool, const TAGS: bool> Page<'_, NEW_TABLE, TAGS> {
    /// Maps the page, whose PTE is empty.
    fn fill(&self, access: Access) -> Result<()> {
        let write = access == Access::Write;
        let Source::File { mapping, offset } = &self.vma.source else {
            return self.fill_anonymous(write);
        };
        let index = (offset + self.page - self.vma.start) >> PAGE_SHIFT;
        let shared = self.vma.is_shared();
        let kind = match (shared, write) {
            (true, true) => Kind::FaultFileWrite,
            (false, true) => Kind::FaultCow,
            (_, false) => Kind::FaultFileRead,
        };
        let filled = if write && !shared {
            let source = mapping.page(index, false)?;
            let copy = FrameRef::new(Owner::Anonymous)?;
            copy.copy_from(&source);
            if TAGS {
                copy.copy_tags_from_phys(source.phys());
            }
            let filled = self.hold_first(kind, copy, true);
            if filled.is_some() {
                count_mapped(1);
            }
            filled
        } else {
            let writable = shared && self.vma.rights.contains(Rights::WRITE);
            let page = mapping.page(index, write)?;
            if !write {
                self.fill_around(&**mapping, index, page);
                return Ok(());
            }
            self.hold_first(kind, page, writable)
        };
        self.pay_fill(filled);
        Ok(())
    }

    fn fill_anonymous(&self, write: bool) -> Result<()> {
        let filled = if write {
            let frame = FrameRef::zeroed(Owner::Anonymous)?;
            self.hold_first(Kind::FaultAnonWrite, frame, true)
        } else {
            let executable = self.vma.rights.contains(Rights::EXECUTE);
            let pte = Pte(ZERO_ENTRIES[usize::from(executable)].load(Relaxed));
            let filled = self
                .entry
                .try_fill(if TAGS && self.vma.rights.contains(Rights::TAGGED) {
                    pte.with_tags()
                } else {
                    pte
                });
            count(if filled.is_some() {
                Kind::FaultAnonRead
            } else {
                Kind::FaultSpurious
            });
            filled
        };
        self.pay_fill(filled);
        Ok(())
    }

    /// Maps `frame` for a fault of `kind`; none if another CPU was faster.
    #[inline(always)]
    fn hold_first(&self, kind: Kind, frame: FrameRef, writable: bool) -> Option<Owed<FillUser>> {
        let (prot, memory) = (prot(self.vma, writable), memory::<TAGS>(self.vma));
        let new = leaf(&frame, prot, memory);
        let held = hold(self.entry, frame, new);
        if held.is_some() {
            self.own.data.add(1);
            count(kind);
        } else {
            count(Kind::FaultSpurious);
        }
        held
    }

    /// Maps a page of a file for a read, and the surrounding ones that are in the page cache. Out
    /// of line, so that a fault that maps one page needs no stack for it.
    #[inline(never)]
    fn fill_around(&self, mapping: &dyn PageSource, index: usize, page: FrameRef) {
        let window = self.page & !(AROUND * PAGE_SIZE - 1);
        let start = window.max(self.vma.start);
        let end = (window + AROUND * PAGE_SIZE).min(self.vma.end);
        let first = index - (self.page - start) / PAGE_SIZE;
        let mut frames = [const { None }; AROUND];
        mapping.present(first, &mut frames[..(end - start) / PAGE_SIZE]);
        if !TAGS && contpte::is_on() {
            let run = self.leaf.run(self.page);
            match contpte::fill_file_run(self.table, run, self.own, self.vma, frames) {
                Ok(filled) => return self.pay_fill(Some(filled)),
                Err(around) => frames = around,
            }
        }
        let writable = self.vma.is_shared() && self.vma.rights.contains(Rights::WRITE);
        let filled = self.hold_first(Kind::FaultFileRead, page, writable);
        let (prot, memory, mut mapped) = (prot(self.vma, writable), memory::<TAGS>(self.vma), 0);
        let first_frame = Pte::leaf(0, prot, memory).with_young(!age::ahead_is_old());
        for (page, frame) in (start..end).step_by(PAGE_SIZE).zip(&mut frames) {
            let entry = self.leaf.entry(page);
            if let Some(frame) = frame.take()
                && entry.load() == Pte::EMPTY
            {
                make_ready(&frame, prot, memory);
                let new = first_frame.page(frame.phys().0 / PAGE_SIZE);
                if let Some(owed) = hold(entry, frame, new) {
                    owed.leave_to_fault();
                    mapped += 1;
                }
            }
        }
        self.own.data.add(mapped);
        count_mapped(mapped as u64);
        self.pay_fill(filled);
    }

    /// Makes a read-only page writable, copying it first if it is shared.
    fn make_writable(&self, old: Pte) -> Result<()> {
        count(Kind::FaultCow);
        let frame = PhysAddr(old.phys());
        let zero = frame == zero_frame();
        if self.vma.is_shared() || !zero && FRAMES.at(frame).is_anonymous_unique() {
            let new = old.with_writable(true).with_young(true);
            if let Ok(owed) = self.entry.replace::<Widen>(old, new) {
                self.pay(owed);
            }
            if let Source::File { mapping, .. } = &self.vma.source
                && self.vma.is_shared()
            {
                mapping.written();
            }
            return Ok(());
        }
        // Nothing but the entry holds the source. Another thread may replace it meanwhile, and the
        // frame be freed: then this copy is dropped below.
        let copy = FrameRef::new(Owner::Anonymous)?;
        if zero {
            copy.zero_new();
        } else {
            copy.copy_from_phys(frame);
        }
        if TAGS && !zero {
            copy.copy_tags_from_phys(frame);
        }
        let mut old = old;
        if age::copy_touches_source()
            && !old.young()
            && let Ok(owed) = self.entry.replace::<Touch>(old, old.with_young(true))
        {
            owed.leave_to_fault();
            old = old.with_young(true);
        }
        let new = leaf(&copy, prot(self.vma, true), memory::<TAGS>(self.vma));
        if self.entry.replace_frame(old, new, |owed| self.pay(owed)) {
            copy.into_phys();
            if zero {
                self.own.data.add(1);
            } else {
                // SAFETY: the entry held this handle, and no longer does.
                drop(unsafe { FrameRef::from_phys(frame) });
            }
        }
        Ok(())
    }

    /// Handles a PTE that already allows the access, or will shortly: another CPU was faster, this
    /// CPU has not seen the PTE yet, or only the Access flag was clear.
    fn touch(&self, pte: Pte) {
        if pte.young() || !pte.valid() || pte.is_unseen() {
            count(Kind::FaultSpurious);
            if pte.is_unseen() {
                make_visible(self.entry, pte);
            }
            return self.context.recover(self.page);
        }
        count(Kind::FaultAccessFlag);
        if let Ok(owed) = self.entry.replace::<Touch>(pte, pte.with_young(true)) {
            self.pay(owed);
        }
    }

    /// Pays for a filled PTE, or for one that another CPU filled, which this CPU may not have seen
    /// either.
    #[inline(always)]
    fn pay_fill(&self, filled: Option<Owed<FillUser>>) {
        let filled = filled.unwrap_or_else(Owed::new);
        if NEW_TABLE {
            filled.paid_with_table();
        } else {
            self.pay(filled);
        }
    }

    #[inline(always)]
    fn pay<C: owed::Kind>(&self, owed: Owed<C>) {
        self.context.pay(owed, self.page..self.page + PAGE_SIZE);
    }
}

/// Makes a PTE visible that `fence.inject` kept unseen, for a fault that then recovers.
pub(super) fn make_visible(entry: &Entry, pte: Pte) {
    if let Ok(owed) = entry.replace::<FillUser>(pte, pte.revealed().with_young(true)) {
        owed.leave_to_fault();
    }
}

/// Updates a PTE of `vma` to the VMA's rights; none if it already agrees. A page that becomes
/// writable gets write permission by a fault.
pub(super) fn set_rights<const TAGS: bool>(vma: &Vma, entry: &Entry) -> Option<Owed<Protect>> {
    let mut old = entry.load();
    while old != Pte::EMPTY {
        let new = with_rights::<TAGS>(vma, old);
        if new == old {
            return None;
        }
        if vma.rights.contains(Rights::EXECUTE) {
            sync_instructions(old);
        }
        if TAGS && vma.rights.contains(Rights::TAGGED) {
            FrameRef::clone_phys(PhysAddr(old.phys())).sync_tags();
        }
        match entry.replace(old, new) {
            Ok(owed) => return Some(owed),
            // The hardware may set the Access flag concurrently.
            Err(now) => old = now,
        }
    }
    None
}

/// Out of line, so that data pages need no registers for it.
#[cold]
#[inline(never)]
fn sync_instructions(pte: Pte) {
    FrameRef::clone_phys(PhysAddr(pte.phys())).sync_instructions();
}

/// Returns a PTE of `vma` with the VMA's rights.
#[inline(always)]
fn with_rights<const TAGS: bool>(vma: &Vma, old: Pte) -> Pte {
    let writable = vma.rights.contains(Rights::WRITE) && (vma.is_shared() || old.writable());
    let memory = memory::<TAGS>(vma);
    let new = Pte::leaf(old.phys(), prot(vma, writable), memory).with_young(old.young());
    let nothing = match TAGS {
        true => vma.rights.is_none(),
        false => vma.rights == Rights::empty(),
    };
    if nothing { hidden(new) } else { new }
}

/// Copies the private pages of a run of the parent's PTEs, which begins at `start`, to a child's
/// table. File pages are faulted in again. Returns the number of pages and what the parent owes.
pub(super) fn share(start: usize, entries: &[Entry], child: Leaf) -> (usize, Owed<Protect>) {
    let mut pages = 0;
    let mut owed = Owed::new();
    for (entry, copy) in entries.iter().zip(child.from(start)) {
        let mut pte = entry.load();
        if pte == Pte::EMPTY {
            continue;
        }
        let frame = PhysAddr(pte.phys());
        if frame != zero_frame() {
            if !FRAMES.at(frame).is_anonymous() {
                continue;
            }
            if pte.writable() {
                let (old, narrowed) = entry.update(|pte| pte.with_writable(false));
                owed.join(narrowed);
                pte = old.with_writable(false);
            }
            FrameRef::clone_phys(frame).into_phys();
            pages += 1;
        }
        copy.fill::<FillUser>(pte).held_by_nobody();
    }
    (pages, owed)
}

pub(super) fn count(kind: Kind) {
    arch::cpu::this().crossings().add(kind);
}

pub(super) fn count_mapped(pages: u64) {
    arch::cpu::this()
        .crossings()
        .add_n(Kind::MappedPages, pages);
}

/// The protection of a page of `vma`.
pub(super) fn prot(vma: &Vma, writable: bool) -> Prot {
    Prot {
        read: true,
        write: writable,
        execute: vma.rights.contains(Rights::EXECUTE),
        guarded: vma.rights.contains(Rights::GUARDED),
        user: true,
    }
}

/// The memory type of `vma`.
#[inline(always)]
pub(super) fn memory<const TAGS: bool>(vma: &Vma) -> Memory {
    if TAGS && vma.rights.contains(Rights::TAGGED) {
        Memory::TAGGED
    } else {
        Memory::Normal
    }
}

/// Returns a young PTE for `frame`, which is [made ready](make_ready).
#[inline(always)]
fn leaf(frame: &FrameRef, prot: Prot, memory: Memory) -> Pte {
    make_ready(frame, prot, memory);
    Pte::leaf(frame.phys().0, prot, memory)
}

/// If `frame` is to be executable, instruction fetches see its content; if it is tagged, it has
/// tags.
#[inline(always)]
fn make_ready(frame: &FrameRef, prot: Prot, memory: Memory) {
    if prot.execute {
        frame.sync_instructions();
    }
    // Compiled out where the caller knows that there are no tags.
    if memory != Memory::Normal {
        frame.sync_tags();
    }
}

/// Fills an empty PTE with `new`, that of `frame`. None if the PTE was not empty.
#[inline(always)]
fn hold(entry: &Entry, frame: FrameRef, new: Pte) -> Option<Owed<FillUser>> {
    let filled = entry.try_fill(new);
    if filled.is_some() {
        frame.into_phys();
    }
    filled
}
