//! `stile test`: the mechanism crates on the host, the kernel's units in QEMU, real programs in
//! QEMU, and this command.

mod bench;
mod calls;
mod case;
mod command;
mod damage;
mod disks;
mod host;
mod images;
mod kernel;
mod lint;
mod lock_order;
mod machines;
mod masked;
mod mutation;
mod networks;
pub mod programs;
mod semihosting;
mod shares;
mod stack;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use self::machines::Setting;
pub use self::masked::masked;
pub use self::stack::stack;
use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::options::TestOptions;
use crate::project::Project;

/// The results so far, printed as they arrive.
pub struct Report<'a> {
    options: &'a TestOptions,
    passed: usize,
    failed: Vec<String>,
}

impl Report<'_> {
    /// Whether a test of this name was requested.
    pub fn wants(&self, name: &str) -> bool {
        self.options.names.is_empty()
            || self
                .options
                .names
                .iter()
                .any(|part| name.contains(part.as_str()))
    }

    /// Records that `number` tests passed.
    pub fn passed(&mut self, number: usize) {
        self.passed += number;
    }

    /// Records that a test failed; `how` is shown at once.
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

/// Tests that run one after another: those of a machine, or those that build into the same places.
type Lane<'a> = Box<dyn FnOnce(&mut Report) + Send + 'a>;

/// Runs the requested tests, with one more lane at once than there are CPUs, since many tests wait.
/// Status 0 if all passed, 1 if one failed.
pub fn test(project: &Project, options: &TestOptions) -> Result<u8> {
    let cases = case::all(project)?;
    if options.record {
        return programs::record(project, options, cases);
    }
    let kernel = &Kernel::from_option(&options.on);
    let cases = cases.as_slice();
    let settings = || {
        let arches = options.arches();
        arches.flat_map(|arch| machines::settings(options, arch))
    };
    // Long lanes come first, so that none is left alone at the end.
    let (whole, few): (Vec<_>, Vec<_>) = settings().partition(Setting::runs_all);
    let mut lanes: Vec<Lane> = Vec::new();
    let programs = |setting: Setting| -> Lane {
        Box::new(move |report| {
            let project = &project_for(project, &setting);
            report.group(&format!("programs/{}", setting.name), |report| {
                programs::test(project, kernel, options, &setting, cases, report)
            });
        })
    };
    lanes.extend(whole.into_iter().map(programs));
    if kernel.is_stile() {
        lanes.push(Box::new(|report| {
            report.group("host", |report| host::test(project, options, report));
            report.group("lint", |report| lint::test(project, report));
            report.group("bench", |report| bench::page(project, report));
        }));
        for arch in options.arches() {
            lanes.extend(of_command(project, options, arch));
        }
        lanes.extend(settings().map(|setting| of_kernel(project, setting)));
    }
    lanes.extend(few.into_iter().map(programs));
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

/// The project that builds a machine's kernel.
fn project_for(project: &Project, setting: &Setting) -> Project {
    match setting.checked {
        true => project.checked(),
        false => project.clone(),
    }
}

/// The tests of the command's ways to boot an architecture, and of its kernel's calls.
fn of_command<'a>(project: &'a Project, options: &'a TestOptions, arch: Arch) -> [Lane<'a>; 4] {
    let name = move |what: &str| format!("{what} {}", arch.debian());
    [
        Box::new(move |report| {
            report.group(&name("command"), |report| {
                command::test(project, arch, report)
            })
        }),
        Box::new(move |report| {
            report.group(&name("damage"), |report| {
                damage::test(project, options, arch, report)
            })
        }),
        Box::new(move |report| {
            report.group(&name("bench"), |report| bench::test(project, arch, report))
        }),
        Box::new(move |report| {
            report.group(&name("calls"), |report| calls::test(project, arch, report))
        }),
    ]
}

/// The kernel's own tests on a machine.
fn of_kernel(project: &Project, setting: Setting) -> Lane<'_> {
    Box::new(move |report| {
        let project = &project_for(project, &setting);
        report.group(&format!("kernel/{}", setting.name), |report| {
            kernel::test(project, &setting, report)
        });
    })
}

/// Runs the lanes in the order of their start; returns a report for each worker.
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
