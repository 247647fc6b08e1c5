//! Physical frames: one metadata record for each, counted handles, and a cache of free frames for
//! each CPU in front of the buddy allocator.

use core::num::NonZeroU32;
use core::ops::Range;
use core::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence,
};

use super::buddy::{self, Buddy, ORDERS};
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr};
use crate::arch::{self, MAX_CPUS};
use crate::errno::{Errno, Result};
use crate::sync::Mutex;

/// The holder of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Owner {
    /// Firmware, the image, a hole: never handed out.
    Reserved,
    /// On a list of the buddy allocator (only a block's first frame says so).
    Free,
    /// The kernel: page tables, stacks, large heap blocks.
    Kernel,
    /// The heap, cut into objects.
    Slab,
    /// A file's page, or one that a device or several processes share.
    File,
    /// Private memory of user programs.
    Anonymous,
}

/// What is known of a frame. Fields but `refs` change only under the owner's lock, or while one CPU
/// alone has the frame.
#[repr(C)]
pub struct Meta {
    refs: AtomicU32,
    owner: AtomicU8,
    order: AtomicU8,
    spare: AtomicU16,
    links: [AtomicU32; 2],
}

impl Meta {
    /// The owner.
    pub fn owner(&self) -> Owner {
        match self.owner.load(Relaxed) {
            1 => Owner::Free,
            2 => Owner::Kernel,
            3 => Owner::Slab,
            4 => Owner::File,
            5 => Owner::Anonymous,
            _ => Owner::Reserved,
        }
    }

    /// Changes the owner.
    pub fn set_owner(&self, owner: Owner) {
        self.owner.store(owner as u8, Relaxed);
    }

    /// Whether the frame is private memory of user programs.
    pub fn is_anonymous(&self) -> bool {
        self.owner.load(Relaxed) == Owner::Anonymous as u8
    }

    /// The order of a free block, or a small number of the owner's.
    pub fn order(&self) -> usize {
        self.order.load(Relaxed).into()
    }

    /// Changes the order.
    pub fn set_order(&self, order: usize) {
        self.order.store(order as u8, Relaxed);
    }

    /// A number of the owner's.
    pub fn spare(&self) -> u16 {
        self.spare.load(Relaxed)
    }

    /// Changes the owner's number.
    pub fn set_spare(&self, value: u16) {
        self.spare.store(value, Relaxed);
    }

    /// The owner's list: previous and next frame.
    pub fn links(&self) -> (u32, u32) {
        (self.links[0].load(Relaxed), self.links[1].load(Relaxed))
    }

    /// The next frame of the owner's list.
    pub fn next(&self) -> u32 {
        self.links[1].load(Relaxed)
    }

    /// Changes the list's links.
    pub fn set_links(&self, previous: u32, next: u32) {
        self.links[0].store(previous, Relaxed);
        self.links[1].store(next, Relaxed);
    }

    /// Whether one handle or translation alone holds the frame, which is private memory of user
    /// programs.
    pub fn is_anonymous_unique(&self) -> bool {
        self.is_anonymous() && self.refs() == 1
    }

    /// One more handle or translation holds the frame.
    #[inline]
    fn hold(&self) {
        if self.refs.fetch_add(1, Relaxed) >= MOST_REFS {
            self.keep_for_ever();
        }
    }

    /// As Linux's refcount_t: who counts so many loses a frame, but it never goes while somebody
    /// holds it.
    #[cold]
    #[inline(never)]
    fn keep_for_ever(&self) {
        self.refs.store(KEPT, Relaxed);
    }

    /// Claims that so many hold the frame.
    #[cfg(feature = "selftest")]
    pub fn set_refs(&self, refs: u32) {
        self.refs.store(refs, Relaxed);
    }

    /// How many handles and translations hold the frame.
    pub fn refs(&self) -> u32 {
        self.refs.load(Acquire)
    }
}

/// The metadata of all frames between the first and the last of memory.
pub struct Frames {
    /// Address that the record of frame 0 would have.
    biased: AtomicUsize,
    first: AtomicU32,
    end: AtomicU32,
    total: AtomicUsize,
}

/// The one table of frames.
pub static FRAMES: Frames = Frames {
    biased: AtomicUsize::new(0),
    first: AtomicU32::new(0),
    end: AtomicU32::new(0),
    total: AtomicUsize::new(0),
};

impl Frames {
    /// The record of a frame of memory.
    pub fn meta(&self, frame: u32) -> &'static Meta {
        debug_assert!((self.first.load(Relaxed)..self.end.load(Relaxed)).contains(&frame));
        let address = self
            .biased
            .load(Relaxed)
            .wrapping_add(frame as usize * size_of::<Meta>());
        // SAFETY: frame numbers come from this table's own range (checked in debug builds); the
        // array is never freed, aligned, and made of atomics that any bit pattern fits.
        unsafe { &*(address as *const Meta) }
    }

    /// The record of the frame at an address of memory.
    pub fn at(&self, address: PhysAddr) -> &'static Meta {
        self.meta((address.0 >> PAGE_SHIFT) as u32)
    }

    /// The record of any frame number, if it is memory.
    pub fn get(&self, frame: u32) -> Option<&'static Meta> {
        (self.first.load(Relaxed)..self.end.load(Relaxed))
            .contains(&frame)
            .then(|| self.meta(frame))
    }
}

/// Above so many holders, a frame is kept for ever: its count is put back to the middle of what is
/// left.
const MOST_REFS: u32 = 1 << 31;
const KEPT: u32 = 3 << 30;

/// `spare` of a frame that instruction caches agree with.
const FETCHED: u16 = 1;

/// Frames that only what cannot fail may still take when memory runs out. That is little in each
/// call: a name, a node of a tree, an object of the kernel's own. Whoever took of the last frames
/// waits before its program goes on, so few calls at a time do.
const RESERVE: usize = 512;
/// Free frames at which programs get none any more. The kernel's own objects may take the next ones
/// on their behalf, for which they wait afterwards.
const LOW: usize = 2 * RESERVE;
/// How many frames go between a CPU and the shared pool at a time, as an order.
const BATCH_ORDER: usize = 5;
const BATCH: usize = 1 << BATCH_ORDER;
/// How many times as many single frames as it has are looked at for a block that programs can do
/// without.
pub(super) const CHAINS: usize = 4;

/// What the CPUs share: the buddy allocator, and before it chains of BATCH single frames, which
/// become blocks again only when a block is wanted. A chain's frames are linked by their second
/// link, the chains' first frames by the first.
///
/// Chains go back to the CPU that gave them while there are others: their content is in its cache,
/// and nobody else's.
struct Pool {
    buddy: Buddy,
    chains: [u32; MAX_CPUS],
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    buddy: Buddy::new(),
    chains: [0; MAX_CPUS],
});
/// Frames in the pool's chains; written under its lock only, and not beside what every fault reads.
static CHAINED: Apart = Apart(AtomicUsize::new(0));

#[repr(align(128))]
struct Apart(AtomicUsize);

impl Pool {
    #[cold]
    #[inline(never)]
    fn keep(chain: u32) {
        POOL.lock().push(chain);
    }

    fn push(&mut self, chain: u32) {
        let meta = FRAMES.meta(chain);
        let chains = &mut self.chains[arch::cpu::this().index()];
        meta.set_links(*chains, meta.next());
        *chains = chain;
        CHAINED.0.store(CHAINED.0.load(Relaxed) + BATCH, Relaxed);
    }

    /// The last chain of CPU `cpu`.
    fn pop_of(&mut self, cpu: usize) -> Option<u32> {
        let chain = Some(self.chains[cpu]).filter(|&chain| chain != 0)?;
        self.chains[cpu] = FRAMES.meta(chain).links().0;
        CHAINED.0.store(CHAINED.0.load(Relaxed) - BATCH, Relaxed);
        Some(chain)
    }

    /// A chain of any CPU.
    fn pop(&mut self) -> Option<u32> {
        (0..MAX_CPUS).find_map(|cpu| self.pop_of(cpu))
    }

    /// BATCH frames for this CPU: a chain, or else a block.
    fn take_batch(&mut self) -> Option<Batch> {
        let own = self.pop_of(arch::cpu::this().index());
        own.map(Batch::Chain)
            .or_else(|| self.buddy.take(BATCH_ORDER).map(Batch::Block))
            .or_else(|| self.pop().map(Batch::Chain))
    }

    /// A block, for which up to so many `chains` are taken apart, one after the other, while there
    /// is no other.
    fn take_block(&mut self, order: usize, chains: usize) -> Option<u32> {
        for _ in 0..chains {
            let block = self.buddy.take(order);
            if block.is_some() {
                return block;
            }
            let mut frame = self.pop()?;
            while frame != 0 {
                let next = FRAMES.meta(frame).next();
                self.buddy.give(frame, 0);
                frame = next;
            }
        }
        self.buddy.take(order)
    }
}

/// The first frame of BATCH frames.
enum Batch {
    Chain(u32),
    Block(u32),
}

/// A CPU's free frames: a chain in use, and a whole one.
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

    /// Keeps a frame, whose record `meta` is.
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
fn take_one(keep: usize, owner: Owner) -> Result<FrameRef> {
    match arch::cpu::this().frames.with(Cache::take) {
        Some(frame) => FrameRef::first(frame, owner),
        None => take_fetched(keep, owner),
    }
}

/// The same with an empty cache. Apart, so that the others need no stack for it. A thread that gets
/// none waits before its program goes on.
#[cold]
#[inline(never)]
fn take_fetched(keep: usize, owner: Owner) -> Result<FrameRef> {
    let frame = arch::cpu::this().frames.with(|cache| {
        cache.refill(keep);
        cache.take()
    });
    match frame {
        Some(frame) => FrameRef::first(frame, owner),
        None => {
            owe();
            Err(Errno::ENOMEM)
        }
    }
}

/// Gives back a frame, whose record `meta` is.
fn give_one(frame: u32, meta: &Meta) {
    meta.set_owner(Owner::Kernel);
    arch::cpu::this()
        .frames
        .with(|cache| cache.give(frame, meta));
}

/// A counted handle of a frame: cloning counts, dropping the last frees.
#[repr(transparent)]
pub struct FrameRef(NonZeroU32);

impl FrameRef {
    /// A frame of its own for `owner`, its content arbitrary. Fails while a reserve for the kernel
    /// is left.
    pub fn new(owner: Owner) -> Result<FrameRef> {
        take_one(LOW, owner)
    }

    /// A frame of its own for `owner`, filled with zeroes. Fails as [`FrameRef::new`].
    pub fn zeroed(owner: Owner) -> Result<FrameRef> {
        let frame = Self::new(owner)?;
        frame.zero_new();
        Ok(frame)
    }

    /// The first handle of a free frame.
    #[inline]
    fn first(frame: u32, owner: Owner) -> Result<FrameRef> {
        let meta = FRAMES.meta(frame);
        meta.set_owner(owner);
        meta.set_spare(0);
        meta.refs.store(1, Relaxed);
        Self::wrap(frame)
    }

    fn wrap(frame: u32) -> Result<FrameRef> {
        NonZeroU32::new(frame).map(FrameRef).ok_or(Errno::ENOMEM)
    }

    /// The handle that a translation held: `into_phys` undone.
    ///
    /// # Safety
    /// `address` came from `into_phys`, and each such address is taken back once.
    pub(super) unsafe fn from_phys(address: PhysAddr) -> FrameRef {
        debug_assert!(
            FRAMES
                .get((address.0 >> PAGE_SHIFT) as u32)
                .is_some_and(|meta| meta.refs() > 0)
        );
        // SAFETY: `into_phys` never gives frame 0.
        FrameRef(unsafe { NonZeroU32::new_unchecked((address.0 >> PAGE_SHIFT) as u32) })
    }

    /// The handle that a guest's translation held: a handle was forgotten when it was put there.
    ///
    /// # Safety
    /// A handle of the frame at `address` was forgotten, and each such is taken back once.
    #[allow(dead_code, reason = "for architectures with guests")]
    pub unsafe fn from_mapped(address: u64) -> FrameRef {
        // SAFETY: as the caller says.
        unsafe { Self::from_phys(PhysAddr(address as usize)) }
    }

    /// One more handle of a frame that a translation holds, or of the zero frame.
    pub(super) fn clone_phys(address: PhysAddr) -> FrameRef {
        FRAMES.at(address).hold();
        // SAFETY: the count just taken is this handle's own.
        unsafe { FrameRef::from_phys(address) }
    }

    /// Turns the handle into an address that keeps the count: a translation holds it from now on.
    pub(super) fn into_phys(self) -> PhysAddr {
        let address = self.phys();
        core::mem::forget(self);
        address
    }

    /// Where the frame begins.
    pub fn phys(&self) -> PhysAddr {
        PhysAddr((self.0.get() as usize) << PAGE_SHIFT)
    }

    /// The frame's metadata.
    pub fn meta(&self) -> &'static Meta {
        FRAMES.meta(self.0.get())
    }

    /// Whether this handle is the only one.
    #[cfg(feature = "selftest")]
    pub fn is_unique(&self) -> bool {
        self.meta().refs() == 1
    }

    fn bytes(&self) -> *mut u8 {
        self.phys().linear() as *mut u8
    }

    /// The address of a range inside the frame.
    pub(super) fn range(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset <= PAGE_SIZE && len <= PAGE_SIZE - offset,
            "outside the frame"
        );
        self.bytes().wrapping_add(offset)
    }

    /// Makes sure that instruction fetches see what the frame holds.
    pub(super) fn sync_instructions(&self) {
        if self.meta().spare() != FETCHED {
            arch::mmu::sync_icache(self.phys().linear(), PAGE_SIZE);
            self.meta().set_spare(FETCHED);
        }
    }

    /// The kernel is about to write: instruction caches may no longer agree.
    pub(super) fn written(&self) {
        if self.meta().spare() != 0 {
            self.meta().set_spare(0);
        }
    }

    /// Fills the frame with zeroes.
    pub fn zero(&self) {
        self.written();
        self.zero_new();
    }

    /// Fills a new frame, of which no instruction cache knows, with zeroes.
    pub(super) fn zero_new(&self) {
        // SAFETY: the handle keeps the frame; all memory is in the linear map.
        unsafe { arch::mmu::zero_page(self.bytes()) }
    }

    /// Copies another frame's content into a new one.
    pub fn copy_from(&self, source: &FrameRef) {
        self.copy_from_phys(source.phys());
    }

    /// Copies the content of a frame that a translation holds into a new one.
    pub(super) fn copy_from_phys(&self, source: PhysAddr) {
        // SAFETY: the handle keeps this frame and the caller the other; both are in the linear map.
        unsafe { arch::mmu::copy_page(self.bytes(), source.linear() as *const u8) }
    }

    /// Reads bytes from `offset`. A program that writes them at the same time may tear them.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        let source = self.range(offset, target.len());
        // SAFETY: the range lies in a frame that the handle keeps; `target` is the caller's alone.
        unsafe { core::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) }
    }

    /// Writes bytes at `offset`.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn write(&self, offset: usize, source: &[u8]) {
        self.written();
        let target = self.range(offset, source.len());
        // SAFETY: the range lies in a frame that the handle keeps, which holds bytes and no Rust
        // object.
        unsafe { core::ptr::copy_nonoverlapping(source.as_ptr(), target, source.len()) }
    }

    /// The frame as words, for data that a program has mapped and changes at any time: no
    /// instructions.
    #[inline]
    pub fn words(&self) -> &[AtomicU64; PAGE_SIZE / size_of::<u64>()] {
        // SAFETY: the handle keeps the frame as long as the reference, and whoever else has it uses
        // it as plain memory.
        unsafe { &*self.bytes().cast() }
    }

    /// The frame's memory as words of four bytes, with the same promise.
    pub fn halves(&self) -> &[AtomicU32; PAGE_SIZE / size_of::<u32>()] {
        // SAFETY: as in `words`.
        unsafe { &*self.bytes().cast() }
    }

    /// Fills a range with one byte.
    ///
    /// # Panics
    /// If the range leaves the frame.
    pub fn fill(&self, range: Range<usize>, byte: u8) {
        self.written();
        let target = self.range(range.start, range.len());
        // SAFETY: as in `write`.
        unsafe { core::ptr::write_bytes(target, byte, range.len()) }
    }
}

impl Clone for FrameRef {
    fn clone(&self) -> Self {
        self.meta().hold();
        FrameRef(self.0)
    }
}

impl Drop for FrameRef {
    fn drop(&mut self) {
        let meta = self.meta();
        if meta.refs.load(Acquire) == 1 {
            meta.refs.store(0, Relaxed);
        } else {
            match meta.refs.fetch_sub(1, Release) {
                1 => fence(Acquire),
                0..MOST_REFS => return,
                _ => return meta.keep_for_ever(),
            }
        }
        give_one(self.0.get(), meta);
    }
}

/// A frame for a file or the kernel's own bytes, its content arbitrary.
pub fn alloc() -> Result<FrameRef> {
    FrameRef::new(Owner::File)
}

/// A frame for a file or the kernel's own bytes, filled with zeroes.
pub fn alloc_zeroed() -> Result<FrameRef> {
    FrameRef::zeroed(Owner::File)
}

/// A block of 2^`order` frames for the kernel, aligned to its size.
pub(super) fn take_block(order: usize) -> Option<PhysAddr> {
    let block = match order {
        0 => {
            if !is_ample() {
                owe();
            }
            return take_one(0, Owner::Kernel).ok().map(FrameRef::into_phys);
        }
        _ => {
            let mut pool = POOL.lock();
            if free_count() < LOW + (1 << order) {
                owe();
                return None;
            }
            pool.take_block(order, usize::MAX)?
        }
    };
    Some(PhysAddr((block as usize) << PAGE_SHIFT))
}

/// Gives a block of `take_block` back.
pub(super) fn give_block(block: PhysAddr, order: usize) {
    let frame = (block.0 >> PAGE_SHIFT) as u32;
    match order {
        0 => give_one(frame, FRAMES.meta(frame)),
        _ => POOL.lock().buddy.give(frame, order),
    }
}

/// 2^`order` frames in one piece, aligned to its size, for programs' private memory, each held
/// once; none where there is no such piece, or where it would leave programs little.
pub(super) fn take_private(order: usize) -> Option<PhysAddr> {
    let first = {
        let mut pool = POOL.lock();
        if free_count() < LOW + (2 << order) {
            return None;
        }
        pool.take_block(order, CHAINS << order >> BATCH_ORDER)?
    };
    for frame in first..first + (1 << order) {
        let meta = FRAMES.meta(frame);
        meta.set_owner(Owner::Anonymous);
        meta.set_spare(0);
        meta.refs.store(1, Relaxed);
    }
    Some(PhysAddr((first as usize) << PAGE_SHIFT))
}

/// Gives the frames of `take_private` back: those that somebody else holds too when he lets go of
/// them.
///
/// # Safety
/// `first` came from `take_private(order)`, whose handles are taken back once and by nobody else.
pub(super) unsafe fn give_private(first: PhysAddr, order: usize) {
    let first = (first.0 >> PAGE_SHIFT) as u32;
    let frames = first..first + (1 << order);
    if frames.clone().all(|frame| FRAMES.meta(frame).refs() == 1) {
        for frame in frames {
            let meta = FRAMES.meta(frame);
            meta.refs.store(0, Relaxed);
            meta.set_owner(Owner::Kernel);
        }
        return POOL.lock().buddy.give(first, order);
    }
    for frame in frames {
        // SAFETY: the caller's handle of this frame.
        drop(unsafe { FrameRef::from_phys(PhysAddr((frame as usize) << PAGE_SHIFT)) });
    }
}

/// The current thread took some of the last memory, or was refused it. Where it asked it may not be
/// able to wait, so it does before its program goes on.
#[cold]
fn owe() {
    arch::task::state()
        .work
        .fetch_or(arch::work::MEMORY, Relaxed);
}

/// Whether what can fail may still be made; who makes it may have to wait afterwards.
#[inline]
pub fn above_reserve() -> bool {
    let free = free_count();
    if free <= LOW {
        owe();
    }
    free > RESERVE
}

/// Whether programs can be given so many and leave the kernel what it keeps.
pub fn has_beside_reserve(frames: usize) -> bool {
    let enough = free_count() > LOW + 2 * frames;
    if !enough {
        owe();
    }
    enough
}

/// Whether less than a sixteenth of memory is left: too little for what no process's end gives
/// back.
pub fn is_scarce() -> bool {
    free_count() < total() / 16
}

/// Whether user programs can still be given memory.
pub fn is_ample() -> bool {
    free_count() > LOW
}

/// Frames that nobody holds, but those in the CPUs' caches.
pub fn free_count() -> usize {
    buddy::free() + CHAINED.0.load(Relaxed)
}

/// How many free blocks of 2^n frames there are, for each n; without the single frames that are
/// kept ready.
pub fn free_blocks() -> [usize; ORDERS] {
    POOL.lock().buddy.counts()
}

/// The numbers of free frames at which only what cannot fail gets any, and at which programs get
/// none.
pub fn watermarks() -> (usize, usize) {
    (RESERVE, LOW)
}

/// The numbers of the first frame and of that after the last, with those that are not the
/// allocator's.
pub fn span() -> Range<usize> {
    FRAMES.first.load(Relaxed) as usize..FRAMES.end.load(Relaxed) as usize
}

/// Frames that the allocator manages.
pub fn total() -> usize {
    FRAMES.total.load(Relaxed)
}

/// How many frames hold files' pages and private memory of programs: counted one after the other,
/// for reports, so that nobody pays beforehand.
pub fn held_by_programs() -> (usize, usize) {
    let (mut file, mut anonymous) = (0, 0);
    for frame in FRAMES.first.load(Relaxed)..FRAMES.end.load(Relaxed) {
        let meta = FRAMES.meta(frame);
        if meta.refs() > 0 {
            file += usize::from(meta.owner() == Owner::File);
            anonymous += usize::from(meta.owner() == Owner::Anonymous);
        }
    }
    (file, anonymous)
}

/// Builds the metadata and gives all memory but `reserved` to the allocator. Ranges are in bytes.
pub(super) fn init(ram: &[Range<usize>], reserved: &[Range<usize>]) {
    let usable = usable_ram(ram);
    let first = usable
        .clone()
        .map(|r| r.start)
        .min()
        .expect("memory in the device tree")
        >> PAGE_SHIFT;
    let end = usable.clone().map(|r| r.end).max().unwrap_or(0) >> PAGE_SHIFT;
    let size = (end - first) * size_of::<Meta>();
    let array = usable
        .clone()
        .find_map(|r| find_hole(r, reserved, size))
        .expect("room for the metadata of frames");
    // SAFETY: a hole in the reserved ranges inside RAM: nobody's memory, mapped linearly; zeroes
    // are valid records (Owner::Reserved, no reference).
    unsafe { core::ptr::write_bytes(PhysAddr(array).linear() as *mut u8, 0, size) };
    let biased = PhysAddr(array)
        .linear()
        .wrapping_sub(first * size_of::<Meta>());
    FRAMES.biased.store(biased, Relaxed);
    FRAMES.first.store(first as u32, Relaxed);
    FRAMES.end.store(end as u32, Release);

    let buddy = &mut POOL.lock().buddy;
    for range in usable {
        let mut start = range.start.max(PAGE_SIZE);
        while start < range.end {
            let taken = |r: &&Range<usize>| r.contains(&start);
            let metadata = array..array + size;
            if let Some(hit) = reserved.iter().chain([&metadata]).find(taken) {
                start = hit.end.next_multiple_of(PAGE_SIZE);
                continue;
            }
            let next = reserved
                .iter()
                .chain([&metadata])
                .map(|r| r.start / PAGE_SIZE * PAGE_SIZE)
                .filter(|&r| r > start);
            start = give_blocks(buddy, start..next.min().unwrap_or(range.end).min(range.end));
        }
    }
    FRAMES.total.store(buddy::free(), Relaxed);
}

/// Gives whole frames that were reserved to the allocator; the range is in bytes.
pub(super) fn add(range: Range<usize>) {
    let usable = FRAMES.first.load(Relaxed) as usize..FRAMES.end.load(Relaxed) as usize;
    let frames = range.start >> PAGE_SHIFT..range.end >> PAGE_SHIFT;
    if frames.start < frames.end && usable.start <= frames.start && frames.end <= usable.end {
        give_blocks(&mut POOL.lock().buddy, range);
        FRAMES.total.fetch_add(frames.len(), Relaxed);
    }
}

/// Gives a free range to the allocator in the largest blocks that fit; returns its end.
fn give_blocks(buddy: &mut Buddy, range: Range<usize>) -> usize {
    let mut frame = range.start >> PAGE_SHIFT;
    let end = range.end >> PAGE_SHIFT;
    while frame < end {
        let order = (frame.trailing_zeros().min((end - frame).ilog2()) as usize).min(ORDERS - 1);
        buddy.give(frame as u32, order);
        frame += 1 << order;
    }
    range.end.max(range.start + PAGE_SIZE)
}

/// RAM in whole frames whose numbers fit, without what lies so far off that the metadata would eat
/// the memory.
fn usable_ram(ram: &[Range<usize>]) -> impl Iterator<Item = Range<usize>> + Clone {
    let total: usize = ram.iter().map(|r| r.len()).sum();
    let start = ram.iter().map(|r| r.start).min().unwrap_or(0);
    let limit = start
        .saturating_add(total.saturating_mul(16))
        .min(u32::MAX as usize * PAGE_SIZE);
    ram.iter()
        .map(move |r| r.start.next_multiple_of(PAGE_SIZE)..r.end.min(limit) / PAGE_SIZE * PAGE_SIZE)
        .filter(|r| r.start < r.end)
}

/// The lowest place for `size` bytes in `ram` that touches no reserved range.
fn find_hole(ram: Range<usize>, reserved: &[Range<usize>], size: usize) -> Option<usize> {
    let mut start = ram.start;
    while start.checked_add(size)? <= ram.end {
        match reserved
            .iter()
            .filter(|r| r.start < start + size && start < r.end)
            .map(|r| r.end)
            .max()
        {
            Some(end) => start = end.next_multiple_of(PAGE_SIZE),
            None => return Some(start),
        }
    }
    None
}
