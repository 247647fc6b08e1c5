//! Which of the host's threads has the CPU.

extern crate std;

use std::sync::{Condvar, Mutex};

/// A thread waits for its own until another gives it the CPU.
pub struct Baton {
    given: Mutex<bool>,
    changed: Condvar,
}

impl Baton {
    pub const fn new() -> Self {
        Baton {
            given: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// Gives the CPU to the thread that waits, or will.
    pub fn give(&self) {
        *self.given.lock().expect("nobody panics with it") = true;
        self.changed.notify_one();
    }

    /// Waits for the CPU.
    pub fn wait(&self) {
        let mut given = self.given.lock().expect("nobody panics with it");
        while !*given {
            given = self.changed.wait(given).expect("nobody panics with it");
        }
        *given = false;
    }
}

/// Ends the host's process where the kernel panics: nothing in it can be relied on any more.
pub struct NoUnwind;

impl Drop for NoUnwind {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
