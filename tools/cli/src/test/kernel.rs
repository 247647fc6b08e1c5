//! The kernel's own unit tests: a kernel built with them, booted in QEMU, tells its results on the serial line.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Report;
use crate::arch::Arch;
use crate::guest;
use crate::kernel_image::{Kernel, flat_image};
use crate::project::Project;
use crate::qemu::{Accel, Machine};
use crate::session::Event;
use crate::toolchain;

/// How long the whole boot may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Boots the self-testing kernel on machines that differ in what the kernel starts with.
pub fn test(project: &Project, report: &mut Report) -> Result<()> {
    if !report.wants("kernel/")
        && report
            .options
            .names
            .iter()
            .all(|name| !name.starts_with("kernel"))
    {
        return Ok(());
    }
    let image = flat_image(&toolchain::kernel(project, Arch::Arm64, &["selftest"])?)?;
    let kernel = Kernel::Selftest(image);
    for (name, cpu, smp, options) in [
        ("kernel/cortex-a72", "cortex-a72", 1, &[][..]),
        ("kernel/max", "max", 4, &[][..]),
        (
            "kernel/neoverse-n1-el2",
            "neoverse-n1",
            2,
            &["-machine", "virtualization=on"][..],
        ),
    ] {
        let machine = Machine {
            arch: Arch::Arm64,
            kernel: &kernel,
            cpu: Some(cpu),
            smp,
            memory: "512M",
            icount: false,
            as_shipped: false,
            accel: Accel::Tcg,
            gdb: false,
            append: vec!["selftest".into()],
            options: options.iter().map(|word| word.to_string()).collect(),
        };
        boot(project, &machine, name, report)?;
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
