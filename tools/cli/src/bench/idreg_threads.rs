//! The threads of `idreg`: all read an ID register at once. Times, so noise.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::crossings_boot::Boot;
use super::result::{Column, Head, Row};
use super::scale::threads;
use super::subject::Subject;
use crate::arch::Arch;

/// CPUs of the machine and so the most threads, how often each reads at most, and how many milliseconds: on an emulator
/// the contended case needs so long that not all can be awaited.
const READS: [u32; 3] = [64, 20_000, 2_000];
const QUICK: [u32; 3] = [4, 20_000, 500];
/// With `--full` all is awaited.
const FULL: [u32; 3] = [64, 1_000_000, u32::MAX];

/// A figure of the program's that gets a table of its own.
struct Figure {
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    ratios: bool,
    value: fn(&Contest) -> f64,
}

const FIGURES: [Figure; 3] = [
    Figure {
        id: "real",
        title: "real time",
        unit: "nanoseconds from one read of a thread to its next: NOISE, of one run on a host with fewer CPUs than the machine",
        ratios: true,
        value: |contest| contest.real * f64::from(contest.threads) / contest.reads,
    },
    Figure {
        id: "system",
        title: "time in the kernel",
        unit: "nanoseconds a read: NOISE",
        ratios: true,
        value: |contest| contest.system / contest.reads,
    },
    Figure {
        id: "reads",
        title: "how often",
        unit: "reads of all threads in which the times were measured",
        ratios: false,
        value: |contest| contest.reads,
    },
];

/// What so many threads did together.
#[derive(Debug, PartialEq)]
struct Contest {
    threads: u32,
    reads: f64,
    /// Nanoseconds.
    real: f64,
    system: f64,
}

/// Measures one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Vec<Column>> {
    let [cpus, reads, milliseconds] = match (bench.quick, bench.full) {
        (true, _) => QUICK,
        (_, true) => FULL,
        _ => READS,
    };
    let contest = format!("{cpus},{reads},{milliseconds}");
    let limit = Duration::from_secs(if bench.full { 24 * 3600 } else { 300 });
    let boot = Boot {
        subject,
        arch,
        cpus,
        arguments: ["--settle", "1000", "--contend", &contest]
            .map(String::from)
            .to_vec(),
        plugin: None,
        limit,
    };
    let booted = boot.run(bench)?;
    let contests: Vec<_> = booted.console.lines().filter_map(parse).collect();
    let missing = match booted.failure {
        Some(_) => missing(&contests, cpus),
        None => Vec::new(),
    };
    let column = |figure: &Figure| {
        let head = Head {
            id: format!("idreg-{}-threads-{}", arch.debian(), figure.id),
            title: format!(
                "idreg, {}: threads at once, {}",
                arch.debian(),
                figure.title
            ),
            unit: figure.unit.into(),
            note: format!(
                "Each thread reads ID_AA64ISAR0_EL1 on a CPU of its own, {reads} times or for {milliseconds} ms."
            ),
            ratios: figure.ratios,
            mean: false,
            detail: false,
        };
        Column {
            commands: vec![booted.command.clone()],
            failure: booted.failure.clone(),
            rows: contests
                .iter()
                .map(|contest| row(contest, (figure.value)(contest)))
                .chain(missing.iter().map(|number| not_ended(*number, limit)))
                .collect(),
            ..Column::new(head, &subject.label)
        }
    };
    Ok(FIGURES.iter().map(column).collect())
}

/// A figure of so many threads; 0 says that the kernel does not tell the two kinds of time apart.
fn row(contest: &Contest, value: f64) -> Row {
    let told = value > 0.0;
    Row {
        value: told.then(|| value.round()),
        remark: (!told).then(|| "not told apart".into()),
        ..Row::new(threads(contest.threads), "", value)
    }
}

/// The numbers of threads that were not heard of, up to `most`.
fn missing(contests: &[Contest], most: u32) -> Vec<u32> {
    let numbers = std::iter::successors(Some(1), |number| Some(number * 2));
    let is_missing = |number: &u32| contests.iter().all(|contest| contest.threads != *number);
    numbers
        .take_while(|number| *number <= most)
        .filter(is_missing)
        .collect()
}

/// The row of so many threads that were stopped, in all after so much of the host's processors.
fn not_ended(number: u32, limit: Duration) -> Row {
    Row {
        value: None,
        remark: Some(format!("did not end in {} s", limit.as_secs())),
        ..Row::new(threads(number), "", 0.0)
    }
}

/// A line of the program's.
fn parse(line: &str) -> Option<Contest> {
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
    Some(Contest {
        threads: threads.parse().ok()?,
        reads: reads.parse().ok()?,
        real: real.parse().ok()?,
        system: system.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Contest, FIGURES, missing, parse};

    #[test]
    fn the_programs_line_is_understood() {
        let contest =
            parse("# contend 4 reads 80000 real 100000000 user 1 system 400000000").unwrap();
        assert_eq!((contest.threads, contest.reads), (4, 80_000.0));
        // Each of the four read 20,000 times.
        assert_eq!(
            FIGURES.map(|figure| (figure.value)(&contest)),
            [5_000.0, 5_000.0, 80_000.0]
        );
        assert_eq!(parse("# done"), None::<Contest>);
        assert_eq!(missing(&[contest], 16), [1, 2, 8, 16]);
    }
}
