//! The checks of the bench in `stile test`.

use std::time::Duration;

use anyhow::{Error, Result};

use super::crossings_boot::{Boot, Booted};
use super::crossings_output::Parsed;
use super::jobs::Jobs;
use super::result::{Column, Head};
use super::subject::Subject;
use super::{Bench, inspect_entry, path, slowed};
use crate::arch::Arch;
use crate::guest;
use crate::kernel_image::{Kernel, flat_image};
use crate::project::Project;

/// The phase after the last row: `OVER` of programs/crossings.
const OVER: &str = "{\"phase\":1023,";

/// Measures a kernel twice; returns the difference, if there is one.
pub fn repeats(project: &Project, kernel: Kernel, arch: Arch) -> Result<Option<String>> {
    let words = ["--batches", "2", "--settle", "500", "--pause", "20"];
    let once = || run(project, kernel.clone(), arch, &words, "");
    let (one, other) = (once()?, once()?);
    Ok(difference(&one, &other))
}

/// Boots a kernel for some rows.
fn run(
    project: &Project,
    kernel: Kernel,
    arch: Arch,
    words: &[&str],
    plugin: &str,
) -> Result<Booted> {
    boot(project, &subject(kernel), arch, words, plugin)
}

fn boot(
    project: &Project,
    subject: &Subject,
    arch: Arch,
    words: &[&str],
    plugin: &str,
) -> Result<Booted> {
    let bench = bench(project);
    let boot = Boot {
        subject,
        arch,
        cpus: 1,
        arguments: words.iter().map(|word| word.to_string()).collect(),
        plugin: Some(plugin),
        limit: Duration::from_secs(120),
    };
    boot.run(&bench)
}

/// A kernel as the tests boot it.
pub fn subject(kernel: Kernel) -> Subject {
    Subject {
        label: kernel.to_string(),
        kernel,
        parameters: Vec::new(),
        cpu: None,
    }
}

fn bench(project: &Project) -> Bench<'_> {
    Bench {
        project,
        quick: true,
        full: false,
        cpu: None,
        rows: &[],
    }
}

/// Checks that programs after one that hangs find the files of those before it; returns their
/// output if not.
pub fn outlives(project: &Project, arch: Arch) -> Result<Option<String>> {
    const LOOK: &str = "cat /tmp/file";
    let subject = subject(Kernel::Stile);
    let jobs = Jobs {
        subject: &subject,
        arch,
        limit: Duration::from_secs(20),
    };
    let shell = |line: &str| guest::job(["sh", "-c", line]);
    let lines = [LOOK, "while :; do :; done", LOOK].map(shell);
    let mut tree = guest::tree(project, arch)?;
    let first = shell("echo there >/tmp/file");
    let mut column = Column::new(Head::default(), "");
    let outputs = jobs.run(&bench(project), &mut tree, &first, &lines, &mut column)?;
    let ends = outputs.iter().map(|output| match &output.end {
        Ok(_) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(failure) => failure.reason.clone(),
    });
    let ends: Vec<_> = ends.collect();
    let wanted = ["there\n", "hung: the time ran out", "there\n"];
    Ok((ends != wanted).then(|| format!("{ends:?}")))
}

/// Checks that a kernel that needs ten more instructions for a system call is reported to need ten
/// more; returns the reported figures if not.
pub fn slower(project: &Project, arch: Arch) -> Result<Option<String>> {
    const WORDS: [&str; 5] = ["--batches", "2", "--settle", "500", "null_call"];
    let traced = run(project, Kernel::Stile, arch, &WORDS, inspect_entry::TRACE)?;
    let way = path::stay(arch, &traced.counted.trace).map_err(Error::msg)?;
    let copy = flat_image(&slowed::copy(project, arch, &way[..way.len() - 1])?)?;
    let before = run(project, Kernel::Stile, arch, &WORDS, "")?;
    let after = run(project, Kernel::Selftest(copy), arch, &WORDS, "")?;
    if let Some(failure) = before.failure.as_ref().or(after.failure.as_ref()) {
        return Ok(Some(format!("{}\n{}", failure.reason, failure.console)));
    }
    let [shown_before, shown_after] = [&before, &after].map(shown);
    let [counted_before, counted_after] = [&before, &after].map(counted);
    let shown = shown_after - shown_before;
    let wanted = slowed::MORE * counted_before.1;
    let right =
        (shown - slowed::MORE as f64).abs() < 0.11 && counted_after.0 - counted_before.0 == wanted;
    Ok((!right).then(|| {
        format!("before {shown_before} {counted_before:?}, then {shown_after} {counted_after:?}")
    }))
}

/// Checks that the path of a crossing is as long as its row says: the kernel's instructions from
/// entry to return, and the program's from there to the next entry. Returns the difference if not.
pub fn way(project: &Project, subject: &Subject, arch: Arch, row: &str) -> Result<Option<String>> {
    let words = ["--batches", "2", "--settle", "500", row];
    let booted = boot(project, subject, arch, &words, inspect_entry::TRACE)?;
    if let Some(failure) = &booted.failure {
        return Ok(Some(format!("{}\n{}", failure.reason, failure.console)));
    }
    let (way, program) = match path::stay_and_rest(arch, &booted.counted.trace) {
        Ok((stay, rest)) => (stay.len() - 1, rest),
        Err(reason) => return Ok(Some(reason)),
    };
    // An access that faults is in the trace twice, but counts once.
    let is_call = program.last().is_some_and(|last| is_call(&last.text));
    let program = program.len() - usize::from(!is_call);
    let row = shown(&booted);
    Ok((!agree(way + program, row)).then(|| format!("{way} + {program} on the way, {row} a row")))
}

fn is_call(text: &str) -> bool {
    text.starts_with("svc") || text.starts_with("ecall")
}

/// Whether a single operation is as long as the mean of a batch, in which a few take longer, for
/// example to make a new table: within one instruction and half a percent.
fn agree(one: usize, mean: f64) -> bool {
    (mean - one as f64).abs() <= 1.0 + mean / 200.0
}

/// The program's output for its only row.
fn shown(booted: &Booted) -> f64 {
    let parsed = Parsed::parse(&booted.console);
    parsed
        .rows
        .first()
        .and_then(|row| row.value)
        .unwrap_or_default()
}

/// The plugin's counts of the only row, and its number of operations.
fn counted(booted: &Booted) -> (u64, u64) {
    let parsed = Parsed::parse(&booted.console);
    parsed.marked.first().map_or((0, 0), |(_, marked)| {
        let count = booted.counted.phase(marked.tag, &["instructions.kernel"]);
        (count, marked.operations)
    })
}

fn difference(one: &Booted, other: &Booted) -> Option<String> {
    if let Some(failure) = one.failure.as_ref().or(other.failure.as_ref()) {
        return Some(format!("{}\n{}", failure.reason, failure.console));
    }
    let differing = one
        .console
        .lines()
        .zip(other.console.lines())
        .find(|(one, other)| one != other);
    if let Some((one, other)) = differing {
        return Some(format!("first: {one}\nthen:  {other}"));
    }
    let differing = counts(one)
        .zip(counts(other))
        .find(|(one, other)| one != other);
    differing.map(|(one, other)| format!("first counted: {one}\nthen: {other}"))
}

/// All counts except those of the machine's shutdown.
fn counts(booted: &Booted) -> impl Iterator<Item = &str> {
    let text = std::str::from_utf8(&booted.counts).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with(OVER))
}

#[cfg(test)]
mod tests {
    use super::agree;

    #[test]
    fn a_way_is_as_long_as_its_row() {
        assert!(agree(64, 64.0));
        assert!(agree(1081, 1082.4));
        assert!(!agree(354, 1082.4));
        assert!(!agree(66, 64.0));
    }
}
