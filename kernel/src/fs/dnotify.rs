//! dnotify (F_NOTIFY): who holds a directory open gets a signal when something happens in it.

use super::file::File;
use super::inode::Kind;
use super::inotify::{self, Key};
use super::sigio;
use crate::errno::{Errno, Result};
use crate::sync::Mutex;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;

struct Watch {
    file: Weak<File>,
    directory: Key,
    /// DN_* bits.
    wanted: u32,
}

static WATCHES: Mutex<Vec<Watch>> = Mutex::new(Vec::new());
/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// True when anything is watched.
#[inline]
pub fn is_active() -> bool {
    COUNT.load(Relaxed) > 0
}

/// Events of inotify, and the DN_* bit of each.
const KINDS: [(u32, u32); 5] = [
    (IN_ACCESS, DN_ACCESS),
    (IN_MODIFY, DN_MODIFY),
    (IN_CREATE | IN_MOVED_TO, DN_CREATE),
    (IN_DELETE | IN_MOVED_FROM, DN_DELETE),
    (IN_ATTRIB, DN_ATTRIB),
];

/// Makes the directory that `file` is send signals, telling descriptor `fd`, for more kinds of events; for none at all with 0.
///
/// # Errors
/// ENOTDIR, ENOMEM.
pub fn watch(file: &Arc<File>, fd: i32, wanted: u32) -> Result<()> {
    if wanted & !DN_MULTISHOT == 0 {
        forget(file);
        return Ok(());
    }
    if file.entry().kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    sigio::own(file, fd)?;
    let mut watches = WATCHES.lock();
    let own = |watch: &&mut Watch| core::ptr::eq(watch.file.as_ptr(), Arc::as_ptr(file));
    if let Some(watch) = watches.iter_mut().find(own) {
        watch.wanted |= wanted;
        return Ok(());
    }
    watches.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    watches.push(Watch {
        file: Arc::downgrade(file),
        directory: inotify::key(file.entry()),
        wanted,
    });
    COUNT.store(watches.len(), Relaxed);
    Ok(())
}

/// The open file is closed, or wants no more signals.
pub fn forget(file: &File) {
    if is_active() {
        let mut watches = WATCHES.lock();
        watches.retain(|watch| !core::ptr::eq(watch.file.as_ptr(), file));
        COUNT.store(watches.len(), Relaxed);
    }
}

/// Events of inotify's kinds happened in (or to) a directory.
pub fn tell(directory: Key, events: u32) {
    if is_active() {
        let kinds = KINDS.iter().filter(|(from, _)| events & from != 0);
        tell_kinds(directory, kinds.fold(0, |bits, (_, kind)| bits | kind));
    }
}

/// A name in a directory became another one there.
pub fn tell_rename(directory: Key) {
    tell_kinds(directory, DN_RENAME);
}

fn tell_kinds(directory: Key, kinds: u32) {
    let mut at = 0;
    loop {
        let file = {
            let mut watches = WATCHES.lock();
            let Some(watch) = watches.get(at) else { return };
            if watch.directory != directory || watch.wanted & kinds == 0 {
                at += 1;
                continue;
            }
            let file = watch.file.upgrade();
            if watch.wanted & DN_MULTISHOT != 0 {
                at += 1;
            } else {
                watches.remove(at);
                COUNT.store(watches.len(), Relaxed);
            }
            file
        };
        file.iter().for_each(|file| sigio::tell_message(file));
    }
}
