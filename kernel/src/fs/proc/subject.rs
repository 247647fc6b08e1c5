//! The process or thread that a directory of procfs describes.

use super::super::file::Record;
use super::super::inode::{Attr, Kind, SetAttr};
use super::super::seq_file;
use crate::errno::{Errno, Result};
use crate::mm::AddressSpace;
use crate::task::credentials::Credentials;
use crate::task::ptrace_access::{self, By};
use crate::task::rusage::{Times, Usage};
use crate::task::sched::state;
use crate::task::{Process, Thread, current, pid_table};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering::Relaxed;

/// The process or thread that a directory describes.
#[derive(Clone, Copy)]
pub struct Task {
    /// The process.
    pub pid: i32,
    /// The thread, or the whole process.
    pub tid: Option<i32>,
    /// When the process began: its number may be reused later.
    pub(super) began: u64,
}

/// A process and a thread of it, as they are now. A process that has ended and was not waited for
/// has no thread.
pub struct Subject {
    /// The process.
    pub process: Arc<Process>,
    /// The thread, or the process's first thread.
    pub thread: Option<Arc<Thread>>,
    /// Whether only the thread is meant.
    pub alone: bool,
}

impl Task {
    /// Refers to a process, or to one of its threads.
    pub fn new(process: &Process, tid: Option<i32>) -> Self {
        Task {
            pid: process.pid(),
            tid,
            began: process.started(),
        }
    }

    /// Looks the process up; ESRCH if it is gone.
    pub fn find(self) -> Result<Subject> {
        let process =
            pid_table::process(self.pid).filter(|process| process.started() == self.began);
        let process = process.ok_or(Errno::ESRCH)?;
        let thread = match self.tid {
            Some(tid) => {
                let thread = pid_table::thread(tid);
                let thread = thread.filter(|thread| thread.process_id() == self.pid);
                // The first thread stays, as a zombie, until the process is waited for.
                if thread.is_none() && tid != self.pid {
                    return Err(Errno::ESRCH);
                }
                thread
            }
            None => process.find_thread(|_| true),
        };
        Ok(Subject {
            process,
            thread,
            alone: self.tid.is_some(),
        })
    }

    /// Looks the process up, if the caller may inspect it.
    ///
    /// # Errors
    /// ESRCH, EACCES.
    pub fn find_open(self) -> Result<Subject> {
        let subject = self.find()?;
        if subject.may_look() {
            Ok(subject)
        } else {
            Err(Errno::EACCES)
        }
    }

    /// The owner of a file of the process, with this kind and these permissions; root if the
    /// process is gone.
    pub fn owner(self, kind: Kind, permissions: u32) -> (u32, u32) {
        let owner = |subject: Subject| subject.owner(kind, permissions);
        self.find().map_or((0, 0), owner)
    }
}

/// An inode of procfs that belongs to a process or thread.
#[derive(Clone, Copy)]
pub struct ProcInode {
    /// The process or thread.
    pub who: Task,
    /// The device of the file system.
    pub device: u64,
    /// The inode number.
    pub number: u64,
}

impl ProcInode {
    /// The attributes of an inode of this kind with these permissions.
    pub fn attr(&self, kind: Kind, permissions: u32) -> Attr {
        let owner = self.who.owner(kind, permissions);
        seq_file::attr(self.device, self.number, kind, permissions, owner)
    }

    /// The inode called `name` in this directory.
    pub fn member(&self, name: &[u8]) -> Self {
        let number = seq_file::number(self.number, name);
        ProcInode { number, ..*self }
    }

    /// Passes the entry for the member `name` to `emit`; false if that accepts no more.
    pub fn emit(
        &self,
        emit: &mut dyn FnMut(Record) -> bool,
        kind: Kind,
        name: &[u8],
        next: u64,
    ) -> bool {
        emit(Record {
            inode: self.member(name).number,
            kind,
            name,
            next,
        })
    }

    /// Whether the directory belongs to the caller's process.
    pub fn is_own(&self) -> bool {
        self.who.pid == current().process_id()
    }
}

/// Changes the attributes of a process's file (proc_setattr). It changes nothing: the permissions
/// are fixed, the owner is computed at every stat, and the times are the current time.
pub fn set_attr(change: &SetAttr) -> Result<()> {
    match change.permissions {
        Some(_) => Err(Errno::EPERM),
        None => Ok(()),
    }
}

impl Subject {
    /// The address space, if the process still has one.
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        self.thread.as_ref()?.space()
    }

    /// The descriptors; ESRCH if the process has ended.
    pub fn files(&self) -> Result<Arc<crate::fs::FdTable>> {
        let files = self.thread.as_ref().and_then(|thread| thread.try_files());
        files.ok_or(Errno::ESRCH)
    }

    pub fn fs(&self) -> Result<Arc<crate::fs::FsContext>> {
        let fs = self.thread.as_ref().and_then(|thread| thread.try_fs());
        fs.ok_or(Errno::ESRCH)
    }

    pub fn tid(&self) -> i32 {
        self.thread
            .as_ref()
            .map_or(self.process.pid(), |thread| thread.tid())
    }

    /// The signal that the parent gets when the process ends; −1 for a thread other than the first.
    pub fn exit_signal(&self) -> i32 {
        match self.tid() == self.process.pid() {
            true => self.process.exit_signal.load(Relaxed) as i32,
            false => -1,
        }
    }

    pub fn times(&self) -> Times {
        match &self.thread {
            Some(thread) if self.alone => thread.times(),
            _ => self.process.times(),
        }
    }

    pub fn usage(&self) -> Usage {
        match &self.thread {
            Some(thread) if self.alone => Usage::of(thread),
            _ => self.process.usage(),
        }
    }

    /// Its credentials.
    pub fn credentials(&self) -> Arc<Credentials> {
        let thread = self.thread.as_ref();
        thread.map_or_else(|| self.process.credentials(), |thread| thread.credentials())
    }

    /// Whether the caller may inspect the process now, as its files require.
    pub fn may_look(&self) -> bool {
        ptrace_access::check(&self.process, self.thread.as_deref(), By::File).is_ok()
    }

    /// Calls `f` if the caller may inspect the process. The process begins no other program
    /// meanwhile (lock_trace).
    ///
    /// # Errors
    /// EPERM, EINTR, and the errors of `f`.
    pub fn look<T>(&self, f: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let _held = self.process.hold_program()?;
        ptrace_access::check(&self.process, self.thread.as_deref(), By::File)?;
        f(self)
    }

    /// The memory that a file shows for as long as it is open, if the caller may inspect it. The
    /// file is about this memory even if the process begins another program, and it does not keep
    /// it (proc_mem_open). None if the process has ended.
    ///
    /// # Errors
    /// EACCES, EINTR.
    pub fn open_memory(&self) -> Result<Option<Weak<AddressSpace>>> {
        let Some(thread) = &self.thread else {
            return Ok(None);
        };
        let look = |thread: &Thread| Ok(thread.space().map(|space| Arc::downgrade(&space)));
        ptrace_access::look(thread, By::File, look).map_err(|error| match error {
            Errno::EPERM => Errno::EACCES,
            other => other,
        })
    }

    /// The owner of the process's files: its effective user, but root if others may not inspect it.
    /// Directories that everybody may read always show the effective user (task_dump_owner).
    pub fn owner(&self, kind: Kind, permissions: u32) -> (u32, u32) {
        let shown = (kind, permissions) == (Kind::Directory, 0o555)
            || self.space().is_some_and(|space| space.dumpable() == 1);
        if shown {
            let who = self.credentials();
            (who.euid, who.egid)
        } else {
            (0, 0)
        }
    }

    pub fn state(&self) -> (char, &'static str) {
        let Some(thread) = &self.thread else {
            return ('Z', "zombie");
        };
        if self.process.is_zombie() {
            return ('Z', "zombie");
        }
        match thread.sched.state() {
            state::RUNNABLE => ('R', "running"),
            state::INTERRUPTIBLE => ('S', "sleeping"),
            state::STOPPED => ('T', "stopped"),
            state::TRACED => ('t', "tracing stop"),
            state::DEAD => ('X', "dead"),
            _ => ('D', "disk sleep"),
        }
    }

    pub fn name(&self) -> [u8; 16] {
        self.thread
            .as_ref()
            .map(|thread| thread.name())
            .unwrap_or_default()
    }

    /// The sets of signals that are pending for the thread, blocked, ignored and caught.
    pub fn signals(&self) -> [u64; 4] {
        let actions = self.process.signals.actions();
        let handlers = |wanted: fn(usize) -> bool| {
            (1..=64)
                .filter(|&number| wanted(actions.get(number).handler))
                .fold(0, |set, number| set | 1 << (number - 1))
        };
        let shared = self.process.signals.pending.lock().set();
        let pending = self
            .thread
            .as_ref()
            .map_or(0, |thread| thread.pending() & !shared);
        let blocked = self.thread.as_ref().map_or(0, |thread| thread.blocked());
        [
            pending,
            blocked,
            handlers(|handler| handler == 1),
            handlers(|handler| handler > 1),
        ]
    }
}

/// The bytes of a name up to the first zero.
pub fn trim(name: &[u8; 16]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or_default()
}
