//! Measures the crossings that a system affects, or all of them: our own program is the first
//! program on each kernel.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::crossings_boot::{Boot, Booted};
use super::crossings_output::Parsed;
use super::result::{Column, Head, Row};
use super::subject::Subject;
use super::systems::System;
use crate::arch::Arch;

/// Kinds of the plugin that get a table of their own.
struct Kind {
    id: &'static str,
    title: &'static str,
    /// The kinds that are summed.
    counters: &'static [&'static str],
}

const fn kind(id: &'static str, title: &'static str, counters: &'static [&'static str]) -> Kind {
    Kind {
        id,
        title,
        counters,
    }
}

const ATOMICS: &[&str] = &["exclusive.store.kernel", "atomic.kernel"];

const ARM64: [Kind; 6] = [
    kind("entries", "returns from exceptions", &["eret.kernel"]),
    kind("tlbi", "TLB invalidations", &["tlbi.kernel"]),
    kind("atomics", "exclusive stores and atomics", ATOMICS),
    kind("barriers", "DSB and ISB", &["dsb.kernel", "isb.kernel"]),
    kind(
        "indirect",
        "indirect branches and calls",
        &["branch.indirect.kernel"],
    ),
    kind(
        "idregs",
        "ID-register reads by the kernel",
        &["idreg.read.kernel"],
    ),
];

const RISCV64: [Kind; 3] = [
    kind("entries", "returns from traps", &["sret.kernel"]),
    kind(
        "fences",
        "sfence.vma",
        &["sfence.vma.kernel", "sinval.vma.kernel"],
    ),
    kind("atomics", "conditional stores and atomics", ATOMICS),
];

/// One kernel in one suite.
struct Measured<'a> {
    system: &'a System,
    arch: Arch,
    subject: &'a Subject,
}

/// Measures one kernel: its column in each table.
pub fn measure(
    bench: &Bench,
    system: &System,
    arch: Arch,
    subject: &Subject,
) -> Result<Vec<Column>> {
    let measured = Measured {
        system,
        arch,
        subject,
    };
    let batches = if bench.quick { "5" } else { "21" };
    let mut boot = Boot {
        subject,
        arch,
        cpus: 1,
        arguments: measured.arguments(&["--batches", batches]),
        plugin: Some(""),
        limit: Duration::from_secs(if bench.quick { 120 } else { 300 }),
    };
    let booted = boot.run(bench)?;
    let parsed = Parsed::parse(&booted.console);
    let mut columns =
        vec![measured.column(measured.times(), &parsed, &booted, parsed.rows.clone())];
    columns.extend(measured.counts(&parsed, &booted));
    if !bench.quick && booted.failure.is_none() {
        boot.cpus = 2;
        boot.arguments = measured.arguments(&["--batches", "1", "--threads", "2"]);
        boot.plugin = Some(",instructions=off,lines=on");
        columns.push(measured.shared_lines(&boot.run(bench)?));
    }
    Ok(columns)
}

impl Measured<'_> {
    /// The program's arguments: pauses let the console's own work finish before the next row.
    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let words = more.iter().chain(&["--settle", "3000", "--pause", "20"]);
        words
            .chain(self.system.rows)
            .map(|word| word.to_string())
            .collect()
    }

    fn head(&self, id: &str, title: &str, unit: &str, note: &str) -> Head {
        let (name, arch) = (self.system.name, self.arch.debian());
        Head {
            id: [name, arch, id].join("-").trim_end_matches('-').into(),
            title: format!("{}, {arch}{title}", self.system.title),
            unit: unit.into(),
            note: note.into(),
            ratios: id.is_empty(),
            mean: id.is_empty() && self.system.rows.is_empty(),
            detail: !id.is_empty() && !self.system.shown.contains(&id),
            ..Head::default()
        }
    }

    /// The table of times, which are instructions under `-icount shift=0`.
    fn times(&self) -> Head {
        let note = "Under -icount shift=0 a nanosecond of the guest's counter is an instruction.";
        self.head(
            "",
            "",
            "instructions an operation, least of the batches",
            note,
        )
    }

    fn column(&self, head: Head, parsed: &Parsed, booted: &Booted, rows: Vec<Row>) -> Column {
        Column {
            kernel: parsed.kernel.clone(),
            commands: vec![booted.command.clone()],
            failure: booted.failure.clone(),
            rows,
            ..Column::new(head, &self.subject.label)
        }
    }

    /// The plugin's counts, a table for each kind.
    fn counts(&self, parsed: &Parsed, booted: &Booted) -> Vec<Column> {
        let kinds: &[Kind] = match self.arch {
            Arch::Arm64 => &ARM64,
            Arch::Riscv64 => &RISCV64,
        };
        let note = "The mean over all batches, the kernel's other work at that time included.";
        let unit = "by operation, by code in the kernel";
        let column = |kind: &Kind| {
            let rows = parsed.marked.iter().map(|(name, marked)| {
                let count = booted.counted.phase(marked.tag, kind.counters);
                Row::new(name, "", count as f64 / marked.operations as f64)
            });
            let head = self.head(kind.id, &format!(": {}", kind.title), unit, note);
            self.column(head, parsed, booted, rows.collect())
        };
        kinds.iter().map(column).collect()
    }

    fn shared_lines(&self, booted: &Booted) -> Column {
        let parsed = Parsed::parse(&booted.console);
        let rows = parsed.several.iter().filter_map(|row| {
            let lines = booted.counted.shared(&row.tags, row.operations)?;
            Some(Row::new(&row.name, "", lines.len() as f64))
        });
        let unit = "64-byte lines an operation, written on one CPU and touched on another";
        let note = "Two threads of one process did the same on two CPUs, by turns, twice each; a line counts \
                    if at least one in ten operations touched it in each turn.";
        let head = Head {
            detail: false,
            ..self.head("lines", ": shared lines", unit, note)
        };
        self.column(head, &parsed, booted, rows.collect())
    }
}
