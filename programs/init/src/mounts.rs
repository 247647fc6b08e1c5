//! The file systems that programs expect. It is no error if the kernel has mounted one already, or
//! lacks it.

use std::fs;

use crate::sys;

/// Type, mount point and options.
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

/// Mounts all of them, makes the usual links in `/dev`, and sets the host name.
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
