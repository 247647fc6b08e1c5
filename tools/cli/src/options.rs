//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::arch::Arch;
use crate::bench::{BenchOptions, CompareOptions, InspectOptions};
use crate::mutants::MutantsOptions;
use crate::network::Port;
use crate::qemu::Accel;
use crate::vm::VmOptions;

/// Runs Linux programs on the Stile kernel.
#[derive(Debug, Parser)]
#[command(name = "stile", disable_help_subcommand = true)]
pub struct Options {
    /// Download nothing
    #[arg(long, global = true)]
    pub offline: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The other subcommands with the option that `error` is about.
pub fn known_elsewhere(error: &clap::Error) -> Option<String> {
    let ContextValue::String(option) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let name = option.strip_prefix("--")?;
    let has = |command: &&clap::Command| {
        let mut arguments = command.get_arguments();
        arguments.any(|argument| argument.get_long() == Some(name))
    };
    let options = Options::command();
    let commands = options.get_subcommands().filter(has);
    let names: Vec<_> = commands
        .map(|command| format!("'stile {}'", command.get_name()))
        .collect();
    let is_unknown = error.kind() == ErrorKind::UnknownArgument && !names.is_empty();
    is_unknown.then(|| format!("{option} is an option of {}", names.join(", ")))
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a Linux program on Stile; without one a shell, or a short tour if there is no terminal
    Run(RunOptions),
    /// The same as run, but always interactive
    Shell(RunOptions),
    /// Run the tests: all of them, or those whose names contain one of the words
    Test(TestOptions),
    /// Break the kernel one line at a time, and see whether the tests notice
    Mutants(MutantsOptions),
    /// Measure the same work on several kernels, side by side
    Bench(BenchOptions),
    /// Run one program on several kernels, and compare the counts of its crossings and instructions
    Compare(CompareOptions),
    /// Show the path through a kernel, instruction by instruction, as it was executed
    Inspect(InspectOptions),
    /// Run a guest in a virtual machine, with /dev/kvm and our VMM; by default Debian's Linux with
    /// busybox
    Vm(VmOptions),
    /// Show what this machine has and what is missing
    Doctor,
}

/// The format in which `--count` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CountFormat {
    /// A table for people.
    Table,
    /// One JSON document.
    Json,
}

/// Options of `run` and `shell`.
#[derive(Args, Debug)]
pub struct RunOptions {
    /// Architecture of the machine; for a host file, it is read from the program
    #[arg(long, value_enum)]
    pub arch: Option<Arch>,
    /// CPU model, as QEMU names it
    #[arg(long, value_name = "MODEL")]
    pub cpu: Option<String>,
    /// Number of CPUs, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub smp: u32,
    /// Memory of the machine
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub memory: String,
    /// Choose a policy of the kernel; an unknown one lists all policies
    #[arg(long, value_name = "POLICY=VALUE")]
    pub set: Vec<String>,
    /// Parameters for the kernel's command line
    #[arg(long, value_name = "PARAMS", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// Put a host file or folder into the guest, by default into /host, where programs start
    #[arg(long, value_name = "HOST[:GUEST]")]
    pub copy: Vec<String>,
    /// Put a Debian package and its dependencies into the guest; NAME:armhf is one for 32-bit Arm
    #[arg(long, value_name = "NAME")]
    pub package: Vec<String>,
    /// Give the machine a disk: a raw image, or one in QEMU's own format if its name ends in
    /// .qcow2; with ,ro the machine cannot write to it
    #[arg(long, value_name = "FILE[,ro]")]
    pub disk: Vec<String>,
    /// Start from the ext4 or EROFS in an image, which is the first disk; programs are those on it,
    /// and what they write to an ext4 stays there, but for ,ro
    #[arg(long, value_name = "FILE[,ro]", conflicts_with_all = ["copy", "package"])]
    pub root: Option<String>,
    /// Run a container image: an OCI image layout (a folder or a tar archive) or what docker save
    /// writes; NAME chooses one of several
    #[arg(long, value_name = "IMAGE[:NAME]", conflicts_with_all = ["copy", "package", "root"])]
    pub image: Option<String>,
    /// With --image: the program in place of the image's entry point
    #[arg(long, value_name = "PROGRAM", requires = "image")]
    pub entrypoint: Option<OsString>,
    /// With --image: keep what is written on a disk of this name in the cache, for later runs
    #[arg(long, value_name = "NAME", requires = "image")]
    pub keep: Option<String>,
    /// Give the guest a folder of this machine without a copy, by default in /host; with ,ro the
    /// machine cannot write to it
    #[arg(long, value_name = "DIR[:GUEST][,ro]")]
    pub share: Vec<String>,
    /// Give the machine a network card, through which it reaches this machine and the network
    #[arg(long)]
    pub net: bool,
    /// Forward a port of this machine's loopback address to the guest; with /udp for datagrams
    #[arg(long, value_name = "HOST:GUEST", requires = "net")]
    pub port: Vec<Port>,
    /// After the program, print the crossings it made on stderr
    #[arg(long, value_enum, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    pub count: Option<CountFormat>,
    /// Print system calls on stderr as they are made
    #[arg(long)]
    pub trace: bool,
    /// Count instructions as the machine's time, so that two runs print the same
    #[arg(long)]
    pub icount: bool,
    /// The accelerator that executes the machine's instructions
    #[arg(long, value_enum, default_value = "auto")]
    pub accel: Accel,
    /// End the machine after this time, with status 124
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Wait for a debugger
    #[arg(long)]
    pub gdb: bool,
    /// Write the kernel's log to this file
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// More options for QEMU
    #[arg(long, value_name = "OPTS", allow_hyphen_values = true)]
    pub qemu_opts: Vec<String>,
    /// Print QEMU's command line and exit
    #[arg(long)]
    pub dry_run: bool,
    /// Boot another kernel: linux-6.12, linux-6.1 (Debian's), or a file
    #[arg(long, value_name = "KERNEL", default_value = "stile")]
    pub on: String,
    /// The program and its arguments: with a slash a host file, otherwise a program of the guest
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Options of `test`.
#[derive(Args, Debug)]
pub struct TestOptions {
    /// Parts of names; a test is run if its name contains one of them
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Only machines of this architecture
    #[arg(long, value_enum)]
    pub arch: Option<Arch>,
    /// Run the programs on another kernel: linux-6.12, linux-6.1 (Debian's), or a file
    #[arg(long, value_name = "KERNEL", default_value = "stile")]
    pub on: String,
    /// Only one machine of each architecture, and less damaged input
    #[arg(long, conflicts_with = "long")]
    pub quick: bool,
    /// Also the slow tests
    #[arg(long)]
    pub long: bool,
    /// With a kernel that checks its assertions and overflows
    #[arg(long)]
    pub debug: bool,
    /// Run the programs on Linux 6.12, and store their output as the expected one
    #[arg(long)]
    pub record: bool,
}

impl TestOptions {
    /// The architectures that were requested.
    pub fn arches(&self) -> impl Iterator<Item = Arch> {
        let asked = self.arch;
        [Arch::Arm64, Arch::Riscv64]
            .into_iter()
            .filter(move |arch| asked.is_none_or(|asked| asked == *arch))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Options, known_elsewhere};

    fn refused(words: &str) -> clap::Error {
        Options::try_parse_from(words.split(' ')).unwrap_err()
    }

    #[test]
    fn an_unknown_option_is_no_program() {
        let error = refused("stile run --drive x -- sh");
        assert!(error.to_string().contains("unexpected argument '--drive'"));
        let error = refused("stile run --memroy 1G -- sh");
        assert!(error.to_string().contains("'--memory'"), "{error}");
        let error = refused("stile run --guest-kernel x -- sh");
        let elsewhere = known_elsewhere(&error);
        assert_eq!(
            elsewhere.as_deref(),
            Some("--guest-kernel is an option of 'stile vm'")
        );
    }
}
