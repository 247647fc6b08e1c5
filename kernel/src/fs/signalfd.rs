//! signalfd: signals that are read instead of delivered.

use super::file::{File, FileOps, OpenFlags};
use super::io::Sink;
use super::poll::{Events, PollTable, WaitSource};
use super::seq_file::Text;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::put;
use crate::task::current;
use crate::task::signal::{self, Info};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::*};
use linux_raw_sys::general::{O_NONBLOCK, O_RDWR};
use zerocopy::{Immutable, IntoBytes};

/// `struct signalfd_siginfo` (linux/signalfd.h).
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Record {
    signo: u32,
    errno: i32,
    code: i32,
    pid: u32,
    uid: u32,
    fd: i32,
    tid: u32,
    band: u32,
    overrun: u32,
    trap: u32,
    status: i32,
    int: i32,
    pointer: u64,
    user_time: u64,
    system_time: u64,
    address: u64,
    pad: [u64; 6],
}

impl Record {
    /// The union's members lie over one another in `info`: each is copied as if it was the one in
    /// use.
    fn new(info: &Info) -> Self {
        let [first, second, third, fourth, ..] = info.data;
        Record {
            signo: info.signo as u32,
            errno: info.errno,
            code: info.code,
            pid: first as u32,
            uid: (first >> 32) as u32,
            fd: 0,
            tid: first as u32,
            band: 0,
            overrun: (first >> 32) as u32,
            trap: 0,
            status: second as i32,
            int: second as i32,
            pointer: second,
            user_time: third,
            system_time: fourth,
            address: first,
            pad: [0; 6],
        }
    }
}

/// An open signalfd: a reader gets its own signals.
pub struct SignalFd {
    set: AtomicU64,
}

/// The source that the current process's signalfds wait for: notified when it, or a thread of it,
/// is sent any signal.
fn sent() -> Result<&'static Arc<WaitSource>> {
    current().process().signals.sent()
}

/// A new one for the signals in `set`, with the flags of signalfd4.
pub fn new(set: u64, flags: u32) -> Result<Arc<File>> {
    let set = AtomicU64::new(set);
    let ops = try_arc(SignalFd { set })?;
    super::anonymous::file("[signalfd]", ops, OpenFlags(O_RDWR | flags & O_NONBLOCK))
}

impl SignalFd {
    /// Changes the set.
    pub fn set(&self, set: u64) {
        self.set.store(set, Relaxed);
        current().process().signals.notify_sent();
    }

    fn wanted(&self) -> u64 {
        self.set.load(Relaxed)
    }

    fn is_ready(&self) -> bool {
        current().pending() & self.wanted() != 0
    }
}

impl FileOps for SignalFd {
    fn is_stream(&self) -> bool {
        true
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        if to.left() < size_of::<Record>() {
            return Err(Errno::EINVAL);
        }
        let mut total = 0;
        while to.left() >= size_of::<Record>() {
            match signal::take(!self.wanted()) {
                Some(info) => total += to.put(Record::new(&info).as_bytes())?,
                None if total > 0 => break,
                None if file.flags().nonblocking() => return Err(Errno::EAGAIN),
                None => sent()?.wait(|| self.is_ready())?,
            }
        }
        Ok(total)
    }

    fn describe(&self, text: &mut Text) {
        put!(text, "sigmask:\t{:016x}\n", self.wanted());
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            match sent() {
                Ok(sent) => table.add(sent),
                Err(_) => table.fail(),
            }
        }
        let mut events = Events::empty();
        events.set(Events::IN, self.is_ready());
        events.without_aliases()
    }
}
