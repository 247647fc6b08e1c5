//! Calls whose allocations fail, one after the other: `/proc/thread-self/fail-nth`, where the
//! kernel has it. Each call either succeeds or returns an error that says why; it leaves nothing
//! behind then, and succeeds afterwards. Kernels without it make each call once.

mod events;
mod files;
mod ipc;
mod memory;
mod processes;
mod sockets;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use libc::{c_int, c_long};

/// The most allocations of a call.
const MOST: u32 = 3000;
/// How often memory must grow to be a leak: caches grow for a while, and what processes had is
/// freed late.
const LEAKS: u32 = 8;

/// Runs this part: calls whose names begin with `only`, or all.
pub fn run(only: Option<&str>) {
    let starved = Starved::new(only.unwrap_or_default());
    // SAFETY: every pointer passed is to a live value of the right type, and children only do what
    // is written there.
    unsafe {
        files::run(&starved);
        events::run(&starved);
        memory::run(&starved);
        ipc::run(&starved);
        sockets::run(&starved);
        processes::run(&starved);
    }
}

/// Makes calls whose allocations fail.
pub struct Starved {
    only: String,
    fail_nth: Option<File>,
}

impl Starved {
    fn new(only: &str) -> Self {
        let mut open = fs::OpenOptions::new();
        let fail_nth = open
            .read(true)
            .write(true)
            .open("/proc/thread-self/fail-nth");
        Starved {
            only: only.to_owned(),
            fail_nth: fail_nth.ok(),
        }
    }

    /// Makes `call` with each of its allocations failing, and at last without a failure. Its
    /// errors are ENOMEM and those of `also`. `undo` gets its result, and puts everything back as
    /// it was before; it returns whether the result is what was found.
    pub fn each(
        &self,
        name: &str,
        also: &[c_int],
        mut call: impl FnMut() -> c_long,
        mut undo: impl FnMut(c_long) -> bool,
    ) {
        self.passes(name, || self.pass(also, &mut call, &mut undo));
    }

    /// Makes passes, after which no more memory must be allocated than before.
    fn passes(&self, name: &str, mut pass: impl FnMut() -> Result<(), String>) {
        if !name.starts_with(&self.only) {
            return;
        }
        let mut before = 0;
        for _ in 0..LEAKS {
            if let Err(complaint) = pass() {
                println!("{name}: {complaint}");
                return;
            }
            let now = allocated();
            if now <= before {
                println!("{name}: ok");
                return;
            }
            // The first pass fills caches.
            before = now;
        }
        println!("{name}: memory is lost");
    }

    /// As [`Starved::each`], for a call whose memory stays.
    pub fn each_growing(
        &self,
        name: &str,
        also: &[c_int],
        mut call: impl FnMut() -> c_long,
        mut undo: impl FnMut(c_long) -> bool,
    ) {
        if name.starts_with(&self.only) {
            match self.pass(also, &mut call, &mut undo) {
                Ok(()) => println!("{name}: ok"),
                Err(complaint) => println!("{name}: {complaint}"),
            }
        }
    }

    /// As [`Starved::each`], for a call that arms a child for an allocation up to the `last`, and
    /// returns the error with which that ended, or 0.
    pub fn each_child(
        &self,
        name: &str,
        last: u32,
        also: &[c_int],
        mut call: impl FnMut(u32) -> c_int,
    ) {
        let last = if self.fail_nth.is_some() { last } else { 1 };
        self.passes(name, || {
            let fits = |error: &c_int| matches!(error, 0 | &libc::ENOMEM) || also.contains(error);
            match (1..=last).map(&mut call).find(|error| !fits(error)) {
                Some(error) => Err(format!("error {error}")),
                None => Ok(()),
            }
        });
    }

    fn pass(
        &self,
        also: &[c_int],
        call: &mut impl FnMut() -> c_long,
        undo: &mut impl FnMut(c_long) -> bool,
    ) -> Result<(), String> {
        let free = free_descriptor();
        for nth in 1..MOST {
            self.arm(nth);
            let result = call();
            let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            let (failed, what) = if result == -1 {
                (error, crate::error())
            } else {
                (0, "success")
            };
            let left = self.disarm();
            if !undo(result) {
                return Err(format!("allocation {nth}: not what was found: {what}"));
            }
            if free_descriptor() != free {
                return Err(format!("allocation {nth}: a descriptor is left"));
            }
            match failed {
                0 if left => return Ok(()),
                0 | libc::ENOMEM => {}
                number if also.contains(&number) => {}
                _ => return Err(format!("allocation {nth}: {what}")),
            }
            if left {
                return Err(format!("without a failure: {what}"));
            }
        }
        Err("it has no end".into())
    }

    fn arm(&self, nth: u32) {
        if let Some(file) = &self.fail_nth {
            let mut digits = [0; 12];
            let text = decimal(nth, &mut digits);
            file.write_at(text, 0).expect("a count");
        }
    }

    /// Lets no allocation fail; whether none has failed.
    fn disarm(&self) -> bool {
        let Some(file) = &self.fail_nth else {
            return true;
        };
        let mut text = [0; 12];
        let len = file.read_at(&mut text, 0);
        file.write_at(b"0", 0).expect("a count");
        len.is_err() || text[..2] != *b"0\n"
    }
}

/// The digits of a number, without an allocation.
fn decimal(mut number: u32, digits: &mut [u8; 12]) -> &[u8] {
    let mut at = digits.len();
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    &digits[at..]
}

/// The bytes that the kernel has allocated, where it says so; no more than before, where not.
fn allocated() -> usize {
    let text = fs::read_to_string("/proc/allocinfo").unwrap_or_default();
    let size = |line: &str| line.split_ascii_whitespace().next()?.parse::<usize>().ok();
    text.lines().filter_map(size).sum()
}

/// The lowest descriptor that is free.
fn free_descriptor() -> c_int {
    // SAFETY: the descriptor is this function's own.
    unsafe {
        let free = libc::dup(0);
        libc::close(free);
        free
    }
}

/// Closes a descriptor, if it is one.
fn close(result: c_long) -> bool {
    // SAFETY: the caller's own descriptor.
    result == -1 || unsafe { libc::close(result as c_int) } == 0
}
