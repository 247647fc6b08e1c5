//! The 32-bit programs of `entry` and `idreg`: `programs/calls32` on an arm64 kernel, its figures,
//! and the crossings that can be traced.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::counted::Counted;
use super::crossings_output::Parsed;
use super::inspect_entry::{TRACE, Traced};
use super::jobs::Jobs;
use super::result::{Column, Failure, Head};
use super::subject::Subject;
use crate::arch::Arch;
use crate::guest;
use crate::toolchain;

/// Measures one kernel.
pub fn measure(bench: &Bench, subject: &Subject) -> Column {
    let head = Head {
        id: "entry-arm64-compat".into(),
        title: "entry: 32-bit programs, arm64".into(),
        unit: "instructions an operation, least of the batches".into(),
        note: "A static AArch32 program in EL0, by its own clock.".into(),
        ratios: true,
        mean: false,
        ..Head::default()
    };
    Column::measured(head, &subject.label, |column| {
        run(bench, subject, &[], "", column).map(drop)
    })
}

/// Measures the cost of an instruction that no hook handles.
pub fn undefined(bench: &Bench, subject: &Subject) -> Column {
    let head = Head {
        id: "idreg-arm64-compat".into(),
        title: "idreg: an instruction of a 32-bit program that no hook takes".into(),
        unit: "instructions an operation, least of the batches".into(),
        note: "UDF in AArch32; the signal, its handler and the return from it are inside. All \
               hooks are asked: of a list under a lock (idreg=locked), or of tables without one."
            .into(),
        ratios: true,
        mean: false,
        ..Head::default()
    };
    Column::measured(head, &subject.label, |column| {
        run(bench, subject, &["undefined"], "", column).map(drop)
    })
}

/// Traces one row of the program for the table `head`.
pub fn trace(bench: &Bench, subject: &Subject, row: &str, head: Head) -> Result<Traced> {
    let mut column = Column::new(head, &subject.label);
    let counted = run(bench, subject, &[row], TRACE, &mut column)?;
    Ok(Traced {
        command: column.commands.concat(),
        failure: column.failure,
        trace: counted.trace,
    })
}

/// Runs the program; the column gets its output or its failure.
fn run(
    bench: &Bench,
    subject: &Subject,
    rows: &[&str],
    plugin: &str,
    column: &mut Column,
) -> Result<Counted> {
    let arch = Arch::Arm64;
    subject.kernel.image(bench.project, arch)?;
    let mut tree = guest::bare_tree(bench.project, arch)?;
    tree.file(
        "usr/bin/calls32",
        &toolchain::compat_program(bench.project, "calls32")?,
    )?;
    let jobs = Jobs {
        subject,
        arch,
        limit: Duration::from_secs(60),
    };
    let job = guest::job([&["calls32"], rows].concat());
    let (outputs, counted) = jobs.run_counted(bench, &mut tree, vec![job], plugin, column)?;
    for output in outputs {
        column.rows = Parsed::parse(&String::from_utf8_lossy(&output.stdout)).rows;
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
    Ok(counted)
}
