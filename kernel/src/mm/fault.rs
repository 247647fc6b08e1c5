//! Page faults of programs, and of the kernel on their memory.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linux_raw_sys::general::{BUS_ADRERR, SEGV_ACCERR, SEGV_MAPERR, SIGBUS, SIGKILL, SIGSEGV};

use super::area::{Area, PageSource, Rights, Source};
use super::asid::Context;
use super::frame::{FRAMES, FrameRef, Owner};
use super::space::{AddressSpace, Space};
use super::table::{Entry, Leaf, hidden};
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, age, page_down};
use crate::arch;
use crate::arch::mmu::{Memory, Prot, Pte};
use crate::errno::{Errno, Result};
use crate::task;
use crossings::Kind;
use translation::Change;

/// What the access wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// An instruction fetch.
    Execute,
}

/// What the hardware said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// No valid entry.
    Translation,
    /// A valid entry that does not allow the access.
    Permission,
    /// A valid entry with a clear Access flag.
    AccessFlag,
    /// Anything else that a retry may cure.
    Other,
}

/// A fault on an address of the user half.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The address, in bytes.
    pub addr: usize,
    /// What was wanted.
    pub access: Access,
    /// What the hardware said.
    pub cause: Cause,
    /// Whether the program itself faulted, not the kernel on its behalf.
    pub from_user: bool,
}

/// The signal that an incurable fault earns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// SIGSEGV, SIGBUS or SIGKILL.
    pub signo: u32,
    /// The `si_code`.
    pub code: u32,
}

/// Why a fault is not cured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No area there.
    Unmapped,
    /// The area forbids it.
    Denied,
    /// Beyond the end of the file.
    BeyondEnd,
    /// No memory.
    NoMemory,
}

impl Failure {
    /// As a system call reports it.
    pub fn errno(self) -> Errno {
        match self {
            Failure::NoMemory => Errno::ENOMEM,
            _ => Errno::EFAULT,
        }
    }
}

/// Pages that a read fault on a file maps around itself, aligned to their number.
const AROUND: usize = 16;

static ZERO: AtomicUsize = AtomicUsize::new(0);

/// The frame of zeroes that all unwritten memory shares. It is not counted.
pub(super) fn zero_frame() -> PhysAddr {
    PhysAddr(ZERO.load(Relaxed))
}

/// Sets the zero frame aside.
pub(super) fn init() {
    let frame = FrameRef::new(Owner::Kernel).expect("a frame of zeroes");
    frame.zero();
    ZERO.store(frame.into_phys().0, Relaxed);
}

/// Cures a fault of the current program, or says which signal it earns.
pub fn handle_user_fault(fault: Fault) -> core::result::Result<(), Signal> {
    let signal = |signo, code| Err(Signal { signo, code });
    task::with_space(|space| {
        loop {
            match space.fault(fault.addr, fault.access) {
                Ok(()) => return Ok(()),
                Err(Failure::Unmapped) => return signal(SIGSEGV, SEGV_MAPERR),
                Err(Failure::Denied) => return signal(SIGSEGV, SEGV_ACCERR),
                Err(Failure::BeyondEnd) => return signal(SIGBUS, BUS_ADRERR),
                Err(Failure::NoMemory) => {
                    if !task::oom::kill_largest() {
                        return signal(SIGKILL, 0);
                    }
                }
            }
        }
    })
}

impl AddressSpace {
    /// Makes `access` to `address` possible.
    pub fn fault(&self, address: usize, access: Access) -> core::result::Result<(), Failure> {
        self.lock().resolve(self.context(), address, access)
    }
}

impl Space {
    /// Makes `access` to `address` possible: the translation allows it when this returns.
    pub(super) fn resolve(
        &mut self,
        context: &Context,
        address: usize,
        access: Access,
    ) -> core::result::Result<(), Failure> {
        let page = page_down(address);
        if self.areas.find(page).is_none() && !self.areas.grow_down(page, self.stack_limit) {
            return Err(Failure::Unmapped);
        }
        let area = self.areas.find(page).ok_or(Failure::Unmapped)?;
        let allowed = match access {
            Access::Write => area.rights.has(Rights::WRITE),
            Access::Execute => area.rights.has(Rights::EXECUTE),
            Access::Read => !area.rights.is_none(),
        };
        if !allowed {
            return Err(Failure::Denied);
        }
        let leaf = self.table.make(page).map_err(|_| Failure::NoMemory)?;
        let entry = leaf.entry(page);
        let pte = entry.load();
        let change = Page {
            area,
            context,
            leaf,
            entry,
            page,
        };
        let mapped = if pte == Pte::EMPTY {
            change.fill(access)
        } else if access == Access::Write && !pte.writable() {
            change.make_writable(pte)
        } else {
            change.touch(pte);
            Ok(0)
        };
        match mapped {
            Ok(pages) => self.resident += pages,
            Err(Errno::ENXIO) => return Err(Failure::BeyondEnd),
            Err(_) => return Err(Failure::NoMemory),
        }
        Ok(())
    }
}

/// A page whose entry is about to change. The methods return how many pages more the space holds then.
struct Page<'a> {
    area: &'a Area,
    context: &'a Context,
    leaf: Leaf<'a>,
    entry: &'a Entry,
    page: usize,
}

impl Page<'_> {
    /// Maps the page, which holds nothing so far.
    fn fill(&self, access: Access) -> Result<usize> {
        let write = access == Access::Write;
        let Source::File { mapping, offset } = &self.area.source else {
            return self.fill_anonymous(write);
        };
        let index = (offset + self.page - self.area.start) >> PAGE_SHIFT;
        if self.area.is_shared() {
            count(if write {
                Kind::FaultFileWrite
            } else {
                Kind::FaultFileRead
            });
            let writable = self.area.rights.has(Rights::WRITE);
            self.entry
                .fill(leaf(self.area, mapping.page(index, writable)?, writable));
        } else if write {
            count(Kind::FaultCow);
            let source = mapping.page(index, false)?;
            let copy = FrameRef::new(Owner::Anonymous)?;
            copy.copy_from(&source);
            self.entry.fill(leaf(self.area, copy, true));
        } else {
            count(Kind::FaultFileRead);
            self.entry
                .fill(leaf(self.area, mapping.page(index, false)?, false));
        }
        self.context
            .pay(Change::FillUser, self.page..self.page + PAGE_SIZE);
        let ahead = if write {
            0
        } else {
            self.fill_around(&**mapping, index)
        };
        count_mapped(1 + ahead);
        Ok(1 + ahead)
    }

    fn fill_anonymous(&self, write: bool) -> Result<usize> {
        let pte = if write {
            count(Kind::FaultAnonWrite);
            let frame = FrameRef::new(Owner::Anonymous)?;
            frame.zero();
            leaf(self.area, frame, true)
        } else {
            count(Kind::FaultAnonRead);
            Pte::leaf(zero_frame().0, prot(self.area, false), Memory::Normal)
        };
        self.entry.fill(pte);
        self.context
            .pay(Change::FillUser, self.page..self.page + PAGE_SIZE);
        count_mapped(1);
        Ok(write as usize)
    }

    /// Maps what the file holds already of the pages around, while a fault is being paid for.
    fn fill_around(&self, mapping: &dyn PageSource, index: usize) -> usize {
        let window = self.page & !(AROUND * PAGE_SIZE - 1);
        let start = window.max(self.area.start);
        let end = (window + AROUND * PAGE_SIZE).min(self.area.end);
        let first = index - (self.page - start) / PAGE_SIZE;
        let mut frames = [const { None }; AROUND];
        let frames = &mut frames[..(end - start) / PAGE_SIZE];
        mapping.present(first, frames);
        let writable = self.area.is_shared() && self.area.rights.has(Rights::WRITE);
        let mut mapped = 0;
        for (page, frame) in (start..end).step_by(PAGE_SIZE).zip(frames) {
            let entry = self.leaf.entry(page);
            if let Some(frame) = frame.take()
                && entry.load() == Pte::EMPTY
            {
                entry.fill(leaf(self.area, frame, writable).with_young(!age::ahead_is_old()));
                mapped += 1;
            }
        }
        mapped
    }

    /// Allows writing to a page that is mapped without, copying it first if others hold it.
    fn make_writable(&self, old: Pte) -> Result<usize> {
        count(Kind::FaultCow);
        let frame = PhysAddr(old.phys());
        let own = self.area.is_shared()
            || frame != zero_frame() && FRAMES.at(frame).is_anonymous_unique();
        if own {
            self.entry
                .update(|pte| pte.with_writable(true).with_young(true));
            self.context
                .pay(Change::Widen, self.page..self.page + PAGE_SIZE);
            return Ok(0);
        }
        let copy = FrameRef::new(Owner::Anonymous)?;
        if frame == zero_frame() {
            copy.zero();
        } else {
            if age::copy_touches_source() && !old.young() {
                self.entry.update(|pte| pte.with_young(true));
            }
            copy.copy_from_phys(frame);
        }
        self.entry.take();
        self.context
            .pay(Change::Replace, self.page..self.page + PAGE_SIZE);
        self.entry.fill(leaf(self.area, copy, true));
        if frame == zero_frame() {
            return Ok(1);
        }
        // SAFETY: the entry held this handle and is gone.
        drop(unsafe { FrameRef::from_phys(frame) });
        Ok(0)
    }

    /// The entry allows the access already: another CPU was faster, or only the Access flag was clear.
    fn touch(&self, pte: Pte) {
        if pte.young() {
            count(Kind::FaultSpurious);
        } else {
            count(Kind::FaultAccessFlag);
            self.entry.update(|pte| pte.with_young(true));
            self.context
                .pay(Change::Touch, self.page..self.page + PAGE_SIZE);
        }
    }
}

/// Makes an entry of `area` agree with the area's rights; says whether it changed. A page that gains the right to be
/// written gains it by a fault.
pub(super) fn set_rights(area: &Area, entry: &Entry) -> bool {
    let old = entry.load();
    if old == Pte::EMPTY {
        return false;
    }
    let frame = PhysAddr(old.phys());
    let writable = area.rights.has(Rights::WRITE) && (area.is_shared() || old.writable());
    let new = |old: Pte| {
        let new = Pte::leaf(frame.0, prot(area, writable), Memory::Normal).with_young(old.young());
        if area.rights.is_none() {
            hidden(new)
        } else {
            new
        }
    };
    if new(old) == old {
        return false;
    }
    if area.rights.has(Rights::EXECUTE) {
        FrameRef::clone_phys(frame).sync_instructions();
    }
    entry.update(new);
    true
}

/// Gives a child's table what the parent's run of entries, which begins at `start`, holds of private memory. Pages of
/// files come back by faults. Returns how many frames.
pub(super) fn share(start: usize, entries: &[Entry], child: Leaf) -> usize {
    let mut frames = 0;
    for (page, entry) in (start..).step_by(PAGE_SIZE).zip(entries) {
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
                pte = entry
                    .update(|pte| pte.with_writable(false))
                    .with_writable(false);
            }
            FrameRef::clone_phys(frame).into_phys();
            frames += 1;
        }
        child.entry(page).fill(pte);
    }
    frames
}

fn count(kind: Kind) {
    arch::cpu::this().crossings().add(kind);
}

fn count_mapped(pages: usize) {
    arch::cpu::this()
        .crossings()
        .add_n(Kind::MappedPages, pages as u64);
}

/// The protection of a page of `area`.
fn prot(area: &Area, writable: bool) -> Prot {
    Prot {
        read: true,
        write: writable,
        execute: area.rights.has(Rights::EXECUTE),
        user: true,
    }
}

/// A young entry that holds `frame`, whose content the instruction fetch sees if it may be executed.
fn leaf(area: &Area, frame: FrameRef, writable: bool) -> Pte {
    let prot = prot(area, writable);
    if prot.execute {
        frame.sync_instructions();
    }
    Pte::leaf(frame.into_phys().0, prot, Memory::Normal)
}
