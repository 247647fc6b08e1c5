//! What `stile test` asks of the bench.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Bench;
use super::boot::{Boot, Booted};
use super::html;
use super::report::Report;
use super::result::{Column, Failure, Head, Row};
use super::subject::Subject;
use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::project::{Project, find_program};

/// The phase after the last row: `OVER` of programs/crossings.
const OVER: &str = "{\"phase\":1023,";

/// Measures a kernel twice; the difference, if there is one.
pub fn repeats(project: &Project, kernel: Kernel, arch: Arch) -> Result<Option<String>> {
    let subject = Subject {
        label: kernel.to_string(),
        kernel,
        parameters: Vec::new(),
    };
    let bench = Bench {
        project,
        quick: true,
        cpu: None,
    };
    let words = ["--batches", "2", "--settle", "500", "--pause", "20"];
    let boot = Boot {
        subject: &subject,
        arch,
        cpus: 1,
        arguments: words.map(String::from).to_vec(),
        plugin: Some(""),
        limit: Duration::from_secs(120),
    };
    let (one, other) = (boot.run(&bench)?, boot.run(&bench)?);
    Ok(difference(&one, &other))
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
        if let Some(complaint) = shown(&browser, &folder, &page, width)? {
            return Ok(Some(format!("{width} pixels wide: {complaint}")));
        }
    }
    Ok(None)
}

fn shown(browser: &Path, folder: &Path, page: &Path, width: u32) -> Result<Option<String>> {
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
