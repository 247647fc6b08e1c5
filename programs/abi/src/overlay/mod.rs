//! overlay: how it handles names, files and layers. The current folder is on a tmpfs.

mod files;
mod identity;
mod mounts;
mod names;
mod people;
mod tree;

use std::ffi::CString;
use std::fs;
use std::io::Error;
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt};
use std::path::Path;

use libc::{c_int, c_ulong, c_void};

use crate::{error, tell};

/// Runs this part.
pub fn run() {
    mounts::run();
    tree::run();
    names::run();
    files::run();
    identity::run();
    people::run();
}

fn text(path: &str) -> CString {
    CString::new(path).expect("no zeroes")
}

/// Mounts an overlay at `m`; returns whether that succeeded, and prints a failure.
fn mount(options: &str) -> bool {
    mount_at("m", options)
}

fn mount_at(place: &str, options: &str) -> bool {
    let (place, options) = (text(place), text(options));
    // SAFETY: every pointer is to a NUL-terminated string.
    let done = unsafe {
        libc::mount(
            c"layers".as_ptr(),
            place.as_ptr(),
            c"overlay".as_ptr(),
            0 as c_ulong,
            options.as_ptr().cast::<c_void>(),
        )
    };
    if done != 0 {
        println!("mount: {}", error());
    }
    done == 0
}

fn unmount(place: &str, flags: c_int) {
    // SAFETY: the pointer is to a NUL-terminated string.
    tell("umount", unsafe {
        libc::umount2(text(place).as_ptr(), flags)
    });
}

/// Empties and recreates the folders of the layers.
fn fresh() {
    for folder in ["l", "l2", "u", "w", "m"] {
        _ = fs::remove_dir_all(folder);
        fs::create_dir(folder).expect("made");
    }
}

const USUAL: &str = "lowerdir=l,upperdir=u,workdir=w";

/// Prints the result of an operation of the standard library.
fn done<T>(what: &str, result: std::io::Result<T>) -> Option<T> {
    match result {
        Ok(value) => {
            println!("{what}: ok");
            Some(value)
        }
        Err(failed) => {
            told(what, &failed);
            None
        }
    }
}

fn told(what: &str, failed: &Error) {
    // SAFETY: errno belongs to this thread.
    unsafe { *libc::__errno_location() = failed.raw_os_error().unwrap_or(0) };
    println!("{what}: {}", error());
}

/// Prints the names in a folder, and for each its type, mode, owner, links, size, and whether the
/// folder lists its inode number; for files also the content.
fn show(folder: &str) {
    println!("{folder}:");
    for line in lines(Path::new(folder)) {
        println!("  {line}");
    }
}

fn lines(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(failed) => return vec![format!("{failed}")],
    };
    for entry in entries.map_while(Result::ok) {
        let path = entry.path();
        let Ok(about) = fs::symlink_metadata(&path) else {
            lines.push(format!("{} is gone", path.display()));
            continue;
        };
        let kind = about.file_type();
        let same_kind = entry.file_type().is_ok_and(|told| told == kind);
        let letter = match kind {
            _ if kind.is_dir() => 'd',
            _ if kind.is_symlink() => 'l',
            _ if kind.is_char_device() => 'c',
            _ if kind.is_fifo() => 'p',
            _ if kind.is_socket() => 's',
            _ => '-',
        };
        let inside = match letter {
            '-' if about.len() < 100 => fs::read_to_string(&path).unwrap_or_default(),
            'l' => format!("{}", fs::read_link(&path).unwrap_or_default().display()),
            'c' => format!("{:x}", about.rdev()),
            _ => String::new(),
        };
        let size = if letter == 'd' { 0 } else { about.len() };
        let links = if letter == 'c' { 0 } else { about.nlink() };
        lines.push(format!(
            "{} {letter}{:o} {}:{} {links} {size} {inside}{}{}",
            path.display(),
            about.mode() & 0o7777,
            about.uid(),
            about.gid(),
            if same_kind { "" } else { " (another kind)" },
            if entry.ino() == about.ino() {
                ""
            } else {
                " (another number)"
            },
        ));
        if letter == 'd' {
            lines.extend(self::lines(&path));
        }
    }
    lines.sort();
    lines
}

fn set_attribute(path: &str, name: &str, value: &str) -> c_int {
    let (path, name) = (text(path), text(name));
    // SAFETY: the pointers are to NUL-terminated strings, and to the value.
    unsafe {
        libc::lsetxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    }
}

/// The value of an attribute, or the error.
fn attribute(path: &str, name: &str) -> String {
    let mut room = [0u8; 256];
    let (path, name) = (text(path), text(name));
    // SAFETY: the pointers are to NUL-terminated strings, and to the buffer.
    let len = unsafe {
        libc::lgetxattr(
            path.as_ptr(),
            name.as_ptr(),
            room.as_mut_ptr().cast(),
            room.len(),
        )
    };
    match usize::try_from(len) {
        Ok(len) => String::from_utf8_lossy(&room[..len]).into_owned(),
        Err(_) => error().to_owned(),
    }
}

/// The names of all attributes, in order.
fn attributes(path: &str) -> Vec<String> {
    let mut room = [0u8; 1024];
    let path = text(path);
    // SAFETY: the pointers are to a NUL-terminated string, and to the buffer.
    let len = unsafe { libc::llistxattr(path.as_ptr(), room.as_mut_ptr().cast(), room.len()) };
    let names = &room[..usize::try_from(len).unwrap_or(0)];
    let names = names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    let mut names: Vec<String> = names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    names.sort();
    names
}

fn whiteout(path: &str) {
    // SAFETY: the pointer is to a NUL-terminated string.
    let done = unsafe { libc::mknod(text(path).as_ptr(), libc::S_IFCHR, 0) };
    if done != 0 {
        println!("whiteout {path}: {}", error());
    }
}

fn number(path: &str) -> (u64, u64) {
    let about = fs::symlink_metadata(path).expect("it is there");
    (about.dev(), about.ino())
}
