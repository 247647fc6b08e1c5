//! The suite `lmbench`: Debian's own programs, unmodified.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::jobs::{Jobs, Output};
use super::result::{Column, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;
use crate::guest;
use crate::packages;

/// Names and commands. The figure is the last number before `microseconds`, or else the last
/// number.
const ROWS: [(&str, &str); 21] = [
    ("syscall null", "lat_syscall -N 1 null"),
    ("syscall read", "lat_syscall -N 1 read"),
    ("syscall write", "lat_syscall -N 1 write"),
    ("syscall stat", "lat_syscall -N 1 stat /tmp/file"),
    ("syscall fstat", "lat_syscall -N 1 fstat /tmp/file"),
    ("syscall open+close", "lat_syscall -N 1 open /tmp/file"),
    ("signal install", "lat_sig -N 1 install"),
    ("signal catch", "lat_sig -N 1 catch"),
    ("pipe", "lat_pipe -N 1"),
    ("fifo", "lat_fifo -N 1"),
    ("unix socket", "lat_unix -N 1"),
    ("fcntl lock", "lat_fcntl -N 1"),
    ("semaphore", "lat_sem -N 1"),
    ("select 100 files", "lat_select -N 1 -n 100 file"),
    ("context switch, 2 processes", "lat_ctx -N 1 -s 0 2"),
    ("process fork", "lat_proc -N 1 fork"),
    ("process exec", "lat_proc -N 1 exec"),
    ("process shell", "lat_proc -N 1 shell"),
    (
        "page fault, 8 MiB tmpfs file",
        "lat_pagefault -N 1 /tmp/file",
    ),
    ("mmap 512k", "lat_mmap -N 1 512k /tmp/file"),
    ("mmap 8m", "lat_mmap -N 1 8m /tmp/file"),
];

/// Preparation: waits until the kernel's own work after its start is finished, and creates the
/// files.
const FIRST: &str = "sleep 3; cp /usr/bin/hello /tmp/hello; \
    dd if=/dev/zero of=/tmp/file bs=65536 count=128 2>/dev/null";

/// The environment of each command: 10 ms each, except for commands that always take a second.
/// lmbench's own calibration is left out, since the clock is exact; for the same reason one
/// repetition suffices.
const BEFORE: &str = "export ENOUGH=10000 LOOP_O=0 TIMING_O=0; exec ";

/// Measures one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Column {
    let name = arch.debian();
    let head = Head {
        id: format!("lmbench-{name}"),
        title: format!("lmbench, {name}"),
        unit: "instructions: lmbench's microseconds times 1000".into(),
        note: "Debian's programs, dynamically linked, as they are; lmbench's own overhead inside."
            .into(),
        ratios: true,
        mean: true,
        ..Head::default()
    };
    Column::measured(head, &subject.label, |column| {
        for ((name, command), output) in ROWS.iter().zip(run(bench, arch, subject, column)?) {
            column.rows.push(row(name, command, &output));
        }
        Ok(())
    })
}

/// The outcome of each row's command.
fn run(bench: &Bench, arch: Arch, subject: &Subject, column: &mut Column) -> Result<Vec<Output>> {
    subject.kernel.image(bench.project, arch)?;
    let programs = packages::lmbench(bench.project, arch)?;
    let mut tree = guest::tree(bench.project, arch)?;
    let names = ROWS
        .iter()
        .filter_map(|(_, command)| command.split(' ').next());
    for name in names.chain(["hello"]) {
        tree.file(&format!("usr/bin/{name}"), &programs.join(name))?;
    }
    // lat_fifo and lat_fcntl need it.
    tree.folder("var/tmp/lmbench");
    let job = |line: &str| guest::job(["sh", "-c", line]);
    let jobs = ROWS.map(|(_, command)| job(&format!("{BEFORE}{command}")));
    Jobs {
        subject,
        arch,
        limit: Duration::from_secs(60),
    }
    .run(bench, &mut tree, &job(FIRST), &jobs, column)
}

fn row(name: &str, command: &str, output: &Output) -> Row {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    let value = microseconds(&said).map(|time| (time * 1000.0).round());
    let remark = match &output.end {
        _ if value.is_some() => None,
        Ok(end) => Some(end.clone()),
        Err(failure) => Some(failure.reason.clone()),
    };
    Row {
        name: name.into(),
        window: command.into(),
        value,
        median: None,
        remark,
    }
}

/// The figure in the output of an lmbench program.
fn microseconds(said: &str) -> Option<f64> {
    let words: Vec<_> = said.split_whitespace().collect();
    match words
        .iter()
        .rposition(|word| word.starts_with("microseconds"))
    {
        Some(place) => words.get(place.checked_sub(1)?)?.parse().ok(),
        None => words.last()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::microseconds;

    #[test]
    fn figures_are_found() {
        assert_eq!(
            microseconds("Simple syscall: 0.4300 microseconds\n"),
            Some(0.43)
        );
        assert_eq!(microseconds("0.524288 25\n"), Some(25.0));
        assert_eq!(microseconds("\n\"size=0k ovr=0.55\n2 3.45\n"), Some(3.45));
        assert_eq!(microseconds("lat_sem: not here"), None);
        assert_eq!(microseconds(""), None);
    }
}
