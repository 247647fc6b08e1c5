//! The network, as the host command requests it.

use std::fs;
use std::process::Command;

/// The file with the commands, one in each line.
const COMMANDS_PATH: &str = "/stile/network";

/// Runs the commands that set up the network, if there are any.
pub fn set_up() {
    for line in fs::read_to_string(COMMANDS_PATH)
        .unwrap_or_default()
        .lines()
    {
        let mut words = line.split(' ');
        let Some(name) = words.next() else { continue };
        match Command::new(format!("/bin/{name}")).args(words).status() {
            Ok(status) if status.success() => {}
            failed => eprintln!("init: {line}: {failed:?}"),
        }
    }
}
