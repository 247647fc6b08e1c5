//! Refusals, limits and exact boundaries that no other part tests: each kills a mutant.

mod events;
mod files;
mod ipc;
mod keys;
mod processes;

use crate::{in_child, tell_end};

/// A user ID that nobody else has.
const USER: u32 = 1239;

/// Runs this part.
pub fn run() {
    let parts: [(&str, unsafe fn()); 22] = [
        ("sticky", files::sticky),
        ("executed by root", files::executed_by_root),
        ("leases", files::leases),
        ("links", files::links),
        ("size limit", files::size_limit),
        ("seals", files::seals),
        ("holes", files::holes),
        ("owner of signals", files::owner_of_signals),
        ("positions", files::positions),
        ("pages of pipes", events::pages_of_pipes),
        ("descriptors", events::descriptors),
        ("epoll", events::epoll),
        ("told once", events::told_once),
        ("messages", ipc::messages),
        ("segments and rights", ipc::segments_and_rights),
        ("queues", ipc::queues),
        ("keys", keys::run),
        ("death signal", processes::death_signal),
        ("shared descriptors", processes::shared_descriptors),
        ("tracing", processes::tracing),
        ("most threads", processes::most_threads),
        ("moved", processes::moved),
    ];
    for (what, part) in parts {
        // SAFETY: every pointer that a part passes is to a live value of the right type.
        tell_end(what, in_child(|| unsafe { part() }));
    }
}

/// Changes to the user and group `id`, without capabilities.
unsafe fn become_user(id: u32) {
    unsafe {
        libc::setgroups(0, std::ptr::null());
        libc::setresgid(id, id, id);
        libc::setresuid(id, id, id);
    }
}
