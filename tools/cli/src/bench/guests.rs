//! The suite `guests`: the cost of guests' page faults on a hypervisor. Stile with each policy of
//! `hwaf` and Debian's Linux are guests of our own VMM (`programs/vmm`), and run lmbench's
//! lat_pagefault, a build with tcc, and one with make and gcc.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Bench;
use super::interrupt;
use super::result::{Column, Head, Row};
use super::subject::Subject;
use crate::qemu;

/// Guests: their label, kernel and parameter.
const GUESTS: [(&str, &str, Option<&str>); 4] = [
    ("Stile, hwaf=reread", "stile", Some("hwaf=reread")),
    ("Stile, hwaf=cached", "stile", Some("hwaf=cached")),
    ("Linux 6.12", "linux-6.12", None),
    ("Linux 6.1", "linux-6.1", None),
];

/// The phase without work; those of [`WORK`] follow it.
const BASE: u32 = 1;

/// The guest's work, one phase each.
const WORK: [(&str, &str, &str); 3] = [
    (
        "pagefault",
        "lat_pagefault",
        "lmbench's lat_pagefault over a file of 8 MiB in tmpfs, 10 ms long",
    ),
    (
        "tcc",
        "a build with tcc",
        "Debian's tcc compiles three hundred functions twenty times, a process each",
    ),
    (
        "gcc",
        "a build with make and gcc",
        "make builds bzip2 from its source in Debian with Debian's gcc",
    ),
];

/// The part that all of them share.
const SCRIPT: &str = include_str!("guests.sh");

/// Whose instructions a phase's figures count, and the title of the report.
const KERNELS: [(&str, &str); 2] = [
    ("guest_instructions", "instructions of the guest's kernel"),
    ("host_instructions", "instructions of the host's kernel"),
];
const FAULTS: &str = "faults";
/// Statistics of exits, by their names in Linux or ours, and how they are shown.
const EXITS: [(&str, &str); 4] = [
    ("exits", "exits a fault"),
    ("sysreg_exits", "of them for registers"),
    ("stage2_fault_exits", "of them for memory"),
    ("irq_exits", "of them interrupts"),
];

/// A guest that takes longer is given up.
const LIMIT: &str = "7200";
/// How often a waiting command checks whether it has to end.
const LOOK: Duration = Duration::from_millis(200);

/// Figures by name.
type Figures = BTreeMap<String, i64>;

/// Measures one kernel as the host of each guest: a table for each work.
pub fn measure(bench: &Bench, subject: &Subject) -> Result<Vec<Column>> {
    let mut columns: Vec<_> = WORK
        .iter()
        .map(|(id, title, note)| Column::new(head(id, title, note), &subject.label))
        .collect();
    for guest in GUESTS {
        let arguments = arguments(bench, subject, guest);
        let words: Vec<_> = arguments.iter().map(OsString::from).collect();
        let said = run(&arguments)?;
        let base = work(&said, BASE);
        for (number, column) in (BASE + 1..).zip(&mut columns) {
            let shown = qemu::shell_line(&words);
            column.commands.push(format!("./stile {shown}"));
            let figures = work(&said, number);
            if figures.get(FAULTS).is_none_or(|faults| *faults <= 0) {
                column.rows.push(Row {
                    value: None,
                    remark: Some(end(&said)),
                    ..Row::new(format!("{}: {FAULTS}", guest.0), "", 0.0)
                });
                continue;
            }
            column.rows.extend(rows(guest.0, &figures, &base));
        }
    }
    Ok(columns)
}

fn head(id: &str, title: &str, note: &str) -> Head {
    Head {
        id: format!("guests-{id}"),
        title: format!("guests: {title}"),
        unit: "faults of the guest and what they took, as each row says".into(),
        note: format!(
            "{note}. One virtual CPU; the VMM is our own. Linux's KVM does not tell kinds of exits."
        ),
        ratios: false,
        mean: false,
        ..Head::default()
    }
}

/// The arguments of `./stile` that run a guest.
fn arguments(bench: &Bench, subject: &Subject, guest: (&str, &str, Option<&str>)) -> Vec<String> {
    let (_, kernel, parameter) = guest;
    let on = subject.kernel.to_string();
    let mut words: Vec<String> = "vm --smp 1 --icount --exits --instructions --memory 1G"
        .split(' ')
        .map(String::from)
        .collect();
    let mut add = |option: &str, value: &str| words.extend([option.into(), value.into()]);
    add("--timeout", LIMIT);
    add("--on", &on);
    for parameter in &subject.parameters {
        add("--append", parameter);
    }
    add("--guest-kernel", kernel);
    if let Some(parameter) = parameter {
        add("--guest-append", parameter);
    }
    for package in ["lat_pagefault", "tcc", "gcc", "libc6-dev", "make"] {
        add("--guest-package", package);
    }
    add("--guest-source", "bzip2");
    if bench.project.offline {
        words.push("--offline".into());
    }
    words.extend(["--", "sh", "-c", SCRIPT].map(String::from));
    words
}

/// Runs one of our commands; returns the output of both streams.
fn run(arguments: &[String]) -> Result<String> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting a guest")?;
    let outputs = [
        reader(child.stdout.take().context("its output")?),
        reader(child.stderr.take().context("its errors")?),
    ];
    let ended = await_end(&mut child);
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    ended?;
    let texts = outputs.map(|reader| reader.join().unwrap_or_default());
    Ok(texts.concat().replace('\r', ""))
}

/// Reads a stream to its end, so that its writer need not wait.
fn reader(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn await_end(child: &mut Child) -> Result<()> {
    while child.try_wait()?.is_none() {
        interrupt::check()?;
        thread::sleep(LOOK);
    }
    Ok(())
}

/// The figures of a phase: the difference of the counts at its start and at the start of the next
/// phase, or counts of the phase itself.
fn work(said: &str, number: u32) -> Figures {
    let at = |number: u32| {
        let start = format!("phase {number} ");
        let figure = |line: &str| {
            let (name, value) = line.strip_prefix(&start)?.split_once(' ')?;
            Some((name.to_owned(), value.parse::<i64>().ok()?))
        };
        said.lines().filter_map(figure).collect::<Figures>()
    };
    let (first, then) = (at(number), at(number + 1));
    let own = KERNELS.map(|(name, _)| name);
    let figures = then.keys().chain(first.keys());
    figures
        .map(|name| {
            let before = first.get(name).copied().unwrap_or(0);
            let value = match own.contains(&name.as_str()) {
                true => before,
                false => then.get(name).copied().unwrap_or(0) - before,
            };
            (name.clone(), value)
        })
        .collect()
}

/// A guest's rows in one table.
fn rows(guest: &str, figures: &Figures, base: &Figures) -> Vec<Row> {
    let value = |name: &str| {
        let of = |figures: &Figures| figures.get(name).copied().unwrap_or(0);
        (of(figures) - of(base)) as f64
    };
    let faults = value(FAULTS);
    let row = |what: &str, value| Row::new(format!("{guest}: {what}"), "", value);
    let mut rows = vec![row("page faults", faults)];
    rows.extend(KERNELS.map(|(name, what)| row(what, value(name))));
    for (name, what) in EXITS.iter().filter(|(name, _)| figures.contains_key(*name)) {
        rows.push(row(what, value(name) / faults));
    }
    rows
}

/// The last output of a guest that failed.
fn end(said: &str) -> String {
    let last = said.lines().rev().find(|line| !line.is_empty());
    last.unwrap_or("it said nothing").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "phase 0 faults 10\nphase 1 faults 15\nphase 2 faults 120\nphase 0 exits 5\n\
        phase 1 exits 6\nphase 2 exits 207\nphase 0 host_instructions 100\nphase 1 host_instructions 1100\nexits 900\n";

    #[test]
    fn a_phase_is_less_what_it_takes_by_itself() {
        let rows = rows("x", &work(SAID, 1), &work(SAID, 0));
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.value))
            .collect();
        let expected = [
            ("x: page faults", Some(100.0)),
            ("x: instructions of the guest's kernel", Some(0.0)),
            ("x: instructions of the host's kernel", Some(1000.0)),
            ("x: exits a fault", Some(2.0)),
        ];
        assert_eq!(told, expected);
    }
}
