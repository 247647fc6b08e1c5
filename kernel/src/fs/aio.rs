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

/// The most requests that all contexts together are made for (`fs.aio-max-nr`).
pub const MAX: usize = 65536;
/// The least that one is made for, which Linux makes depend on the number of CPUs.
const LEAST: usize = 8;

/// `struct io_event`
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
pub struct Event {
    /// The program's own word.
    pub data: u64,
    /// Address of the request.
    pub request: u64,
    /// Its result.
    pub result: i64,
    /// Always 0.
    pub second: i64,
}

/// Bytes of an event, and of what Linux puts before the first (`struct aio_ring`).
const EVENT: usize = size_of::<Event>();

/// A context.
pub struct Context {
    share: Share,
    room: usize,
    queue: Mutex<VecDeque<Event>>,
    arrived: Arc<WaitSource>,
    gone: AtomicBool,
}

/// Contexts by the address of their space, whose end ends them, and by their names: addresses at
/// which Linux shares the results with the program. Libraries read that memory, and make the system
/// call where it is zero.
static CONTEXTS: Mutex<HashMap<usize, HashMap<usize, Arc<Context>>>> = Mutex::new(hash::new());
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Requests that contexts are made for now (`fs.aio-nr`).
pub fn active_requests() -> usize {
    ASKED.load(Acquire)
}

/// Bytes of the memory that is a context's name.
pub fn ring_len(asked: usize) -> usize {
    ((asked.max(LEAST) * 2 + 3) * EVENT).next_multiple_of(PAGE_SIZE)
}

/// Makes a context of `space`, which the caller uses, for `asked` requests. EAGAIN when there are
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

/// A space ends, and with it its contexts.
pub fn exit(space: &AddressSpace) {
    let gone = CONTEXTS.lock().remove(&key(space));
    for context in gone.into_iter().flat_map(HashMap::into_values) {
        drop(context);
        cond_resched();
    }
}

/// The share of [`MAX`] that a context takes.
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

/// The context of `space` that has this name; EINVAL.
pub fn find(space: &AddressSpace, address: usize) -> Result<Arc<Context>> {
    let contexts = CONTEXTS.lock();
    let of_space = contexts.get(&key(space));
    let found = of_space.and_then(|of_space| of_space.get(&address));
    found.cloned().ok_or(Errno::EINVAL)
}

/// Ends a context; the bytes of memory that are its name. EINVAL.
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
    /// For how many results there is room.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Reserves room for one more result: EAGAIN when as many wait as can.
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

    /// Takes the result that waited longest.
    pub fn take(&self) -> Option<Event> {
        self.queue.lock().pop_front()
    }

    /// Puts back an event that could not be handed over.
    pub fn put_back(&self, event: Event) {
        let mut queue = self.queue.lock();
        if queue.try_reserve(1).is_ok() {
            queue.push_front(event);
        }
    }

    /// Waits for a result until `deadline` (in ticks), which makes it false. EINVAL once the
    /// context is ended.
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
