//! What comes of using one name.

use std::ffi::CString;
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

use super::{OTHER, USER};
use crate::error;

/// So that no terminal is taken and nothing is waited for.
const QUIETLY: i32 = libc::O_NONBLOCK | libc::O_NOCTTY;
/// How much of a file is looked at.
const LOOK: u64 = 1 << 18;

/// Owner, permissions, and what comes of reading, of opening it to write, and of following it.
pub fn outcome(name: &str) -> String {
    let found = match fs::symlink_metadata(name) {
        Ok(found) => found,
        Err(_) => return format!("stat {}", error()),
    };
    let rights = rights(&found);
    if found.is_symlink() {
        let leads = said(fs::read_link(name).is_ok());
        let followed = said(open(name, libc::O_PATH).is_some());
        return format!("{rights} readlink {leads} follow {followed}");
    }
    if found.is_dir() {
        let listed = said(fs::read_dir(name).is_ok_and(|mut all| all.all(|entry| entry.is_ok())));
        _ = fs::symlink_metadata(format!("{name}/none"));
        return format!("{rights} list {listed}, no such name {}", error());
    }
    let read = match open(name, libc::O_RDONLY | QUIETLY) {
        None => error(),
        // A device may have nothing yet, or take what somebody types.
        Some(_) if !found.is_file() => "opened",
        Some(file) => {
            let mut byte = 0u8;
            // SAFETY: a byte.
            said(unsafe { libc::read(file.as_raw_fd(), (&raw mut byte).cast(), 1) } >= 0)
        }
    };
    let write = said(open(name, libc::O_WRONLY | QUIETLY).is_some());
    format!("{rights} read {read} write {write}")
}

fn said(done: bool) -> &'static str {
    if done { "ok" } else { error() }
}

fn open(name: &str, flags: i32) -> Option<OwnedFd> {
    let name = CString::new(name).expect("no zero in a name");
    // SAFETY: the name ends with zero, and a descriptor that came is nobody else's.
    unsafe {
        let file = libc::open(name.as_ptr(), flags | libc::O_CLOEXEC);
        (file >= 0).then(|| OwnedFd::from_raw_fd(file))
    }
}

/// The kind of a file, its permissions and whose it is.
pub fn rights(found: &Metadata) -> String {
    let kind = match found.file_type() {
        kind if kind.is_dir() => 'd',
        kind if kind.is_symlink() => 'l',
        kind if kind.is_char_device() => 'c',
        kind if kind.is_fifo() => 'p',
        _ => '-',
    };
    let whose = |id| match id {
        0 => "root".to_owned(),
        USER => "user".to_owned(),
        OTHER => "other".to_owned(),
        id => id.to_string(),
    };
    let (user, group) = (whose(found.uid()), whose(found.gid()));
    format!("{kind}{:03o} {user}:{group}", found.mode() & 0o7777)
}

/// Tells of a file that the caller may write.
pub fn tell_writable(name: &str) {
    let Ok(found) = fs::symlink_metadata(name) else {
        return;
    };
    let path = CString::new(name).expect("no zero in a name");
    // SAFETY: the path ends with zero.
    let writable = unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0;
    if writable && !found.is_symlink() {
        println!("{name}: {}", rights(&found));
    }
}

/// Tells of a file in which the caller finds an address of the kernel's.
pub fn tell_addresses(name: &str) {
    if !fs::symlink_metadata(name).is_ok_and(|found| found.is_file()) {
        return;
    }
    let mut options = fs::OpenOptions::new();
    let Ok(file) = options.read(true).custom_flags(QUIETLY).open(name) else {
        return;
    };
    let mut text = Vec::new();
    _ = file.take(LOOK).read_to_end(&mut text);
    let words = text.split(|byte| !byte.is_ascii_alphanumeric());
    let mut numbers = words.filter_map(|word| str::from_utf8(word).ok());
    if let Some(word) = numbers.find(|word| is_address(word)) {
        println!("{name}: {word}");
    }
}

/// Whether a word is a number that can be an address of the kernel's. The last numbers are no
/// addresses, but errors and masks, and what stands for no limit.
fn is_address(word: &str) -> bool {
    let hex = word.strip_prefix("0x").unwrap_or(word);
    let number = match hex.len() {
        16 => u64::from_str_radix(hex, 16).ok(),
        20 => word.parse().ok(),
        _ => None,
    };
    number.is_some_and(|number| (0xff00 << 48..0xffff_ffff_f000_0000).contains(&number))
}
