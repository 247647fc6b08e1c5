//! Free frames: per-CPU caches in front of the buddy allocator, and the reserves.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use super::FrameRef;
use super::meta::{FRAMES, Meta, Owner, total};
use crate::arch::{self, MAX_CPUS};
use crate::errno::{Errno, Result};
use crate::mm::buddy::{self, Buddy, ORDERS};
use crate::mm::fault_inject::should_fail;
use crate::mm::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, alloc_info};
use crate::sync::Mutex;

/// Frames reserved for allocations that cannot fail. Each call needs little: a name, a tree node, a
/// kernel object. A thread that took from the reserve waits before it returns to its program, so
/// few calls do so at a time.
const RESERVE: usize = 512;
/// Memory kept free for those allocations, in KiB, if root wants more (`vm.min_free_kbytes`).
static MIN_FREE: AtomicUsize = AtomicUsize::new(RESERVE * (PAGE_SIZE / 1024));

/// Number of free frames at or below which programs get none.
static LOW: AtomicUsize = AtomicUsize::new(2 * RESERVE);

/// Number of free frames at or below which programs get none. The kernel may take further frames
/// for its own objects on their behalf; the threads then wait.
#[inline(always)]
pub(super) fn low() -> usize {
    LOW.load(Relaxed)
}

/// Number of frames kept free for allocations that cannot fail.
fn min() -> usize {
    low() - RESERVE
}

/// Number of frames, as an order, that move between a CPU and the shared pool at a time.
const BATCH_ORDER: usize = 5;
const BATCH: usize = 1 << BATCH_ORDER;
/// For an optional block, chains with up to this many times its frames are taken apart.
pub(in crate::mm) const CHAINS: usize = 4;

/// The maximum number of chains: allocating a block may have to take all of them apart with the
/// pool locked.
const MOST_CHAINS: usize = 256;

/// The shared pool: the buddy allocator, and in front of it chains of BATCH single frames, which
/// are merged into blocks only when a block is needed. Frames within a chain are linked by their
/// second link, the chains' first frames by the first link.
///
/// A CPU prefers its own chains: their content is in its cache, and in no other's.
pub(super) struct Pool {
    pub(super) buddy: Buddy,
    chains: [u32; MAX_CPUS],
}

pub(super) static POOL: Mutex<Pool> = Mutex::new(Pool {
    buddy: Buddy::new(),
    chains: [0; MAX_CPUS],
});
/// Number of frames in the pool's chains; written only under its lock. In a cache line of its own,
/// apart from data that every fault reads.
static CHAINED: Apart = Apart(AtomicUsize::new(0));

#[repr(align(128))]
struct Apart(AtomicUsize);

impl Pool {
    #[cold]
    #[inline(never)]
    fn keep(chain: u32) {
        let mut pool = POOL.lock();
        if CHAINED.0.load(Relaxed) < MOST_CHAINS * BATCH {
            pool.push(chain);
        } else {
            pool.take_apart(chain);
        }
    }

    /// Frees a chain's frames to the buddy allocator.
    fn take_apart(&mut self, chain: u32) {
        let mut frame = chain;
        while frame != 0 {
            let next = FRAMES.meta(frame).next();
            self.buddy.give(frame, 0);
            frame = next;
        }
    }

    fn push(&mut self, chain: u32) {
        let meta = FRAMES.meta(chain);
        let chains = &mut self.chains[arch::cpu::this().index()];
        meta.set_links(*chains, meta.next());
        *chains = chain;
        CHAINED.0.store(CHAINED.0.load(Relaxed) + BATCH, Relaxed);
    }

    /// Takes the most recent chain of `cpu`.
    fn pop_of(&mut self, cpu: usize) -> Option<u32> {
        let chain = Some(self.chains[cpu]).filter(|&chain| chain != 0)?;
        self.chains[cpu] = FRAMES.meta(chain).links().0;
        CHAINED.0.store(CHAINED.0.load(Relaxed) - BATCH, Relaxed);
        Some(chain)
    }

    /// Takes a chain of any CPU.
    fn pop(&mut self) -> Option<u32> {
        (0..MAX_CPUS).find_map(|cpu| self.pop_of(cpu))
    }

    /// Takes BATCH frames for this CPU: its own chain, a block, or another CPU's chain.
    fn take_batch(&mut self) -> Option<Batch> {
        let own = self.pop_of(arch::cpu::this().index());
        own.map(Batch::Chain)
            .or_else(|| self.buddy.take(BATCH_ORDER).map(Batch::Block))
            .or_else(|| self.pop().map(Batch::Chain))
    }

    /// Takes a block; while there is none, takes up to `chains` chains apart, one at a time.
    fn take_block(&mut self, order: usize, chains: usize) -> Option<u32> {
        for _ in 0..chains {
            let block = self.buddy.take(order);
            if block.is_some() {
                return block;
            }
            let chain = self.pop()?;
            self.take_apart(chain);
        }
        self.buddy.take(order)
    }
}

/// The first frame of BATCH frames.
enum Batch {
    Chain(u32),
    Block(u32),
}

/// A CPU's free frames: a chain in use, and a complete one.
pub struct Cache {
    head: u32,
    count: usize,
    whole: u32,
}

impl Cache {
    /// An empty cache.
    pub const fn new() -> Self {
        Cache {
            head: 0,
            count: 0,
            whole: 0,
        }
    }

    fn take(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        let frame = self.head;
        self.head = FRAMES.meta(frame).next();
        Some(frame)
    }

    fn refill(&mut self, keep: usize) {
        if self.whole != 0 {
            (self.head, self.count) = (core::mem::take(&mut self.whole), BATCH);
            return;
        }
        let mut pool = POOL.lock();
        let rest = free_count().saturating_sub(keep);
        if rest < BATCH {
            if rest > 0
                && let Some(frame) = pool.take_block(0, 1)
            {
                self.give(frame, FRAMES.meta(frame));
            }
            return;
        }
        match pool.take_batch() {
            Some(Batch::Chain(chain)) => (self.head, self.count) = (chain, BATCH),
            Some(Batch::Block(block)) => {
                let frames = block..block + BATCH as u32;
                frames
                    .rev()
                    .for_each(|frame| self.give(frame, FRAMES.meta(frame)));
            }
            None => {
                while self.count < BATCH
                    && let Some(frame) = pool.take_block(0, 1)
                {
                    self.give(frame, FRAMES.meta(frame));
                }
            }
        }
    }

    /// Adds a frame, whose metadata is `meta`.
    fn give(&mut self, frame: u32, meta: &Meta) {
        if self.count == BATCH {
            let before = core::mem::replace(&mut self.whole, self.head);
            if before != 0 {
                Pool::keep(before);
            }
            (self.head, self.count) = (0, 0);
        }
        meta.set_links(0, self.head);
        self.head = frame;
        self.count += 1;
    }
}

#[inline]
pub(super) fn take_one(keep: fn() -> usize, owner: Owner) -> Result<FrameRef> {
    match arch::cpu::this().frames.with(Cache::take) {
        Some(frame) => FrameRef::first(frame, owner),
        None => take_fetched(keep, owner),
    }
}

/// As [`take_one`], with an empty cache. Out of line, so that the fast path needs no stack for it.
/// A thread that gets no frame waits before it returns to its program.
#[cold]
#[inline(never)]
fn take_fetched(keep: fn() -> usize, owner: Owner) -> Result<FrameRef> {
    let frame = arch::cpu::this().frames.with(|cache| {
        cache.refill(keep());
        cache.take()
    });
    match frame {
        Some(frame) => FrameRef::first(frame, owner),
        None => {
            request_memory_wait();
            Err(Errno::ENOMEM)
        }
    }
}

/// Frees a frame, whose metadata is `meta`.
pub(super) fn give_one(frame: u32, meta: &Meta) {
    meta.set_owner(Owner::Kernel);
    alloc_info::FRAMES.remove(PAGE_SIZE);
    arch::cpu::this()
        .frames
        .with(|cache| cache.give(frame, meta));
}

/// Whether enough memory for programs remains after `count` frames are taken. If not, the caller's
/// program waits for memory before it continues.
pub(in crate::mm) fn has_ample(count: usize) -> bool {
    let ample = free_count() >= low() + count;
    // Not if even the exit of all processes could not make enough room.
    if !ample && low() + count < total() / 2 {
        request_memory_wait();
    }
    ample
}

/// Allocates a frame for the kernel, also from its reserve. A thread that used the reserve waits
/// before it returns to its program.
pub(super) fn take_kernel() -> Result<FrameRef> {
    if !is_ample() {
        request_memory_wait();
    }
    take_one(|| 0, Owner::Kernel)
}

/// Allocates a block of 2^`order` frames for the kernel, aligned to its size.
pub(in crate::mm) fn take_block(order: usize) -> Option<PhysAddr> {
    let block = match order {
        0 => return take_kernel().ok().map(FrameRef::into_phys),
        _ => {
            let mut pool = POOL.lock();
            if !has_ample(1 << order) {
                return None;
            }
            pool.take_block(order, MOST_CHAINS)?
        }
    };
    Some(PhysAddr((block as usize) << PAGE_SHIFT))
}

/// Frees a block.
///
/// # Safety
/// `block` came from `take_block(order)`, is freed once, and nobody uses it any more.
pub(in crate::mm) unsafe fn give_block(block: PhysAddr, order: usize) {
    let frame = (block.0 >> PAGE_SHIFT) as u32;
    match order {
        0 => give_one(frame, FRAMES.meta(frame)),
        _ => POOL.lock().buddy.give(frame, order),
    }
}

/// Allocates 2^`order` contiguous frames, aligned to their size, for `owner`, each with one
/// reference; none if there is no such block, or if it would leave programs little.
pub(in crate::mm) fn take_private(order: usize, owner: Owner) -> Option<PhysAddr> {
    let first = {
        let mut pool = POOL.lock();
        if free_count() < low() + (2 << order) || should_fail() {
            return None;
        }
        // A program can do without a block, the kernel cannot.
        let chains = match owner {
            Owner::Kernel => MOST_CHAINS,
            _ => CHAINS << order >> BATCH_ORDER,
        };
        pool.take_block(order, chains)?
    };
    for frame in first..first + (1 << order) {
        let meta = FRAMES.meta(frame);
        meta.set_owner(owner);
        meta.set_spare(0);
        meta.refs.store(1, Relaxed);
        alloc_info::FRAMES.add(PAGE_SIZE);
    }
    Some(PhysAddr((first as usize) << PAGE_SHIFT))
}

/// Frees the frames of `take_private`. Those that have other holders are freed when the last of
/// them drops its handle.
///
/// # Safety
/// `first` came from `take_private(order)`, whose handles are dropped once and by nobody else.
pub(in crate::mm) unsafe fn give_private(first: PhysAddr, order: usize) {
    let first = (first.0 >> PAGE_SHIFT) as u32;
    let frames = first..first + (1 << order);
    if frames.clone().all(|frame| FRAMES.meta(frame).refs() == 1) {
        for frame in frames {
            let meta = FRAMES.meta(frame);
            meta.refs.store(0, Relaxed);
            meta.set_owner(Owner::Kernel);
            alloc_info::FRAMES.remove(PAGE_SIZE);
        }
        return POOL.lock().buddy.give(first, order);
    }
    for frame in frames {
        // SAFETY: the handle is the caller's.
        drop(unsafe { FrameRef::from_phys(PhysAddr((frame as usize) << PAGE_SHIFT)) });
    }
}

/// Records that the thread used the reserve or was refused memory. It may be unable to wait here,
/// so it waits before it returns to its program.
#[cold]
fn request_memory_wait() {
    arch::task::state()
        .work
        .fetch_or(arch::work::MEMORY, Relaxed);
}

/// Whether allocations that can fail may still be made; the caller may have to wait afterwards.
#[inline]
pub fn above_reserve() -> bool {
    free_count() > low() || above_min()
}

/// As [`above_reserve`], when programs cannot get memory any more.
#[cold]
#[inline(never)]
fn above_min() -> bool {
    request_memory_wait();
    free_count() > min()
}

/// Whether programs can get this many frames without touching the kernel's reserve.
pub fn has_beside_reserve(frames: usize) -> bool {
    let enough = free_count() > low() + 2 * frames;
    if !enough {
        request_memory_wait();
    }
    enough
}

/// Whether less than a sixteenth of memory remains before programs get none: too little for
/// allocations that no process's exit frees.
pub fn is_scarce() -> bool {
    free_count() < low() + total() / 16
}

/// Whether user programs can still get memory.
pub fn is_ample() -> bool {
    free_count() > low()
}

/// Number of free frames, excluding those in the CPUs' caches.
pub fn free_count() -> usize {
    buddy::free() + CHAINED.0.load(Relaxed)
}

/// Number of free blocks of 2^n frames, for each n, without the single frames kept ready.
pub fn free_blocks() -> [usize; ORDERS] {
    POOL.lock().buddy.counts()
}

/// The numbers of free frames at or below which only allocations that cannot fail succeed, and at
/// or below which programs get none.
pub fn watermarks() -> (usize, usize) {
    (min(), low())
}

/// The value of `vm.min_free_kbytes`.
pub fn min_free_kbytes() -> usize {
    MIN_FREE.load(Relaxed)
}

/// Sets the memory to keep free, in KiB; at least the kernel's reserve is kept.
pub fn set_min_free_kbytes(kbytes: usize) {
    MIN_FREE.store(kbytes, Relaxed);
    let frames = (kbytes / (PAGE_SIZE / 1024)).max(RESERVE);
    LOW.store(frames + RESERVE, Relaxed);
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn what_is_kept_apart_is_put_together_at_once() {
        let mut frames = alloc::vec::Vec::with_capacity((MOST_CHAINS + 16) * BATCH);
        while frames.len() < frames.capacity() && is_ample() {
            frames.push(super::alloc().unwrap());
        }
        drop(frames);
        assert!(CHAINED.0.load(Relaxed) <= MOST_CHAINS * BATCH);
    }

    fn a_request_that_nobody_could_give_has_nobody_end() {
        let work = &arch::task::state().work;
        work.fetch_and(!arch::work::MEMORY, Relaxed);
        let order = (usize::BITS - total().leading_zeros()) as usize;
        assert!(take_block(order).is_none());
        assert_eq!(work.load(Relaxed) & arch::work::MEMORY, 0);
    }
}
