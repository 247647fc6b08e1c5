//! The subject of a measurement: a kernel and its settings.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::{Bench, counted};
use crate::arch::Arch;
use crate::kernel_image::Kernel;
use crate::packages;
use crate::project::progress;
use crate::qemu::Qemu;
use crate::toolchain;

/// The parameters of a lean Linux: no mitigations, no kernel page-table isolation, no random offset
/// of the kernel stack.
const LEAN: [&str; 3] = ["mitigations=off", "kpti=off", "randomize_kstack_offset=off"];

/// A kernel with its settings.
#[derive(Clone)]
pub struct Subject {
    /// Its name in reports.
    pub label: String,
    pub kernel: Kernel,
    /// Its parameters, besides those that the machine needs.
    pub parameters: Vec<String>,
    /// The CPU model, if the measurement depends on it.
    pub cpu: Option<&'static str>,
}

/// The subjects that the options name. Stock kernels are measured as shipped and at their leanest.
pub fn subjects(
    names: &[String],
    settings: &[String],
    append: &[String],
    arch: Arch,
) -> Result<Vec<Subject>> {
    let default = ["stile", "linux-6.1", "linux-6.12"].map(String::from);
    let names = if names.is_empty() { &default } else { names };
    let mut subjects = Vec::new();
    for name in names {
        let kernel = Kernel::from_option(name);
        if let Kernel::Linux(version) = &kernel
            && !packages::has_linux(arch, version)
        {
            progress(&format!(
                "Debian has no {name} for {}: not measured",
                arch.debian()
            ));
            continue;
        }
        if let Kernel::File(path) = &kernel
            && !path.is_file()
        {
            bail!("{name}: no such file, nor linux-6.1, linux-6.12 or stile");
        }
        let parameters = match kernel {
            Kernel::Stile | Kernel::Selftest(_) => settings.to_vec(),
            Kernel::Linux(_) => Vec::new(),
            Kernel::File(_) => append.to_vec(),
        };
        let stock = matches!(kernel, Kernel::Linux(_));
        let label = match (&kernel, settings) {
            (Kernel::Stile, [_, ..]) => format!("stile {}", settings.join(" ")),
            _ => name.clone(),
        };
        subjects.push(Subject {
            label,
            kernel: kernel.clone(),
            parameters,
            cpu: None,
        });
        if stock {
            subjects.push(Subject::lean(kernel));
        }
    }
    Ok(subjects)
}

impl Subject {
    /// A stock kernel with lean parameters.
    pub fn lean(kernel: Kernel) -> Self {
        Self {
            label: format!("{kernel} lean"),
            kernel,
            parameters: LEAN.map(String::from).to_vec(),
            cpu: None,
        }
    }

    /// Whether the subject is a stock kernel with lean parameters.
    pub fn is_lean(&self) -> bool {
        matches!(self.kernel, Kernel::Linux(_)) && !self.parameters.is_empty()
    }

    /// Whether the subject is a stock kernel with all its mitigations.
    pub fn is_as_shipped(&self) -> bool {
        matches!(self.kernel, Kernel::Linux(_)) && self.parameters.is_empty()
    }

    /// A key over all inputs of a measurement, with `programs` besides programs/crossings: the same
    /// key gives the same figures.
    pub fn key(
        &self,
        bench: &Bench,
        arch: Arch,
        suite: &str,
        programs: &[PathBuf],
    ) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        (
            suite,
            arch.debian(),
            bench.cpu,
            self.cpu,
            bench.quick,
            bench.full,
            &self.parameters,
        )
            .hash(&mut hasher);
        Qemu::find(bench.project, arch)?.version.hash(&mut hasher);
        let image = self.kernel.image(bench.project, arch);
        let program = toolchain::bare_program(bench.project, arch, "crossings")?;
        let plugin = counted::plugin(bench.project)?;
        for file in image.iter().chain([&program, &plugin]).chain(programs) {
            std::fs::read(file)
                .with_context(|| file.display().to_string())?
                .hash(&mut hasher);
        }
        Ok(format!("{:016x}", hasher.finish()))
    }
}
