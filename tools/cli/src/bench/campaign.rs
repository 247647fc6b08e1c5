//! A campaign: the steps that have been measured, those that are left, and the report.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::options::{Action, BenchOptions};
use super::origin::Origin;
use super::report::Report;
use super::result::Results;
use super::step::{Measured, Step};
use super::{Bench, html, interrupt, markdown, text};
use crate::policies;
use crate::project::{Project, progress};
use crate::test;

/// The default number of machines that run at once: each has a gibibyte of memory.
const MOST_JOBS: usize = 8;

/// Measures the requested or remaining steps, and reports.
pub fn bench(project: &Project, options: &BenchOptions) -> Result<u8> {
    match &options.action {
        Some(Action::Merge { out, json, from }) => return merge(out, from, *json),
        Some(Action::Masked { arch, names }) => return test::masked(project, *arch, names),
        Some(Action::Stack { arch, names }) => return test::stack(project, *arch, names),
        None => {}
    }
    options
        .set
        .iter()
        .try_for_each(|setting| policies::check(setting))?;
    interrupt::prepare()?;
    let rows = options.rows()?;
    let bench = Bench {
        project,
        quick: options.quick,
        full: options.full,
        cpu: options.cpu.as_deref(),
        rows: &rows,
    };
    let folder = options.out.join("results");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let steps = Step::all(options)?;
    let mut left = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        interrupt::check()?;
        let file = step.file(&folder, &bench);
        let key = step.key(&bench)?;
        let place = format!("{}/{} {}", number + 1, steps.len(), step.name());
        if Results::read(&file).is_some_and(|known| known.key.as_ref() == Some(&key)) {
            progress(&format!("{place}: measured before"));
        } else {
            left.push(Left {
                place,
                step,
                file,
                key,
            });
        }
    }
    let jobs = options.jobs.unwrap_or_else(|| {
        available_parallelism()
            .map_or(1, usize::from)
            .min(MOST_JOBS)
    });
    measure_all(&bench, &left, jobs)?;
    let files: Vec<_> = steps
        .iter()
        .map(|step| step.file(&folder, &bench))
        .collect();
    let status = publish(&options.out, &files, options.json)?;
    if options.results {
        let place = project.root.join("docs/results.md");
        fs::copy(options.out.join("report.md"), &place)
            .with_context(|| place.display().to_string())?;
    }
    Ok(status)
}

/// A step that remains to be measured.
struct Left<'a> {
    place: String,
    step: &'a Step,
    file: PathBuf,
    key: String,
}

/// Measures steps, `jobs` at once: each has its own machine, in which instructions are counted, so
/// they do not affect each other's figures.
fn measure_all(bench: &Bench, left: &[Left], jobs: usize) -> Result<()> {
    let (started, taken, measured) = (Instant::now(), AtomicUsize::new(0), AtomicUsize::new(0));
    let origin = Origin::now(bench.project);
    let work = || -> Result<()> {
        while let Some(one) = left.get(taken.fetch_add(1, Ordering::Relaxed)) {
            interrupt::check()?;
            let done = measured.load(Ordering::Relaxed);
            let rest = time_left(started.elapsed(), done, left.len() - done);
            progress(&format!("{}{rest}", one.place));
            let Measured { columns, is_final } = one.step.measure(bench)?;
            let key = is_final.then(|| one.key.clone());
            let origin = origin.clone();
            Results {
                key,
                origin,
                columns,
            }
            .write(&one.file)?;
            measured.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| bail!("a measurement panicked")))
            .fold(Ok(()), Result::and)
    })
}

/// An estimate of the time for the remaining steps; empty before the first was measured.
fn time_left(elapsed: Duration, measured: usize, left: usize) -> String {
    match measured {
        0 => String::new(),
        _ => {
            let each = elapsed.as_secs_f64() / measured as f64;
            format!(", about {:.0} s left", each * left as f64)
        }
    }
}

/// Combines the results in several folders, and reports.
fn merge(out: &Path, from: &[PathBuf], json: bool) -> Result<u8> {
    let folder = out.join("results");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for part in from {
        let part = part.join("results");
        for entry in fs::read_dir(&part).with_context(|| part.display().to_string())? {
            let path = entry?.path();
            let place = folder.join(path.file_name().unwrap_or_default());
            if path != place {
                fs::copy(&path, &place).with_context(|| path.display().to_string())?;
            }
            files.push(place);
        }
    }
    // Stile comes first, since ratios refer to the first column.
    files.sort_by_key(|file| (!file.to_string_lossy().contains("-stile"), file.clone()));
    files.dedup();
    publish(out, &files, json)
}

/// Writes the report in all its formats and prints it.
fn publish(out: &Path, files: &[PathBuf], json: bool) -> Result<u8> {
    let results: Vec<_> = files
        .iter()
        .filter_map(|file| Results::read(file))
        .collect();
    if results.is_empty() {
        bail!("nothing was measured");
    }
    let report = Report::of_results(results);
    let as_json = serde_json::to_string_pretty(&report)?;
    fs::write(out.join("report.json"), &as_json)?;
    fs::write(out.join("report.md"), markdown::render(&report))?;
    fs::write(out.join("report.html"), html::render(&report))?;
    show!("{}", if json { as_json } else { text::render(&report) });
    progress(&format!(
        "the report is {}",
        out.join("report.html").display()
    ));
    Ok(0)
}
