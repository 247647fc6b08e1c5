//! Handling of a damaged image: the error is recorded in the superblock, and the file system
//! continues or becomes read-only, as the superblock or the mount says (`errors=`).

use crate::superblock;
use crate::{Device, Error, Fs, Result};

/// The reaction to damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// Only the operation that found it fails.
    Continue,
    /// Nothing is written any more.
    ReadOnly,
    /// As `ReadOnly`, and the caller stops the machine.
    Panic,
}

impl Errors {
    /// The value in the superblock.
    pub(crate) fn from_superblock(value: u16) -> Self {
        match value {
            2 => Errors::ReadOnly,
            3 => Errors::Panic,
            _ => Errors::Continue,
        }
    }
}

impl<D: Device> Fs<D> {
    /// The reaction to damage.
    pub fn errors(&self) -> Errors {
        self.errors
    }

    /// Sets the mount's `errors=`, which takes precedence over the superblock's.
    pub fn set_errors(&mut self, errors: Errors) {
        self.errors = errors;
    }

    /// Whether nothing can be written any more, because a commit failed or damage was found.
    pub fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// Reacts to `error`, if it reports a damaged image. Operations that change something do this
    /// themselves; the caller does it for those that only read.
    pub fn report(&mut self, error: Error) {
        if !matches!(error, Error::Corrupt(_)) || self.journal.is_none() || self.aborted {
            return;
        }
        if self.errors != Errors::Continue {
            self.abort();
            return;
        }
        let seconds = self.now.seconds as u32;
        match self.change_superblock(|raw| superblock::count_error(raw, seconds)) {
            Ok(()) => self.store.keep(),
            // The next error is counted.
            Err(_) => self.store.undo(),
        }
    }

    /// From now on only the journal is written, where the next mount finds the error: the
    /// superblock may be part of a transaction.
    pub(crate) fn abort(&mut self) {
        if self.aborted {
            return;
        }
        self.aborted = true;
        if let Some(mut journal) = self.journal.take() {
            // If the device fails, nothing more can be done.
            let _ = self.write_journal_error(&mut journal);
            self.journal = Some(journal);
        }
    }

    /// Takes over an error from the journal, before the journal is prepared for writing.
    pub(crate) fn take_journal_error(&mut self, failed: bool) -> Result<()> {
        if failed {
            let seconds = self.now.seconds as u32;
            self.write_superblock(|raw| superblock::count_error(raw, seconds))?;
        }
        Ok(())
    }
}
