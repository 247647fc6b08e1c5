//! The memory of `hwaf`: how many entries of a TLB a MiB takes, and how many faults.

use std::time::Duration;

use anyhow::{Result, bail};

use super::Bench;
use super::jobs::Jobs;
use super::result::{Column, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;
use crate::guest;
use crate::kernel_image::Kernel;
use crate::toolchain;

/// The kinds of memory of `programs/reach`.
const KINDS: [(&str, &str); 3] = [
    ("written", "private memory, written page by page"),
    (
        "populated",
        "private memory, populated by mmap (MAP_POPULATE)",
    ),
    (
        "read",
        "a file of tmpfs that was written at once, read page by page",
    ),
];

/// Measures one kernel: Stile alone, whose counters the program reads.
pub fn measure(bench: &Bench, arch: Arch, subject: &Subject) -> Option<Column> {
    if subject.kernel != Kernel::Stile {
        return None;
    }
    let name = arch.debian();
    let head = Head {
        id: format!("hwaf-{name}-reach"),
        title: format!("hwaf: entries and faults a MiB, {name}"),
        unit: "for a MiB".into(),
        note: "programs/reach. Entries of page tables that map it, 16 contiguous ones counted as the one that a TLB \
               needs; and faults, among which each page or run that populating maps is one."
            .into(),
        ratios: false,
        mean: false,
        ..Head::default()
    };
    Some(Column::measured(head, &subject.label, |column| {
        run(bench, arch, subject, column)
    }))
}

fn run(bench: &Bench, arch: Arch, subject: &Subject, column: &mut Column) -> Result<()> {
    subject.kernel.image(bench.project, arch)?;
    let mut tree = guest::tree(bench.project, arch)?;
    tree.file(
        "usr/bin/reach",
        &toolchain::program(bench.project, arch, "reach")?,
    )?;
    let jobs = Jobs {
        subject,
        arch,
        limit: Duration::from_secs(60),
    };
    let job = guest::job(["reach", "/tmp/file"]);
    let first = guest::job(["true"]);
    let outputs = jobs.run(bench, &mut tree, &first, &[job], column)?;
    for output in outputs {
        let text = String::from_utf8_lossy(&output.stdout);
        match output.end {
            Ok(end) if end == "exit status 0" => column.rows.extend(rows(&text)),
            Ok(end) => bail!("{end}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Two rows for each line `kind entries faults`.
fn rows(text: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (kind, window) in KINDS {
        let line = text.lines().find_map(|line| line.strip_prefix(kind));
        let mut values = line.unwrap_or_default().split_whitespace();
        for what in ["entries", "faults"] {
            if let Some(value) = values.next().and_then(|value| value.parse().ok()) {
                rows.push(Row::new(format!("{kind}, {what}"), window, value));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_two_rows() {
        let rows = rows("written 256 255\nread 16 17\n");
        let values: Vec<_> = rows.iter().map(|row| (&*row.name, row.value)).collect();
        let expected = [
            ("written, entries", Some(256.0)),
            ("written, faults", Some(255.0)),
            ("read, entries", Some(16.0)),
            ("read, faults", Some(17.0)),
        ];
        assert_eq!(values, expected);
    }
}
