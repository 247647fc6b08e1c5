//! The command line of `bench`, and what it can measure.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::systems::{self, System};
use crate::arch::Arch;

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
    /// Exits of guests and their interrupts, by the number of virtual CPUs, under each policy
    /// (arm64)
    Affinity,
    /// What page faults of guests cost: exits, and instructions of their kernels and of the host's
    /// (arm64; not one of `all`)
    Guests,
    /// Operations in processes of 1 to 64 threads, each on a CPU of its own
    Scale,
    /// lmbench's own programs: the second opinion
    Lmbench,
    /// From power-on to the first program
    Boot,
    /// All of these that are not said to be left out
    All,
}

impl Suite {
    /// The suites of `all`, in order.
    pub const EACH: [Self; 9] = [
        Self::Crossings,
        Self::Entry,
        Self::Idreg,
        Self::Hwaf,
        Self::Fence,
        Self::Affinity,
        Self::Scale,
        Self::Lmbench,
        Self::Boot,
    ];

    /// The system whose crossings the suite measures, if it does.
    pub fn system(self) -> Option<&'static System> {
        match self {
            Self::Crossings => Some(&systems::CROSSINGS),
            Self::Entry => Some(&systems::ENTRY),
            Self::Idreg => Some(&systems::IDREG),
            Self::Hwaf => Some(&systems::HWAF),
            Self::Fence => Some(&systems::FENCE),
            Self::Affinity => Some(&systems::AFFINITY),
            Self::Guests | Self::Scale | Self::Lmbench | Self::Boot | Self::All => None,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crossings => "crossings",
            Self::Entry => "entry",
            Self::Idreg => "idreg",
            Self::Hwaf => "hwaf",
            Self::Fence => "fence",
            Self::Affinity => "affinity",
            Self::Guests => "guests",
            Self::Scale => "scale",
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
    pub action: Option<Action>,
    /// What to measure
    #[arg(value_enum, default_value = "crossings")]
    pub suites: Vec<Suite>,
    /// Architecture of the machine
    #[arg(long, value_enum, default_value = "arm64")]
    pub arch: Vec<Arch>,
    /// CPU model, as QEMU names it
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,
    /// Choose a policy of Stile; an unknown one lists those there are
    #[arg(long, value_name = "POLICY=VALUE")]
    pub set: Vec<String>,
    /// A kernel: stile, linux-6.12, linux-6.1 (Debian's), or a file; by default these three
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Vec<String>,
    /// Parameters for the command lines of kernels given as files
    #[arg(long, value_name = "PARAMS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Fewer batches and no second run for the shared lines
    #[arg(long)]
    pub quick: bool,
    /// idreg's contention with up to 64 threads that read 1,000,000 times each, for however many
    /// hours that takes
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Do only part I of N
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<(usize, usize)>,
    /// How many machines run at once; by default one a processor, up to 8
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Where results and report go
    #[arg(long, value_name = "DIR", default_value = "out/bench")]
    pub out: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the report to docs/results.md too
    #[arg(long)]
    pub results: bool,
}

/// What `bench` does besides measuring.
#[derive(Debug, Subcommand)]
pub enum Action {
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
    /// For how many instructions the kernel lets no interrupt in, while the test programs run
    Masked {
        /// Architecture of the machine
        #[arg(long, value_enum, default_value = "arm64")]
        arch: Arch,
        /// Only the tests whose names contain one of these
        names: Vec<String>,
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
