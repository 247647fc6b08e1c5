//! A small VMM for arm64 guests on Linux's KVM interface. Standard input and output are the guest's
//! consoles, a virtio console and a PL011. The exit status is the value that the guest wrote to the
//! status register before it powered off, or 0.

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
