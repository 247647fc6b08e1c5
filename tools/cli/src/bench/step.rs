//! A step of a campaign: one suite on one kernel of one architecture.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::options::{BenchOptions, Suite};
use super::result::{Column, Head};
use super::subject::{self, Subject};
use super::{
    Bench, affinity, boot, crossings, entry_build, entry_compat, fence_programs, guests,
    idreg_threads, inspect_entry, interrupt, lmbench, reach, scale, sizes, unequal,
};
use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::project::progress;
use crate::{toolchain, vm};

/// One suite on one kernel.
pub struct Step {
    suite: Suite,
    arch: Arch,
    subject: Subject,
}

impl Step {
    /// All steps of a campaign, or of one part of it.
    pub fn all(options: &BenchOptions) -> Result<Vec<Self>> {
        let named = options.suites();
        let suites = match named.contains(&Suite::All) {
            true => &Suite::EACH[..],
            false => &named,
        };
        let mut steps = Vec::new();
        for &suite in suites {
            for &arch in &options.arch {
                let (kernels, append) = (&options.kernel, &options.append);
                if suite == Suite::Guests && arch != Arch::Arm64 {
                    continue;
                }
                let mut subjects = match suite.system().filter(|_| suite != Suite::Crossings) {
                    Some(system) if !system.is_of(arch) => continue,
                    Some(system) => system.subjects(kernels, append, arch)?,
                    None => subject::subjects(kernels, &options.set, append, arch)?,
                };
                // The host's mitigations are a small part of the cost of a guest's exits.
                subjects.retain(|subject| suite != Suite::Guests || !subject.is_lean());
                // Mitigations hardly affect how the cost grows with the size, and the suite takes
                // long.
                subjects.retain(|subject| suite != Suite::Sizes || !subject.is_as_shipped());
                steps.extend(subjects.into_iter().map(|subject| Self {
                    suite,
                    arch,
                    subject,
                }));
            }
        }
        let (part, of) = options.shard.unwrap_or((1, 1));
        Ok(steps.into_iter().skip(part - 1).step_by(of).collect())
    }

    /// Its name in reports.
    pub fn name(&self) -> String {
        let Self {
            suite,
            arch,
            subject,
        } = self;
        format!("{} on {} ({})", suite.name(), subject.label, arch.debian())
    }

    /// The file of its results; a reduced run does not overwrite the results of a full one.
    pub fn file(&self, out: &Path, bench: &Bench) -> PathBuf {
        let plain = |letter: char| match letter {
            '.' => letter,
            _ if letter.is_ascii_alphanumeric() => letter,
            _ => '-',
        };
        let label: String = self.subject.label.chars().map(plain).collect();
        let (suite, arch) = (self.suite.name(), self.arch.debian());
        let quick = if bench.quick { "-quick" } else { "" };
        let rows: String = bench.rows.iter().map(|row| format!("-{row}")).collect();
        out.join(format!("{suite}-{arch}-{label}{quick}{rows}.json"))
    }

    /// A key over everything that affects its figures.
    pub fn key(&self, bench: &Bench) -> Result<String> {
        let programs: &[&str] = match self.suite {
            Suite::Affinity | Suite::Guests => &["init", "vmm"],
            Suite::Fence => &["init", "mmap-loop", "mmapstress"],
            Suite::Hwaf => &["init", "reach"],
            Suite::Entry | Suite::Idreg | Suite::Lmbench => &["init"],
            Suite::Sizes => &["init", "sizes"],
            _ => &[],
        };
        let mut files = Vec::new();
        for name in programs {
            files.push(toolchain::program(bench.project, self.arch, name)?);
        }
        match self.suite {
            Suite::Affinity => files.push(vm::system::bench(bench.project)?),
            Suite::Guests => files.push(Kernel::Stile.image(bench.project, self.arch)?),
            Suite::Entry | Suite::Idreg => {
                files.push(toolchain::compat_program(bench.project, "calls32")?)
            }
            _ => {}
        }
        let suite = [&[self.suite.name().to_owned()], bench.rows]
            .concat()
            .join(" ");
        self.subject.key(bench, self.arch, &suite, &files)
    }

    /// Measures the step. The columns name the kernel; if something could not be measured, they
    /// have the reason, and the result is not final. An error only means that the user has ended
    /// the campaign.
    pub fn measure(&self, bench: &Bench) -> Result<Measured> {
        let measured = self.suite_columns(bench);
        interrupt::check()?;
        let mut columns = match measured {
            Ok(columns) => columns,
            Err(error) => {
                progress(&format!("{}: {error:#}", self.name()));
                let failed = Column::measured(self.failed(), &self.subject.label, |_| Err(error));
                return Ok(Measured {
                    columns: vec![failed],
                    is_final: false,
                });
            }
        };
        if let Some(banner) = self.subject.kernel.banner(bench.project, self.arch)? {
            for column in &mut columns {
                column.kernel.clone_from(&banner);
            }
        }
        Ok(Measured {
            columns,
            is_final: true,
        })
    }

    fn suite_columns(&self, bench: &Bench) -> Result<Vec<Column>> {
        let (arch, subject) = (self.arch, &self.subject);
        let mut columns = match (self.suite, self.suite.system()) {
            (Suite::Affinity, _) => affinity::measure(bench, subject)?,
            (Suite::Guests, _) => guests::measure(bench, subject)?,
            (Suite::Scale, _) => scale::measure(bench, arch, subject)?,
            (Suite::Sizes, _) => sizes::measure(bench, arch, subject)?,
            (_, Some(system)) => crossings::measure(bench, system, arch, subject)?,
            _ => Vec::new(),
        };
        match self.suite {
            Suite::Lmbench => columns.push(lmbench::measure(bench, arch, subject)),
            Suite::Boot => {
                columns.push(boot::measure(bench, arch, subject)?);
                columns.push(unequal::measure(bench, arch, subject));
            }
            Suite::Entry => {
                columns.extend(inspect_entry::measure(bench, arch, subject)?);
                columns.push(entry_compat::measure(bench, subject));
                columns.push(entry_build::measure(bench, arch, subject));
            }
            Suite::Idreg => {
                columns.extend(scale::id_reads(bench, arch, subject)?);
                columns.extend(idreg_threads::measure(bench, arch, subject)?);
                columns.push(entry_compat::undefined(bench, subject));
            }
            Suite::Fence => columns.push(fence_programs::measure(bench, arch, subject)),
            Suite::Hwaf => columns.extend(reach::measure(bench, arch, subject)),
            _ => {}
        }
        Ok(columns)
    }

    /// The table of failed measurements.
    fn failed(&self) -> Head {
        let (suite, arch) = (self.suite.name(), self.arch.debian());
        Head {
            id: format!("{suite}-{arch}-failed"),
            title: format!("{suite}, {arch}: not measured"),
            unit: "why".into(),
            note: "The same command tries again.".into(),
            ratios: false,
            mean: false,
            ..Head::default()
        }
    }
}

/// The result of a step.
pub struct Measured {
    pub columns: Vec<Column>,
    /// Whether the figures are complete, so that the step need not be repeated.
    pub is_final: bool,
}
