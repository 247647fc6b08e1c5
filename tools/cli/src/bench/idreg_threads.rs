//! The threads of `idreg`, which all read an ID register at once. The figures are times, and
//! therefore noise.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::crossings_boot::{Boot, Booted};
use super::result::{Column, Head, Row};
use super::scale::threads;
use super::subject::Subject;
use crate::arch::Arch;

/// The work of the threads.
struct Limits {
    /// The maximum number of threads. It starts at one and is doubled each time, on a machine with
    /// as many CPUs.
    threads: u32,
    /// The maximum number of reads per thread,
    reads: u32,
    /// and the maximum time in milliseconds.
    milliseconds: u32,
    /// The host's processor time for such a machine, which may make little progress if a lock is
    /// contended.
    machine: Duration,
}

const USUAL: Limits = Limits {
    threads: 64,
    reads: 20_000,
    milliseconds: 2_000,
    machine: Duration::from_secs(60),
};
const QUICK: Limits = Limits {
    threads: 4,
    milliseconds: 500,
    ..USUAL
};
/// With `--full`, every thread does all its reads.
const FULL: Limits = Limits {
    reads: 1_000_000,
    milliseconds: u32::MAX,
    machine: Duration::from_secs(24 * 3600),
    ..USUAL
};

/// One of the program's figures, which gets a table of its own.
struct Figure {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    ratios: bool,
    value: fn(&ThreadRun) -> f64,
}

const FIGURES: [Figure; 3] = [
    Figure {
        id: "real",
        title: "real time",
        unit: "nanoseconds from one read of a thread to its next: NOISE, of one run on a host with fewer CPUs than the machine",
        ratios: true,
        value: |run| run.real * f64::from(run.threads) / run.reads,
    },
    Figure {
        id: "system",
        title: "time in the kernel",
        unit: "nanoseconds a read: NOISE",
        ratios: true,
        value: |run| run.system / run.reads,
    },
    Figure {
        id: "reads",
        title: "how often",
        unit: "reads of all threads in which the times were measured",
        ratios: false,
        value: |run| run.reads,
    },
];

/// The result of a number of threads together.
#[derive(Debug, PartialEq)]
struct ThreadRun {
    threads: u32,
    reads: f64,
    /// Nanoseconds.
    real: f64,
    system: f64,
}

/// Measures one kernel; after a number of threads that did not finish, no larger one is tried.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Vec<Column>> {
    let limits = match (bench.quick, bench.full) {
        (true, _) => &QUICK,
        (_, true) => &FULL,
        _ => &USUAL,
    };
    let mut columns: Vec<_> = FIGURES
        .iter()
        .map(|figure| Column::new(head(figure, arch, limits), &subject.label))
        .collect();
    let numbers = std::iter::successors(Some(1), |number| Some(number * 2));
    for number in numbers.take_while(|number| *number <= limits.threads) {
        let booted = boot(bench, arch, subject, limits, number)?;
        let run = booted.console.lines().find_map(parse);
        for (figure, column) in FIGURES.iter().zip(&mut columns) {
            column.rows.push(match &run {
                Some(run) => row(run, (figure.value)(run)),
                None => not_ended(number, limits),
            });
            column.commands.push(booted.command.clone());
        }
        if booted.failure.is_some() {
            // The end of the console is shown only once.
            columns[0].failure = booted.failure;
            break;
        }
    }
    Ok(columns)
}

fn boot(
    bench: &Bench,
    arch: Arch,
    subject: &Subject,
    limits: &Limits,
    number: u32,
) -> Result<Booted> {
    let contend = format!("{number},{},{}", limits.reads, limits.milliseconds);
    let boot = Boot {
        subject,
        arch,
        cpus: number,
        arguments: ["--settle", "1000", "--contend", &contend]
            .map(String::from)
            .to_vec(),
        plugin: None,
        limit: limits.machine,
    };
    boot.run(bench)
}

fn head(figure: &Figure, arch: Arch, limits: &Limits) -> Head {
    let (name, reads, milliseconds) = (arch.debian(), limits.reads, limits.milliseconds);
    Head {
        id: format!("idreg-{name}-threads-{}", figure.id),
        title: format!("idreg, {name}: threads at once, {}", figure.title),
        unit: figure.unit.into(),
        note: format!(
            "Each thread reads ID_AA64ISAR0_EL1 on a CPU of its own, {reads} times or for {milliseconds} ms."
        ),
        ratios: figure.ratios,
        mean: false,
        ..Head::default()
    }
}

/// A figure for this number of threads; 0 means that the kernel does not distinguish the two kinds
/// of time.
fn row(run: &ThreadRun, value: f64) -> Row {
    let told = value > 0.0;
    Row {
        value: told.then(|| value.round()),
        remark: (!told).then(|| "not told apart".into()),
        ..Row::new(threads(run.threads), "", value)
    }
}

/// The row of this number of threads, which were stopped.
fn not_ended(number: u32, limits: &Limits) -> Row {
    let seconds = limits.machine.as_secs();
    Row {
        value: None,
        remark: Some(format!("did not end in {seconds} s of processor time")),
        ..Row::new(threads(number), "", 0.0)
    }
}

/// A line of the program's output.
fn parse(line: &str) -> Option<ThreadRun> {
    let words: Vec<_> = line.split(' ').collect();
    let [
        "#",
        "contend",
        threads,
        "reads",
        reads,
        "real",
        real,
        "user",
        _,
        "system",
        system,
    ] = words[..]
    else {
        return None;
    };
    Some(ThreadRun {
        threads: threads.parse().ok()?,
        reads: reads.parse().ok()?,
        real: real.parse().ok()?,
        system: system.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{FIGURES, ThreadRun, parse};

    #[test]
    fn the_programs_line_is_understood() {
        let run = parse("# contend 4 reads 80000 real 100000000 user 1 system 400000000").unwrap();
        assert_eq!((run.threads, run.reads), (4, 80_000.0));
        // Each of the four read 20,000 times.
        assert_eq!(
            FIGURES.map(|figure| (figure.value)(&run)),
            [5_000.0, 5_000.0, 80_000.0]
        );
        assert_eq!(parse("# done"), None::<ThreadRun>);
    }
}
