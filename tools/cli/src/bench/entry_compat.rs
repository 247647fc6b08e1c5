//! The 32-bit programs of `entry`: what `programs/calls32` says on an arm64 kernel.

use std::time::Duration;

use anyhow::Result;
use wire::Job;

use super::Bench;
use super::crossings_output::Said;
use super::jobs::Jobs;
use super::result::{Column, Failure, Head};
use super::subject::Subject;
use crate::arch::Arch;
use crate::guest;
use crate::toolchain;

/// Measures one kernel.
pub fn measure(bench: &Bench, subject: &Subject) -> Column {
    let head = Head {
        id: "entry-arm64-narrow".into(),
        title: "entry: 32-bit programs, arm64".into(),
        unit: "instructions an operation, least of the batches".into(),
        note: "A static AArch32 program in EL0, by its own clock.".into(),
        ratios: true,
        mean: false,
        detail: false,
    };
    Column::measured(head, &subject.label, |column| run(bench, subject, column))
}

fn run(bench: &Bench, subject: &Subject, column: &mut Column) -> Result<()> {
    let arch = Arch::Arm64;
    subject.kernel.image(bench.project, arch)?;
    let mut tree = guest::bare_tree(bench.project, arch)?;
    tree.file(
        "usr/bin/calls32",
        &toolchain::narrow_program(bench.project, "calls32")?,
    )?;
    let jobs = Jobs {
        subject,
        arch,
        limit: Duration::from_secs(60),
    };
    let job = Job {
        settle: true,
        ..guest::job(["calls32"])
    };
    for output in jobs.run(bench, &mut tree, &[job], column)? {
        column.rows = Said::parse(&String::from_utf8_lossy(&output.stdout)).rows;
        match output.end {
            Ok(end) if end != "exit status 0" => {
                column.failure = Some(Failure {
                    reason: end,
                    console: String::from_utf8_lossy(&output.stderr).into_owned(),
                });
            }
            _ => {}
        }
    }
    Ok(())
}
