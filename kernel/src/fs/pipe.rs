//! Pipes: rings of frames; bytes are copied directly between them and user memory.

use super::file::{File, FileOps, OpenFlags};
use super::inode::{Attr, Inode, Kind, SetAttr, Time};
use super::io::{Sink, Source};
use super::path::Path;
use super::poll::{Events, PollTable, WaitSource};
use super::ring::Ring;
use super::simple_attr::SimpleAttr;
use crate::arch::time;
use crate::errno::{Errno, Result};
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::sync::{Mutex, SleepMutex};
use crate::task::sched::cond_resched_interruptible;
use crate::task::user::User;
use crate::task::{can, current, oom, require, signal};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use linux_raw_sys::general::{
    CAP_SYS_ADMIN, CAP_SYS_RESOURCE, O_ACCMODE, O_RDWR, O_WRONLY, S_IFIFO, SIGPIPE,
};
use linux_raw_sys::ioctl::FIONREAD;

/// Writes up to this size are atomic.
pub const ATOMIC: usize = 4096;
/// Pages of a new pipe, as on Linux.
const PAGES: usize = 16;
/// The maximum size of a pipe without CAP_SYS_RESOURCE (`/proc/sys/fs/pipe-max-size`).
static MAX_SIZE: AtomicUsize = AtomicUsize::new(1 << 20);
/// The maximum size of any pipe.
const LARGEST: usize = 1 << 31;
/// Soft and hard limits on the pages of a user's pipes: beyond the first new pipes are small, and
/// the second cannot be exceeded; 0 for no limit (`/proc/sys/fs/pipe-user-pages-soft` and `-hard`).
pub static USER_PAGES_SOFT: AtomicUsize = AtomicUsize::new(16384);
/// The hard limit.
pub static USER_PAGES_HARD: AtomicUsize = AtomicUsize::new(0);
/// The size in pages of a new pipe beyond the soft limit.
const FEW_PAGES: usize = 2;

fn is_beyond(limit: &AtomicUsize, pages: usize) -> bool {
    let limit = limit.load(Relaxed);
    limit != 0 && pages > limit
}

/// The charge of a pipe's pages to its creator.
struct Charge {
    user: Arc<User>,
    pages: AtomicUsize,
}

impl Charge {
    /// Changes the charge to `pages`; returns the user's sum.
    fn change(&self, pages: usize) -> usize {
        let before = self.pages.swap(pages, Relaxed);
        let others = self.user.pipe_pages.fetch_sub(before, Relaxed) - before;
        self.user.pipe_pages.fetch_add(pages, Relaxed);
        others + pages
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.change(0);
    }
}

/// Whether the limits for users apply to the caller.
fn is_limited() -> bool {
    !can(CAP_SYS_RESOURCE) && !can(CAP_SYS_ADMIN)
}

/// The maximum size of a pipe without CAP_SYS_RESOURCE, in bytes.
pub fn max_size() -> usize {
    MAX_SIZE.load(Relaxed)
}

/// Changes the maximum, rounded up as sizes are.
///
/// # Errors
/// EINVAL.
pub fn set_max_size(size: usize) -> Result<()> {
    MAX_SIZE.store(pages_for(size)? * PAGE_SIZE, Relaxed);
    Ok(())
}

/// The pages of a pipe of `size` bytes.
fn pages_for(size: usize) -> Result<usize> {
    if size > LARGEST {
        return Err(Errno::EINVAL);
    }
    Ok(size.div_ceil(PAGE_SIZE).max(1).next_power_of_two())
}

/// A pipe.
pub struct Pipe {
    ring: SleepMutex<Ring>,
    /// The number of bytes in the ring, and its capacity, for readers without the lock.
    len: AtomicUsize,
    capacity: AtomicUsize,
    readers: AtomicU32,
    writers: AtomicU32,
    /// The number of times that each end was opened: the opener of a FIFO waits until the other end
    /// is opened, even if that has been closed again.
    opened: [AtomicU32; 2],
    readable: Arc<WaitSource>,
    writable: Arc<WaitSource>,
    number: u64,
    attr: SimpleAttr,
    uses: Uses,
    /// The place where a FIFO keeps its uses afterwards.
    kept: Option<Arc<Uses>>,
    charge: Charge,
}

/// The times of the last read and the last write, in ticks, since its times were last requested; 0
/// for none.
#[derive(Default)]
struct Uses {
    read: AtomicU64,
    written: AtomicU64,
}

impl Uses {
    /// Takes the two times.
    fn take(&self) -> [Option<Time>; 2] {
        [&self.read, &self.written].map(|ticks| match ticks.load(Relaxed) {
            0 => None,
            // Another thread may request them at the same time.
            _ => Some(ticks.swap(0, Relaxed))
                .filter(|&ticks| ticks != 0)
                .map(Time::at),
        })
    }

    /// Copies those times of `newer` that are set.
    fn keep(&self, newer: &Uses) {
        for (mine, newer) in [(&self.read, &newer.read), (&self.written, &newer.written)] {
            match newer.load(Relaxed) {
                0 => {}
                ticks => mine.store(ticks, Relaxed),
            }
        }
    }
}

impl Pipe {
    /// A new pipe, whose times of use a FIFO may keep.
    fn new(kept: Option<Arc<Uses>>) -> Result<Arc<Self>> {
        let most = max_size() / PAGE_SIZE;
        let mut pages = if most >= PAGES || can(CAP_SYS_RESOURCE) {
            PAGES
        } else {
            most
        };
        let charge = Charge {
            user: current().credentials().user.clone(),
            pages: AtomicUsize::new(0),
        };
        let mut sum = charge.change(pages);
        if is_beyond(&USER_PAGES_SOFT, sum) && is_limited() {
            pages = FEW_PAGES;
            sum = charge.change(pages);
        }
        if is_beyond(&USER_PAGES_HARD, sum) && is_limited() {
            return Err(Errno::ENFILE);
        }
        let number = super::new_anonymous_number();
        let (uid, gid) = current().with_credentials(|who| (who.fsuid, who.fsgid));
        try_arc(Pipe {
            ring: SleepMutex::new(Ring::new(pages)?),
            len: AtomicUsize::new(0),
            capacity: AtomicUsize::new(pages * PAGE_SIZE),
            readers: AtomicU32::new(0),
            writers: AtomicU32::new(0),
            opened: [AtomicU32::new(0), AtomicU32::new(0)],
            readable: WaitSource::new()?,
            writable: WaitSource::new()?,
            number,
            attr: SimpleAttr::new(Attr {
                device: super::ANONYMOUS_DEVICE,
                inode: number,
                mode: S_IFIFO | 0o600,
                uid,
                gid,
                ..Attr::default()
            }),
            uses: Uses::default(),
            kept,
            charge,
        })
    }

    /// Calls `act` with the ring, and publishes its length.
    #[inline]
    fn with_ring<R>(&self, act: impl FnOnce(&mut Ring) -> Result<R>) -> Result<R> {
        let mut ring = self.ring.lock_killable()?;
        let result = act(&mut ring);
        // A reader that relies on this takes the lock first, and waiters are notified after a
        // fence.
        self.len.store(ring.len(), Relaxed);
        result
    }

    /// The number of bytes for which there is room.
    fn room(&self) -> usize {
        let capacity = self.capacity.load(Acquire);
        capacity.saturating_sub(self.len.load(Acquire))
    }

    /// Reads the available bytes.
    #[inline(always)]
    fn take(&self, to: &mut Sink) -> Result<usize> {
        if self.len.load(Acquire) == 0 {
            return Ok(0);
        }
        let count = self.with_ring(|ring| ring.read(to))?;
        self.was_read(count);
        Ok(count)
    }

    /// Updates state after `count` bytes were removed.
    #[inline(always)]
    fn was_read(&self, count: usize) {
        if count > 0 {
            self.uses.read.store(time::stamp(), Relaxed);
            self.writable
                .notify_one_if(Events::WRITABLE, || self.has_much_room());
        }
    }

    #[inline]
    fn read(&self, file: &File, to: &mut Sink) -> Result<usize> {
        let mut waited = false;
        let await_bytes = || self.await_bytes(file.flags().nonblocking());
        let taken = loop {
            match self.take(to) {
                Ok(0) if to.left() != 0 && await_bytes()? => waited = true,
                done => break done,
            }
        };
        if waited {
            self.wake_next_reader();
        }
        taken
    }

    /// Waiting readers are woken one at a time.
    #[inline(always)]
    fn wake_next_reader(&self) {
        if self.len.load(Acquire) > 0 {
            self.readable.wake_next();
        }
    }

    /// Waiting writers are woken one at a time.
    fn wake_next_writer(&self) {
        if self.has_much_room() {
            self.writable.wake_next();
        }
    }

    /// Whether there is as much room as writers wait for: a page, as on Linux, so that the needs of
    /// each are not recorded.
    fn has_much_room(&self) -> bool {
        self.room() >= ATOMIC
    }

    /// Waits for something to read; false at the end of file.
    #[inline(never)]
    fn await_bytes(&self, nonblocking: bool) -> Result<bool> {
        let ended = || self.writers.load(Acquire) == 0;
        if nonblocking || ended() {
            // Tested in this order, so that the last writer's bytes are not missed.
            return match (ended(), self.len.load(Acquire)) {
                (_, 1..) => Ok(true),
                (true, 0) => Ok(false),
                (false, 0) => Err(Errno::EAGAIN),
            };
        }
        let came = || self.len.load(Acquire) > 0 || ended();
        self.readable.wait(came).map(|()| true)
    }

    /// Writes as much as there is room for, but nothing if that is less than `least`.
    #[inline(always)]
    fn put(&self, from: &mut Source, least: usize) -> Result<usize> {
        if self.readers.load(Acquire) == 0 {
            return Err(Errno::EPIPE);
        }
        let count = self.with_ring(|ring| {
            if ring.room() >= least {
                ring.write(from)
            } else {
                Ok(0)
            }
        })?;
        self.was_written(count);
        Ok(count)
    }

    /// Updates state after `count` bytes were added.
    #[inline(always)]
    fn was_written(&self, count: usize) {
        if count > 0 {
            self.uses.written.store(time::stamp(), Relaxed);
            self.readable.notify_one(Events::READABLE);
        }
    }

    /// Its attributes, with up-to-date times.
    fn known_attr(&self) -> &SimpleAttr {
        let [read, written] = self.uses.take();
        self.attr.touch(read, written);
        &self.attr
    }

    #[inline(never)]
    fn write(&self, file: &File, from: &mut Source) -> Result<usize> {
        let wanted = from.left();
        let least = if wanted <= ATOMIC { wanted } else { 1 };
        loop {
            let written = self.put(from, least);
            if written == Ok(wanted) {
                return written;
            }
            let end = self.await_more(from, wanted, written, file.flags().nonblocking());
            // Room beyond what this writer takes, or any if it takes none, is left for the next.
            let taken = if end.is_none() { from.left() } else { 0 };
            if self.room() >= taken + ATOMIC {
                self.writable.wake_next();
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// After an attempt to write with the result `written`: waits to continue with the rest, or
    /// returns the result of the whole write.
    #[inline(never)]
    fn await_more(
        &self,
        from: &Source,
        wanted: usize,
        written: Result<usize>,
        nonblocking: bool,
    ) -> Option<Result<usize>> {
        let left = from.left();
        if left == 0 {
            return Some(Ok(wanted));
        }
        match self.await_room(written, nonblocking) {
            Err(Errno::ENOMEM) if left < wanted && !nonblocking && oom::make_room() => None,
            Err(_) if left < wanted => Some(Ok(wanted - left)),
            Err(error) => {
                if error == Errno::EPIPE {
                    signal::raise(SIGPIPE);
                }
                Some(Err(error))
            }
            // Readers may keep making room.
            Ok(()) if cond_resched_interruptible().is_err() && left < wanted => {
                Some(Ok(wanted - left))
            }
            Ok(()) => None,
        }
    }

    /// After an attempt that left bytes unwritten: waits for room, unless there was some.
    #[inline(never)]
    fn await_room(&self, written: Result<usize>, nonblocking: bool) -> Result<()> {
        match written? {
            0 if nonblocking => Err(Errno::EAGAIN),
            0 => self
                .writable
                .wait(|| self.has_much_room() || self.readers.load(Acquire) == 0),
            _ => Ok(()),
        }
    }

    fn resize(&self, size: usize) -> Result<usize> {
        let pages = pages_for(size)?;
        if pages * PAGE_SIZE > max_size() {
            require(CAP_SYS_RESOURCE)?;
        }
        self.with_ring(|ring| {
            let before = ring.capacity() / PAGE_SIZE;
            let sum = self.charge.change(pages);
            let beyond = is_beyond(&USER_PAGES_SOFT, sum) || is_beyond(&USER_PAGES_HARD, sum);
            let resized = if pages > before && beyond && is_limited() {
                Err(Errno::EPERM)
            } else {
                ring.resized(pages)
            };
            *ring = resized.inspect_err(|_| _ = self.charge.change(before))?;
            self.capacity.store(ring.capacity(), Relaxed);
            Ok(())
        })?;
        self.writable.notify();
        Ok(pages * PAGE_SIZE)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if let Some(kept) = &self.kept {
            kept.keep(&self.uses);
        }
    }
}

impl Inode for Pipe {
    fn kind(&self) -> Kind {
        Kind::Fifo
    }

    fn attr(&self) -> Attr {
        self.known_attr().get()
    }

    fn set_attr(&self, change: &SetAttr) -> Result<()> {
        self.known_attr().set(change);
        Ok(())
    }

    fn open(self: Arc<Self>, _here: &Path, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(End::new(self, flags)?)
    }
}

/// A call that may be the only one woken: when it ends, it wakes those for whom it leaves
/// something.
struct Turn<'a>(&'a Pipe);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.wake_next_reader();
        self.0.wake_next_writer();
    }
}

/// An open end of a pipe.
pub struct End {
    pipe: Arc<Pipe>,
    reads: bool,
    writes: bool,
}

impl End {
    fn new(pipe: Arc<Pipe>, flags: OpenFlags) -> Result<Arc<Self>> {
        let (reads, writes) = (flags.readable(), flags.writable());
        pipe.readers.fetch_add(reads.into(), AcqRel);
        pipe.writers.fetch_add(writes.into(), AcqRel);
        pipe.opened[0].fetch_add(reads.into(), AcqRel);
        pipe.opened[1].fetch_add(writes.into(), AcqRel);
        try_arc(End {
            pipe,
            reads,
            writes,
        })
    }

    /// The pipe's size in bytes.
    pub fn size(&self) -> usize {
        self.pipe.capacity.load(Acquire)
    }

    /// EINVAL if both are ends of the same pipe.
    pub fn check_other(&self, other: &End) -> Result<()> {
        if Arc::ptr_eq(&self.pipe, &other.pipe) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    /// Waits for bytes; false at the end of file.
    fn await_bytes(&self, nonblocking: bool) -> Result<bool> {
        Ok(self.pipe.len.load(Acquire) > 0 || self.pipe.await_bytes(nonblocking)?)
    }

    /// Waits for room; SIGPIPE and EPIPE without a reader.
    fn await_room(&self, nonblocking: bool) -> Result<()> {
        loop {
            if self.pipe.readers.load(Acquire) == 0 {
                signal::raise(SIGPIPE);
                return Err(Errno::EPIPE);
            }
            if self.pipe.room() > 0 {
                return Ok(());
            }
            self.pipe.await_room(Ok(0), nonblocking)?;
        }
    }

    /// Waits for bytes, unless at the end of file, and lets `act` take some while no other thread
    /// takes or adds any. `act` returns their number.
    pub fn drain(
        &self,
        nonblocking: bool,
        mut act: impl FnMut(&mut Ring) -> Result<usize>,
    ) -> Result<usize> {
        let _turn = Turn(&self.pipe);
        while self.await_bytes(nonblocking)? {
            let taken = self.pipe.with_ring(|ring| match ring.len() {
                0 => Ok(None),
                _ => act(ring).map(Some),
            })?;
            // If there are none, another thread was faster.
            if let Some(count) = taken {
                self.pipe.was_read(count);
                return Ok(count);
            }
        }
        Ok(0)
    }

    /// Waits for room, and lets `act` add bytes while no other thread takes or adds any. `act`
    /// returns their number.
    pub fn fill(
        &self,
        nonblocking: bool,
        mut act: impl FnMut(&mut Ring) -> Result<usize>,
    ) -> Result<usize> {
        let _turn = Turn(&self.pipe);
        loop {
            self.await_room(nonblocking)?;
            let added = self.pipe.with_ring(|ring| match ring.room() {
                0 => Ok(None),
                _ => act(ring).map(Some),
            })?;
            if let Some(count) = added {
                self.pipe.was_written(count);
                return Ok(count);
            }
        }
    }

    /// Waits for bytes in one pipe and for room in the other, and lets `act` copy from one to the
    /// other while no other thread takes or adds any. `act` returns their number; they are removed
    /// if `moves`.
    pub fn pass(
        from: &End,
        to: &End,
        nonblocking: bool,
        moves: bool,
        mut act: impl FnMut(&Ring, &mut Ring) -> Result<usize>,
    ) -> Result<usize> {
        let first = Arc::as_ptr(&from.pipe) < Arc::as_ptr(&to.pipe);
        let _turns = [Turn(&from.pipe), Turn(&to.pipe)];
        loop {
            let comes = from.await_bytes(nonblocking)?;
            to.await_room(nonblocking)?;
            if !comes {
                return Ok(0);
            }
            let mut both = |from: &mut Ring, to: &mut Ring| {
                if from.len() == 0 || to.room() == 0 {
                    return Ok(None);
                }
                let count = act(from, to)?;
                from.consume(if moves { count } else { 0 });
                Ok(Some(count))
            };
            // In the order of addresses, so that two threads that take both locks do not deadlock.
            let passed = if first {
                from.pipe
                    .with_ring(|from| to.pipe.with_ring(|to| both(from, to)))
            } else {
                to.pipe
                    .with_ring(|to| from.pipe.with_ring(|from| both(from, to)))
            };
            if let Some(count) = passed? {
                from.pipe.was_read(if moves { count } else { 0 });
                to.pipe.was_written(count);
                return Ok(count);
            }
        }
    }

    /// Makes the pipe at least `size` bytes large; returns the new size.
    pub fn resize(&self, size: usize) -> Result<usize> {
        self.pipe.resize(size)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let pipe = &self.pipe;
        if self.reads && pipe.readers.fetch_sub(1, AcqRel) == 1 {
            pipe.writable.notify();
        }
        if self.writes && pipe.writers.fetch_sub(1, AcqRel) == 1 {
            pipe.readable.notify();
        }
    }
}

impl FileOps for End {
    fn has_async(&self) -> bool {
        true
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn held(&self) -> usize {
        // An empty pipe has freed all its pages except one.
        match self.pipe.len.load(Relaxed) {
            0 => PAGE_SIZE,
            _ => self.pipe.capacity.load(Relaxed),
        }
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        self.pipe.read(file, to)
    }

    fn write(&self, file: &File, from: &mut Source, _position: u64) -> Result<usize> {
        self.pipe.write(file, from)
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        let pipe = &self.pipe;
        if let Some(table) = table {
            if self.reads {
                table.add(&pipe.readable);
            }
            if self.writes {
                table.add(&pipe.writable);
            }
        }
        let mut events = Events::empty();
        if self.reads {
            events.set(Events::IN, pipe.len.load(Acquire) > 0);
            events.set(Events::HANG_UP, pipe.writers.load(Acquire) == 0);
        }
        if self.writes {
            events.set(Events::OUT, pipe.room() >= ATOMIC);
            events.set(Events::ERROR, pipe.readers.load(Acquire) == 0);
        }
        events
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        match request {
            FIONREAD => UserPtr::new(argument)
                .write(&(self.pipe.len.load(Acquire) as u32))
                .map(|()| 0),
            _ => Err(Errno::ENOTTY),
        }
    }
}

/// The two ends of a new pipe: the read end, and the write end. `flags`: O_NONBLOCK and its kin.
pub fn pair(flags: u32) -> Result<[Arc<File>; 2]> {
    let pipe = Pipe::new(None)?;
    let dentry = super::anonymous_dentry("pipe", pipe.number, pipe.clone())?;
    let end = |mode: u32| {
        let flags = OpenFlags(mode | flags);
        File::with_ops(dentry.clone(), End::new(pipe.clone(), flags)?, flags)
    };
    Ok([end(0)?, end(O_WRONLY)?])
}

/// The pipe of a named pipe, which exists while that is open.
pub struct Fifo {
    pipe: Mutex<Weak<Pipe>>,
    /// The times of use of its earlier pipes.
    uses: Arc<Uses>,
}

impl Fifo {
    /// A FIFO that is not open.
    pub fn new() -> Result<Self> {
        Ok(Fifo {
            pipe: Mutex::new(Weak::new()),
            uses: try_arc(Uses::default())?,
        })
    }

    /// Calls `note` with a function that takes the times of its last read and write, if there were
    /// any since the last call. `note` may hold a lock; if the pipe must be freed, that happens
    /// afterwards.
    pub fn note_uses(&self, note: impl FnOnce(&dyn Fn() -> [Option<Time>; 2])) {
        let pipe = self.pipe.lock().upgrade();
        note(&|| {
            let [earlier_read, earlier_written] = self.uses.take();
            let now = pipe.as_ref().map(|pipe| pipe.uses.take());
            let [read, written] = now.unwrap_or_default();
            [read.or(earlier_read), written.or(earlier_written)]
        });
    }

    /// Opens it, which waits until the other end is opened too.
    pub fn open(&self, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        let fresh = Pipe::new(Some(self.uses.clone()))?;
        let known = {
            let mut current = self.pipe.lock();
            let known = current.upgrade();
            if known.is_none() {
                *current = Arc::downgrade(&fresh);
            }
            known
        };
        let pipe = known.unwrap_or(fresh);
        let opened = [pipe.opened[0].load(Acquire), pipe.opened[1].load(Acquire)];
        // A waiter for this end may have come, done its work and gone before this thread checks
        // again.
        let present = [
            pipe.readers.load(Acquire) > 0,
            pipe.writers.load(Acquire) > 0,
        ];
        let end = End::new(pipe.clone(), flags)?;
        // An open that waits for this end waits on the source of the other end's data.
        pipe.readable.notify();
        pipe.writable.notify();
        let _turn = Turn(&pipe);
        match flags.0 & O_ACCMODE {
            O_RDWR => {}
            O_WRONLY => {
                let came = || {
                    present[0]
                        || pipe.readers.load(Acquire) > 0
                        || pipe.opened[0].load(Acquire) != opened[0]
                };
                if !came() && flags.nonblocking() {
                    return Err(Errno::ENXIO);
                }
                pipe.writable.wait(came)?;
            }
            _ if flags.nonblocking() => {}
            _ => pipe.readable.wait(|| {
                present[1]
                    || pipe.writers.load(Acquire) > 0
                    || pipe.opened[1].load(Acquire) != opened[1]
            })?,
        }
        Ok(end)
    }
}
