//! The kernel heap: size classes cut from single frames, with per-CPU free lists for each class.
//! Larger blocks come from the buddy allocator, or from the vmalloc area if it has no block of that
//! size.

extern crate alloc;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::null_mut;

use super::fault_inject::{NoFail, should_fail};
use super::frame::{self, FRAMES, Owner};
use super::vmalloc::block;
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, alloc_info, buddy};
use crate::arch;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;

/// Object sizes in bytes: multiples of 16, and at least 32, so that at most 128 objects fit in a
/// frame.
const SIZES: [usize; CLASSES] = [32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048];
const CLASSES: usize = 12;
const LARGEST: usize = SIZES[CLASSES - 1];

/// The class of each size, in units of sixteen bytes.
const CLASS_OF: [u8; LARGEST / 16 + 1] = {
    let mut classes = [0; LARGEST / 16 + 1];
    let (mut unit, mut class) = (0, 0);
    while unit < classes.len() {
        if unit * 16 > SIZES[class] {
            class += 1;
        }
        classes[unit] = class as u8;
        unit += 1;
    }
    classes
};

fn class_of(layout: &Layout) -> Option<usize> {
    let size = match layout.align() {
        0..=16 => layout.size(),
        align => layout.size().max(align).next_power_of_two(),
    };
    CLASS_OF.get(size.div_ceil(16)).map(|&class| class.into())
}

/// The maximum number of free objects of a class in a CPU's cache; half of them move at a time.
const fn limit(class: usize) -> usize {
    let fit = 2 * PAGE_SIZE / SIZES[class];
    if fit > 64 {
        64
    } else if fit < 8 {
        8
    } else {
        fit
    }
}

/// A singly linked list of free objects: each begins with the address of the next, 0 at the end.
#[derive(Clone, Copy)]
struct List {
    head: usize,
    count: usize,
}

impl List {
    fn push(&mut self, object: usize) {
        // SAFETY: a free, aligned object of at least 32 bytes, which belongs to the allocator.
        unsafe { *(object as *mut usize) = self.head };
        self.head = object;
        self.count += 1;
    }

    fn pop(&mut self) -> Option<usize> {
        let object = self.head;
        if object == 0 {
            return None;
        }
        // SAFETY: objects in the list are free, and `push` wrote their first word.
        self.head = unsafe { *(object as *const usize) };
        self.count -= 1;
        Some(object)
    }
}

/// A CPU's free objects.
pub struct Cache {
    lists: [List; CLASSES],
}

impl Cache {
    /// An empty cache.
    pub const fn new() -> Self {
        Cache {
            lists: [List { head: 0, count: 0 }; CLASSES],
        }
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: usize) {
        let mut slabs = SLABS[class].lock();
        for _ in 0..limit(class) / 2 {
            let Some(object) = slabs.take(class) else {
                break;
            };
            self.lists[class].push(object);
        }
    }

    #[cold]
    #[inline(never)]
    fn drain(&mut self, class: usize) {
        let mut slabs = SLABS[class].lock();
        for _ in 0..limit(class) / 2 {
            if let Some(object) = self.lists[class].pop() {
                slabs.give(object);
            }
        }
    }
}

/// The frames of one class that have a free object, linked through their metadata. `order` is the
/// first object in a frame's own free list (in units of 16 bytes from the frame's start; NONE if
/// empty), and `spare` counts the frame's objects in use.
struct Slabs {
    head: u32,
}

static SLABS: [Mutex<Slabs>; CLASSES] = [const { Mutex::new(Slabs { head: 0 }) }; CLASSES];

impl Slabs {
    fn take(&mut self, class: usize) -> Option<usize> {
        if self.head == 0 {
            self.grow(class)?;
        }
        let slab = self.head;
        let meta = FRAMES.meta(slab);
        let object = address(slab) + meta.order() * 16;
        // SAFETY: a free object of this frame: `grow` or `give` wrote its first word.
        let next = unsafe { *(object as *const usize) };
        meta.set_order(next);
        meta.set_spare(meta.spare() + 1);
        if next == NONE {
            self.unlink(slab);
        }
        Some(object)
    }

    fn give(&mut self, object: usize) {
        let slab = (arch::mmu::virt_to_phys(object) >> PAGE_SHIFT) as u32;
        let meta = FRAMES.meta(slab);
        debug_assert!(meta.owner() == Owner::Slab);
        let first = meta.order();
        // SAFETY: `take` handed the object out and its owner gave it back: it is free, aligned and
        // at least 32 bytes long.
        unsafe { *(object as *mut usize) = first };
        meta.set_order(object % PAGE_SIZE / 16);
        meta.set_spare(meta.spare() - 1);
        if first == NONE {
            self.link(slab);
        }
        let others = self.head != slab || meta.next() != 0;
        if meta.spare() == 0 && others {
            self.unlink(slab);
            alloc_info::FRAMES.add(PAGE_SIZE);
            // SAFETY: `grow` took the frame; it is in no list, and none of its objects is in use.
            unsafe { frame::give_block(PhysAddr((slab as usize) << PAGE_SHIFT), 0) };
        }
    }

    fn grow(&mut self, class: usize) -> Option<()> {
        let slab = (frame::take_block(0)?.0 >> PAGE_SHIFT) as u32;
        alloc_info::FRAMES.remove(PAGE_SIZE);
        let size = SIZES[class];
        let last = PAGE_SIZE / size - 1;
        for index in 0..=last {
            let next = if index == last {
                NONE
            } else {
                (index + 1) * size / 16
            };
            // SAFETY: the frame was just taken; the objects lie inside it.
            unsafe { *((address(slab) + index * size) as *mut usize) = next };
        }
        let meta = FRAMES.meta(slab);
        meta.set_owner(Owner::Slab);
        meta.set_order(0);
        meta.set_spare(0);
        self.link(slab);
        Some(())
    }

    fn link(&mut self, slab: u32) {
        FRAMES.meta(slab).set_links(0, self.head);
        if self.head != 0 {
            let next = FRAMES.meta(self.head);
            next.set_links(slab, next.next());
        }
        self.head = slab;
    }

    fn unlink(&mut self, slab: u32) {
        let (previous, next) = FRAMES.meta(slab).links();
        match previous {
            0 => self.head = next,
            _ => FRAMES
                .meta(previous)
                .set_links(FRAMES.meta(previous).links().0, next),
        }
        if next != 0 {
            FRAMES
                .meta(next)
                .set_links(previous, FRAMES.meta(next).next());
        }
    }
}

/// No object (the last object of a frame begins at least 32 bytes before its end).
const NONE: usize = 255;

fn address(slab: u32) -> usize {
    PhysAddr((slab as usize) << PAGE_SHIFT).linear()
}

/// The allocator.
pub struct Heap;

// SAFETY: blocks are aligned to their class's 16 bytes or to their power-of-two size, are as long
// as requested, and lie in exactly one list until handed out; `dealloc` gets the layout of `alloc`,
// so it finds the same class.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if should_fail() {
            return null_mut();
        }
        let block = take(&layout);
        if !block.is_null() {
            alloc_info::HEAP.add(layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        alloc_info::HEAP.remove(layout.size());
        let Some(class) = class_of(&layout) else {
            if block::contains(block as usize) {
                // SAFETY: as below.
                unsafe { block::give(block as usize, layout.size()) };
            } else if let Some(order) = large(&layout) {
                let start = PhysAddr(arch::mmu::virt_to_phys(block as usize));
                // SAFETY: `alloc` took the block for the same layout, and its owner no longer uses
                // it.
                unsafe { frame::give_block(start, order) };
            }
            return;
        };
        arch::cpu::this().heap.with(|cache| {
            if cache.lists[class].count == limit(class) {
                cache.drain(class);
            }
            cache.lists[class].push(block as usize);
        })
    }
}

/// Takes a block; null without memory.
#[inline(always)]
fn take(layout: &Layout) -> *mut u8 {
    let Some(class) = class_of(layout) else {
        return match large(layout).and_then(frame::take_block) {
            Some(block) => block.linear() as *mut u8,
            None => take_scattered(layout),
        };
    };
    arch::cpu::this().heap.with(|cache| {
        if cache.lists[class].head == 0 {
            cache.refill(class);
        }
        cache.lists[class]
            .pop()
            .map_or(null_mut(), |object| object as *mut u8)
    })
}

/// The size in bytes of a block from which on its frames need not be adjacent.
const SCATTERED: usize = 8 * PAGE_SIZE;

/// A block made of single frames, if there are not enough adjacent ones; null without memory.
#[cold]
#[inline(never)]
fn take_scattered(layout: &Layout) -> *mut u8 {
    let fits = layout.size() >= SCATTERED && layout.align() <= PAGE_SIZE;
    let block = fits.then(|| block::take(layout.size())).flatten();
    block.map_or(null_mut(), |block| block as *mut u8)
}

/// The order of a block that is too large for the classes.
fn large(layout: &Layout) -> Option<usize> {
    let frames = layout.size().max(layout.align()).div_ceil(PAGE_SIZE);
    let order = frames.next_power_of_two().ilog2() as usize;
    (order < buddy::ORDERS).then_some(order)
}

/// Allocates a reference-counted object; ENOMEM when only the kernel's reserve is left.
pub fn try_arc<T>(value: T) -> Result<Arc<T>> {
    let _room = check_room()?;
    Ok(Arc::new(value))
}

/// Memory for a reference-counted object. Large objects are constructed in place instead of moved.
pub struct Room<T>(Arc<MaybeUninit<T>>);

impl<T> Room<T> {
    /// Allocates the memory; ENOMEM when only the kernel's reserve is left.
    pub fn new() -> Result<Self> {
        let _room = check_room()?;
        Ok(Room(Arc::new_uninit()))
    }

    /// Stores the object.
    #[inline(always)]
    pub fn fill(self, object: T) -> Arc<T> {
        // SAFETY: nobody else has a reference to the memory, which holds an object from here on.
        unsafe {
            Arc::as_ptr(&self.0).cast_mut().cast::<T>().write(object);
            self.0.assume_init()
        }
    }
}

/// Allocates a reference-counted object that holds a weak reference to itself; ENOMEM when only the
/// kernel's reserve is left.
pub fn try_arc_cyclic<T>(make: impl FnOnce(&Weak<T>) -> T) -> Result<Arc<T>> {
    let _room = check_room()?;
    Ok(Arc::new_cyclic(make))
}

/// Allocates reference-counted bytes; ENOMEM when only the kernel's reserve is left.
pub fn try_bytes(bytes: &[u8]) -> Result<Arc<[u8]>> {
    let _room = check_room()?;
    Ok(Arc::from(bytes))
}

/// Allocates a boxed object; ENOMEM when only the kernel's reserve is left.
pub fn try_box<T>(value: T) -> Result<Box<T>> {
    let _room = check_room()?;
    Ok(Box::new(value))
}

/// ENOMEM if `bytes` in small allocations would leave less than the kernel's reserve. A few pages
/// are always allowed: the caller's thread waits afterwards.
#[inline]
pub fn check_room_for(bytes: usize) -> Result<()> {
    match bytes / PAGE_SIZE {
        0..16 => Ok(()),
        frames if frame::has_beside_reserve(frames) => Ok(()),
        _ => Err(Errno::ENOMEM),
    }
}

/// Allocates a vector of bytes; ENOMEM when only the kernel's reserve is left.
pub fn try_vec(bytes: &[u8]) -> Result<Vec<u8>> {
    let _room = check_room()?;
    Ok(bytes.to_vec())
}

/// Allocates a vector of bytes: those of `parts`, one after the other.
///
/// # Errors
/// ENOMEM.
pub fn try_concat(parts: &[&[u8]]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    let room = whole.try_reserve_exact(parts.iter().map(|part| part.len()).sum());
    room.map_err(|_| Errno::ENOMEM)?;
    parts.iter().for_each(|part| whole.extend_from_slice(part));
    Ok(whole)
}

/// Formats text into a new string; ENOMEM when only the kernel's reserve is left.
pub fn try_format(arguments: fmt::Arguments) -> Result<String> {
    let _room = check_room()?;
    Ok(alloc::fmt::format(arguments))
}

/// ENOMEM when only the kernel's reserve is left: called before a small allocation that cannot
/// fail, such as a map's node. The caller keeps the result until it has made it.
#[inline]
pub fn check_room() -> Result<NoFail> {
    if frame::above_reserve() && !should_fail() {
        Ok(NoFail::begin())
    } else {
        Err(Errno::ENOMEM)
    }
}
