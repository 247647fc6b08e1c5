//! The programs of processes: closures, each with an address at which threads and handlers begin.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard};

use linux_raw_sys::general::{SIGCHLD, SIGSEGV};
use machine::arch::program;

use crate::{Errno, image, raw, sys};

type Once = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Known {
    once: HashMap<usize, Once>,
    always: HashMap<usize, Arc<dyn Fn() + Send + Sync>>,
    count: usize,
}

impl Known {
    /// An unused address.
    fn address(&mut self) -> usize {
        self.count += 1;
        0x2000_0000 + 16 * self.count
    }
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

fn with<T>(f: impl FnOnce(&mut Known) -> T) -> T {
    let mut known: MutexGuard<_> = KNOWN.lock().expect("no panic with the table");
    f(known.get_or_insert_default())
}

/// Runs the program at `pc`. A panic ends the process as in any Rust program.
pub fn program(pc: usize) {
    if pc == image::ENTRY && sys!(getpid) == Ok(1) {
        return crate::init();
    }
    if let Some(once) = with(|known| known.once.remove(&pc)) {
        return end_if_panicked(once);
    }
    match with(|known| known.always.get(&pc).cloned()) {
        Some(always) => end_if_panicked(|| always()),
        None if crate::fuzz::executed() => {}
        // As for an instruction that cannot be fetched.
        None => _ = sys!(kill, sys!(getpid).expect("a number"), SIGSEGV),
    }
}

fn end_if_panicked(f: impl FnOnce()) {
    if panic::catch_unwind(AssertUnwindSafe(f)).is_err() {
        _ = sys!(exit_group, 101);
    }
}

/// The address of a signal's handler.
pub fn handler(f: impl Fn() + Send + Sync + 'static) -> usize {
    with(|known| {
        let address = known.address();
        known.always.insert(address, Arc::new(f));
        address
    })
}

/// clone(2) with `flags`: a child that runs `child` with the stack below `stack`.
///
/// # Errors
/// Those of clone(2).
pub fn clone(
    flags: u32,
    stack: usize,
    child: impl FnOnce() + Send + 'static,
) -> Result<usize, Errno> {
    let address = with(|known| {
        let address = known.address();
        known.once.insert(address, Box::new(child));
        address
    });
    let before = program::pc();
    program::set_pc(address);
    const CLONE: usize = crate::number("clone");
    let result = raw(CLONE, &[flags as usize, stack]);
    program::set_pc(before);
    if result.is_err() {
        with(|known| known.once.remove(&address));
    }
    result
}

/// fork(2): a child that runs `child`.
///
/// # Errors
/// Those of clone(2).
pub fn fork(child: impl FnOnce() + Send + 'static) -> Result<usize, Errno> {
    clone(SIGCHLD, 0, child)
}
