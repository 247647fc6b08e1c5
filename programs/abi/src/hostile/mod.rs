//! Attempts of an ordinary user's hostile program to become root, to take resources of others, or
//! to stop the machine.
//!
//! Root starts each part, which prepares its scene and becomes [`USER`] in a child. The output is
//! the same on Linux.

mod areas;
mod commit;
mod crowd;
mod datagrams;
mod deep;
mod executes;
mod exhausted;
mod fork;
mod hang;
mod heaped;
mod hoard;
mod links;
mod long;
mod lost;
mod many;
mod mounts;
mod moving;
mod names;
mod nested;
mod net;
mod pending;
mod proc;
mod protect;
mod reuse;
mod rights;
mod signalled;
mod sockets;
mod suid;
mod texts;
mod timers;
mod turns;
mod unheard;
mod walked;
mod watches;
mod whole;

/// The hostile user's ID, which no other user has.
pub const USER: u32 = 1000;

/// The parts by name.
const PARTS: &[(&str, fn())] = &[
    ("areas", areas::run),
    ("commit", commit::run),
    ("crowd", crowd::run),
    ("datagrams", datagrams::run),
    ("deep", deep::run),
    ("executes", executes::run),
    ("exhausted", exhausted::run),
    ("fork", fork::run),
    ("hang", hang::run),
    ("heaped", heaped::run),
    ("hoard", hoard::run),
    ("links", links::run),
    ("long", long::run),
    ("lost", lost::run),
    ("many", many::run),
    ("mounts", mounts::run),
    ("moving", moving::run),
    ("names", names::run),
    ("nested", nested::run),
    ("net", net::run),
    ("pending", pending::run),
    ("proc", proc::run),
    ("protect", protect::run),
    ("reuse", reuse::run),
    ("rights", rights::run),
    ("signalled", signalled::run),
    ("sockets", sockets::run),
    ("suid", suid::run),
    ("texts", texts::run),
    ("timers", timers::run),
    ("turns", turns::run),
    ("unheard", unheard::run),
    ("walked", walked::run),
    ("watches", watches::run),
    ("whole", whole::run),
];

/// Runs the part with this name.
pub fn run(name: Option<&str>) {
    match PARTS.iter().find(|part| Some(part.0) == name) {
        Some((_, part)) => part(),
        None => {
            eprintln!("usage: abi hostile PART");
            std::process::exit(2);
        }
    }
}

/// Becomes the hostile user, without supplementary groups.
fn become_user() {
    // SAFETY: none of these calls accesses memory.
    unsafe {
        libc::setgroups(0, std::ptr::null());
        libc::setresgid(USER, USER, USER);
        libc::setresuid(USER, USER, USER);
    }
}
