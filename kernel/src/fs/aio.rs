//! Contexts of asynchronous I/O, which keep the results of requests until a program collects them.
//!
//! Requests are executed when they are submitted, as Linux does for files in memory, so a context
//! is a queue of results.

use crate::errno::{Errno, Result};
use crate::fs::poll::WaitSource;
use crate::hash::{self, HashMap};
use crate::mm::AddressSpace;
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_arc;
use crate::sync::Mutex;
use crate::task::{current, sched::cond_resched};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The maximum number of requests of all contexts together (`fs.aio-max-nr`).
pub const MAX: usize = 65536;
/// The minimum size of a context, which on Linux depends on the number of CPUs.
const LEAST: usize = 8;

/// `struct io_event`
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
pub struct Event {
    /// A word that the program chose.
    pub data: u64,
    /// The address of the request.
    pub request: u64,
    /// Its result.
    pub result: i64,
    /// Always 0.
    pub second: i64,
}

/// The sizes of an event, and of Linux's header before the first (`struct aio_ring`).
const EVENT: usize = size_of::<Event>();

/// A context.
pub struct Context {
    share: Share,
    room: usize,
    queue: Mutex<VecDeque<Event>>,
    arrived: Arc<WaitSource>,
    gone: AtomicBool,
}

/// Contexts, by the address of their space, with which they end, and by their names: the addresses
/// at which Linux shares the results with the program. Libraries read that memory, and make the
/// system call if it is zero.
static CONTEXTS: Mutex<HashMap<usize, HashMap<usize, Arc<Context>>>> = Mutex::new(hash::new());
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// The total size of all contexts in requests (`fs.aio-nr`).
pub fn active_requests() -> usize {
    ASKED.load(Acquire)
}

/// The size of the memory at a context's name.
pub fn ring_len(asked: usize) -> usize {
    ((asked.max(LEAST) * 2 + 3) * EVENT).next_multiple_of(PAGE_SIZE)
}

/// Creates a context of `space`, which the caller uses, for `asked` requests. EAGAIN if there are
/// too many.
pub fn create(space: &AddressSpace, address: usize, asked: usize) -> Result<()> {
    let arrived = WaitSource::new()?;
    let context = try_arc(Context {
        share: Share::take(asked)?,
        room: ring_len(asked) / EVENT - 2,
        queue: Mutex::new(VecDeque::new()),
        arrived,
        gone: AtomicBool::new(false),
    })?;
    space.set_aio();
    let mut contexts = CONTEXTS.lock();
    contexts.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    let of_space = contexts.get_or_insert_with(key(space), HashMap::default);
    of_space.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    // This may replace a context whose memory the program has unmapped.
    let before = of_space.insert(address, context);
    drop(contexts);
    drop(before);
    Ok(())
}

/// Ends the contexts of a space that ends.
pub fn exit(space: &AddressSpace) {
    let gone = CONTEXTS.lock().remove(&key(space));
    for context in gone.into_iter().flat_map(HashMap::into_values) {
        drop(context);
        cond_resched();
    }
}

/// The share of a context in [`MAX`].
struct Share(usize);

impl Share {
    fn take(asked: usize) -> Result<Self> {
        let share = Share(asked);
        if ASKED.fetch_add(asked, AcqRel) + asked > MAX {
            return Err(Errno::EAGAIN);
        }
        Ok(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        ASKED.fetch_sub(self.0, AcqRel);
    }
}

fn key(space: &AddressSpace) -> usize {
    core::ptr::from_ref(space).addr()
}

/// The context of `space` with this name; EINVAL.
pub fn find(space: &AddressSpace, address: usize) -> Result<Arc<Context>> {
    let contexts = CONTEXTS.lock();
    let of_space = contexts.get(&key(space));
    let found = of_space.and_then(|of_space| of_space.get(&address));
    found.cloned().ok_or(Errno::EINVAL)
}

/// Ends a context; returns the size of the memory at its name. EINVAL.
pub fn destroy(space: &AddressSpace, address: usize) -> Result<usize> {
    let context = match CONTEXTS.lock().get_mut(&key(space)) {
        Some(of_space) => of_space.remove(&address),
        None => None,
    };
    let context = context.ok_or(Errno::EINVAL)?;
    context.gone.store(true, Release);
    context.arrived.notify();
    Ok(ring_len(context.share.0))
}

impl Context {
    /// The number of results that it has room for.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Reserves room for one more result: EAGAIN if it is full.
    pub fn reserve(&self) -> Result<()> {
        let mut queue = self.queue.lock();
        if queue.len() >= self.room {
            return Err(Errno::EAGAIN);
        }
        queue.try_reserve(1).map_err(|_| Errno::EAGAIN)
    }

    /// Adds a result.
    pub fn complete(&self, event: Event) {
        let mut queue = self.queue.lock();
        if queue.try_reserve(1).is_ok() {
            queue.push_back(event);
        }
        drop(queue);
        self.arrived.notify();
    }

    /// Takes the oldest result.
    pub fn take(&self) -> Option<Event> {
        self.queue.lock().pop_front()
    }

    /// Puts back an event that could not be copied to the program.
    pub fn put_back(&self, event: Event) {
        let mut queue = self.queue.lock();
        if queue.try_reserve(1).is_ok() {
            queue.push_front(event);
        }
    }

    /// Waits for a result until `deadline` (in ticks); false if that passed. EINVAL once the
    /// context has ended.
    pub fn wait(&self, deadline: Option<u64>) -> Result<bool> {
        let gone = || self.gone.load(Acquire);
        let ready = || gone() || !self.queue.lock().is_empty();
        let slack = deadline.map_or(0, |_| current().slack_ticks());
        let came = self.arrived.wait_with_slack(ready, deadline, slack)?;
        if gone() {
            return Err(Errno::EINVAL);
        }
        Ok(came)
    }
}
