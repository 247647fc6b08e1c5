//! Batches of one operation, timed.

use crate::arch;
use crate::arguments::Arguments;
use crate::measure::Run;
use crate::sys::{Errno, Result};
use core::fmt;

/// The most batches that a row keeps.
pub const MOST_BATCHES: usize = 256;

/// Why a row has no figure.
pub enum Outcome {
    /// This processor or architecture has no such crossing.
    Absent,
    /// A system call failed.
    Failed(Errno),
}

impl From<Errno> for Outcome {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}

/// A time for one operation, in tenths of a nanosecond.
#[derive(Clone, Copy)]
pub struct Tenths(u64);

impl fmt::Display for Tenths {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        write!(to, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

/// Measures one row.
pub struct Meter<'a> {
    /// The command line and the auxiliary vector, for the rows that need them.
    pub arguments: &'a Arguments,
    batches: usize,
    frequency: u64,
    tag: usize,
    operations: u64,
    ticks: [u64; MOST_BATCHES],
}

impl<'a> Meter<'a> {
    /// A meter for one row, whose phases `tag` marks for an observer outside the machine.
    pub fn new(run: &Run<'a>, tag: usize) -> Self {
        Self {
            arguments: run.arguments,
            batches: run.options.batches,
            frequency: run.frequency,
            tag,
            operations: 1,
            ticks: [0; MOST_BATCHES],
        }
    }

    /// Times `work`, which does `operations` operations, once for each batch; `prepare` comes
    /// before each and is not timed. One batch more, at the start, is thrown away: it warms the
    /// kernel's caches.
    pub fn batches(
        &mut self,
        operations: usize,
        mut prepare: impl FnMut() -> Result<()>,
        mut work: impl FnMut() -> Result<()>,
    ) -> core::result::Result<(), Outcome> {
        self.operations = operations as u64;
        for batch in 0..=self.batches {
            prepare()?;
            arch::mark(self.tag);
            let start = arch::counter();
            let done = work();
            let end = arch::counter();
            arch::mark(0);
            done?;
            self.ticks[batch.saturating_sub(1)] = end - start;
        }
        Ok(())
    }

    /// The row's tag, and how many operations were done in the phases that it marks.
    pub fn marked(&self) -> (usize, u64) {
        (self.tag, (self.batches as u64 + 1) * self.operations)
    }

    /// The least batch and the median one, for one operation.
    pub fn least_and_median(&mut self) -> (Tenths, Tenths) {
        let ticks = &mut self.ticks[..self.batches];
        ticks.sort_unstable();
        let each = |ticks: u64| {
            let tenths = u128::from(ticks) * 10_000_000_000;
            Tenths((tenths / u128::from(self.frequency) / u128::from(self.operations)) as u64)
        };
        (each(ticks[0]), each(ticks[ticks.len() / 2]))
    }
}
