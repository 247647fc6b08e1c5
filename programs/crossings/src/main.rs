//! Times each crossing of the user-kernel boundary, on any Linux-compatible kernel.
//!
//!     crossings [--quick] [--batches N] [--settle MS] [--pause MS] [--threads 1,2,4] [ROW…]
//!     crossings --list
//!     crossings --contend THREADS,READS,MS
//!
//! `--contend` makes THREADS threads read an ID register at once, each for READS reads or MS
//! milliseconds. `--threads` measures in processes with so many threads, each on a CPU of its own.
//!
//! It prints one line per row: `name least median unit window`, where the figures are for one
//! operation, in nanoseconds of the counter that user programs can read. Under QEMU's `-icount
//! shift=0` a nanosecond is an instruction. The line of a row that cannot be measured is `name - -
//! reason window`. Lines that start with `#` describe the run; `# tag T ROW operations N` gives the
//! tag by which QEMU's plugin identifies the row, and the number of operations in the phases with
//! that tag (including the warm-up batch).
//!
//! The program uses no libc and no thread-local storage, so only the code here runs between two
//! reads of the counter. It can also be a kernel's init: it then takes its arguments from the file
//! `/crossings.arguments`, one per line, and powers the machine off at the end.
#![no_std]
#![no_main]

mod arch;
mod arguments;
mod contend;
mod measure;
mod meter;
mod output;
mod region;
mod rows;
mod several;
mod sys;
mod thread;
mod turns;

use arguments::{Arguments, Options};
use core::panic::PanicInfo;
use measure::Run;
use meter::Outcome;
use rows::ROWS;

/// The entry from the architecture's `_start`, with the stack as the kernel left it.
///
/// # Safety
/// `stack` points to the data that the Linux ABI puts there at `execve`: argc, argv, envp and the
/// auxiliary vector.
unsafe extern "C" fn begin(stack: *const usize) -> ! {
    // The boot ends here, and the program begins.
    arch::mark(0);
    // SAFETY: as our caller guarantees.
    let mut arguments = unsafe { Arguments::from_stack(stack) };
    if sys::getpid() != 1 {
        sys::exit_group(run(&arguments));
    }
    arguments.take_from_file();
    let status = run(&arguments);
    sys::power_off();
    sys::exit_group(status)
}

/// Executes the command line and returns the exit status.
fn run(arguments: &Arguments) -> i32 {
    if arguments.get(1) == Some(rows::EXIT) {
        return 0;
    }
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(word) => {
            output::line(format_args!("# not understood: {word}"));
            return 2;
        }
    };
    if options.list {
        for row in ROWS {
            output::line(format_args!("{} {}", row.name, row.window));
        }
        return 0;
    }
    let frequency = arch::frequency();
    output::line(format_args!(
        "# crossings {} {} counter {frequency} Hz batches {}",
        env!("CARGO_PKG_VERSION"),
        arch::NAME,
        options.batches
    ));
    let names = sys::uname();
    let [system, release, version] = [0, 2, 3].map(|field| names.field(field));
    output::line(format_args!("# kernel {system} {release} {version}"));
    sys::sleep_ms(options.settle_ms);
    if let Some(contest) = &options.contend {
        match contend::run(arguments, frequency, contest) {
            Ok(()) => {}
            Err(Outcome::Absent) => output::line(format_args!("# no ID registers to read")),
            Err(Outcome::Failed(error)) => {
                output::line(format_args!("# contend: errno {}", error.0))
            }
        }
        output::line(format_args!("# done"));
        return 0;
    }
    let run = Run {
        options: &options,
        arguments,
        frequency,
    };
    let mut numbers = options.threads().peekable();
    if numbers.peek().is_none() {
        run.rows(1);
    }
    let tags = several::MEASURING * options.wanted();
    for (threads, place) in numbers.zip(0..) {
        several::measure(&run, threads, 1 + place * tags);
    }
    output::line(format_args!("# done"));
    arch::mark(arch::OVER);
    0
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    output::line(format_args!("# {info}"));
    sys::exit_group(101)
}
