//! Timed batches of one operation.

use std::io;

use crate::counter;

/// The result of a row, or of an operation.
pub type Done = io::Result<()>;

/// Measures one row at one size.
pub struct Meter {
    size: usize,
    batches: usize,
    operations: usize,
    /// The time of each batch but the first, in nanoseconds.
    times: Vec<u64>,
}

impl Meter {
    /// A meter for this many batches.
    pub fn new(size: usize, batches: usize) -> Self {
        Self {
            size,
            batches,
            operations: 1,
            times: Vec::new(),
        }
    }

    /// The number of objects or bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Times `work`, which does `operations` operations, once for each batch. `prepare` runs before
    /// each batch and is not timed. The first batch is discarded.
    pub fn batches(
        &mut self,
        operations: usize,
        mut prepare: impl FnMut() -> Done,
        mut work: impl FnMut() -> Done,
    ) -> Done {
        self.operations = operations;
        for batch in 0..=self.batches {
            prepare()?;
            let start = counter::now();
            let done = work();
            let end = counter::now();
            done?;
            if batch > 0 {
                self.times.push(end - start);
            }
        }
        Ok(())
    }

    /// Times batches of `times` calls of `operation`, which gets its number in the batch.
    pub fn repeat(&mut self, times: usize, mut operation: impl FnMut(usize) -> Done) -> Done {
        self.batches(times, || Ok(()), || (0..times).try_for_each(&mut operation))
    }

    /// Times transfers of [`Meter::size`] bytes, several small ones together.
    pub fn transfers(&mut self, mut transfer: impl FnMut() -> Done) -> Done {
        let times = (16_384 / self.size.max(1)).clamp(1, 16);
        self.repeat(times, |_| transfer())
    }

    /// The least and the median time of a batch, divided by its operations.
    pub fn least_and_median(&mut self) -> Option<(f64, f64)> {
        self.times.sort_unstable();
        let each = |time: u64| time as f64 / self.operations as f64;
        let median = *self.times.get(self.times.len() / 2)?;
        Some((each(*self.times.first()?), each(median)))
    }
}
