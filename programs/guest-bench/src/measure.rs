//! Repeats an operation many times, and reports the minimum and the median of its time. Markers
//! around it let QEMU's plugin count its instructions.

use core::arch::{asm, global_asm};

use crate::{println, time};

/// Samples of a row.
const SAMPLES: usize = 48;
/// Operations in a sample, unless that takes longer than [`LIMIT`].
const BATCH: u64 = 16;
/// The tag of the phase in which nothing is measured. The tags of samples follow, one each.
const OUTSIDE: usize = 0;
const TAGS: usize = 1024;

/// The time that all operations of a sample may take, in microseconds.
const LIMIT: u64 = 200;

/// The samples of one row, in ticks.
pub struct Samples {
    ticks: [u64; SAMPLES],
    len: usize,
}

impl Samples {
    /// No samples.
    pub const fn new() -> Self {
        Self {
            ticks: [0; SAMPLES],
            len: 0,
        }
    }

    /// Adds a sample; says whether more are wanted.
    pub fn add(&mut self, ticks: u64) -> bool {
        self.ticks[self.len] = ticks;
        self.len += 1;
        self.len < SAMPLES
    }

    /// Prints the row `name`, for samples of `operations`. Prints nothing without samples.
    pub fn print(mut self, name: &str, operations: u64) {
        let ticks = &mut self.ticks[..self.len];
        ticks.sort_unstable();
        let each = |ticks: u64| (time::nanoseconds(ticks) + operations / 2) / operations;
        if let [least, ..] = *ticks {
            println!("{name} {} {}", each(least), each(ticks[ticks.len() / 2]));
        }
    }
}

/// The cost of reading the clock twice.
pub fn overhead() -> u64 {
    (0..SAMPLES).map(|_| elapsed(|| ())).min().unwrap_or(0)
}

#[inline(always)]
fn elapsed(work: impl FnOnce()) -> u64 {
    let start = time::now();
    work();
    time::now() - start
}

global_asm!(
    // One marker for each tag: MOVZ to XZR has no effect (Arm ARM, MOV (wide immediate)).
    "markers:",
    ".set tag, 0",
    ".rept {tags}",
    "movz xzr, #tag",
    "ret",
    ".set tag, tag + 1",
    ".endr",
    tags = const TAGS,
);

unsafe extern "C" {
    safe static markers: [u64; TAGS];
}

/// Executes the marker with this tag, which has no effect but which QEMU's plugin sees.
fn mark(tag: usize) {
    let marker = &raw const markers[tag];
    // SAFETY: each entry is a marker and a return, and clobbers nothing but the link register.
    unsafe { asm!("blr {}", in(reg) marker, out("x30") _, options(nostack, preserves_flags)) };
}

/// Measures operation number `row` in batches and prints its row. Before that it prints `phases TAG
/// COUNT NAME BATCH`: each sample is a phase for QEMU's plugin.
pub fn batches(row: usize, name: &str, mut operation: impl FnMut()) {
    let overhead = overhead();
    let once = elapsed(&mut operation).max(1);
    let batch = (time::microseconds(LIMIT) / once).clamp(1, BATCH);
    let mut samples = Samples::new();
    let first = OUTSIDE + 1 + row * SAMPLES;
    loop {
        mark(first + samples.len);
        let ticks = elapsed(|| (0..batch).for_each(|_| operation()));
        mark(OUTSIDE);
        if !samples.add(ticks.saturating_sub(overhead)) {
            break;
        }
    }
    println!("phases {first} {SAMPLES} {name} {batch}");
    samples.print(name, batch);
}
