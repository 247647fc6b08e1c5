//! Tests of the bench: two runs count the same, ten instructions more are shown as ten, programs
//! with known counts are counted right, the path of a crossing is as long as its row says, a
//! program that hangs spoils no other, and a browser can show the page. Also, no system call keeps
//! a CPU for long.

use anyhow::Result;

use super::{Report, masked};
use crate::arch::Arch;
use crate::bench::subject::Subject;
use crate::bench::{checks, known, page};
use crate::kernel_image::Kernel;
use crate::project::Project;

/// Runs the requested checks on an architecture.
pub fn test(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    for kernel in [Kernel::Stile, Kernel::Linux("6.12".into())] {
        let name = format!("bench/repeats-{kernel}-{}", arch.debian());
        if report.wants(&name) {
            record(report, &name, checks::repeats(project, kernel, arch)?);
        }
    }
    let name = format!("bench/outlives-{}", arch.debian());
    if report.wants(&name) {
        record(report, &name, checks::outlives(project, arch)?);
    }
    let name = format!("bench/slower-{}", arch.debian());
    if report.wants(&name) {
        record(report, &name, checks::slower(project, arch)?);
    }
    let name = format!("bench/known-{}", arch.debian());
    if report.wants(&name) {
        record(report, &name, known::check(project, arch)?);
    }
    ways(project, arch, report)?;
    let name = format!("bench/masked-{}", arch.debian());
    if report.wants(&name) {
        record(report, &name, masked::too_long(project, arch)?);
    }
    Ok(())
}

/// Checks the paths of crossings: Stile's, and with `--long` those of stock kernels.
fn ways(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    let mut subjects = vec![checks::subject(Kernel::Stile)];
    if report.options.long {
        let versions: &[&str] = match arch {
            Arch::Arm64 => &["6.1", "6.12"],
            Arch::Riscv64 => &["6.12"],
        };
        let stock = versions.iter().map(|version| version.to_string());
        subjects.extend(stock.map(|version| Subject::lean(Kernel::Linux(version))));
    }
    for subject in &subjects {
        for row in ["null_call", "anon_read"] {
            let name = format!("bench/way-{row}-{}-{}", subject.kernel, arch.debian());
            if report.wants(&name) {
                record(report, &name, checks::way(project, subject, arch, row)?);
            }
        }
    }
    Ok(())
}

/// Checks the page, if requested and if the machine has a browser.
pub fn page(project: &Project, report: &mut Report) -> Result<()> {
    if report.wants("bench/page") {
        match page::browser() {
            Some(browser) => record(report, "bench/page", page::check(project, &browser)?),
            None => show!("bench/page: no browser here to show it"),
        }
    }
    Ok(())
}

fn record(report: &mut Report, name: &str, complaint: Option<String>) {
    match complaint {
        None => report.passed(1),
        Some(how) => report.failed(name, &how),
    }
}
