//! A campaign: what of it is measured already, what is left, and the report.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::options::{Action, BenchOptions, Suite};
use super::report::Report;
use super::result::{Column, Results};
use super::subject::{self, Subject};
use super::{
    Bench, affinity, boots, build, contend, crossings, fenced, html, interrupt, lmbench, markdown,
    narrow, scale, text, way,
};
use crate::arch::Arch;
use crate::policies;
use crate::project::{Project, progress};
use crate::{toolchain, vm};

/// How many machines run at once unless it is said: each has a gibibyte.
const MOST_JOBS: usize = 8;

/// One suite on one kernel.
struct Step {
    suite: Suite,
    arch: Arch,
    subject: Subject,
}

impl Step {
    fn name(&self) -> String {
        let Self {
            suite,
            arch,
            subject,
        } = self;
        format!("{} on {} ({})", suite.name(), subject.label, arch.debian())
    }

    /// The file of its results; quick ones do not take the place of others.
    fn file(&self, out: &Path, quick: bool) -> PathBuf {
        let plain = |letter: char| match letter {
            '.' => letter,
            _ if letter.is_ascii_alphanumeric() => letter,
            _ => '-',
        };
        let label: String = self.subject.label.chars().map(plain).collect();
        let (suite, arch) = (self.suite.name(), self.arch.debian());
        let quick = if quick { "-quick" } else { "" };
        out.join(format!("{suite}-{arch}-{label}{quick}.json"))
    }

    /// A key over all that goes into its figures.
    fn key(&self, bench: &Bench) -> Result<String> {
        let programs: &[&str] = match self.suite {
            Suite::Affinity => &["init", "vmm"],
            Suite::Fence => &["init", "mmapstress"],
            Suite::Entry | Suite::Lmbench => &["init"],
            _ => &[],
        };
        let mut files = Vec::new();
        for name in programs {
            files.push(toolchain::program(bench.project, self.arch, name)?);
        }
        match self.suite {
            Suite::Affinity => files.push(vm::guest_bench(bench.project)?),
            Suite::Entry => files.push(toolchain::narrow_program(bench.project, "calls32")?),
            _ => {}
        }
        self.subject
            .key(bench, self.arch, self.suite.name(), &files)
    }

    fn measure(&self, bench: &Bench) -> Result<Vec<Column>> {
        if self.suite == Suite::Affinity {
            return affinity::measure(bench, &self.subject);
        }
        if let Some(system) = self.suite.system() {
            let mut columns = crossings::measure(bench, system, self.arch, &self.subject)?;
            if self.suite == Suite::Idreg {
                columns.extend(scale::id_reads(bench, self.arch, &self.subject)?);
                columns.extend(contend::measure(bench, self.arch, &self.subject)?);
            }
            if self.suite == Suite::Fence {
                columns.push(fenced::measure(bench, self.arch, &self.subject)?);
            }
            if self.suite == Suite::Entry {
                columns.extend(way::measure(bench, self.arch, &self.subject)?);
                columns.push(narrow::measure(bench, &self.subject)?);
                columns.push(build::measure(bench, self.arch, &self.subject)?);
            }
            return Ok(columns);
        }
        match self.suite {
            Suite::Scale => scale::measure(bench, self.arch, &self.subject),
            Suite::Lmbench => lmbench::measure(bench, self.arch, &self.subject),
            _ => boots::measure(bench, self.arch, &self.subject),
        }
    }
}

/// Measures what is asked for, or what is left of it, and reports.
pub fn bench(project: &Project, options: &BenchOptions) -> Result<u8> {
    if let Some(Action::Merge { out, json, from }) = &options.action {
        return merge(out, from, *json);
    }
    options
        .set
        .iter()
        .try_for_each(|setting| policies::check(setting))?;
    interrupt::prepare()?;
    let bench = Bench {
        project,
        quick: options.quick,
        full: options.full,
        cpu: options.cpu.as_deref(),
    };
    let folder = options.out.join("results");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let steps = steps(options)?;
    let mut left = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        interrupt::check()?;
        let file = step.file(&folder, options.quick);
        let key = step.key(&bench)?;
        let place = format!("{}/{} {}", number + 1, steps.len(), step.name());
        if Results::read(&file).is_some_and(|known| known.key == key) {
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
        .map(|step| step.file(&folder, options.quick))
        .collect();
    let status = publish(&options.out, &files, options.json)?;
    if options.results {
        let place = project.root.join("docs/results.md");
        fs::copy(options.out.join("report.md"), &place)
            .with_context(|| place.display().to_string())?;
    }
    Ok(status)
}

/// A step that is to be measured.
struct Left<'a> {
    place: String,
    step: &'a Step,
    file: PathBuf,
    key: String,
}

/// Measures steps, so many at once: each has a machine of its own that counts, so none disturbs another's figures.
fn measure_all(bench: &Bench, left: &[Left], jobs: usize) -> Result<()> {
    let (started, taken, measured) = (Instant::now(), AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> Result<()> {
        while let Some(one) = left.get(taken.fetch_add(1, Ordering::Relaxed)) {
            interrupt::check()?;
            let done = measured.load(Ordering::Relaxed);
            let rest = time_left(started.elapsed(), done, left.len() - done);
            progress(&format!("{}{rest}", one.place));
            let columns = one.step.measure(bench).with_context(|| one.step.name())?;
            interrupt::check()?;
            let key = one.key.clone();
            Results { key, columns }.write(&one.file)?;
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

/// All steps, or those of one part.
fn steps(options: &BenchOptions) -> Result<Vec<Step>> {
    let all = options.suites.contains(&Suite::All);
    let suites = if all {
        &Suite::EACH[..]
    } else {
        &options.suites
    };
    let mut steps = Vec::new();
    for &suite in suites {
        for &arch in &options.arch {
            let (kernels, append) = (&options.kernel, &options.append);
            let subjects = match suite.system().filter(|_| suite != Suite::Crossings) {
                Some(system) if !system.is_of(arch) => continue,
                Some(system) => system.subjects(kernels, append, arch)?,
                None => subject::subjects(kernels, &options.set, append, arch)?,
            };
            steps.extend(subjects.into_iter().map(|subject| Step {
                suite,
                arch,
                subject,
            }));
        }
    }
    let (part, of) = options.shard.unwrap_or((1, 1));
    Ok(steps.into_iter().skip(part - 1).step_by(of).collect())
}

/// A guess at the time for the steps that are left; nothing before the first was measured.
fn time_left(elapsed: Duration, measured: usize, left: usize) -> String {
    match measured {
        0 => String::new(),
        _ => {
            let each = elapsed.as_secs_f64() / measured as f64;
            format!(", about {:.0} s left", each * left as f64)
        }
    }
}

/// Puts the results of several folders into one and reports.
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
    // Stile first: ratios are to the first column.
    files.sort_by_key(|file| (!file.to_string_lossy().contains("-stile"), file.clone()));
    files.dedup();
    publish(out, &files, json)
}

/// Writes the report in all its forms and prints it.
fn publish(out: &Path, files: &[PathBuf], json: bool) -> Result<u8> {
    let columns: Vec<_> = files
        .iter()
        .filter_map(|file| Results::read(file))
        .flat_map(|results| results.columns)
        .collect();
    if columns.is_empty() {
        bail!("nothing was measured");
    }
    let report = Report::new(columns);
    let as_json = serde_json::to_string_pretty(&report)?;
    fs::write(out.join("report.json"), &as_json)?;
    fs::write(out.join("report.md"), markdown::render(&report))?;
    fs::write(out.join("report.html"), html::render(&report))?;
    println!("{}", if json { as_json } else { text::render(&report) });
    progress(&format!(
        "the report is {}",
        out.join("report.html").display()
    ));
    Ok(0)
}
