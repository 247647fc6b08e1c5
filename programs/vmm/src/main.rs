//! A small VMM for arm64 guests on Linux's KVM interface. The guest's consoles, a virtio console
//! and a PL011, are standard input and output; the exit status is what the guest wrote to the
//! status register before it powered off, else 0.

mod console;
mod devices;
mod layout;
mod line;
mod loader;
mod machine;
mod memory;
mod options;
mod phases;
mod stats;
mod tree;
mod vcpu;
mod virtio;

use std::process::ExitCode;

/// The exit status of a failure of the VMM, or of a guest that crashed.
const FAILURE: u8 = 125;

fn main() -> ExitCode {
    let run = || machine::run(&options::parse()?);
    match run() {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("vmm: {error:#}");
            ExitCode::from(FAILURE)
        }
    }
}
