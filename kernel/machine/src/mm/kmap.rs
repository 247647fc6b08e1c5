//! The kernel's mapped area: kernel stacks, each above a guard, and windows to devices.

extern crate alloc;

use alloc::vec::Vec;
use core::ops::Range;

use super::frame::{FrameRef, Owner};
use super::table::PageTable;
use super::{PAGE_SIZE, PhysAddr, page_down, page_up};
use crate::arch::mmu::{self, Memory, Prot, Pte};
use crate::arch::{self, KERNEL_STACK_SIZE};
use crate::errno::{Errno, Result};
use crate::sync::Mutex;

/// A stack's slot: the stack is its upper half, so that one bit of an address tells the stack from its guard.
const STACK_SLOT: usize = 2 * KERNEL_STACK_SIZE;
/// Stacks kept mapped for the next threads.
const SPARE_STACKS: usize = 32;

struct Area {
    table: PageTable,
    free: Vec<Range<usize>>,
    stacks: Vec<usize>,
}

static AREA: Mutex<Option<Area>> = Mutex::new(None);

/// Makes the area's tables below the root, so that every address space can share them.
pub(super) fn init() {
    let mut area = Area {
        table: PageTable::kernel(),
        free: Vec::new(),
        stacks: Vec::with_capacity(SPARE_STACKS),
    };
    area.table
        .make_top(mmu::MAPPED_AREA)
        .expect("memory for the mapped area's tables");
    area.free.push(mmu::MAPPED_AREA);
    *AREA.lock() = Some(area);
}

fn with<T>(f: impl FnOnce(&mut Area) -> T) -> T {
    f(AREA.lock().as_mut().expect("mm::init ran"))
}

impl Area {
    /// Takes `len` bytes of addresses, aligned to `align`.
    fn take(&mut self, len: usize, align: usize) -> Result<usize> {
        self.free.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let fits = |r: &Range<usize>| r.start.next_multiple_of(align) + len <= r.end;
        let at = self.free.iter().position(fits).ok_or(Errno::ENOMEM)?;
        let range = self.free[at].clone();
        let start = range.start.next_multiple_of(align);
        self.free[at] = start + len..range.end;
        if start > range.start {
            self.free.insert(at, range.start..start);
        } else if self.free[at].is_empty() {
            self.free.remove(at);
        }
        Ok(start)
    }

    /// Gives addresses back, joined with what is free beside them.
    fn give(&mut self, range: Range<usize>) {
        let at = self.free.partition_point(|r| r.start < range.start);
        let before = at
            .checked_sub(1)
            .filter(|&b| self.free[b].end == range.start);
        let after = self.free.get(at).is_some_and(|r| r.start == range.end);
        match (before, after) {
            (Some(b), true) => self.free[b].end = self.free.remove(at).end,
            (Some(b), false) => self.free[b].end = range.end,
            (None, true) => self.free[at].start = range.start,
            (None, false) => self.free.insert(at, range),
        }
    }

    fn map(&mut self, address: usize, pte: Pte) -> Result<()> {
        self.table.make(address)?.entry(address).fill(pte);
        Ok(())
    }

    /// Maps new frames for a stack at the top of the slot at `slot`.
    fn map_stack(&mut self, slot: usize) -> Result<()> {
        for address in (slot + KERNEL_STACK_SIZE..slot + STACK_SLOT).step_by(PAGE_SIZE) {
            let frame = FrameRef::new(Owner::Kernel)?;
            self.map(
                address,
                Pte::leaf(frame.phys().0, Prot::KERNEL_DATA, Memory::Normal),
            )?;
            frame.into_phys();
        }
        mmu::publish_kernel(slot + KERNEL_STACK_SIZE..slot + STACK_SLOT);
        Ok(())
    }

    fn unmap_stack(&mut self, slot: usize) {
        let range = slot + KERNEL_STACK_SIZE..slot + STACK_SLOT;
        let mut frames = [const { None }; KERNEL_STACK_SIZE / PAGE_SIZE];
        for (address, frame) in range.clone().step_by(PAGE_SIZE).zip(&mut frames) {
            let pte = self
                .table
                .find(address)
                .map_or(Pte::EMPTY, |entry| entry.take());
            // SAFETY: `map_stack` left this frame's handle in the entry, which is gone now.
            *frame = pte
                .valid()
                .then(|| unsafe { FrameRef::from_phys(PhysAddr(pte.phys())) });
        }
        mmu::flush_kernel(range);
        drop(frames);
        self.give(slot..slot + STACK_SLOT);
    }
}

/// A kernel stack of KERNEL_STACK_SIZE bytes above an unmapped guard of the same size.
pub struct KernelStack {
    slot: usize,
}

impl KernelStack {
    /// A mapped stack, its content arbitrary.
    pub fn new() -> Result<Self> {
        with(|area| {
            if let Some(slot) = area.stacks.pop() {
                return Ok(KernelStack { slot });
            }
            let slot = area.take(STACK_SLOT, STACK_SLOT)?;
            let mapped = area.map_stack(slot);
            if mapped.is_err() {
                area.unmap_stack(slot);
            }
            mapped.map(|()| KernelStack { slot })
        })
    }

    /// The address just above the stack.
    pub fn top(&self) -> usize {
        self.slot + STACK_SLOT
    }

    /// The stack's addresses.
    #[cfg(feature = "selftest")]
    pub fn range(&self) -> Range<usize> {
        self.slot + KERNEL_STACK_SIZE..self.top()
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        with(|area| {
            if area.stacks.len() < SPARE_STACKS && mmu::keeps_mappings() {
                area.stacks.push(self.slot);
            } else {
                area.unmap_stack(self.slot);
            }
        });
    }
}

/// More than any device's registers take.
const DEVICE_MAX: usize = 64 << 20;

/// Maps a device's registers (`len` bytes at physical `base`) for ever; returns the address of the first.
///
/// # Errors
/// EINVAL for what cannot be a device; ENOMEM.
pub fn map_device(base: usize, len: usize) -> Result<usize> {
    if len > DEVICE_MAX || base >> 48 != 0 {
        return Err(Errno::EINVAL);
    }
    let pages = page_down(base)..page_up(base + len);
    with(|area| {
        let start = area.take(pages.len(), PAGE_SIZE)?;
        for offset in (0..pages.len()).step_by(PAGE_SIZE) {
            let pte = Pte::leaf(pages.start + offset, Prot::KERNEL_DATA, Memory::Device);
            area.map(start + offset, pte)?;
        }
        mmu::publish_kernel(start..start + pages.len());
        Ok(start + base % arch::PAGE_SIZE)
    })
}

/// Replaces one instruction word of the kernel at `address`, whose own mapping is never writable.
pub fn patch_code(address: usize, word: u32) {
    let phys = mmu::virt_to_phys(page_down(address));
    with(|area| {
        let window = area
            .take(PAGE_SIZE, PAGE_SIZE)
            .expect("addresses for a window");
        area.map(window, Pte::leaf(phys, Prot::KERNEL_DATA, Memory::Normal))
            .expect("memory for a table");
        mmu::publish_kernel(window..window + PAGE_SIZE);
        // SAFETY: the window shows the page of the instruction, which no other CPU executes while the kernel boots.
        unsafe { core::ptr::write_volatile((window + address % PAGE_SIZE) as *mut u32, word) };
        if let Some(entry) = area.table.find(window) {
            entry.take();
        }
        mmu::flush_kernel(window..window + PAGE_SIZE);
        area.give(window..window + PAGE_SIZE);
    });
    mmu::sync_icache(address, size_of::<u32>());
}
