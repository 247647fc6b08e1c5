//! Mounts: one folder in several places, each with its own flags, moved, stacked, and unmounted
//! while in use.

use std::ffi::CStr;
use std::fs;
use std::ptr;

use libc::{
    MNT_DETACH, MNT_EXPIRE, MS_BIND, MS_MOVE, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_PRIVATE,
    MS_RDONLY, MS_REC, MS_REMOUNT, MS_SLAVE, MS_UNBINDABLE, O_CREAT, O_RDONLY, O_RDWR,
};

use crate::{tell, tell_ok};

fn mount(what: &str, from: &CStr, at: &CStr, flags: u64) {
    let kind = c"tmpfs".as_ptr();
    // SAFETY: the paths are NUL-terminated; there are no options.
    tell(what, unsafe {
        libc::mount(from.as_ptr(), at.as_ptr(), kind, flags, ptr::null())
    });
}

fn umount(what: &str, at: &CStr, flags: i32) {
    // SAFETY: the path is NUL-terminated.
    tell(what, unsafe { libc::umount2(at.as_ptr(), flags) });
}

fn open(what: &str, path: &CStr, flags: i32) -> i32 {
    // SAFETY: the path is NUL-terminated.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    tell_ok(what, file >= 0);
    file
}

fn close(file: i32) {
    // SAFETY: no pointer is passed.
    unsafe { libc::close(file) };
}

fn rename(what: &str, old: &CStr, new: &CStr) {
    // SAFETY: both paths are NUL-terminated.
    tell(what, unsafe { libc::rename(old.as_ptr(), new.as_ptr()) });
}

/// The number of mounts below this folder.
fn count() -> usize {
    let here = std::env::current_dir().expect("a folder");
    let here = here.to_str().expect("a plain name");
    let table = fs::read_to_string("/proc/self/mountinfo").expect("procfs");
    let paths = table.lines().filter_map(|line| line.split(' ').nth(4));
    paths
        .filter(|path| path.starts_with(here) && *path != here)
        .count()
}

/// One folder in two places.
unsafe fn twice() {
    fs::create_dir_all("a/below").expect("a fresh folder");
    fs::create_dir("b").expect("a fresh folder");
    fs::write("a/file", "").expect("a fresh file");
    mount("bind", c"a", c"b", MS_BIND);
    rename("into itself", c"a", c"b/x");
    rename("to the other place", c"a/file", c"b/other");
    // SAFETY: the paths are NUL-terminated.
    unsafe {
        tell(
            "a link there",
            libc::link(c"a/file".as_ptr(), c"b/other".as_ptr()),
        );
        tell("removed there", libc::unlink(c"b/file".as_ptr()));
        tell("is gone here", libc::access(c"a/file".as_ptr(), libc::F_OK));
        libc::chdir(c"b/below".as_ptr());
        let path = std::env::current_dir().expect("a folder");
        println!("is below b: {}", path.ends_with("b/below"));
        libc::chdir(c"../..".as_ptr());
        tell("what is mounted on", libc::rmdir(c"b".as_ptr()));
    }
    fs::create_dir_all("e/below").expect("a fresh folder");
    mount("a full folder", c"none", c"e", 0);
    // SAFETY: the path is NUL-terminated.
    tell("which is mounted on", unsafe { libc::rmdir(c"e".as_ptr()) });
    umount("ended", c"e", 0);
}

/// A folder that is removed stays visible in another place, and keeps its path.
unsafe fn removed() {
    for name in ["f", "g"] {
        fs::create_dir(name).expect("a fresh folder");
    }
    mount("bind", c"f", c"g", MS_BIND);
    fs::remove_dir("f").expect("an empty folder");
    let table = fs::read_to_string("/proc/self/mountinfo").expect("procfs");
    let words = table.lines().map(|line| line.split(' '));
    let there: Vec<_> = words
        .filter_map(|mut line| Some((line.nth(3)?, line.next()?)))
        .filter(|(_, path)| path.ends_with("/g"))
        .map(|(root, _)| root.ends_with("/f//deleted"))
        .collect();
    println!("seen at the other place, removed: {there:?}");
    umount("ended", c"g", 0);
    fs::remove_dir("g").expect("an empty folder");
}

/// Flags of one of two places.
unsafe fn flags() {
    fs::write("a/file", "").expect("a fresh file");
    let file = open("to write", c"b/file", O_RDWR);
    mount(
        "read-only, in use",
        c"none",
        c"b",
        MS_REMOUNT | MS_BIND | MS_RDONLY,
    );
    close(file);
    let flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    mount("read-only", c"none", c"b", MS_REMOUNT | MS_BIND | flags);
    close(open("to write there", c"b/file", O_RDWR));
    close(open("to read there", c"b/file", O_RDONLY));
    close(open("to make there", c"b/new", O_RDWR | O_CREAT));
    close(open("to write here", c"a/file", O_RDWR));
    // SAFETY: the paths are NUL-terminated, and the structure is live.
    unsafe {
        libc::chmod(c"a/file".as_ptr(), 0o755);
        tell(
            "a program there",
            libc::access(c"b/file".as_ptr(), libc::X_OK),
        );
        tell(
            "a program here",
            libc::access(c"a/file".as_ptr(), libc::X_OK),
        );
        tell("chmod", libc::chmod(c"b/file".as_ptr(), 0o644));
        let mut stat = std::mem::zeroed::<libc::statfs>();
        libc::statfs(c"b".as_ptr(), &mut stat);
        println!("flags {:#x}", stat.f_flags & 0xf);
        libc::mknod(
            c"a/null".as_ptr(),
            libc::S_IFCHR | 0o666,
            libc::makedev(1, 3),
        );
        close(open("a device here", c"a/null", O_RDONLY));
        close(open("a device there", c"b/null", O_RDONLY));
    }
    mount("of no mount", c"none", c"a", MS_REMOUNT | MS_BIND);
    mount("writable again", c"none", c"b", MS_REMOUNT | MS_BIND);
    close(open("to write there", c"b/file", O_RDWR));
}

/// Mounts below mounts, bound recursively, moved, and unmounted together.
unsafe fn trees() {
    fs::create_dir("c").expect("a fresh folder");
    fs::create_dir("d").expect("a fresh folder");
    mount("below", c"none", c"a/below", 0);
    println!("{} mounts", count());
    mount("bind all", c"a", c"c", MS_BIND | MS_REC);
    println!("{} mounts", count());
    mount("unbindable", c"none", c"c/below", MS_UNBINDABLE);
    mount("bind that", c"c/below", c"d", MS_BIND);
    mount("private", c"none", c"c/below", MS_PRIVATE);
    mount("slave", c"none", c"c/below", MS_SLAVE);
    mount("two kinds", c"none", c"c/below", MS_SLAVE | MS_PRIVATE);
    mount("of no mount", c"none", c"d", MS_PRIVATE);
    mount("move", c"c", c"d", MS_MOVE);
    mount("into itself", c"d", c"d/below", MS_MOVE);
    fs::write("d/below/file", "").expect("a mount");
    // SAFETY: the path is NUL-terminated.
    tell("gone from", unsafe {
        libc::access(c"c/below".as_ptr(), libc::F_OK)
    });
    umount("in use", c"d", 0);
    umount("all", c"d", MNT_DETACH);
    println!("{} mounts", count());
    umount("expires", c"a/below", MNT_EXPIRE);
    umount("expired", c"a/below", MNT_EXPIRE);
    umount("expired before", c"a/below", MNT_EXPIRE);
}

/// Files that are used after their mount was detached.
unsafe fn later() {
    mount("a file system", c"none", c"c", 0);
    fs::create_dir_all("c/deep/er").expect("a mount");
    fs::write("c/deep/er/file", "text").expect("a mount");
    // SAFETY: the paths are NUL-terminated.
    unsafe {
        let folder = open("a folder", c"c/deep", O_RDONLY);
        umount("busy", c"c", 0);
        umount("lazily", c"c", MNT_DETACH);
        let file = libc::openat(folder, c"er/file".as_ptr(), O_RDONLY);
        tell_ok("a file in it", file >= 0);
        close(file);
        close(folder);
    }
}

/// Hundreds of mounts on top of one another.
unsafe fn stack() {
    const HEIGHT: usize = 500;
    let before = count();
    let mut failed = 0;
    let (none, here) = (c"none".as_ptr(), c"d".as_ptr());
    // SAFETY: the paths are NUL-terminated; there are no options.
    unsafe {
        for _ in 0..HEIGHT {
            failed += libc::mount(none, here, c"tmpfs".as_ptr(), 0, ptr::null());
        }
        println!("stacked: {} of {HEIGHT}, {failed} failed", count() - before);
        for _ in 0..HEIGHT {
            failed += libc::umount2(here, 0);
        }
    }
    println!("ended: {failed} failed, {} left", count() - before);
}

/// A tower of mounts, listed, and detached with the mount below it.
unsafe fn tower() {
    const HEIGHT: usize = 3000;
    let before = count();
    mount("around it", c"none", c"d", 0);
    fs::create_dir("d/tower").expect("a mount");
    let (none, there) = (c"none".as_ptr(), c"d/tower".as_ptr());
    for _ in 0..HEIGHT {
        // SAFETY: the paths are NUL-terminated; there are no options.
        unsafe { libc::mount(none, there, c"ramfs".as_ptr(), 0, ptr::null()) };
    }
    println!("as high as {} of {HEIGHT}", count() - before - 1);
    umount("all", c"d", MNT_DETACH);
    println!("{} left", count() - before);
}

/// Runs this part.
pub fn run() {
    // SAFETY: all pointers are to live values.
    unsafe {
        twice();
        flags();
        trees();
        removed();
        later();
        stack();
        tower();
    }
}
