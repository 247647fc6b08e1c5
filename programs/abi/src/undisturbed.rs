//! Parts that depend on time: a host that stops the machine for a while disturbs them.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How often a part is run at most.
const TRIES: usize = 20;

/// Runs a part, which says whether it went undisturbed, until it does: what it prints counts then.
pub fn run(mut part: impl FnMut() -> bool) {
    for last in (0..TRIES).rev() {
        let (undisturbed, text) = captured(&mut part);
        if undisturbed || last == 0 {
            print!("{text}");
            return;
        }
    }
}

/// Runs a part, and keeps what it prints from being seen.
fn captured(part: &mut impl FnMut() -> bool) -> (bool, String) {
    // SAFETY: the descriptors are this function's own, but for the standard output's.
    let (mut file, output) = unsafe {
        let file = libc::memfd_create(c"output".as_ptr(), 0);
        let output = OwnedFd::from_raw_fd(libc::dup(1));
        (File::from_raw_fd(file), output)
    };
    _ = io::stdout().flush();
    // SAFETY: both are open.
    unsafe { libc::dup2(file.as_raw_fd(), 1) };
    let undisturbed = part();
    _ = io::stdout().flush();
    // SAFETY: both are open.
    unsafe { libc::dup2(output.as_raw_fd(), 1) };
    let mut text = String::new();
    _ = file.rewind();
    _ = file.read_to_string(&mut text);
    (undisturbed, text)
}
