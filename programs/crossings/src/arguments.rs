//! The command line and the auxiliary vector.

use crate::contend::Contest;
use crate::{arch, rows, several, sys, turns};
use core::ffi::{CStr, c_char};

/// `AT_HWCAP`, from `linux/auxvec.h`.
const AT_HWCAP: usize = 16;
/// `AT_EXECFN`: the path by which the program was started.
const AT_EXECFN: usize = 31;

/// The file with the arguments of an init, one in each line: kernels differ in how they pass them.
const FILE: &CStr = c"/crossings.arguments";
/// The maximum size of that file in bytes.
const LONGEST: usize = 1024;
/// The maximum number of words.
const MOST: usize = 64;

/// The command line, and other values that execve left on the stack.
pub struct Arguments {
    words: [&'static str; MOST],
    count: usize,
    /// The HWCAP bits, zero if the kernel passes none.
    pub hwcap: usize,
    /// The program's own path, null if the kernel passes none.
    pub executable: *const u8,
}

impl Arguments {
    /// Reads the initial stack.
    ///
    /// # Safety
    /// `stack` is the stack pointer at the program's entry, unchanged.
    pub unsafe fn from_stack(stack: *const usize) -> Self {
        let mut arguments = Self {
            words: [""; MOST],
            count: 0,
            hwcap: 0,
            executable: core::ptr::null(),
        };
        // SAFETY: by the ABI, argc is followed by that many strings, a null, the environment, a
        // null, and pairs up to one with key zero; all of it lives as long as the process.
        unsafe {
            let argv: &[*const c_char] = core::slice::from_raw_parts(stack.add(1).cast(), *stack);
            for word in argv {
                arguments.add(CStr::from_ptr(*word).to_str().unwrap_or_default());
            }
            let mut at = stack.add(argv.len() + 2);
            while *at != 0 {
                at = at.add(1);
            }
            at = at.add(1);
            while *at != 0 {
                match *at {
                    AT_HWCAP => arguments.hwcap = *at.add(1),
                    AT_EXECFN => arguments.executable = *at.add(1) as *const u8,
                    _ => {}
                }
                at = at.add(2);
            }
        }
        arguments
    }

    /// Replaces the arguments by the words of the file: those from the kernel belong to its own
    /// command line.
    pub fn take_from_file(&mut self) {
        self.count = self.count.min(1);
        let Some(buffer) = sys::memory(LONGEST) else {
            return;
        };
        let Ok(fd) = sys::open(FILE) else { return };
        let length = sys::read(fd, buffer).unwrap_or(0);
        sys::close(fd);
        let text = core::str::from_utf8(&buffer[..length]).unwrap_or_default();
        text.lines().for_each(|word| self.add(word));
    }

    fn add(&mut self, word: &'static str) {
        if let Some(place) = self.words.get_mut(self.count) {
            *place = word;
            self.count += 1;
        }
    }

    /// The argument at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&'static str> {
        self.words[..self.count].get(index).copied()
    }
}

/// The options of the command line.
pub struct Options<'a> {
    arguments: &'a Arguments,
    first_row: usize,
    /// Lists the rows instead of measuring them.
    pub list: bool,
    /// The number of batches of each row, 1 to [`crate::meter::MOST_BATCHES`].
    pub batches: usize,
    /// The time to wait before the first row, in milliseconds, until the kernel has finished its
    /// own work.
    pub settle_ms: usize,
    threads: &'static str,
    /// Measures threads that read an ID register at once, instead of the rows.
    pub contend: Option<Contest>,
    /// The time to wait after each line, in milliseconds, until the console has finished its own
    /// work.
    pub pause_ms: usize,
}

impl<'a> Options<'a> {
    /// Parses the command line; the error is the invalid word.
    pub fn parse(arguments: &'a Arguments) -> Result<Self, &'static str> {
        let mut options = Self {
            arguments,
            first_row: 1,
            list: false,
            batches: 21,
            settle_ms: 3000,
            threads: "",
            contend: None,
            pause_ms: 0,
        };
        while let Some(word) = arguments
            .get(options.first_row)
            .filter(|word| word.starts_with("--"))
        {
            let value = arguments.get(options.first_row + 1);
            let number = value.and_then(|value| value.parse().ok());
            options.first_row += 2;
            match word {
                "--list" => (options.list, options.first_row) = (true, options.first_row - 1),
                "--quick" => (options.batches, options.first_row) = (5, options.first_row - 1),
                "--batches" => {
                    options.batches = number
                        .filter(|count| (1..=crate::meter::MOST_BATCHES).contains(count))
                        .ok_or(word)?;
                }
                "--settle" => options.settle_ms = number.ok_or(word)?,
                "--pause" => options.pause_ms = number.ok_or(word)?,
                "--contend" => options.contend = Some(value.and_then(contest).ok_or(word)?),
                "--threads" => options.threads = value.ok_or(word)?,
                _ => return Err(word),
            }
        }
        let unknown = options
            .names()
            .find(|name| rows::ROWS.iter().all(|row| row.name != *name));
        if let Some(unknown) = unknown {
            return Err(unknown);
        }
        let tags = options.threads().count() * several::MEASURING * options.wanted();
        let possible = options
            .threads()
            .all(|threads| (1..=turns::MOST).contains(&threads));
        (possible && tags < arch::OVER)
            .then_some(options)
            .ok_or("--threads")
    }

    /// The names of requested rows.
    fn names(&self) -> impl Iterator<Item = &'static str> + use<'a> {
        let (arguments, first) = (self.arguments, self.first_row);
        (first..).map_while(|index| arguments.get(index))
    }

    /// True if the row of this name is measured: all are, unless some are named.
    pub fn wants(&self, name: &str) -> bool {
        self.names().next().is_none() || self.names().any(|word| word == name)
    }

    /// The number of rows to measure.
    pub fn wanted(&self) -> usize {
        rows::ROWS.iter().filter(|row| self.wants(row.name)).count()
    }

    /// The numbers of threads to measure with, in order; none means to measure in this thread, on
    /// any CPU.
    pub fn threads(&self) -> impl Iterator<Item = usize> + use<'a> {
        let numbers = self.threads.split(',').filter(|word| !word.is_empty());
        // A word that is not a number is refused, as 0 is.
        numbers.map(|word| word.parse().unwrap_or(0))
    }
}

/// Parses `THREADS,READS,MS`.
fn contest(text: &str) -> Option<Contest> {
    let mut words = text.split(',');
    Some(Contest {
        threads: words.next()?.parse().ok()?,
        times: words.next()?.parse().ok()?,
        limit_ms: words.next()?.parse().ok()?,
    })
}
