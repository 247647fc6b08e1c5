//! Times each crossing of the user-kernel boundary, on any Linux-compatible kernel.
//!
//!     crossings [--quick] [--batches N] [--settle MS] [--pause MS] [--cpus 0,1] [ROW…]
//!     crossings --list
//!     crossings --contend THREADS,READS
//!
//! `--contend` has 1, 2, 4 … threads read an ID register at once, each so often. `--cpus` measures on each CPU in turn, in a thread of its own, and then once more on each.
//!
//! One line a row: `name least median unit window`, where the figures are those of one operation, in
//! nanoseconds of the counter that user programs can read. Under QEMU's `-icount shift=0` a nanosecond is
//! an instruction. A row that cannot be measured says `name - - reason window`. Lines that start with `#`
//! say how the run was made; `# tag T ROW operations N` says by which tag the emulator's plugin knows the row,
//! and how many operations lie in the phases so marked (the batch that warms up among them).
//!
//! The program uses no libc and no thread-local storage: what it does between two readings of the counter
//! is what stands here. It can also be a kernel's init: it then takes its arguments from the file
//! `/crossings.arguments`, one a line, and powers the machine off when it is done.
#![no_std]
#![no_main]

mod arch;
mod arguments;
mod contend;
mod meter;
mod output;
mod region;
mod rows;
mod sys;
mod thread;
mod turns;

use arguments::{Arguments, Options};
use core::panic::PanicInfo;
use meter::{Meter, Outcome};
use rows::{ROWS, Row};

/// Where the architecture's `_start` arrives, with the stack as the kernel left it.
///
/// # Safety
/// `stack` points to what the Linux ABI puts there at `execve`: argc, argv, envp and the auxiliary vector.
unsafe extern "C" fn begin(stack: *const usize) -> ! {
    // SAFETY: passed on from our caller.
    let mut arguments = unsafe { Arguments::from_stack(stack) };
    if sys::getpid() != 1 {
        sys::exit_group(run(&arguments));
    }
    arguments.take_from_file();
    let status = run(&arguments);
    sys::power_off();
    sys::exit_group(status)
}

/// Does what the command line asks and returns the exit status.
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
    if let Some((threads, reads)) = options.contend {
        match contend::run(arguments, frequency, threads, reads) {
            Ok(()) => {}
            Err(Outcome::Absent) => output::line(format_args!("# no ID registers to read")),
            Err(Outcome::Failed(error)) => {
                output::line(format_args!("# contend: errno {}", error.0))
            }
        }
        output::line(format_args!("# done"));
        return 0;
    }
    let rows = |turn| measure_all(&options, arguments, frequency, turn);
    let cpus = options.cpus();
    let done = match cpus {
        None => {
            rows(0);
            Ok(())
        }
        Some(cpus) => turns::each(cpus.count(), &|cpu, turn| {
            if let Some(cpu) = options.cpus().and_then(|mut cpus| cpus.nth(cpu)) {
                pin(cpu);
                rows(turn);
            }
        }),
    };
    if let Err(error) = done {
        output::line(format_args!("# threads cannot be had: errno {}", error.0));
    }
    output::line(format_args!("# done"));
    arch::mark(arch::OVER);
    0
}

/// Keeps this thread on a CPU, and says so.
fn pin(cpu: usize) {
    match sys::pin(cpu) {
        Ok(()) => output::line(format_args!("# on CPU {cpu}")),
        Err(error) => {
            output::line(format_args!("# not on CPU {cpu}: errno {}", error.0));
        }
    }
}

/// Runs all rows that are wanted, with the tags of this turn.
fn measure_all(options: &Options, arguments: &Arguments, frequency: u64, turn: usize) {
    for (index, row) in ROWS.iter().enumerate() {
        if options.wants(row.name) {
            let tag = turn * rows::TAGS_A_TURN + index + 1;
            measure(row, Meter::new(options, arguments, frequency, tag));
            sys::sleep_ms(options.pause_ms);
        }
    }
}

/// Runs one row and prints its line.
fn measure(row: &Row, mut meter: Meter) {
    let Row { name, window, .. } = row;
    match (row.run)(&mut meter) {
        Ok(()) => {
            let (least, median) = meter.least_and_median();
            output::line(format_args!("{name} {least} {median} ns {window}"));
            let (tag, operations) = meter.marked();
            output::line(format_args!("# tag {tag} {name} operations {operations}"));
        }
        Err(Outcome::Absent) => output::line(format_args!("{name} - - absent {window}")),
        Err(Outcome::Failed(error)) => {
            output::line(format_args!("{name} - - errno-{} {window}", error.0));
        }
    }
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    output::line(format_args!("# {info}"));
    sys::exit_group(101)
}
