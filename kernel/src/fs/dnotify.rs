//! dnotify (F_NOTIFY): who holds a directory open gets a signal when something happens in it.

use super::file::File;
use super::inode::Kind;
use super::inotify::{self, Key};
use super::sigio;
use crate::errno::{Errno, Result};
use crate::hash::Lists;
use crate::sync::Mutex;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;

struct Watch {
    file: Weak<File>,
    /// DN_* bits.
    wanted: u32,
}

impl Watch {
    fn is_of(&self, file: &File) -> bool {
        core::ptr::eq(self.file.as_ptr(), file)
    }
}

/// Watches by their directory.
static WATCHES: Mutex<Lists<Key, Watch>> = Mutex::new(Lists::new());
/// How many directories have any.
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
    let directory = inotify::key(file.entry());
    let mut of_directory = watches.of_mut(&directory).iter_mut();
    if let Some(watch) = of_directory.find(|watch| watch.is_of(file)) {
        watch.wanted |= wanted;
        return Ok(());
    }
    let file = Arc::downgrade(file);
    watches.push(directory, Watch { file, wanted })?;
    COUNT.store(watches.len(), Relaxed);
    Ok(())
}

/// The open file is closed, or wants no more signals.
pub fn forget(file: &File) {
    if is_active() && file.entry().kind() == Kind::Directory {
        let gone = take(inotify::key(file.entry()), |watch| watch.is_of(file));
        drop(gone);
    }
}

fn take(directory: Key, is_it: impl Fn(&Watch) -> bool) -> Option<Watch> {
    let mut watches = WATCHES.lock();
    let gone = watches.take(&directory, is_it);
    COUNT.store(watches.len(), Relaxed);
    gone
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
        let found = {
            let watches = WATCHES.lock();
            let Some(watch) = watches.of(&directory).get(at) else {
                return;
            };
            let once = watch.wanted & DN_MULTISHOT == 0;
            (watch.wanted & kinds != 0).then(|| (watch.file.clone(), once))
        };
        let Some((file, once)) = found else {
            at += 1;
            continue;
        };
        if !once {
            at += 1;
        } else if take(directory, |watch| watch.file.ptr_eq(&file)).is_none() {
            // Another CPU took this one; the next has its place.
            continue;
        }
        file.upgrade()
            .iter()
            .for_each(|file| sigio::tell_message(file));
    }
}
