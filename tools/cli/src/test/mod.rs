//! `stile test`: the mechanisms on the host, the kernel's units in QEMU, real programs in QEMU, and this command.

mod bench;
mod case;
mod command;
mod damage;
mod host;
mod kernel;
mod machines;
mod mutation;
mod programs;

use std::time::Instant;

use anyhow::Result;

use crate::kernel_image::Kernel;
use crate::options::TestOptions;
use crate::project::Project;

/// What came out so far, told as it comes.
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
        println!("FAILED {name}");
        for line in how.lines() {
            println!("    {line}");
        }
        self.failed.push(name.to_owned());
    }

    /// Runs a group of tests and tells how it went.
    fn group(&mut self, name: &str, tests: impl FnOnce(&mut Self) -> Result<()>) {
        let (passed, failed, start) = (self.passed, self.failed.len(), Instant::now());
        if let Err(error) = tests(self) {
            self.failed(name, &format!("{error:#}"));
        }
        let (passed, failed) = (self.passed - passed, self.failed.len() - failed);
        if passed + failed > 0 {
            println!(
                "{name}: {passed} passed, {failed} failed, {:.0} s",
                start.elapsed().as_secs_f64()
            );
        }
    }
}

/// Runs the tests that are asked for: status 0 where all passed, 1 where one failed.
pub fn test(project: &Project, options: &TestOptions) -> Result<u8> {
    let cases = case::all(project)?;
    if options.record {
        return programs::record(project, options, cases);
    }
    let mut report = Report {
        options,
        passed: 0,
        failed: Vec::new(),
    };
    let kernel = Kernel::from_option(&options.on);
    if kernel.is_stile() {
        report.group("host", |report| host::test(project, options, report));
    }
    for arch in options.arches() {
        if kernel.is_stile() {
            let name = format!("kernel {}", arch.debian());
            report.group(&name, |report| kernel::test(project, options, arch, report));
            let name = format!("damage {}", arch.debian());
            report.group(&name, |report| damage::test(project, options, arch, report));
        }
        for setting in machines::settings(options, arch) {
            let name = format!("programs/{}", setting.name);
            report.group(&name, |report| {
                programs::test(project, &kernel, options, &setting, &cases, report)
            });
        }
        if kernel.is_stile() {
            let name = format!("bench {}", arch.debian());
            report.group(&name, |report| bench::test(project, arch, report));
            let name = format!("command {}", arch.debian());
            report.group(&name, |report| command::test(project, arch, report));
        }
    }
    if kernel.is_stile() {
        report.group("bench", |report| bench::page(project, report));
    }
    for name in &report.failed {
        println!("failed: {name}");
    }
    println!("{} passed, {} failed", report.passed, report.failed.len());
    Ok(u8::from(!report.failed.is_empty()))
}
