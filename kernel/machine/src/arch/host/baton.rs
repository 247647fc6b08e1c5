//! Passes the CPU between the host's threads.

extern crate std;

use std::sync::{Condvar, Mutex};

/// A thread waits on its own until another one passes it the CPU.
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

    /// Passes the CPU to the thread that waits, or will wait.
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

/// Aborts the host's process if the kernel panics: its state can no longer be relied on.
pub struct NoUnwind;

impl Drop for NoUnwind {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
