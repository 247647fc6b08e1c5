//! What an ordinary user's hostile program tries: to become root, to take what is another's, to stop the machine.
//!
//! Each part is begun by root, sets its stage, and becomes [`USER`] in a child. What it prints is the same on Linux.

mod deep;
mod hoard;
mod links;
mod long;
mod names;
mod rights;

/// The hostile user, who is nobody else.
pub const USER: u32 = 1000;

/// The parts, by name.
const PARTS: &[(&str, fn())] = &[
    ("deep", deep::run),
    ("hoard", hoard::run),
    ("links", links::run),
    ("long", long::run),
    ("names", names::run),
    ("rights", rights::run),
];

/// Runs the part of that name.
pub fn run(name: Option<&str>) {
    match PARTS.iter().find(|part| Some(part.0) == name) {
        Some((_, part)) => part(),
        None => {
            eprintln!("usage: abi hostile PART");
            std::process::exit(2);
        }
    }
}
