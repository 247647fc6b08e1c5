//! Permissions of files and mounts: set-ID bits, read-only and other mounts, changes of the root.

use std::ffi::CStr;
use std::mem;

use libc::{
    AT_FDCWD, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MS_REMOUNT, O_CREAT, O_RDONLY, O_RDWR,
    O_TMPFILE, O_WRONLY,
};

use crate::{in_child, path, tell, tell_end};

/// A user and group ID that nobody else has.
const USER: u32 = 1234;

fn mode(name: &'static CStr) -> u32 {
    // SAFETY: the name is NUL-terminated, and all zeroes is a valid `stat`.
    unsafe {
        let mut stat: libc::stat = mem::zeroed();
        libc::stat(path(name), &mut stat);
        stat.st_mode & 0o7777
    }
}

/// Runs this part.
pub fn run() {
    // SAFETY: every pointer passed is to a live value of the right type.
    unsafe {
        libc::umask(0);
        set_id();
        roots();
        read_only();
        forbidding();
        ranges();
        capabilities();
    }
}

/// Drops one effective capability.
unsafe fn drop_capability(number: u32) {
    let header = [0x2008_0522u32, 0];
    let mut sets = [[0u32; 3]; 2];
    unsafe {
        libc::syscall(libc::SYS_capget, &header, &mut sets);
        sets[number as usize / 32][0] &= !(1 << (number % 32));
        libc::syscall(libc::SYS_capset, &header, &sets);
    }
}

/// Each privileged operation needs its own capability, and no other.
unsafe fn capabilities() {
    const CAP_CHOWN: u32 = 0;
    const CAP_DAC_OVERRIDE: u32 = 1;
    const CAP_FOWNER: u32 = 3;
    const CAP_SYS_CHROOT: u32 = 18;
    const CAP_SYS_ADMIN: u32 = 21;
    const CAP_SYS_NICE: u32 = 23;
    const CAP_SYS_RESOURCE: u32 = 24;
    const CAP_SYS_TIME: u32 = 25;
    const CAP_MKNOD: u32 = 27;
    unsafe {
        libc::close(libc::open(path(c"another"), O_CREAT, 0o600));
        libc::chown(path(c"another"), USER, USER);
        for (name, number) in [
            ("CAP_CHOWN", CAP_CHOWN),
            ("CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE),
            ("CAP_FOWNER", CAP_FOWNER),
            ("CAP_SYS_CHROOT", CAP_SYS_CHROOT),
            ("CAP_SYS_ADMIN", CAP_SYS_ADMIN),
            ("CAP_SYS_NICE", CAP_SYS_NICE),
            ("CAP_SYS_RESOURCE", CAP_SYS_RESOURCE),
            ("CAP_SYS_TIME", CAP_SYS_TIME),
            ("CAP_MKNOD", CAP_MKNOD),
        ] {
            let status = in_child(|| {
                drop_capability(number);
                println!("without {name}");
                privileged_calls();
            });
            tell_end(name, status);
        }
        let status = in_child(|| {
            libc::setfsuid(USER + 1);
            println!("another user for files");
            privileged_calls();
            libc::setfsuid(0);
            tell("root again", opened(libc::open(path(c"another"), O_RDONLY)));
        });
        tell_end("another user for files", status);
    }
}

unsafe fn privileged_calls() {
    unsafe {
        let nothing = std::ptr::null::<libc::c_void>();
        tell(
            "  open to write",
            opened(libc::open(path(c"another"), O_WRONLY)),
        );
        tell(
            "  open to read",
            opened(libc::open(path(c"another"), O_RDONLY)),
        );
        tell("  chmod", libc::chmod(path(c"another"), 0o600));
        tell("  chown", libc::chown(path(c"another"), USER, USER));
        tell(
            "  mknod",
            libc::mknod(path(c"node"), libc::S_IFCHR, libc::makedev(1, 3)),
        );
        libc::unlink(path(c"node"));
        tell("  chroot", libc::chroot(path(c"/")));
        tell("  umount", libc::umount(path(c"another")));
        tell(
            "  mount",
            libc::mount(path(c"x"), path(c"nowhere"), path(c"tmpfs"), 0, nothing),
        );
        tell("  nice", libc::setpriority(libc::PRIO_PROCESS, 0, -1));
        let time = libc::timespec {
            tv_sec: -1,
            tv_nsec: 0,
        };
        tell("  time", libc::clock_settime(libc::CLOCK_REALTIME, &time));
        let mut limit: libc::rlimit = mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        (limit.rlim_cur, limit.rlim_max) = (100, limit.rlim_max - 1);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        limit.rlim_max += 1;
        tell(
            "  a higher limit",
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit),
        );
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        tell(
            "  a large pipe",
            libc::fcntl(pipe[0], libc::F_SETPIPE_SZ, 1 << 21),
        );
        tell(
            "  a pipe too large",
            libc::fcntl(pipe[0], libc::F_SETPIPE_SZ, -1),
        );
        tell("  another user", libc::setreuid(0, 0));
    }
}

/// Becomes an unprivileged user.
unsafe fn become_user() {
    unsafe {
        libc::setgroups(0, std::ptr::null());
        libc::setresgid(USER, USER, USER);
        libc::setresuid(USER, USER, USER);
    }
}

unsafe fn set_id() {
    unsafe {
        libc::close(libc::open(path(c"own"), O_CREAT | O_WRONLY, 0o777));
        libc::chown(path(c"own"), USER, 0);
        libc::chmod(path(c"own"), 0o6777);
        println!("by root: {:o}", mode(c"own"));
        libc::mkdir(path(c"group"), 0o777);
        libc::chown(path(c"group"), 0, 77);
        libc::chmod(path(c"group"), 0o2777);
        let status = in_child(|| {
            become_user();
            tell("chmod of one's own", libc::chmod(path(c"own"), 0o6755));
            println!("its mode {:o}", mode(c"own"));
            libc::chmod(path(c"own"), 0o4755);
            let file = libc::open(path(c"own"), O_WRONLY);
            libc::write(file, c"x".as_ptr().cast(), 1);
            println!("written to {:o}", mode(c"own"));
            libc::close(libc::open(path(c"group/program"), O_CREAT, 0o2755));
            println!("made in another's group {:o}", mode(c"group/program"));
            libc::close(libc::open(path(c"group/data"), O_CREAT, 0o2745));
            println!("no program {:o}", mode(c"group/data"));
            libc::mkdir(path(c"group/below"), 0o755);
            println!("a folder {:o}", mode(c"group/below"));
        });
        tell_end("the user", status);
    }
}

unsafe fn roots() {
    unsafe {
        libc::mkdir(path(c"closed"), 0o700);
        libc::mkdir(path(c"open"), 0o755);
        let status = in_child(|| {
            become_user();
            tell(
                "chroot where it may not search",
                libc::chroot(path(c"closed")),
            );
            tell("chroot by a user", libc::chroot(path(c"open")));
        });
        tell_end("the user", status);
    }
}

unsafe fn mount(kind: &CStr, flags: u64) -> i32 {
    unsafe {
        let (name, nothing) = (c"abi".as_ptr(), std::ptr::null());
        libc::mount(name, path(c"mnt"), kind.as_ptr(), flags as _, nothing)
    }
}

/// Closes an open file; returns 0, or -1 if nothing was opened.
unsafe fn opened(file: i32) -> i32 {
    if file < 0 {
        file
    } else {
        unsafe { libc::close(file) }
    }
}

unsafe fn read_only() {
    unsafe {
        libc::mkdir(path(c"mnt"), 0o755);
        mount(c"tmpfs", 0);
        libc::mkdir(path(c"mnt/folder"), 0o755);
        libc::symlink(path(c"file"), path(c"mnt/link"));
        libc::close(libc::open(path(c"mnt/file"), O_CREAT | O_WRONLY, 0o644));
        tell(
            "read-only from now on",
            mount(c"tmpfs", MS_REMOUNT | MS_RDONLY),
        );
        tell(
            "open to read",
            opened(libc::open(path(c"mnt/file"), O_RDONLY)),
        );
        tell("open to write", libc::open(path(c"mnt/file"), O_RDWR));
        tell(
            "a new file",
            libc::open(path(c"mnt/new"), O_CREAT | O_WRONLY, 0o644),
        );
        tell(
            "a file that is there",
            opened(libc::open(path(c"mnt/file"), O_CREAT, 0o644)),
        );
        tell(
            "no name",
            libc::open(path(c"mnt"), O_TMPFILE | O_WRONLY, 0o644),
        );
        tell("a folder", libc::mkdir(path(c"mnt/new"), 0o755));
        tell(
            "a folder that is there",
            libc::mkdir(path(c"mnt/folder"), 0o755),
        );
        tell("rmdir", libc::rmdir(path(c"mnt/folder")));
        tell("unlink", libc::unlink(path(c"mnt/file")));
        tell("link", libc::link(path(c"mnt/file"), path(c"mnt/other")));
        tell("symlink", libc::symlink(path(c"x"), path(c"mnt/other")));
        tell(
            "rename",
            libc::rename(path(c"mnt/file"), path(c"mnt/other")),
        );
        tell(
            "mknod",
            libc::mknod(path(c"mnt/pipe"), libc::S_IFIFO | 0o644, 0),
        );
        tell("chmod", libc::chmod(path(c"mnt/file"), 0o600));
        tell("chown", libc::chown(path(c"mnt/file"), 1, 1));
        tell("truncate", libc::truncate(path(c"mnt/file"), 0));
        tell(
            "times",
            libc::utimensat(AT_FDCWD, path(c"mnt/file"), std::ptr::null(), 0),
        );
        tell(
            "access to write",
            libc::access(path(c"mnt/file"), libc::W_OK),
        );
        tell(
            "access to read",
            libc::access(path(c"mnt/file"), libc::R_OK),
        );
        let status = in_child(|| {
            become_user();
            tell("a user's chmod", libc::chmod(path(c"mnt/file"), 0o600));
            tell("a user's chown", libc::chown(path(c"mnt/file"), 1, 1));
        });
        tell_end("the user", status);
        let mut stat: libc::statfs = mem::zeroed();
        libc::statfs(path(c"mnt"), &mut stat);
        println!("read-only in statfs: {}", stat.f_flags & 1);
        tell("remount of what is no mount", {
            let nothing = std::ptr::null::<libc::c_void>();
            let flags = MS_REMOUNT | MS_RDONLY;
            libc::mount(
                c"abi".as_ptr(),
                path(c"open"),
                c"tmpfs".as_ptr(),
                flags,
                nothing,
            )
        });
        tell("writable again", mount(c"tmpfs", MS_REMOUNT));
        tell("unlink", libc::unlink(path(c"mnt/file")));
        let file = libc::open(path(c"mnt/folder"), O_RDONLY);
        tell("umount of what is in use", libc::umount(path(c"mnt")));
        libc::close(file);
        tell("umount", libc::umount(path(c"mnt")));
    }
}

unsafe fn forbidding() {
    unsafe {
        tell("mount", mount(c"tmpfs", MS_NOEXEC | MS_NODEV | MS_NOSUID));
        libc::mknod(
            path(c"mnt/null"),
            libc::S_IFCHR | 0o666,
            libc::makedev(1, 3),
        );
        tell("a device", libc::open(path(c"mnt/null"), O_RDWR));
        let file = libc::open(path(c"mnt/program"), O_CREAT | O_RDWR, 0o755);
        libc::ftruncate(file, 4096);
        let none = [std::ptr::null()];
        tell("exec", libc::execv(path(c"mnt/program"), none.as_ptr()));
        let mapped = |rights| {
            let at = libc::mmap(
                std::ptr::null_mut(),
                4096,
                rights,
                libc::MAP_PRIVATE,
                file,
                0,
            );
            if at == libc::MAP_FAILED { -1 } else { 0 }
        };
        tell("mapped to run", mapped(libc::PROT_EXEC));
        tell("mapped to read", mapped(libc::PROT_READ));
        let text = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let line = text.lines().find(|line| line.contains("abi "));
        let options = line.and_then(|line| line.split(' ').nth(3)).unwrap_or("");
        println!("{}", options.split(",relatime").next().unwrap_or(""));
    }
}

unsafe fn ranges() {
    unsafe {
        let file = libc::open(path(c"ranges"), O_CREAT | O_RDWR, 0o644);
        let mut pipe = [0; 2];
        libc::pipe(pipe.as_mut_ptr());
        tell(
            "advice on a negative length",
            libc::posix_fadvise(file, 0, -1, 0),
        );
        tell("readahead of a pipe", libc::readahead(pipe[0], 0, 1) as i64);
        tell("sync of a range", libc::sync_file_range(file, 0, 1, 7));
        tell("with odd flags", libc::sync_file_range(file, 0, 1, 8));
        tell(
            "from before the start",
            libc::sync_file_range(file, -1, 1, 1),
        );
        tell("of a pipe", libc::sync_file_range(pipe[0], 0, 1, 1));
        tell("room beyond all", libc::fallocate(file, 0, i64::MAX, 2));
    }
}
