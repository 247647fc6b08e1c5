//! The suite `boot`: from power-on to the first program.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::crossings_boot::Boot;
use super::result::{Column, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;

/// The counts up to the first marker of the first program: a name, a description, and the plugin's
/// kinds.
const ROWS: [(&str, &str, &[&str]); 8] = [
    (
        "instructions",
        "by the kernel, from the loader's jump on",
        // Before its MMU is on, the kernel runs at addresses that later belong to programs. The
        // only program so far executes a dozen instructions.
        &["instructions.kernel", "instructions.user"],
    ),
    (
        "firmware",
        "instructions of the firmware",
        &["instructions.firmware"],
    ),
    ("tlbi", "TLB invalidations", &["tlbi.kernel"]),
    (
        "sfence.vma",
        "fences of translations",
        &["sfence.vma.kernel", "sinval.vma.kernel"],
    ),
    ("fence.i", "fences of instructions", &["fence.i.kernel"]),
    ("ID-register reads", "by the kernel", &["idreg.read.kernel"]),
    (
        "calls of the firmware",
        "HVC, SMC and ECALL",
        &["hvc.kernel", "smc.kernel", "ecall.kernel"],
    ),
    (
        "traps",
        "returns from exceptions",
        &["eret.kernel", "sret.kernel"],
    ),
];

/// Measures one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Column> {
    let arguments = ["--batches", "1", "--settle", "0", "null_call"];
    let boot = Boot {
        subject,
        arch,
        cpus: 1,
        arguments: arguments.map(String::from).to_vec(),
        plugin: Some(""),
        limit: Duration::from_secs(120),
    };
    let name = arch.debian();
    let head = Head {
        id: format!("boot-{name}"),
        title: format!("Boot, {name}"),
        unit: "counts from power-on to the first program's first marker".into(),
        note: "Waiting is not counted. What a kernel brings with it differs: a stock Linux has drivers and \
               subsystems that Stile has not."
            .into(),
        ratios: false,
        mean: false,
        ..Head::default()
    };
    let booted = boot.run(bench)?;
    let counts = ROWS
        .iter()
        .map(|(name, window, kinds)| (name, window, booted.counted.boot(kinds)));
    let rows = counts.filter(|(.., count)| *count > 0);
    let rows = rows
        .map(|(name, window, count)| Row::new(*name, *window, count as f64))
        .collect();
    Ok(Column {
        commands: vec![booted.command],
        failure: booted.failure,
        rows,
        ..Column::new(head, &subject.label)
    })
}
