//! The file systems that programs expect. A kernel that has one already, or lacks it, is no reason
//! to stop.

use std::fs;

use crate::sys;

/// Kind, place and options.
const MOUNTS: [(&str, &str, &str); 7] = [
    ("proc", "/proc", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", "gid=5,mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", ""),
    ("sysfs", "/sys", ""),
    ("tmpfs", "/tmp", ""),
    ("tmpfs", "/run", ""),
];

const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mounts them all, makes the usual links below `/dev`, and gives the machine its name.
pub fn mount_all() {
    for (kind, path, options) in MOUNTS {
        let _ = fs::create_dir_all(path);
        sys::mount(kind, path, options);
    }
    for (target, path) in LINKS {
        let _ = std::os::unix::fs::symlink(target, path);
    }
    sys::set_host_name(&fs::read_to_string("/etc/hostname").unwrap_or_default());
}
