//! What `stile test` asks of the bench.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::boot::{Boot, Booted};
use super::html;
use super::report::Report;
use super::result::{Column, Failure, Head, Row};
use super::said::Said;
use super::subject::Subject;
use super::{Bench, path, slowed, way};
use crate::arch::Arch;
use crate::kernel_image::{Kernel, flat_image};
use crate::project::{Project, find_program};

/// The phase after the last row: `OVER` of programs/crossings.
const OVER: &str = "{\"phase\":1023,";

/// Measures a kernel twice; the difference, if there is one.
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
    let subject = Subject {
        label: kernel.to_string(),
        kernel,
        parameters: Vec::new(),
    };
    let bench = Bench {
        project,
        quick: true,
        full: false,
        cpu: None,
    };
    let boot = Boot {
        subject: &subject,
        arch,
        cpus: 1,
        arguments: words.iter().map(|word| word.to_string()).collect(),
        plugin: Some(plugin),
        limit: Duration::from_secs(120),
    };
    boot.run(&bench)
}

/// Whether a kernel that needs ten instructions more for a system call is shown to need ten more; else what was shown.
pub fn slower(project: &Project, arch: Arch) -> Result<Option<String>> {
    const WORDS: [&str; 5] = ["--batches", "2", "--settle", "500", "null_call"];
    let traced = run(project, Kernel::Stile, arch, &WORDS, way::TRACE)?;
    let way = path::stay(&traced.counted.trace).context("no system call was traced")?;
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

/// What the program says of its only row.
fn shown(booted: &Booted) -> f64 {
    let said = Said::parse(&booted.console);
    said.rows
        .first()
        .and_then(|row| row.value)
        .unwrap_or_default()
}

/// What the plugin counted in the only row, and in how many operations.
fn counted(booted: &Booted) -> (u64, u64) {
    let said = Said::parse(&booted.console);
    said.marked.first().map_or((0, 0), |(_, marked)| {
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

/// What was counted, but for how the machine went down.
fn counts(booted: &Booted) -> impl Iterator<Item = &str> {
    let text = std::str::from_utf8(&booted.counts).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with(OVER))
}

/// The browsers that can be asked, by name.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Shows the page to a browser without a screen, wide and narrow: what it complains about. None where there is no
/// browser, or nothing to complain about.
pub fn page(project: &Project) -> Result<Option<String>> {
    let Some(browser) = BROWSERS.iter().find_map(find_program) else {
        return Ok(None);
    };
    let folder = project.target.join("bench-page");
    fs::create_dir_all(&folder)?;
    let page = folder.join("report.html");
    fs::write(&page, html::render(&sample()))?;
    for width in [1280, 400] {
        if let Some(complaint) = complaint(&browser, &folder, &page, width)? {
            return Ok(Some(format!("{width} pixels wide: {complaint}")));
        }
    }
    Ok(None)
}

fn complaint(browser: &Path, folder: &Path, page: &Path, width: u32) -> Result<Option<String>> {
    let picture = folder.join(format!("{width}.png"));
    let output = Command::new(browser)
        .args([
            "--headless",
            "--disable-gpu",
            "--no-sandbox",
            "--hide-scrollbars",
        ])
        .args(["--disable-dev-shm-usage", "--enable-logging=stderr"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .with_context(|| browser.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let complaint = said
        .lines()
        .find(|line| line.contains("CONSOLE"))
        .map(String::from);
    let empty = || fs::metadata(&picture).map_or(0, |picture| picture.len()) < 1000;
    Ok(complaint.or_else(|| empty().then(|| "no picture".into())))
}

/// A report with everything that one can have.
fn sample() -> Report {
    let head = Head {
        id: "sample".into(),
        title: "A <table> & its \"rows\"".into(),
        unit: "instructions an operation".into(),
        note: String::new(),
        ratios: true,
        mean: true,
        detail: false,
    };
    let column = |label: &str, values: [Option<f64>; 3]| Column {
        head: head.clone(),
        label: label.into(),
        kernel: "Linux 6.12".into(),
        commands: vec!["qemu-system-aarch64 -icount shift=0".into()],
        failure: values[2].is_none().then(|| Failure {
            reason: "panicked".into(),
            console: "Kernel panic - not syncing".into(),
        }),
        rows: std::iter::zip(["null_call", "fork_exit_wait", "mmap_munmap"], values)
            .map(|(name, value)| Row {
                value,
                ..Row::new(name, "its window", 0.0)
            })
            .collect(),
    };
    Report::new(vec![
        column("stile", [Some(80.0), Some(20_000.0), Some(1_500.0)]),
        column("linux-6.12", [Some(302.0), Some(81_841.0), Some(9_561.0)]),
        column("broken", [Some(302.0), None, None]),
    ])
}
