//! One direction of a connection, or the received messages of a datagram socket: a ring of bytes,
//! with marks where a record ends or ancillary data travels with the bytes.

mod charged;
mod contents;
mod ends;

pub use contents::Bytes;

use charged::Charged;
use contents::{Mark, read_record, read_stream};

use super::address::Name;
use super::control_message::Ancillary;
use super::sending::Sending;
use super::socket::{Reader, copied};
use super::unix::inflight;
use super::wait::Wait;
use crate::arch::cpu;
use crate::errno::{Errno, Result};
use crate::fs::inode::Time;
use crate::fs::io::{Sink, Source};
use crate::fs::poll::{Events, WaitSource};
use crate::fs::ring::Ring;
use crate::mm::PAGE_SIZE;
use crate::mm::heap::try_arc;
use crate::sync::{SleepMutex, SleepMutexGuard};
use crate::task::sched::{cond_resched, cond_resched_interruptible, cond_resched_killable};
use crate::task::{clock, oom};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

/// The size of the ring in pages.
const PAGES: usize = 64;
/// The maximum number of bytes in a channel, and the maximum size of a record.
pub const MAX_LIMIT: usize = PAGES * PAGE_SIZE;
/// The overhead of a record that counts towards a channel's limit, as that of a small one on Linux.
pub const OVERHEAD: usize = 767;
/// The maximum number of marks in a channel.
const MAX_RECORDS: usize = 4096;

/// How long a writer waits for memory at a time, in ns.
const PAUSE: u64 = clock::SECOND / 10;

/// Bits of `wants`: the reader requests arrival times; the reader has a filter.
const TIMES: u32 = 1;
const FILTERED: u32 = 2;

/// The parameters of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Stream,
    /// Bytes, with urgent ones as in TCP.
    Tcp,
    /// Records: each write is one.
    Records,
    /// Records of a datagram socket, which also count towards the limit of all such sockets.
    Datagrams,
}

/// The mode of a write.
#[derive(Clone, Copy, Default)]
pub struct Writing {
    /// Whether the last byte is urgent (MSG_OOB).
    pub urgent: bool,
    /// Whether less than a segment waits for more (MSG_MORE).
    pub more: bool,
}

/// The mode of a read.
#[derive(Clone, Copy, Default)]
pub struct Reading {
    /// Whether the bytes stay in the channel (MSG_PEEK).
    pub peek: bool,
    /// The number of bytes that are skipped first (SO_PEEK_OFF).
    pub skip: usize,
    /// Whether the sender's credentials are requested: then bytes of different senders are not
    /// mixed.
    pub credentials: bool,
}

/// The results of a read, except the bytes.
#[derive(Default)]
pub struct Found {
    /// The number of bytes read.
    pub count: usize,
    /// Whether the next byte is the urgent one.
    pub marked: bool,
    /// The size of the record, of which `count` may be less, and of the skipped bytes.
    pub whole: usize,
    pub before: usize,
    /// The control messages of the bytes.
    pub ancillary: Ancillary,
    /// The sender.
    pub from: Name,
}

/// The channel.
pub struct Channel {
    bytes: SleepMutex<Bytes>,
    /// The number of waiting bytes and records, for threads that read it without the lock, and
    /// whether the first byte is the urgent one.
    len: AtomicUsize,
    at_mark: AtomicBool,
    records: AtomicUsize,
    limit: AtomicUsize,
    /// The number of bytes that may wait while memory is short.
    most: AtomicUsize,
    state: AtomicU32,
    /// An error that the reader gets once; 0 for none.
    error: AtomicU32,
    /// The socket that reads it.
    reader: Arc<Reader>,
    /// The number of the socket in whose backlog the reader waits to be accepted; 0 for none.
    listener: AtomicU64,
    /// Whether Unix sockets were sent through it.
    carried: AtomicBool,
    kind: Kind,
    /// Whether there is an urgent byte that was not taken; whether such a byte is read in line
    /// (SO_OOBINLINE).
    urgent: AtomicBool,
    inline: AtomicBool,
    /// Whether the reader requests the sender's credentials.
    credentials: AtomicBool,
    /// The reader's requests for arriving messages: [`TIMES`], [`FILTERED`].
    wants: AtomicU32,
    /// The number of dropped records.
    drops: AtomicU32,
    /// The CPU that wrote last, plus one.
    cpu: AtomicU32,
    /// When bytes are sent.
    pub sending: Sending,
    /// Notified when there is data to read, and when there is room.
    readable: Arc<WaitSource>,
    writable: Arc<WaitSource>,
}

impl Channel {
    /// A channel for up to `limit` bytes, whose reader is notified by `readable` and whose writers
    /// by `writable`.
    pub fn new(
        reader: &Arc<Reader>,
        kind: Kind,
        limit: usize,
        readable: &Arc<WaitSource>,
        writable: &Arc<WaitSource>,
    ) -> Result<Arc<Self>> {
        try_arc(Channel {
            bytes: SleepMutex::new(Bytes {
                ring: Ring::new(PAGES)?,
                read: 0,
                urgent: None,
                unsent: 0,
                stall: None,
                arrived: None,
                marks: VecDeque::new(),
                charged: Charged::new(kind),
            }),
            len: AtomicUsize::new(0),
            at_mark: AtomicBool::new(false),
            records: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit.min(MAX_LIMIT)),
            most: AtomicUsize::new(usize::MAX),
            state: AtomicU32::new(0),
            error: AtomicU32::new(0),
            reader: reader.clone(),
            listener: AtomicU64::new(0),
            carried: AtomicBool::new(false),
            kind,
            urgent: AtomicBool::new(false),
            inline: AtomicBool::new(false),
            credentials: AtomicBool::new(false),
            wants: AtomicU32::new(0),
            drops: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            sending: Sending::new(),
            readable: readable.clone(),
            writable: writable.clone(),
        })
    }

    /// Whether every write is a record of its own.
    pub fn is_framed(&self) -> bool {
        matches!(self.kind, Kind::Records | Kind::Datagrams)
    }

    /// Locks the contents.
    ///
    /// # Errors
    /// EINTR: the caller was killed while another thread has the lock.
    pub fn lock(&self) -> Result<SleepMutexGuard<'_, Bytes>> {
        self.bytes.lock_killable()
    }

    /// Locks the contents, for the kernel's other end of a connection with another machine.
    pub fn lock_contents(&self) -> SleepMutexGuard<'_, Bytes> {
        self.bytes.lock()
    }

    /// Removes all bytes before a position, counted from the first byte ever written; returns
    /// whether there were any.
    pub fn consume_to(&self, place: u64) -> bool {
        let mut bytes = self.bytes.lock();
        let count = place
            .saturating_sub(bytes.read)
            .min(bytes.ring.len() as u64);
        if count == 0 {
            return false;
        }
        bytes.ring.consume(count as usize);
        bytes.read += count;
        let mut gone = Vec::new();
        while let Some(mark) = bytes.pop_read() {
            // Without memory the mark is dropped here: for TCP it has no files.
            if gone.try_reserve(1).is_ok() {
                gone.push(mark);
            }
        }
        self.publish(&mut bytes);
        drop(bytes);
        drop(gone);
        self.writable().notify_for(Events::WRITABLE);
        true
    }

    /// Locks the contents unless they are locked, for the kernel's worker, which must not wait for
    /// access to a program's memory.
    pub fn try_lock(&self) -> Option<SleepMutexGuard<'_, Bytes>> {
        self.bytes.try_lock()
    }

    /// Sets whether an urgent byte is read in line.
    pub fn set_inline(&self, inline: bool) {
        self.inline.store(inline, Release);
    }

    /// Whether the next byte is the urgent one (SIOCATMARK).
    pub fn is_at_mark(&self) -> bool {
        self.at_mark.load(Acquire)
    }

    /// Whether an urgent byte is read in line.
    pub fn is_inline(&self) -> bool {
        self.inline.load(Acquire)
    }

    /// Whether there is an urgent byte that was not received.
    pub fn is_urgent(&self) -> bool {
        self.urgent.load(Acquire)
    }

    /// The number of the socket that reads it.
    pub fn owner(&self) -> u64 {
        self.reader.number
    }

    /// The socket that reads it.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The number of the socket in whose backlog the reader waits to be accepted.
    pub fn listener(&self) -> Option<u64> {
        Some(self.listener.load(SeqCst)).filter(|&number| number != 0)
    }

    /// Records that the reader waits in the backlog of the socket with number `listener`.
    pub fn enter_backlog(&self, listener: u64) {
        self.listener.store(listener, SeqCst);
    }

    /// Records that the reader no longer waits to be accepted.
    pub fn leave_backlog(&self) {
        let listener = self.listener.swap(0, SeqCst);
        if listener != 0 && self.carried.load(SeqCst) {
            inflight::accept(listener, self.owner());
        }
    }

    /// Records that Unix sockets are sent through it.
    pub fn carries(&self) {
        self.carried.store(true, SeqCst);
    }

    /// Drops the files that wait in it, since no program can receive them any more. May sleep.
    pub fn discard_rights(&self) {
        let mut from = 0;
        loop {
            let rights = {
                let mut bytes = self.bytes.lock();
                let mut marks = bytes.marks.iter_mut().enumerate().skip(from);
                marks.find_map(|(at, mark)| Some((at, mark.ancillary.rights.take()?)))
            };
            let Some((at, rights)) = rights else { return };
            from = at + 1;
            drop(rights);
            cond_resched();
        }
    }

    /// The number of waiting bytes.
    pub fn waiting_bytes(&self) -> usize {
        // A read skips it.
        let hidden = self.is_at_mark() && !self.is_inline();
        self.len.load(Acquire).saturating_sub(hidden.into())
    }

    /// Whether it is empty, without even a byte that a read skips.
    pub fn is_empty(&self) -> bool {
        let waiting = if self.is_framed() {
            &self.records
        } else {
            &self.len
        };
        waiting.load(Acquire) == 0
    }

    /// Whether a read finds a byte or a record.
    pub fn has_data(&self) -> bool {
        !self.is_empty() && (self.is_framed() || self.waiting_bytes() > 0)
    }

    /// Whether a read that skips `skip` bytes finds a byte or a record.
    pub fn has_data_after(&self, skip: usize) -> bool {
        self.has_data() && (skip == 0 || self.waiting_bytes() > skip)
    }

    /// Whether a read finds as many bytes as the reader waits for, or as fit; or a record.
    pub fn has_enough(&self, low_water: usize) -> bool {
        self.has_data()
            && (self.is_framed() || self.waiting_bytes() >= low_water.min(self.may_wait()))
    }

    /// The length of the first record, or of everything if there are no records.
    ///
    /// # Errors
    /// Those of [`Self::lock`].
    pub fn first_len(&self) -> Result<usize> {
        let bytes = self.lock()?;
        if !self.is_framed() {
            return Ok(bytes.waiting(self.kind, self.is_inline()));
        }
        let first = bytes.marks.front();
        Ok(first.map_or(0, |mark| (mark.end - mark.start) as usize))
    }

    /// Its approximate memory in bytes. Takes no lock.
    pub fn held(&self) -> usize {
        let bytes = self.len.load(Acquire) + self.sending.unsent();
        let pages = bytes.next_multiple_of(PAGE_SIZE);
        size_of::<Self>() + pages + self.records() * size_of::<Mark>()
    }

    /// Sets the number of bytes that may wait.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit.min(MAX_LIMIT), Release);
        self.writable.notify();
    }

    /// The number of bytes that may wait.
    pub fn limit(&self) -> usize {
        self.limit.load(Acquire)
    }

    /// The number of bytes that may wait, considering memory.
    fn may_wait(&self) -> usize {
        self.limit().min(self.most.load(Acquire))
    }

    /// The number of waiting records.
    pub fn records(&self) -> usize {
        self.records.load(Acquire)
    }

    /// The used part of the limit.
    pub fn used(&self) -> usize {
        let overhead = if self.is_framed() {
            self.records() * OVERHEAD
        } else {
            0
        };
        self.len.load(Acquire) + self.sending.unsent() + overhead
    }

    /// Its parameters.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether there is room to write.
    pub fn has_room(&self) -> bool {
        self.used() < self.may_wait() && self.records() < MAX_RECORDS
    }

    /// Whether poll reports it as writable: when three quarters of the room are free.
    pub fn is_writable(&self) -> bool {
        self.used() * 4 <= self.may_wait() && self.sending.has_little()
    }

    /// Whether at least half of the room is free.
    pub fn has_half(&self) -> bool {
        self.used() * 2 <= self.limit()
    }

    /// The source that notifies of data.
    pub fn readable(&self) -> &Arc<WaitSource> {
        &self.readable
    }

    /// The source that notifies of room.
    pub fn writable(&self) -> &Arc<WaitSource> {
        &self.writable
    }

    /// Sets whether the reader wants the sender's credentials.
    pub fn set_wants_credentials(&self, wants: bool) {
        self.credentials.store(wants, Release);
    }

    /// Whether the reader wants the sender's credentials.
    pub fn wants_credentials(&self) -> bool {
        self.credentials.load(Acquire)
    }

    /// Sets whether the reader requests arrival times.
    pub fn set_wants_times(&self, wants: bool) {
        self.set_wants(TIMES, wants);
    }

    /// The reader's filter may have changed.
    pub fn filter_changed(&self) {
        let filter = self.reader.filter.lock();
        self.set_wants(FILTERED, filter.is_some());
    }

    fn set_wants(&self, what: u32, wants: bool) {
        if wants {
            self.wants.fetch_or(what, AcqRel);
        } else {
            self.wants.fetch_and(!what, AcqRel);
        }
    }

    /// Filters and timestamps a record that was appended after `old` bytes, as the reader requests;
    /// false if the filter drops it.
    #[cold]
    fn meet_wants(
        &self,
        bytes: &mut Bytes,
        old: usize,
        ancillary: &mut Ancillary,
        sender: &Name,
    ) -> Result<bool> {
        let wants = self.wants.load(Acquire);
        if wants & TIMES != 0 {
            ancillary.arrived = Some(Time::now());
        }
        let filter = self.reader.filter.lock().clone();
        let Some(filter) = filter.filter(|_| wants & FILTERED != 0) else {
            return Ok(true);
        };
        let (mut seen, len) = (Vec::new(), bytes.ring.len() - old);
        let whole = filter.head() + len;
        seen.try_reserve_exact(whole).map_err(|_| Errno::ENOBUFS)?;
        seen.resize(whole, 0);
        bytes
            .ring
            .peek(&mut Sink::kernel(&mut seen[filter.head()..]), old)?;
        let kept = filter.run(&mut seen, ancillary, sender);
        bytes.ring.truncate(old + kept.unwrap_or(0));
        if kept.is_none() && filter.head() > 0 {
            self.count_drop();
        }
        Ok(kept.is_some())
    }

    /// Counts a dropped record.
    pub fn count_drop(&self) {
        self.drops.fetch_add(1, Relaxed);
    }

    /// The number of dropped records.
    pub fn drops(&self) -> u32 {
        self.drops.load(Relaxed)
    }

    /// Forgets the CPU that wrote last.
    pub fn forget_cpu(&self) {
        self.cpu.store(0, Relaxed);
    }

    /// The CPU that wrote last.
    pub fn cpu(&self) -> Option<u32> {
        self.cpu.load(Relaxed).checked_sub(1)
    }

    /// Publishes the counts that are read without the lock.
    pub fn publish(&self, bytes: &mut Bytes) {
        self.at_mark.store(bytes.is_at_mark(), Release);
        self.len.store(bytes.sent(), Release);
        self.sending.publish(bytes);
        let urgent = bytes.urgent.is_some_and(|urgent| !urgent.taken);
        self.urgent.store(urgent, Release);
        self.records.store(bytes.marks.len(), Release);
        if bytes.ring.len() < bytes.charged.low {
            self.recount(bytes);
        }
    }

    /// Writes all bytes, waiting for room; `ancillary` goes with the first. EPIPE once an end is
    /// closed.
    pub fn write(
        &self,
        from: &mut Source,
        mut ancillary: Ancillary,
        writing: Writing,
        wait: &Wait,
    ) -> Result<usize> {
        let wanted = from.left();
        let mut total = 0;
        while total < wanted {
            let done = self
                .write_some(from, &mut ancillary, writing)
                .or_else(|error| match error {
                    Errno::EFAULT => self.write_faulted_in(from, &mut ancillary, writing),
                    error => Err(error),
                })
                .and_then(|count| {
                    if count == 0 {
                        if self.sending.unsent() > 0 {
                            self.push()?;
                        }
                        self.writable.lack();
                        self.sending.stall();
                        self.wait_for_room(wait)?;
                    }
                    Ok(count)
                });
            match done {
                Ok(count) => total += count,
                Err(error) if total == 0 => return Err(error),
                Err(Errno::ENOMEM) if !wait.nonblocking && oom::make_room() => {}
                Err(_) => break,
            }
            // As on Linux, other signals end a write only while it waits.
            if total < wanted && cond_resched_killable().is_err() {
                break;
            }
        }
        Ok(total)
    }

    /// Repeats a write that failed because of a fault, which was not resolved under the lock, once
    /// it is resolved.
    #[cold]
    fn write_faulted_in(
        &self,
        from: &mut Source,
        ancillary: &mut Ancillary,
        mut writing: Writing,
    ) -> Result<usize> {
        let urgent = writing.urgent;
        let mut most = usize::MAX;
        loop {
            let left = from.left();
            let reached = from.fault_in()?.min(most);
            writing.urgent = urgent && reached == left;
            from.truncate(reached);
            let done = self.write_some(from, ancillary, writing);
            from.allow(left - *done.as_ref().unwrap_or(&0));
            match done {
                // Another thread may discard the pages: at last one is enough.
                Err(Errno::EFAULT) => {
                    most = (reached / 2).max(1);
                    cond_resched_interruptible()?;
                }
                done => return done,
            }
        }
    }

    fn wait_for_room(&self, wait: &Wait) -> Result<()> {
        let ready = || self.has_room() || self.takes_nothing();
        if wait.nonblocking || !self.is_short() {
            return wait.until(&self.writable, ready);
        }
        // There is no notification of memory that others free.
        let soon = clock::deadline_in(PAUSE);
        match wait.deadline.filter(|&deadline| deadline <= soon) {
            Some(_) => wait.until(&self.writable, ready),
            None => {
                let done = self.writable.wait_until(ready, Some(soon)).map(drop);
                done.map_err(|error| wait.deadline.map_or(error, |_| Errno::EINTR))
            }
        }
    }

    fn write_some(
        &self,
        from: &mut Source,
        ancillary: &mut Ancillary,
        writing: Writing,
    ) -> Result<usize> {
        let mut bytes = self.lock()?;
        if self.takes_nothing() {
            return Err(Errno::EPIPE);
        }
        let start = bytes.written();
        let len = bytes.ring.len();
        let mut room = self.limit().saturating_sub(len).min(from.left());
        let mut is_less = false;
        if len + room > bytes.charged.granted {
            (room, is_less) = self.claim(&mut bytes, room);
        }
        if room == 0 || bytes.marks.len() >= MAX_RECORDS {
            bytes.begin_stall();
            drop(bytes);
            if is_less {
                self.readable.notify_for(Events::READABLE);
            }
            return Ok(0);
        }
        let written = bytes
            .reserve()
            .and_then(|()| bytes.ring.write_some_present(from, room));
        if written.is_err() {
            // What was charged for them is released.
            self.publish(&mut bytes);
        }
        let count = written?;
        if self.wants.load(Relaxed) & TIMES != 0 {
            bytes.arrived = Some(Time::now());
        }
        if !ancillary.is_empty() {
            bytes.mark(start, core::mem::take(ancillary), Name::Unnamed);
        }
        let urgent = writing.urgent && count > 0 && from.left() == 0;
        if urgent {
            bytes.make_last_urgent(self.kind, self.is_inline());
        }
        let had_much = !self.sending.has_little();
        if writing.more || bytes.unsent != 0 {
            self.hold_back(&mut bytes, count, writing.more && !urgent);
        }
        self.publish(&mut bytes);
        self.cpu.store(cpu::this().index() as u32 + 1, Relaxed);
        drop(bytes);
        if had_much && self.sending.has_little() {
            self.notify_little();
        }
        if urgent {
            self.notify_urgent();
        }
        self.readable
            .notify_for(Events::READABLE | Events::PRIORITY);
        Ok(count)
    }

    /// Writes one record, whole or not at all, waiting until fewer than `most` wait and there is
    /// room for its first byte, as on Linux. EMSGSIZE if it can never fit, ENOBUFS, EPIPE once an
    /// end is closed.
    pub fn write_record(
        &self,
        from: &mut Source,
        mut ancillary: Ancillary,
        sender: Name,
        most: usize,
        wait: &Wait,
    ) -> Result<usize> {
        let len = from.left();
        if len > MAX_LIMIT {
            return Err(Errno::EMSGSIZE);
        }
        let fits =
            || self.records() < most && self.has_room() && MAX_LIMIT - self.waiting_bytes() >= len;
        let mut apart: Option<Vec<u8>> = None;
        loop {
            let mut bytes = self.lock()?;
            if self.is_ended() {
                return Err(Errno::EPIPE);
            }
            if fits() {
                bytes.reserve()?;
                let (start, old) = (bytes.written(), bytes.ring.len());
                if bytes.ring.reserve(len).is_err() {
                    bytes.ring.release(len);
                    return Err(Errno::ENOBUFS);
                }
                let whole = match &apart {
                    None => bytes.ring.write_record_present(from, len),
                    Some(apart) => bytes.ring.write(&mut Source::kernel(apart)),
                };
                if whole.is_err() {
                    bytes.ring.truncate(old);
                    bytes.ring.release(len);
                    drop(bytes);
                    // Faults are resolved without the lock.
                    apart = Some(copied(from, len)?);
                    continue;
                }
                ancillary.lost = self.drops.load(Relaxed);
                self.cpu.store(cpu::this().index() as u32 + 1, Relaxed);
                if self.wants.load(Acquire) != 0 {
                    let met = self.meet_wants(&mut bytes, old, &mut ancillary, &sender);
                    if met != Ok(true) {
                        // As on Linux, the sender does not learn that the record was dropped.
                        bytes.ring.truncate(old);
                        drop(bytes);
                        return met.map(|_| len);
                    }
                }
                bytes.mark(start, ancillary, sender);
                self.publish(&mut bytes);
                drop(bytes);
                self.readable.notify_one(Events::READABLE);
                return Ok(len);
            }
            drop(bytes);
            self.writable.lack();
            wait.until(&self.writable, || fits() || self.is_ended())?;
        }
    }

    /// Reads bytes, or a record, without waiting. `None` if there is nothing.
    pub fn read(&self, to: &mut Sink, reading: Reading) -> Result<Option<Found>> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut bytes = self.lock()?;
        let found = if self.is_framed() {
            let found = read_record(&mut bytes, to, reading);
            self.publish(&mut bytes);
            drop(bytes);
            match found {
                Err(Errno::EFAULT) => self.read_apart(to, reading),
                found => found,
            }
        } else {
            let found = read_stream(&mut bytes, to, reading, self.is_inline());
            self.drop_read_marks(bytes)?;
            found
        };
        if !reading.peek {
            self.writable.notify_for(Events::WRITABLE);
        }
        found
    }

    /// Reads a record into memory of the kernel, and copies it to the program without the lock,
    /// where faults are resolved. As on Linux, a record that cannot be copied is lost.
    #[cold]
    fn read_apart(&self, to: &mut Sink, reading: Reading) -> Result<Option<Found>> {
        let mut apart = Vec::new();
        let mut bytes = self.lock()?;
        let first = bytes.record_after(reading.skip);
        let len = first.map_or(0, |mark| (mark.end - mark.start) as usize);
        let len = len.min(to.left());
        apart.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
        apart.resize(len, 0);
        let found = read_record(&mut bytes, &mut Sink::kernel(&mut apart), reading);
        self.publish(&mut bytes);
        drop(bytes);
        let Some(found) = found? else {
            return Ok(None);
        };
        match to.put(&apart[..found.count])? {
            count if count == found.count => Ok(Some(found)),
            _ => Err(Errno::EFAULT),
        }
    }

    /// Waiting receivers of records are woken one for each record: a receiver that failed wakes the
    /// next, if there is one.
    pub fn wake_next_receiver(&self) {
        if self.is_framed() && self.has_data() {
            self.readable.wake_next();
        }
    }

    /// Drops the marks whose bytes were read, and, without the lock, the files that came with the
    /// bytes and were not taken.
    fn drop_read_marks<'a>(&'a self, mut bytes: SleepMutexGuard<'a, Bytes>) -> Result<()> {
        while let Some(mark) = bytes.pop_read() {
            if mark.ancillary.rights.is_some() {
                self.publish(&mut bytes);
                drop(bytes);
                drop(mark);
                bytes = self.lock()?;
            }
        }
        self.publish(&mut bytes);
        Ok(())
    }
}
