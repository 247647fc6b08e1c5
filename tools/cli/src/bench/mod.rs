//! `stile bench`: the same work on any two kernels, side by side, counted.
//!
//! A campaign is a list of steps: one suite on one kernel of one architecture. A step's result is a file in the output
//! folder, with a key over all that went into it; a step whose file is there is not run again, so an interrupted
//! campaign resumes, and a campaign that was split over machines is merged by putting the files together. The report is
//! made from these files alone.

mod affinity;
mod boot;
mod boots;
pub mod checks;
mod compare;
mod contend;
mod counted;
mod crossings;
mod html;
mod inspect;
mod interrupt;
mod jobs;
mod lmbench;
mod markdown;
mod path;
mod plot;
mod programs;
mod report;
mod result;
mod said;
mod subject;
mod symbols;
mod systems;
mod text;
mod touched;
mod way;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};

use crate::arch::Arch;
use crate::policies;
use crate::project::{Project, progress};
use report::Report;
use result::{Column, Results};
use subject::Subject;
use systems::System;

pub use compare::{CompareOptions, compare};
pub use inspect::{InspectOptions, inspect};

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// Each crossing of the user-kernel boundary, by our own program
    Crossings,
    /// The dispatch of exceptions, under each of its policies (arm64)
    Entry,
    /// ID registers read by programs, under each policy (arm64)
    Idreg,
    /// The Access-flag question on the fault path, under each policy (arm64)
    Hwaf,
    /// Fences after new mappings, under each policy (RISC-V)
    Fence,
    /// Exits of guests and their interrupts, by the number of virtual CPUs, under each policy (arm64)
    Affinity,
    /// lmbench's own programs: the second opinion
    Lmbench,
    /// From power-on to the first program
    Boot,
    /// All of these
    All,
}

impl Suite {
    /// What there is in `all`, in order.
    const EACH: [Self; 8] = [
        Self::Crossings,
        Self::Entry,
        Self::Idreg,
        Self::Hwaf,
        Self::Fence,
        Self::Affinity,
        Self::Lmbench,
        Self::Boot,
    ];

    /// The system whose crossings the suite measures, if it does.
    fn system(self) -> Option<&'static System> {
        match self {
            Self::Crossings => Some(&systems::CROSSINGS),
            Self::Entry => Some(&systems::ENTRY),
            Self::Idreg => Some(&systems::IDREG),
            Self::Hwaf => Some(&systems::HWAF),
            Self::Fence => Some(&systems::FENCE),
            Self::Affinity => Some(&systems::AFFINITY),
            Self::Lmbench | Self::Boot | Self::All => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Crossings => "crossings",
            Self::Entry => "entry",
            Self::Idreg => "idreg",
            Self::Hwaf => "hwaf",
            Self::Fence => "fence",
            Self::Affinity => "affinity",
            Self::Lmbench => "lmbench",
            Self::Boot => "boot",
            Self::All => "all",
        }
    }
}

/// Options of `bench`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchOptions {
    /// Something other than measuring
    #[command(subcommand)]
    action: Option<Action>,
    /// What to measure
    #[arg(value_enum, default_value = "crossings")]
    suites: Vec<Suite>,
    /// Architecture of the machine
    #[arg(long, value_enum, default_value = "arm64")]
    arch: Vec<Arch>,
    /// CPU model, as QEMU names it
    #[arg(long, value_name = "MODEL")]
    cpu: Option<String>,
    /// Choose a policy of Stile; an unknown one lists those there are
    #[arg(long, value_name = "POLICY=VALUE")]
    set: Vec<String>,
    /// A kernel: stile, linux-6.12, linux-6.1 (Debian's), or a file; by default these three
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Parameters for the command lines of kernels given as files
    #[arg(long, value_name = "PARAMS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// Fewer batches and no second run for the shared lines
    #[arg(long)]
    quick: bool,
    /// Do only part I of N
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// Where results and report go
    #[arg(long, value_name = "DIR", default_value = "out/bench")]
    out: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write the report to docs/results.md too
    #[arg(long)]
    results: bool,
}

/// What `bench` does besides measuring.
#[derive(Debug, Subcommand)]
enum Action {
    /// Make one report of the results in several folders
    Merge {
        /// Where the report goes
        #[arg(long, value_name = "DIR", default_value = "out/bench")]
        out: PathBuf,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
        /// The folders of the parts
        #[arg(required = true)]
        from: Vec<PathBuf>,
    },
}

/// Parses `I/N`, both from 1.
fn shard(text: &str) -> Result<(usize, usize), String> {
    let parse = || {
        let (part, of) = text.split_once('/')?;
        Some((part.parse().ok()?, of.parse().ok()?))
    };
    match parse() {
        Some((part, of)) if (1..=of).contains(&part) => Ok((part, of)),
        _ => Err("part I of N is written I/N, from 1/N to N/N".into()),
    }
}

/// What all steps are given.
pub struct Bench<'a> {
    /// The checkout.
    pub project: &'a Project,
    /// Less of everything.
    pub quick: bool,
    /// The CPU model, unless it is the architecture's default.
    pub cpu: Option<&'a str>,
}

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

    fn measure(&self, bench: &Bench) -> Result<Vec<Column>> {
        if self.suite == Suite::Affinity {
            return affinity::measure(bench, &self.subject);
        }
        if let Some(system) = self.suite.system() {
            let mut columns = crossings::measure(bench, system, self.arch, &self.subject)?;
            if self.suite == Suite::Idreg && !bench.quick {
                columns.push(contend::measure(bench, self.arch, &self.subject)?);
            }
            return Ok(columns);
        }
        match self.suite {
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
        cpu: options.cpu.as_deref(),
    };
    let folder = options.out.join("results");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let steps = steps(options)?;
    let started = Instant::now();
    for (number, step) in steps.iter().enumerate() {
        let file = step.file(&folder, options.quick);
        interrupt::check()?;
        let suite = match step.suite {
            Suite::Affinity => affinity::name(project)?,
            other => other.name().into(),
        };
        let key = step.subject.key(&bench, step.arch, &suite)?;
        let known = Results::read(&file).is_some_and(|known| known.key == key);
        let left = match number {
            0 => String::new(),
            _ => time_left(started.elapsed(), number, steps.len()),
        };
        let place = format!("{}/{}", number + 1, steps.len());
        if known {
            progress(&format!("{place} {}: measured before", step.name()));
            continue;
        }
        progress(&format!("{place} {}{left}", step.name()));
        let columns = step.measure(&bench).with_context(|| step.name())?;
        interrupt::check()?;
        Results { key, columns }.write(&file)?;
    }
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

fn time_left(elapsed: Duration, done: usize, of: usize) -> String {
    let left = elapsed.as_secs_f64() / done as f64 * (of - done) as f64;
    format!(", about {left:.0} s left")
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
