//! The kernel's own unit tests: a kernel built with them, booted in QEMU, tells its results on the serial line.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Report;
use super::machines::{self, Setting};
use crate::arch::Arch;
use crate::guest;
use crate::kernel_image::{Kernel, flat_image};
use crate::options::TestOptions;
use crate::project::Project;
use crate::qemu::Machine;
use crate::session::Event;
use crate::toolchain;

/// How long the whole boot may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Boots the self-testing kernel on each machine of an architecture.
pub fn test(
    project: &Project,
    options: &TestOptions,
    arch: Arch,
    report: &mut Report,
) -> Result<()> {
    let name = |setting: &Setting| format!("kernel/{}", setting.name);
    let wanted: Vec<Setting> = machines::settings(options, arch)
        .filter(|setting| report.wants(&name(setting)))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let image = flat_image(&toolchain::kernel(project, arch, &["selftest"])?)?;
    let kernel = Kernel::Selftest(image);
    for setting in wanted {
        boot(
            project,
            &setting.machine(&kernel, &["selftest"]),
            &name(&setting),
            report,
        )?;
    }
    Ok(())
}

fn boot(project: &Project, machine: &Machine, name: &str, report: &mut Report) -> Result<()> {
    let mut tree = guest::tree(project, machine.arch)?;
    let mut session = guest::boot(project, machine, &mut tree, &[], None)?;
    let deadline = Instant::now() + LIMIT;
    let timed_out = loop {
        match session.next(Some(deadline)) {
            Event::Closed => break false,
            Event::TimedOut => break true,
            _ => {}
        }
    };
    let status = if timed_out { None } else { session.finish()? };
    let log = session.log();
    let mut passed = 0;
    for line in log
        .lines()
        .filter_map(|line| line.split_once("selftest ").map(|(_, rest)| rest))
    {
        match line.split_once(' ') {
            Some((_, "ok")) => passed += 1,
            Some((unit, failure)) if failure.starts_with("FAILED") => {
                report.failed(&format!("{name}/{unit}"), failure)
            }
            _ => {}
        }
    }
    report.passed(passed);
    match status {
        Some(status) if status.success() && passed > 0 => {}
        Some(status) => report.failed(
            name,
            &format!("QEMU ended with {status}\n{}", session.log_end()),
        ),
        None => report.failed(
            name,
            &format!("the machine did not end\n{}", session.log_end()),
        ),
    }
    Ok(())
}
