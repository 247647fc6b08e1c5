//! Mount options, their display in /proc/self/mounts, remounts, and unmounts.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use libc::{MNT_DETACH, MS_BIND, MS_RDONLY, MS_REMOUNT, c_ulong};

use super::{USUAL, attribute, done, fresh, mount, mount_at, show, text, unmount};
use crate::{in_child, tell, tell_end};

const OPTIONS: &[&str] = &[
    "",
    "lowerdir=l",
    "lowerdir=l:l2",
    "lowerdir=l:l2,workdir=w",
    "lowerdir=l:l2,upperdir=u",
    "lowerdir=l:l2,upperdir=u,workdir=w",
    "lowerdir=l:l2,upperdir=u,workdir=w,ro",
    "upperdir=u,workdir=w",
    "lowerdir=,upperdir=u,workdir=w",
    "lowerdir=l,lowerdir=,upperdir=u,workdir=w",
    "lowerdir=l,upperdir=,workdir=w",
    "lowerdir=l,upperdir,workdir=w",
    "lowerdir,upperdir=u,workdir=w",
    "lowerdir=absent,upperdir=u,workdir=w",
    "lowerdir=file,upperdir=u,workdir=w",
    "lowerdir=l,upperdir=absent,workdir=w",
    "lowerdir=l,upperdir=file,workdir=w",
    "lowerdir=l,upperdir=u,workdir=file",
    "lowerdir=l,upperdir=u,workdir=u",
    "lowerdir=l,upperdir=u,workdir=u/in",
    "lowerdir=l,upperdir=w/in,workdir=w",
    "lowerdir=l,upperdir=u,workdir=other",
    "lowerdir=l,upperdir=fixed/u,workdir=fixed/w",
    "lowerdir=l:l",
    "lowerdir=l:l/d",
    "lowerdir=l/d:l",
    "lowerdir=u,upperdir=u,workdir=w",
    "lowerdir=w,upperdir=u,workdir=w",
    "lowerdir=w/work,upperdir=u,workdir=w",
    "lowerdir=u/in,upperdir=u,workdir=w",
    "lowerdir=l,upperdir=l/d,workdir=w",
    "lowerdir=a\\:b:l",
    "lowerdir=a:b:l",
    "lowerdir=c\\,d:l",
    "lowerdir=e e:l",
    "lowerdir=:l",
    "lowerdir=l:",
    "lowerdir=l::",
    "lowerdir=l:::l2",
    "lowerdir+=l",
    "lowerdir+=l,lowerdir+=l2",
    "lowerdir+=l,upperdir=u,workdir=w",
    "lowerdir+=a:b,lowerdir+=l",
    "lowerdir+=a\\:b,lowerdir+=l",
    "lowerdir+=,lowerdir+=l",
    "lowerdir=l,lowerdir+=l2",
    "lowerdir+=l,lowerdir=l2:l3",
    "lowerdir=l:l2,redirect_dir=off",
    "lowerdir=l:l2,redirect_dir=follow",
    "lowerdir=l:l2,redirect_dir=nofollow",
    "lowerdir=l:l2,redirect_dir=perhaps",
    "lowerdir=l:l2,redirect_dir",
    "lowerdir=l,upperdir=u,workdir=w,redirect_dir=nofollow",
    "lowerdir=l,upperdir=u,workdir=w,redirect_dir=follow",
    "lowerdir=l,upperdir=u,workdir=w,index=off,metacopy=off,nfs_export=off,xino=off,verity=off",
    "lowerdir=l,upperdir=u,workdir=w,index=perhaps",
    "lowerdir=l,upperdir=u,workdir=w,uuid=on",
    "lowerdir=l,upperdir=u,workdir=w,uuid=null",
    "lowerdir=l,upperdir=u,workdir=w,uuid=off",
    "lowerdir=l,upperdir=u,workdir=w,uuid=auto",
    "lowerdir=l,upperdir=u,workdir=w,uuid=perhaps",
    "lowerdir=l:l2,uuid=on",
    "lowerdir=l:l2,uuid=null",
    "lowerdir=l:l2,uuid=off",
    "lowerdir=l,upperdir=u,workdir=w,fsync=auto",
    "lowerdir=l,upperdir=u,workdir=w,fsync=strict",
    "lowerdir=l,upperdir=u,workdir=w,fsync=perhaps",
    "lowerdir=l:l2,volatile",
    "lowerdir=l,upperdir=u,workdir=w,userxattr",
    "lowerdir=l,upperdir=u,workdir=w,userxattr,redirect_dir=follow",
    "lowerdir=l:l2,userxattr",
    "lowerdir=l,upperdir=u,workdir=w,default_permissions",
    "lowerdir=l,upperdir=u,workdir=w,nonsense",
    "lowerdir=l,upperdir=u,workdir=w,size=1m",
    "lowerdir=l,upperdir=u,workdir=w,sync,dirsync",
    "lowerdir=l,upperdir=u,workdir=w,volatile",
    "lowerdir=l,upperdir=u,workdir=w",
];

/// Runs this part.
pub fn run() {
    fresh();
    for folder in [
        "l/d", "l3", "a:b", "a", "b", "c,d", "e e", "u/in", "w/in", "other", "fixed",
    ] {
        fs::create_dir_all(folder).expect("made");
    }
    fs::write("file", "").expect("made");
    beside("other", 0);
    beside("fixed", 0);
    fs::create_dir("fixed/u").expect("made");
    fs::create_dir("fixed/w").expect("made");
    beside("fixed", MS_REMOUNT | MS_RDONLY);
    for options in OPTIONS {
        println!("== {options}");
        if mount(options) {
            println!("{}", line());
            unmount("m", 0);
        }
    }
    show("w");
    _ = fs::remove_dir_all("w/work/incompat");
    for place in ["other", "fixed"] {
        unmount(place, 0);
    }
    statistics();
    remounts();
    ends();
    stacks();
    left_over();
}

/// Mounts a tmpfs, or remounts it.
fn beside(place: &str, flags: c_ulong) {
    // SAFETY: every pointer is to a NUL-terminated string.
    let done = unsafe {
        libc::mount(
            c"none".as_ptr(),
            text(place).as_ptr(),
            c"tmpfs".as_ptr(),
            flags,
            std::ptr::null(),
        )
    };
    tell("beside", done);
}

/// The line of /proc/self/mounts for the overlay at `m`, without its path.
fn line() -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("read");
    let line = mounts.lines().rfind(|line| line.contains(" overlay "));
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    words[2..].join(" ")
}

fn statistics() {
    println!("== statfs");
    fresh();
    if !mount(USUAL) {
        return;
    }
    // SAFETY: the structure has only integers; the pointers are to it and to a string.
    unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        tell("statfs", libc::statfs(c"m".as_ptr(), &raw mut stat));
        let mut below: libc::statfs = std::mem::zeroed();
        libc::statfs(c"u".as_ptr(), &raw mut below);
        println!("{:x} {}", stat.f_type, stat.f_namelen);
        println!(
            "{}",
            stat.f_blocks == below.f_blocks && stat.f_bfree == below.f_bfree
        );
    }
    println!("{}", attribute("u", "trusted.overlay.uuid").is_empty());
    println!("{}", attribute("m", "trusted.overlay.uuid"));
    unmount("m", 0);
}

fn change(flags: c_ulong, options: &str) {
    // SAFETY: every pointer is to a NUL-terminated string.
    let done = unsafe {
        libc::mount(
            c"layers".as_ptr(),
            c"m".as_ptr(),
            c"overlay".as_ptr(),
            MS_REMOUNT | flags,
            text(options).as_ptr().cast(),
        )
    };
    tell(&format!("remount {flags:x} {options}"), done);
    println!("{}", line());
}

fn remounts() {
    println!("== remounts");
    fresh();
    fs::write("l/file", "lower").expect("made");
    if mount(USUAL) {
        change(MS_RDONLY, "");
        done("write", fs::write("m/file", "x"));
        done("remove", fs::remove_file("m/file"));
        change(0, "");
        let open = File::options().append(true).open("m/file");
        let open = done("open", open);
        change(MS_RDONLY, "");
        drop(open);
        change(0, "lowerdir=l2,nonsense");
        change(MS_RDONLY | MS_BIND, "");
        done("write", fs::write("m/file", "x"));
        unmount("m", 0);
    }
    if mount("lowerdir=l:l2") {
        done("write", fs::write("m/file", "x"));
        done("make", fs::write("m/new", "x"));
        done("make", fs::create_dir("m/new"));
        done("remove", fs::remove_file("m/file"));
        done("rename", fs::rename("m/file", "m/other"));
        change(0, "");
        unmount("m", 0);
    }
}

fn ends() {
    println!("== ends");
    fresh();
    fs::write("l/file", "lower").expect("made");
    if !mount(USUAL) {
        return;
    }
    let open = File::open("m/file").expect("open");
    unmount("m", 0);
    unmount("m", MNT_DETACH);
    println!(
        "{}",
        fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd())).is_ok()
    );
    println!("{}", std::io::read_to_string(open).unwrap_or_default());
    // The mounts of the layers may be unmounted first.
    beside("other", 0);
    for folder in ["other/l", "other/u", "other/w"] {
        fs::create_dir(folder).expect("made");
    }
    fs::write("other/l/file", "of another").expect("made");
    if mount("lowerdir=other/l,upperdir=other/u,workdir=other/w") {
        unmount("other", 0);
        println!("{}", fs::read_to_string("m/file").unwrap_or_default());
        done("write", fs::write("m/file", "written"));
        println!("{}", fs::read_to_string("m/file").unwrap_or_default());
        unmount("m", 0);
    }
}

/// An overlay as a layer of an overlay.
fn stacks() {
    println!("== stacks");
    fresh();
    for folder in ["m2", "m3", "u2", "w2"] {
        _ = fs::create_dir(folder);
    }
    fs::write("l/file", "lower").expect("made");
    fs::write("l/gone", "").expect("made");
    if !mount(USUAL) {
        return;
    }
    done("remove", fs::remove_file("m/gone"));
    mount_at("m2", "lowerdir=l2,upperdir=m,workdir=w2");
    if mount_at("m2", "lowerdir=m,upperdir=u2,workdir=w2") {
        show("m2");
        done("write", fs::write("m2/file", "third"));
        show("m2");
        show("m");
        mount_at("m3", "lowerdir=m2:l2");
        unmount("m2", 0);
    }
    unmount("m", 0);
}

/// Files that an earlier mount left in the work directory.
fn left_over() {
    println!("== left over");
    fresh();
    for folder in ["w/work/#1", "w/other"] {
        fs::create_dir_all(folder).expect("made");
    }
    fs::write("w/work/#1/file", "").expect("made");
    fs::write("w/work/#2", "").expect("made");
    if mount(USUAL) {
        show("w");
        unmount("m", 0);
    }
    fs::create_dir_all("w/work/a/b/c").expect("made");
    if mount(USUAL) {
        println!("{}", line());
        done("write", fs::write("m/file", "x"));
        unmount("m", 0);
    }
    tell_end(
        "nobody",
        in_child(|| {
            // SAFETY: no pointer is passed.
            unsafe { libc::setuid(1000) };
            mount(USUAL);
        }),
    );
}
