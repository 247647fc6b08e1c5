//! What an ordinary user may do with every name of /proc, /sys and /dev: its owner and permissions,
//! and what comes of using it.
//!
//! Standard input lists the names that are told of. Of the others, which one kernel has and another
//! has not, only those are told that a user may write. `abi access names` makes such a list.

mod mounted;
mod processes;
mod trial;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, stdin};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::{in_child, tell_end};

/// The user that tries, and another.
const USER: u32 = 1000;
const OTHER: u32 = 1001;

/// What is not walked: thousands of names of caches and devices that only Linux has.
const LEFT_OUT: [&str; 4] = [
    "/sys/bus",
    "/sys/devices/platform",
    "/sys/firmware",
    "/sys/kernel/slab",
];

/// Runs this part, or what its argument names.
pub fn run() {
    let mut arguments = std::env::args().skip(2);
    match arguments.next().as_deref() {
        Some("names") => names(),
        Some("rest") => processes::rest(),
        _ => told(),
    }
}

fn names() {
    for name in tree() {
        println!("{name}");
    }
    for name in processes::names() {
        println!("{name}");
    }
}

fn told() {
    let listed: BTreeSet<String> = stdin().lock().lines().map_while(Result::ok).collect();
    let user = || {
        become_user(USER);
        for name in listed.iter().filter(|name| !name.starts_with("PID")) {
            println!("{name}: {}", trial::outcome(name));
        }
    };
    tell_end("listed", in_child(user));
    let all = tree();
    let user = || {
        become_user(USER);
        for name in all.iter().filter(|name| !listed.contains(*name)) {
            trial::tell_writable(name);
        }
    };
    tell_end("others", in_child(user));
    let user = || {
        become_user(USER);
        all.iter().for_each(|name| trial::tell_addresses(name));
    };
    tell_end("addresses", in_child(user));
    let members: Vec<&str> = listed
        .iter()
        .filter_map(|name| name.strip_prefix("PID"))
        .collect();
    processes::run(&members);
    mounted::run();
}

/// Acts as `user`, in the group of that number alone.
fn become_user(user: u32) {
    become_user_in(user, &[]);
}

/// Acts as `user`, in more groups.
fn become_user_in(user: u32, groups: &[u32]) {
    // SAFETY: the groups are as many as is said, and the others touch no memory.
    unsafe {
        libc::setgroups(groups.len(), groups.as_ptr());
        libc::setresgid(user, user, user);
        libc::setresuid(user, user, user);
    }
}

/// All names but those of processes, whose number differs from run to run.
fn tree() -> Vec<String> {
    let mut names = Vec::new();
    let mut ahead: Vec<String> = ["/proc", "/proc/self/net", "/sys", "/dev"]
        .map(String::from)
        .into();
    while let Some(name) = ahead.pop() {
        let Ok(found) = fs::symlink_metadata(&name) else {
            continue;
        };
        let below_proc = Path::new(&name).parent() == Some(Path::new("/proc"));
        let last = name.rsplit('/').next().unwrap_or_default();
        let of_process = below_proc && last.bytes().all(|byte| byte.is_ascii_digit());
        if of_process || LEFT_OUT.contains(&&*name) {
            continue;
        }
        if found.is_dir() {
            let inside = fs::read_dir(&name).into_iter().flatten().flatten();
            ahead.extend(inside.filter_map(|entry| entry.path().to_str().map(String::from)));
        }
        // Disks are there or not.
        if !found.file_type().is_block_device() {
            names.push(name);
        }
    }
    names.sort();
    names
}
