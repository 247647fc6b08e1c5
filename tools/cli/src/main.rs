//! The `stile` command: builds the kernel, boots it in QEMU with a program, and passes its input
//! and output through.

/// Prints a line for the user on standard error. If nobody reads it, it is lost, which is not a
/// failure.
macro_rules! tell {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        _ = writeln!(std::io::stderr(), $($what)*);
    }};
}

/// Prints a line for the user on standard output.
macro_rules! show {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        _ = writeln!(std::io::stdout(), $($what)*);
    }};
}

mod arch;
mod bench;
mod configure;
mod console;
mod counts;
mod debian;
mod disk;
mod doctor;
mod elf;
mod guest;
mod host_programs;
mod image;
mod initramfs;
mod kernel_image;
mod mutants;
mod network;
mod options;
mod packages;
mod policies;
mod project;
mod qemu;
mod run;
mod session;
mod share;
mod symbols;
mod terminal;
mod test;
mod toolchain;
mod vm;

use std::process::ExitCode;

use clap::Parser;

use options::{Command, Options};

/// The exit status of a failure of Stile itself.
const FAILURE: u8 = 125;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let _ = error.print();
            if let Some(hint) = options::known_elsewhere(&error) {
                tell!("  tip: {hint}");
            }
            return ExitCode::from(if error.use_stderr() { FAILURE } else { 0 });
        }
    };
    match dispatch(options) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            tell!("stile: {error:#}");
            ExitCode::from(FAILURE)
        }
    }
}

fn dispatch(options: Options) -> anyhow::Result<u8> {
    let project = project::Project::open(options.offline)?;
    match options.command {
        Command::Run(options) => run::run(&project, &options),
        Command::Shell(options) => run::shell(&project, &options),
        Command::Test(options) if options.debug => test::test(&project.checked(), &options),
        Command::Test(options) => test::test(&project, &options),
        Command::Bench(options) => bench::bench(&project, &options),
        Command::Compare(options) => bench::compare(&project, &options),
        Command::Inspect(options) => bench::inspect(&project, &options),
        Command::Mutants(options) => mutants::mutants(&project, &options),
        Command::Vm(options) => vm::vm(&project, &options),
        Command::Doctor => doctor::doctor(&project),
    }
}
