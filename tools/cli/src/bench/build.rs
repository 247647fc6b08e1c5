//! The real program of `entry`: Debian's C compiler tcc builds a library from sixteen files, a process each.

use std::time::Duration;

use anyhow::{Result, bail};

use super::jobs::Jobs;
use super::result::{Column, Failure, Head};
use super::subject::Subject;
use super::{Bench, compare};
use crate::arch::Arch;
use crate::guest;
use crate::packages;

/// What is compiled.
const SOURCE: &str = include_str!("build.c");

/// The build, with where tcc finds its own files.
const SCRIPT: &str = "cd /tmp && i=0 && while [ $i -lt 16 ]; do \
    tcc -c -DNUMBER=$i -o $i.o /host/build.c || exit 1; i=$((i+1)); done && tcc -shared -nostdlib -o library.so *.o";

/// Measures one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Result<Column> {
    let name = arch.debian();
    let mut column = Column {
        head: Head {
            id: format!("entry-{name}-build"),
            title: format!("entry: a build with tcc, {name}"),
            unit: "counts while it ran".into(),
            note: "A shell starts Debian's tcc seventeen times; dynamically linked, as it is."
                .into(),
            ratios: true,
            mean: false,
            detail: false,
        },
        label: subject.label.clone(),
        kernel: String::new(),
        commands: Vec::new(),
        failure: None,
        rows: Vec::new(),
    };
    if let Err(error) = run(bench, arch, subject, &mut column) {
        column.failure = Some(Failure {
            reason: format!("not measured: {error:#}"),
            console: String::new(),
        });
    }
    Ok(column)
}

fn run(bench: &Bench, arch: Arch, subject: &Subject, column: &mut Column) -> Result<()> {
    subject.kernel.image(bench.project, arch)?;
    let mut tree = guest::tree(bench.project, arch)?;
    tree.file("usr/bin/tcc", &packages::tcc(bench.project, arch)?)?;
    tree.text("host/build.c", SOURCE.as_bytes());
    let jobs = Jobs {
        subject,
        arch,
        limit: Duration::from_secs(120),
    };
    let job = guest::job(["sh", "-c", SCRIPT]);
    let (outputs, counted, command) = jobs.run_counted(bench, &mut tree, vec![job])?;
    column.commands.push(command);
    for output in outputs {
        match output.end {
            Err(failure) => column.failure = Some(failure),
            Ok(end) if end != "exit status 0" => {
                bail!("{end}: {}", String::from_utf8_lossy(&output.stderr))
            }
            Ok(_) => column.rows = compare::rows(&counted),
        }
    }
    Ok(())
}
