//! pidfd: a descriptor that stands for a process, or for one of its threads, and never for another
//! with the same number.

extern crate alloc;

use alloc::sync::{Arc, Weak};

use linux_raw_sys::general::{O_EXCL, O_NONBLOCK, O_RDWR};

use super::{Process, Thread, current, pid_table};
use crate::errno::{Errno, Result};
use crate::fs::file::{FileOps, Whence};
use crate::fs::poll::{Events, PollTable};
use crate::fs::seq_file::Text;
use crate::fs::{File, OpenFlags, anonymous, fdtable};
use crate::mm::heap::try_arc;
use crate::mm::user::UserPtr;
use crate::put;

/// PIDFD_NONBLOCK
pub const NONBLOCK: u32 = O_NONBLOCK;
/// PIDFD_THREAD: any thread, and only that thread.
pub const THREAD: u32 = O_EXCL;

/// The process or thread that a pidfd refers to.
pub struct PidFd {
    process: Arc<Process>,
    /// The thread, with PIDFD_THREAD.
    thread: Option<Weak<Thread>>,
}

/// An open file for a process, or for its thread `thread`; `flags` are those of pidfd_open(2).
pub fn file(process: Arc<Process>, thread: Option<&Arc<Thread>>, flags: u32) -> Result<Arc<File>> {
    let ops = try_arc(PidFd {
        process,
        thread: thread.map(Arc::downgrade),
    })?;
    anonymous::file(
        anonymous::PIDFD,
        ops,
        OpenFlags(O_RDWR | flags & (NONBLOCK | THREAD)),
    )
}

/// The process or thread that pidfd `fd` of the current process refers to.
///
/// # Errors
/// EBADF: not a pidfd.
pub fn of(fd: i32) -> Result<(Arc<PidFd>, OpenFlags)> {
    let file = current().files().get(fd)?;
    let ops = file.ops_as::<PidFd>().ok_or(Errno::EBADF)?;
    Ok((ops, file.flags()))
}

impl PidFd {
    /// The process.
    ///
    /// # Errors
    /// ESRCH: it was waited for and no longer exists.
    pub fn process(&self) -> Result<&Arc<Process>> {
        if self.process.is_reaped() {
            Err(Errno::ESRCH)
        } else {
            Ok(&self.process)
        }
    }

    /// Whether the pidfd refers to a single thread (PIDFD_THREAD).
    pub fn is_thread(&self) -> bool {
        self.thread.is_some()
    }

    /// The thread that it refers to; for a process, any living thread.
    ///
    /// # Errors
    /// ESRCH: it has ended.
    pub fn thread(&self) -> Result<Arc<Thread>> {
        let found = match &self.thread {
            Some(thread) => thread
                .upgrade()
                .filter(|thread| pid_table::is_living(thread)),
            None => self.process.find_thread(|_| true),
        };
        found.ok_or(Errno::ESRCH)
    }
}

impl FileOps for PidFd {
    fn is_stream(&self) -> bool {
        true
    }

    fn has_places(&self) -> bool {
        true
    }

    fn seek(&self, _file: &File, _position: u64, _offset: i64, _whence: Whence) -> Result<u64> {
        Err(Errno::ESPIPE)
    }

    fn ioctl(&self, _file: &File, _request: u32, argument: usize) -> Result<usize> {
        if argument != 0 {
            return Err(Errno::EINVAL);
        }
        self.process()?;
        Err(Errno::ENOTTY)
    }

    fn describe(&self, text: &mut Text) {
        let pid = self.process().map_or(-1, |process| process.pid());
        put!(text, "Pid:\t{pid}\nNSpid:\t{pid}\n");
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let (Some(table), Ok(ended)) = (table, self.process.ended()) {
            table.add(&ended);
        }
        let ended = match &self.thread {
            Some(_) => self.thread().is_err(),
            None => self.process.is_zombie(),
        };
        let mut events = Events::empty();
        events.set(Events::IN, ended);
        events.set(Events::HANG_UP, ended && self.process.is_reaped());
        events
    }
}

/// A descriptor for a child that is being created.
pub struct Reserved(fdtable::Reserved, Arc<File>);

impl Reserved {
    /// Reserves a descriptor for `file` in the current process and writes its number to `to`.
    ///
    /// # Errors
    /// EMFILE, ENOMEM, EFAULT.
    pub fn new(file: Arc<File>, to: usize) -> Result<Self> {
        let fd = current().files().reserve()?;
        UserPtr::new(to).write(&fd.number())?;
        Ok(Reserved(fd, file))
    }

    /// Installs the descriptor, once the child exists.
    pub fn install(self) {
        self.0.install(self.1, true);
    }
}
