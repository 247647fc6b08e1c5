//! Files and their names.

use std::ffi::CStr;
use std::ptr;

use libc::{
    AT_FDCWD, ENFILE, ENOLCK, ENOSPC, F_SETLEASE, F_SETLK, F_WRLCK, MS_BIND, O_CREAT, O_DIRECTORY,
    O_EXCL, O_NOCTTY, O_RDONLY, O_RDWR, O_TMPFILE, RENAME_EXCHANGE, c_char, c_int, c_long, c_void,
};

use super::{Starved, close};
use crate::path;

const PAGE: usize = 4096;
const DN_CREATE: libc::c_ulong = 4;
const DN_MULTISHOT: libc::c_ulong = 1 << 31;

fn exists(name: &'static CStr) -> bool {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::faccessat(AT_FDCWD, path(name), 0, libc::AT_SYMLINK_NOFOLLOW) == 0 }
}

fn open(name: &'static CStr, flags: c_int) -> c_int {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::open(path(name), flags, 0o600) }
}

fn make(name: &'static CStr) -> bool {
    close(open(name, O_CREAT | O_RDWR).into())
}

fn remove(name: &'static CStr) -> bool {
    // SAFETY: the name is NUL-terminated.
    unsafe { libc::unlink(path(name)) == 0 }
}

/// After a call that makes a name: removes it; whether it existed if, and only if, the call
/// succeeded.
fn made(
    result: c_long,
    name: &'static CStr,
    remove: unsafe extern "C" fn(*const c_char) -> c_int,
) -> bool {
    // SAFETY: the name is NUL-terminated.
    let existed = unsafe { remove(path(name)) == 0 };
    existed == (result != -1)
}

pub unsafe fn run(starved: &Starved) {
    unsafe {
        names(starved);
        renames(starved);
        contents(starved);
        attributes(starved);
        locks(starved);
        mounts(starved);
        lists(starved);
    }
}

unsafe fn names(starved: &Starved) {
    let also = [ENOSPC, ENFILE];
    unsafe {
        let creat = || open(c"new", O_CREAT | O_EXCL | O_RDWR).into();
        starved.each("creat", &also, creat, |result| {
            close(result) && made(result, c"new", libc::unlink)
        });
        make(c"old");
        starved.each("open", &also, || open(c"old", O_RDWR).into(), close);
        starved.each(
            "O_TMPFILE",
            &also,
            || open(c".", O_TMPFILE | O_RDWR).into(),
            close,
        );
        starved.each(
            "stat",
            &[],
            || {
                let mut stat = std::mem::zeroed();
                libc::stat(path(c"./old"), &mut stat).into()
            },
            |_| true,
        );
        let mkdir = || libc::mkdir(path(c"dir"), 0o700).into();
        starved.each("mkdir", &also, mkdir, |result| {
            made(result, c"dir", libc::rmdir)
        });
        let symlink = || libc::symlink(path(c"old"), path(c"new")).into();
        starved.each("symlink", &also, symlink, |result| {
            made(result, c"new", libc::unlink)
        });
        let link = || libc::link(path(c"old"), path(c"new")).into();
        starved.each("link", &also, link, |result| {
            made(result, c"new", libc::unlink)
        });
        let fifo = || libc::mkfifo(path(c"new"), 0o600).into();
        starved.each("mkfifo", &also, fifo, |result| {
            made(result, c"new", libc::unlink)
        });
        starved.each(
            "unlink",
            &[],
            || libc::unlink(path(c"old")).into(),
            |result| exists(c"old") == (result == -1) && make(c"old"),
        );
        libc::mkdir(path(c"dir"), 0o700);
        starved.each(
            "rmdir",
            &[],
            || libc::rmdir(path(c"dir")).into(),
            |result| {
                exists(c"dir") == (result == -1)
                    && (result == -1 || libc::mkdir(path(c"dir"), 0o700) == 0)
            },
        );
        starved.each(
            "chdir",
            &[],
            || libc::chdir(path(c"dir")).into(),
            |result| result == -1 || libc::chdir(path(c"..")) == 0,
        );
        libc::rmdir(path(c"dir"));
        let mut room = [0u8; 4096];
        starved.each(
            "getcwd",
            &[],
            || libc::syscall(libc::SYS_getcwd, room.as_mut_ptr(), room.len()),
            |_| true,
        );
        libc::symlink(path(c"old"), path(c"link"));
        let mut room = [0 as libc::c_char; 256];
        starved.each(
            "readlink",
            &[],
            || libc::readlink(path(c"link"), room.as_mut_ptr(), room.len()) as c_long,
            |result| result == -1 || result == 3,
        );
        remove(c"link");
        remove(c"old");
    }
}

unsafe fn renames(starved: &Starved) {
    let (old, new) = (path(c"old"), path(c"new"));
    unsafe {
        make(c"old");
        starved.each(
            "rename",
            &[ENOSPC],
            || libc::rename(old, new).into(),
            |result| {
                let moved = result == 0;
                exists(c"new") == moved
                    && exists(c"old") != moved
                    && (!moved || libc::rename(new, old) == 0)
            },
        );
        make(c"new");
        starved.each(
            "rename over",
            &[ENOSPC],
            || libc::rename(old, new).into(),
            |result| {
                let moved = result == 0;
                exists(c"new") && exists(c"old") != moved && make(c"old")
            },
        );
        starved.each(
            "rename exchange",
            &[ENOSPC],
            || {
                libc::syscall(
                    libc::SYS_renameat2,
                    AT_FDCWD,
                    old,
                    AT_FDCWD,
                    new,
                    RENAME_EXCHANGE,
                )
            },
            |_| exists(c"new") && exists(c"old"),
        );
        remove(c"old");
        remove(c"new");
        libc::mkdir(path(c"dir"), 0o700);
        make(c"dir/f");
        starved.each(
            "rename directory",
            &[ENOSPC],
            || libc::rename(path(c"dir"), path(c"rid")).into(),
            |result| match result {
                0 => exists(c"rid/f") && libc::rename(path(c"rid"), path(c"dir")) == 0,
                _ => exists(c"dir/f") && !exists(c"rid"),
            },
        );
        remove(c"dir/f");
        libc::rmdir(path(c"dir"));
    }
}

unsafe fn contents(starved: &Starved) {
    let bytes = [7u8; 3 * PAGE];
    unsafe {
        let file = open(c"data", O_CREAT | O_RDWR);
        let length = || libc::lseek(file, 0, libc::SEEK_END);
        let at = 70 * PAGE as i64 + 5;
        // What could be written was.
        starved.each(
            "write",
            &[ENOSPC],
            || libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), at) as c_long,
            |result| {
                let end = if result == -1 { 0 } else { at + result };
                let (mut byte, found) = (0u8, length());
                let last = libc::pread(file, (&raw mut byte).cast(), 1, end - 1);
                let kept = result == -1 || last == 1 && byte == 7;
                found == end && kept && libc::ftruncate(file, 0) == 0
            },
        );
        libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), 0);
        let mut room = [0u8; 3 * PAGE];
        starved.each(
            "read",
            &[],
            || libc::pread(file, room.as_mut_ptr().cast(), room.len(), 0) as c_long,
            |result| result > 0 || result == -1,
        );
        starved.each(
            "fallocate",
            &[ENOSPC],
            || libc::fallocate(file, 0, 0, 40 * PAGE as i64).into(),
            |_| libc::ftruncate(file, 3 * PAGE as i64) == 0,
        );
        starved.each(
            "ftruncate",
            &[],
            || libc::ftruncate(file, 5).into(),
            |result| {
                let is = length();
                let so = if result == 0 {
                    is == 5
                } else {
                    is == 3 * PAGE as i64
                };
                so && libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), 0) > 0
            },
        );
        let other = open(c"copy", O_CREAT | O_RDWR);
        starved.each(
            "copy_file_range",
            &[ENOSPC],
            || {
                let (mut from, mut to) = (0, 0);
                libc::copy_file_range(file, &mut from, other, &mut to, 3 * PAGE, 0) as c_long
            },
            |_| libc::ftruncate(other, 0) == 0,
        );
        starved.each(
            "sendfile",
            &[ENOSPC],
            || {
                let mut from = 0;
                libc::lseek(other, 0, libc::SEEK_SET);
                libc::sendfile(other, file, &mut from, 3 * PAGE) as c_long
            },
            |_| libc::ftruncate(other, 0) == 0,
        );
        let mut ends = [0; 2];
        libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK);
        let mut drain = || while libc::read(ends[0], room.as_mut_ptr().cast(), room.len()) > 0 {};
        starved.each(
            "splice",
            &[],
            || {
                let mut from = 0;
                libc::splice(file, &mut from, ends[1], ptr::null_mut(), 2 * PAGE, 0) as c_long
            },
            |_| {
                drain();
                true
            },
        );
        starved.each(
            "pipe write",
            &[],
            || libc::write(ends[1], bytes.as_ptr().cast(), bytes.len()) as c_long,
            |_| {
                drain();
                true
            },
        );
        starved.each(
            "F_SETPIPE_SZ",
            &[],
            || libc::fcntl(ends[1], libc::F_SETPIPE_SZ, 1 << 18).into(),
            |_| libc::fcntl(ends[1], libc::F_SETPIPE_SZ, 1 << 16) == 1 << 16,
        );
        ends.iter().for_each(|&end| _ = libc::close(end));
        libc::close(other);
        libc::close(file);
        remove(c"copy");
        remove(c"data");
        starved.each(
            "memfd_create",
            &[ENFILE],
            || libc::memfd_create(path(c"m"), 0).into(),
            close,
        );
    }
}

unsafe fn attributes(starved: &Starved) {
    unsafe {
        let (file, name) = (path(c"attributes"), path(c"trusted.one"));
        make(c"attributes");
        let value = [1u8; 200];
        let get = || libc::getxattr(file, name, ptr::null_mut(), 0);
        starved.each(
            "setxattr",
            &[ENOSPC],
            || libc::setxattr(file, name, value.as_ptr().cast(), value.len(), 0).into(),
            |result| {
                (get() == 200) == (result == 0)
                    && (result == -1 || libc::removexattr(file, name) == 0)
            },
        );
        libc::setxattr(file, name, value.as_ptr().cast(), value.len(), 0);
        starved.each(
            "setxattr again",
            &[ENOSPC],
            || libc::setxattr(file, name, value.as_ptr().cast(), 100, 0).into(),
            |result| {
                get() == if result == 0 { 100 } else { 200 }
                    && libc::setxattr(file, name, value.as_ptr().cast(), value.len(), 0) == 0
            },
        );
        let mut room = [0u8; 300];
        starved.each(
            "getxattr",
            &[],
            || libc::getxattr(file, name, room.as_mut_ptr().cast(), room.len()) as c_long,
            |_| true,
        );
        starved.each(
            "listxattr",
            &[],
            || libc::listxattr(file, room.as_mut_ptr().cast(), room.len()) as c_long,
            |_| true,
        );
        starved.each(
            "removexattr",
            &[],
            || libc::removexattr(file, name).into(),
            |result| {
                (get() == -1) == (result == 0)
                    && libc::setxattr(file, name, value.as_ptr().cast(), value.len(), 0) == 0
            },
        );
        starved.each(
            "chown",
            &[],
            || libc::chown(file, 7, 7).into(),
            |_| libc::chown(file, 0, 0) == 0,
        );
        starved.each(
            "utimensat",
            &[],
            || libc::utimensat(AT_FDCWD, file, ptr::null(), 0).into(),
            |_| true,
        );
        remove(c"attributes");
    }
}

unsafe fn locks(starved: &Starved) {
    unsafe {
        let file = open(c"locked", O_CREAT | O_RDWR);
        let lock = |kind: c_int, start, len| libc::flock {
            l_type: kind as i16,
            l_whence: 0,
            l_start: start,
            l_len: len,
            l_pid: 0,
        };
        let all = lock(libc::F_UNLCK, 0, 0);
        let part = lock(F_WRLCK, 0, 10);
        starved.each(
            "F_SETLK",
            &[ENOLCK],
            || libc::fcntl(file, F_SETLK, &part).into(),
            |_| libc::fcntl(file, F_SETLK, &all) == 0,
        );
        starved.each(
            "F_OFD_SETLK",
            &[ENOLCK],
            || libc::fcntl(file, libc::F_OFD_SETLK, &part).into(),
            |_| libc::fcntl(file, libc::F_OFD_SETLK, &all) == 0,
        );
        libc::fcntl(file, F_SETLK, &part);
        let middle = lock(libc::F_UNLCK, 3, 2);
        starved.each(
            "F_SETLK split",
            &[ENOLCK],
            || libc::fcntl(file, F_SETLK, &middle).into(),
            |_| libc::fcntl(file, F_SETLK, &part) == 0,
        );
        libc::fcntl(file, F_SETLK, &all);
        starved.each(
            "flock",
            &[ENOLCK],
            || libc::flock(file, libc::LOCK_EX).into(),
            |_| libc::flock(file, libc::LOCK_UN) == 0,
        );
        starved.each(
            "F_SETLEASE",
            &[],
            || libc::fcntl(file, F_SETLEASE, F_WRLCK).into(),
            |result| result == -1 || libc::fcntl(file, F_SETLEASE, libc::F_UNLCK) == 0,
        );
        starved.each(
            "F_SETOWN",
            &[],
            || libc::fcntl(file, libc::F_SETOWN, libc::getpid()).into(),
            |_| libc::fcntl(file, libc::F_SETOWN, 0) == 0,
        );
        libc::close(file);
        remove(c"locked");
        let folder = open(c".", O_RDONLY | O_DIRECTORY);
        starved.each(
            "F_NOTIFY",
            &[],
            || libc::fcntl(folder, libc::F_NOTIFY, DN_CREATE | DN_MULTISHOT).into(),
            |_| libc::fcntl(folder, libc::F_NOTIFY, 0) == 0,
        );
        libc::close(folder);
    }
}

unsafe fn mounts(starved: &Starved) {
    let (on, none) = (path(c"on"), ptr::null::<c_void>());
    unsafe {
        libc::mkdir(on, 0o700);
        let gone = |result: c_long| {
            let mounted = libc::umount(on) == 0;
            mounted == (result == 0)
        };
        starved.each(
            "mount tmpfs",
            &[],
            || {
                libc::mount(
                    path(c"none"),
                    on,
                    path(c"tmpfs"),
                    0,
                    c"size=1m".as_ptr().cast(),
                )
                .into()
            },
            gone,
        );
        starved.each(
            "mount proc",
            &[],
            || libc::mount(path(c"none"), on, path(c"proc"), 0, none).into(),
            gone,
        );
        starved.each(
            "mount devpts",
            &[],
            || libc::mount(path(c"none"), on, path(c"devpts"), 0, none).into(),
            gone,
        );
        starved.each(
            "mount sysfs",
            &[],
            || libc::mount(path(c"none"), on, path(c"sysfs"), 0, none).into(),
            gone,
        );
        starved.each(
            "mount bind",
            &[],
            || libc::mount(path(c"/"), on, ptr::null(), MS_BIND, none).into(),
            gone,
        );
        starved.each(
            "mount rbind",
            &[],
            || libc::mount(path(c"/"), on, ptr::null(), MS_BIND | libc::MS_REC, none).into(),
            |result| {
                let mounted = libc::umount2(on, libc::MNT_DETACH) == 0;
                mounted == (result == 0)
            },
        );
        libc::mount(path(c"none"), on, path(c"tmpfs"), 0, none);
        starved.each(
            "umount",
            &[],
            || libc::umount(on).into(),
            |result| result == -1 || libc::mount(path(c"none"), on, path(c"tmpfs"), 0, none) == 0,
        );
        libc::umount(on);
        libc::rmdir(on);
    }
}

unsafe fn lists(starved: &Starved) {
    let mut room = [0u8; 4 * PAGE];
    unsafe {
        let read = |name: &'static CStr, room: &mut [u8]| {
            let file = open(name, O_RDONLY);
            let result = match file {
                -1 => -1,
                file => libc::read(file, room.as_mut_ptr().cast(), room.len()),
            };
            let kept = *libc::__errno_location();
            libc::close(file);
            *libc::__errno_location() = kept;
            result as c_long
        };
        for name in [
            c"/proc/self/maps",
            c"/proc/self/smaps",
            c"/proc/self/status",
            c"/proc/self/mountinfo",
            c"/proc/self/cmdline",
            c"/proc/self/fdinfo/0",
            c"/proc/self/exe",
            c"/proc/mounts",
            c"/proc/meminfo",
            c"/proc/locks",
            c"/proc/net/unix",
            c"/proc/net/tcp",
            c"/proc/sys/kernel/osrelease",
            c"/sys/devices/system/cpu/online",
        ] {
            let text = name.to_str().unwrap_or_default();
            starved.each(text, &[ENFILE], || read(name, &mut room), |_| true);
        }
        for name in [
            c"/",
            c"/proc",
            c"/proc/self/fd",
            c"/proc/self/task",
            c"/sys",
            c"/dev",
        ] {
            let text = format!("getdents {}", name.to_str().unwrap_or_default());
            let folder = open(name, O_RDONLY | O_DIRECTORY);
            starved.each(
                &text,
                &[],
                || {
                    libc::lseek(folder, 0, libc::SEEK_SET);
                    libc::syscall(libc::SYS_getdents64, folder, room.as_mut_ptr(), room.len())
                },
                |result| result != 0,
            );
            libc::close(folder);
        }
        let also = [ENFILE, ENOSPC];
        starved.each(
            "ptmx",
            &also,
            || open(c"/dev/ptmx", O_RDWR | O_NOCTTY).into(),
            close,
        );
        for name in [c"/dev/null", c"/dev/zero", c"/dev/urandom", c"/dev/kmsg"] {
            let text = name.to_str().unwrap_or_default();
            starved.each(text, &also, || open(name, O_RDWR).into(), close);
        }
    }
}
