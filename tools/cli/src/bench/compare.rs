//! `stile compare`: one of the user's programs on several kernels, and the counts of the kernels
//! side by side.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::Bench;
use super::counted::Counted;
use super::interrupt;
use super::jobs::{Jobs, Output};
use super::report::Report;
use super::result::{Column, Failure, Head, Row};
use super::subject::{self, Subject};
use super::text;
use crate::arch::Arch;
use crate::elf;
use crate::guest::{self, HOST_FOLDER};
use crate::packages;
use crate::project::{Project, progress};
use crate::run;

/// The phase that `programs/init` marks while a program runs.
const PHASE: u32 = 1;

/// Options of `compare`.
#[derive(Args, Debug)]
pub struct CompareOptions {
    /// Architecture of the machine; for a host file, it is read from the program
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// CPU model, as QEMU names it
    #[arg(long, value_name = "MODEL")]
    cpu: Option<String>,
    /// Choose a policy of Stile; an unknown one lists all policies
    #[arg(long, value_name = "POLICY=VALUE")]
    set: Vec<String>,
    /// A kernel: stile, linux-6.12, linux-6.1 (Debian's), or a file; the default is these three
    #[arg(long, value_name = "KERNEL")]
    kernel: Vec<String>,
    /// Put a Debian package and its dependencies into the guest
    #[arg(long, value_name = "NAME")]
    package: Vec<String>,
    /// Parameters for the command lines of kernels given as files
    #[arg(long, value_name = "PARAMS", allow_hyphen_values = true)]
    append: Vec<String>,
    /// The time limit for the program on each kernel
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
    /// The program and its arguments: with a slash a host file, otherwise a program of the guest
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

/// The counts while the program runs: a name and the plugin's kinds of counts.
const ROWS: [(&str, &[&str]); 12] = [
    ("instructions of the kernel", &["instructions.kernel"]),
    ("instructions of programs", &["instructions.user"]),
    ("instructions of the firmware", &["instructions.firmware"]),
    ("system calls", &["svc.user", "ecall.user"]),
    ("returns from exceptions", &["eret.kernel", "sret.kernel"]),
    ("ID-register reads by programs", &["idreg.read.user"]),
    ("ID-register reads by the kernel", &["idreg.read.kernel"]),
    ("TLB invalidations", &["tlbi.kernel"]),
    ("sfence.vma", &["sfence.vma.kernel", "sinval.vma.kernel"]),
    ("fence.i", &["fence.i.kernel"]),
    (
        "atomics of the kernel",
        &["exclusive.store.kernel", "atomic.kernel"],
    ),
    (
        "indirect branches of the kernel",
        &["branch.indirect.kernel"],
    ),
];

/// Runs the program on each kernel.
pub fn compare(project: &Project, options: &CompareOptions) -> Result<u8> {
    interrupt::prepare()?;
    let (arch, arguments) = program(options)?;
    let bench = Bench {
        project,
        quick: true,
        full: false,
        cpu: options.cpu.as_deref(),
        rows: &[],
    };
    let (mut columns, mut first) = (Vec::new(), None);
    for subject in subject::subjects(&options.kernel, &options.set, &options.append, arch)? {
        progress(&format!(
            "{} on {}",
            options.program[0].display(),
            subject.label
        ));
        let (column, said) = measure(&bench, options, arch, &arguments, &subject)?;
        columns.push(column);
        let Some(said) = said else { continue };
        match &first {
            None => first = Some((subject.label, said)),
            Some((label, other)) if *other != said => {
                progress(&format!(
                    "what it printed on {} differs from {label}",
                    subject.label
                ));
            }
            Some(_) => {}
        }
    }
    let report = Report::new(columns);
    match options.json {
        true => show!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{}", text::render(&report)),
    }
    Ok(0)
}

/// The architecture, and the arguments with the program's name in the guest.
fn program(options: &CompareOptions) -> Result<(Arch, Vec<Vec<u8>>)> {
    let Some(program) = options.program.first() else {
        bail!("no program is named")
    };
    let mut arguments: Vec<_> = options
        .program
        .iter()
        .map(|word| word.as_bytes().to_vec())
        .collect();
    if !program.as_bytes().contains(&b'/') {
        return Ok((options.arch.unwrap_or(Arch::Arm64), arguments));
    }
    let path = Path::new(program);
    let file = path
        .file_name()
        .with_context(|| format!("{}: no file", path.display()))?;
    arguments[0] = [HOST_FOLDER.as_bytes(), b"/", file.as_bytes()].concat();
    match elf::inspect(path)? {
        elf::Kind::Elf(program) => Ok((program.arch, arguments)),
        elf::Kind::Script(_) => Ok((options.arch.unwrap_or(Arch::Arm64), arguments)),
    }
}

/// A program's output and how it ended.
type ProgramOutput = (Vec<u8>, Vec<u8>, String);

fn measure(
    bench: &Bench,
    options: &CompareOptions,
    arch: Arch,
    arguments: &[Vec<u8>],
    subject: &Subject,
) -> Result<(Column, Option<ProgramOutput>)> {
    let mut tree = guest::tree(bench.project, arch)?;
    let program = &options.program[0];
    if program.as_bytes().contains(&b'/') {
        tree.file(&String::from_utf8_lossy(&arguments[0]), Path::new(program))?;
    } else {
        run::named_program(bench.project, arch, &program.to_string_lossy(), &mut tree)?;
    }
    if !options.package.is_empty() {
        packages::install(bench.project, arch, &options.package, &mut tree)?;
    }
    let limit = Duration::from_secs(options.timeout);
    let jobs = Jobs {
        subject,
        arch,
        limit,
    };
    let job = guest::job(arguments.iter().cloned());
    let head = Head {
        id: "compare".into(),
        title: options
            .program
            .iter()
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" "),
        unit: format!("counts while it ran, {}", arch.debian()),
        note: "PID 1, which passes its output on, is counted too.".into(),
        ratios: true,
        mean: false,
        ..Head::default()
    };
    let mut column = Column::new(head, &subject.label);
    let (outputs, counted) = jobs.run_counted(bench, &mut tree, vec![job], "", &mut column)?;
    let output = outputs
        .into_iter()
        .next()
        .context("one job has one output")?;
    let (failure, said) = ending(output);
    column.failure = failure;
    column.rows = rows(&counted);
    Ok((column, said))
}

/// The counts while the program ran.
pub fn rows(counted: &Counted) -> Vec<Row> {
    let counts = ROWS
        .iter()
        .map(|(name, kinds)| (name, counted.phase(PHASE, kinds)));
    let counts = counts.filter(|(_, count)| *count > 0);
    counts
        .map(|(name, count)| Row::new(*name, "", count as f64))
        .collect()
}

/// Splits a job's output into the failure and the program's output.
fn ending(output: Output) -> (Option<Failure>, Option<ProgramOutput>) {
    match output.end {
        Ok(end) if end == "exit status 0" => (None, Some((output.stdout, output.stderr, end))),
        Ok(end) => {
            let console = String::from_utf8_lossy(&output.stderr).into_owned();
            (
                Some(Failure {
                    reason: end.clone(),
                    console,
                }),
                Some((output.stdout, output.stderr, end)),
            )
        }
        Err(failure) => (Some(failure), None),
    }
}
