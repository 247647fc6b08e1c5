//! A 32-bit Arm program on an arm64 kernel. The output is the same on any kernel that behaves like
//! Linux.

mod calls;
mod faults;
mod helpers;
mod legacy;
mod objects;
mod old;
mod properties;
mod signals;
mod sockets;
mod threads;
mod timers;
mod trace;

use std::io::Write;

fn main() {
    let parts: [(&str, fn()); 13] = [
        ("calls", calls::run),
        ("faults", faults::run),
        ("helpers", helpers::run),
        ("hypervisor", objects::hypervisor),
        ("legacy", legacy::run),
        ("objects", objects::run),
        ("old", old::run),
        ("properties", properties::run),
        ("signals", signals::run),
        ("sockets", sockets::run),
        ("threads", threads::run),
        ("timers", timers::run),
        ("trace", trace::run),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [what, count] = wanted.as_slice()
        && what == "null"
    {
        return calls::null(count.parse().expect("how many calls"));
    }
    for (name, run) in parts {
        if wanted.iter().any(|part| part == name) {
            println!("{name}:");
            run();
        }
    }
}

/// Prints the result of a call.
fn tell(what: &str, result: i64) {
    if result == -1 {
        let error = std::io::Error::last_os_error();
        println!("{what}: errno {}", error.raw_os_error().unwrap_or(0));
    } else {
        println!("{what}: {result}");
    }
}

/// Runs `work` in a child and prints how it ended.
fn in_child(what: &str, work: impl FnOnce()) {
    print!("{what}: ");
    _ = std::io::stdout().flush();
    // SAFETY: the process has one thread here.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            work();
            _ = std::io::stdout().flush();
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        if libc::WIFSIGNALED(status) {
            println!("killed by signal {}", libc::WTERMSIG(status));
        } else {
            println!("status {}", libc::WEXITSTATUS(status));
        }
    }
}
