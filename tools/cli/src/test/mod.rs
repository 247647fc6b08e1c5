//! `stile test`: the mechanisms on the host, the kernel's units in QEMU, real programs in QEMU, and
//! this command.

mod bench;
mod case;
mod command;
mod damage;
mod disks;
mod host;
mod kernel;
mod lint;
mod lock_order;
mod machines;
mod masked;
mod mutation;
mod networks;
pub mod programs;
mod semihosting;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use self::case::Case;
pub use self::masked::masked;
use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::options::TestOptions;
use crate::project::Project;

/// The results so far, printed as they come.
pub struct Report<'a> {
    options: &'a TestOptions,
    passed: usize,
    failed: Vec<String>,
}

impl Report<'_> {
    /// Whether a test of this name was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.options.names.is_empty()
            || self
                .options
                .names
                .iter()
                .any(|part| name.contains(part.as_str()))
    }

    /// So many tests passed.
    pub fn passed(&mut self, number: usize) {
        self.passed += number;
    }

    /// A test failed; `how` is shown at once.
    pub fn failed(&mut self, name: &str, how: &str) {
        let how: String = how.lines().map(|line| format!("    {line}\n")).collect();
        show!("FAILED {name}\n{}", how.trim_end_matches('\n'));
        self.failed.push(name.to_owned());
    }

    /// Runs a group of tests and reports the result.
    fn group(&mut self, name: &str, tests: impl FnOnce(&mut Self) -> Result<()>) {
        let (passed, failed, start) = (self.passed, self.failed.len(), Instant::now());
        if let Err(error) = tests(self) {
            self.failed(name, &format!("{error:#}"));
        }
        let (passed, failed) = (self.passed - passed, self.failed.len() - failed);
        if passed + failed > 0 {
            show!(
                "{name}: {passed} passed, {failed} failed, {:.0} s",
                start.elapsed().as_secs_f64()
            );
        }
    }
}

/// Tests that must run one after the other, since they build into the same places.
type Lane<'a> = Box<dyn FnOnce(&mut Report) + Send + 'a>;

/// Runs the tests that are asked for, with one lane more at once than there are CPUs, as many tests
/// wait: status 0 where all passed, 1 where one failed.
pub fn test(project: &Project, options: &TestOptions) -> Result<u8> {
    let cases = case::all(project)?;
    if options.record {
        return programs::record(project, options, cases);
    }
    let kernel = &Kernel::from_option(&options.on);
    let cases = cases.as_slice();
    let mut lanes: Vec<Lane> = Vec::new();
    for arch in options.arches() {
        lanes.push(Box::new(move |report| {
            on_machines(project, kernel, options, arch, cases, report)
        }));
    }
    if kernel.is_stile() {
        lanes.push(Box::new(|report| {
            report.group("host", |report| host::test(project, options, report));
            report.group("lint", |report| lint::test(project, report));
            report.group("bench", |report| bench::page(project, report));
        }));
    }
    let (mut passed, mut failed) = (0, Vec::new());
    for report in run(options, lanes) {
        passed += report.passed;
        failed.extend(report.failed);
    }
    for name in &failed {
        show!("failed: {name}");
    }
    show!("{passed} passed, {} failed", failed.len());
    Ok(u8::from(!failed.is_empty()))
}

/// Runs the lanes in the order of their start: a report of each worker's.
fn run<'a>(options: &'a TestOptions, lanes: Vec<Lane>) -> Vec<Report<'a>> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let workers = (workers + 1).min(lanes.len());
    let lanes = Mutex::new(lanes.into_iter());
    let next = || lanes.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut report = Report {
            options,
            passed: 0,
            failed: Vec::new(),
        };
        while let Some(lane) = next() {
            lane(&mut report);
        }
        report
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let reports = workers.into_iter().map(|worker| worker.join());
        reports
            .map(|report| report.expect("a lane does not panic"))
            .collect()
    })
}

/// Runs the tests that need machines of an architecture.
fn on_machines(
    project: &Project,
    kernel: &Kernel,
    options: &TestOptions,
    arch: Arch,
    cases: &[Case],
    report: &mut Report,
) {
    let group = |name: &str| format!("{name} {}", arch.debian());
    if kernel.is_stile() {
        report.group(&group("kernel"), |report| {
            kernel::test(project, options, arch, report)
        });
        report.group(&group("damage"), |report| {
            damage::test(project, options, arch, report)
        });
    }
    for setting in machines::settings(options, arch) {
        let name = format!("programs/{}", setting.name);
        report.group(&name, |report| {
            let checked = setting.checked.then(|| project.checked());
            let project = checked.as_ref().unwrap_or(project);
            programs::test(project, kernel, options, &setting, cases, report)
        });
    }
    if kernel.is_stile() {
        report.group(&group("bench"), |report| bench::test(project, arch, report));
        report.group(&group("command"), |report| {
            command::test(project, arch, report)
        });
    }
}
