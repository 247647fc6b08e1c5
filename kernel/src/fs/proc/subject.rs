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
    /// When the process began: another may have its number later.
    pub(super) began: u64,
}

/// The process and thread, as they are now. A process that ended and was not waited for has no
/// thread.
pub struct Subject {
    /// The process.
    pub process: Arc<Process>,
    /// The thread, or the process's first.
    pub thread: Option<Arc<Thread>>,
    /// Whether the thread alone is meant.
    pub alone: bool,
}

impl Task {
    /// A process, or a thread of it.
    pub fn new(process: &Process, tid: Option<i32>) -> Self {
        Task {
            pid: process.pid(),
            tid,
            began: process.started(),
        }
    }

    /// The process that it is now; ESRCH when it is gone.
    pub fn find(self) -> Result<Subject> {
        let process =
            pid_table::process(self.pid).filter(|process| process.started() == self.began);
        let process = process.ok_or(Errno::ESRCH)?;
        let thread = match self.tid {
            Some(tid) => {
                let thread = pid_table::thread(tid);
                let thread = thread.filter(|thread| thread.process_id() == self.pid);
                // The first stays, as a zombie, until somebody has waited for the process.
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

    /// The process that it is now, if the caller may look into it.
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

    /// The owner of its file of this kind and with these permissions; root when it is gone.
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
    /// The inode's number.
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

    /// Hands the record of the member called `name` to `emit`; false if that takes no more.
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

/// A change of the attributes of a process's file: its permissions stay; its owner is found anew
/// whenever somebody asks, and its times are those of the moment (proc_setattr).
pub fn set_attr(change: &SetAttr) -> Result<()> {
    match change.permissions {
        Some(_) => Err(Errno::EPERM),
        None => Ok(()),
    }
}

impl Subject {
    /// The address space, if it still has one.
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        self.thread.as_ref()?.space()
    }

    /// The descriptors; ESRCH when it has ended.
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

    /// The signal that its parent gets at its end; −1 for a thread that is not the first.
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

    /// Whether the caller may look into it now, as far as a file of it shows that.
    pub fn may_look(&self) -> bool {
        ptrace_access::check(&self.process, self.thread.as_deref(), By::File).is_ok()
    }

    /// Calls `f` if the caller may look into it. It begins no other program meanwhile (lock_trace).
    ///
    /// # Errors
    /// EPERM, EINTR, and what `f` fails with.
    pub fn look<T>(&self, f: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let _held = self.process.hold_program()?;
        ptrace_access::check(&self.process, self.thread.as_deref(), By::File)?;
        f(self)
    }

    /// The memory that a file is to show for as long as it is open, if the caller may look into it:
    /// whatever program the process begins meanwhile, the file is about this one, and it keeps
    /// nothing (proc_mem_open). None if the process has ended.
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

    /// The owner of its files: the user it acts as, but root where others may not look into it.
    /// Directories that everybody may read always show whom it acts as (task_dump_owner).
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

/// A name's bytes, up to the first zero.
pub fn trim(name: &[u8; 16]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or_default()
}
