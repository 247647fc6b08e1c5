//! Power off and reset, which end the host's process.

extern crate std;

use std::string::String;

/// Turns the machine off.
pub fn off() -> ! {
    std::process::exit(0)
}

/// Resets the machine.
pub fn reset() -> ! {
    std::process::exit(0)
}

/// Prints the log, and why the machine ends, if the environment variable `STILE_LOG` is set.
pub fn last_words(text: &[u8]) {
    if std::env::var_os("STILE_LOG").is_some() {
        std::eprint!("{}", String::from_utf8_lossy(text));
    }
}
