//! The inodes that the running transaction has changed, from which fsync(2) and fdatasync(2) know
//! what to wait for.

use hashbrown::HashMap;

use crate::inode::Time;
use crate::{Device, Fs, Result};

/// A transaction is committed when it is this many seconds old, as in Linux (`commit=`).
const INTERVAL: i64 = 5;

/// The inodes changed by the running transaction.
#[derive(Default)]
pub(crate) struct Changes {
    /// By inode number, whether more than times has changed.
    inodes: HashMap<u32, bool>,
    /// When the first one was changed.
    since: Option<Time>,
}

impl Changes {
    /// Called after the transaction was committed.
    pub fn clear(&mut self) {
        self.inodes.clear();
        self.since = None;
    }
}

/// Whether two inodes differ only in times and checksums.
pub(crate) fn differ_by_times(before: &[u8], after: &[u8]) -> bool {
    // Size and owners; links up to the low half of the checksum; from there up to its high half;
    // creation time and attributes.
    [0..0x8, 0x14..0x7c, 0x7e..0x82, 0x90..usize::MAX]
        .into_iter()
        .all(|part| {
            let part = |raw: &[u8]| part.start.min(raw.len())..part.end.min(raw.len());
            before[part(before)] == after[part(after)]
        })
}

impl<D: Device> Fs<D> {
    /// Records a change of an inode; `more`: fdatasync(2) must write it.
    pub(crate) fn note_change(&mut self, number: u32, more: bool) -> Result<()> {
        self.changes.inodes.try_reserve(1)?;
        *self.changes.inodes.entry(number).or_default() |= more;
        self.changes.since.get_or_insert(self.now);
        Ok(())
    }

    /// Puts an inode, and its data that was written to the device, on the medium: fsync(2), or
    /// fdatasync(2) with `data_only`. The running transaction is committed only if it contains
    /// changes of the inode that matter for the call: changes of times only do not matter for
    /// `data_only`.
    ///
    /// # Errors
    /// Those of [`Fs::commit`].
    pub fn sync_inode(&mut self, number: u32, data_only: bool) -> Result<()> {
        let changed = self.changes.inodes.get(&number);
        if self.aborted || changed.is_some_and(|more| *more || !data_only) {
            return self.commit();
        }
        self.store.device.flush()
    }

    /// Commits if the running transaction is five seconds old. The caller's timer calls this.
    ///
    /// # Errors
    /// Those of [`Fs::commit`].
    pub fn commit_if_due(&mut self, now: Time) -> Result<()> {
        let Some(since) = self.changes.since else {
            return Ok(());
        };
        let age = now.seconds.saturating_sub(since.seconds);
        // A clock that was set back must not postpone the commit.
        if (0..INTERVAL).contains(&age) {
            return Ok(());
        }
        self.commit()
    }
}
