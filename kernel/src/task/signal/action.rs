//! What a process does about each signal.

extern crate alloc;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use linux_raw_sys::general::*;

use super::LAST;
use super::mask::Set;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

/// The handler that stands for the default.
pub const SIG_DFL: usize = 0;
/// The handler that stands for nothing at all.
pub const SIG_IGN: usize = 1;

/// What is done about a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Action {
    /// Address of the handler, `SIG_DFL` or `SIG_IGN`.
    pub handler: usize,
    /// SA_* flags.
    pub flags: usize,
    /// Where the handler returns to, if `flags` has SA_RESTORER.
    pub restorer: usize,
    /// Signals held back while the handler runs.
    pub mask: u64,
}

/// What happens to a process that said nothing about a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Default {
    /// It ends.
    Terminate,
    /// It ends, as after a fault.
    Core,
    /// Nothing.
    Ignore,
    /// It stops.
    Stop,
    /// It goes on if stopped.
    Continue,
}

/// The default of a signal.
pub fn default_of(number: u32) -> Default {
    match number {
        SIGCHLD | SIGURG | SIGWINCH => Default::Ignore,
        SIGCONT => Default::Continue,
        SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU => Default::Stop,
        SIGQUIT | SIGILL | SIGTRAP | SIGABRT | SIGBUS | SIGFPE | SIGSEGV | SIGXCPU | SIGXFSZ
        | SIGSYS => Default::Core,
        _ => Default::Terminate,
    }
}

/// What is done about a signal that nobody said anything about.
pub(super) const DEFAULT: Action = Action {
    handler: SIG_DFL,
    flags: 0,
    restorer: 0,
    mask: 0,
};

/// An action for each signal, on the heap: too much for kernel stacks to pass on by value.
type Table = Box<[Action; LAST as usize]>;

/// Makes a table from as many actions as there are signals.
fn table_of(actions: impl Iterator<Item = Action>) -> Result<Table> {
    let mut table = Vec::new();
    table
        .try_reserve_exact(LAST as usize)
        .map_err(|_| Errno::ENOMEM)?;
    table.extend(actions);
    Ok(table
        .into_boxed_slice()
        .try_into()
        .expect("as many actions as signals"))
}

/// The actions of a process, or of several that share them.
pub struct Actions {
    table: Mutex<Table>,
    /// Signals that would have no effect now, as bits.
    ignored: AtomicU64,
}

fn has_no_effect(number: u32, action: &Action) -> bool {
    match action.handler {
        SIG_IGN => true,
        SIG_DFL => matches!(default_of(number), Default::Ignore | Default::Continue),
        _ => false,
    }
}

impl Actions {
    /// The default for all.
    pub fn new() -> Result<Arc<Self>> {
        Self::with(table_of((0..LAST).map(|_| DEFAULT))?)
    }

    fn with(table: Table) -> Result<Arc<Self>> {
        let numbered = (1..).zip(&*table);
        let ignored = numbered.filter(|(number, action)| has_no_effect(*number, action));
        let ignored = ignored.fold(0, |set, (number, _)| set | Set::bit(number));
        try_arc(Actions {
            table: Mutex::new(table),
            ignored: AtomicU64::new(ignored),
        })
    }

    /// A copy, as fork makes it.
    pub fn fork(&self) -> Result<Arc<Self>> {
        let table = table_of(self.table.lock().iter().copied())?;
        try_arc(Actions {
            table: Mutex::new(table),
            ignored: AtomicU64::new(self.ignored()),
        })
    }

    /// A copy, as exec leaves it: handlers of the old program are gone, what is ignored stays ignored.
    pub fn exec(&self) -> Result<Arc<Self>> {
        let kept = |action: &Action| match action.handler {
            SIG_IGN => Action {
                handler: SIG_IGN,
                ..DEFAULT
            },
            _ => DEFAULT,
        };
        Self::with(table_of(self.table.lock().iter().map(kept))?)
    }

    /// The action for signal `number`.
    pub fn get(&self, number: u32) -> Action {
        self.table.lock()[number as usize - 1]
    }

    /// Sets the action for signal `number`; returns the old one.
    pub fn set(&self, number: u32, action: Action) -> Action {
        let mut table = self.table.lock();
        let bit = Set::bit(number);
        let ignored = self.ignored() & !bit
            | if has_no_effect(number, &action) {
                bit
            } else {
                0
            };
        self.ignored.store(ignored, Relaxed);
        core::mem::replace(&mut table[number as usize - 1], action)
    }

    /// The action for a signal that is being delivered: SA_RESETHAND lets the handler go back to the default, and no more.
    pub fn take(&self, number: u32) -> Action {
        let action = self.get(number);
        if action.handler > SIG_IGN && action.flags & SA_RESETHAND as usize != 0 {
            self.set(
                number,
                Action {
                    handler: SIG_DFL,
                    ..action
                },
            );
        }
        action
    }

    /// Signals that would have no effect now, as bits.
    #[inline]
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Relaxed)
    }
}
