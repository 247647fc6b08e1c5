//! inotify: events of files and directories, reported to their watchers.

use super::dentry::Dentry;
use super::dnotify;
use super::file::{File, FileOps, OpenFlags};
use super::inode::{Inode, Key, Kind};
use super::io::Sink;
use super::poll::{Events, PollTable, WaitSource};
use super::seq_file::Text;
use crate::errno::{Errno, Result};
use crate::hash::{self, HashMap};
use crate::mm::heap::{check_room, try_arc, try_bytes};
use crate::mm::user::UserPtr;
use crate::put;
use crate::sync::Mutex;
use crate::task::current;
use crate::task::sched::{cond_resched, cond_resched_interruptible};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::FIONREAD;

/// The maximum queue length of a new instance (`max_queued_events`).
pub static MAX_EVENTS: AtomicUsize = AtomicUsize::new(16384);
/// The maximum number of instances of a user (`max_user_instances`).
pub static MAX_INSTANCES: AtomicUsize = AtomicUsize::new(128);
/// The maximum number of watches of a user (`max_user_watches`).
pub static MAX_WATCHES: AtomicUsize = AtomicUsize::new(65536);

struct Event {
    watch: i32,
    mask: u32,
    cookie: u32,
    /// The name in the watched directory, if the event is about an entry.
    name: Option<Arc<[u8]>>,
}

impl Event {
    /// Reports that events were lost.
    const OVERFLOW: Self = Event {
        watch: -1,
        mask: IN_Q_OVERFLOW,
        cookie: 0,
        name: None,
    };

    fn name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or_default()
    }

    /// The size as a `struct inotify_event`: the name ends with a zero and is padded to a multiple
    /// of 16.
    fn len(&self) -> usize {
        let name = match self.name().len() {
            0 => 0,
            len => (len + 1).next_multiple_of(16),
        };
        16 + name
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let len = self.len();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
        for word in [self.watch as u32, self.mask, self.cookie, len as u32 - 16] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(self.name());
        bytes.resize(len, 0);
        Ok(bytes)
    }

    fn same(&self, other: &Event) -> bool {
        (self.watch, self.mask, self.cookie) == (other.watch, other.mask, other.cookie)
            && self.name == other.name
    }
}

struct State {
    events: VecDeque<Event>,
    /// The bytes of the names of the events.
    names: usize,
    /// The number of events before the one that reports lost events (IN_Q_OVERFLOW).
    overflow: Option<usize>,
    /// The watched inodes, by watch number.
    watches: BTreeMap<i32, Key>,
    /// The watch number that was used last.
    last: i32,
}

impl State {
    const fn new() -> Self {
        State {
            events: VecDeque::new(),
            names: 0,
            overflow: None,
            watches: BTreeMap::new(),
            last: 0,
        }
    }

    /// The number of the next watch: numbers are reused late (Linux's `idr_alloc_cyclic`).
    fn next_number(&self) -> Option<i32> {
        let next = self.last.checked_add(1);
        let free = next.and_then(|next| self.free_from(next));
        free.or_else(|| self.free_from(1))
    }

    /// The first unused watch number from `first` on.
    fn free_from(&self, first: i32) -> Option<i32> {
        let mut free = Some(first);
        let mut used = self.watches.range(first..).map(|(&number, _)| number);
        while free.is_some() && free == used.next() {
            free = free.and_then(|number| number.checked_add(1));
        }
        free
    }

    /// The event to read next.
    fn first(&self) -> Option<&Event> {
        match self.overflow {
            Some(0) => Some(&Event::OVERFLOW),
            _ => self.events.front(),
        }
    }

    fn take_first(&mut self) -> Option<Event> {
        match self.overflow {
            Some(0) => {
                self.overflow = None;
                Some(Event::OVERFLOW)
            }
            ahead => {
                self.overflow = ahead.map(|ahead| ahead - 1);
                let event = self.events.pop_front()?;
                self.names -= event.name().len();
                Some(event)
            }
        }
    }

    /// The bytes of events and watches.
    fn held(&self) -> usize {
        let watch = size_of::<(i32, Key)>() + size_of::<(Place, Watch)>();
        self.events.capacity() * size_of::<Event>() + self.names + self.watches.len() * watch
    }

    /// Adds an event, or records that it was lost.
    fn add(&mut self, event: Option<Event>, most: usize) {
        match event {
            Some(event) if self.events.len() < most && self.events.try_reserve(1).is_ok() => {
                self.names += event.name().len();
                self.events.push_back(event);
            }
            _ => _ = self.overflow.get_or_insert(self.events.len()),
        }
    }
}

/// An open inotify file.
pub struct Inotify {
    state: Mutex<State>,
    /// The user to which it is charged.
    user: u32,
    /// The maximum queue length.
    most: usize,
    readable: Arc<WaitSource>,
}

struct Watch {
    instance: Weak<Inotify>,
    number: i32,
    mask: u32,
    /// Whether the watched inode is a directory.
    is_directory: bool,
    /// The inode, where it has its key only while it is held.
    held: Option<Arc<dyn Inode>>,
}

/// The counts of a user.
#[derive(Clone, Copy, Default)]
struct Usage {
    instances: usize,
    watches: usize,
}

static USERS: Mutex<HashMap<u32, Usage>> = Mutex::new(hash::new());

/// Changes a user's counts, unless `change` refuses.
fn charge(user: u32, change: impl FnOnce(&mut Usage) -> Result<()>) -> Result<()> {
    let mut users = USERS.lock();
    users.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
    change(users.get_or_insert_with(user, Usage::default))
}

/// Reduces a user's counts, which needs no memory; a user without any is removed.
fn uncharge(user: u32, instances: usize, watches: usize) {
    let mut users = USERS.lock();
    if let Some(usage) = users.get_mut(&user) {
        usage.instances -= instances;
        usage.watches -= watches;
        if usage.instances == 0 {
            users.remove(&user);
        }
    }
}

/// A watched inode, and the address of the instance, which has a single watch for it.
type Place = (Key, usize);

/// All watches, ordered so that those of an inode are adjacent.
static WATCHES: Mutex<BTreeMap<Place, Watch>> = Mutex::new(BTreeMap::new());
/// The number of watches: if it is 0, events cost nothing more.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A new instance, with the flags of inotify_init1.
pub fn new(flags: u32) -> Result<Arc<File>> {
    let user = current().with_credentials(|who| who.uid);
    let readable = WaitSource::new()?;
    charge(user, |usage| {
        if usage.instances >= MAX_INSTANCES.load(Relaxed) {
            return Err(Errno::EMFILE);
        }
        usage.instances += 1;
        Ok(())
    })?;
    // From here on, dropping the instance releases the charge.
    let instance = try_arc(Inotify {
        state: Mutex::new(State::new()),
        user,
        most: MAX_EVENTS.load(Relaxed),
        readable,
    })?;
    super::anonymous::file(
        "inotify",
        instance,
        OpenFlags(O_RDONLY | flags & O_NONBLOCK),
    )
}

/// The inode of `dentry`.
pub(super) fn key(dentry: &Dentry) -> Key {
    dentry.inode().key()
}

/// A number that links the two events of a rename.
fn new_cookie() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Whether there are any watches.
#[inline]
pub fn is_active() -> bool {
    COUNT.load(Relaxed) > 0 || dnotify::is_active()
}

/// Reports an event of the inode of `dentry` to watchers of it and of its directory.
pub fn about(dentry: &Arc<Dentry>, mask: u32) {
    if !is_active() {
        return;
    }
    let mask = mask
        | if dentry.kind() == Kind::Directory {
            IN_ISDIR
        } else {
            0
        };
    if let Some(parent) = dentry.parent() {
        let gone = dentry.inode().is_unlinked(dentry);
        let mask = mask | if gone { IN_EXCL_UNLINK } else { 0 };
        notify(key(&parent), mask, 0, Some(&dentry.name()));
    }
    notify(key(dentry), mask, 0, None);
}

/// The link count of the inode of `dentry` changed.
pub fn linked(dentry: &Dentry) {
    if is_active() && dentry.kind() != Kind::Directory {
        notify(key(dentry), IN_ATTRIB, 0, None);
    }
}

/// A name of the inode of `dentry` was removed; with the last name, its watches end.
pub fn unlinked(dentry: &Dentry) {
    if is_active() {
        linked(dentry);
        if dentry.inode().is_unlinked(dentry) {
            deleted(dentry);
        }
    }
}

/// The inode of `dentry` was moved, by its names in these directories.
pub fn moved(dentry: &Dentry, (from, old): (&Dentry, &[u8]), (to, new): (&Dentry, &[u8])) {
    if is_active() {
        let (cookie, is_directory) = (new_cookie(), dentry.kind() == Kind::Directory);
        in_directory(from, old, is_directory, IN_MOVED_FROM, cookie);
        in_directory(to, new, is_directory, IN_MOVED_TO, cookie);
        if key(from) == key(to) {
            dnotify::notify_rename(key(from));
        }
        notify(key(dentry), IN_MOVE_SELF, 0, None);
    }
}

/// The name `name` in `directory`, of a directory or not, was added or removed.
pub fn in_directory(directory: &Dentry, name: &[u8], is_directory: bool, mask: u32, cookie: u32) {
    if is_active() {
        notify(
            key(directory),
            mask | if is_directory { IN_ISDIR } else { 0 },
            cookie,
            Some(name),
        );
    }
}

fn deleted(dentry: &Dentry) {
    let key = key(dentry);
    notify(key, IN_DELETE_SELF, 0, None);
    // Only forward, since others may add watches all the time.
    let mut from = Some(0);
    while let Some(start) = from {
        let found = next(&WATCHES.lock(), (key, start)).map(|(place, _)| place);
        let Some(place) = found else { break };
        let gone = take(place, |_| true);
        gone.into_iter().for_each(Watch::ignored);
        cond_resched();
        from = place.1.checked_add(1);
    }
}

/// The file system with the device number `device` is unmounted: ends its watches.
pub fn unmounted(device: u64) {
    let mut from = ((device, 0), 0);
    while is_active() {
        let found = {
            let watches = WATCHES.lock();
            let mut rest = watches.range(from..=((device, u64::MAX), usize::MAX));
            rest.next().map(|(&place, _)| place)
        };
        let Some(place) = found else { return };
        if let Some(watch) = take(place, |_| true) {
            if let Some(instance) = watch.instance.upgrade() {
                let kind = if watch.is_directory { IN_ISDIR } else { 0 };
                instance.push(Some(Event {
                    watch: watch.number,
                    mask: IN_UNMOUNT | kind,
                    cookie: 0,
                    name: None,
                }));
            }
            watch.ignored();
        }
        cond_resched();
        from = place;
    }
}

/// The watch at a place, or else the next one of the same inode.
fn next(watches: &BTreeMap<Place, Watch>, from: Place) -> Option<(Place, &Watch)> {
    let mut rest = watches.range(from..=(from.0, usize::MAX));
    rest.next().map(|(&place, watch)| (place, watch))
}

/// Removes a watch, if `is_it`.
fn take(place: Place, is_it: impl FnOnce(&Watch) -> bool) -> Option<Watch> {
    let mut watches = WATCHES.lock();
    watches.get(&place).filter(|watch| is_it(watch))?;
    let gone = watches.remove(&place);
    COUNT.store(watches.len(), Relaxed);
    gone
}

/// Reports the events of `mask` to the watchers of `key`. With IN_EXCL_UNLINK in `mask`, the file
/// no longer has a name, and watchers with that flag are skipped.
fn notify(key: Key, mask: u32, cookie: u32, name: Option<&[u8]>) {
    dnotify::notify(key, mask);
    let mut shared = None;
    let mut from = Some(0);
    while let Some(first) = from {
        let found = {
            let watches = WATCHES.lock();
            let Some((place, watch)) = next(&watches, (key, first)) else {
                return;
            };
            from = place.1.checked_add(1);
            (watch.mask & mask & IN_ALL_EVENTS != 0 && watch.mask & mask & IN_EXCL_UNLINK == 0)
                .then(|| (watch.instance.upgrade(), watch.number, watch.mask))
        };
        if let Some((Some(instance), watch, wanted)) = found {
            if let (Some(name), None) = (name, &shared) {
                shared = try_bytes(name).ok();
            }
            let reported = name.is_none() || shared.is_some();
            instance.push(reported.then(|| Event {
                watch,
                mask: mask & !IN_EXCL_UNLINK,
                cookie,
                name: shared.clone(),
            }));
            if wanted & IN_ONESHOT != 0 {
                _ = instance.unwatch(watch);
            }
        }
        cond_resched();
    }
}

impl Watch {
    fn ignored(self) {
        if let Some(instance) = self.instance.upgrade() {
            if instance.state.lock().watches.remove(&self.number).is_some() {
                instance.uncharge(1);
            }
            instance.push(Some(Event {
                watch: self.number,
                mask: IN_IGNORED,
                cookie: 0,
                name: None,
            }));
        }
    }
}

impl Inotify {
    /// Adds an event, or a lost one if there was no memory for it.
    fn push(&self, event: Option<Event>) {
        let mut state = self.state.lock();
        let last = state.events.back().filter(|_| state.overflow.is_none());
        let again = last.zip(event.as_ref());
        if again.is_some_and(|(last, event)| last.same(event)) {
            return;
        }
        state.add(event, self.most);
        drop(state);
        self.readable.notify();
    }

    /// Watches the inode of `dentry` for `mask`, or changes the mask of its watch. Returns the
    /// watch's number.
    pub fn watch(self: &Arc<Self>, dentry: &Dentry, mask: u32) -> Result<i32> {
        let _room = check_room()?;
        let (inode, key) = (dentry.inode(), key(dentry));
        let mut watches = WATCHES.lock();
        if let Some(watch) = watches.get_mut(&self.place(key)) {
            if mask & IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            watch.mask = if mask & IN_MASK_ADD != 0 {
                watch.mask | mask
            } else {
                mask
            };
            return Ok(watch.number);
        }
        // As on Linux, a number is used up even if there is no room.
        let number = {
            let mut state = self.state.lock();
            state.last = state.next_number().ok_or(Errno::ENOSPC)?;
            state.last
        };
        charge(self.user, |usage| {
            if usage.watches >= MAX_WATCHES.load(Relaxed) {
                return Err(Errno::ENOSPC);
            }
            usage.watches += 1;
            Ok(())
        })?;
        self.state.lock().watches.insert(number, key);
        let watch = Watch {
            instance: Arc::downgrade(self),
            number,
            mask,
            is_directory: dentry.kind() == Kind::Directory,
            held: inode
                .identity()
                .filter(|_| !inode.is_unlinked(dentry))
                .map(|_| inode.clone()),
        };
        watches.insert(self.place(key), watch);
        COUNT.store(watches.len(), Relaxed);
        Ok(number)
    }

    /// The position of its watch of an inode.
    fn place(&self, key: Key) -> Place {
        (key, core::ptr::from_ref(self).addr())
    }

    /// Ends a watch.
    pub fn unwatch(&self, number: i32) -> Result<()> {
        let key = self
            .state
            .lock()
            .watches
            .remove(&number)
            .ok_or(Errno::EINVAL)?;
        self.uncharge(1);
        let watch = self.take(key, number);
        watch.into_iter().for_each(Watch::ignored);
        Ok(())
    }

    /// Returns the charge of `watches`.
    fn uncharge(&self, watches: usize) {
        uncharge(self.user, 0, watches);
    }

    /// The events of a watch, 0 if the watch is gone, and the inode as its attributes show it.
    fn shown(&self, key: Key, number: i32) -> (u32, Key) {
        let (mask, held) = {
            let watches = WATCHES.lock();
            let own = watches.get(&self.place(key));
            let own = own.filter(|watch| watch.number == number);
            own.map_or((0, None), |watch| (watch.mask, watch.held.clone()))
        };
        (mask, held.map_or(key, |inode| inode.shown_key()))
    }

    fn take(&self, key: Key, number: i32) -> Option<Watch> {
        take(self.place(key), |watch| watch.number == number)
    }
}

impl Drop for Inotify {
    fn drop(&mut self) {
        let watches = core::mem::take(&mut self.state.lock().watches);
        uncharge(self.user, 1, watches.len());
        for (number, key) in watches {
            self.take(key, number);
            cond_resched();
        }
    }
}

impl FileOps for Inotify {
    fn ignores_seeks(&self) -> bool {
        true
    }

    fn has_async(&self) -> bool {
        true
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn held(&self) -> usize {
        self.state.lock().held()
    }

    fn read(&self, file: &File, to: &mut Sink, _position: u64) -> Result<usize> {
        let mut total = 0;
        loop {
            let event = {
                let mut state = self.state.lock();
                match state.first() {
                    Some(event) if event.len() > to.left() && total == 0 => {
                        return Err(Errno::EINVAL);
                    }
                    Some(event) if event.len() <= to.left() => state.take_first(),
                    _ => None,
                }
            };
            match event {
                Some(event) => {
                    total += to.put(&event.encode()?)?;
                    if cond_resched_interruptible().is_err() {
                        return Ok(total);
                    }
                }
                None if total > 0 => return Ok(total),
                None if file.flags().nonblocking() => return Err(Errno::EAGAIN),
                None => self.readable.wait(|| self.state.lock().first().is_some())?,
            }
        }
    }

    fn poll(&self, _file: &File, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&self.readable);
        }
        let mut events = Events::empty();
        events.set(Events::IN, self.state.lock().first().is_some());
        events
    }

    fn describe(&self, text: &mut Text) {
        let before = |end: Option<i32>| {
            let state = self.state.lock();
            let mut rest = match end {
                Some(end) => state.watches.range(..end),
                None => state.watches.range(..),
            };
            rest.next_back().map(|(number, key)| (*number, *key))
        };
        // The newest first. There may be as many as the user's limit.
        let mut next = before(None);
        while let Some((number, key)) = next {
            cond_resched();
            next = before(Some(number));
            let (mask, (device, inode)) = self.shown(key, number);
            put!(
                text,
                "inotify wd:{number:x} ino:{inode:x} sdev:{device:x} mask:{mask:x} ignored_mask:0\n"
            );
        }
    }

    fn ioctl(&self, _file: &File, request: u32, argument: usize) -> Result<usize> {
        if request != FIONREAD {
            return Err(Errno::ENOTTY);
        }
        let state = self.state.lock();
        let lost = state.overflow.map_or(0, |_| Event::OVERFLOW.len());
        let len = lost + state.events.iter().map(Event::len).sum::<usize>();
        drop(state);
        UserPtr::new(argument).write(&(len as i32))?;
        Ok(0)
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn what_an_instance_holds_counts() {
        let mut state = State::new();
        assert_eq!(state.held(), 0);
        for _ in 0..100 {
            let name = try_bytes(&[b'x'; 255]).ok();
            state.add(Some(Event { watch: 1, mask: IN_CREATE, cookie: 0, name }), 100);
        }
        assert!(state.held() >= 100 * (255 + size_of::<Event>()));
        while state.take_first().is_some() {}
        assert_eq!(state.held(), state.events.capacity() * size_of::<Event>());
    }

    fn numbers_of_watches_start_again_after_the_last() {
        let mut state = State::new();
        let mut add = |last| {
            state.last = last;
            let number = state.next_number().unwrap();
            state.watches.insert(number, (0, 0));
            number
        };
        assert_eq!([0, 1, 2].map(&mut add), [1, 2, 3]);
        assert_eq!(add(i32::MAX - 1), i32::MAX);
        assert_eq!(add(i32::MAX - 1), 4);
        assert_eq!(add(i32::MAX), 5);
        assert_eq!(add(5), 6);
    }
}
