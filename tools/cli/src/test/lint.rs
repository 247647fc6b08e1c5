//! What rustfmt and clippy say of the whole tree: nothing. And the lists of mutants fit it.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::Report;
use crate::arch::Arch;
use crate::mutants;
use crate::project::Project;
use crate::toolchain::{COMPAT_TARGET, ensure_target};

/// Programs that run without an operating system, and those for 32-bit Arm; the others run on
/// Linux's ABI.
const BARE: [&str; 2] = ["crossings-program", "guest-bench"];
const COMPAT: [&str; 2] = ["arm32", "calls32"];
/// The halves of the kernel.
const KERNEL: [&str; 2] = ["kernel", "machine"];

/// Checks the form of the source, and that clippy finds nothing in the host's part, in each kernel
/// and in the programs.
pub fn test(project: &Project, report: &mut Report) -> Result<()> {
    let fmt = formatting(project);
    run(fmt, "host/rustfmt", report)?;
    mutants_fit(project, report)?;
    let programs = programs(project)?;
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    let mut host = vec!["--workspace", "--all-targets"];
    for name in programs.iter().copied().chain(KERNEL) {
        host.extend(["--exclude", name]);
    }
    run(clippy(project, &host), "host/clippy-host", report)?;
    let on_linux: Vec<&str> = programs
        .into_iter()
        .filter(|name| !BARE.contains(name) && !COMPAT.contains(name))
        .collect();
    for (name, target, packages) in [
        ("kernel-arm64", Arch::Arm64.kernel_target(), &KERNEL[..]),
        ("kernel-riscv64", Arch::Riscv64.kernel_target(), &KERNEL),
        ("programs", Arch::Arm64.program_target(), &on_linux),
        ("programs-bare", Arch::Arm64.kernel_target(), &BARE),
        ("programs-32", COMPAT_TARGET, &COMPAT),
    ] {
        let name = format!("host/clippy-{name}");
        if !report.wants(&name) {
            continue;
        }
        ensure_target(project, target)?;
        let mut arguments = vec!["--target", target];
        for package in packages {
            arguments.extend(["--package", package]);
        }
        if packages == KERNEL {
            arguments.extend(["--features", "kernel/selftest"]);
        }
        run(clippy(project, &arguments), &name, report)?;
    }
    Ok(())
}

/// Fails for mutants whose lines the source no longer has: nobody would notice until they are run.
fn mutants_fit(project: &Project, report: &mut Report) -> Result<()> {
    const NAME: &str = "host/mutants";
    if report.wants(NAME) {
        match mutants::unfit(&project.root)?.as_slice() {
            [] => report.passed(1),
            unfit => report.failed(NAME, &unfit.join("\n")),
        }
    }
    Ok(())
}

/// The packages of `programs/` that clippy reads: their names.
fn programs(project: &Project) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(project.root.join("programs"))? {
        let manifest = entry?.path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
        let name = text.lines().find_map(|line| line.strip_prefix("name = "));
        names.extend(name.map(|name| name.trim_matches('"').to_owned()));
    }
    Ok(names)
}

/// A command that fails where rustfmt would change something.
fn formatting(project: &Project) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(&project.root)
        .args(["fmt", "--all", "--check"]);
    cargo
}

/// A command that fails where clippy has something to say.
fn clippy(project: &Project, arguments: &[&str]) -> Command {
    let mut cargo = project.cargo_in("clippy", &["clippy", "--quiet"]);
    cargo.args(arguments).args(["--", "--deny", "warnings"]);
    cargo
}

fn run(mut cargo: Command, name: &str, report: &mut Report) -> Result<()> {
    if !report.wants(name) {
        return Ok(());
    }
    let output = cargo.output().context("cargo cannot be run")?;
    if output.status.success() {
        report.passed(1);
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    report.failed(name, &String::from_utf8_lossy(&said));
    Ok(())
}
