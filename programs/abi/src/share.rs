//! Files that a server has (9P), in the current folder: open files without a name, sizes, data at
//! the end, attributes and locks.

use std::ffi::{CStr, c_void};
use std::mem;

use libc::{
    F_SETLK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_UN, O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_WRONLY,
    XATTR_CREATE, XATTR_REPLACE, c_int,
};

use crate::ext4::{at, open};
use crate::{in_child, path, tell, tell_end};

const NAME: &CStr = c"user.colour";

unsafe fn stat(file: c_int) -> libc::stat {
    unsafe {
        let mut stat = mem::zeroed();
        tell("fstat", libc::fstat(file, &mut stat));
        stat
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to live memory of the right length.
    unsafe {
        unnamed();
        sizes();
        ends();
        attributes();
        locks();
    }
}

unsafe fn write(file: c_int, text: &str) {
    let written = unsafe { libc::write(file, text.as_ptr().cast(), text.len()) };
    tell("write", written as c_int);
}

/// What a file still is without a name.
unsafe fn unnamed() {
    unsafe {
        println!("== without a name");
        let file = open(c"gone", O_CREAT | O_RDWR);
        write(file, "12345678");
        tell("unlink", libc::unlink(path(c"gone")));
        tell("ftruncate", libc::ftruncate(file, 5));
        println!("size {}", stat(file).st_size);
        let times = [at(1, 0), at(2, 0)];
        tell("futimens", libc::futimens(file, times.as_ptr()));
        tell("fchmod", libc::fchmod(file, 0o600));
        tell("fsync", libc::fsync(file));
        libc::close(file);
    }
}

/// Sizes that are set by a name and by a descriptor.
unsafe fn sizes() {
    unsafe {
        println!("== sizes");
        let file = open(c"sized", O_CREAT | O_RDWR);
        write(file, "12345678");
        tell("fchmod", libc::fchmod(file, 0o400));
        tell("ftruncate", libc::ftruncate(file, 6));
        tell("fchmod", libc::fchmod(file, 0o600));
        libc::close(file);
        let reader = open(c"sized", O_RDONLY);
        tell("truncate", libc::truncate(path(c"sized"), 4));
        println!("size {}", stat(reader).st_size);
        tell("ftruncate", libc::ftruncate(reader, 2));
        // Nothing is written beyond the end.
        let writer = open(c"sized", O_WRONLY);
        tell(
            "pwrite",
            libc::pwrite(writer, NAME.as_ptr().cast(), 0, 100) as c_int,
        );
        println!("size {}", stat(reader).st_size);
        libc::close(writer);
        libc::close(reader);
    }
}

/// Data goes to the end, also by the descriptor that made the file.
unsafe fn ends() {
    unsafe {
        println!("== at the end");
        let first = open(c"log", O_CREAT | O_APPEND | O_WRONLY);
        let second = open(c"log", O_APPEND | O_WRONLY);
        for file in [first, second, first] {
            write(file, "line\n");
        }
        tell(
            "pwrite",
            libc::pwrite(first, NAME.as_ptr().cast(), 4, 0) as c_int,
        );
        println!("size {}", stat(second).st_size);
        libc::close(first);
        libc::close(second);
    }
}

unsafe fn set(name: &'static CStr, value: &[u8], flags: c_int) -> c_int {
    let (data, len) = (value.as_ptr().cast::<c_void>(), value.len());
    unsafe { libc::setxattr(path(c"log"), path(name), data, len, flags) }
}

/// Extended attributes.
unsafe fn attributes() {
    unsafe {
        println!("== attributes");
        let mut value = [0u8; 4096];
        let into = value.as_mut_ptr();
        let get = |size| {
            let count = libc::getxattr(path(c"log"), path(NAME), into.cast(), size);
            tell("get", count as c_int);
        };
        get(100);
        tell("replace", set(NAME, b"red", XATTR_REPLACE));
        tell("create", set(NAME, b"red", XATTR_CREATE));
        tell("create", set(NAME, b"blue", XATTR_CREATE));
        get(100);
        get(2);
        get(0);
        tell("set", set(NAME, &[b'x'; 3000], 0));
        get(4096);
        let len = libc::listxattr(path(c"log"), value.as_mut_ptr().cast(), value.len());
        let names = &value[..len.max(0) as usize];
        let names = names.split(|byte| *byte == 0);
        let found = names.filter(|name| *name == NAME.to_bytes()).count();
        println!("listed {found}");
        tell("empty", set(c"user.", b"x", 0));
        tell("family", set(c"colour", b"x", 0));
        tell("remove", libc::removexattr(path(c"log"), path(NAME)));
        tell("remove", libc::removexattr(path(c"log"), path(NAME)));
    }
}

/// Locks exclude others of this machine.
unsafe fn locks() {
    unsafe {
        println!("== locks");
        let file = open(c"log", O_RDWR);
        tell("flock", libc::flock(file, LOCK_EX | LOCK_NB));
        let other = open(c"log", O_RDWR);
        tell("flock", libc::flock(other, LOCK_EX | LOCK_NB));
        tell("flock", libc::flock(file, LOCK_UN));
        tell("flock", libc::flock(other, LOCK_EX | LOCK_NB));
        // Linux has both kinds of lock exclude each other here.
        tell("flock", libc::flock(other, LOCK_UN));
        let mut range: libc::flock = mem::zeroed();
        range.l_type = F_WRLCK as _;
        (range.l_start, range.l_len) = (0, 5);
        tell("lock", libc::fcntl(file, F_SETLK, &range));
        let status = in_child(|| {
            tell("lock", libc::fcntl(file, F_SETLK, &range));
            range.l_start = 5;
            tell("lock", libc::fcntl(file, F_SETLK, &range));
        });
        tell_end("child", status);
        libc::close(other);
        libc::close(file);
        tell("unlink", libc::unlink(path(c"log")));
        tell("unlink", libc::unlink(path(c"sized")));
    }
}
