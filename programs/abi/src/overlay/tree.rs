//! The merged view of layers.

use std::fs;

use super::{USUAL, attribute, done, fresh, mount, number, set_attribute, show, unmount, whiteout};
use crate::tell;

/// Runs this part.
pub fn run() {
    merged();
    opaque();
    redirected();
    numbers();
    positions();
}

fn write(path: &str) {
    fs::write(path, path).expect("made");
}

fn merged() {
    println!("== merged");
    fresh();
    for folder in [
        "l/d",
        "l/d/e",
        "l2/d",
        "l2/d/e",
        "l2/only",
        "u/d",
        "l/file-or-d",
        "l2/f-or-d",
    ] {
        fs::create_dir(folder).expect("made");
    }
    for file in [
        "l/a",
        "l2/a",
        "l2/b",
        "l/d/x",
        "l2/d/x",
        "l2/d/y",
        "l2/d/e/z",
        "u/d/w",
        "u/file-or-d",
        "l/f-or-d",
        "l2/gone",
        "l2/d/gone",
        "l/back",
        "l2/back",
    ] {
        write(file);
    }
    whiteout("l/gone");
    whiteout("u/d/gone");
    whiteout("l2/nothing");
    if mount("lowerdir=l:l2") {
        show("m");
        unmount("m", 0);
    }
    whiteout("u/back");
    if mount("lowerdir=l:l2,upperdir=u,workdir=w") {
        show("m");
        done("gone", fs::read("m/gone"));
        done("back", fs::symlink_metadata("m/back"));
        unmount("m", 0);
    }
}

/// Directories that hide lower ones, and whiteouts that are regular files.
fn opaque() {
    println!("== opaque");
    fresh();
    for folder in ["l/o", "l2/o", "u/o", "l/x", "l2/x", "l/odd", "l2/odd"] {
        fs::create_dir(folder).expect("made");
    }
    for file in [
        "l/o/a", "l2/o/b", "l2/x/a", "l2/x/b", "l2/odd/a", "l2/whole",
    ] {
        write(file);
    }
    fs::write("l/x/a", "").expect("made");
    fs::write("l/x/b", "").expect("made");
    fs::write("l/whole", "").expect("made");
    tell(
        "opaque",
        set_attribute("l/o", "trusted.overlay.opaque", "y"),
    );
    tell(
        "odd",
        set_attribute("l/odd", "trusted.overlay.opaque", "yes"),
    );
    tell(
        "marked",
        set_attribute("l/x", "trusted.overlay.opaque", "x"),
    );
    tell(
        "whiteout",
        set_attribute("l/x/a", "trusted.overlay.whiteout", ""),
    );
    tell(
        "whiteout",
        set_attribute("l/whole", "trusted.overlay.whiteout", ""),
    );
    if mount("lowerdir=l:l2,upperdir=u,workdir=w") {
        show("m");
        done("a", fs::read("m/x/a"));
        done("whole", fs::read("m/whole"));
        done("make", fs::write("m/x/a", "anew"));
        show("m/x");
        unmount("m", 0);
    }
    if mount("lowerdir=l:l2,userxattr") {
        show("m");
        unmount("m", 0);
    }
}

/// Directories that have another name in the lower layer.
fn redirected() {
    println!("== redirected");
    fresh();
    for folder in [
        "l/old",
        "l/deep",
        "l/deep/er",
        "u/new",
        "u/far",
        "u/odd",
        "u/new/in",
    ] {
        fs::create_dir(folder).expect("made");
    }
    fs::create_dir("l/old/in").expect("made");
    for file in ["l/old/a", "l/old/in/b", "l/deep/er/c", "u/new/d"] {
        write(file);
    }
    tell(
        "new",
        set_attribute("u/new", "trusted.overlay.redirect", "old"),
    );
    tell(
        "far",
        set_attribute("u/far", "trusted.overlay.redirect", "/deep/er"),
    );
    tell(
        "odd",
        set_attribute("u/odd", "trusted.overlay.redirect", "a/b"),
    );
    if mount(USUAL) {
        show("m/new");
        show("m/far");
        done("odd", fs::symlink_metadata("m/odd"));
        done("write", fs::write("m/new/in/b", "changed"));
        show("u/new");
        unmount("m", 0);
    }
    if mount("lowerdir=l,upperdir=u,workdir=w,redirect_dir=nofollow") {
        done("new", fs::symlink_metadata("m/new"));
        done("far", fs::symlink_metadata("m/far"));
        unmount("m", 0);
    }
}

/// Inode numbers that survive a copy-up.
fn numbers() {
    println!("== numbers");
    fresh();
    fs::create_dir("l/d").expect("made");
    write("l/a");
    write("l/d/b");
    write("l/one");
    fs::hard_link("l/one", "l/two").expect("linked");
    if !mount(USUAL) {
        return;
    }
    let names = ["m", "m/a", "m/d", "m/d/b", "m/one"];
    let before = names.map(number);
    println!(
        "{}",
        number("m").0 == before[1].0 && before[1].0 == before[2].0
    );
    println!("{}", number("m").0 == number("u").0);
    println!("{}", before[1].1 == number("l/a").1);
    for name in ["m/a", "m/d/b", "m/one"] {
        done(name, fs::write(name, "changed"));
    }
    for (name, before) in names.iter().zip(before) {
        println!("{name}: {}", number(name) == before);
    }
    show("m");
    println!("{}", attribute("u/a", "trusted.overlay.origin").is_empty());
    println!("{}", attribute("u/one", "trusted.overlay.origin"));
    println!("{}", attribute("u", "trusted.overlay.impure"));
    println!("{}", attribute("u/d", "trusted.overlay.impure"));
    done("rename", fs::rename("m/a", "m/d/c"));
    println!("{}", number("m/d/c") == before[1]);
    unmount("m", 0);
    if mount(USUAL) {
        println!("{}", number("m/d/c").1 == before[1].1);
        for (name, before) in names.iter().zip(before).filter(|(name, _)| **name != "m/a") {
            println!("{name}: {}", number(name).1 == before.1);
        }
        show("m");
        unmount("m", 0);
    }
}

/// Offsets of a directory that changes while it is read.
fn positions() {
    println!("== positions");
    fresh();
    for at in 0..500 {
        write(&format!("l/low{at}"));
        write(&format!("u/up{at}"));
    }
    for at in 0..100 {
        whiteout(&format!("u/low{at}"));
    }
    if !mount(USUAL) {
        return;
    }
    println!("{}", fs::read_dir("m").expect("open").count());
    // SAFETY: the stream is open, and its entries have names.
    unsafe {
        let stream = libc::opendir(c"m".as_ptr());
        let mut names = Vec::new();
        let mut place = 0;
        for at in 0.. {
            if at == 300 {
                place = libc::telldir(stream);
            }
            let entry = libc::readdir(stream);
            if entry.is_null() {
                break;
            }
            let name = std::ffi::CStr::from_ptr((*entry).d_name.as_ptr());
            names.push(name.to_string_lossy().into_owned());
            if at == 400 {
                for at in 100..200 {
                    fs::remove_file(format!("m/low{at}")).expect("removed");
                }
            }
        }
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        println!("{} {}", names.len(), sorted.len() == names.len());
        libc::seekdir(stream, place);
        let entry = libc::readdir(stream);
        let name = std::ffi::CStr::from_ptr((*entry).d_name.as_ptr());
        println!("{}", name.to_string_lossy() == names[300]);
        libc::rewinddir(stream);
        let mut count = 0;
        while !libc::readdir(stream).is_null() {
            count += 1;
        }
        println!("{count}");
        libc::closedir(stream);
    }
    unmount("m", 0);
}
