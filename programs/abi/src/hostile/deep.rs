//! Deeply nested folders: removed while the deepest is open, unmounted, and asked for their path.

use std::ffi::CStr;

use crate::{in_child, tell, tell_end, tell_ok};

/// Deeper than any stack allows recursion.
const DEPTH: u32 = 3_000;
const NAME: &CStr = c"d";

/// Creates the folders, and changes to the deepest.
unsafe fn descend() {
    for _ in 0..DEPTH {
        // SAFETY: the name is NUL-terminated.
        let failed = unsafe { libc::mkdir(NAME.as_ptr(), 0o755) | libc::chdir(NAME.as_ptr()) };
        if failed != 0 {
            return tell_ok("down", false);
        }
    }
}

/// Removes the folders from the deepest up; the deepest stays open.
unsafe fn removed() {
    // SAFETY: the names are NUL-terminated.
    unsafe {
        descend();
        let deepest = libc::open(c".".as_ptr(), libc::O_RDONLY);
        let mut failed = 0;
        for _ in 0..DEPTH {
            failed += (libc::chdir(c"..".as_ptr()) | libc::rmdir(NAME.as_ptr())) & 1;
        }
        println!("removed, but {failed}");
        tell("the deepest goes", libc::close(deepest));
    }
}

/// Asks for the path of the deepest folder.
unsafe fn path() {
    let mut room = vec![0u8; 8192];
    // SAFETY: the names are NUL-terminated, and the buffer is as long as stated.
    unsafe {
        descend();
        let to = room.as_mut_ptr();
        tell("getcwd", libc::syscall(libc::SYS_getcwd, to, room.len()));
        let link = c"/proc/self/cwd".as_ptr();
        tell("cwd", libc::readlink(link, to.cast(), room.len()) as i64);
        tell("..", libc::access(c"../../d".as_ptr(), libc::F_OK));
    }
}

/// Unmounts the tree.
unsafe fn unmounted() {
    // SAFETY: the names are NUL-terminated; the options are not read.
    unsafe {
        let (kind, top) = (c"tmpfs".as_ptr(), c"top".as_ptr());
        libc::mkdir(top, 0o755);
        tell("mount", libc::mount(kind, top, kind, 0, std::ptr::null()));
        tell_end(
            "inside",
            in_child(|| {
                libc::chdir(top);
                descend();
                tell("busy", libc::umount2(c"/tmp/top".as_ptr(), 0));
            }),
        );
        tell("umount", libc::umount2(top, 0));
        tell("top goes", libc::rmdir(top));
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: each is called in its own process, in its own folder.
    unsafe {
        tell_end("removed", in_child(|| removed()));
        unmounted();
        tell_end("path", in_child(|| path()));
    }
}
