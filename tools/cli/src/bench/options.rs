//! The command line of `bench`, and what it can measure.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Args, Command, Subcommand, ValueEnum};

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
    /// The cost of page faults of guests: exits, and instructions of the guest's kernel and the
    /// host's (arm64; not part of `all`)
    Guests,
    /// Operations in processes of 1 to 64 threads, each on a CPU of its own
    Scale,
    /// Operations among 1 to 10,000 objects, and transfers of 1 byte to 64 MiB; its rows can be
    /// named after it (not part of `all`)
    Sizes,
    /// lmbench's own programs, as a second opinion
    Lmbench,
    /// From power-on to the first program
    Boot,
    /// All suites, except for those marked as not part of it
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

    /// The system whose crossings the suite measures, if any.
    pub fn system(self) -> Option<&'static System> {
        match self {
            Self::Crossings => Some(&systems::CROSSINGS),
            Self::Entry => Some(&systems::ENTRY),
            Self::Idreg => Some(&systems::IDREG),
            Self::Hwaf => Some(&systems::HWAF),
            Self::Fence => Some(&systems::FENCE),
            Self::Affinity => Some(&systems::AFFINITY),
            Self::Guests | Self::Scale | Self::Sizes | Self::Lmbench | Self::Boot | Self::All => {
                None
            }
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
            Self::Sizes => "sizes",
            Self::Lmbench => "lmbench",
            Self::Boot => "boot",
            Self::All => "all",
        }
    }
}

/// A suite, or a row of `sizes`.
#[derive(Clone, Debug)]
pub enum Word {
    Suite(Suite),
    Row(String),
}

/// Parses suites, which it lists in help texts, and other words.
#[derive(Clone)]
struct WordParser;

impl TypedValueParser for WordParser {
    type Value = Word;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Word, clap::Error> {
        let suites = EnumValueParser::<Suite>::new();
        let suite = suites.parse_ref(command, argument, value);
        match value.to_str() {
            Some(text) if suite.is_err() => Ok(Word::Row(text.into())),
            _ => suite.map(Word::Suite),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = Suite::value_variants().iter();
        Some(Box::new(values.filter_map(Suite::to_possible_value)))
    }
}

impl BenchOptions {
    /// The suites that were named.
    pub fn suites(&self) -> Vec<Suite> {
        let suite = |word: &Word| match word {
            Word::Suite(suite) => Some(*suite),
            Word::Row(_) => None,
        };
        self.words.iter().filter_map(suite).collect()
    }

    /// The rows of `sizes` that were named; empty means all.
    pub fn rows(&self) -> Result<Vec<String>> {
        let row = |word: &Word| match word {
            Word::Suite(_) => None,
            Word::Row(row) => Some(row.clone()),
        };
        let rows: Vec<_> = self.words.iter().filter_map(row).collect();
        if let [word, ..] = &rows[..]
            && self.suites() != [Suite::Sizes]
        {
            bail!("{word}: no suite; rows are named after the suite `sizes`");
        }
        Ok(rows)
    }
}

/// Options of `bench`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchOptions {
    /// Something other than measuring
    #[command(subcommand)]
    pub action: Option<Action>,
    /// What to measure: suites, or `sizes` and some of its rows
    #[arg(value_name = "SUITE", default_value = "crossings", value_parser = WordParser)]
    pub words: Vec<Word>,
    /// Architecture of the machine
    #[arg(long, value_enum, default_value = "arm64")]
    pub arch: Vec<Arch>,
    /// CPU model, as QEMU names it
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,
    /// Choose a policy of Stile; an unknown one lists all policies
    #[arg(long, value_name = "POLICY=VALUE")]
    pub set: Vec<String>,
    /// A kernel: stile, linux-6.12, linux-6.1 (Debian's), or a file; the default is these three
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Vec<String>,
    /// Parameters for the command lines of kernels given as files
    #[arg(long, value_name = "PARAMS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Fewer batches and no second run for the shared lines
    #[arg(long)]
    pub quick: bool,
    /// For idreg, use up to 64 threads that read 1,000,000 times each, which may take hours
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Do only part I of N
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<(usize, usize)>,
    /// The number of machines that run at once; by default one per processor, up to 8
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// The folder for results and report
    #[arg(long, value_name = "DIR", default_value = "out/bench")]
    pub out: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Also write the report to docs/results.md
    #[arg(long)]
    pub results: bool,
}

/// What `bench` can do besides measuring.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Combine the results in several folders in one report
    Merge {
        /// The folder for the report
        #[arg(long, value_name = "DIR", default_value = "out/bench")]
        out: PathBuf,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
        /// The folders of the parts
        #[arg(required = true)]
        from: Vec<PathBuf>,
    },
    /// Measure for how many instructions the kernel masks interrupts while the test programs run
    Masked {
        /// Architecture of the machine
        #[arg(long, value_enum, default_value = "arm64")]
        arch: Arch,
        /// Only the tests whose names contain one of these
        names: Vec<String>,
    },
    /// Measure how deep the kernel's stacks become in each system call while the test programs run
    Stack {
        /// Architecture of the machine
        #[arg(long, value_enum, default_value = "arm64")]
        arch: Arch,
        /// Only the tests whose names contain one of these
        names: Vec<String>,
    },
}

/// Parses `I/N`, both of which start at 1.
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
