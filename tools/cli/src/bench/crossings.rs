//! The suite `crossings`: our own program, on each kernel as its first.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::boot::{Boot, Booted};
use super::result::{Column, Failure, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;

/// The tags between one CPU's turn and the next: `TAGS_A_TURN` of programs/crossings.
const TAGS_A_TURN: u32 = 64;

/// What the plugin counts that gets a table of its own: a title, and the kinds that are summed.
type Kinds = (&'static str, &'static str, &'static [&'static str]);

const ARM64: [Kinds; 5] = [
    ("entries", "returns from exceptions", &["eret.kernel"]),
    ("tlbi", "TLB invalidations", &["tlbi.kernel"]),
    (
        "atomics",
        "exclusive stores and atomics",
        &["exclusive.store.kernel", "atomic.kernel"],
    ),
    ("barriers", "DSB and ISB", &["dsb.kernel", "isb.kernel"]),
    (
        "indirect",
        "indirect branches and calls",
        &["branch.indirect.kernel"],
    ),
];

const RISCV64: [Kinds; 3] = [
    ("entries", "returns from traps", &["sret.kernel"]),
    (
        "fences",
        "sfence.vma",
        &["sfence.vma.kernel", "sinval.vma.kernel"],
    ),
    (
        "atomics",
        "conditional stores and atomics",
        &["exclusive.store.kernel", "atomic.kernel"],
    ),
];

/// Measures one kernel: its column in each table.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Vec<Column>> {
    let batches = if bench.quick { 5 } else { 21 };
    let mut boot = Boot {
        subject,
        arch,
        cpus: 1,
        arguments: arguments(batches, &[]),
        plugin: "",
        limit: Duration::from_secs(if bench.quick { 120 } else { 300 }),
    };
    let booted = match boot.run(bench) {
        Ok(booted) => booted,
        Err(error) => return Ok(vec![not_measured(arch, subject, &error)]),
    };
    let said = Said::parse(&booted.console);
    let name = arch.debian();
    let mut columns = vec![column(
        Head {
            id: format!("crossings-{name}"),
            title: format!("Crossings, {name}"),
            unit: "instructions an operation, least of the batches".into(),
            note: "Under -icount shift=0 a nanosecond of the guest's counter is an instruction."
                .into(),
            ratios: true,
            mean: true,
            detail: false,
        },
        subject,
        &said,
        &booted,
        said.rows.clone(),
    )];
    let kinds: &[Kinds] = match arch {
        Arch::Arm64 => &ARM64,
        Arch::Riscv64 => &RISCV64,
    };
    for (id, title, kinds) in kinds {
        let rows = said.marked.iter().map(|(name, marked)| {
            let count = booted.counted.phase(marked.tag, kinds);
            Row::new(name, "", count as f64 / marked.operations as f64)
        });
        let head = Head {
            id: format!("crossings-{name}-{id}"),
            title: format!("Crossings, {name}: {title}"),
            unit: "by operation, by code in the kernel".into(),
            note: "The mean over all batches, the kernel's other work at that time included."
                .into(),
            ratios: false,
            mean: false,
            detail: true,
        };
        columns.push(column(head, subject, &said, &booted, rows.collect()));
    }
    if !bench.quick && booted.failure.is_none() {
        boot.cpus = 2;
        boot.arguments = arguments(1, &["--cpus", "0,1"]);
        boot.plugin = ",instructions=off,lines=on";
        columns.push(shared_lines(arch, subject, &boot.run(bench)?));
    }
    Ok(columns)
}

/// The program's arguments: pauses let the console's own work end before the next row.
fn arguments(batches: u32, more: &[&str]) -> Vec<String> {
    let batches = batches.to_string();
    let words = ["--batches", &batches, "--settle", "3000", "--pause", "20"];
    words
        .iter()
        .chain(more)
        .map(|word| word.to_string())
        .collect()
}

fn column(head: Head, subject: &Subject, said: &Said, booted: &Booted, rows: Vec<Row>) -> Column {
    Column {
        head,
        label: subject.label.clone(),
        kernel: said.kernel.clone(),
        commands: vec![booted.command.clone()],
        failure: booted.failure.clone(),
        rows,
    }
}

/// The column of a kernel that could not even be started.
fn not_measured(arch: Arch, subject: &Subject, error: &anyhow::Error) -> Column {
    let name = arch.debian();
    Column {
        head: Head {
            id: format!("crossings-{name}"),
            title: format!("Crossings, {name}"),
            unit: "instructions an operation, least of the batches".into(),
            note: String::new(),
            ratios: true,
            mean: true,
            detail: false,
        },
        label: subject.label.clone(),
        kernel: String::new(),
        commands: Vec::new(),
        failure: Some(Failure {
            reason: format!("not measured: {error:#}"),
            console: String::new(),
        }),
        rows: Vec::new(),
    }
}

fn shared_lines(arch: Arch, subject: &Subject, booted: &Booted) -> Column {
    let said = Said::parse(&booted.console);
    let rows = said.marked.iter().filter_map(|(name, marked)| {
        let tag = marked.tag % TAGS_A_TURN;
        let lines = booted
            .counted
            .shared_lines(tag, tag + TAGS_A_TURN, marked.operations)?;
        Some(Row::new(name, "", lines as f64))
    });
    let name = arch.debian();
    let head = Head {
        id: format!("crossings-{name}-lines"),
        title: format!("Crossings, {name}: shared lines"),
        unit: "64-byte lines an operation, written on one CPU and touched on another".into(),
        note: "Two threads of one process did the same on two CPUs, one after the other; a line counts if at \
               least one in ten operations touched it on each."
            .into(),
        ratios: false,
        mean: false,
            detail: false,
    };
    column(head, subject, &said, booted, rows.collect())
}

/// What the program said.
#[derive(Default)]
struct Said {
    kernel: String,
    rows: Vec<Row>,
    /// The rows' last tags and their operations, in the rows' order.
    marked: Vec<(String, Marked)>,
}

/// The phases of a row.
struct Marked {
    tag: u32,
    operations: u64,
}

impl Said {
    fn parse(console: &str) -> Self {
        let mut said = Self::default();
        let mut places = BTreeMap::new();
        for line in console.lines() {
            let words: Vec<_> = line.split(' ').collect();
            match words.as_slice() {
                ["#", "kernel", names @ ..] => said.kernel = names.join(" "),
                ["#", "tag", tag, name, "operations", operations] => {
                    let (Ok(tag), Ok(operations)) = (tag.parse(), operations.parse()) else {
                        continue;
                    };
                    let place = *places.entry(name.to_string()).or_insert(said.marked.len());
                    let marked = (name.to_string(), Marked { tag, operations });
                    match said.marked.get_mut(place) {
                        Some(known) => *known = marked,
                        None => said.marked.push(marked),
                    }
                }
                [name, least, median, "ns", window @ ..] => said.rows.push(Row {
                    name: name.to_string(),
                    window: window.join(" "),
                    value: least.parse().ok(),
                    median: median.parse().ok(),
                    remark: None,
                }),
                [name, "-", "-", remark, window @ ..] => said.rows.push(Row {
                    name: name.to_string(),
                    window: window.join(" "),
                    value: None,
                    median: None,
                    remark: Some(remark.to_string()),
                }),
                _ => {}
            }
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::Said;

    #[test]
    fn the_programs_lines_are_understood() {
        let console = "[    0.1] noise\n# kernel Linux 6.12 #1 SMP\nnull_call 302.0 302.5 ns getppid, 4 included\n\
            # tag 1 null_call operations 6000\nid_read - - absent MRS\nfork - - errno-38 fork, exit\n\
            # tag 65 null_call operations 2000\n# done\n";
        let said = Said::parse(console);
        assert_eq!(said.kernel, "Linux 6.12 #1 SMP");
        assert_eq!(said.rows.len(), 3);
        assert_eq!(
            (said.rows[0].value, said.rows[0].median),
            (Some(302.0), Some(302.5))
        );
        assert_eq!(said.rows[0].window, "getppid, 4 included");
        assert_eq!(said.rows[1].remark.as_deref(), Some("absent"));
        assert_eq!(said.marked.len(), 1);
        assert_eq!(
            (said.marked[0].1.tag, said.marked[0].1.operations),
            (65, 2000)
        );
    }
}
