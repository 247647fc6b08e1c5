//! The form of the whole tree: rustfmt and clippy find nothing; comments and documents, which
//! rustfmt ignores, have no long lines; and the lists of mutants match the source.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
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

/// Checks the form of the source, and that clippy finds nothing in the host's part, in each kernel,
/// and in the programs.
pub fn test(project: &Project, report: &mut Report) -> Result<()> {
    let fmt = formatting(project);
    run(fmt, "host/rustfmt", report)?;
    mutants_fit(project, report)?;
    if report.wants("host/columns") {
        let long = long_lines(&project.root)?;
        match long.is_empty() {
            true => report.passed(1),
            false => report.failed("host/columns", &long.join("\n")),
        }
    }
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

/// Fails for mutants whose lines are no longer in the source: otherwise nobody would notice before
/// they are run.
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

/// The maximum number of columns in a line.
const COLUMNS: usize = 100;
/// The folders that are searched for long lines, besides the documents at the root.
const FOLDERS: [&str; 7] = [
    "crates", "docs", "fuzz", "kernel", "programs", "tests", "tools",
];

/// The places of comments and lines in documents that are too long.
fn long_lines(root: &Path) -> Result<Vec<String>> {
    let mut long = Vec::new();
    let mut folders = FOLDERS.map(|folder| root.join(folder)).to_vec();
    let mut entries: Vec<_> = fs::read_dir(root)?.collect();
    while let Some(folder) = folders.pop() {
        entries.extend(fs::read_dir(&folder).with_context(|| folder.display().to_string())?);
        for entry in entries.drain(..) {
            let path = entry?.path();
            let name = path.strip_prefix(root)?.display().to_string();
            if path.is_dir() {
                let is_source = name.contains('/') && !name.ends_with("/target");
                folders.extend(is_source.then_some(path));
                continue;
            }
            let lines: fn(&str) -> Vec<usize> = match path.extension().and_then(OsStr::to_str) {
                Some("rs") => long_comments,
                Some("md") => long_prose,
                _ => continue,
            };
            let text = fs::read_to_string(&path).with_context(|| name.clone())?;
            long.extend(lines(&text).iter().map(|line| format!("{name}:{line}")));
        }
    }
    Ok(long)
}

/// The numbers of the lines for which `counts` holds and that are too long.
fn too_long(text: &str, mut counts: impl FnMut(&str) -> bool) -> Vec<usize> {
    let lines = text.lines().zip(1..);
    let long = lines.filter(|(line, _)| counts(line) && line.chars().count() > COLUMNS);
    long.map(|(_, number)| number).collect()
}

/// The lines of a source that are comments and too long.
fn long_comments(text: &str) -> Vec<usize> {
    too_long(text, |line| line.trim_start().starts_with("//"))
}

/// The lines of a document that are too long and belong neither to a table nor to code.
fn long_prose(text: &str) -> Vec<usize> {
    let mut is_code = false;
    too_long(text, |line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code && !line.starts_with("    ") && !line.trim_start().starts_with('|')
    })
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

/// A command that fails if rustfmt would change something.
fn formatting(project: &Project) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(&project.root)
        .args(["fmt", "--all", "--check"]);
    cargo
}

/// A command that fails if clippy finds something.
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

#[cfg(test)]
mod tests {
    use super::{COLUMNS, long_comments, long_prose};

    #[test]
    fn lines_have_a_hundred_columns() {
        let long = "ä ".repeat(COLUMNS / 2 + 1);
        let fits = "ä ".repeat(COLUMNS / 2);
        let source = format!("// {long}\n    /// {long}\nlet text = \"{long}\";\n// ok\n");
        assert_eq!(long_comments(&source), [1, 2]);
        let document =
            format!("{fits}\n{long}\n| {long} |\n    {long}\n```\n{long}\n```\n{long}\n");
        assert_eq!(long_prose(&document), [2, 8]);
    }
}
