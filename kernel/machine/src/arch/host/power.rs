//! The end of the machine, which is that of the host's process.

extern crate std;

use std::string::String;

/// Switches the machine off.
pub fn off() -> ! {
    std::process::exit(0)
}

/// Resets the machine.
pub fn reset() -> ! {
    std::process::exit(0)
}

/// Shows the log, and why the machine ends, where the environment has `STILE_LOG`.
pub fn last_words(text: &[u8]) {
    if std::env::var_os("STILE_LOG").is_some() {
        std::eprint!("{}", String::from_utf8_lossy(text));
    }
}
