//! Stile's systems: the crossings that each affects, and its policies, the default first.

use anyhow::Result;

use super::subject::{self, Subject};
use crate::arch::Arch;
use crate::kernel_image::Kernel;

/// One system.
pub struct System {
    /// Its name, and that of its tables.
    pub name: &'static str,
    pub title: &'static str,
    /// The rows of programs/crossings that it affects; all if empty.
    pub rows: &'static [&'static str],
    /// The tables of counts that the terminal also shows.
    pub shown: &'static [&'static str],
    /// The settings of Stile that are compared.
    policies: &'static [&'static [&'static str]],
    /// The CPU models on which the other kernels are compared, as shipped, with a name for each. If
    /// empty, they are measured on the usual model, and stock ones also with lean parameters.
    cpus: &'static [(&'static str, &'static str)],
    /// The architecture that has it; None for both.
    arch: Option<Arch>,
}

/// All crossings, on the kernel with its settings.
pub const CROSSINGS: System = System {
    name: "crossings",
    title: "Crossings",
    rows: &[],
    shown: &[],
    policies: &[],
    cpus: &[],
    arch: None,
};

pub const ENTRY: System = System {
    name: "entry",
    title: "entry: dispatch of exceptions",
    rows: &[
        "null_call",
        "anon_read",
        "anon_write",
        "id_read",
        "signal_catch",
    ],
    shown: &["indirect"],
    policies: &[&["entry=svc-first"], &["entry=switch"], &["entry=table"]],
    cpus: &[],
    arch: Some(Arch::Arm64),
};

pub const IDREG: System = System {
    name: "idreg",
    title: "idreg: ID registers read by programs",
    rows: &["null_call", "id_read"],
    shown: &[],
    policies: &[&["idreg=direct"], &["idreg=locked"]],
    cpus: &[],
    arch: Some(Arch::Arm64),
};

pub const HWAF: System = System {
    name: "hwaf",
    title: "hwaf: does the hardware set the Access flag?",
    rows: &[
        "file_read",
        "file_written_read",
        "zero_to_private",
        "file_private_write",
        "file_private_write_after_read",
    ],
    shown: &["idregs"],
    policies: &[
        &["hwaf=cached"],
        &["hwaf=cached", "contpte=off"],
        &["hwaf=reread"],
    ],
    cpus: &[],
    arch: Some(Arch::Arm64),
};

pub const FENCE: System = System {
    name: "fence",
    title: "fence: sfence.vma after new mappings",
    rows: &[
        "anon_write",
        "anon_read",
        "zero_to_private",
        "table_growth",
        "munmap_page",
        "mprotect_page",
        "mmap_touch_munmap",
        "file_read",
        "file_write",
        "file_private_write",
        "fork_exit_wait",
        "thread_create_join",
    ],
    shown: &["fences"],
    policies: &[
        &["fence.kernel=lazy", "fence.user=auto"],
        &["fence.kernel=preventive", "fence.user=auto"],
        &["fence.kernel=lazy", "fence.user=preventive"],
        &["fence.kernel=preventive", "fence.user=preventive"],
    ],
    cpus: &[
        ("svvptc=off", "rv64,svvptc=off"),
        ("svvptc=on", "rv64,svvptc=on"),
    ],
    arch: Some(Arch::Riscv64),
};

pub const AFFINITY: System = System {
    name: "affinity",
    title: "affinity: interrupts between a guest's CPUs",
    rows: &[],
    shown: &[],
    policies: &[&["affinity=index"], &["affinity=scan"]],
    cpus: &[],
    arch: Some(Arch::Arm64),
};

impl System {
    /// Whether machines of this architecture have it.
    pub fn is_of(&self, arch: Arch) -> bool {
        self.arch.is_none_or(|only| only == arch)
    }

    /// Stile with each policy; the other kernels as they are, stock ones both as shipped and with
    /// lean parameters.
    pub fn subjects(
        &self,
        names: &[String],
        append: &[String],
        arch: Arch,
    ) -> Result<Vec<Subject>> {
        let mut subjects = Vec::new();
        for subject in subject::subjects(names, &[], append, arch)? {
            let stile = subject.kernel == Kernel::Stile;
            if stile && self.is_of(arch) && !self.policies.is_empty() {
                subjects.extend(self.policies.iter().map(|policy| Subject {
                    label: format!("stile {}", policy.join(" ")),
                    parameters: policy.iter().map(|word| word.to_string()).collect(),
                    ..subject.clone()
                }));
            } else if stile || self.cpus.is_empty() {
                subjects.push(subject);
            } else if !subject.is_lean() {
                subjects.extend(self.cpus.iter().map(|(name, cpu)| Subject {
                    label: format!("{} {name}", subject.label),
                    cpu: Some(cpu),
                    ..subject.clone()
                }));
            }
        }
        Ok(subjects)
    }
}
