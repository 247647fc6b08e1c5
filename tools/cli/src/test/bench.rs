//! The bench: two runs count the same, and its page is one that a browser can show.

use anyhow::Result;

use super::Report;
use crate::arch::Arch;
use crate::bench::checks;
use crate::kernel_image::Kernel;
use crate::project::Project;

/// Runs the checks that are asked for.
pub fn test(project: &Project, report: &mut Report) -> Result<()> {
    for arch in [Arch::Arm64, Arch::Riscv64] {
        for kernel in [Kernel::Stile, Kernel::Linux("6.12".into())] {
            let name = format!("bench/repeats-{kernel}-{}", arch.debian());
            if report.wants(&name) {
                tell(report, &name, checks::repeats(project, kernel, arch)?);
            }
        }
    }
    if report.wants("bench/page") {
        tell(report, "bench/page", checks::page(project)?);
    }
    Ok(())
}

fn tell(report: &mut Report, name: &str, complaint: Option<String>) {
    match complaint {
        None => report.passed(1),
        Some(how) => report.failed(name, &how),
    }
}
