//! Operations of users other than root.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;

use super::{USUAL, attribute, attributes, done, fresh, mount, set_attribute, show, text, unmount};
use crate::{in_child, tell, tell_end};

/// Runs this part.
pub fn run() {
    println!("== another user");
    fresh();
    for (path, mode, owner) in [
        ("l/his", 0o600, 1000),
        ("l/roots", 0o644, 0),
        ("l/all", 0o666, 0),
        ("l/secret", 0o600, 0),
        ("l/set", 0o6777, 0),
    ] {
        fs::write(path, path).expect("made");
        owned(path, mode, owner);
    }
    for (path, mode, owner) in [
        ("l/open", 0o777, 0),
        ("l/sticky", 0o1777, 0),
        ("l/closed", 0o700, 0),
        ("l/home", 0o755, 1000),
        ("l/group", 0o2777, 0),
    ] {
        fs::create_dir(path).expect("made");
        fs::write(format!("{path}/file"), path).expect("made");
        owned(path, mode, owner);
    }
    set_attribute("l/his", "trusted.note", "secret");
    set_attribute("l/his", "user.note", "own");
    owned("u", 0o755, 0);
    owned("w", 0o700, 0);
    if !mount(USUAL) {
        return;
    }
    tell_end(
        "user",
        in_child(|| {
            // SAFETY: no pointer is passed.
            unsafe {
                libc::umask(0o022);
                libc::setgroups(0, std::ptr::null());
                libc::setgid(1000);
                libc::setuid(1000);
            }
            user();
        }),
    );
    show("m");
    show("u");
    for path in ["u/his", "u/open/made"] {
        println!("{:?} {}", attributes(path), attribute(path, "trusted.note"));
    }
    unmount("m", 0);
}

fn owned(path: &str, mode: u32, owner: u32) {
    // SAFETY: the pointer is to a NUL-terminated string.
    unsafe {
        libc::chown(text(path).as_ptr(), owner, 7);
        libc::chmod(text(path).as_ptr(), mode as _);
    }
}

fn user() {
    for name in ["his", "roots", "all", "secret", "set"] {
        let open = OpenOptions::new().append(true).open(format!("m/{name}"));
        if let Some(mut file) = done(name, open) {
            use std::io::Write;
            done("write", file.write_all(b" written"));
        }
    }
    println!("{:?}", attributes("m/his"));
    tell(
        "trusted",
        set_attribute("m/his", "trusted.overlay.opaque", "y"),
    );
    tell("user", set_attribute("m/his", "user.overlay.opaque", "y"));
    println!("{}", attribute("m/his", "trusted.note"));
    for folder in ["open", "sticky", "closed", "home", "group", "."] {
        println!("-- {folder}");
        done("make", fs::write(format!("m/{folder}/made"), ""));
        done("folder", fs::create_dir(format!("m/{folder}/folder")));
        done("link", symlink("x", format!("m/{folder}/link")));
        done("remove", fs::remove_file(format!("m/{folder}/file")));
        done("anew", fs::create_dir(format!("m/{folder}/file")));
        done(
            "rename",
            fs::rename(format!("m/{folder}/made"), format!("m/{folder}/other")),
        );
    }
    done(
        "chmod",
        fs::set_permissions("m/roots", fs::metadata("l/his").expect("x").permissions()),
    );
    done("work", fs::read_dir("w/work"));
    // SAFETY: the pointers are to NUL-terminated strings.
    unsafe {
        tell(
            "whiteout",
            libc::mknod(c"m/open/none".as_ptr(), libc::S_IFCHR, 0),
        );
        tell("pipe", libc::mkfifo(c"m/open/pipe".as_ptr(), 0o600));
        tell("access", libc::access(c"m/all".as_ptr(), libc::W_OK));
        tell("access", libc::access(c"m/secret".as_ptr(), libc::R_OK));
    }
}
