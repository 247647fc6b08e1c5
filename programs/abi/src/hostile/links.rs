//! Links in shared folders that would lead a privileged program to files of the user's choice
//! (`fs.protected_*`), and folders of others that the user moves.

use std::ffi::CStr;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};

use libc::{AT_EMPTY_PATH, AT_FDCWD, O_CREAT, O_RDONLY, O_WRONLY};

use super::USER;
use crate::{in_child, tell, tell_end, tell_ok};

fn mode(path: &str, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("root may");
}

fn protect(what: &str, level: u32) {
    let path = format!("/proc/sys/fs/protected_{what}");
    fs::write(path, format!("{level}\n")).expect("root may");
}

unsafe fn as_user(what: &str, work: impl FnOnce()) {
    let status = in_child(|| {
        // SAFETY: no pointer is passed.
        unsafe { libc::setgroups(0, std::ptr::null()) };
        unsafe { _ = libc::setgid(USER) + libc::setuid(USER) };
        work();
    });
    tell_end(what, status);
}

unsafe fn open(what: &str, path: &CStr, flags: i32) {
    // SAFETY: the path is NUL-terminated.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    tell_ok(what, file >= 0);
    // SAFETY: no pointer is passed.
    unsafe { libc::close(file) };
}

/// Files to which the user may create hard links.
unsafe fn hard_links() {
    fs::write("program", "").expect("a fresh file");
    fs::write("open", "").expect("a fresh file");
    mode("program", 0o4755);
    mode("open", 0o666);
    let passed = fs::File::open("open").expect("a file");
    // SAFETY: the paths are NUL-terminated.
    unsafe {
        as_user("hard links", || {
            tell(
                "a foreign program",
                libc::link(c"program".as_ptr(), c"mine/program".as_ptr()),
            );
            let program = libc::open(c"program".as_ptr(), O_RDONLY);
            let (none, new) = (c"".as_ptr(), c"mine/program".as_ptr());
            tell(
                "by its descriptor",
                libc::linkat(program, none, AT_FDCWD, new, AT_EMPTY_PATH),
            );
            let own = libc::open(c"mine".as_ptr(), libc::O_TMPFILE | O_WRONLY, 0o600);
            let (passed, new) = (passed.as_raw_fd(), c"mine/passed".as_ptr());
            for (what, file) in [("its own file", own), ("one that root opened", passed)] {
                tell(what, libc::linkat(file, none, AT_FDCWD, new, AT_EMPTY_PATH));
                libc::unlink(new);
            }
            tell(
                "an open file",
                libc::link(c"open".as_ptr(), c"mine/open".as_ptr()),
            );
        });
    }
}

/// Links and files in a sticky folder that root and another user follow and open.
unsafe fn sticky_folder() {
    // SAFETY: the paths are NUL-terminated.
    unsafe {
        as_user("a trap", || {
            fs::write("shared/file", "").expect("a fresh file");
            mode("shared/file", 0o666);
            std::os::unix::fs::symlink("../victim", "shared/link").expect("a fresh link");
            libc::mkfifo(c"shared/pipe".as_ptr(), 0o666);
        });
        libc::chmod(c"shared/pipe".as_ptr(), 0o666);
        open("a foreign link", c"shared/link", O_WRONLY);
        open("the same, not at the end", c"shared/link/..", O_RDONLY);
        open("O_CREAT by it", c"shared/link", O_WRONLY | O_CREAT);
        open("a foreign file", c"shared/file", O_WRONLY);
        open("O_CREAT of it", c"shared/file", O_WRONLY | O_CREAT);
        open(
            "O_CREAT of a foreign pipe",
            c"shared/pipe",
            libc::O_RDWR | O_CREAT,
        );
    }
}

/// The user moves root's folder from one of the user's own folders to another.
unsafe fn foreign_folder() {
    for folder in ["mine/one", "mine/two"] {
        fs::create_dir(folder).expect("a fresh folder");
        chown(folder, Some(USER), Some(USER)).expect("root may");
    }
    fs::create_dir("mine/one/theirs").expect("a fresh folder");
    fs::create_dir("shared/theirs").expect("a fresh folder");
    // SAFETY: the paths are NUL-terminated.
    unsafe {
        as_user("a foreign folder", || {
            let here = c"mine/one/theirs".as_ptr();
            tell("elsewhere", libc::rename(here, c"mine/two/theirs".as_ptr()));
            tell(
                "out of a sticky one",
                libc::rename(c"shared/theirs".as_ptr(), here),
            );
            tell(
                "another name",
                libc::rename(here, c"mine/one/other".as_ptr()),
            );
        });
    }
}

/// Runs this part.
pub fn run() {
    for folder in ["mine", "shared"] {
        fs::create_dir(folder).expect("a fresh folder");
    }
    mode("mine", 0o777);
    mode("shared", 0o1777);
    fs::write("victim", "").expect("a fresh file");
    for kind in ["hardlinks", "symlinks", "fifos", "regular"] {
        protect(kind, 1);
    }
    // SAFETY: all pointers are to live values.
    unsafe {
        hard_links();
        sticky_folder();
        foreign_folder();
        println!("without protection:");
        for kind in ["hardlinks", "symlinks", "fifos", "regular"] {
            protect(kind, 0);
        }
        hard_links();
        open("a foreign link", c"shared/link", O_WRONLY);
        open(
            "O_CREAT of a foreign file",
            c"shared/file",
            O_WRONLY | O_CREAT,
        );
    }
}
