//! Real programs in QEMU: one boot carries many cases, and their results are compared with those on
//! Linux.

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use similar::TextDiff;
use wire::{Channel, Control, Input, Job};

use super::case::Case;
use super::machines::{self, Setting};
use super::{Report, lock_order};
use crate::arch::Arch;
use crate::disk::{self, Disk};
use crate::guest;
use crate::initramfs::Initramfs;
use crate::kernel_image::Kernel;
use crate::options::TestOptions;
use crate::packages;
use crate::project::Project;
use crate::session::{Event, Session};
use crate::share::{self, Share};
use crate::toolchain;
use crate::vm;

/// The time limit for one case in seconds.
const LIMIT: u64 = 240;
/// Overrides it: a mutant that hangs need not be waited for so long.
pub const LIMIT_VARIABLE: &str = "STILE_CASE_SECONDS";
/// The time limit for a machine until its first case starts.
const BOOT_LIMIT: Duration = Duration::from_secs(180);

/// Runs the cases on one machine and compares.
pub fn test(
    project: &Project,
    kernel: &Kernel,
    options: &TestOptions,
    setting: &Setting,
    cases: &[Case],
    report: &mut Report,
) -> Result<()> {
    let wanted = |case: &&Case| {
        (options.long || !case.long)
            && setting.runs(case, options)
            && report.wants(&format!("programs/{}/{}", setting.name, case.name))
    };
    let cases: Vec<&Case> = cases.iter().filter(wanted).collect();
    let lockdep = run(project, kernel, setting, &cases, |case, result| {
        let name = format!("programs/{}/{}", setting.name, case.name);
        match compare(case, &result) {
            None => report.passed(1),
            Some(how) => report.failed(&name, &how),
        }
        Ok(())
    })?;
    if !lockdep.is_empty() {
        match lock_order::check(&project.root, &lockdep)? {
            None => report.passed(1),
            Some(how) => report.failed(&format!("programs/{}/lock-order", setting.name), &how),
        }
    }
    Ok(())
}

/// Runs the cases on Linux and keeps their results.
pub fn record(project: &Project, options: &TestOptions, cases: Vec<Case>) -> Result<u8> {
    let wanted = |case: &Case| {
        options.names.is_empty() || options.names.iter().any(|part| case.name.contains(part))
    };
    let cases: Vec<Case> = cases.into_iter().filter(wanted).collect();
    let mut failures = 0;
    let kernel = Kernel::Linux("6.12".into());
    let mut machines = Vec::new();
    for case in &cases {
        let setting = machines::recording(case, options)
            .with_context(|| format!("{}: there is no such machine", case.name))?;
        machines.push((setting, case));
    }
    machines.sort_by_key(|(setting, _)| setting.name);
    for alike in machines.chunk_by(|(one, _), (other, _)| one.name == other.name) {
        let cases: Vec<&Case> = alike.iter().map(|(_, case)| *case).collect();
        run(project, &kernel, &alike[0].0, &cases, |case, result| {
            match &result.end {
                Ok(end) => fs::write(case.expected_file(), case.record(&result.stdout, end))?,
                Err(how) => {
                    failures += 1;
                    show!("FAILED {}: {how}", case.name);
                }
            }
            Ok(())
        })?;
    }
    show!("{} recorded, {failures} failed", cases.len() - failures);
    Ok(u8::from(failures > 0))
}

/// The outcome of a case.
pub struct Outcome {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// How it ended, or why that is unknown.
    pub end: Result<String, String>,
}

/// The difference of a case's result from the expected one; `None` if there is none.
fn compare(case: &Case, outcome: &Outcome) -> Option<String> {
    let stderr = String::from_utf8_lossy(&outcome.stderr);
    let end = match &outcome.end {
        Ok(end) => end,
        Err(how) => {
            return Some(format!(
                "{how}\n{}{stderr}",
                String::from_utf8_lossy(&outcome.stdout)
            ));
        }
    };
    let Ok(expected) = fs::read_to_string(case.expected_file()) else {
        return Some(format!(
            "nothing is recorded: stile test --record {}",
            case.name
        ));
    };
    let found = case.record(&outcome.stdout, end);
    if found == expected {
        return None;
    }
    let diff = TextDiff::from_lines(&expected, &found);
    Some(format!(
        "{}{stderr}",
        diff.unified_diff().header("expected", "found")
    ))
}

/// Runs the cases in as few boots as possible: a machine that dies or hangs is started again with
/// the remaining cases. Returns the lock orders that checked kernels have seen.
fn run(
    project: &Project,
    kernel: &Kernel,
    setting: &Setting,
    cases: &[&Case],
    mut done: impl FnMut(&Case, Outcome) -> Result<()>,
) -> Result<String> {
    let mut lockdep = String::new();
    let needs = |case: &Case| (case.packages.clone(), case.memory.clone());
    // A disk is only empty once, and so is a folder.
    let is_alone = |case: &Case| case.disk.is_some() || case.share;
    let alike = |one: &&Case, other: &&Case| {
        needs(one) == needs(other) && !is_alone(one) && !is_alone(other)
    };
    for alike in cases.chunk_by(alike) {
        lockdep += &run_alike(project, kernel, setting, alike, &mut done)?;
    }
    Ok(lockdep)
}

/// The time limit for one case.
fn limit() -> Duration {
    let asked = env::var(LIMIT_VARIABLE).ok();
    let seconds = asked.and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(LIMIT))
}

/// Runs cases that need the same packages and memory.
fn run_alike(
    project: &Project,
    kernel: &Kernel,
    setting: &Setting,
    cases: &[&Case],
    done: &mut impl FnMut(&Case, Outcome) -> Result<()>,
) -> Result<String> {
    let mut lockdep = String::new();
    let mut left = cases;
    while !left.is_empty() {
        let mut session = boot(project, kernel, setting, left, &[])?;
        let mut finished = 0;
        while let Some(case) = left.get(finished) {
            let limit = case
                .minutes
                .map_or_else(limit, |minutes| Duration::from_secs(60 * minutes));
            let limit = if finished == 0 {
                limit + BOOT_LIMIT
            } else {
                limit
            };
            let outcome = collect(&mut session, Instant::now() + limit);
            let lost = outcome.end.is_err();
            done(case, outcome)?;
            finished += 1;
            if lost {
                break;
            }
        }
        left = &left[finished..];
        if left.is_empty() && project.is_checked() && kernel.is_stile() {
            let outcome = collect(&mut session, Instant::now() + limit());
            lockdep += &String::from_utf8_lossy(&outcome.stdout);
        }
    }
    Ok(lockdep)
}

/// Takes the result of the next case.
pub fn collect(session: &mut Session, deadline: Instant) -> Outcome {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        let end = match session.next(Some(deadline)) {
            Event::Frame(Channel::Stdout, bytes) => {
                stdout.extend(bytes);
                continue;
            }
            Event::Frame(Channel::Stderr, bytes) => {
                stderr.extend(bytes);
                continue;
            }
            Event::Frame(Channel::Control, payload) => match Control::decode(&payload) {
                Some(Control::Exited(status)) => Ok(format!("exit status {status}")),
                Some(Control::Killed(signal)) => Ok(format!("killed by signal {signal}")),
                Some(Control::Failed(errno)) => Ok(format!("not started: error {errno}")),
                _ => continue,
            },
            Event::TimedOut => Err(format!(
                "the time ran out; the end of the log:\n{}",
                session.log_end()
            )),
            Event::Closed => Err(format!(
                "the machine stopped; the end of the log:\n{}",
                session.log_end()
            )),
            _ => continue,
        };
        return Outcome {
            stdout,
            stderr,
            end,
        };
    }
}

/// Boots a machine that runs the cases, with `more` arguments for QEMU.
pub fn boot(
    project: &Project,
    kernel: &Kernel,
    setting: &Setting,
    cases: &[&Case],
    more: &[String],
) -> Result<Session> {
    let mut machine = setting.machine(kernel, &[]);
    machine.options.extend_from_slice(more);
    if let Some(memory) = cases.first().and_then(|case| case.memory.as_deref()) {
        machine.memory = memory;
    }
    let mut tree = guest::tree(project, setting.arch)?;
    if let Some(size) = cases.first().and_then(|case| case.disk) {
        machine.disks.push(Disk::empty(size << 20));
    }
    if cases.first().is_some_and(|case| case.share) {
        machine.shares.push(Share::empty());
    }
    if let Kernel::Linux(version) = kernel {
        let files = packages::linux_modules(project, setting.arch, version, &modules(cases))?;
        tree.modules(&files)?;
    }
    if let Some(case) = cases.first().filter(|case| !case.packages.is_empty()) {
        packages::install(project, setting.arch, &case.packages, &mut tree)?;
    }
    let mut jobs = Vec::new();
    for case in cases {
        jobs.push(job(project, setting.arch, case, &mut tree)?);
    }
    if project.is_checked() && kernel.is_stile() {
        jobs.push(guest::job(["cat", "/proc/lockdep"]));
    }
    guest::boot(project, &machine, &mut tree, &jobs, None)
}

/// The modules that Debian's Linux needs for these cases, in order, each once.
fn modules<'a>(cases: &[&'a Case]) -> Vec<&'a str> {
    let mut modules = Vec::new();
    if cases.first().is_some_and(|case| case.disk.is_some()) {
        modules.extend(disk::LINUX_MODULES);
    }
    if cases.first().is_some_and(|case| case.share) {
        modules.extend(share::LINUX_MODULES);
    }
    for module in cases.iter().flat_map(|case| &case.modules) {
        if !modules.contains(&module.as_str()) {
            modules.push(module);
        }
    }
    modules
}

/// Puts the files of a case into the tree; returns the job that runs it.
fn job(project: &Project, arch: Arch, case: &Case, tree: &mut Initramfs) -> Result<Job> {
    let script = format!("/tests/{}.sh", case.name);
    tree.file(&script, &case.script)?;
    for name in &case.files {
        tree.file(&format!("/tests/{name}"), &case.script.with_file_name(name))?;
    }
    for name in &case.lmbench {
        tree.file(
            &format!("usr/bin/{name}"),
            &packages::lmbench(project, arch)?.join(name),
        )?;
    }
    for name in &case.programs {
        tree.file(
            &format!("usr/bin/{name}"),
            &toolchain::program(project, arch, name)?,
        )?;
    }
    for name in &case.compat_programs {
        tree.file(
            &format!("usr/bin/{name}"),
            &toolchain::compat_program(project, name)?,
        )?;
    }
    for name in &case.go {
        let source = case.script.with_file_name(format!("{name}.go"));
        tree.file(
            &format!("usr/bin/{name}"),
            &toolchain::go_program(project, arch, &source)?,
        )?;
    }
    if case.guest {
        vm::add_guest(project, tree)?;
    }
    let mut job = guest::job(["sh", &script]);
    job.directory = format!("/case/{}", case.name);
    tree.folder(&job.directory);
    if case.terminal {
        job.input = Input::Terminal {
            rows: 24,
            columns: 80,
            stderr: true,
        };
        job.environment.push(b"TERM=dumb".to_vec());
    }
    if let Some(stdin) = &case.stdin {
        let path = format!("/tests/{}.stdin", case.name);
        tree.file(&path, stdin)?;
        job.input = Input::File(path);
    }
    Ok(job)
}
