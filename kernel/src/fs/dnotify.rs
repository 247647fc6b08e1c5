//! dnotify (F_NOTIFY): the holder of an open directory gets a signal when something happens in it.

use super::file::File;
use super::inode::Kind;
use super::inotify::{self, Key};
use super::sigio;
use crate::errno::{Errno, Result};
use crate::mm::heap::check_room;
use crate::sync::Mutex;
use crate::task::sched::cond_resched;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;

struct Watch {
    file: Weak<File>,
    /// DN_* bits.
    wanted: u32,
}

/// A directory, and the address of an open file, which is no other's while that is watched.
type Place = (Key, usize);

fn place(file: &File) -> Place {
    (inotify::key(file.dentry()), file.address())
}

/// All watches, ordered so that those of a directory are neighbours.
static WATCHES: Mutex<BTreeMap<Place, Watch>> = Mutex::new(BTreeMap::new());
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

/// Makes the directory that `file` is send signals, with descriptor `fd`, for more kinds of
/// events; for none at all with 0.
///
/// # Errors
/// ENOTDIR, ENOMEM.
pub fn watch(file: &Arc<File>, fd: i32, wanted: u32) -> Result<()> {
    if wanted & !DN_MULTISHOT == 0 {
        remove_file(file);
        return Ok(());
    }
    if file.dentry().kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    check_room()?;
    sigio::own(file, fd)?;
    let place = place(file);
    let mut watches = WATCHES.lock();
    let watch = watches.entry(place).or_insert_with(|| Watch {
        file: Arc::downgrade(file),
        wanted: 0,
    });
    watch.wanted |= wanted;
    COUNT.store(watches.len(), Relaxed);
    Ok(())
}

/// The open file is closed, or wants no more signals.
pub fn remove_file(file: &File) {
    if is_active() && file.dentry().kind() == Kind::Directory {
        // A file that was moved says under a sleeping lock where it was.
        let place = place(file);
        let gone = take(&mut WATCHES.lock(), &place);
        drop(gone);
    }
}

fn take(watches: &mut BTreeMap<Place, Watch>, place: &Place) -> Option<Watch> {
    let gone = watches.remove(place);
    COUNT.store(watches.len(), Relaxed);
    gone
}

/// Events of inotify's kinds happened in (or to) a directory.
pub fn notify(directory: Key, events: u32) {
    if is_active() {
        let kinds = KINDS.iter().filter(|(from, _)| events & from != 0);
        let kinds = kinds.fold(0, |bits, (_, kind)| bits | kind);
        // Most events notify nobody, such as that the directory was opened or closed.
        if kinds != 0 {
            notify_kinds(directory, kinds);
        }
    }
}

/// A name in a directory became another one there.
pub fn notify_rename(directory: Key) {
    notify_kinds(directory, DN_RENAME);
}

fn notify_kinds(directory: Key, kinds: u32) {
    let mut from = Some(0);
    while let Some(first) = from {
        let (file, _gone) = {
            let mut watches = WATCHES.lock();
            let mut rest = watches.range((directory, first)..=(directory, usize::MAX));
            let Some((&place, watch)) = rest.next() else {
                return;
            };
            from = place.1.checked_add(1);
            if watch.wanted & kinds == 0 {
                drop(watches);
                cond_resched();
                continue;
            }
            let once = watch.wanted & DN_MULTISHOT == 0;
            let file = watch.file.clone();
            (file, once.then(|| take(&mut watches, &place)))
        };
        file.upgrade()
            .iter()
            .for_each(|file| sigio::notify_message(file));
        cond_resched();
    }
}
