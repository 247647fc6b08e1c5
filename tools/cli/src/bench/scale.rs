//! The suite `scale`: the same operations in processes of 1 to 64 threads, each on a CPU of its
//! own.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::crossings_boot::Boot;
use super::crossings_output::{Parsed, Several};
use super::result::{Column, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;

/// The operations, each of which is a row of programs/crossings.
const ROWS: [&str; 8] = [
    "null_call",
    "anon_write",
    "munmap_page",
    "mmap_touch_munmap",
    "file_read",
    "futex_round_trip",
    "thread_create_join",
    "fork_exit_wait",
];

/// The numbers of threads, and of CPUs.
const SIZES: &[u32] = &[1, 2, 4, 16, 64];
/// For a single operation.
const ALL_SIZES: &[u32] = &[1, 2, 4, 8, 16, 32, 64];
/// With `--quick`.
const QUICK: &[u32] = &[1, 2, 8];

/// Measures one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Vec<Column>> {
    let sizes = if bench.quick { QUICK } else { SIZES };
    let name = format!("scale, {}", arch.debian());
    by_threads(bench, arch, subject, &name, &ROWS, sizes)
}

/// Measures reads of an ID register, for `idreg`.
pub fn id_reads(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Vec<Column>> {
    let sizes = if bench.quick { QUICK } else { ALL_SIZES };
    let name = format!("idreg, {}", arch.debian());
    by_threads(bench, arch, subject, &name, &["id_read"], sizes)
}

/// Measures some rows with these numbers of threads: a table of instructions and one of shared
/// cache lines, titled `name`.
fn by_threads(
    bench: &Bench,
    arch: Arch,
    subject: &Subject,
    name: &str,
    rows: &[&str],
    sizes: &[u32],
) -> Result<Vec<Column>> {
    let words: Vec<_> = sizes.iter().map(u32::to_string).collect();
    let words = words.join(",");
    let first = [
        "--batches",
        "2",
        "--settle",
        "3000",
        "--pause",
        "20",
        "--threads",
        &words,
    ];
    let boot = Boot {
        subject,
        arch,
        cpus: sizes.iter().copied().max().unwrap_or(1),
        arguments: first
            .iter()
            .chain(rows)
            .map(|word| word.to_string())
            .collect(),
        plugin: Some(",instructions=off,lines=on"),
        limit: Duration::from_secs(600),
    };
    let booted = boot.run(bench)?;
    let parsed = Parsed::parse(&booted.console);
    let column = |head, value: &dyn Fn(&Several) -> Option<f64>| Column {
        kernel: parsed.kernel.clone(),
        commands: vec![booted.command.clone()],
        failure: booted.failure.clone(),
        rows: in_order(&parsed.several, rows)
            .into_iter()
            .filter_map(|row| Some(Row::new(called(row), "", value(row)?)))
            .collect(),
        ..Column::new(head, &subject.label)
    };
    let id = name.replace(", ", "-");
    let head = |id: String, title: String, unit: &str, ratios| {
        Head {
        id,
        title,
        unit: unit.into(),
        note: "A process of so many threads, each on a CPU of its own; all ran there, then the first and the \
               last measured by turns, twice each, on the same machine. fork copies the threads' stacks too."
            .into(),
        ratios,
        mean: false,
        ..Head::default()
    }
    };
    let unit = "instructions of all CPUs an operation, mean of the turns' least batches";
    let instructions = head(
        id.clone() + "-threads",
        format!("{name}: threads"),
        unit,
        true,
    );
    let unit = "64-byte lines an operation, written by one thread and touched by the other too";
    let lines = head(
        id + "-threads-lines",
        format!("{name}: threads, shared lines"),
        unit,
        false,
    );
    Ok(vec![
        column(instructions, &|row| {
            let count = row.values.len() as f64;
            (count > 0.0).then(|| row.values.iter().sum::<f64>() / count)
        }),
        column(lines, &|row| {
            let shared = booted.counted.shared(&row.tags, row.operations)?;
            (row.threads > 1).then_some(shared.len() as f64)
        }),
    ])
}

/// The rows of one operation after another.
fn in_order<'a>(several: &'a [Several], names: &[&str]) -> Vec<&'a Several> {
    let mut rows: Vec<_> = several.iter().collect();
    rows.sort_by_key(|row| names.iter().position(|name| *name == row.name));
    rows
}

fn called(row: &Several) -> String {
    format!("{}, {}", row.name, threads(row.threads))
}

/// A number of threads.
pub fn threads(number: u32) -> String {
    format!("{number} thread{}", if number == 1 { "" } else { "s" })
}
