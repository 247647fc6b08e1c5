//! The real program of `entry`: Debian's C compiler tcc builds a library from sixteen files, a
//! process each.

use std::time::Duration;

use anyhow::{Result, bail};

use super::jobs::Jobs;
use super::result::{Column, Head};
use super::subject::Subject;
use super::{Bench, compare};
use crate::arch::Arch;
use crate::guest;
use crate::packages;

/// The source that is compiled.
const SOURCE: &str = include_str!("entry_build.c");

/// The build, with where tcc finds its own files.
const SCRIPT: &str = "cd /tmp && i=0 && while [ $i -lt 16 ]; do \
    tcc -c -DNUMBER=$i -o $i.o /host/build.c || exit 1; i=$((i+1)); done && tcc -shared -nostdlib -o library.so *.o";

/// Measures one kernel.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Column {
    let name = arch.debian();
    let head = Head {
        id: format!("entry-{name}-build"),
        title: format!("entry: a build with tcc, {name}"),
        unit: "counts while it ran".into(),
        note: "A shell starts Debian's tcc seventeen times; dynamically linked, as it is.".into(),
        ratios: true,
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
    tree.file("usr/bin/tcc", &packages::tcc(bench.project, arch)?)?;
    tree.text("host/build.c", SOURCE.as_bytes());
    let jobs = Jobs {
        subject,
        arch,
        limit: Duration::from_secs(120),
    };
    let job = guest::job(["sh", "-c", SCRIPT]);
    let (outputs, counted) = jobs.run_counted(bench, &mut tree, vec![job], "", column)?;
    for output in outputs {
        match output.end {
            Ok(end) if end == "exit status 0" => column.rows = compare::rows(&counted),
            Ok(end) => bail!("{end}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(_) => {}
        }
    }
    Ok(())
}
