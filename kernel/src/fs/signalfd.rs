//! signalfd: signals that are read instead of delivered.

use super::file::{File, FileOps, OpenFlags};
use super::io::Sink;
use super::poll::{Events, PollTable};
use super::seq_file::Text;
use crate::arch::{InfoKind, info_kind};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::put;
use crate::task::current;
use crate::task::sched::cond_resched;
use crate::task::signal::{self, Info};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::*};
use linux_raw_sys::general::{O_NONBLOCK, O_RDWR};
use zerocopy::{FromZeros, Immutable, IntoBytes};

/// `struct signalfd_siginfo` (linux/signalfd.h).
#[repr(C)]
#[derive(FromZeros, IntoBytes, Immutable)]
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
    address_bits: u32,
    call: u32,
    call_address: u64,
    call_architecture: u32,
    pad: [u32; 7],
}

impl Record {
    fn new(info: &Info) -> Self {
        let [first, second, third, fourth, ..] = info.data;
        let both = |word: u64| (word as u32, (word >> 32) as u32);
        let mut record: Record = FromZeros::new_zeroed();
        record.signo = info.signo as u32;
        (record.errno, record.code) = (info.errno, info.code);
        let kind = info_kind(record.signo, info.code);
        match kind {
            InfoKind::Kill | InfoKind::Child | InfoKind::Queued => {
                (record.pid, record.uid) = both(first);
            }
            InfoKind::Timer => (record.tid, record.overrun) = both(first),
            InfoKind::Poll => (record.band, record.fd) = (first as u32, second as i32),
            InfoKind::Fault => record.address = first,
            InfoKind::Call => {
                record.call_address = first;
                (record.call, record.call_architecture) = both(second);
            }
        }
        if kind == InfoKind::Child {
            record.status = second as i32;
            (record.user_time, record.system_time) = (third, fourth);
        }
        if matches!(kind, InfoKind::Timer | InfoKind::Queued) {
            (record.int, record.pointer) = (second as i32, second);
        }
        record
    }
}

/// An open signalfd: each reader gets its own signals.
pub struct SignalFd {
    set: AtomicU64,
}

/// Creates one for the signals in `set`, with the flags of signalfd4.
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
    fn ignores_seeks(&self) -> bool {
        true
    }

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
                Some(info) => {
                    total += to.put(Record::new(&info).as_bytes())?;
                    cond_resched();
                }
                None if total > 0 => break,
                None if file.flags().nonblocking() => return Err(Errno::EAGAIN),
                None => current()
                    .process()
                    .signals
                    .sent()?
                    .wait(|| self.is_ready())?,
            }
        }
        Ok(total)
    }

    fn describe(&self, text: &mut Text) {
        put!(text, "sigmask:\t{:016x}\n", self.wanted());
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            match current().process().signals.sent() {
                Ok(sent) => table.add(sent),
                Err(_) => table.fail(),
            }
        }
        let mut events = Events::empty();
        events.set(Events::IN, self.is_ready());
        events.without_aliases()
    }
}
