//! Timed batches of one operation.

use crate::arch;
use crate::arguments::Arguments;
use crate::measure::Run;
use crate::sys::{Errno, Result};
use core::fmt;

/// The maximum number of batches of a row.
pub const MOST_BATCHES: usize = 256;

/// The reason why a row has no figures.
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
    /// A meter for one row; `tag` marks its phases for an observer outside the machine.
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

    /// Times `work`, which does `operations` operations, once for each batch. `prepare` runs before
    /// each batch and is not timed. The first batch warms the kernel's caches and is discarded.
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

    /// The row's tag, and the number of operations in the phases with this tag.
    pub fn marked(&self) -> (usize, u64) {
        (self.tag, (self.batches as u64 + 1) * self.operations)
    }

    /// The least and the median time of a batch, divided by its operations.
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
