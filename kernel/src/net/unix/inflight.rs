//! Unix sockets in flight through Unix sockets, and garbage collection of those that no program can
//! receive any more.
//!
//! A socket that is sent over itself, or a cycle of such sockets, would stay open after every
//! program has closed it. As on Linux, the kernel looks for such cycles when a Unix socket is
//! closed and when very many are in flight; it drops the files queued in them, which closes them. A
//! kernel thread does this, because it closes files and takes socket locks that the callers may
//! hold.

use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::fs::File;
use crate::hash::Keyed;
use crate::net::channel::Channel;
use crate::net::scm_rights::MAX_FILES;
use crate::net::socket::{Socket, SocketFile};
use crate::sync::SleepMutex;
use crate::task::clock::SECOND;
use crate::task::sched::cond_resched;
use crate::task::spawn_kernel;
use crate::task::wait_queue::WaitQueue;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use inflight::{Graph, Pace};
use linux_raw_sys::net::AF_UNIX;

/// The number of sockets in flight that triggers a collection (`UNIX_INFLIGHT_TRIGGER_GC`).
const TOO_MANY: usize = 16000;
/// When the next collection is due.
static PACE: Pace = Pace::new(TOO_MANY);
/// The number of its own sockets in flight from which on a user waits for the collection
/// (`UNIX_INFLIGHT_SANE_USER`).
const MANY_OF_A_USER: usize = 8 * MAX_FILES;

/// The graph of files in flight: an edge leads from a file to the file in which it waits. A file
/// sent over a connection that is not accepted yet waits in the connection, which waits in the
/// listening socket.
static GRAPH: SleepMutex<Graph<Weak<File>, Keyed>> = SleepMutex::new(Graph::new(Keyed));
/// Whether the graph may have a cycle.
static CIRCLES: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The number of requested collections, and how many of these a completed one has served; the wait
/// queues of the collecting thread, and of threads that wait for it.
static ASKED: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
static COLLECTOR: WaitQueue = WaitQueue::new();
static COLLECTED: WaitQueue = WaitQueue::new();
/// When a collection was last started for lack of memory, in ticks.
static LACKED: AtomicU64 = AtomicU64::new(0);

/// Creates the thread that looks for cycles.
///
/// # Errors
/// EAGAIN, ENOMEM.
pub fn init() -> Result<()> {
    spawn_kernel("unix_gc", run, 0).map(drop)
}

fn run(_: usize) -> ! {
    loop {
        // It gets no signals.
        _ = COLLECTOR.wait_interruptible(|| !is_done(ASKED.load(Acquire)), None);
        let asked = ASKED.load(Acquire);
        end_garbage();
        PACE.looked(COUNT.load(Relaxed));
        DONE.store(asked, Release);
        COLLECTED.wake_all();
        cond_resched();
    }
}

/// Whether the collection requested with this number is done.
fn is_done(number: u64) -> bool {
    DONE.load(Acquire) >= number
}

/// The Unix socket of a file.
fn socket(file: &File) -> Option<Arc<dyn Socket>> {
    let socket = file.ops_as::<SocketFile>()?.socket().clone();
    (socket.base().domain == AF_UNIX).then_some(socket)
}

/// Notes that the Unix sockets among `files` wait in `channel`. Returns whether there are any;
/// ENOMEM.
pub fn enter(files: &[Arc<File>], channel: &Channel) -> Result<bool> {
    let sockets = || files.iter().filter_map(|file| Some((file, socket(file)?)));
    if sockets().next().is_none() {
        return Ok(false);
    }
    channel.carries();
    let holder = channel.owner();
    let mut graph = GRAPH.lock();
    for (done, (file, socket)) in sockets().enumerate() {
        if graph
            .add(holder, socket.base().number, Arc::downgrade(file))
            .is_err()
        {
            let added = sockets().take(done);
            added.for_each(|(_, socket)| graph.remove(holder, socket.base().number));
            return Err(Errno::ENOMEM);
        }
    }
    if let Some(listener) = channel.listener()
        && !graph.holds(listener, holder)
    {
        // Without memory, the connection counts as one that can be accepted.
        _ = graph.add(listener, holder, Weak::new());
    }
    if graph.is_in_flight(holder) {
        CIRCLES.store(true, Release);
    }
    COUNT.store(graph.len(), Relaxed);
    Ok(true)
}

/// The Unix sockets among `files` no longer wait in the socket with number `holder`.
pub fn leave(files: &[Arc<File>], holder: u64) {
    let mut graph = GRAPH.lock();
    for socket in files.iter().filter_map(|file| socket(file)) {
        graph.remove(holder, socket.base().number);
    }
    COUNT.store(graph.len(), Relaxed);
}

/// The connection with number `accepted` no longer waits in the listening socket.
pub fn accept(listener: u64, accepted: u64) {
    GRAPH.lock().remove(listener, accepted);
}

/// Copies `files` while no collection runs: the copies come from a socket that was open all the
/// time.
pub fn copy(files: &[Arc<File>]) -> Result<Vec<Arc<File>>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(files.len())
        .map_err(|_| Errno::ENOMEM)?;
    let _graph = GRAPH.lock();
    copy.extend(files.iter().cloned());
    Ok(copy)
}

/// Called when a Unix socket is closed.
pub fn closed() {
    collect();
}

/// Starts a collection of the sockets that no program can receive any more. The caller may hold
/// sleeping locks.
pub fn collect() {
    if CIRCLES.load(Acquire) {
        ASKED.fetch_add(1, AcqRel);
        COLLECTOR.wake_all();
    }
}

/// Called before a user that has `sent` files in flight sends `files`: if very many sockets are in
/// flight a collection begins, and a user with many waits for it (`wait_for_unix_gc`).
///
/// # Errors
/// EINTR: the caller was killed.
pub fn await_room(files: &[Arc<File>], sent: usize) -> Result<()> {
    if PACE.is_due(COUNT.load(Relaxed)) {
        collect();
    }
    if sent < MANY_OF_A_USER || !files.iter().any(|file| socket(file).is_some()) {
        return Ok(());
    }
    let asked = ASKED.load(Acquire);
    let done = COLLECTED.wait_killable(|| is_done(asked));
    done.map_err(|_| Errno::EINTR)
}

/// Starts a collection for lack of memory; the caller does not wait for it. True if the caller may
/// expect memory, at most once per second.
pub fn collect_for_memory() -> bool {
    let (now, last) = (time::now_ticks(), LACKED.load(Relaxed));
    let late = now.saturating_sub(last) >= time::ns_to_ticks(SECOND) && CIRCLES.load(Acquire);
    let first = late && LACKED.compare_exchange(last, now, Relaxed, Relaxed).is_ok();
    if first {
        collect();
    }
    first
}

fn end_garbage() {
    let garbage = garbage().unwrap_or_default();
    for file in &garbage {
        if let Some(socket) = socket(file) {
            socket.discard_rights();
        }
        cond_resched();
    }
    for file in garbage {
        drop(file);
        cond_resched();
    }
}

/// The open files of the garbage sockets.
fn garbage() -> Result<Vec<Arc<File>>> {
    let mut dead = Vec::new();
    let mut graph = GRAPH.lock();
    dead.try_reserve_exact(graph.len())
        .map_err(|_| Errno::ENOMEM)?;
    // A file that is in flight `times` times has as many references for that.
    let is_open = |file: &Weak<File>, times| file.strong_count() > times;
    let circles = graph
        .garbage(is_open, |file| dead.extend(file.upgrade()), cond_resched)
        .map_err(|_| Errno::ENOMEM)?;
    CIRCLES.store(circles, Release);
    Ok(dead)
}
