//! The actions of a process for signals.

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use linux_raw_sys::general::*;

use super::LAST;
use super::mask::Set;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::sync::Mutex;

/// The handler value for the default action.
pub const SIG_DFL: usize = 0;
/// The handler value for ignoring a signal.
pub const SIG_IGN: usize = 1;

/// The action for a signal (sigaction(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Action {
    /// Address of the handler, `SIG_DFL` or `SIG_IGN`.
    pub handler: usize,
    /// SA_* flags.
    pub flags: usize,
    /// The address to which the handler returns, if `flags` has SA_RESTORER.
    pub restorer: usize,
    /// Signals blocked while the handler runs.
    pub mask: u64,
}

/// The default action for a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Default {
    /// Terminates the process.
    Terminate,
    /// Terminates the process and dumps core.
    Core,
    /// Does nothing.
    Ignore,
    /// Stops the process.
    Stop,
    /// Continues the process if it is stopped.
    Continue,
}

/// The default action of a signal.
pub const fn default_of(number: u32) -> Default {
    match number {
        SIGCHLD | SIGURG | SIGWINCH => Default::Ignore,
        SIGCONT => Default::Continue,
        SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU => Default::Stop,
        SIGQUIT | SIGILL | SIGTRAP | SIGABRT | SIGBUS | SIGFPE | SIGSEGV | SIGXCPU | SIGXFSZ
        | SIGSYS => Default::Core,
        _ => Default::Terminate,
    }
}

/// The action of a signal for which none was set.
pub(super) const DEFAULT: Action = Action {
    handler: SIG_DFL,
    flags: 0,
    restorer: 0,
    mask: 0,
};

/// The actions of a process, or of several that share them.
pub struct Actions {
    /// The actions up to the last signal for which one was set: usually few, which fork copies.
    table: Mutex<Vec<Action>>,
    /// Signals that would have no effect now, as bits.
    ignored: AtomicU64,
}

/// Signals that have no effect by default.
const IGNORED: u64 = {
    let (mut set, mut number) = (0, 1);
    while number <= LAST {
        if matches!(default_of(number), Default::Ignore | Default::Continue) {
            set |= Set::bit(number);
        }
        number += 1;
    }
    set
};

/// The signals that have no effect after `number` got this action, if before they were `ignored`.
fn ignored_with(ignored: u64, number: u32, action: &Action) -> u64 {
    let bit = Set::bit(number);
    match action.handler {
        SIG_IGN => ignored | bit,
        handler if handler > SIG_IGN => ignored & !bit,
        _ => ignored & !bit | IGNORED & bit,
    }
}

impl Actions {
    /// The default actions.
    pub fn new() -> Result<Arc<Self>> {
        Self::with(Vec::new(), IGNORED)
    }

    fn with(table: Vec<Action>, ignored: u64) -> Result<Arc<Self>> {
        try_arc(Actions {
            table: Mutex::new(table),
            ignored: AtomicU64::new(ignored),
        })
    }

    /// A copy for fork.
    pub fn fork(&self) -> Result<Arc<Self>> {
        let table = self.table.lock();
        let mut copy = Vec::new();
        reserve(&mut copy, table.len())?;
        copy.extend_from_slice(&table);
        drop(table);
        Self::with(copy, self.ignored())
    }

    /// A copy for exec: handlers of the old program are reset, ignored signals stay ignored.
    pub fn exec(&self) -> Result<Arc<Self>> {
        let table = self.table.lock();
        let is_kept = |action: &Action| action.handler == SIG_IGN;
        let kept = table.iter().rposition(is_kept).map_or(0, |last| last + 1);
        let (mut copy, mut ignored) = (Vec::new(), IGNORED);
        reserve(&mut copy, kept)?;
        for (number, action) in (1..).zip(&table[..kept]) {
            let handler = if is_kept(action) { SIG_IGN } else { SIG_DFL };
            let action = Action { handler, ..DEFAULT };
            ignored = ignored_with(ignored, number, &action);
            copy.push(action);
        }
        Self::with(copy, ignored)
    }

    /// The action for signal `number`.
    pub fn get(&self, number: u32) -> Action {
        let table = self.table.lock();
        table.get(number as usize - 1).copied().unwrap_or(DEFAULT)
    }

    /// Sets the action for signal `number`; returns the old one. Inlined, and without arguments by
    /// reference, so that neither action is passed through memory.
    ///
    /// # Errors
    /// ENOMEM.
    #[inline(always)]
    pub fn set(&self, number: u32, action: Action) -> Result<Action> {
        let table = &mut *self.table.lock();
        let place = match table.get_mut(number as usize - 1) {
            Some(place) => place,
            None if action == DEFAULT => return Ok(DEFAULT),
            None => grow(table, number)?,
        };
        self.note(number, &action);
        Ok(core::mem::replace(place, action))
    }

    /// Sets the default for signal `number`.
    pub fn reset(&self, number: u32) {
        if let Some(place) = self.table.lock().get_mut(number as usize - 1) {
            *place = DEFAULT;
            self.note(number, &DEFAULT);
        }
    }

    /// Records whether signal `number` has an effect with this action.
    #[inline]
    fn note(&self, number: u32, action: &Action) {
        let ignored = ignored_with(self.ignored(), number, action);
        self.ignored.store(ignored, Relaxed);
    }

    /// The action for a signal that is being delivered; SA_RESETHAND resets the handler, and
    /// nothing else, to the default.
    pub fn take(&self, number: u32) -> Action {
        let mut table = self.table.lock();
        let Some(place) = table.get_mut(number as usize - 1) else {
            return DEFAULT;
        };
        let action = *place;
        if action.handler > SIG_IGN && action.flags & SA_RESETHAND as usize != 0 {
            place.handler = SIG_DFL;
            self.note(number, place);
        }
        action
    }

    /// Signals that would have no effect now, as bits.
    #[inline]
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Relaxed)
    }
}

/// Extends the table to signal `number`; returns its entry.
#[cold]
#[inline(never)]
fn grow(table: &mut Vec<Action>, number: u32) -> Result<&mut Action> {
    let count = number as usize;
    reserve(table, count - table.len())?;
    table.resize(count, DEFAULT);
    table.last_mut().ok_or(Errno::ENOMEM)
}

fn reserve(table: &mut Vec<Action>, more: usize) -> Result<()> {
    let room = table.try_reserve_exact(more);
    room.map_err(|_| Errno::ENOMEM)
}
