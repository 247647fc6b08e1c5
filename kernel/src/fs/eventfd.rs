//! eventfd: a counter that can be waited for.

use super::file::{File, FileOps, OpenFlags};
use super::io::{Sink, Source};
use super::poll::{Events, PollTable, WaitSource};
#[cfg(guests)]
use super::poll::{Watch, Watcher};
use super::seq_file::Text;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::put;
use crate::sync::Mutex;
use crate::task::current;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use linux_raw_sys::general::{EFD_NONBLOCK, EFD_SEMAPHORE, O_RDWR};

/// The largest value of the counter.
const MAX: u64 = u64::MAX - 1;

/// The counter.
pub struct EventFd {
    count: Mutex<u64>,
    semaphore: bool,
    /// Its number, by which programs can compare descriptors.
    id: u32,
    readable: Arc<WaitSource>,
    writable: Arc<WaitSource>,
}

/// A new counter with the flags of eventfd2.
pub fn new(count: u32, flags: u32) -> Result<Arc<File>> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let ops = try_arc(EventFd {
        count: Mutex::new(count.into()),
        semaphore: flags & EFD_SEMAPHORE != 0,
        id: NEXT.fetch_add(1, Relaxed),
        readable: WaitSource::new()?,
        writable: WaitSource::new()?,
    })?;
    super::anonymous::file("[eventfd]", ops, OpenFlags(O_RDWR | flags & EFD_NONBLOCK))
}

/// The eventfd of a descriptor of the calling process.
///
/// # Errors
/// EBADF, EINVAL (it is not an eventfd).
pub fn of(fd: i32) -> Result<Arc<EventFd>> {
    let file = current().files().get(fd)?;
    file.ops_as().ok_or(Errno::EINVAL)
}

impl EventFd {
    /// Adds one on behalf of the kernel; at the maximum, the value stays.
    pub fn signal(&self) {
        self.add(1);
        self.readable.notify_for(Events::READABLE);
    }

    /// Takes the value; false if it was 0.
    #[cfg(guests)]
    pub fn drain(&self) -> bool {
        let taken = self.take().is_some();
        if taken {
            self.writable.notify_for(Events::WRITABLE);
        }
        taken
    }

    /// Notifies `watcher` when a value is added, until the returned watch is dropped.
    #[cfg(guests)]
    pub fn watch(&self, watcher: Arc<dyn Watcher>) -> Result<Watch> {
        self.readable.watch(Events::READABLE, watcher)
    }
}

impl EventFd {
    fn take(&self) -> Option<u64> {
        let mut count = self.count.lock();
        let taken = if self.semaphore {
            (*count).min(1)
        } else {
            *count
        };
        *count -= taken;
        (taken > 0).then_some(taken)
    }

    fn add(&self, value: u64) -> bool {
        let mut count = self.count.lock();
        let fits = value <= MAX - *count;
        if fits {
            *count += value;
        }
        fits
    }
}

impl FileOps for EventFd {
    fn ignores_seeks(&self) -> bool {
        true
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        if to.left() < 8 {
            return Err(Errno::EINVAL);
        }
        loop {
            if let Some(value) = self.take() {
                self.writable.notify_for(Events::WRITABLE);
                return to.put(&value.to_ne_bytes());
            }
            if file.flags().nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.readable.wait(|| *self.count.lock() > 0)?;
        }
    }

    fn write(&self, file: &File, from: &mut Source, _position: u64) -> Result<usize> {
        let mut bytes = [0; 8];
        if from.first_piece() != 8 {
            return Err(Errno::EINVAL);
        }
        from.take(&mut bytes)?;
        let value = u64::from_ne_bytes(bytes);
        if value == u64::MAX {
            return Err(Errno::EINVAL);
        }
        while !self.add(value) {
            if file.flags().nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.writable.wait(|| value <= MAX - *self.count.lock())?;
        }
        self.readable.notify_for(Events::READABLE);
        Ok(8)
    }

    fn describe(&self, text: &mut Text) {
        let count = *self.count.lock();
        put!(
            text,
            "eventfd-count: {count:>16x}\neventfd-id: {}\n",
            self.id
        );
        put!(text, "eventfd-semaphore: {}\n", u8::from(self.semaphore));
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.readable);
            table.add(&self.writable);
        }
        let count = *self.count.lock();
        let mut events = Events::empty();
        events.set(Events::IN, count > 0);
        events.set(Events::OUT, count < MAX);
        events.without_aliases()
    }
}
