//! The programs of `fence`: the translation fences of whole programs, and of the boot up to the
//! first program.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::jobs::{Jobs, Output};
use super::result::{Column, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;
use crate::guest;
use crate::packages;
use crate::toolchain;

/// The plugin's kinds that are summed.
const FENCES: [&str; 2] = ["sfence.vma.kernel", "sinval.vma.kernel"];

/// Our own programs.
const OURS: [&str; 2] = ["mmap-loop", "mmapstress"];

/// Settings that shorten lmbench: 10 ms each, without its own calibration.
const SOON: &str = "export ENOUGH=10000 LOOP_O=0 TIMING_O=0; exec";

/// The commands that run first. Their counts belong to no row.
const FIRST: &str = "dd if=/dev/zero of=/tmp/file bs=65536 count=128 2>/dev/null";

/// Names and commands. Patches of this part of Linux were measured with lmbench's lat_pagefault and
/// lat_mmap, and with LTP's mmapstress01. The second and the third are substitutes: lat_mmap
/// repeats for a certain time, so that its sum depends on the number of repetitions, and not only
/// on their cost.
const ROWS: [(&str, &str); 3] = [
    (
        "lat_pagefault, 8 MiB in tmpfs",
        "lat_pagefault -N 1 /tmp/file",
    ),
    (
        "programs/mmap-loop, 1 MiB in tmpfs, 1000 times",
        "exec mmap-loop 1000 1048576 /tmp/file",
    ),
    ("programs/mmapstress", "cd /tmp; exec mmapstress 20 20"),
];

/// Measures one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Column {
    let name = arch.debian();
    let head = Head {
        id: format!("fence-{name}-programs"),
        title: format!("fence: sfence.vma of whole programs, {name}"),
        unit: "executed by the kernel".into(),
        note: "From the program's start to its end. lat_pagefault is Debian's. programs/mmap-loop does what lmbench's \
               lat_mmap does, but so often, not for so long; programs/mmapstress does what LTP's mmapstress01 does."
            .into(),
        ratios: false,
        mean: false,
        ..Head::default()
    };
    Column::measured(head, &subject.label, |column| {
        run(bench, arch, subject, column)
    })
}

fn run(bench: &Bench, arch: Arch, subject: &Subject, column: &mut Column) -> Result<()> {
    subject.kernel.image(bench.project, arch)?;
    let mut tree = guest::tree(bench.project, arch)?;
    let lmbench = packages::lmbench(bench.project, arch)?;
    tree.file("usr/bin/lat_pagefault", &lmbench.join("lat_pagefault"))?;
    for name in OURS {
        tree.file(
            &format!("usr/bin/{name}"),
            &toolchain::program(bench.project, arch, name)?,
        )?;
    }
    let jobs = Jobs {
        subject,
        arch,
        limit: Duration::from_secs(120),
    };
    let commands = ROWS.map(|(_, command)| match command.starts_with("lat_") {
        true => format!("{SOON} {command}"),
        false => command.to_owned(),
    });
    let lines = std::iter::once(FIRST).chain(commands.iter().map(String::as_str));
    let lines = lines.map(|line| guest::job(["sh", "-c", line])).collect();
    let (outputs, counted) = jobs.run_counted(bench, &mut tree, lines, "", column)?;
    let boot = counted.boot(&FENCES) as f64;
    column.rows.push(Row::new(
        "boot, to the first program",
        "and three seconds more",
        boot,
    ));
    // The first job, with tag 1, only makes the file.
    for (((name, command), output), tag) in ROWS.iter().zip(outputs.iter().skip(1)).zip(2..) {
        column
            .rows
            .push(row(name, command, output, counted.phase(tag, &FENCES)));
    }
    Ok(())
}

fn row(name: &str, command: &str, output: &Output, fences: u64) -> Row {
    let good = output.end.as_ref().is_ok_and(|end| end == "exit status 0");
    Row {
        value: good.then_some(fences as f64),
        remark: output.end.as_ref().ok().filter(|_| !good).cloned(),
        ..Row::new(name, command, 0.0)
    }
}
