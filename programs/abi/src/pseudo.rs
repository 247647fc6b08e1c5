//! Attributes of objects that are on no disk: pipes, anonymous inodes, and the files of proc, sysfs
//! and devpts.

use std::ffi::CString;
use std::fs;
use std::mem;
use std::ptr;

use libc::c_int;

use crate::{in_child, tell, tell_end};

const USER: u32 = 1000;
const RWF_NOAPPEND: c_int = 32;

/// Runs this part.
pub fn run() {
    // SAFETY: every structure passed is complete, and children end by _exit.
    unsafe {
        pipes();
        anonymous();
        generated();
        written();
        extended();
        terminals();
        excerpts();
    }
}

/// Files that show a program's memory as it is at each read.
unsafe fn excerpts() {
    unsafe {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<_> = stat.split(' ').collect();
        for (path, first) in [(c"/proc/self/cmdline", 48), (c"/proc/self/environ", 50)] {
            let file = libc::open(path.as_ptr(), libc::O_RDONLY);
            let read = |at: libc::off_t, len: usize| {
                let mut bytes = vec![0u8; len];
                let count = libc::pread(file, bytes.as_mut_ptr().cast(), len, at);
                tell(&format!("{path:?} at the place"), count.min(0) as i64);
                bytes.truncate(count.max(0) as usize);
                bytes
            };
            let whole = read(0, 4096);
            let [first, end] =
                [first, first + 1].map(|field| fields[field - 1].parse().unwrap_or(0));
            println!("all of it: {}", whole.len() == end - first);
            let second = ptr::with_exposed_provenance_mut::<u8>(first + 1);
            let before = second.replace(b'#');
            println!("changed: {}", read(1, 1).escape_ascii());
            let rest: Vec<_> = (1..whole.len()).flat_map(|at| read_one(file, at)).collect();
            println!("byte by byte: {}", rest[1..] == whole[2..]);
            second.write(before);
            for beyond in [whole.len() as i64, whole.len() as i64 + 1, 1 << 40] {
                println!("beyond: {:?}", read(beyond, 8));
            }
            libc::close(file);
        }
        let whole = fs::read("/proc/self/auxv").unwrap_or_default();
        let file = libc::open(c"/proc/self/auxv".as_ptr(), libc::O_RDONLY);
        let parts: Vec<_> = (0..whole.len()).flat_map(|at| read_one(file, at)).collect();
        println!("auxv: {} {}", parts == whole, whole.is_empty());
        libc::close(file);
    }
}

unsafe fn read_one(file: c_int, at: usize) -> Option<u8> {
    let mut byte = 0u8;
    let count = unsafe { libc::pread(file, (&raw mut byte).cast(), 1, at as libc::off_t) };
    (count == 1).then_some(byte)
}

/// Files that can be written at an offset, and the errors of the others.
unsafe fn written() {
    unsafe {
        for path in [
            c"/proc/self/comm",
            c"/proc/self/timerslack_ns",
            c"/proc/self/oom_score_adj",
            c"/proc/self/coredump_filter",
            c"/proc/self/clear_refs",
            c"/proc/self/status",
            c"/proc/self/maps",
            c"/proc/self/mounts",
            c"/proc/sys/kernel/domainname",
            c"/proc/sys/fs/protected_symlinks",
            c"/proc/meminfo",
            c"/proc/sysvipc/msg",
            c"/sys/devices/system/cpu/online",
        ] {
            println!("{path:?}:");
            let name = path.to_str().expect("ASCII");
            let before = fs::read(name).unwrap_or_default();
            for (what, flags) in [
                ("to write", libc::O_WRONLY),
                ("for both", libc::O_RDWR),
                ("to read", libc::O_RDONLY),
            ] {
                let file = libc::open(path.as_ptr(), flags);
                if file < 0 {
                    tell(what, file);
                    continue;
                }
                let piece = libc::iovec {
                    iov_base: c"1".as_ptr().cast_mut().cast(),
                    iov_len: 1,
                };
                let at = |place| libc::pwrite(file, piece.iov_base, 1, place) as i64;
                let in_pieces = |flags| libc::pwritev2(file, &piece, 1, 0, flags) as i64;
                println!(" {what}:");
                let first = at(0);
                let none = first < 0 && *libc::__errno_location() == libc::ESPIPE;
                tell("  at a place", first);
                if none {
                    tell("  over", in_pieces(RWF_NOAPPEND));
                }
                tell("  further on", at(1));
                tell("  nowhere", libc::pwrite(file, 8 as *const _, 1, 0) as i64);
                tell("  in pieces", in_pieces(0));
                tell("  on", libc::write(file, piece.iov_base, 1) as i64);
                libc::close(file);
            }
            if name.starts_with("/proc/sys/") {
                _ = fs::write(name, before);
            }
        }
    }
}

/// Extended attributes of generated files.
unsafe fn extended() {
    unsafe {
        for path in [
            c"/sys/kernel",
            c"/proc/sys/kernel/hostname",
            c"/proc/version",
        ] {
            println!("{path:?}:");
            for name in [c"trusted.t", c"security.s", c"user.u", c"system.s", c"odd"] {
                let set = |flags| {
                    libc::setxattr(
                        path.as_ptr(),
                        name.as_ptr(),
                        ptr::from_ref(b"value").cast(),
                        5,
                        flags,
                    )
                };
                let get = || libc::getxattr(path.as_ptr(), name.as_ptr(), ptr::null_mut(), 0);
                println!(" {name:?}");
                tell("  none", get() as i64);
                tell("  replace", set(libc::XATTR_REPLACE));
                tell("  set", set(0));
                tell("  create", set(libc::XATTR_CREATE));
                tell("  get", get() as i64);
                tell(
                    "  all",
                    libc::listxattr(path.as_ptr(), ptr::null_mut(), 0) as i64,
                );
                let user = in_child(|| {
                    libc::setuid(USER);
                    tell("  user's get", get() as i64);
                    tell("  user's set", set(0));
                    tell(
                        "  user's all",
                        libc::listxattr(path.as_ptr(), ptr::null_mut(), 0) as i64,
                    );
                });
                tell_end("  user", user);
                tell("  remove", libc::removexattr(path.as_ptr(), name.as_ptr()));
                tell("  again", libc::removexattr(path.as_ptr(), name.as_ptr()));
            }
        }
    }
}

unsafe fn status(file: c_int) -> libc::stat {
    unsafe {
        let mut status: libc::stat = mem::zeroed();
        libc::fstat(file, &mut status);
        status
    }
}

unsafe fn show(what: &str, file: c_int) {
    unsafe {
        let status = status(file);
        let (mode, uid, gid) = (status.st_mode, status.st_uid, status.st_gid);
        println!("{what}: {mode:o} {uid} {gid} {}", status.st_mtime);
    }
}

fn by_descriptor(file: c_int) -> CString {
    CString::new(format!("/proc/self/fd/{file}")).expect("no zero")
}

const TIMES: [libc::timespec; 2] = [
    libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    },
    libc::timespec {
        tv_sec: 2,
        tv_nsec: 0,
    },
];

/// A pipe belongs to its creator.
unsafe fn pipes() {
    unsafe {
        let mut made = [0; 2];
        libc::pipe(made.as_mut_ptr());
        let [reader, writer] = made;
        let before = status(reader);
        println!("{:o} {}", before.st_mode, before.st_nlink);
        let times = |status: &libc::stat| {
            [
                (status.st_atime, status.st_atime_nsec),
                (status.st_mtime, status.st_mtime_nsec),
                (status.st_ctime, status.st_ctime_nsec),
            ]
        };
        let later = |what: &str, before: &libc::stat, after: &libc::stat| {
            let (before, after) = (times(before), times(after));
            let later: Vec<_> = (0..3).map(|at| after[at] > before[at]).collect();
            println!("{what}: {later:?}");
        };
        libc::usleep(50_000);
        libc::write(writer, b"ab".as_ptr().cast(), 2);
        let written = status(reader);
        later("written", &before, &written);
        libc::usleep(50_000);
        libc::read(reader, [0u8; 1].as_mut_ptr().cast(), 1);
        let read = status(reader);
        later("read", &written, &read);
        libc::usleep(50_000);
        later("nothing", &read, &status(writer));

        tell("mode", libc::fchmod(reader, 0o4640));
        tell("owner", libc::fchown(writer, USER as _, 7));
        tell("times", libc::futimens(reader, TIMES.as_ptr()));
        show("changed", writer);
        let name = by_descriptor(reader);
        tell("mode by its link", libc::chmod(name.as_ptr(), 0o604));
        tell("owner", libc::chown(name.as_ptr(), 8, 9));
        show("changed", writer);
        let set = libc::fsetxattr(reader, c"user.a".as_ptr(), b"1".as_ptr().cast(), 1, 0);
        tell("attribute", set);
        let set = libc::fsetxattr(reader, c"trusted.a".as_ptr(), b"1".as_ptr().cast(), 1, 0);
        tell("attribute", set);
        tell_end(
            "another user",
            in_child(|| {
                libc::setgid(USER);
                libc::setuid(USER);
                tell("mode", libc::fchmod(reader, 0o777));
                tell("owner", libc::fchown(reader, USER, USER));
                let open = |flags| tell("open", libc::open(name.as_ptr(), flags).min(0));
                open(libc::O_RDONLY);
                open(libc::O_WRONLY);
                let mut own = [0; 2];
                libc::pipe(own.as_mut_ptr());
                let status = status(own[0]);
                println!(
                    "own: {:o} {} {}",
                    status.st_mode, status.st_uid, status.st_gid
                );
                tell("mode", libc::fchmod(own[1], 0o4));
                tell("given away", libc::fchown(own[1], 0, 0));
                let name = by_descriptor(own[1]);
                tell("open", libc::open(name.as_ptr(), libc::O_RDONLY).min(0));
            }),
        );
        libc::close(reader);
        libc::close(writer);
    }
}

/// Properties common to eventfd, epoll and similar files.
unsafe fn anonymous() {
    unsafe {
        let files = [
            ("event", libc::eventfd(0, 0)),
            ("epoll", libc::epoll_create1(0)),
            ("timer", libc::timerfd_create(libc::CLOCK_MONOTONIC, 0)),
            ("inotify", libc::inotify_init1(0)),
        ];
        for (name, file) in files {
            let before = status(file);
            let (mode, links) = (before.st_mode, before.st_nlink);
            println!(
                "{name}: {mode:o} {links} {} {}",
                before.st_uid, before.st_gid
            );
        }
        let [(_, first), (_, second), ..] = files;
        let one = status(first).st_ino == status(second).st_ino;
        println!("one inode: {one}");
        tell("mode", libc::fchmod(first, 0o640));
        tell("owner", libc::fchown(first, 5, 6));
        tell("times", libc::futimens(first, TIMES.as_ptr()));
        show("changed", first);
        show("the other", second);
        let set = libc::fsetxattr(first, c"user.a".as_ptr(), b"1".as_ptr().cast(), 1, 0);
        tell("attribute", set);
        tell_end(
            "another user",
            in_child(|| {
                libc::setuid(USER);
                tell("mode", libc::fchmod(libc::eventfd(0, 0), 0o777));
            }),
        );
        tell("owner", libc::fchown(first, 0, 0));
        tell("mode", libc::fchmod(second, 0o600));
        for (_, file) in files {
            libc::close(file);
        }
        let pid = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as c_int;
        tell("mode of a process", libc::fchmod(pid, 0o600));
        libc::close(pid);
    }
}

/// Files whose content the kernel generates when they are read.
unsafe fn generated() {
    unsafe {
        for name in [
            c"/proc",
            c"/proc/meminfo",
            c"/proc/net/dev",
            c"/proc/sysvipc",
            c"/proc/sysvipc/shm",
            c"/proc/sys",
            c"/proc/sys/kernel",
            c"/proc/sys/kernel/hostname",
            c"/proc/sys/kernel/osrelease",
            c"/proc/self",
            c"/proc/self/status",
            c"/proc/self/comm",
            c"/proc/self/environ",
            c"/proc/self/mem",
            c"/proc/self/fd",
            c"/proc/self/fdinfo",
            c"/proc/self/fdinfo/0",
            c"/proc/self/task",
            c"/sys",
            c"/sys/devices/system/cpu",
            c"/sys/devices/system/cpu/online",
        ] {
            let shown = name.to_str().expect("ASCII");
            let before = at(name.as_ptr());
            let (uid, gid) = (before.st_uid, before.st_gid);
            println!("{shown}: {:o} {uid} {gid}", before.st_mode);
            let after = |what: &str, done: c_int| {
                tell(what, done);
                let after = at(name.as_ptr());
                let (mode, uid, gid) = (after.st_mode, after.st_uid, after.st_gid);
                println!("    {mode:o} {uid} {gid}");
            };
            tell_end(
                "  a user",
                in_child(|| {
                    libc::setuid(USER);
                    // Keeps the files of this process in /proc from becoming root's.
                    libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
                    tell("    mode", libc::chmod(name.as_ptr(), 0o444));
                    tell("    owner", libc::chown(name.as_ptr(), USER, USER));
                    tell(
                        "    now",
                        libc::utimensat(-100, name.as_ptr(), ptr::null(), 0),
                    );
                }),
            );
            after("  mode", libc::chmod(name.as_ptr(), 0o600));
            after("  owner", libc::chown(name.as_ptr(), 5, 6));
            let done = libc::utimensat(libc::AT_FDCWD, name.as_ptr(), TIMES.as_ptr(), 0);
            tell("  times", done);
            let attribute = if shown.starts_with("/proc/self") {
                c"trusted.a"
            } else {
                c"user.a"
            };
            if shown != "/proc/sys" && !shown.starts_with("/proc/sys/") {
                let value = b"1".as_ptr().cast();
                let done = libc::setxattr(name.as_ptr(), attribute.as_ptr(), value, 1, 0);
                tell("  attribute", done);
            }
            libc::chown(name.as_ptr(), uid, gid);
            libc::chmod(name.as_ptr(), before.st_mode & 0o7777);
        }
        let link = c"/proc/self/exe";
        tell("owner of a link", libc::lchown(link.as_ptr(), 5, 6));
    }
}

unsafe fn at(name: *const libc::c_char) -> libc::stat {
    unsafe {
        let mut status: libc::stat = mem::zeroed();
        libc::stat(name, &mut status);
        status
    }
}

/// A terminal of devpts, and the directory of devpts.
unsafe fn terminals() {
    unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        libc::unlockpt(master);
        let mut name = [0; 64];
        libc::ptsname_r(master, name.as_mut_ptr(), name.len());
        let slave = libc::open(name.as_ptr(), libc::O_RDWR | libc::O_NOCTTY);
        for (what, file) in [
            ("slave", slave),
            ("root", { libc::open(c"/dev/pts".as_ptr(), libc::O_RDONLY) }),
        ] {
            let before = status(file);
            tell(what, libc::fchmod(file, 0o751));
            tell("owner", libc::fchown(file, 5, 6));
            tell("times", libc::futimens(file, TIMES.as_ptr()));
            show("changed", file);
            for attribute in [c"user.a", c"trusted.a"] {
                let value = b"1".as_ptr().cast();
                tell(
                    "attribute",
                    libc::fsetxattr(file, attribute.as_ptr(), value, 1, 0),
                );
            }
            libc::fchown(file, before.st_uid, before.st_gid);
            libc::fchmod(file, before.st_mode & 0o7777);
        }
    }
}
