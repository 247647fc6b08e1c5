//! The process or thread that a directory of procfs is of.

use crate::errno::{Errno, Result};
use crate::mm::AddressSpace;
use crate::task::sched::state;
use crate::task::thread::Resources;
use crate::task::usage::{Times, Usage};
use crate::task::{Process, Thread, tree};
use alloc::sync::Arc;

/// Which process or thread a directory is of.
#[derive(Clone, Copy)]
pub struct Who {
    /// The process.
    pub pid: i32,
    /// The thread, or the whole process.
    pub tid: Option<i32>,
}

/// The process and thread, as they are now. A process that ended and was not waited for has no thread.
pub struct Subject {
    /// The process.
    pub process: Arc<Process>,
    /// The thread, or the process's first.
    pub thread: Option<Arc<Thread>>,
    /// Whether the thread alone is meant.
    pub alone: bool,
}

impl Who {
    /// Who that is now; ESRCH when it is gone.
    pub fn find(self) -> Result<Subject> {
        let process = tree::process(self.pid).ok_or(Errno::ESRCH)?;
        let thread = match self.tid {
            Some(tid) => Some(
                tree::thread(tid)
                    .filter(|thread| thread.process_id() == self.pid)
                    .ok_or(Errno::ESRCH)?,
            ),
            None => process.find_thread(|_| true),
        };
        Ok(Subject {
            process,
            thread,
            alone: self.tid.is_some(),
        })
    }
}

impl Subject {
    pub fn resources(&self) -> Resources {
        self.thread
            .as_ref()
            .map(|thread| thread.resources())
            .unwrap_or_default()
    }

    /// The address space, if it still has one.
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        self.resources().space
    }

    /// The descriptors; ESRCH when it has ended.
    pub fn files(&self) -> Result<Arc<crate::fs::FdTable>> {
        self.resources().files.ok_or(Errno::ESRCH)
    }

    pub fn fs(&self) -> Result<Arc<crate::fs::FsContext>> {
        self.resources().fs.ok_or(Errno::ESRCH)
    }

    pub fn tid(&self) -> i32 {
        self.thread
            .as_ref()
            .map_or(self.process.pid(), |thread| thread.tid())
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

    pub fn owner(&self) -> (u32, u32) {
        self.process.with_credentials(|who| (who.euid, who.egid))
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
