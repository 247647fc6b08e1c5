//! The kernel's vmalloc area: kernel stacks, each above a guard, large blocks of the heap, and
//! mappings of device registers.

extern crate alloc;

pub(super) mod block;

use alloc::vec::Vec;
use core::ops::Range;

use super::frame::{self, FrameRef};
use super::table::PageTable;
use super::{PAGE_SIZE, page_down, page_up};
use crate::arch::mmu::{self, Memory, Prot, Pte};
use crate::arch::{self, KERNEL_STACK_SIZE, cpu};
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use spans::{NoMemory, Span, Spans};
use translation::owed::{Clear, FillKernel, Owed};

/// Size of a stack's slot: the stack is its upper half, so that a single address bit distinguishes
/// the stack from its guard.
const STACK_SLOT: usize = 2 * KERNEL_STACK_SIZE;
/// Maximum number of stacks kept mapped for new threads. TLB maintenance on other CPUs for new and
/// removed mappings is done once per batch: thousands of starting or ending threads would otherwise
/// keep all CPUs busy with it.
const SPARE_STACKS: usize = 2 * UNMAPPED_STACKS;
const UNMAPPED_STACKS: usize = 48;
const MAPPED_STACKS: usize = 8;

const FRAMES: usize = KERNEL_STACK_SIZE / PAGE_SIZE;

/// Slots of stacks, and everything else.
const STACKS: Range<usize> = mmu::VMALLOC.start.next_multiple_of(STACK_SLOT)..MIDDLE;
const OTHERS: Range<usize> = MIDDLE..mmu::VMALLOC.end;
const MIDDLE: usize =
    (mmu::VMALLOC.start + (mmu::VMALLOC.end - mmu::VMALLOC.start) / 2) & !(STACK_SLOT - 1);

/// Addresses that are in use.
struct Used(Range<usize>);

impl Span for Used {
    fn start(&self) -> usize {
        self.0.start
    }

    fn end(&self) -> usize {
        self.0.end
    }
}

struct Area {
    table: PageTable,
    /// The RAM ranges, which contain no device.
    ram: Vec<Range<usize>>,
    /// The addresses that are in use. Their lists are short enough that none of them is allocated
    /// from this area, whose lock is held.
    used: Spans<Used>,
    /// Slots with mapped stacks that belong to no thread.
    stacks: Vec<usize>,
    /// Buffer for the frames of a batch.
    frames: Vec<FrameRef>,
}

static AREA: Mutex<Option<Area>> = Mutex::new(None);

/// Creates the area's tables below the root, so that all address spaces can share them. `ram` is
/// all memory, in bytes.
pub(super) fn init(ram: &[Range<usize>]) {
    let area = Area {
        table: PageTable::kernel(),
        ram: ram.to_vec(),
        used: Spans::new(),
        stacks: Vec::with_capacity(SPARE_STACKS),
        frames: Vec::with_capacity(UNMAPPED_STACKS * FRAMES),
    };
    area.table
        .make_top(mmu::VMALLOC)
        .expect("memory for the vmalloc area's tables");
    *AREA.lock() = Some(area);
}

fn with<T>(f: impl FnOnce(&mut Area) -> T) -> T {
    f(AREA.lock().as_mut().expect("mm::init ran"))
}

impl Area {
    /// Allocates `len` bytes of addresses, the lowest that are free in one of the two parts.
    fn take(&mut self, len: usize, part: Range<usize>) -> Result<usize> {
        let start = self.used.lowest_gap(part, len).ok_or(Errno::ENOMEM)?;
        let reserved = self.used.reserve(start, 1);
        reserved.map_err(|NoMemory| Errno::ENOMEM)?;
        let (list, above) = self.used.edit(start);
        list.insert(above, Used(start..start + len));
        self.used.rebalance(start);
        Ok(start)
    }

    /// Frees the addresses that were allocated from `start` on.
    fn give(&mut self, start: usize) {
        let (list, count) = self.used.edit(start);
        debug_assert!(list[count - 1].start() == start);
        list.remove(count - 1);
        self.used.rebalance(start);
    }

    fn map(&mut self, address: usize, pte: Pte) -> Result<Owed<FillKernel>> {
        let leaf = self.table.make(address, &mut mmu::publish_table)?;
        Ok(leaf.entry(address).fill(pte))
    }

    /// Removes the PTE of a page, if it has one.
    fn unmap(&mut self, address: usize) -> (Pte, Owed<Clear>) {
        match self.table.find(address) {
            Some(entry) => entry.take(),
            None => (Pte::EMPTY, Owed::new()),
        }
    }

    /// Maps new frames for a stack in the upper half of a slot; not yet published to other CPUs.
    fn map_stack(&mut self) -> Result<(usize, Owed<FillKernel>)> {
        let slot = self.take(STACK_SLOT, STACKS)?;
        let mut owed = Owed::new();
        for address in stack_in(slot).step_by(PAGE_SIZE) {
            match self.map_frame(address) {
                Ok(also) => owed.join(also),
                Err(error) => {
                    owed.held_by_nobody();
                    self.unmap_stacks(&[slot]);
                    return Err(error);
                }
            }
        }
        Ok((slot, owed))
    }

    /// Maps a stack, and more for later threads if there is memory.
    fn map_stacks(&mut self) -> Result<usize> {
        let (first, mut owed) = self.map_stack()?;
        let mut range = stack_in(first);
        while mmu::keeps_mappings() && frame::is_ample() && self.stacks.len() < MAPPED_STACKS {
            let Ok((slot, also)) = self.map_stack() else {
                break;
            };
            owed.join(also);
            range = range.start.min(slot)..range.end.max(slot + STACK_SLOT);
            self.stacks.push(slot);
        }
        mmu::publish_kernel(owed, range);
        Ok(first)
    }

    /// Unmaps at most UNMAPPED_STACKS stacks, and frees their frames.
    fn unmap_stacks(&mut self, slots: &[usize]) {
        let mut owed = Owed::new();
        for &slot in slots {
            for address in stack_in(slot).step_by(PAGE_SIZE) {
                owed.join(self.take_frame(address));
            }
        }
        let first = slots.iter().copied().min().unwrap_or_default();
        let last = slots.iter().copied().max().unwrap_or_default();
        mmu::flush_kernel(owed, first + KERNEL_STACK_SIZE..last + STACK_SLOT);
        self.frames.clear();
        slots.iter().for_each(|slot| self.give(*slot));
    }

    /// Keeps the stack of a thread that ended for another one.
    fn keep_stack(&mut self, slot: usize) {
        if !mmu::keeps_mappings() {
            return self.unmap_stacks(&[slot]);
        }
        if self.stacks.len() == SPARE_STACKS {
            let mut slots = [0; UNMAPPED_STACKS];
            slots.copy_from_slice(&self.stacks[..UNMAPPED_STACKS]);
            self.stacks.drain(..UNMAPPED_STACKS);
            self.unmap_stacks(&slots);
        }
        self.stacks.push(slot);
    }
}

/// The addresses of the stack in a slot.
fn stack_in(slot: usize) -> Range<usize> {
    slot + KERNEL_STACK_SIZE..slot + STACK_SLOT
}

/// A kernel stack of KERNEL_STACK_SIZE bytes above an unmapped guard of the same size.
pub struct KernelStack {
    slot: usize,
}

impl KernelStack {
    /// Allocates a mapped stack with arbitrary content.
    pub fn new() -> Result<Self> {
        if let Some(slot) = cpu::this().stacks.with(SpareStacks::take) {
            return Ok(KernelStack { slot });
        }
        with(|area| {
            if let Some(slot) = area.stacks.pop() {
                return Ok(KernelStack { slot });
            }
            area.map_stacks().map(|slot| KernelStack { slot })
        })
    }

    /// The end of the stack.
    pub fn top(&self) -> usize {
        self.slot + STACK_SLOT
    }

    /// The stack's addresses.
    #[cfg(feature = "selftest")]
    pub fn range(&self) -> Range<usize> {
        stack_in(self.slot)
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        let keep = |stacks: &mut SpareStacks| stacks.keep(self.slot);
        if !mmu::keeps_mappings() || !cpu::this().stacks.with(keep) {
            with(|area| area.keep_stack(self.slot));
        }
    }
}

/// A CPU's stacks of threads that have ended, for new threads: this CPU's caches, and no others,
/// hold their lines.
pub struct SpareStacks {
    slots: [usize; Self::MOST],
    count: usize,
}

impl SpareStacks {
    /// The same number as in Linux.
    const MOST: usize = 2;

    /// No stacks yet.
    pub const fn new() -> Self {
        SpareStacks {
            slots: [0; Self::MOST],
            count: 0,
        }
    }

    fn take(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        Some(self.slots[self.count])
    }

    fn keep(&mut self, slot: usize) -> bool {
        let place = self.slots.get_mut(self.count);
        self.count += usize::from(place.is_some());
        place.map(|place| *place = slot).is_some()
    }
}

/// An upper bound for the size of a device's registers.
const DEVICE_MAX: usize = 64 << 20;

/// Maps a device's registers (`len` bytes at physical `base`) forever; returns their virtual
/// address.
///
/// # Errors
/// EINVAL if it cannot be a device, for example because it is memory; ENOMEM.
pub(crate) fn map_device(base: usize, len: usize) -> Result<usize> {
    if len > DEVICE_MAX || base >> 48 != 0 {
        return Err(Errno::EINVAL);
    }
    let pages = page_down(base)..page_up(base + len);
    with(|area| {
        let touches = |ram: &Range<usize>| ram.start < pages.end && pages.start < ram.end;
        if area.ram.iter().any(touches) {
            return Err(Errno::EINVAL);
        }
        let start = area.take(pages.len(), OTHERS)?;
        let mut owed = Owed::new();
        let mapped = (0..pages.len()).step_by(PAGE_SIZE).try_for_each(|offset| {
            let pte = Pte::leaf(pages.start + offset, Prot::KERNEL_DATA, Memory::Device);
            owed.join(area.map(start + offset, pte)?);
            Ok(())
        });
        mmu::publish_kernel(owed, start..start + pages.len());
        mapped?;
        Ok(start + base % arch::PAGE_SIZE)
    })
}

/// Replaces one instruction word of the kernel at `address`, which is never mapped writable there.
///
/// # Safety
/// `address` is that of an instruction that no CPU executes concurrently, and that `word` may
/// replace.
#[allow(dead_code, reason = "the host patches no code")]
pub(crate) unsafe fn patch_code(address: usize, word: u32) {
    let phys = mmu::virt_to_phys(page_down(address));
    with(|area| {
        let window = area
            .take(PAGE_SIZE, OTHERS)
            .expect("addresses for a window");
        let owed = area
            .map(window, Pte::leaf(phys, Prot::KERNEL_DATA, Memory::Normal))
            .expect("memory for a table");
        mmu::publish_kernel(owed, window..window + PAGE_SIZE);
        // SAFETY: the window maps the page of the instruction, which the caller may replace.
        unsafe { core::ptr::write_volatile((window + address % PAGE_SIZE) as *mut u32, word) };
        let (_, owed) = area.unmap(window);
        mmu::flush_kernel(owed, window..window + PAGE_SIZE);
        area.give(window);
    });
    mmu::sync_icache(address, size_of::<u32>());
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn free_addresses_need_no_block_of_the_area_itself() {
        // With this many free ranges, a single list of them would be larger than any adjacent
        // frames.
        const RANGES: usize = 10_000;
        let mut frames: Vec<FrameRef> = Vec::new();
        frames.try_reserve_exact(frame::free_count()).expect("memory");
        while frame::has_ample(4096) {
            frames.push(FrameRef::new(frame::Owner::Kernel).expect("a frame"));
        }
        // Keep one of eight adjacent frames.
        frames.retain(|frame| (frame.phys().0 / PAGE_SIZE).is_multiple_of(8));
        let mut starts = Vec::with_capacity(RANGES);
        let mut blocks = Vec::with_capacity(4096);
        for order in (3..super::buddy::ORDERS).rev() {
            while let Some(block) = frame::take_block(order) {
                blocks.push((block, order));
            }
        }
        starts.extend((0..RANGES).map(|_| with(|area| area.take(PAGE_SIZE, OTHERS).expect("addresses"))));
        let (odd, even) = (1, 0);
        for first in [odd, even] {
            for start in starts.iter().skip(first).step_by(2) {
                with(|area| area.give(*start));
            }
        }
        assert_eq!(with(|area| area.take(PAGE_SIZE, OTHERS).expect("addresses")), starts[0]);
        let start = &starts[0];
        with(|area| area.give(*start));
        // SAFETY: taken above, and used by nobody.
        blocks.iter().for_each(|(block, order)| unsafe { frame::give_block(*block, *order) });
    }
}
