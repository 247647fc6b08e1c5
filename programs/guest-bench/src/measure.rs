//! Many times the same, and what it took: the least and the median.

use crate::{println, time};

/// Samples of a row.
const SAMPLES: usize = 48;
/// Operations in a sample, unless one takes longer than all together may.
const BATCH: u64 = 16;
/// What the operations of a sample may take together, in microseconds.
const LIMIT: u64 = 200;

/// Samples of one thing, in ticks.
pub struct Samples {
    ticks: [u64; SAMPLES],
    len: usize,
}

impl Samples {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            ticks: [0; SAMPLES],
            len: 0,
        }
    }

    /// Adds one; says whether more are wanted.
    pub fn add(&mut self, ticks: u64) -> bool {
        self.ticks[self.len] = ticks;
        self.len += 1;
        self.len < SAMPLES
    }

    /// Prints the row `name`; a sample is of `operations`. Nothing where there are none.
    pub fn print(mut self, name: &str, operations: u64) {
        let ticks = &mut self.ticks[..self.len];
        ticks.sort_unstable();
        let each = |ticks: u64| (time::nanoseconds(ticks) + operations / 2) / operations;
        if let [least, ..] = *ticks {
            println!("{name} {} {}", each(least), each(ticks[ticks.len() / 2]));
        }
    }
}

/// What it takes to look at the clock twice.
pub fn overhead() -> u64 {
    (0..SAMPLES).map(|_| elapsed(|| ())).min().unwrap_or(0)
}

#[inline(always)]
fn elapsed(work: impl FnOnce()) -> u64 {
    let start = time::now();
    work();
    time::now() - start
}

/// Measures an operation in batches and prints its row.
pub fn batches(name: &str, mut operation: impl FnMut()) {
    let overhead = overhead();
    let once = elapsed(&mut operation).max(1);
    let batch = (time::microseconds(LIMIT) / once).clamp(1, BATCH);
    let mut samples = Samples::new();
    loop {
        let ticks = elapsed(|| (0..batch).for_each(|_| operation()));
        if !samples.add(ticks.saturating_sub(overhead)) {
            break;
        }
    }
    samples.print(name, batch);
}
