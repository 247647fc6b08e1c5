//! Creating, removing and renaming.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};

use super::{USUAL, attribute, attributes, done, fresh, mount, number, show, text, unmount};
use crate::{error, tell};

const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;

/// Runs this part.
pub fn run() {
    made();
    removed();
    linked();
    moved();
    exchanged();
    unnamed();
}

fn layers() {
    fresh();
    for folder in ["l/d", "l/d/e", "l/empty", "l/set"] {
        fs::create_dir(folder).expect("made");
    }
    for file in ["l/a", "l/b", "l/d/x", "l/d/e/y"] {
        fs::write(file, file).expect("made");
    }
    symlink("a", "l/link").expect("made");
    // SAFETY: the pointers are to NUL-terminated strings.
    unsafe {
        libc::mkfifo(c"l/pipe".as_ptr(), 0o640);
        libc::mknod(c"l/null".as_ptr(), libc::S_IFCHR | 0o666, 0x103);
        libc::chmod(c"l/set".as_ptr(), 0o2770);
        libc::chown(c"l/set".as_ptr(), 0, 7);
        libc::chmod(c"l/set".as_ptr(), 0o2770);
    }
}

fn both() {
    show("m");
    show("u");
}

fn made() {
    println!("== made");
    layers();
    if !mount(USUAL) {
        return;
    }
    done("new", fs::write("m/new", "new"));
    done("in", fs::write("m/d/e/new", "new"));
    done("folder", fs::create_dir("m/folder"));
    done("folder", fs::create_dir("m/d/folder"));
    done("link", symlink("nowhere", "m/d/link"));
    done("set", fs::write("m/set/new", "new"));
    done(
        "set",
        fs::DirBuilder::new().mode(0o755).create("m/set/folder"),
    );
    done("there", fs::create_dir("m/d"));
    done("there", fs::create_dir("m/a"));
    // SAFETY: the pointers are to NUL-terminated strings.
    unsafe {
        tell("pipe", libc::mkfifo(c"m/d/pipe".as_ptr(), 0o600));
        tell(
            "device",
            libc::mknod(c"m/dev".as_ptr(), libc::S_IFCHR | 0o600, 0x105),
        );
        tell(
            "whiteout",
            libc::mknod(c"m/none".as_ptr(), libc::S_IFCHR, 0),
        );
        tell("block", libc::mknod(c"m/block".as_ptr(), libc::S_IFBLK, 0));
    }
    both();
    for path in ["u/d", "u/d/folder", "u/folder", "u/d/e", "u/set/folder"] {
        println!("{path}: {:?}", attributes(path));
    }
    unmount("m", 0);
}

fn removed() {
    println!("== removed");
    layers();
    fs::create_dir("u/own").expect("made");
    fs::write("u/own/file", "").expect("made");
    if !mount(USUAL) {
        return;
    }
    done("a", fs::remove_file("m/a"));
    done("a again", fs::remove_file("m/a"));
    done("link", fs::remove_file("m/link"));
    done("pipe", fs::remove_file("m/pipe"));
    done("null", fs::remove_file("m/null"));
    done("folder as file", fs::remove_file("m/d"));
    done("full", fs::remove_dir("m/d"));
    done("x", fs::remove_file("m/d/x"));
    done("full", fs::remove_dir("m/d"));
    done("y", fs::remove_file("m/d/e/y"));
    done("e", fs::remove_dir("m/d/e"));
    both();
    done("d", fs::remove_dir("m/d"));
    done("empty", fs::remove_dir("m/empty"));
    done("own", fs::remove_dir("m/own"));
    done("own", fs::remove_dir_all("m/own"));
    both();
    println!("anew");
    done("a", fs::write("m/a", "anew"));
    done("d", fs::create_dir("m/d"));
    done("x", fs::symlink_metadata("m/d/x"));
    done("link", fs::create_dir("m/link"));
    done("empty", fs::write("m/empty", "a file"));
    both();
    println!("{}", attribute("u/d", "trusted.overlay.opaque"));
    done("a", fs::remove_file("m/a"));
    done("within", fs::write("m/d/within", "kept"));
    done("full anew", fs::remove_dir("m/d"));
    done("within", fs::remove_file("m/d/within"));
    done("d", fs::remove_dir("m/d"));
    both();
    let open = fs::File::open("m/set").expect("open");
    done("set", fs::remove_dir("m/set"));
    drop(open);
    unmount("m", 0);
    if mount(USUAL) {
        show("m");
        unmount("m", 0);
    }
}

fn linked() {
    println!("== linked");
    layers();
    fs::hard_link("l/a", "l/two").expect("linked");
    if !mount(USUAL) {
        return;
    }
    done("b", fs::hard_link("m/b", "m/d/b"));
    println!("{}", number("m/b") == number("m/d/b"));
    done("write", fs::write("m/d/b", "both"));
    show("m");
    done("a", fs::write("m/a", "alone"));
    println!("{}", fs::read_to_string("m/two").unwrap_or_default());
    done("there", fs::hard_link("m/b", "m/a"));
    done("folder", fs::hard_link("m/d", "m/dd"));
    done("remove", fs::remove_file("m/link"));
    done("over a whiteout", fs::hard_link("m/b", "m/link"));
    done("remove", fs::remove_file("m/b"));
    done("remove", fs::remove_file("m/link"));
    println!("{}", fs::read_to_string("m/d/b").unwrap_or_default());
    done("out of it", fs::hard_link("m/d/b", "u/b"));
    both();
    unmount("m", 0);
}

fn rename(old: &str, new: &str, flags: u32) {
    let [from, to]: [CString; 2] = [old, new].map(text);
    // SAFETY: the pointers are to NUL-terminated strings.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            flags,
        )
    };
    match done {
        0 => println!("{old} -> {new} {flags}: ok"),
        _ => println!("{old} -> {new} {flags}: {}", error()),
    }
}

fn moved() {
    println!("== moved");
    layers();
    fs::create_dir("u/own").expect("made");
    fs::create_dir("u/own/in").expect("made");
    fs::write("u/own/file", "own").expect("made");
    if !mount(USUAL) {
        return;
    }
    rename("m/a", "m/aa", 0);
    rename("m/aa", "m/b", RENAME_NOREPLACE);
    rename("m/aa", "m/b", 0);
    rename("m/b", "m/a", 0);
    rename("m/a", "m/d/x", 0);
    rename("m/link", "m/d/link", 0);
    rename("m/pipe", "m/set/pipe", 0);
    rename("m/d", "m/dd", 0);
    rename("m/d/e", "m/e", 0);
    rename("m/empty", "m/other", 0);
    rename("m/own", "m/d/own", 0);
    rename("m/d/own/in", "m/in", 0);
    rename("m/in", "m/d", 0);
    rename("m/in", "m/empty", 0);
    rename("m/d/own", "m/d/own/self", 0);
    rename("m/d/own", "m/d/e", 0);
    rename("m/d/own", "m/null", 0);
    rename("m/null", "m/d/own", 0);
    rename("m/null", "m/null", 0);
    rename("m/absent", "m/null", 0);
    rename("m/null", "u/null", 0);
    rename("m/null", "m/n", RENAME_WHITEOUT);
    rename("m/null", "m/n", RENAME_WHITEOUT | RENAME_NOREPLACE);
    both();
    for path in ["u/d/own", "u/empty", "u/d"] {
        println!("{path}: {:?}", attributes(path));
    }
    done("e", fs::remove_dir_all("m/d/e"));
    rename("m/d/own", "m/d/e", 0);
    done("over", fs::create_dir("m/folder"));
    rename("m/folder", "m/a", 0);
    both();
    unmount("m", 0);
    if mount(USUAL) {
        show("m");
        unmount("m", 0);
    }
}

fn exchanged() {
    println!("== exchanged");
    layers();
    fs::create_dir("u/own").expect("made");
    fs::write("u/own/file", "own").expect("made");
    if !mount(USUAL) {
        return;
    }
    rename("m/a", "m/b", RENAME_EXCHANGE);
    rename("m/a", "m/d/x", RENAME_EXCHANGE);
    rename("m/a", "m/absent", RENAME_EXCHANGE);
    rename("m/own", "m/d", RENAME_EXCHANGE);
    rename("m/own", "m/link", RENAME_EXCHANGE);
    rename("m/link", "m/link/file", RENAME_EXCHANGE);
    rename("m/a", "m/b", RENAME_EXCHANGE | RENAME_NOREPLACE);
    both();
    unmount("m", 0);
    if mount(USUAL) {
        show("m");
        unmount("m", 0);
    }
}

/// Files without a name (O_TMPFILE).
fn unnamed() {
    println!("== unnamed");
    layers();
    if !mount(USUAL) {
        return;
    }
    // SAFETY: the pointers are to NUL-terminated strings, or to the written bytes.
    unsafe {
        let file = libc::open(c"m/d".as_ptr(), libc::O_TMPFILE | libc::O_RDWR, 0o640);
        println!("{}", file >= 0);
        tell(
            "write",
            libc::write(file, c"unnamed".as_ptr().cast(), 7) as i64,
        );
        let path = text(&format!("/proc/self/fd/{file}"));
        let linked = libc::linkat(
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_FDCWD,
            c"m/d/named".as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        );
        tell("link", linked);
        libc::close(file);
    }
    both();
    unmount("m", 0);
}
