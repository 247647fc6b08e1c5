//! dnotify (F_NOTIFY): the holder of an open directory gets a signal when something happens in it,
//! until the process that requested this closes a descriptor of that open directory, whoever else
//! holds one.

use super::file::File;
use super::inode::{Key, Kind};
use super::inotify;
use super::sigio;
use crate::errno::{Errno, Result};
use crate::mm::heap::check_room;
use crate::sync::Mutex;
use crate::task::current;
use crate::task::sched::cond_resched;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;

struct Watch {
    file: Weak<File>,
    /// The descriptor by which the watch was requested.
    descriptor: i32,
    /// DN_* bits.
    wanted: u32,
}

/// A directory, the address of an open file, which is not reused while the file is watched, and
/// that of the watcher's descriptor table.
type Place = (Key, usize, usize);

fn place(file: &File, descriptors: usize) -> Place {
    (inotify::key(file.dentry()), file.address(), descriptors)
}

fn own_descriptors() -> usize {
    Arc::as_ptr(&current().files()).addr()
}

/// All watches, ordered so that those of a directory are adjacent.
static WATCHES: Mutex<BTreeMap<Place, Watch>> = Mutex::new(BTreeMap::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether there are any watches.
#[inline]
pub fn is_active() -> bool {
    COUNT.load(Relaxed) > 0
}

/// inotify events, and the DN_* bit of each.
const KINDS: [(u32, u32); 5] = [
    (IN_ACCESS, DN_ACCESS),
    (IN_MODIFY, DN_MODIFY),
    (IN_CREATE | IN_MOVED_TO, DN_CREATE),
    (IN_DELETE | IN_MOVED_FROM, DN_DELETE),
    (IN_ATTRIB, DN_ATTRIB),
];

/// Makes the directory `file` send signals, with descriptor `fd`, for further kinds of events; for
/// none at all if `wanted` is 0.
///
/// # Errors
/// ENOTDIR, ENOMEM.
pub fn watch(file: &Arc<File>, fd: i32, wanted: u32) -> Result<()> {
    if wanted & !DN_MULTISHOT == 0 {
        flush(file, own_descriptors());
        return Ok(());
    }
    if file.dentry().kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    sigio::own(file)?;
    let _room = check_room()?;
    let descriptors = own_descriptors();
    let place = place(file, descriptors);
    let mut watches = WATCHES.lock();
    let watch = watches.entry(place).or_insert_with(|| Watch {
        file: Arc::downgrade(file),
        descriptor: fd,
        wanted: 0,
    });
    watch.descriptor = fd;
    watch.wanted |= wanted;
    COUNT.store(watches.len(), Relaxed);
    drop(watches);
    // Another thread may have closed it meanwhile.
    if !current().file(fd).is_ok_and(|now| Arc::ptr_eq(&now, file)) {
        flush(file, descriptors);
    }
    Ok(())
}

/// A process (identified by its descriptor table) closed a descriptor of the file, or wants no more
/// signals.
#[inline]
pub fn flush(file: &File, descriptors: usize) {
    if is_active() {
        end_watch(file, descriptors);
    }
}

#[cold]
fn end_watch(file: &File, descriptors: usize) {
    if file.dentry().kind() == Kind::Directory {
        // A moved file returns its address under a sleeping lock.
        let place = place(file, descriptors);
        let gone = take(&mut WATCHES.lock(), &place);
        drop(gone);
    }
}

fn take(watches: &mut BTreeMap<Place, Watch>, place: &Place) -> Option<Watch> {
    let gone = watches.remove(place);
    COUNT.store(watches.len(), Relaxed);
    gone
}

/// Reports inotify events that happened in (or to) a directory.
pub fn notify(directory: Key, events: u32) {
    if is_active() {
        let kinds = KINDS.iter().filter(|(from, _)| events & from != 0);
        let kinds = kinds.fold(0, |bits, (_, kind)| bits | kind);
        // Most events are not reported, such as opening or closing the directory.
        if kinds != 0 {
            notify_kinds(directory, kinds);
        }
    }
}

/// Reports a rename within a directory.
pub fn notify_rename(directory: Key) {
    notify_kinds(directory, DN_RENAME);
}

fn notify_kinds(directory: Key, kinds: u32) {
    let mut from = (directory, 0, 0);
    loop {
        let (file, descriptor, _gone) = {
            let mut watches = WATCHES.lock();
            let mut rest = watches.range(from..=(directory, usize::MAX, usize::MAX));
            let Some((&place, watch)) = rest.next() else {
                return;
            };
            // No descriptor table is at the highest address.
            from = (directory, place.1, place.2 + 1);
            if watch.wanted & kinds == 0 {
                drop(watches);
                cond_resched();
                continue;
            }
            let once = watch.wanted & DN_MULTISHOT == 0;
            let (file, descriptor) = (watch.file.clone(), watch.descriptor);
            (file, descriptor, once.then(|| take(&mut watches, &place)))
        };
        file.upgrade()
            .iter()
            .for_each(|file| sigio::notify_message_of(file, descriptor));
        cond_resched();
    }
}
