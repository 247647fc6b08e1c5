//! Folders with many entries, long paths, many mounts, many attributes and locks.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;

use super::{EACH, Row, among};
use crate::meter::{Done, Meter};
use crate::sys::{call, many, name, read_whole};

pub const ROWS: &[Row] = &[
    among(
        "readdir",
        10_000,
        readdir,
        "getdents64 of a folder of N entries, by entry",
    ),
    among("stat", 10_000, stat, "newfstatat of one of N entries"),
    among(
        "create_unlink",
        10_000,
        create,
        "a file made and unlinked in a folder of N",
    ),
    among(
        "rename",
        10_000,
        rename,
        "renameat2 there and back in a folder of N",
    ),
    among(
        "path_depth",
        1_000,
        depth,
        "newfstatat of a path of N names, by name",
    ),
    among("mounts", 1_000, mounts, "mount and umount2 among N mounts"),
    among(
        "proc_mounts",
        1_000,
        proc_mounts,
        "/proc/self/mounts of N, by mount",
    ),
    among(
        "setxattr",
        1_000,
        setxattr,
        "setxattr and removexattr of a file with N attributes",
    ),
    among(
        "getxattr",
        1_000,
        getxattr,
        "getxattr of a file with N attributes",
    ),
    among(
        "record_lock",
        10_000,
        record_lock,
        "F_SETLK and F_UNLCK of a byte beside N locked ones",
    ),
    among(
        "flock",
        10_000,
        flock,
        "a shared flock taken and given back beside N",
    ),
    among(
        "lease",
        1_000,
        lease,
        "F_RDLCK lease taken and given back beside N",
    ),
];

/// Creates `number` files in this folder.
fn entries(number: usize) -> std::io::Result<Vec<CString>> {
    many(number, |index| {
        let path = format!("entry-{index}");
        fs::write(&path, "")?;
        Ok(name(path))
    })
}

fn readdir(meter: &mut Meter) -> Done {
    entries(meter.size())?;
    let folder = File::open(".")?;
    let mut buffer = vec![0u8; 32 << 10];
    meter.batches(
        meter.size(),
        || call!(SYS_lseek, folder.as_raw_fd(), 0, libc::SEEK_SET).map(drop),
        || loop {
            let read = call!(
                SYS_getdents64,
                folder.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len()
            );
            match read {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        },
    )
}

/// Calls newfstatat.
fn look(path: &CString) -> Done {
    // SAFETY: the structure has only integers.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    let place = libc::AT_FDCWD;
    call!(SYS_newfstatat, place, path.as_ptr(), &raw mut found, 0).map(drop)
}

fn stat(meter: &mut Meter) -> Done {
    let names = entries(meter.size())?;
    let one = &names[meter.size() / 2];
    meter.repeat(EACH, |_| look(one))
}

fn create(meter: &mut Meter) -> Done {
    entries(meter.size())?;
    let (path, place) = (c"another", libc::AT_FDCWD);
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
    meter.repeat(EACH, |_| {
        let fd = call!(SYS_openat, place, path.as_ptr(), flags, 0o600)?;
        call!(SYS_close, fd)?;
        call!(SYS_unlinkat, place, path.as_ptr(), 0).map(drop)
    })
}

fn rename(meter: &mut Meter) -> Done {
    let names = entries(meter.size())?;
    let (one, other) = (&names[0], c"another");
    let place = libc::AT_FDCWD;
    meter.repeat(EACH, |_| {
        call!(SYS_renameat2, place, one.as_ptr(), place, other.as_ptr(), 0)?;
        call!(SYS_renameat2, place, other.as_ptr(), place, one.as_ptr(), 0).map(drop)
    })
}

fn depth(meter: &mut Meter) -> Done {
    let path = vec!["d"; meter.size()].join("/");
    fs::create_dir_all(&path)?;
    let path = name(path);
    meter.batches(
        meter.size() * EACH,
        || Ok(()),
        || (0..EACH).try_for_each(|_| look(&path)),
    )
}

fn mount(path: &CString) -> Done {
    let kind = c"tmpfs".as_ptr();
    call!(SYS_mount, kind, path.as_ptr(), kind, 0, 0).map(drop)
}

/// Makes `number` mounts; returns the mount point of one more.
fn mounted(number: usize) -> std::io::Result<CString> {
    for index in 0..number {
        let path = format!("mount-{index}");
        fs::create_dir(&path)?;
        mount(&name(path))?;
    }
    fs::create_dir("another")?;
    Ok(name("another".into()))
}

fn unmount(path: &CString) -> Done {
    call!(SYS_umount2, path.as_ptr(), libc::MNT_DETACH).map(drop)
}

/// Unmounts these mounts, which outlive the process.
fn unmount_all(number: usize) {
    for index in 0..number {
        let _ = unmount(&name(format!("mount-{index}")));
    }
}

fn mounts(meter: &mut Meter) -> Done {
    let size = meter.size();
    let done = mounted(size).and_then(|path| {
        meter.repeat(4, |_| {
            mount(&path)?;
            unmount(&path)
        })
    });
    unmount_all(size);
    done
}

fn proc_mounts(meter: &mut Meter) -> Done {
    let size = meter.size();
    let mut buffer = vec![0; 64 << 10];
    let done = mounted(size).and_then(|_| {
        let read = || read_whole(c"/proc/self/mounts", &mut buffer).map(drop);
        meter.batches(size, || Ok(()), read)
    });
    unmount_all(size);
    done
}

fn attribute(path: &CString, attribute: &CString) -> Done {
    let value = c"value".as_ptr();
    call!(SYS_setxattr, path.as_ptr(), attribute.as_ptr(), value, 5, 0).map(drop)
}

/// Creates a file with `number` attributes; returns their names.
fn with_attributes(number: usize) -> std::io::Result<(CString, Vec<CString>)> {
    let path = name("file".into());
    fs::write("file", "")?;
    let names = many(number, |index| {
        let key = name(format!("trusted.{index}"));
        attribute(&path, &key)?;
        Ok(key)
    })?;
    Ok((path, names))
}

fn setxattr(meter: &mut Meter) -> Done {
    let (path, _) = with_attributes(meter.size())?;
    let key = name("trusted.another".into());
    meter.repeat(EACH, |_| {
        attribute(&path, &key)?;
        call!(SYS_removexattr, path.as_ptr(), key.as_ptr()).map(drop)
    })
}

fn getxattr(meter: &mut Meter) -> Done {
    let (path, keys) = with_attributes(meter.size())?;
    let key = &keys[meter.size() / 2];
    let mut value = [0u8; 64];
    meter.repeat(EACH, |_| {
        let (path, key) = (path.as_ptr(), key.as_ptr());
        call!(SYS_getxattr, path, key, value.as_mut_ptr(), value.len()).map(drop)
    })
}

fn lock(file: &File, kind: i32, start: usize) -> Done {
    // SAFETY: the structure has only integers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_start = start as _;
    lock.l_len = 1;
    call!(SYS_fcntl, file.as_raw_fd(), libc::F_SETLK, &raw const lock).map(drop)
}

fn record_lock(meter: &mut Meter) -> Done {
    let file = File::create("file")?;
    for index in 0..meter.size() {
        lock(&file, libc::F_WRLCK, 4 * index)?;
    }
    // A place amid the other locks that touches none of them.
    let place = 4 * (meter.size() / 2) + 2;
    meter.repeat(EACH, |_| {
        lock(&file, libc::F_WRLCK, place)?;
        lock(&file, libc::F_UNLCK, place)
    })
}

fn flock(meter: &mut Meter) -> Done {
    fs::write("file", "")?;
    let shared = |file: &File| call!(SYS_flock, file.as_raw_fd(), libc::LOCK_SH).map(drop);
    let _held = many(meter.size(), |_| {
        let file = File::open("file")?;
        shared(&file)?;
        Ok(file)
    })?;
    let one = File::open("file")?;
    meter.repeat(EACH, |_| {
        shared(&one)?;
        call!(SYS_flock, one.as_raw_fd(), libc::LOCK_UN).map(drop)
    })
}

fn lease(meter: &mut Meter) -> Done {
    fs::write("file", "")?;
    let set = |file: &File, kind: i32| {
        call!(SYS_fcntl, file.as_raw_fd(), libc::F_SETLEASE, kind).map(drop)
    };
    let _held = many(meter.size(), |_| {
        let file = File::open("file")?;
        set(&file, libc::F_RDLCK)?;
        Ok(file)
    })?;
    let one = File::open("file")?;
    meter.repeat(EACH, |_| {
        set(&one, libc::F_RDLCK)?;
        set(&one, libc::F_UNLCK)
    })
}
