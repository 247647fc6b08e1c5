//! Effects of some of the choices.

use std::ffi::CStr;
use std::{mem, ptr};

use libc::{AT_FDCWD, c_int};

use super::{IT, TWO, file, outcome};
use crate::{error, in_child, path, tell, tell_end};

/// epoll's files of a set and io contexts, which clone can share.
pub unsafe fn shared() {
    unsafe {
        let own = libc::getpid();
        let same = |kind: c_int, first: usize, second: usize, other: c_int| match libc::syscall(
            libc::SYS_kcmp,
            own,
            other,
            kind,
            first,
            second,
        ) {
            0 => "the same",
            -1 => error(),
            _ => "others",
        };
        let set = libc::epoll_create1(0);
        let mut ends = [0; 2];
        libc::pipe(ends.as_mut_ptr());
        let mut event = libc::epoll_event { events: 1, u64: 0 };
        let member = libc::dup(ends[0]);
        libc::epoll_ctl(set, 1, member, &mut event);
        for (what, file, slot) in [
            ("its file", ends[0], [set, member, 0]),
            ("another file", ends[1], [set, member, 0]),
            ("no second", ends[0], [set, member, 1]),
            ("no member", ends[0], [set, ends[1], 0]),
            ("no set", ends[0], [ends[1], member, 0]),
            ("no file", 700, [set, member, 0]),
        ] {
            let slot = slot.as_ptr().addr();
            println!("{what} in a set: {}", same(7, file as usize, slot, own));
        }
        let level = |of: c_int| libc::syscall(libc::SYS_ioprio_get, 1, of) & 7;
        println!("no context: {}", same(5, 0, 0, own));
        libc::syscall(libc::SYS_ioprio_set, 1, 0, 2 << 13 | 6);
        for flags in [0, libc::CLONE_IO] {
            let mut gate = [0; 2];
            libc::pipe(gate.as_mut_ptr());
            let flags = flags as u32 | libc::SIGCHLD as u32;
            let child = libc::syscall(libc::SYS_clone, flags as usize, 0, 0, 0, 0) as c_int;
            if child == 0 {
                libc::syscall(libc::SYS_ioprio_set, 1, 0, 2 << 13 | 3);
                libc::write(gate[1], path(c"!").cast(), 1);
                libc::pause();
                libc::_exit(0);
            }
            libc::read(gate[0], [0u8; 1].as_mut_ptr().cast(), 1);
            println!("{} {}, {}", level(0), level(child), same(5, 0, 0, child));
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
        }
        libc::syscall(libc::SYS_ioprio_set, 1, 0, 0);
    }
}

/// RENAME_WHITEOUT, and whiteouts by mknod, which any user may create.
pub unsafe fn whiteouts() {
    unsafe {
        let look = |what: &str, name: &CStr| {
            let mut stat: libc::stat = mem::zeroed();
            let result = libc::lstat(name.as_ptr(), &mut stat);
            println!(
                "{what}: {} {:o} {}",
                outcome(result.into()),
                stat.st_mode,
                stat.st_rdev
            );
        };
        let rename = |from: &CStr, to: &CStr, flags: c_int| {
            let (from, to) = (from.as_ptr(), to.as_ptr());
            libc::syscall(libc::SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags)
        };
        libc::close(file(IT, 1));
        tell("whiteout", rename(IT, TWO, 4));
        look("old", IT);
        look("new", TWO);
        tell("over it, but not", rename(TWO, IT, 5));
        tell("changed and white", rename(TWO, IT, 6));
        tell("changed", rename(TWO, IT, 2));
        look("old", IT);
        tell("over it", rename(IT, TWO, 4));
        look("old", IT);
        look("new", TWO);
        tell_end(
            "anybody",
            in_child(|| {
                libc::chdir(path(c"/tmp"));
                libc::setuid(1000);
                tell(
                    "whiteout",
                    libc::mknod(path(c"white"), libc::S_IFCHR | 0o600, 0),
                );
                tell(
                    "device",
                    libc::mknod(path(c"null"), libc::S_IFCHR | 0o600, libc::makedev(1, 3)),
                );
                tell("disk", libc::mknod(path(c"disk"), libc::S_IFBLK | 0o600, 0));
                libc::close(file(c"own", 1));
                tell("whiteout", rename(c"own", c"other", 4));
                look("old", c"own");
            }),
        );
        for name in [IT, TWO, c"/tmp/white", c"/tmp/own", c"/tmp/other"] {
            libc::unlink(name.as_ptr());
        }
    }
}
