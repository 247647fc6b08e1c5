//! `stile inspect`: looks into any kernel while it executes one of the crossings.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::{Bench, inspect_entry, inspect_lines, interrupt};
use crate::arch::Arch;
use crate::project::Project;

/// What can be inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The path through the kernel from entry to return, instruction by instruction
    Entry,
    /// The cache lines that one CPU writes and another accesses when both do the same
    Lines,
}

/// Options of `inspect`.
#[derive(Args, Debug)]
pub struct InspectOptions {
    /// What to inspect
    #[arg(value_enum)]
    what: What,
    /// The row of programs/crossings to inspect
    #[arg(default_value = "null_call")]
    pub row: String,
    /// Architecture of the machine
    #[arg(long, value_enum, default_value = "arm64")]
    pub arch: Arch,
    /// With `entry`, on arm64: null_call, anon_read or anon_write of a 32-bit program
    #[arg(long)]
    pub compat: bool,
    /// CPU model, as QEMU names it
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,
    /// A kernel: stile (for the path with each policy of entry), linux-6.12, linux-6.1 (Debian's),
    /// or a file
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Vec<String>,
    /// Parameters for the command lines of kernels given as files
    #[arg(long, value_name = "PARAMS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Print figures and instructions as JSON
    #[arg(long)]
    pub json: bool,
}

/// Inspects the subject of the options.
pub fn inspect(project: &Project, options: &InspectOptions) -> Result<u8> {
    interrupt::prepare()?;
    let bench = Bench {
        project,
        quick: true,
        full: false,
        cpu: options.cpu.as_deref(),
        rows: &[],
    };
    match options.what {
        What::Entry => inspect_entry::show(&bench, options),
        What::Lines => inspect_lines::show(&bench, options),
    }
}
