//! Parts that depend on time, which a host that stops the machine for a while disturbs.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The maximum number of runs of a part.
const TRIES: usize = 20;

/// Runs a part until it reports that it was undisturbed, and prints the output of the last run.
pub fn run(mut part: impl FnMut() -> bool) {
    for last in (0..TRIES).rev() {
        let (undisturbed, text) = captured(&mut part);
        if undisturbed || last == 0 {
            print!("{text}");
            return;
        }
    }
}

/// Runs a part and captures its output.
fn captured(part: &mut impl FnMut() -> bool) -> (bool, String) {
    // SAFETY: this function owns the descriptors, except standard output.
    let (mut file, output) = unsafe {
        let file = libc::memfd_create(c"output".as_ptr(), 0);
        let output = OwnedFd::from_raw_fd(libc::dup(1));
        (File::from_raw_fd(file), output)
    };
    _ = io::stdout().flush();
    // SAFETY: both descriptors are open.
    unsafe { libc::dup2(file.as_raw_fd(), 1) };
    let undisturbed = part();
    _ = io::stdout().flush();
    // SAFETY: both descriptors are open.
    unsafe { libc::dup2(output.as_raw_fd(), 1) };
    let mut text = String::new();
    _ = file.rewind();
    _ = file.read_to_string(&mut text);
    (undisturbed, text)
}
