//! References to a file's identity, which stays when the file is copied up and gets another number.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use libc::c_int;

use super::{USUAL, done, fresh, mount, text, unmount};
use crate::tell;

/// Runs this part.
pub fn run() {
    locked();
    watched();
    removed();
}

/// Prepares a lower file with two names, each of which is copied up separately.
fn linked() -> bool {
    fresh();
    fs::write("l/a", "lower").expect("made");
    fs::hard_link("l/a", "l/b").expect("linked");
    mount(USUAL)
}

fn chmod(path: &str, mode: u32) {
    // SAFETY: the pointer is to a NUL-terminated string.
    tell("chmod", unsafe { libc::chmod(text(path).as_ptr(), mode) });
}

fn lock(what: &str, file: &File) {
    // SAFETY: no pointer is passed.
    tell(what, unsafe {
        libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB)
    });
}

fn locked() {
    println!("== locked by identity");
    if !linked() {
        return;
    }
    let [first, name, other] = ["m/a", "m/a", "m/b"].map(|path| File::open(path).expect("open"));
    lock("first", &first);
    lock("name", &name);
    chmod("m/a", 0o600);
    lock("name", &name);
    lock("anew", &File::open("m/a").expect("open"));
    lock("other", &other);
    drop((first, other));
    lock("name", &name);
    lock("other", &File::open("m/b").expect("open"));
    drop(name);
    unmount("m", 0);
}

/// Prints the queued events.
fn events(watch: c_int) {
    let mut room = [0u32; 256];
    // SAFETY: the pointer is to the buffer.
    let len = unsafe { libc::read(watch, room.as_mut_ptr().cast(), 1024) };
    let words = &room[..len.max(0) as usize / 4];
    let mut at = 0;
    while let Some(&[number, mask, _, len]) = words[at..].first_chunk() {
        println!("event {number} {mask:x}");
        at += 4 + len as usize / 4;
    }
}

fn watched() {
    println!("== watched by identity");
    if !linked() {
        return;
    }
    // SAFETY: no pointer is passed.
    let watch = unsafe { libc::inotify_init1(libc::IN_NONBLOCK) };
    let mask = libc::IN_ATTRIB | libc::IN_CREATE;
    for path in ["m/a", "m"] {
        // SAFETY: the pointer is to a NUL-terminated string.
        tell(path, unsafe {
            libc::inotify_add_watch(watch, text(path).as_ptr(), mask)
        });
    }
    chmod("m/a", 0o600);
    events(watch);
    chmod("m/a", 0o640);
    events(watch);
    chmod("m/b", 0o640);
    done("make", fs::write("m/new", ""));
    events(watch);
    // SAFETY: this function owns the descriptor.
    unsafe { libc::close(watch) };
    unmount("m", 0);
}

/// Watches of files that are removed, although the lower layer still has them, and of an unmounted
/// overlay.
fn removed() {
    println!("== watched and removed");
    fresh();
    fs::create_dir("l/d").expect("made");
    for path in ["l/file", "l/stays", "l/copied"] {
        fs::write(path, "lower").expect("made");
    }
    if !mount(USUAL) {
        return;
    }
    // SAFETY: no pointer is passed.
    let watch = unsafe { libc::inotify_init1(libc::IN_NONBLOCK) };
    let mask = libc::IN_DELETE_SELF | libc::IN_UNMOUNT;
    for path in ["m/file", "m/d", "m/copied", "m/stays"] {
        // SAFETY: the pointer is to a NUL-terminated string.
        tell(path, unsafe {
            libc::inotify_add_watch(watch, text(path).as_ptr(), mask)
        });
    }
    chmod("m/copied", 0o600);
    done("file", fs::remove_file("m/file"));
    events(watch);
    done("folder", fs::remove_dir("m/d"));
    events(watch);
    done("copied", fs::remove_file("m/copied"));
    events(watch);
    unmount("m", 0);
    events(watch);
    // SAFETY: this function owns the descriptor.
    unsafe { libc::close(watch) };
}
